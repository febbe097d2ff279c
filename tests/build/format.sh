#!/bin/sh
# Every C file looks as clang-format 14 would write it (others write it differently).
set -eu
cd "${srcdir:-.}"
for tool in clang-format-14 clang-format ''; do
    case $("${tool:-false}" --version 2> /dev/null || true) in
    *"version 14."*) break ;;
    esac
done
[ -n "$tool" ] || { echo "no clang-format 14: skipped"; exit 77; }

find bench common cpu examples gpu include lib ort python tests tools \
    \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) \
    ! -path common/cell/builtin.inc ! -path cpu/isa/cells.inc ! -path gpu/cell/cells.inc ! -path gpu/jit/headers.inc ! -path gpu/persistent/instances.inc ! -path 'gpu/instances/*' ! -name version.h ! -path 'tests/data/*' \
    -exec "$tool" --dry-run -Werror --style=file {} +
