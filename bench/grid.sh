#!/bin/sh
# The tables of doc/measurements: every problem of [cpu-grid], and those of [cpu-grid-capped] under
# fewer instructions, against oneDNN; then, where PYTHON names one that has onnxruntime or torch,
# against these; each in a process of its own.  Last, means over the fastest opponent of each.
#   bench/grid.sh BUILD-FOLDER [OPTION-OF-BENCH]...
# RUN: a command to put before each, for instance one that waits until the machine is idle.
# SECONDS_EACH: of runs, each side (1).
set -eu
[ $# -ge 1 ] && [ -x "$1/bench/bench" ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
}
build=$1
shift
here=$(dirname "$0")
seconds=${SECONDS_EACH-1}
rows=$(mktemp)
trap 'rm -f "$rows" "$rows.failed"' EXIT

problems() { # list
    awk -v head="[$1]" '/^\[/ { inside = $0 == head; next } inside && NF && !/^#/ { print $1 }' \
        "$here/shapes.txt"
}
# Both sides use the runtime's threads: where they stand is the same for both.
versus_onednn() { # options, problem
    # RUN is a list of words: unquoted on purpose.
    OMP_PROC_BIND=true OMP_PLACES=cores ${RUN-} "$build/bench/bench" --markdown --threads 1,2 \
        --seconds "$seconds" --versus onednn "$@" || failed "$@"
}
# Not bound: other runtimes' threads would inherit the place of the first.
versus_python() { # options, problem
    ${RUN-} "$PYTHON" "$here/python/peers.py" --library "$build/.libs/libecornn.so" --threads 1,2 \
        --seconds "$seconds" "$@" || failed "$@"
}
failed() { # a problem without a row: the others go on
    echo "FAILED: $*" | tee -a "$rows.failed" >&2
}

head=
for problem in $(problems cpu-grid); do
    versus_onednn $head "$@" "$problem" | tee -a "$rows"
    head=--no-head
done
for set in avx2 sse2; do
    for problem in $(problems cpu-grid-capped); do
        versus_onednn --no-head --isa $set "$@" "$problem"
    done
done
if [ -n "${PYTHON-}" ]; then
    echo
    head=
    for problem in $(problems cpu-grid); do
        versus_python $head "$problem" | tee -a "$rows"
        head=--no-head
    done
fi

# Of each problem and number of threads the lowest ratio counts; it stands between two stars.
echo
awk -F'|' '
    match($0, /\*\*[0-9.]+\*\*/) {
        ratio = substr($0, RSTART + 2, RLENGTH - 4) + 0
        key = $2 "|" $3
        if (!(key in best) || ratio < best[key])
            best[key] = ratio
    }
    END {
        for (key in best) {
            group = (key ~ /\/train/ ? "training" : "inference") "," substr(key, index(key, "|") + 1)
            sum[group] += log(best[key])
            count[group]++
            if (!(group in least) || best[key] < least[group])
                least[group] = best[key]
        }
        for (group in sum)
            printf "%s thread(s): geometric mean %.2f of %d, least %.2f\n", group,
                exp(sum[group] / count[group]), count[group], least[group]
    }' "$rows" | sort
[ ! -e "$rows.failed" ] || { echo "$(wc -l < "$rows.failed") failed"; exit 1; }
