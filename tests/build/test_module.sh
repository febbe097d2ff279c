#!/bin/sh
# A CUDA device that cannot be used is refused with the reason, and never keeps a program from
# running on the CPU.  The driver is made up: anything that loads as libcuda.so.1 passes for one.
set -eu
open=$PWD/tests/build/open_device
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
    echo "skipped: what a machine without a CUDA device does: $(cat "$folder/line")"
    exit 0
fi

# First without a false driver.
expect cuda:0 1 '^no device: ..*'
expect '' 0 '^cpu '

# With a driver: the module is missing, is junk, or belongs to another build.
echo 'int nothing;' > "$folder/nothing.c"
$CC -shared -fPIC -o "$folder/libcuda.so.1" "$folder/nothing.c"
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
ECORNN_MODULE_DIR=none expect cuda 1 "must be an absolute path, not 'none'"

if grep -q -e __asan_init -e __tsan_init .libs/libecornn.so; then
    echo "skipped: a sanitizer's library is not loaded by programs without it"
    exit 0
fi

# Where the module is looked for: beside the library as it lay when it was loaded, not in a folder
# that became the present one later, nor in one that argv[0] names.  A module says where it lies.
says() { # folder, word
    mkdir -p "$folder/$1/ecornn"
    echo "#include <stdio.h>
        __attribute__((constructor)) static void here(void) { puts(\"loaded $2\"); }" > "$folder/says.c"
    $CC -shared -fPIC -o "$folder/$1/ecornn/ecornn-cuda.so" "$folder/says.c"
}
says good good && says others bad
cp .libs/libecornn.so "$folder/good/libecornn.so"
cat > "$folder/leaves.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*count)(const char *, int *), n = -1;
    if (library == NULL || chdir(argv[2]) != 0)
        return printf("%s\n", library == NULL ? dlerror() : argv[argc - 1]);
    *(void **)&count = dlsym(library, "ecornn_device_count");
    count("cuda", &n);
    return printf("count %d\n", n);
}
END
$CC -o "$folder/leaves" "$folder/leaves.c" -ldl
unset ECORNN_MODULE_DIR
beside() { # command
    line=$(cd "$folder/good" && "$@") || true
    cases=$((cases + 1))
    case $line in
    *'loaded bad'*) echo "$*: $line" && exit 1 ;;
    *'loaded good'*) ;;
    *) echo "$*: the module beside the library was not loaded: $line" && exit 1 ;;
    esac
}
beside ../leaves ./libecornn.so ../others
beside ../leaves "$folder/good/libecornn.so" ../others
LD_LIBRARY_PATH=$LD_LIBRARY_PATH:. beside ../leaves libecornn.so ../others
ln -s "$PWD/tests/build/open_static" "$folder/others/program"
line=$("$folder/others/program" cuda) || true
cases=$((cases + 1))
case $line in
*'loaded bad'*) echo "argv[0]: $line" && exit 1 ;;
*'no device'*) ;;
*) echo "argv[0]: neither a module nor a word: $line" && exit 1 ;;
esac

# The real module, where it was built: CUDA itself says what is wrong with such a driver.
if [ -e "$built/ecornn-cuda.so" ]; then
    ECORNN_MODULE_DIR=$built
    export ECORNN_MODULE_DIR
    expect cuda 1 '^no device: CUDA: .*driver'
    expect '' 0 '^cpu '
else
    echo "skipped: the module without a driver, it was not built here"
fi
echo "cases: $cases"
