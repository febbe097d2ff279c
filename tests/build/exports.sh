#!/bin/sh
# libecornn.so shows exactly the functions that the public headers declare: no more, no fewer.
set -eu
library=.libs/libecornn.so
[ -e "$library" ] || { echo "no $library: skipped"; exit 77; }
command -v nm > /dev/null || { echo "no nm: skipped"; exit 77; }

shown=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
declared=$(sed -n '/^ECORNN_API/s/.*[ *]\(ecornn_[a-z0-9_]*\)(.*/\1/p' \
    "${srcdir:-.}/include/ecornn.h" "${srcdir:-.}"/include/ecornn/*.h | sort)
[ -n "$declared" ] || { echo "no declarations found"; exit 99; }
if [ "$shown" != "$declared" ]; then
    echo "declared in a header, but not in $library; or in it, but not declared:"
    printf '%s\n%s\n' "$shown" "$declared" | sort | uniq -u
    exit 1
fi
