#!/bin/sh
# The wheels for 64-bit Arm: cross-built with Debian's OpenBLAS for it, installed beside numpy, imported and run
# by Debian's Python under an emulator.  `make check-wheel-arm64 [WHEEL_OUT=FOLDER]`; nothing is installed into
# this system.  The build stays in tests/arm64.wheel.
set -eu
host=aarch64-linux-gnu
source=$(cd "${srcdir:-.}" && pwd)
mkdir -p tests/arm64.wheel/lists/partial tests/arm64.wheel/archives/partial
build=$(cd tests/arm64.wheel && pwd)
root=$build/root
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
command -v $host-gcc > /dev/null || { echo "no $host-gcc (Debian: gcc-aarch64-linux-gnu): skipped"; exit 77; }
[ -n "$qemu" ] || { echo "no qemu-aarch64 (Debian: qemu-user): skipped"; exit 77; }
command -v apt-get > /dev/null && command -v dpkg > /dev/null || { echo "no apt-get: skipped"; exit 77; }
unset MAKEFLAGS MAKELEVEL MFLAGS CC CFLAGS LDFLAGS PYTHONPATH ECORNN_LIBRARY 2> /dev/null || true

fail() {
    echo "FAILED: $*"
    exit 1
}

# What the build links and what runs it, of Debian for that machine, with lists of its own.
packages='libopenblas-openmp-dev python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libexpat1 zlib1g
    libffi8 libgcc-s1 libstdc++6'
cd "$build"
touch status
apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$build/lists" \
        -o Dir::State::Status="$build/status" -o Dir::Cache="$build" -o APT::Sandbox::User=root "$@"
}
# A list: unquoted on purpose.
[ -e root.made ] || { apt update && apt download $packages; } > build.log 2>&1 ||
    { echo "no packages of Debian for arm64: $(tail -n 1 build.log): skipped"; exit 77; }
[ -e root.made ] || {
    for package in ./*.deb; do dpkg -x "$package" "$root"; done
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version=3.11 --platform=manylinux_2_28_aarch64 \
        --platform=manylinux_2_27_aarch64 --platform=manylinux2014_aarch64 -d "$build" numpy
    touch root.made
} >> build.log 2>&1 || { echo "no numpy for arm64: skipped"; exit 77; }

blas=$root/usr/lib/$host/openblas-openmp/libopenblas.a
[ -e config.status ] || CONFIG_SHELL=/bin/sh "$source/configure" -q --host=$host --enable-werror --without-cuda \
    --disable-dependency-tracking CFLAGS=-O2 BLAS_LIBS="$blas" \
    BLAS_CFLAGS="-I$root/usr/include/$host/openblas-openmp" >> build.log 2>&1 ||
    { tail -n 40 build.log; fail "configure"; }
make -s -j"$(getconf _NPROCESSORS_ONLN)" wheel WHEEL_BLAS="$blas" WHEEL_OUT="${WHEEL_OUT:-$build/dist}" > wheel.log 2>&1 ||
    { tail -n 40 wheel.log; fail "make wheel"; }
grep auditwheel wheel.log || fail "make wheel says nothing"

rm -rf site
HARDENING=${HARDENING--Wl,-z,relro -Wl,-z,now}
export HARDENING
for wheel in numpy*.whl "${WHEEL_OUT:-$build/dist}"/ecornn*_aarch64.whl; do
    python3 -m zipfile -e "$wheel" site
done
"$source/tests/build/hardened.sh" site/ecornn/lib/*ecornn*.so* || fail "hardened"
python() {
    PYTHONPATH=$build/site "$qemu" -L "$root" "$root/usr/bin/python3.11" "$@" || fail "$*"
}
[ "$(python -c 'import platform; print(platform.machine())')" = aarch64 ] || fail "another machine"
python "$source/tests/wheel_run.py" numpy ecornn
python "$source/tests/wheel_run.py" ecornn numpy
echo "cases: 2"
