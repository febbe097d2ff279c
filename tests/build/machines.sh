#!/bin/sh
# Other machines, as far as this one can pretend to be them: each row changes what a machine may change
# (instruction sets of ours and of torch's, cores, load, a GPU, the locale, folders) and runs tests in it,
# which must not notice.  Each day a row runs quick tests of what it changes.  If ECORNN_TESTS is all, every row
# runs all of these and, where it differs most from this machine, all of the programs in TEST_PROGRAMS and of
# the Python package.  ECORNN_PYTHON is a Python with torch and pytest.
set -eu
source=$(cd "${srcdir:-.}" && pwd)
folder=$(mktemp -d)
spinning= seen= cases=0 all=${ECORNN_TESTS-}
trap 'rm -rf "$folder"; [ -z "$spinning" ] || kill $spinning' EXIT
python=${ECORNN_PYTHON:-python3}
threads='calls cancel environments memory models net'
kernels='bucket empty environments models net published tangent wisdom'
programs="$threads bucket empty published tangent wisdom api cell import problem wisdom_files"
modules='torch_autocast.py torch_packed.py'
bits=torch_packed.py::test_bits_of_rows_do_not_depend_on_pieces
! grep -q -a -e __asan_init -e __tsan_init .libs/libecornn.so ||
    { echo "Python cannot load a library with this sanitizer: skipped" && exit 77; }
why=$($python -c 'import numpy, pytest, torch' 2>&1) || { echo "$python: $why: skipped" && exit 77; }
xdist=$($python -c 'import xdist; print("-n 2 --dist loadfile")' 2> /dev/null || true)
ECORNN_LIBRARY=$PWD/.libs/libecornn.so OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/python:$source/python/tests
export ECORNN_LIBRARY OMP_WAIT_POLICY PYTHONDONTWRITEBYTECODE PYTHONPATH
unset ECORNN_TESTS
failed() { # what, its log
    echo "FAILED: $row: $1"
    grep -v -e '^ok ' -e '^$' "$2" | tail -n 30
    touch "$folder/failed"
}

# The two halves of a row run side by side.
row() { # its name, names of C's and of Python's tests for each day, the command that each test is an argument of
    row=$1 now=$2 files=$3 two=
    shift 3
    [ "$all" != all ] || now=$programs files=$modules
    now=$(printf 'tests/core/test_%s ' $now) files=${files:+$(printf "$source/python/tests/test_%s " $files)}
    case $all:$row in # rows of -1, as test_streams has them, need a real GPU
    all:sse2* | all:*GPU*) now=$(echo "$TEST_PROGRAMS" | sed 's|tests/gpu/[^ ]*||g; s|[^ ]*test_streams||') files=$source/python/tests two=$xdist ;;
    esac
    [ -n "$now" ] || failed "no program" /dev/null
    for program in $now; do
        "$@" $program > "$folder/program" 2>&1 || failed "$program ended with $?" "$folder/program"
    done &
    half=$!
    # Lists of words: unquoted on purpose.
    { [ -z "$files" ] || "$@" $python -m pytest -q -p no:cacheprovider --tb=short $two $files; } > "$folder/python" 2>&1 ||
        failed "Python ended with $?" "$folder/python"
    wait $half
    cases=$((cases + $(echo $now | wc -w) + $(echo $files | wc -w)))
    echo "$row: $(echo $now | wc -w) programs, Python: $(tail -n 1 "$folder/python" | grep . || echo none)"
}

# Instruction sets: ours with torch's, and our best with torch's least.  Each day C sees each of ours once, Python
# each of torch's.
sets=$(bench/ecornn info | sed -n 's/^instruction sets: //p')
[ -n "$sets" ] || { echo "ecornn info names no instruction set" && exit 1; }
for pair in "${sets%% *}:default:SSE41" $(for set in $sets; do
    case $set in
    avx512 | avx512vnni) echo "$set:avx512:AVX512_CORE" ;;
    avx512bf16) echo "$set:avx512:AVX512_CORE_BF16" ;;
    amx) echo "$set:avx512:AVX512_CORE_AMX" ;;
    avx*) echo "$set:avx2:AVX2" ;;
    *) echo "$set:default:SSE41" ;;
    esac
done); do
    set=${pair%%:*} onednn=${pair##*:}
    torch=${pair#*:} torch=${torch%:*}
    case " $seen " in *" $set "*) now=net ;; *) now=$kernels ;; esac
    case " $seen " in *" $onednn "*) files= ;; *) files=torch_autocast.py ;; esac
    seen="$seen $set $onednn"
    row "$set, torch's $torch, oneDNN's $onednn" "$now" "$files" env ECORNN_ISA="$set" ATEN_CPU_CAPABILITY="$torch" \
        ONEDNN_MAX_CPU_ISA="$onednn"
done

# Cores and load.
# A list of numbers: unquoted on purpose.
set -- $($python -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
row "one core" "$threads" $bits taskset -c "$1"
[ $# -lt 3 ] || row "two cores" "$threads" $bits taskset -c "$1,$2"
for i in 1 2 3 4; do
    timeout 900 sh -c 'while :; do :; done' & # it ends even if this script is killed
    spinning="$spinning $!"
done
row "four programs that spin" "cancel memory models wisdom" ""
kill $spinning 2> /dev/null || true
spinning=

$CC -shared -fPIC -DDRIVER -o "$folder/libcuda.so.1" "$source/tests/build/described_gpu.c"
$CC -shared -fPIC -fvisibility=hidden -fopenmp -I. -Iinclude -I"$source/include" -I"$source" \
    -o "$folder/ecornn-cuda.so" "$source/tests/build/described_gpu.c" common/.libs/libcommon.a -lm
LD_LIBRARY_PATH=$folder ECORNN_MODULE_DIR=$folder bench/ecornn info | grep '^device cuda:0: NVIDIA H100'
row "a GPU" "api bucket cancel empty memory net tangent wisdom_files" "plans.py $bits" \
    env LD_LIBRARY_PATH="$folder" ECORNN_MODULE_DIR="$folder"

localedef -i de_DE -f UTF-8 "$folder/de_DE.UTF-8"
[ "$(LOCPATH=$folder LC_ALL=de_DE.UTF-8 locale decimal_point)" = , ] # else the script ends
mkdir "$folder/with a blank"
row "another locale, no HOME, a blank in TMPDIR" "api cell import problem published wisdom wisdom_files" cell.py \
    env -u HOME LOCPATH="$folder" LC_ALL=de_DE.UTF-8 TMPDIR="$folder/with a blank"
[ ! -e "$folder/failed" ] && echo "cases: $cases"
