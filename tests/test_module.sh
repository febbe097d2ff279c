#!/bin/sh
# A CUDA device that cannot be used is refused with the reason, and never keeps a program from
# running on the CPU.  The driver is made up: anything that loads as libcuda.so.1 passes for one.
set -eu
open=$PWD/tests/open_device
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cases=0

expect() { # name of the device, exit status, pattern of the line
    status=0
    line=$("$open" ${1:+"$1"}) || status=$?
    cases=$((cases + 1))
    if [ "$status" != "$2" ] || ! echo "$line" | grep -q "$3"; then
        echo "device '$1': exit $status (not $2?), or no '$3' in: $line"
        exit 1
    fi
}

expect cuda:x 1 '^bad argument: device in device name'
expect cuda:256 1 '^bad argument'
expect cpu:1 0 '^cpu '
if "$open" cuda > "$folder/line"; then
    echo "a CUDA device is here, the rest is skipped: $(cat "$folder/line")"
    exit 0
fi

# As this machine is.
expect cuda:0 1 '^no device: ..*'
expect '' 0 '^cpu '

# With a driver: the module missing, junk, somebody else's.
echo 'int nothing;' > "$folder/nothing.c"
if ! $CC -shared -fPIC -o "$folder/libcuda.so.1" "$folder/nothing.c"; then
    echo "no compiler for a made-up driver"
    exit 77
fi
mkdir "$folder/none" "$folder/junk" "$folder/other"
echo junk > "$folder/junk/ecornn-cuda.so"
cp "$folder/libcuda.so.1" "$folder/other/ecornn-cuda.so"
built=$ECORNN_MODULE_DIR
LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH ECORNN_MODULE_DIR
for kind in none:'no CUDA module: .*cannot open' junk:'no CUDA module: ' other:'not an ecornn module'; do
    ECORNN_MODULE_DIR=$folder/${kind%%:*}
    expect cuda 1 "^no device: .*${kind#*:}"
    expect '' 0 '^cpu '
done

# The real module, where it was built: CUDA itself says what is wrong with such a driver.
if [ -e "$built/ecornn-cuda.so" ]; then
    ECORNN_MODULE_DIR=$built
    expect cuda 1 '^no device: CUDA: .*driver'
    expect '' 0 '^cpu '
else
    echo "the CUDA module was not built here"
fi
echo "cases: $cases"
