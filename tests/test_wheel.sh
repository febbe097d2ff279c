#!/bin/sh
# The wheels of this build: made twice with the same bytes, fit for old systems, installed without a
# network, and run: alone, and beside torch with one libgomp.  Needs pip's network; torch is that of
# ECORNN_PYTHON, and without it the rest is tried.
set -eu
source=$(cd "${srcdir:-.}" && pwd)/tests
torch=${ECORNN_PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset ECORNN_LIBRARY ECORNN_MODULE_DIR MAKEFLAGS MAKELEVEL MFLAGS PYTHONPATH 2> /dev/null || true
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
cases=0

fail() {
    echo "FAILED: $*"
    exit 1
}
passed() {
    cases=$((cases + 1))
    echo "passed: $*"
}

# ---- made ----------------------------------------------------------------------------------------

python3 -c 'import pip, venv' || { echo "python3 has no pip or venv: skipped"; exit 77; }
make wheel WHEEL_OUT="$folder/first" > "$folder/log" 2>&1 || {
    cat "$folder/log"
    ! grep -q -e 'pip could not fetch' -e 'is not OpenBLAS with' -e 'wheels are for' -e 'wheels need' \
        "$folder/log" || exit 77
    fail "make wheel"
}
grep 'auditwheel' "$folder/log"
make wheel WHEEL_OUT="$folder/second" > "$folder/log" 2>&1 || fail "make wheel, the second time"
for wheel in "$folder"/first/*.whl; do
    cmp "$wheel" "$folder/second/${wheel##*/}" || fail "other bytes the second time"
    passed "${wheel##*/} twice"
done
rm -r "$folder/second"

newest() { # library: of the versions of glibc that it asks for
    objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | cut -d _ -f 2 | sort -V | tail -n 1
}
for library in "$folder"/first/linked/*.so*; do
    version=$(newest "$library")
    [ "$(printf '%s\n2.28\n' "$version" | sort -V | tail -n 1)" = 2.28 ] ||
        fail "${library##*/} needs glibc $version"
    passed "${library##*/} needs glibc $version"
done

# ---- alone ---------------------------------------------------------------------------------------

# numpy is downloaded once; after that no network is needed, and none is there where it can be cut.
numpy=${XDG_CACHE_HOME:-$HOME/.cache}/ecornn/wheel/numpy-$(python3 -c 'import sys; print(*sys.version_info[:2], sep=".")')
[ -e "$numpy/complete" ] || {
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$numpy" numpy > "$folder/log" 2>&1 &&
        touch "$numpy/complete" || { cat "$folder/log"; echo "no numpy: the rest is skipped"; exit 0; }
}
alone=
unshare -rn true 2> /dev/null && alone='unshare -rn'
python3 -m venv "$folder/bare"
start=$(date +%s%N)
$alone env PIP_CONFIG_FILE=/dev/null "$folder/bare/bin/python" -m pip install -q --no-index \
    --find-links "$folder/first" --find-links "$numpy" ecornn || fail "pip install"
# Nothing of this system but the C library: neither its OpenBLAS nor its libgomp.
cd "$folder"
$alone env -i HOME="$folder" bare/bin/python "$source/wheel_run.py" numpy ecornn || fail "numpy, ecornn"
passed "installed and run without a network in $((($(date +%s%N) - start) / 1000000)) ms: $alone"
$alone env -i HOME="$folder" bare/bin/python "$source/wheel_run.py" ecornn numpy || fail "ecornn, numpy"
passed "ecornn before numpy"

# Other Pythons that are here, by the same wheel.
for python in python3.9 python3.10 python3.12 python3.13 python3.14; do
    $python -c 'import venv' 2> /dev/null || continue
    $python -m pip install -q --no-index --no-deps --target "$folder/$python" "$folder"/first/ecornn-*.whl ||
        fail "pip of $python"
    PYTHONPATH=$folder/$python $python "$source/wheel_run.py" ecornn || fail "$python"
    passed "$python"
done

# ---- beside torch --------------------------------------------------------------------------------

if $torch -c 'import torch' 2> /dev/null; then
    OMP_WAIT_POLICY=passive PYTHONPATH=$folder/bare/lib/$(ls "$folder/bare/lib")/site-packages
    export OMP_WAIT_POLICY
    mkdir "$folder/ours"
    # ecornn without the numpy beside it: torch's Python has its own.
    cp -r "$PYTHONPATH/ecornn" "$folder/ours"
    for order in 'torch ecornn ecornn.torch' 'ecornn torch' 'numpy ecornn torch'; do
        # A list of names: unquoted on purpose.
        PYTHONPATH=$folder/ours $torch "$source/wheel_run.py" $order || fail "$order"
        passed "$order"
    done
else
    echo "$torch has no torch: not tried beside it"
fi

# ---- the module for GPUs -------------------------------------------------------------------------

# Without a GPU: the package finds the module, and that NVIDIA's libraries where their wheels put
# them, which torch needs too.  Then CUDA refuses the driver, which is made up.
cuda=$(echo "$folder"/first/ecornn_cu1*.whl)
nvidia=$($torch -c 'import nvidia; print(list(nvidia.__path__)[0])' 2> /dev/null) || nvidia=
if [ -e "$cuda" ] && [ -n "$nvidia" ]; then
    python3 -m pip install -q --no-index --no-deps --target "$folder/with" "$folder"/first/*.whl \
        2> "$folder/log" || fail "pip install of the module"
    ln -s "$nvidia" "$folder/with/nvidia"
    echo 'int nothing;' > nothing.c && $CC -shared -fPIC -o libcuda.so.1 nothing.c
    said=$(LD_LIBRARY_PATH=$folder PYTHONPATH=$folder/with python3 -c '
import ctypes
from ecornn import _library as lib
lib.library.ecornn_device_open(ctypes.byref(ctypes.c_void_p()), b"cuda:0")
print(lib.library.ecornn_error_detail().decode())')
    case $said in
    'CUDA: '*) passed "${cuda##*/}: $said" ;;
    *) fail "${cuda##*/}: $said" ;;
    esac
fi
echo "cases: $cases"
