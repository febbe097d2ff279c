#!/bin/sh
# kernels.sh MODULE LOG...: counts the kernels of layers that tests/gpu/walk compared with the reference,
# by what it printed; exit status 1 where one of the module was not.  tests/gpu/suite.sh runs both.
# The kernels there are: those of the module itself, by its symbols, but of attention, of joins in
# nets, of streams and of matrix states, which have tests of their own (test_attention, test_gpu_net,
# core/test_streams, and cases of test_gpu).
set -eu
module=$1
shift
there=$(mktemp)
trap 'rm -f "$there"' EXIT

# A local symbol of a kernel's stub has the kernel's name, behind the length of its own; symbols
# follow the name of their file.
readelf -sW "$module" | awk '
    $4 == "FILE" { file = $NF; sub(/^tmpxft_[0-9a-f]*_[0-9a-f]*-[0-9]*_(table_)?/, "", file); sub(/\..*/, "", file) }
    match($NF, /^_ZZL[0-9]+__device_stub_/) {
        name = substr($NF, 5); length_of = name + 0
        name = substr(name, length(length_of) + 1, length_of)
        if (file !~ /^attention_|^matrix_|^join$|^streams$/)
            print file, substr(name, 15)
    }' | sort -u > "$there"
[ -s "$there" ] || { echo "the module has no symbols of kernels"; exit 1; }

# "-" stands for the file of a kernel whose name occurs in one file only.
cat "$@" | awk -v there="$there" '
    BEGIN { while ((getline line < there) > 0) {
        split(line, at, " "); all[at[1]]++; total++; is[at[1], at[2]]; only[at[2]] = at[1]; count[at[2]]++; files[at[1]] } }
    $1 == "ran" { file = $2 == "-" && count[$3] == 1 ? only[$3] : $2
        if ((file, $3) in is) { if (!seen[file, $3]++) { ran[file]++; compared++ } }
        else others[$3] }
    /^# / { problems += $2; agreed += $4; runs += $9; refused += $10 }
    END {
        for (file in files) printf "%s: %d of %d\n", file, ran[file], all[file] | "sort"
        close("sort")
        for (key in is) { split(key, at, SUBSEP)
            if (!((at[1], at[2]) in seen)) print "never: " at[1] " " at[2] | "sort" }
        close("sort")
        n = own = 0
        for (name in others) if (name ~ /^units_/) own++; else n++
        printf "beside them %d kinds of persistent kernels compiled at run time, %d kernels of cuBLAS and the like\n", own, n
        printf "%d problems, %d of %d runs agreed, %d choices that cannot be\n", problems, agreed, runs, refused
        printf "%d of %d kernels compared with the reference\n", compared, total
        exit compared < total || agreed < runs
    }'
