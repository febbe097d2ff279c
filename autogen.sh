#!/bin/sh
# Makes configure and the Makefile.in from a fresh clone.
set -eu
cd "$(dirname "$0")"

missing=
for tool in autoconf automake libtoolize pkg-config; do
    command -v "$tool" > /dev/null || missing="$missing $tool"
done
macros=$(aclocal --print-ac-dir 2> /dev/null || echo /usr/share/aclocal)
for macro in ax_check_compile_flag pkg; do
    for folder in "$macros" /usr/share/aclocal /usr/local/share/aclocal; do
        [ ! -e "$folder/$macro.m4" ] || continue 2
    done
    missing="$missing $macro.m4"
done
if [ -n "$missing" ]; then
    echo "autogen.sh: missing:$missing" \
         "(Debian: apt-get install autoconf automake libtool autoconf-archive pkg-config)" >&2
    exit 1
fi
exec autoreconf -fi
