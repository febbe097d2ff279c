#!/bin/sh
# Writes the figures of doc/trust.md: what the tests reach and what they find.
#     tests/trust.sh [coverage|faults ...]     both, half an hour
#     tests/trust.sh gpu < LOG      LOG: what tests/gpu/coverage.sh printed on a GPU
#     tests/trust.sh everything < LOG    LOG: what ./quickstart test everything printed, at this commit
# Each part replaces the lines between its two marks.
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

gpu() {
    { date +%F; grep -e '^folder' -e '^gpu ' -e 'kernels compared' -e 'runs agreed' -e '^fail: '; } | put gpu
}

everything() {
    sed -n 's/^everything: //p' | put everything
}

[ $# -gt 0 ] || set -- coverage faults
for part in "$@"; do
    case $part in
    coverage | faults | gpu | everything) $part ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
