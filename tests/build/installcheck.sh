#!/bin/sh
# installcheck.sh DESTDIR LIBDIR consumer.c: builds an application with what was installed and
# pkg-config only, shared and static where they are, and runs it.  Uses $CC $CFLAGS $PKG_CONFIG.
set -eu
destdir=$1 libdir=$2 source=$(cd "$(dirname "$3")" && pwd)/${3##*/}
work=$(mktemp -d "${TMPDIR:-/tmp}/ecornn-installcheck.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$source" "$work/consumer.c"
cd "$work"

PKG_CONFIG_DISABLE_UNINSTALLED=1
PKG_CONFIG_PATH=$destdir$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_DISABLE_UNINSTALLED PKG_CONFIG_PATH
[ -z "$destdir" ] || export PKG_CONFIG_SYSROOT_DIR="$destdir"
if grep '@' "$destdir$libdir/pkgconfig/ecornn.pc"; then
    echo "ecornn.pc: a variable was not filled in"
    exit 1
fi

built=
# The commands and flags are lists of words: unquoted on purpose.
if [ -e "$destdir$libdir/libecornn.so" ]; then
    $CC $CFLAGS -o shared consumer.c $($PKG_CONFIG --cflags --libs ecornn)
    LD_LIBRARY_PATH=$destdir$libdir ./shared
    built="$built shared"
fi
if [ -e "$destdir$libdir/libecornn.a" ]; then
    $CC $CFLAGS -o static consumer.c \
        $($PKG_CONFIG --static --cflags --libs ecornn | sed 's/-lecornn/-l:libecornn.a/g')
    ./static
    built="$built static"
fi
[ -n "$built" ] || { echo "no library in $destdir$libdir"; exit 1; }
echo "installcheck:$built"
