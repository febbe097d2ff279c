#!/bin/sh
# The structures of the Python package are those of the headers: python/mirrors.py writes the same file again.
set -eu
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
exec python3 "${srcdir:-.}/python/mirrors.py" --check
