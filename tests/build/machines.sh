#!/bin/sh
# Other machines, as far as this one can pretend to be them: each row changes what a machine may change
# (instruction sets of ours and of torch's, cores, load, a GPU, the locale, folders) and runs tests in it,
# which must not notice.  A row runs a few quick tests or, if ECORNN_TESTS is all and the row differs most
# from this machine, all of the programs in TEST_PROGRAMS and of the Python package.  ECORNN_PYTHON is a Python
# with torch and pytest.
set -eu
source=$(cd "${srcdir:-.}" && pwd)
folder=$(mktemp -d)
spinning= cases=0 all=${ECORNN_TESTS-}
trap 'rm -rf "$folder"; [ -z "$spinning" ] || kill $spinning' EXIT
python=${ECORNN_PYTHON:-python3}
programs=$(printf 'tests/core/test_%s ' api bucket calls cancel cell empty environments import memory models net \
    problem published tangent wisdom wisdom_files)
modules='torch_autocast torch_packed'
if grep -q -a -e __asan_init -e __tsan_init .libs/libecornn.so; then
    echo "Python cannot load a library with this sanitizer: skipped" && exit 77
fi
why=$($python -c 'import numpy, pytest, torch' 2>&1) || { echo "$python: $why: skipped" && exit 77; }
ECORNN_LIBRARY=$PWD/.libs/libecornn.so PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/python:$source/python/tests
export ECORNN_LIBRARY PYTHONDONTWRITEBYTECODE PYTHONPATH
unset ECORNN_TESTS
failed() { # what, its log
    echo "FAILED: $row: $1"
    grep -v -e '^ok ' -e '^$' "$2" | tail -n 30
    touch "$folder/failed"
}

# The two halves of a row run side by side.
row() { # its name, the command that each test is an argument of
    row=$1 now=$programs files=$(printf "$source/python/tests/test_%s.py " $modules)
    shift
    case $all:$row in # rows of -1, as test_streams has them, need a real GPU
    all:sse2* | all:*GPU*) now=$(echo "$TEST_PROGRAMS" | sed 's|tests/gpu/[^ ]*||g; s|[^ ]*test_streams||') files=$source/python/tests ;;
    esac
    [ -n "$now" ] || failed "no program" /dev/null
    for program in $now; do
        "$@" $program > "$folder/program" 2>&1 || failed "$program ended with $?" "$folder/program"
    done &
    half=$!
    # A list of files: unquoted on purpose.
    "$@" $python -m pytest -q -p no:cacheprovider --tb=short $files > "$folder/python" 2>&1 ||
        failed "Python ended with $?" "$folder/python"
    wait $half
    cases=$((cases + $(echo $now | wc -w) + 1))
    echo "$row: $(echo $now | wc -w) programs, Python: $(tail -n 1 "$folder/python")"
}

# Instruction sets: ours with torch's, and our best with torch's least.
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
    row "$set, torch's $torch, oneDNN's $onednn" env ECORNN_ISA="$set" ATEN_CPU_CAPABILITY="$torch" \
        ONEDNN_MAX_CPU_ISA="$onednn"
done

# Cores and load.
# A list of numbers: unquoted on purpose.
set -- $($python -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
row "one core" taskset -c "$1"
[ $# -lt 3 ] || row "two cores" taskset -c "$1,$2"
for i in 1 2 3 4; do
    timeout 900 sh -c 'while :; do :; done' & # it ends even if this script is killed
    spinning="$spinning $!"
done
row "four programs that spin"
kill $spinning 2> /dev/null || true
spinning=

$CC -shared -fPIC -DDRIVER -o "$folder/libcuda.so.1" "$source/tests/build/described_gpu.c"
$CC -shared -fPIC -fvisibility=hidden -fopenmp -I. -Iinclude -I"$source/include" -I"$source" \
    -o "$folder/ecornn-cuda.so" "$source/tests/build/described_gpu.c" common/.libs/libcommon.a -lm
LD_LIBRARY_PATH=$folder ECORNN_MODULE_DIR=$folder bench/ecornn info | grep '^device cuda:0: NVIDIA H100'
row "a GPU" env LD_LIBRARY_PATH="$folder" ECORNN_MODULE_DIR="$folder"

localedef -i de_DE -f UTF-8 "$folder/de_DE.UTF-8"
[ "$(LOCPATH=$folder LC_ALL=de_DE.UTF-8 locale decimal_point)" = , ] # else the script ends
mkdir "$folder/with a blank"
row "another locale, no HOME, a blank in TMPDIR" env -u HOME LOCPATH="$folder" LC_ALL=de_DE.UTF-8 \
    TMPDIR="$folder/with a blank"
[ ! -e "$folder/failed" ] && echo "cases: $cases"
