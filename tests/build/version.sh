#!/bin/sh
# version.sh [write]: what configure does not write names the version of configure.ac; `write` makes it so.
set -eu
cd "${srcdir:-$(dirname "$0")/../..}"
version=$(sed -n 's/^m4_define(\[eco_[a-z]*\], \[\([0-9]*\)\])$/\1/p' configure.ac | paste -s -d . -)
case $version in *[!0-9.]* | .* | *. | *..* | *.*.*.*) version= ;; *.*.*) ;; *) version= ;; esac
[ "$version" ] || { echo "FAILED: no version of three numbers in configure.ac"; exit 1; }
while read -r file change; do
    [ -e "$(dirname "$file")" ] || continue # the tarball is without debian
    [ "$(sed -n "${change}p" "$file")" ] || { echo "FAILED: $file names no version"; exit 1; }
    [ "${1-}" != write ] || sed -i "$change" "$file"
    sed "$change" "$file" | cmp -s - "$file" || { echo "FAILED: $file is not of version $version; see $0"; exit 1; }
done << END
NEWS 3s/^[0-9][0-9.]*$/$version/
CITATION.cff s/^version: .*/version: $version/
python/ecornn/_library.py s/^NAME = .*/NAME = "libecornn.so.${version%%.*}"/
debian/changelog 1s/([^-)]*-/($version-/
debian/control s/libecornn[0-9][0-9]*/libecornn${version%%.*}/g
END
echo "version $version"
