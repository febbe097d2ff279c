#!/bin/sh
# container.sh FOLDER: installs the packages in FOLDER, where dpkg-buildpackage left them, in a bare
# Debian 12 with what they depend on, and runs debian/tests/programs there.  Needs root, mmdebstrap
# and the network, so make check does not run it.  MIRROR: Debian's, if it is another.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
packages=$(cd "$1" && pwd)
mirror=${MIRROR-http://deb.debian.org/debian}
root=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-container.XXXXXX")
trap 'rm -rf "$root"' EXIT

mmdebstrap --quiet --variant=minbase bookworm "$root" "$mirror"
mkdir "$root/packages" "$root/ecornn"
cp "$packages"/libecornn[0-9]*_*.deb "$packages"/libecornn-dev_*.deb "$packages"/ecornn_*.deb "$root/packages/"
cp -R "$source/debian" "$source/tests" "$root/ecornn/"
needs=$(sed -n 's/^Depends: //p' "$source/debian/tests/control" | tr -d ,)

# It has its own process table, and cannot reach the machine's files.
inside() {
    unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive sh -ec "$1"
}
inside "apt-get -qq update && apt-get -qq -y --no-install-recommends install /packages/*.deb > /dev/null"
inside "ecornn info"
inside "apt-get -qq -y --no-install-recommends install $needs > /dev/null"
inside "cd /ecornn && sh debian/tests/programs"
echo "container: installed, and programs ran"
