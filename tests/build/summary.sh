#!/bin/sh
# ./quickstart summary counts what ran.  It must report as failures: a test that failed, one that broke off,
# one that compared nothing, a skip without a listed reason, and the absence of any result.
set -eu
source=$(cd "${srcdir:-.}" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cases=0

begin() { # one test that passed and one that was skipped for a listed reason
    rm -rf "$folder/tests"
    mkdir "$folder/tests"
    result good "# cases: 7" ":test-result: PASS"
    result gpu "SKIP: tests/gpu - no NVIDIA driver: libcuda.so.1: cannot open" ":test-result: SKIP"
}
result() { # test, its log, its results
    printf '%s\n' "$2" > "$folder/tests/$1.log"
    printf '%s\n' "$3" ":global-test-result: ${3##* }" > "$folder/tests/$1.trs"
}
expect() { # status, last line
    status=0
    said=$("$source/quickstart" summary "$folder" 2>&1) || status=$?
    cases=$((cases + 1))
    [ "$status" = "$1" ] && [ "$(echo "$said" | tail -n 1)" = "$2" ] ||
        { echo "case $cases: exit $status, not $1 with '$2': $said"; exit 1; }
}

begin && expect 0 "1 passed, 0 failed, 1 skipped"
begin && result bad "wrong" ":test-result: FAIL" && expect 1 "1 passed, 1 failed, 1 skipped"
begin && result bad "killed" ":test-result: ERROR" && expect 1 "1 passed, 1 failed, 1 skipped"
begin && result bad "# cases: 0" ":test-result: PASS" && expect 1 "2 passed, 1 failed, 1 skipped"
begin && result bad "SKIP: tests/bad 3 - x # SKIP no time" ":test-result: SKIP" && expect 1 "1 passed, 1 failed, 2 skipped"
begin && result bad "no tool: skipped
SKIP tests/bad.sh (exit status: 77)" ":test-result: SKIP" && expect 1 "1 passed, 1 failed, 2 skipped"
begin && result bad "SKIP: tests/bad - no driver, hence no NVIDIA driver: libcuda" ":test-result: SKIP" && expect 1 "1 passed, 1 failed, 2 skipped"
begin && result bad "SKIP: tests/bad 3 - no GPU # SKIP Skipped: no GPU today" ":test-result: SKIP" && expect 1 "1 passed, 1 failed, 2 skipped"
begin && result bad "SKIP: tests/bad 3 - x # SKIP Skipped: no clang" ":test-result: SKIP" && ECORNN_TESTS='' expect 0 "1 passed, 0 failed, 2 skipped"
ECORNN_TESTS=all expect 1 "1 passed, 1 failed, 2 skipped"
begin && result good "SKIP: tests/good 3 - x # SKIP Skipped: no GPU" ":test-result: SKIP" && expect 1 "0 passed, 0 failed, 2 skipped"
begin && result bad "says nothing" ":test-result: SKIP" && expect 1 "1 passed, 1 failed, 2 skipped"
begin && result bad "SKIP: tests/bad - Skipped: no GPU" ":test-result: SKIP
:test-result: SKIP" && expect 1 "1 passed, 1 failed, 3 skipped"
begin && result bad "skipped: the rest" ":test-result: PASS" && expect 1 "2 passed, 1 failed, 1 skipped"
begin && rm "$folder/tests/good.trs" && expect 1 "0 passed, 0 failed, 1 skipped"
rm -r "$folder/tests" && mkdir "$folder/tests" && expect 1 "quickstart: no test ran"
echo "cases: $cases"
