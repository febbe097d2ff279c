#!/bin/sh
# All tests of a machine with a GPU, side by side, some minutes on 16 cores; in the build folder:
#     SOURCE/tests/gpu/suite.sh [PROCESSES [WHAT...]]
# WHAT: walk (every kernel), sweep, python, or the end of a test's name (choices, graph, pack, ...);
# else all.  SANITIZE=1 runs compute-sanitizer over the walk, too; SOAK=1 ten thousand runs.  LOGS: a
# folder for what they print.
set -eu
processes=${1-$(getconf _NPROCESSORS_ONLN)}
[ $# -eq 0 ] || shift
what=${*:-python guard plan sweep walk rows net fail soak models graph choices gpu/attention core/pack core/parts core/empty core/net core/streams core/tangent}
program=${TEST_GPU-tests/gpu/test_gpu}
tests=$(dirname "$program")/..
logs=${LOGS-tests/gpu/suite.logs}
python=${ECORNN_PYTHON:-python3}
source=$(cd "$(dirname "$0")/../.." && pwd)
: "${ECORNN_MODULE_DIR=$PWD/.libs}" "${ECORNN_LIBRARY=$PWD/.libs/libecornn.so}" "${srcdir=$source}"
PYTHONPATH=$source/python:$source/python/tests${PYTHONPATH:+:$PYTHONPATH}
ECORNN_TESTS=all
export ECORNN_MODULE_DIR ECORNN_LIBRARY srcdir PYTHONPATH ECORNN_TESTS
rm -rf "$logs"
mkdir -p "$logs"
mkdir -m 700 "$logs/cache"
ECORNN_CACHE=$(cd "$logs" && pwd)/cache
export ECORNN_CACHE
failed=0
began=$(date +%s)

# Lines of a job each: the name of its log, and the command.  Most of the time is the reference's on
# the CPU, and the compiler's of cells from text: parts in plenty, and what takes longest first.
parts=$((3 * processes))
jobs_of() {
    case $1 in
    walk) for part in $(seq 0 $((parts - 1))); do echo "walk.$part $tests/gpu/walk $part/$parts"; done ;;
    sweep) for part in $(seq 0 $((parts - 1))); do echo "sweep.$part env ECORNN_PART=$part/$parts $program"; done ;;
    python)
        for file in $(cd "$source" && grep -lE "cuda|def .*[( ]device[,)]" python/tests/test_*.py); do
            name=$(basename "$file" .py)
            echo "python.$name $python -m pytest -q -rs -p no:cacheprovider --tb=short $source/$file"
        done
        ;;
    rows)
        [ -x "$tests/gpu/rows" ] || { echo "rows: $tests/gpu/rows is not built" >&2 && return; }
        for type in f32 f32/fast bf16 f16; do
            echo "rows.$(basename $type) $tests/gpu/rows --row-invariant $type"
        done
        ;;
    soak) echo "soak ${program}_soak${SOAK:+ 10000 240}" ;;
    */*) echo "$(echo "$1" | tr / _) $tests/${1%/*}/test_${1#*/}" ;;
    *) echo "$1 ${program}_$1" ;;
    esac
}
for each in $what; do jobs_of "$each"; done > "$logs/jobs"
[ -z "${what##*python*}" ] && ! $python -c 'import pytest, torch; assert torch.cuda.is_available()' &&
    { echo "$python has no torch with CUDA, or no pytest; set ECORNN_PYTHON"; failed=$((failed + 1)); }

# A job is right where its program says so and has tried something.  Where Python lacks a module, a
# file of its tests is skipped, with a word.
LOGS=$logs OMP_NUM_THREADS=1 xargs -L 1 -P "$processes" sh -c '
    log=$LOGS/$1.log
    shift
    start=$(date +%s)
    status=0
    "$@" > "$log" 2>&1 || status=$?
    echo "status $status, $(($(date +%s) - start)) s" >> "$log"' sh < "$logs/jobs" || true
while read -r name command; do
    log=$logs/$name.log
    grep '^SKIPPED' "$log" || true
    if grep -q '^[1-9][0-9]* skipped in' "$log" && tail -n 1 "$log" | grep -q '^status [05],'; then
        continue
    elif ! tail -n 1 "$log" | grep -q '^status 0,' ||
        ! grep -q -e 'Checks: [1-9]' -e '^# [1-9][0-9]* problems' -e '[1-9][0-9]* passed' "$log"; then
        echo "---- failed: $command"
        said=$(grep -e '^[^#]*:[EF]:' -e '^[a-z0-9-]*/.*:' -e '^FAILED' -e '^E  ' "$log" | head -n 20)
        echo "${said:-$(tail -n 20 "$log")}"
        failed=$((failed + 1))
    fi
done < "$logs/jobs"

# ---- counts --------------------------------------------------------------------------------------

for each in $what; do
    name=$(echo "$each" | tr / _)
    case $each in
    walk) "$source/tests/gpu/kernels.sh" "$ECORNN_MODULE_DIR/ecornn-cuda.so" "$logs"/walk.*.log || failed=$((failed + 1)) ;;
    rows) grep -h '^# ' "$logs"/rows.*.log || true ;;
    sweep)
        cat "$logs"/sweep.*.log | awk '
            /^# cases:/ { cases += $3 }
            /Checks:/ { for (i = 1; i < NF; i++) { if ($i == "Checks:") checks += $(i + 1)
                if ($i ~ /^(Failures|Errors):/) failures += $(i + 1); } }
            END { printf "sweep: %d cases against the reference; %d checks, %d failed\n", cases, checks, failures }'
        ;;
    python) echo "python: $(cat "$logs"/python.*.log | awk '/ in [0-9.]*s/ { for (i = 1; i < NF; i++) n[$(i + 1)] += $i }
        END { printf "%d passed, %d failed, %d skipped", n["passed"] + n["passed,"], n["failed"] + n["failed,"], n["skipped"] + n["skipped,"] }')" ;;
    *)
        echo "$name: $(grep -h Checks: "$logs/$name.log")"
        grep -h '^# [^0-9]' "$logs/$name.log" || true
        ;;
    esac
done

# ---- compute-sanitizer ---------------------------------------------------------------------------

# A tool over parts of a program, several at a time.  memcheck leaves out calls
# of CUDA that return an error, which the tests see.  racecheck is a thousand times as slow, and more with many processes: parts from
# 30 on, of 4000, are a case of the sweep each, without the large layers.
sanitize() {
    tool=$1
    several=$2
    list=$3
    shift 3
    wrong=0
    rm -f "$logs/$tool".*
    for part in $list; do echo "$part"; done |
        OPTIONS="--tool $tool --error-exitcode 9" COMMAND="$*" LOG=$logs/$tool \
            xargs -n 1 -P "$several" sh -c '
                ECORNN_SPIN_TIMEOUT=600 ECORNN_PART=$1 compute-sanitizer $OPTIONS \
                    $(echo "$COMMAND" | sed s,PART,$1,) > "$LOG.${1%/*}" 2>&1' sh || wrong=1
    found=$(cat "$logs/$tool".* | awk '/^# cases:/ { n += $3 } /^# [0-9]+ problems/ { n += $4 } END { print n + 0 }')
    [ "$wrong" = 0 ] && [ "$found" -gt 0 ] && echo "$tool: $found runs, no error" && return
    echo "$tool: $found runs, errors"
    grep -h '=====' "$logs/$tool".* | head -n 30
    failed=$((failed + 1))
}
if [ -n "${SANITIZE-}" ]; then
    OMP_NUM_THREADS=1
    export OMP_NUM_THREADS
    walk=$(seq -f %g/160 0 159)
    sanitize memcheck "$processes" "$walk" --report-api-errors no "$tests/gpu/walk" PART
    sanitize initcheck "$processes" "$walk" "$tests/gpu/walk" PART
    sanitize synccheck "$processes" "$walk" "$tests/gpu/walk" PART
    sanitize racecheck 5 "$(seq -f %g/4000 30 7 191)" "$program"
fi
echo "$(wc -l < "$logs/jobs") programs in $(($(date +%s) - began)) s"
[ "$failed" = 0 ] && echo "all passed" || { echo "$failed failed"; exit 1; }
