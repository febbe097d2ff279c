#!/bin/sh
# The library for 64-bit Arm: cross-built, and its kernels, activations and some runs tested under an
# emulator; NEON gives the bits of AVX2 and AVX-512, plain C those of SSE2.  `make check-arm64`; the
# build stays in tests/arm64.build.
set -eu
host=aarch64-linux-gnu
source=$(cd "${srcdir:-.}" && pwd)
build=tests/arm64.build
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
command -v $host-gcc > /dev/null || { echo "no $host-gcc (Debian: gcc-aarch64-linux-gnu): skipped"; exit 77; }
[ -n "$qemu" ] || { echo "no qemu-aarch64 (Debian: qemu-user): skipped"; exit 77; }
unset MAKEFLAGS MAKELEVEL MFLAGS CC CFLAGS LDFLAGS 2> /dev/null || true

fail() {
    echo "FAILED: $*"
    exit 1
}

# Cross compilers come without CBLAS and Check, so tests/cross has the needed parts of both.
mkdir -p $build
made() { # targets
    make -s -j"$(getconf _NPROCESSORS_ONLN)" -C $build "$@" >> $build/build.log 2>&1 ||
        { tail -n 40 $build/build.log; fail "the build"; }
}
# The emulator is slow: unless ECORNN_TESTS is all, it runs the kernels, the list of bits and a few problems,
# of a build that takes the compiler less time.
all= optimize=-Og
[ "${ECORNN_TESTS-}" != all ] || all=1 optimize=-O2
(
    cd $build
    $host-gcc -O2 -fPIC -c "$source/tests/cross/cblas.c" -o cblas.o
    [ -e config.status ] || CONFIG_SHELL=/bin/sh "$source/configure" -q --host=$host --enable-werror --without-cuda \
        --disable-dependency-tracking CFLAGS=$optimize BLAS_CFLAGS="-I$source/tests/cross" \
        BLAS_LIBS="$PWD/cblas.o" CHECK_CFLAGS="-I$source/tests/cross" CHECK_LIBS=-lm
) > $build/build.log 2>&1 || { tail -n 40 $build/build.log; fail "configure"; }

made libecornn.la examples/hello tests/cpu/bits tests/cpu/test_backend tests/cpu/test_kernels tests/cpu/test_lanes \
    ${all:+tests/cpu/test_walk tests/cpu/test_activations tests/cpu/test_attention tests/core/test_rows}

emulated() { # program of the build, arguments
    program=$1
    shift
    echo "$program $*"
    (cd $build && srcdir=$source ./libtool --mode=execute "$qemu" -L /usr/$host "$program" "$@") ||
        fail "$program $*"
}

export CHECK_EVERY='12 rows_of_own_cells_are_alone' # they share one interpreter
[ -z "$all" ] || emulated tests/core/test_rows > $build/rows.log 2>&1 & # while the other tests run
emulated examples/hello > $build/hello.log
emulated tests/cpu/test_kernels
emulated tests/cpu/test_lanes
for problem in lstm/f32/train/L2/bi/T5/N4/I7/H19/states gru/f32/infer/T3/N13/I33/H40 \
    lstm/f32/int8/infer/L2/bi/T4/N4/I70/H33 \
    lstm/f32/train/P5/T4/N3/I6/H21/lengths:random rnn-tanh/f64/train/T3/N2/I4/H9; do
    emulated tests/cpu/test_backend $problem
done

if [ -n "$all" ]; then
    emulated tests/cpu/test_activations
    emulated tests/cpu/test_attention
    export CHECK_BEST_SET=1 # kernels of plain C are counted natively
    emulated tests/cpu/test_walk
    wait $! || fail "$(cat $build/rows.log)"
fi

tests/cpu/bits > $build/here.bits || fail "tests/cpu/bits"
emulated tests/cpu/bits | grep -v '^tests' > $build/arm64.bits
[ -s $build/here.bits ] || fail "no bits"
diff $build/here.bits $build/arm64.bits || fail "other bits than here"
echo "# sets under an emulator: neon neondot"
echo "cases: $(wc -l < $build/arm64.bits)"
