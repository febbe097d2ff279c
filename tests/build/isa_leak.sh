#!/bin/sh
# No instruction reaches a processor that lacks it: each object holds only those of its own set and
# of lower ones, and an object of a set shows the linker its tables alone, so that no function from
# it can stand in for the same one of another object.  (CFLAGS with -march or -mavx make this fail,
# rightly: such a build does not run everywhere.)
set -eu
command -v objdump > /dev/null && command -v nm > /dev/null || { echo "no binutils: skipped"; exit 77; }

avx='%[yz]mm|%k[0-7]|[[:space:]]v[a-z0-9]+ .*%xmm'
avx512='%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])'
amx='%tmm|[[:space:]]tile'
bf16='[[:space:]]v(dp|cvtne)[a-z0-9]*bf16'
vnni='[[:space:]]vpdp'

# For each set, the instructions that its objects must not contain.  Objects of no set count as "base".
forbidden() {
    case $1 in
    amx) echo 'no such text' ;;
    avx512bf16) echo "$amx" ;;
    avx512vnni) echo "$amx|$bf16" ;;
    avx512) echo "$amx|$bf16|$vnni" ;;
    avxvnni) echo "$avx512|$amx|$bf16" ;;
    avx2) echo "$avx512|$amx|$bf16|$vnni" ;;
    base | plain | f64 | sse2) echo "$avx|$amx" ;;
    *) echo "unknown set $1: give it a row in $0" >&2; exit 99 ;;
    esac
}

set_of() {
    case $1 in
    cpu/*libcpu_*_la-*) echo "$1" | sed 's/.*libcpu_\([a-z0-9]*\)_la-.*/\1/' ;;
    *) echo base ;;
    esac
}

# The code of an object, without the copies of functions that the loader chooses by the processor
# (target_clones), which are named after their set.
code_of() {
    objdump -d --no-show-raw-insn "$1" | awk '/^[0-9a-f]+ </ { copy = /\.arch_x86_64_v[0-9]/ } !copy'
}

objects=$(find common cpu lib gpu tools python -name '*.o' 2> /dev/null || true)
[ -n "$objects" ] || { echo "no objects found"; exit 99; }
status=0
x86=$(uname -m | grep -c '^x86_64$' || true)
for object in $objects; do
    set=$(set_of "$object")
    if [ "$x86" = 1 ]; then
        bad=$(forbidden "$set")
        found=$(code_of "$object" | grep -E -m 3 "$bad" || true)
        [ -z "$found" ] || { printf '%s:\n%s\n' "$object" "$found"; status=1; }
    fi
    [ "$set" != base ] || continue
    found=$(nm --defined-only --extern-only "$object" | grep -v -e " [BDR] \(__odr_asan[._gen]*\)\{0,1\}eco_[a-z_]*_$set\$" \
        -e ' C ___asan_globals_registered' || true)
    [ -z "$found" ] || { printf '%s shows:\n%s\n' "$object" "$found"; status=1; }
done
echo "cases: $(echo "$objects" | wc -l)"
exit $status
