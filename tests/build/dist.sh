#!/bin/sh
# dist.sh MAKE TARBALL, in a build folder: "make dist" leaves out no file that git knows, and two runs give
# the same bytes, whatever the umask, the clock's zone and the order of files in folders.
set -eu
make=$1 tarball=$2
command -v sha256sum > /dev/null || { echo "no sha256sum: skipped"; exit 77; }
XZ_OPT=-1
export XZ_OPT
rm -f "$tarball"
(umask 022 && TZ=UTC "$make" -s dist)
tar -tf "$tarball" | sed 's,^[^/]*/,,' | LC_ALL=C sort > "$tarball.files"
grep -q '^NEWS$' "$tarball.files" || { echo "FAILED: $tarball has no NEWS"; exit 1; }
compared="the files of no checkout"
if git -C "$(dirname "$0")" ls-files --full-name ../.. > "$tarball.known" 2> /dev/null && [ -s "$tarball.known" ]; then
    lost=$(grep -v -e '^debian/' -e '^\.[cg]i' "$tarball.known" | LC_ALL=C sort | LC_ALL=C comm -23 - "$tarball.files")
    [ -z "$lost" ] || { echo "FAILED: not in $tarball: $lost"; exit 1; }
    compared="every file that git knows"
fi
first=$(sha256sum < "$tarball")
rm -f "$tarball" "$tarball.files" "$tarball.known"
sleep 1
(umask 077 && TZ=Asia/Tokyo "$make" -s dist)
second=$(sha256sum < "$tarball")
rm -f "$tarball"
[ "$first" = "$second" ] || { echo "FAILED: $first and $second"; exit 1; }
echo "dist: $compared, and the same bytes twice, $first"
