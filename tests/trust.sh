#!/bin/sh
# Writes the figures of doc/trust.md: what the tests reach and what they find.
#     tests/trust.sh [coverage|faults|fuzz|sanitizers|mutation ...]     all five, some two hours
#     tests/trust.sh gpu < LOG      LOG: what tests/gpu/coverage.sh printed on a GPU
# Each part replaces the lines between its two marks. FUZZ_SECONDS (60), MUTATIONS (20) say how much.
set -eu
cd "$(dirname "$0")/.."
page=doc/trust.md
work=build-trust
mkdir -p "$work"

put() { # part: its lines on standard input; of what and when, but where another machine printed them
    {
        echo '```'
        [ "$1" = gpu ] || echo "$(date +%F), commit $(git rev-parse --short HEAD)"
        cat
        echo '```'
    } > "$work/$1.md"
    awk -v part="$1" -v text="$work/$1.md" '
        $0 == "<!-- end of " part " -->" { inside = 0 }
        !inside { print }
        $0 == "<!-- " part " -->" { inside = 1; while ((getline line < text) > 0) print line }
    ' "$page" > "$work/page.md"
    cp "$work/page.md" "$page"
}

coverage() {
    build=build-coverage
    [ -e "$build/Makefile" ] || {
        mkdir -p "$build"
        (cd "$build" && ../configure -q --with-cuda=no \
            CFLAGS='-O1 -g --coverage -fprofile-update=atomic -DNDEBUG')
    }
    find "$build" -name '*.gcda' -delete
    make -s -j2 -C "$build" all
    make -s -j2 -C "$build" check TESTS= > /dev/null
    make -s -C "$build" check > "$work/coverage.log" 2>&1 ||
        grep '^\(FAIL\|ERROR\)' "$work/coverage.log"
    tests/coverage.py "$build" | put coverage
}

faults() {
    ./quickstart sanitize > "$work/asan.log" 2>&1 || true # builds what is run here
    { ASAN_OPTIONS=detect_leaks=1 build-asan/tests/core/test_faults 2>&1 || true; } |
        awk '/^# call/ { n[$NF] += $4 } /^100%/ { end = $0 }
             END { for (f in n) printf "%d %s\n", n[f], f | "sort -k2 | paste -s -d, "; close("sort -k2 | paste -s -d, "); print end }' | put faults
}

fuzz() {
    FUZZ_SECONDS=${FUZZ_SECONDS-60}
    ./quickstart fuzz "$FUZZ_SECONDS" > "$work/fuzz.log" 2>&1 || echo "the fuzzers found something"
    { echo "./quickstart fuzz $FUZZ_SECONDS"; grep -e 'number_of_executed_units' -e '^SUMMARY' "$work/fuzz.log"; } | put fuzz
}

sanitizers() {
    for mode in 'clang' 'sanitize' 'sanitize clang' 'sanitize thread'; do
        # The mode is a list: unquoted on purpose.
        ./quickstart $mode > "$work/$(echo "$mode" | tr ' ' '-').log" 2>&1 && status=ok || status=failed
        echo "./quickstart $mode: $status, $(grep -E '[0-9]+ passed|^100%' "$work/$(echo "$mode" | tr ' ' '-').log" | tail -n 1)"
    done | put sanitizers
}

mutation() {
    tests/mutate.py --count "${MUTATIONS-20}" | tail -n 1 | put mutation
}

gpu() {
    { date +%F; grep -e '^folder' -e '^gpu ' -e 'kernels compared' -e 'runs agreed' -e '^fail: '; } | put gpu
}

[ $# -gt 0 ] || set -- coverage faults fuzz sanitizers mutation
for part in "$@"; do
    case $part in
    coverage | faults | fuzz | sanitizers | mutation | gpu) $part ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
