#!/bin/sh
# The cells of the library against their equations, values and gradients: tests/library/run.py.
set -eu
library=$PWD/.libs/libecornn.so
python=
for try in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $try -c 'import numpy' 2> /dev/null || python=$try
done
[ -n "$python" ] || { echo "no python3 with numpy: skipped"; exit 77; }
[ -e "$library" ] || { echo "no $library: skipped"; exit 77; }
if grep -q -a -e __asan_init -e __tsan_init "$library"; then
    echo "Python cannot load a library with this sanitizer: skipped"
    exit 77
fi
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS
exec $python "${srcdir:-.}/tests/library/run.py" "$library"
