#!/bin/sh
# The public header alone is C11 and C++11, with every warning; the internal ones of common and cpu
# compile alone as well, but for the words of the kernels, which mean something to one set each.
set -eu
root=${srcdir:-.}
flags="-I include -I $root/include -I $root -Wall -Wextra -Werror -fsyntax-only"
CC=${CC:-cc}

# $CC may hold options: unquoted on purpose.
for header in "$root/include/ecornn.h" "$root"/include/ecornn/*.h; do
    $CC -std=c11 -pedantic-errors $flags -x c "$header"
done
for header in "$root"/common/*.h "$root"/common/*/*.h "$root"/cpu/*.h "$root"/cpu/*/*.h \
    "$root"/cpu/*/*/*.h; do
    case $header in
    */cpu/isa/words.h | */cpu/isa/vec*.h) continue ;;
    esac
    $CC -std=c11 $flags -Wno-unused-function -x c "$header"
done
if command -v g++ > /dev/null; then
    g++ -std=c++11 -pedantic-errors $flags -x c++ "$root/include/ecornn.h"
else
    echo "skipped: the header as C++, there is no g++"
fi
