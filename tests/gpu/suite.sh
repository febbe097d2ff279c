#!/bin/sh
# The whole suite of a machine with a GPU, with a summary at the end; in the build folder:
#     SOURCE/tests/gpu/suite.sh [PROCESSES]
# SANITIZE=1 runs compute-sanitizer's tools over a part of it, too; SOAK=1 ten thousand runs.
set -eu
processes=${1-8}
program=${TEST_GPU-tests/gpu/test_gpu}
logs=${LOGS-tests/gpu/suite.logs}
: "${ECORNN_MODULE_DIR=$PWD/.libs}" "${srcdir=$(dirname "$0")/../..}"
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
pack=$(dirname "$program")/../core/test_pack
if "$pack" > "$logs/pack" 2>&1; then echo "pack: $(grep -h Checks: "$logs/pack")"; else
    tail -n 20 "$logs/pack"
    failed=$((failed + 1))
fi
attention=$(dirname "$program")/test_attention
if "$attention" > "$logs/attention" 2>&1; then
    echo "attention: $(grep -h Checks: "$logs/attention")"
else
    tail -n 20 "$logs/attention"
    failed=$((failed + 1))
fi
others choices
others graph
others fail
others guard
others models
others net
others plan
if [ -n "${SOAK-}" ]; then others soak 10000 240; else others soak; fi

# A tool over some parts of so many, several at a time.  One test provokes an error of CUDA's, which is
# not what memcheck is for.  racecheck is a thousand times as slow, and more where many processes run:
# parts from 30 on, of 4000, are a case of the sweep each, without the large layers.
sanitize() {
    tool=$1
    several=$2
    parts=$3
    list=$4
    shift 4
    wrong=0
    rm -f "$logs/$tool".*
    for part in $list; do echo "$part"; done |
        OPTIONS="--tool $tool $*" PARTS=$parts PROGRAM=$program LOG=$logs/$tool \
            xargs -n 1 -P "$several" sh -c '
                ECORNN_SPIN_TIMEOUT=600 ECORNN_PART=$1/$PARTS compute-sanitizer $OPTIONS \
                    --error-exitcode 9 "$PROGRAM" > "$LOG.$1" 2>&1' sh || wrong=1
    cases=$(cat "$logs/$tool".* | awk '/^# cases:/ { cases += $3 } END { print cases + 0 }')
    [ "$wrong" = 0 ] && [ "$cases" -gt 0 ] && echo "$tool: $cases cases, no error" && return
    echo "$tool: $cases cases, errors"
    grep -h '=====' "$logs/$tool".* | head -n 30
    failed=$((failed + 1))
}
if [ -n "${SANITIZE-}" ]; then
    some=$(seq 0 $((processes - 1)))
    sanitize memcheck "$processes" $((8 * processes)) "$some" --report-api-errors no
    sanitize initcheck "$processes" $((8 * processes)) "$some"
    sanitize synccheck "$processes" $((8 * processes)) "$some"
    sanitize racecheck 5 4000 "$(seq 30 7 191)"
fi
[ "$failed" = 0 ] && echo "all passed" || { echo "$failed failed"; exit 1; }
