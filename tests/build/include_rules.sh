#!/bin/sh
# Which files may include which.  An include that the table does not allow fails, and so does a file whose
# folder is not in it.  Change the table and the code together, or neither.
set -eu
cd "${srcdir:-.}"

# File or folder : what of ours it may include (a folder: its own headers too) : words that no <...>
# of its may have.  The first row that fits counts; paths are of the included file, from the root.
table='
include/         : include/                                                               : /
common/number.h  :                                                                        : immintrin omp.h cblas cuda
common/os.h      :                                                                        : immintrin omp.h cblas cuda
common/os_posix.c : common/os.h                                                          : immintrin omp.h cblas cuda
common/os_windows.c : common/os.h                                                        : immintrin omp.h cblas cuda
common/util.h    : include/ common/os.h                                                              : immintrin omp.h cblas cuda
common/util.c    : include/ common/os.h common/util.h                                        : immintrin omp.h cblas cuda
common/cell/     : include/ common/number.h common/os.h common/util.h                                 : immintrin omp.h cblas cuda
common/ref/      : include/ common/cell/ common/problem.h common/backend.h common/host.h common/type.h common/util.h common/number.h common/quantise.h : immintrin omp.h cblas cuda
common/          : include/ common/ config.h                                              : immintrin omp.h cblas cuda
cpu/isa/         : include/ common/                                                       : omp.h cblas cuda
cpu/attention/   : include/ common/ cpu/cpu.h cpu/isa/vec.h                               : immintrin omp.h cblas cuda
cpu/matrix/      : include/ common/ cpu/cpu.h cpu/isa/vec.h cpu/isa/vec_sums.h cpu/isa/vec_transpose.h         : immintrin omp.h cblas cuda
cpu/run/         : include/ common/ config.h cpu/cpu.h cpu/isa/isa.h cpu/attention/attention.h cpu/matrix/matrix.h : cuda
cpu/gemm/        : include/ common/ cpu/cpu.h cpu/isa/isa.h                               : immintrin omp.h cuda
cpu/ops/         : include/ common/ cpu/cpu.h                                             : immintrin omp.h cblas cuda
cpu/algo/        : include/ common/ cpu/cpu.h cpu/gemm/packed/packed.h                    : immintrin omp.h cblas cuda
cpu/             : include/ common/ config.h cpu/                                         : immintrin cuda
gpu/arch/        :                                                                        : immintrin omp.h cblas cuda_runtime cublas
gpu/tile/        : gpu/arch/ common/number.h                                              : immintrin omp.h cblas cuda_runtime cublas
gpu/attention/   : include/ common/ gpu/device/ gpu/arch/ gpu/tile/                           : immintrin omp.h cblas cublas
gpu/cell/        : include/ common/ gpu/arch/ gpu/tile/ gpu/kernels.h                     : immintrin omp.h cblas cublas
gpu/copy/        : include/ common/ gpu/arch/ gpu/tile/ gpu/kernels.h                     : immintrin omp.h cblas cublas
gpu/device/      : include/ common/ gpu/kernels.h                                           : immintrin omp.h cblas
gpu/view/        : include/ common/ gpu/kernels.h gpu/device/ gpu/algo/force.h gpu/persistent/need.h              : immintrin omp.h cblas cublas
gpu/jit/         : include/ common/ config.h gpu/device/                               : immintrin omp.h cblas cublas
gpu/gemm/        : include/ common/ gpu/device/rates.h gpu/kernels.h gpu/copy/element.cuh gpu/view/ gpu/arch/ gpu/tile/ gpu/gemm/   : immintrin omp.h cblas
gpu/ops/         : include/ common/ gpu/view/ gpu/jit/jit.h gpu/gemm/ gpu/wide_step/wide_step.h gpu/copy/join.h gpu/copy/param_moves.h gpu/copy/compaction.h gpu/copy/streams.h : immintrin omp.h cblas
gpu/wide_step/   : include/ common/ gpu/device/rates.h gpu/kernels.h gpu/device/tensor_map.h gpu/view/ gpu/arch/ gpu/tile/ gpu/cell/ : immintrin omp.h cblas
gpu/fused_step/  : include/ common/ gpu/device/rates.h gpu/kernels.h gpu/view/ gpu/jit/ gpu/ops/ops.h gpu/run/run.h gpu/algo/ gpu/gemm/ gpu/persistent/persistent.h gpu/arch/ gpu/tile/ gpu/cell/ gpu/wide_step/wide_step.h : immintrin omp.h cblas
gpu/persistent/  : include/ common/ gpu/device/rates.h gpu/kernels.h gpu/view/ gpu/jit/ gpu/run/run.h gpu/algo/ gpu/gemm/ gpu/arch/ gpu/tile/ gpu/cell/ : immintrin omp.h cblas
gpu/scan/        : include/ common/ gpu/device/rates.h gpu/kernels.h gpu/view/ gpu/jit/ gpu/ops/ops.h gpu/run/run.h gpu/algo/ gpu/arch/ gpu/tile/ gpu/cell/ : immintrin omp.h cblas
gpu/matrix/      : include/ common/ gpu/device/ gpu/algo/ gpu/view/ gpu/arch/ gpu/tile/ gpu/cell/math.cuh : immintrin omp.h cblas cublas
gpu/run/         : include/ common/ gpu/device/device.h gpu/device/rates.h gpu/view/ gpu/ops/ops.h gpu/gemm/grouped/grouped.h : immintrin omp.h cblas
gpu/algo/        : include/ common/ gpu/device/rates.h gpu/view/ gpu/run/run.h gpu/gemm/ gpu/fused_step/ gpu/persistent/ gpu/scan/ gpu/wide_step/ gpu/jit/ : immintrin omp.h cblas
gpu/             : include/ common/ gpu/ config.h                                         : immintrin omp.h cblas
lib/             : include/ common/ config.h                                              : immintrin omp.h cblas cuda
tools/cellgen.c  : include/ common/cell/ common/os.h common/util.h                                    : immintrin omp.h cblas cuda
tests/gpu/host/  : gpu/arch/ tests/gpu/host/                                           : cublas
tests/build/consumer.c : include/                                                               : immintrin omp.h cblas cuda
tests/           : include/ common/ tests/kit/ cpu/ gpu/algo/algo.h gpu/jit/compile.h gpu/device/rates.h gpu/device/cuda_compat.h gpu/gemm/ gpu/fused_step/fused_step.h gpu/wide_step/wide_step.h gpu/ops/ops.h gpu/persistent/persistent.h gpu/run/run.h gpu/scan/scan.h lib/ examples/ bench/core/ tools/ecornn/ config.h                    :
tools/ecornn/program.c : include/ bench/core/program.h bench/versus/versus.h               : immintrin omp.h cblas cuda
tools/ecornn/    : include/ bench/core/                                                   : immintrin omp.h cblas cuda
tools/           : include/                                                               : cuda
python/native/   : include/                                                               : immintrin omp.h cblas cuda
ort/             : include/                                                               : immintrin omp.h cblas cuda
python/          :                                                                        : immintrin omp.h cblas cuda
bench/core/      : include/ bench/cpu/                                                    : cuda
bench/cpu/       : include/ bench/core/                                                   : cuda
bench/gpu/       : include/ bench/core/say.h                                              : immintrin omp.h cblas
bench/versus/cudnn.c : include/ bench/core/ bench/gpu/clock.h bench/versus/versus.h       : immintrin omp.h cblas
bench/versus/    : include/ bench/core/ bench/cpu/passes.h                                : immintrin cuda
bench/           : include/ bench/core/program.h bench/gpu/clock.h bench/versus/versus.h  : immintrin omp.h cblas cuda
examples/amp.c   : net.h                                                                  : cuda
examples/        : include/                                                               : cuda
'
# Device code includes at its top, and has machine instructions in gpu/arch only.
# Functions that a folder may not call although it may include the header: the reference checks
# layout and tape, so it must not use them.
calls='common/ref/ eco_layout_[a-z_]*\(|eco_(tape|walk)_[a-z]*\('

files=$(find . -mindepth 2 \( -name '*.[ch]' -o -name '*.inc' -o -name '*.h.in' -o -name '*.cu' -o -name '*.cuh' \) \
    ! -path './build*' ! -path './_build/*' ! -path './ecornn-[0-9]*' ! -path './.*/*' | sed 's,^\./,,' | sort)
[ -n "$files" ] || { echo "no files found"; exit 99; }

# File names have no blanks: unquoted on purpose.
awk -v table="$table" -v calls="$calls" '
function fits(path, place) # a folder ends in /, a file must be equal
{
    return place ~ /\/$/ ? index(path, place) == 1 : path == place
}
function folder(path)
{
    return match(path, /.*\//) ? substr(path, 1, RLENGTH) : ""
}
function found(file, path) # in the folder of the file, in include/, else from the root (or generated)
{
    if ((folder(file) path) in exists)
        return folder(file) path
    return (("include/" path) in exists) ? "include/" path : path
}
function refuse(why)
{
    print FILENAME ":" FNR ": " why
    bad++
}
function check_quoted(path, row,    i, n, list)
{
    path = found(FILENAME, path)
    if (path ~ /\.cuh$/ && FILENAME !~ /\.(cuh?|inc)$/)
        refuse("is for the host only: no \"" path "\"")
    if (who[row] ~ /\/$/ && folder(path) == folder(FILENAME))
        return
    n = split(may[row], list, " ")
    for (i = 1; i <= n; i++)
        if (fits(path, list[i]))
            return
    refuse("may not include \"" path "\"")
}
function check_angled(path, row,    i, n, list)
{
    if (path == "ecornn/version.h" || path == "ecornn/experimental.h" || path == "ecornn/types.h" || path == "ecornn/wisdom.h")
        return
    n = split(never[row], list, " ")
    for (i = 1; i <= n; i++)
        if (index(path, list[i]))
            refuse("may not include <" path ">")
}
BEGIN {
    for (i = 1; i < ARGC; i++)
        exists[ARGV[i]]
    exists["include/ecornn/version.h"]
    n = split(table, line, "\n")
    for (i = 1; i <= n; i++) {
        if (split(line[i], field, ":") < 3)
            continue
        gsub(/ /, "", field[1])
        who[++rows] = field[1]
        may[rows] = field[2]
        never[rows] = field[3]
    }
    split(calls, call, " ")
}
FNR == 1 {
    code = comment = 0
    before = ""
    device = FILENAME ~ /^gpu\/.*\.cuh?$/
    for (row = 1; row <= rows && !fits(FILENAME, who[row]); row++)
        ;
    if (row > rows)
        refuse("its folder is not in the table of tests/build/include_rules.sh")
}
row <= rows && /^[ \t]*#[ \t]*include[ \t]*["<]/ {
    count++
    path = $0
    sub(/^[^"<]*/, "", path)
    kind = substr(path, 1, 1)
    path = substr(path, 2)
    sub(/[">].*/, "", path)
    if (kind == "<")
        check_angled(path, row)
    else
        check_quoted(path, row)
}
device && code && /^#[ \t]*include[ \t]*["<][^">]*\.(cuh|h)[">]/ {
    refuse("includes belong at the top")
}
FILENAME ~ /^gpu\// && FILENAME !~ /^gpu\/arch\// && /(^|[^a-zA-Z_])asm([ \t]+volatile)?[ \t]*\(/ {
    refuse("machine instructions belong in gpu/arch")
}
device {
    text = $0
    if (comment)
        comment = text !~ /\*\//
    else if (text ~ /^[ \t]*\/\*/)
        comment = text !~ /\*\//
    else if (text !~ /^[ \t]*(#|$)/ && text !~ /^CELLS_PERSISTENT/ && before !~ /\\$/)
        code = 1
    before = text
}
fits(FILENAME, call[1]) && $0 ~ call[2] {
    refuse("may not call this")
}
END {
    print "includes: " count + 0
    exit bad ? 1 : count ? 0 : 99
}' $files
