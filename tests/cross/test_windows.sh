#!/bin/sh
# The library and the command for Windows: built by mingw-w64 with an OpenBLAS of PyPI, and run under wine, with
# every instruction set of this machine.  `make check-windows`; the build stays in tests/windows.build.
# Of the C tests those run that need no fork, no limits and no functions of Linux.
set -eu
host=x86_64-w64-mingw32
openblas=scipy-openblas32==0.3.34.481.3
source=$(cd "${srcdir:-.}" && pwd)
mkdir -p tests/windows.build
build=$(cd tests/windows.build && pwd)
without='cancel environments faults memory wisdom_files wisdom_threads blas_memory busy threads tune bench_sides'
command -v $host-gcc > /dev/null || { echo "no $host-gcc (Debian: gcc-mingw-w64-x86-64): skipped"; exit 77; }
command -v wine > /dev/null || { echo "no wine (Debian: wine64, wine): skipped"; exit 77; }
unset MAKEFLAGS MAKELEVEL MFLAGS CC CFLAGS LDFLAGS ECORNN_TESTS 2> /dev/null || true

fail() {
    echo "FAILED: $*"
    exit 1
}

# OpenBLAS: its names have a prefix.  Libraries that the programs need are put into one folder.
blas=$build/blas/scipy_openblas32
[ -e "$blas" ] || {
    pip=$(python3 -m pip download -q --platform win_amd64 --only-binary=:all: --no-deps -d "$build" "$openblas" 2>&1) &&
        python3 -m zipfile -e "$build"/scipy_openblas32*.whl "$build/blas"
} || { echo "no OpenBLAS for Windows: $(echo "$pip" | tail -n 1): skipped"; exit 77; }
mkdir -p "$build/dlls" "$build/lib"
cp "$blas/lib/libscipy_openblas.dll" "$build/dlls/"
cp "$blas/lib/libscipy_openblas.lib" "$build/lib/libscipy_openblas.dll.a"
for name in libgomp-1 libgcc_s_seh-1 libwinpthread-1; do
    cp "$($host-gcc -print-file-name=$name.dll)" "$build/dlls/"
done
flags=-I$blas/include
for name in cblas_sgemm cblas_dgemm cblas_sgemv openblas_get_config openblas_get_corename openblas_get_parallel \
    openblas_get_num_threads openblas_set_num_threads; do
    flags="$flags -D$name=scipy_$name"
done

cd "$build"
made() { # targets, flags
    make -s -j"$(getconf _NPROCESSORS_ONLN)" "$@" >> build.log 2>&1 || { tail -n 40 build.log; fail "the build"; }
}
[ -e config.status ] || CONFIG_SHELL=/bin/sh "$source/configure" -q --host=$host --enable-werror --without-cuda \
    --disable-dependency-tracking CFLAGS=-O2 BLAS_CFLAGS="$flags" BLAS_LIBS="-L$build/lib -lscipy_openblas" \
    CHECK_CFLAGS="-I$source/tests/cross" CHECK_LIBS=-lm > build.log 2>&1 || { tail -n 40 build.log; fail "configure"; }
made libecornn.la ecornn-run.la tools/ecornn/ecornn.exe

# The DLL exports what the ELF library does.
shown=$($host-objdump -p .libs/libecornn-[0-9].dll | sed -n 's/^[[:blank:]]*\[.* \(ecornn_[a-z0-9_]*\)$/\1/p' | sort)
declared=$(sed -n '/^ECORNN_API/s/.*[ *]\(ecornn_[a-z0-9_]*\)(.*/\1/p' "$source"/include/ecornn.h "$source"/include/ecornn/*.h | sort)
[ -n "$declared" ] && [ "$shown" = "$declared" ] || fail "exports: $(printf '%s\n%s\n' "$shown" "$declared" | sort | uniq -u)"
# gcc aligns the stack to 16 bytes: no vector of 32 or 64 may be moved as if it were aligned.
$host-objdump -d .libs/libecornn-[0-9].dll > code
grep -q 'vmov[ud][pq].*%zmm' code || fail "no vectors in the DLL"
! grep -E 'vmov(aps|apd|dqa(32|64)?) .*%[yz]mm[0-9]*,?.*\(|vmov(aps|apd|dqa(32|64)?) .*\(.*%[yz]mm' code || fail "moves that want alignment"

WINEDEBUG=-all WINEPREFIX=$build/wine WINEPATH="Z:$build/dlls;Z:$build/.libs" srcdir="Z:$source"
OMP_WAIT_POLICY=passive ECORNN_WISDOM=0 CHECK_EVERY='12 agrees_with_finite_differences'
export WINEDEBUG WINEPREFIX WINEPATH srcdir OMP_WAIT_POLICY ECORNN_WISDOM CHECK_EVERY
wineboot -i > wine.log 2>&1 || { tail -n 5 wine.log; fail "wineboot"; }
mkdir -p wine/drive_c/tmp
run() { # program, arguments
    timeout 1200 wine "$@" > run.log 2>&1 < /dev/null || { tail -n 20 run.log; fail "$* ended with $?"; }
    sed -i 's/\r$//' run.log
}
# The Python package's module finds the DLL and all of its functions.
$host-gcc -x c -o open.exe - << END
#include <windows.h>
int main(void)
{
    const HMODULE module = LoadLibraryA("ecornn-run.dll");
    int (*const open)(int, void *) = (int (*)(int, void *))GetProcAddress(module, "ecornn_run_open");
    return open($(sed -n 's/^enum { RUN_VERSION = \([0-9]*\) };$/\1/p' "$source/python/native/runner.h"), NULL) != 0 || open(-1, NULL) == 0;
}
END
run open.exe
run tools/ecornn/.libs/ecornn.exe check
grep -q ' 0 failed$' run.log || { tail -n 5 run.log; fail "ecornn check"; }
echo "ecornn check: $(tail -n 1 run.log)"
cases=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' run.log)
echo "# sets under wine: $(sed -n 's/^cpu \([a-z0-9]*\) .*/\1/p' run.log | sort -u | tr '\n' ' ')"

programs=$(sed -n '/^ECO_TESTS = /,/^$/p' Makefile | grep -o 'tests/\(core\|cpu\|programs\)/test_[a-z_]*' | sort -u)
for name in $without; do programs=$(echo "$programs" | grep -v "/test_$name\$"); done
# A list: unquoted on purpose.
made CPPFLAGS="-include $source/tests/cross/posix.h" $(echo "$programs" | sed 's/$/.exe/')
for program in $programs; do
    run "$program.exe"
    here=$(awk '/^ok - .* cases, / { n += $(NF - 7) } END { print n + 0 }' run.log)
    [ "$here" -gt 0 ] || fail "$program compared nothing"
    cases=$((cases + here))
done
echo "$(echo "$programs" | wc -l) programs; not run: $without"
echo "cases: $cases"
