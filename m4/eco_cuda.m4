# ECO_CUDA(least version): the CUDA toolkit for gpu/, or why there is none, in eco_cuda_msg; stops
# only where CUDA was asked for by name.  Sets the conditionals HAVE_CUDA and CUDA_SEEN (this machine has
# a device), and NVCC, NVCC_HOST, CUDA_GENCODE, CUDA_GENCODE_MATRIX, CUDA_GENCODE_PERSISTENT,
# CUDA_COMPRESS, CUDA_ARCHS, CUDA_CPPFLAGS, CUDA_LIBDIR for gpu/gpu.am.  libecornn itself never needs CUDA.

# _ECO_CUDA_TOOLKIT(least version): nvcc, its version and folder; eco_cuda_why says what is missing.
AC_DEFUN([_ECO_CUDA_TOOLKIT], [
  AS_CASE([$with_cuda],
    [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
  AS_IF([test -z "$NVCC"], [eco_cuda_why="nvcc not found"], [
    eco_cuda_version=`$NVCC --version | $SED -n 's/.*release \(@<:@0-9.@:>@*\),.*/\1/p'`
    eco_cuda_root=`$NVCC --dryrun -x cu -c /dev/null 2>&1 | $SED -n 's/^#\$ TOP=//p'`
    eco_cuda_root=`cd "$eco_cuda_root" 2> /dev/null && pwd -P`
    AS_VERSION_COMPARE([$eco_cuda_version], [$1],
      [eco_cuda_why="CUDA $eco_cuda_version is older than $1"])
    for eco_dir in lib64 lib targets/x86_64-linux/lib lib/x86_64-linux-gnu; do
      AS_IF([test -z "$CUDA_LIBDIR" && test -e "$eco_cuda_root/$eco_dir/libcudart_static.a"],
        [CUDA_LIBDIR=$eco_cuda_root/$eco_dir])
    done
    AS_IF([test -z "$eco_cuda_why" && test -z "$CUDA_LIBDIR"],
      [eco_cuda_why="no libcudart_static.a below $eco_cuda_root"])
    AS_IF([test -z "$eco_cuda_why" && test ! -e "$CUDA_LIBDIR/libcublas.so"],
      [eco_cuda_why="no libcublas.so in $CUDA_LIBDIR"])])
])

# _ECO_CUDA_GENCODE(variable, list): machine code for each architecture; PTX of the last one that newer
# devices can run, but not later than 10.0: 11.0 does not run PTX of 12.0.
AC_DEFUN([_ECO_CUDA_GENCODE], [
  $1= eco_ptx=
  for eco_arch in $2; do
    AS_VAR_APPEND([$1], [" -gencode arch=compute_$eco_arch,code=sm_$eco_arch"])
    AS_CASE([$eco_ptx:$eco_arch], [*@<:@af@:>@ | ???:*], [], [eco_ptx=$eco_arch])
  done
  AS_IF([test -n "$eco_ptx"],
    [AS_VAR_APPEND([$1], [" -gencode arch=compute_$eco_ptx,code=compute_$eco_ptx"])])
])

# The same for kernels that need matrix instructions of 8.0: none before. Beside code for 12.0 persistent
# kernels have no PTX, which would take 5 MB.
AC_DEFUN([_ECO_CUDA_GENCODE_MATRIX], [
  eco_archs=`echo $eco_cuda_archs | $SED 's/^7@<:@0-9@:>@ //'`
  _ECO_CUDA_GENCODE([CUDA_GENCODE_MATRIX], [$eco_archs])
  CUDA_GENCODE_PERSISTENT=$CUDA_GENCODE_MATRIX
  AS_CASE([" $eco_archs "], [*" 120 "*],
    [CUDA_GENCODE_PERSISTENT=${CUDA_GENCODE_MATRIX% -gencode*,code=compute_*}])
])

# _ECO_CUDA_SEEN: the compute capabilities of this machine's devices, in eco_cuda_seen; the driver says.
# Empty: there is none, or we build for another machine.
AC_DEFUN([_ECO_CUDA_SEEN], [
  AC_MSG_CHECKING([for devices of CUDA])
  eco_cuda_seen=
  AC_RUN_IFELSE([AC_LANG_SOURCE([[
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static void *cuda;
static int call(const char *name, void *to, long a, long b)
{
    int (*f)(void *, long, long);
    void *symbol = dlsym(cuda, name);
    memcpy(&f, &symbol, sizeof f);
    return symbol != NULL ? f(to, a, b) : 1;
}
int main(void)
{
    enum { MAJOR = 75, MINOR = 76 }; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_* */
    int n = 0, device, major, minor;
    FILE *file = fopen("conftest.out", "w");
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (file == NULL || cuda == NULL || call("cuInit", NULL, 0, 0) != 0 ||
        call("cuDeviceGetCount", &n, 0, 0) != 0)
        return 1;
    for (int k = 0; k < n; k++)
        if (call("cuDeviceGet", &device, k, 0) == 0 &&
            call("cuDeviceGetAttribute", &major, MAJOR, device) == 0 &&
            call("cuDeviceGetAttribute", &minor, MINOR, device) == 0)
            fprintf(file, "%d%d\n", major, minor);
    return fclose(file) != 0;
}
]])], [eco_cuda_seen=`sort -n -u conftest.out | tr '\n' ' '`], [:], [:])
  rm -f conftest.out
  AC_MSG_RESULT([${eco_cuda_seen:-none}])
])

# _ECO_CUDA_ARCHS: what --with-cuda-arch means, in eco_cuda_archs.  90 means 90a: a third of the kernels
# need it.  native is all where no device is seen, or one that this nvcc does not know.
AC_DEFUN([_ECO_CUDA_ARCHS], [
  eco_known=" `$NVCC --list-gpu-arch 2> /dev/null | $SED 's/compute_//' | tr '\n' ' '` "
  eco_cuda_archs=`echo "$with_cuda_arch" | $SED 's/^ptx$/90a/' | tr , ' '` eco_cuda_by=
  AS_IF([test "x$with_cuda_arch" = xnative], [
    eco_cuda_archs=$eco_cuda_seen eco_cuda_by=" (seen)"
    for eco_arch in $eco_cuda_seen; do
      AS_CASE([$eco_known], [*" $eco_arch "*], [], [eco_cuda_archs=])
    done])
  AS_CASE([$eco_cuda_archs],
    [''], [AS_IF([test -z "$eco_cuda_seen"],
      [eco_cuda_by=" (all: no GPU was seen; --with-cuda=no leaves out most of the build)"],
      [eco_cuda_by=" (all: this nvcc does not know $eco_cuda_seen)"])],
    [all], [eco_cuda_archs= eco_cuda_by=" (all)"])
  AS_IF([test -z "$eco_cuda_archs"], [
    for eco_arch in 75 80 90 100 120; do
      AS_CASE([$eco_known], [*" $eco_arch "*], [AS_VAR_APPEND([eco_cuda_archs], [" $eco_arch"])])
    done])
  eco_cuda_archs=`echo " $eco_cuda_archs " | $SED 's/ 90 / 90a /'`
  eco_cuda_archs=`echo $eco_cuda_archs`
  for eco_arch in $eco_cuda_archs; do
    AS_CASE([$eco_known], [*" ${eco_arch%@<:@af@:>@} "*|'  '], [],
      [AC_MSG_ERROR([--with-cuda-arch has $eco_arch, must be native, all, ptx or some of$eco_known])])
  done
])

# _ECO_CUDA_COMPRESS: a sixth of the size.  The smallest form needs a driver of 12.4, which 13.0 has.
AC_DEFUN([_ECO_CUDA_COMPRESS], [
  AS_VERSION_COMPARE([$eco_cuda_version], [13.0],
    [CUDA_COMPRESS=-Xfatbin=-compress-all], [CUDA_COMPRESS=--compress-mode=size],
    [CUDA_COMPRESS=--compress-mode=size])
])

# _ECO_CUDA_PTX: --with-cuda-arch=ptx.  Optimization, ptxas and small files take nine tenths of nvcc's time.
AC_DEFUN([_ECO_CUDA_PTX], [
  eco_fast="-Xcicc -O0"
  AS_IF([$NVCC --help | grep -q -e --Ofast-compile], [eco_fast=-Ofc=max CUDA_COMPRESS=--compress-mode=speed])
  CUDA_GENCODE=" -gencode arch=compute_90a,code=compute_90a $eco_fast"
  CUDA_GENCODE_MATRIX=$CUDA_GENCODE CUDA_GENCODE_PERSISTENT=$CUDA_GENCODE eco_cuda_by=" (PTX, not optimized: slow)"
])

AC_DEFUN([_ECO_CUDA_TRY], [
  AC_MSG_CHECKING([whether $NVCC compiles for $eco_cuda_archs])
  cat > conftest.cu <<_ACEOF
@%:@include <cuda_runtime.h>
@%:@include <cublas_v2.h>
__global__ void kernel(float *x) { *x = 1; }
_ACEOF
  AS_IF([$NVCC $NVCC_HOST $CUDA_GENCODE $CUDA_COMPRESS $NVCCFLAGS -c conftest.cu -o conftest.o >&AS_MESSAGE_LOG_FD 2>&1],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     eco_cuda_why="nvcc cannot compile for $eco_cuda_archs (see config.log)"])
  rm -f conftest.cu conftest.o
])

AC_DEFUN([ECO_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR],
    [build the CUDA backend, a module of its own; DIR/bin/nvcc])], [], [with_cuda=auto])
  AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=native|all|LIST],
    [compute capabilities to compile for: of this machine's devices, or all if there is none; all
     (75,80,90a,100,120); or a list with commas or blanks; ptx compiles fast and runs slowly, for tests that
     have no GPU @<:@native@:>@])], [], [with_cuda_arch=native])
  AC_ARG_VAR([NVCC], [CUDA compiler])
  AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags])
  AC_ARG_VAR([NVCC_CCBIN], [host compiler for nvcc])
  : ${NVCCFLAGS=-O3}
  eco_cuda_why= NVCC_HOST= eco_cuda_seen= eco_cuda_archs=
  AS_IF([test -n "$NVCC_CCBIN"], [NVCC_HOST="-ccbin $NVCC_CCBIN"])
  AS_IF([test "x$with_cuda" = xno], [eco_cuda_why="not wanted"],
        [test "x$enable_shared" = xno], [eco_cuda_why="a module needs --enable-shared"],
        [_ECO_CUDA_TOOLKIT([$1])])
  AS_IF([test -z "$eco_cuda_why"], [
    _ECO_CUDA_SEEN
    _ECO_CUDA_ARCHS
    _ECO_CUDA_GENCODE([CUDA_GENCODE], [$eco_cuda_archs])
    _ECO_CUDA_GENCODE_MATRIX
    _ECO_CUDA_COMPRESS
    AS_IF([test "x$with_cuda_arch" = xptx], [_ECO_CUDA_PTX])
    _ECO_CUDA_TRY])
  AS_IF([test -z "$eco_cuda_why"],
    [eco_cuda_msg="$eco_cuda_version for $eco_cuda_archs$eco_cuda_by"],
    [eco_cuda_msg="no ($eco_cuda_why)"
     AS_CASE([$with_cuda], [auto|no], [], [AC_MSG_ERROR([--with-cuda=$with_cuda: $eco_cuda_why])])])
  # bench/ecornn measures against cuDNN if it is installed with CUDA.
  AS_IF([test -z "$eco_cuda_why" && test -e "$eco_cuda_root/include/cudnn.h" &&
         test -e "$CUDA_LIBDIR/libcudnn.so"],
    [AC_SUBST([CUDNN_CPPFLAGS], [-DECO_HAVE_CUDNN])
     AC_SUBST([CUDNN_LIBS], [-lcudnn])])
  AM_CONDITIONAL([HAVE_CUDNN], [test -n "$CUDNN_LIBS"])
  AM_CONDITIONAL([HAVE_CUDA], [test -z "$eco_cuda_why"])
  AM_CONDITIONAL([CUDA_PTX], [test "x$with_cuda_arch" = xptx])
  AM_COND_IF([CUDA_PTX], [AC_DEFINE([CUDA_PTX], [1], [The module has persistent kernels of one cell of each kind.])])
  AM_CONDITIONAL([CUDA_SEEN], [test -n "$eco_cuda_seen"])
  AC_SUBST([NVCC_HOST])
  AC_SUBST([CUDA_GENCODE])
  AC_SUBST([CUDA_GENCODE_MATRIX])
  AC_SUBST([CUDA_GENCODE_PERSISTENT])
  AC_SUBST([CUDA_COMPRESS])
  AC_SUBST([CUDA_ARCHS], [$eco_cuda_archs])
  AC_SUBST([CUDA_CPPFLAGS], ["-isystem $eco_cuda_root/include"])
  AC_SUBST([CUDA_LIBDIR])
])
