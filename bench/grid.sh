#!/bin/sh
# The table of doc/performance.md: every problem of [cpu-grid], and those of [cpu-grid-capped] under
# fewer instructions, against oneDNN, each in a process of its own.
#   bench/grid.sh BUILD-FOLDER [OPTION-OF-BENCH]...
# RUN: a command to put before each, for instance one that waits until the machine is idle.
set -eu
[ $# -ge 1 ] && [ -x "$1/bench/bench" ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
}
build=$1
shift
shapes=$(dirname "$0")/shapes.txt
# Both sides use the runtime's threads: where they stand is the same for both.
export OMP_PROC_BIND=true OMP_PLACES=cores

problems() { # list
    awk -v head="[$1]" '/^\[/ { inside = $0 == head; next } inside && NF && !/^#/ { print $1 }' "$shapes"
}
run() { # problem, options
    problem=$1
    shift
    # RUN is a list of words: unquoted on purpose.
    ${RUN-} "$build/bench/bench" --markdown --threads 1,2 --seconds 1 --versus onednn "$@" "$problem"
}

options=
for problem in $(problems cpu-grid); do
    run "$problem" $options "$@" || true
    options=--no-head
done
for set in avx2 sse2; do
    for problem in $(problems cpu-grid-capped); do
        run "$problem" --no-head --isa $set "$@" || true
    done
done
