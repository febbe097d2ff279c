#!/bin/sh
# Makes the conformance vectors of tests/vectors, tests their bounds, and runs the library on them; then
# the cells of the library against their equations.
# Needs a Python with numpy; ONNX Runtime and PyTorch are left to tests/vectors/run.py by hand.
set -eu
source=${srcdir:-.}/tests/vectors
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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS
$python "$source/make.py" "$folder"
for cell in "${srcdir:-.}"/common/cell/*.cell; do # every built-in one
    cell=$(basename "$cell" .cell)
    grep -q "\"cell\": \"$cell\"" "$folder/index.json" || { echo "no vector of $cell"; exit 1; }
done
$python "$source/check_bounds.py"
unset OMP_NUM_THREADS
$python "$source/run.py" "$folder" --library "$library" \
    --only "expected,ecornn reference,ecornn cpu,ecornn cuda"
OMP_NUM_THREADS=1 $python "$source/../library/run.py" "$library"
