#!/bin/sh
# Checks the words of the tree; prose.py says what it checks.
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
cd "${srcdir:-.}" && PYTHONDONTWRITEBYTECODE=1 exec python3 tests/build/prose.py
