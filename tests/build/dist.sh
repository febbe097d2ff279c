#!/bin/sh
# dist.sh MAKE TARBALL, in a build folder: two runs of "make dist" give the same bytes, whatever the
# umask, the clock's zone and the order of files in folders.
set -eu
make=$1 tarball=$2
command -v sha256sum > /dev/null || { echo "no sha256sum: skipped"; exit 77; }
XZ_OPT=-1
export XZ_OPT
rm -f "$tarball"
(umask 022 && TZ=UTC "$make" -s dist)
tar -tf "$tarball" | grep -q '/NEWS$' || { echo "FAILED: nothing is in $tarball"; exit 1; }
first=$(sha256sum < "$tarball")
rm -f "$tarball"
sleep 1
(umask 077 && TZ=Asia/Tokyo "$make" -s dist)
second=$(sha256sum < "$tarball")
rm -f "$tarball"
[ "$first" = "$second" ] || { echo "FAILED: $first and $second"; exit 1; }
echo "dist: the same bytes twice, $first"
