#!/bin/sh
# Each header of gpu/ compiles by itself, those of kernels by NVCC's front end for one architecture.  Unless
# ECORNN_TESTS is all, one kernel header in eight: each takes half a second.
set -eu
source=$(cd "${srcdir:-.}" && pwd)
nvcc=$(command -v "${NVCC:-nvcc}" || command -v /usr/local/cuda/bin/nvcc || true)
[ -n "$nvcc" ] || { echo "no nvcc: skipped"; exit 77; }
[ -x tools/cellgen ] || { echo "no tools/cellgen: skipped"; exit 77; }
built=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/gpu/cell"
tools/cellgen kernels "$source"/common/cell/*.cell > "$folder/gpu/cell/cells.inc"
cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include

failed=0
count=0
cd "$source"
every=8
[ "${ECORNN_TESTS-}" != all ] || every=1
for header in $(find gpu -name '*.cuh' | sort | awk -v every=$every 'NR % every == 0'); do
    count=$((count + 1))
    echo "#include \"$header\"" > "$folder/alone.cu"
    "$nvcc" -std=c++17 -arch=sm_90a --ptx -Xcicc -O0 -o /dev/null -I"$folder" -I. -Iinclude -I"$built/include" \
        "$folder/alone.cu" > "$folder/log" 2>&1 || { head -3 "$folder/log"; failed=1; }
done
for header in $(find gpu -name '*.h' | sort); do
    count=$((count + 1))
    echo "#include \"$header\"" > "$folder/alone.c"
    ${CC:-cc} -std=c11 -Wall -Werror -fsyntax-only -isystem "$cuda" -I. -Iinclude -I"$built/include" "$folder/alone.c" \
        > "$folder/log" 2>&1 || { head -3 "$folder/log"; failed=1; }
done
echo "cases: $count"
exit $failed
