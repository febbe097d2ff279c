#!/bin/sh
# Programs compiled with the header of 1.0, kept in tests/data/header-1.0 without its comments, run with
# this library, and print what they print when compiled with today's header.  The kept header never
# changes.
set -eu
root=${srcdir:-.}
[ -e .libs/libecornn.so ] || { echo "no .libs/libecornn.so: skipped"; exit 77; }
! grep -q -a __asan_init .libs/libecornn.so || CC="${CC:-cc} -fsanitize=address,undefined" ASAN_OPTIONS=detect_leaks=0
export ASAN_OPTIONS="${ASAN_OPTIONS-}" # examples/hello leaves what ends with it
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-kept.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/ecornn"
cp "$root/tests/data/header-1.0/ecornn.h.kept" "$work/ecornn.h"
for name in types wisdom experimental; do
    cp "$root/tests/data/header-1.0/$name.h.kept" "$work/ecornn/$name.h"
done
cp include/ecornn/version.h "$work/ecornn/"
# $CC may hold options: unquoted on purpose.
for program in examples/hello examples/own_cell examples/lengths tests/build/consumer; do
    for headers in "$work" "$root/include"; do
        ${CC:-cc} -std=c11 -Wall -Werror -I "$headers" -I include "$root/$program.c" .libs/libecornn.so \
            -lm -Wl,-rpath,"$PWD/.libs" -o "$work/program"
        "$work/program" > "$work/printed.$(basename "$headers")"
    done
    cmp "$work/printed.$(basename "$work")" "$work/printed.include" || { echo "$program differs"; exit 1; }
done
echo "4 programs"
