#!/bin/sh
# What calls cost, counted in the library's own instructions by valgrind, with kernels that every x86-64 processor has:
# a clock would also measure other programs, and the C library's instructions depend on the processor and on the
# environment. Counts of one call are kept for one compiler, within 2 %; others have half as many more. Where two calls
# are compared, all instructions count.
set -eu
[ "${ECORNN_TESTS-}" = all ] || { echo "ECORNN_TESTS is not all: instructions are not counted"; exit 77; }
command -v valgrind > /dev/null || { echo "no valgrind: skipped"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "no counts for this processor: skipped"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-instructions.XXXXXX")
trap 'rm -rf "$work"' EXIT
ECORNN_ISA=sse2 ECORNN_WISDOM=0 OMP_NUM_THREADS=1
export ECORNN_ISA ECORNN_WISDOM OMP_NUM_THREADS
compiler=$(${CC:-cc} -dumpfullversion 2> /dev/null) || compiler=another

# count FUNCTION ARGUMENT...: runs the command ecornn; sets instructions and all, the C library's too, in all calls of
# the function, and calls
count() {
    function=$1
    shift
    ./libtool --mode=execute valgrind --tool=callgrind --callgrind-out-file="$work/counts" \
        --toggle-collect="$function" tools/ecornn/ecornn "$@" > "$work/printed" 2>&1 || { cat "$work/printed" >&2; exit 1; }
    # By object; callgrind_annotate names none for code inlined from another file, if there is debug information.
    instructions=$(awk '
        /^c?ob=/ { id = $1; sub(/.*=/, "", id); if (NF > 1) ours[id] = /libecornn\.so/; if (/^ob=/) own = ours[id] }
        /^calls=/ { getline; next } # what the called function costs
        /^[-+*0-9]/ && own { sum += $2 }
        END { printf "%d", sum }' "$work/counts")
    all=$(sed -n 's/^summary: //p' "$work/counts")
    # What each call calls once is most of what it calls.
    calls=$(grep -o '^calls=[0-9]*' "$work/counts" | sort | uniq -c | sort -rn | sed -n '1s/.*=//p')
    [ "$instructions" -gt 0 ] && [ "$all" -gt 0 ] || { echo "$function: nothing was counted" >&2; exit 1; }
}
# at_most WHAT COUNT LIMIT
at_most() {
    echo "$1: $2 instructions, at most $3"
    [ "$2" -le "$3" ] || exit 1
}
# kept WHAT COUNT KEPT
kept() {
    [ "$compiler" = 12.2.0 ] && limit=$(($3 * 102 / 100)) || limit=$(($3 * 3 / 2))
    at_most "$1" "$2" $limit
}

count 'ecornn_plan_create*' plan --device cpu:1 lstm/train/L2/bi/T1000/N3/I8/H8
kept "a plan" "$instructions" 65279
few=$all
count 'ecornn_plan_create*' plan --device cpu:1 lstm/train/L2/bi/T16777216/N3/I8/H8
at_most "a plan for many steps" "$all" $((few * 105 / 100))
count ecornn_forward bench --seconds 0.000001 --device cpu:1 lstm/T1/N1/I8/H8
kept "a step" $((instructions / calls)) 18664
words="cpu x threads=3 version=$(sed -n 's/^#define ECORNN_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/ecornn/version.h | paste -s -d . -) name=x"
hash=$(python3 -c '
import functools, sys
print("%016x" % functools.reduce(lambda h, c: (h ^ c) * 0x100000001b3 % 2**64, sys.argv[1].encode(), 0xcbf29ce484222325))
' "$words")
for lines in 1000 2000; do
    awk -v lines=$lines -v words="$words" -v hash="$hash" 'BEGIN {
        print "ecornn-wisdom 1\ndevice " hash " " words
        while (lines-- > 0) print "lstm/f32/infer/T2/N2/I4/H" lines + 1 " - " hash " algorithm=packed 5 1 2026-01-01" }' \
        > "$work/$lines"
    few=$all
    count ecornn_wisdom_load wisdom check "$work/$lines"
done
at_most "twice as many lines of wisdom" "$all" $((few * 21 / 10))
