#!/bin/sh
# The whole suite of a machine with a GPU, with a summary at the end; in the build folder:
#     SOURCE/tests/gpu.sh [PROCESSES]
# SANITIZE=1 runs compute-sanitizer's tools over a part of it, too; SOAK=1 ten thousand runs.
set -eu
processes=${1-8}
program=${TEST_GPU-tests/test_gpu}
logs=${LOGS-tests/gpu.logs}
: "${ECORNN_MODULE_DIR=$PWD/.libs}" "${srcdir=$(dirname "$0")/..}"
export ECORNN_MODULE_DIR srcdir OMP_NUM_THREADS=1
mkdir -p "$logs"
failed=0

# The sweep, in parts side by side: most of the time is the reference's.
running=
for part in $(seq 0 $((processes - 1))); do
    ECORNN_PART=$part/$processes "$program" > "$logs/part.$part" 2>&1 &
    running="$running $!"
done
for process in $running; do
    wait "$process" || failed=$((failed + 1))
done
grep -h '^[^#]*:[EF]:\|^[a-z0-9-]*/.*:' "$logs"/part.* | head -n 40 || true
cat "$logs"/part.* | awk '
    /^# cases:/ { cases += $3 }
    /Checks:/ { for (i = 1; i < NF; i++) { if ($i == "Checks:") checks += $(i + 1)
        if ($i == "Failures:") failures += $(i + 1); if ($i == "Errors:") errors += $(i + 1) } }
    END { printf "sweep: %d cases against the reference; %d checks, %d failed\n", cases, checks,
        failures + errors; exit cases == 0 }' || { echo "nothing was compared"; failed=$((failed + 1)); }

# Streams, graphs, threads; NaN and lost words; random plans under load.
others() {
    name=$1
    shift
    if "${program}_$name" "$@" > "$logs/$name" 2>&1 && grep -q Checks: "$logs/$name"; then
        echo "$name: $(grep -h Checks: "$logs/$name")"
        grep -h '^# ' "$logs/$name" || true
    else
        tail -n 20 "$logs/$name"
        failed=$((failed + 1))
    fi
}
others graph
others guard
if [ -n "${SOAK-}" ]; then others soak 10000 240; else others soak; fi

# A tool over one case of so many, in so many processes.  One test provokes an error of CUDA's, which
# is not what memcheck is for.  racecheck finds hazards in kernels of cuBLAS's, too: those that add
# parts in clusters (nvjet_*_splitK_*).
sanitize() {
    tool=$1
    several=$2
    parts=$(($3 * processes))
    shift 3
    running=
    wrong=0
    for part in $(seq 0 $((several - 1))); do
        ECORNN_PATIENCE=600 ECORNN_PART=$part/$parts compute-sanitizer --tool "$tool" "$@" --error-exitcode 9 \
            "$program" > "$logs/$tool.$part" 2>&1 &
        running="$running $!"
    done
    for process in $running; do
        wait "$process" || wrong=$((wrong + 1))
    done
    cases=$(cat "$logs/$tool".* | awk '/^# cases:/ { cases += $3 } END { print cases + 0 }')
    echo "$tool: $cases cases, $wrong of $several processes with errors"
    [ "$wrong" = 0 ] && [ "$cases" -gt 0 ] && return
    grep -h '=====' "$logs/$tool".* | head -n 30
    failed=$((failed + 1))
}
if [ -n "${SANITIZE-}" ]; then
    sanitize memcheck "$processes" 8 --report-api-errors no
    sanitize initcheck "$processes" 8
    sanitize synccheck "$processes" 8
    sanitize racecheck 2 8
fi
[ "$failed" = 0 ] && echo "all passed" || { echo "$failed failed"; exit 1; }
