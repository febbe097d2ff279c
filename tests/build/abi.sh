#!/bin/sh
# abi.sh SOURCE [COMMIT]: does the library have the binary interface of the last tag, or of COMMIT?
# Builds both.  Additions are allowed.
set -eu
source=$(cd "$1" && pwd)
command -v abidiff > /dev/null || { echo "no abidiff: skipped"; exit 77; }
git -C "$source" rev-parse HEAD > /dev/null 2>&1 || { echo "no repository: skipped"; exit 77; }
base=${2:-$(git -C "$source" describe --tags --abbrev=0 2> /dev/null || true)}
[ -n "$base" ] || { echo "no tag yet: skipped"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-abi.XXXXXX")
trap 'rm -rf "$work"' EXIT

# build COMMIT FOLDER
build() {
    mkdir "$work/$2"
    git -C "$source" archive "$1" | tar xf - -C "$work/$2"
    (
        cd "$work/$2"
        ./autogen.sh > log 2>&1
        ./configure -q --without-cuda --disable-static CFLAGS='-g -Og' >> log 2>&1
        make -s libecornn.la >> log 2>&1
    ) || { tail -20 "$work/$2/log"; echo "FAILED: $1 does not build"; exit 1; }
}
build "$base" before
build HEAD after
# Internal types, which programs see only as pointers.  Headers cannot tell them from public types, because
# some internal headers have the name of a public one.
printf '[suppress_type]\n  name_regexp = ^eco_\n' > "$work/private"
status=0
abidiff --suppressions "$work/private" --no-added-syms \
    --headers-dir1 "$work/before/include" --headers-dir2 "$work/after/include" \
    "$work/before/.libs/libecornn.so" "$work/after/.libs/libecornn.so" || status=$?
# Every change counts, because a program was compiled with the size of each structure (abidiff(1): 4).
[ $status = 0 ] || { echo "FAILED: not the interface of $base"; exit 1; }
echo "abi: as $base"
