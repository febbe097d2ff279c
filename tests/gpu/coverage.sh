#!/bin/sh
# Branches of the CUDA backend's host code that its tests take, by gcov; in the build folder of a
# machine with a GPU, after make and make check TESTS=:
#     SOURCE/tests/gpu/coverage.sh [all|build|run|report] [PROCESSES]
# build: the module once more, its C files with gcov's counters, in BUILD-coverage beside it (kernels
# as they are);
# run: the suite with that module; report: tests/coverage.py.
set -eu
step=${1-all}
processes=${2-8}
source=$(cd "$(dirname "$0")" && pwd)
here=$PWD

build() {
    rm -rf "$here-coverage"
    cp -pR "$here" "$here-coverage"
    cd "$here-coverage"
    find gpu \( -name 'ecornn_cuda_la-*.lo' -o -name 'libcompile_la-*.lo' \) -exec rm -f {} +
    rm -f gpu/libcompile.la ecornn-cuda.la tests/gpu/test_cache tests/gpu/test_compile
    make ecornn-cuda.la tests/gpu/test_cache tests/gpu/test_compile \
        CFLAGS='-g -O0 --coverage -DNDEBUG -Wno-error'
    cd "$here"
}

run() {
    failed=0
    for test in test_cache test_compile; do
        (cd "$here-coverage" && srcdir=$source/../.. "tests/gpu/$test") || failed=1
    done
    ECORNN_MODULE_DIR=$here-coverage/.libs "$source/suite.sh" "$processes" || failed=1
    [ "$failed" = 0 ] || echo "tests failed: what they took counts"
}

report() {
    python3 "$source/../coverage.py" "$here-coverage" --least gpu=85
}

case $step in
all) build; run; report ;;
build | run | report) $step ;;
*) echo "usage: $0 [all|build|run|report] [PROCESSES]"; exit 2 ;;
esac
