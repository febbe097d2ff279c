#!/bin/sh
# Does the library have the binary interface of the frozen headers tests/data/header-1.0?  No library
# is kept: two libraries of empty functions, compiled with those headers and with today's, show
# abidiff all types and signatures.  Functions may be added, and fields at the end of a structure, all
# of which have their size in front (test_growth).  The library itself must have every kept function.
set -eu
root=${srcdir:-.}
library=.libs/libecornn.so
[ -e "$library" ] || { echo "no $library: skipped"; exit 77; }
command -v abidiff > /dev/null || { echo "no abidiff: skipped"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-abi.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/kept/ecornn"
for header in ecornn ecornn/types ecornn/wisdom ecornn/experimental; do
    cp "$root/tests/data/header-1.0/${header#ecornn/}.h.kept" "$work/kept/$header.h"
done
constants=$(grep -ho 'ECORNN_[A-Z0-9_]*' "$work/kept/ecornn.h" "$work"/kept/ecornn/*.h |
    grep -v -e '_H$' -e API | sort -u)

# build FOLDER NAME: the functions that the headers in the folder declare, and a program that prints
# the constants; version.h is this build's.
build() {
    flags="-std=c11 -w -I include"
    echo '#include <ecornn/experimental.h>' > "$work/$2.c"
    # $CC and $flags are lists: unquoted on purpose.
    ${CC:-cc} -I "$1" $flags -E -P "$work/$2.c" | tr '\n' ' ' | sed 's/;/;\n/g' |
        sed -n 's/^ *__attribute__((visibility("default"))) \(.*\);$/\1 { __builtin_trap(); }/p' > "$work/$2.text"
    { cat "$work/$2.c"; echo '#include <stdio.h>'; echo 'int main(void) {'
        printf 'printf("%%s %%d\\n", "%s", (int)%s);\n' $(echo "$constants" | sed 's/.*/& &/'); echo '}'; } > "$work/$2.main.c"
    cat "$work/$2.text" >> "$work/$2.c"
    ${CC:-cc} -I "$1" $flags -g -fPIC -shared "$work/$2.c" -o "$work/$2.so"
    ${CC:-cc} -I "$1" $flags "$work/$2.main.c" -o "$work/$2.main" && "$work/$2.main" > "$work/$2.constants"
}
build "$work/kept" before
build "$root/include" after
diff "$work/before.constants" "$work/after.constants" || { echo "FAILED: other constants than in header-1.0"; exit 1; }

# Everything that abidiff prints is wrong, but for fields after the end of what a structure was.
abidiff --no-added-syms "$work/before.so" "$work/after.so" > "$work/printed" ||
    [ $(($? & 3)) = 0 ] || { echo "FAILED: abidiff"; exit 1; }
awk '/type size changed from/ { end = $5; next }
    /, at offset [0-9]+ \(in bits\)/ { sub(/.*, at offset /, ""); if ($1 >= end) next }
    /^$|changes summary: 0 Removed|indirect sub-type changes?:$|has sub-type changes:$|data member insertions?:$/ { next }
    /in (pointed to|unqualified underlying) type|underlying type .struct ecornn_.* changed:$|no data member changes/ { next }
    { wrong = 1 }
    END { exit wrong }' "$work/printed" || { cat "$work/printed"; echo "FAILED: not the interface of header-1.0"; exit 1; }

node=$(grep -o '^ECORNN_[0-9]*' lib/ecornn.map)
nm -D --defined-only --with-symbol-versions "$library" | sed 's/.* //' | sort > "$work/shown"
sed 's/.*[ *]\(ecornn_[a-z0-9_]*\)(.*/\1/; s/$/@@'"$node/" "$work/before.text" | sort > "$work/functions"
[ "$(wc -l < "$work/functions")" -ge 40 ] || { echo "FAILED: functions of 1.0 were not found"; exit 1; }
gone=$(comm -23 "$work/functions" "$work/shown")
[ -z "$gone" ] || { echo "$library lacks $gone"; exit 1; }
echo "cases: $(cat "$work/functions" "$work/before.constants" | wc -l)"
