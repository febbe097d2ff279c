#!/bin/sh
# How much a run can reach, and that it cannot reach functions that choose; reach.py says how.
command -v python3 > /dev/null && command -v objdump > /dev/null || { echo "no python3 or no objdump: skipped"; exit 77; }
! grep -q -a __asan_init .libs/libecornn.so || { echo "a sanitizer adds functions: skipped"; exit 77; }
[ -s tests/build/objects ] || { echo "no list tests/build/objects of what make built"; exit 99; }
[ "$(uname -m)" = x86_64 ] || { echo "written for the relocations of x86-64: skipped"; exit 77; }
# File names have no blanks: unquoted on purpose.
exec python3 "${srcdir:-.}/tests/build/reach.py" "${srcdir:-.}" $(cat tests/build/objects)
