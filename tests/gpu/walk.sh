#!/bin/sh
# Every kernel of layers in the CUDA module, forced and compared with the reference, with a count of each file
# at the end; in the build folder of a machine with a GPU:
#     SOURCE/tests/gpu/walk.sh [PROCESSES]
# The kernels there are: those of the module itself, by its symbols, but of attention and of joins in
# nets, which no layer has (test_attention, test_gpu_net).
set -eu
processes=${1-8}
program=${GPU_WALK-tests/gpu/walk}
logs=${LOGS-tests/gpu/walk.logs}
: "${ECORNN_MODULE_DIR=$PWD/.libs}" "${srcdir=$(dirname "$0")/../..}"
export ECORNN_MODULE_DIR srcdir OMP_NUM_THREADS=1
mkdir -p "$logs"
rm -f "$logs"/part.*

# A local symbol of a kernel's stub has the kernel's name, behind the length of its own; symbols
# follow the name of their file.
readelf -sW "$ECORNN_MODULE_DIR/ecornn-cuda.so" | awk '
    $4 == "FILE" { file = $NF; sub(/^tmpxft_[0-9a-f]*_[0-9a-f]*-[0-9]*_/, "", file); sub(/\..*/, "", file) }
    match($NF, /^_ZZL[0-9]+__device_stub_/) {
        name = substr($NF, 5); length_of = name + 0
        name = substr(name, length(length_of) + 1, length_of)
        if (file !~ /^attention_|^join$/)
            print file, substr(name, 15)
    }' | sort -u > "$logs/there"
[ -s "$logs/there" ] || { echo "the module has no symbols of kernels"; exit 99; }

running=
failed=0
trap 'kill $running 2> /dev/null || true' EXIT
trap 'exit 1' INT TERM
for part in $(seq 0 $((processes - 1))); do
    "$program" "$part/$processes" > "$logs/part.$part" 2>&1 &
    running="$running $!"
done
for process in $running; do
    wait "$process" || failed=$((failed + 1))
done
if grep -h '^skipped' "$logs"/part.*; then exit 77; fi
grep -h '^FAILED\|^[a-z0-9-]*/.*:' "$logs"/part.* | head -n 60 || true

# Of a kernel whose name one file only has, "-" stands for that file.
cat "$logs"/part.* | awk -v there="$logs/there" '
    BEGIN { while ((getline line < there) > 0) {
        split(line, at, " "); all[at[1]]++; total++; is[at[1], at[2]]; only[at[2]] = at[1]; count[at[2]]++; files[at[1]] } }
    $1 == "ran" { file = $2 == "-" && count[$3] == 1 ? only[$3] : $2
        if ((file, $3) in is) { if (!seen[file, $3]++) { ran[file]++; compared++ } }
        else others[$3] }
    /^# / { problems += $2; agreed += $4; runs += $9; refused += $10 }
    END {
        for (file in files) printf "%s: %d of %d\n", file, ran[file], all[file] | "sort"
        close("sort")
        for (key in is) { split(key, at, SUBSEP)
            if (!((at[1], at[2]) in seen)) print "never: " at[1] " " at[2] | "sort" }
        close("sort")
        n = own = 0
        for (name in others) if (name ~ /^units_/) own++; else n++
        printf "beside them %d kinds of persistent kernels compiled at run time, %d kernels of cuBLAS and the like\n", own, n
        printf "%d problems, %d of %d runs agreed, %d choices that cannot be\n", problems, agreed, runs, refused
        printf "%d of %d kernels compared with the reference\n", compared, total
        exit compared < total
    }' || failed=$((failed + 1))
[ "$failed" = 0 ] && echo "all passed" || { echo "$failed failed"; exit 1; }
