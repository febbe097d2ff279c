#!/bin/sh
# Objects that every x86-64 processor must be able to run hold no AVX instruction.  (CFLAGS with
# -march or -mavx make this fail, rightly: such a build does not run everywhere.)
set -eu
[ "$(uname -m)" = x86_64 ] || { echo "not x86-64: skipped"; exit 77; }
command -v objdump > /dev/null || { echo "no objdump: skipped"; exit 77; }

objects=$(find common cpu lib -name '*.o' ! -name 'libcpu_avx*')
[ -n "$objects" ] || { echo "no objects found"; exit 99; }
status=0
for object in $objects; do
    found=$(objdump -d --no-show-raw-insn "$object" |
        grep -E -m 3 '%[yz]mm|%k[0-7]|[[:space:]]v[a-z0-9]+ .*%xmm' || true)
    [ -z "$found" ] || { printf '%s:\n%s\n' "$object" "$found"; status=1; }
done
echo "objects: $(echo "$objects" | wc -l)"
exit $status
