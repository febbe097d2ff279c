# ECO_CUDA(least version): the CUDA toolkit for gpu/, or why there is none, in eco_cuda_msg; stops
# only where CUDA was asked for by name.  Sets the conditional HAVE_CUDA and NVCC, NVCC_HOST,
# CUDA_GENCODE, CUDA_GENCODE_RESIDENT, CUDA_CPPFLAGS, CUDA_LIBDIR for gpu/gpu.am.  libecornn itself never needs CUDA.

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
# devices can run.
AC_DEFUN([_ECO_CUDA_GENCODE], [
  $1= eco_ptx=
  for eco_arch in $2; do
    AS_VAR_APPEND([$1], [" -gencode arch=compute_$eco_arch,code=sm_$eco_arch"])
    AS_CASE([$eco_arch], [*@<:@af@:>@], [], [eco_ptx=$eco_arch])
  done
  AS_IF([test -n "$eco_ptx"],
    [AS_VAR_APPEND([$1], [" -gencode arch=compute_$eco_ptx,code=compute_$eco_ptx"])])
])

# The same for the resident kernels, of which there are hundreds: 8.6 and 8.9 run what was compiled for 8.0.
AC_DEFUN([_ECO_CUDA_GENCODE_RESIDENT], [
  eco_archs=
  for eco_arch in $with_cuda_arch; do
    AS_CASE([" $with_cuda_arch :$eco_arch"], [*" 80 "*:8@<:@69@:>@], [],
      [AS_VAR_APPEND([eco_archs], [" $eco_arch"])])
  done
  _ECO_CUDA_GENCODE([CUDA_GENCODE_RESIDENT], [$eco_archs])
])

AC_DEFUN([_ECO_CUDA_TRY], [
  AC_MSG_CHECKING([whether $NVCC compiles for $with_cuda_arch])
  cat > conftest.cu <<_ACEOF
@%:@include <cuda_runtime.h>
@%:@include <cublas_v2.h>
__global__ void kernel(float *x) { *x = 1; }
_ACEOF
  AS_IF([$NVCC $NVCC_HOST $CUDA_GENCODE $NVCCFLAGS -c conftest.cu -o conftest.o >&AS_MESSAGE_LOG_FD 2>&1],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     eco_cuda_why="nvcc cannot compile for $with_cuda_arch (see config.log)"])
  rm -f conftest.cu conftest.o
])

AC_DEFUN([ECO_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR],
    [build the CUDA backend, a module of its own; DIR/bin/nvcc])], [], [with_cuda=auto])
  AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST],
    [compute capabilities to compile for, with commas or blanks (75,80,86,89,90a)])], [],
    [with_cuda_arch=75,80,86,89,90a])
  with_cuda_arch=`echo "$with_cuda_arch" | tr , ' '`
  AC_ARG_VAR([NVCC], [CUDA compiler])
  AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags])
  AC_ARG_VAR([NVCC_CCBIN], [host compiler for nvcc])
  : ${NVCCFLAGS=-O3}
  eco_cuda_why= NVCC_HOST=
  AS_IF([test -n "$NVCC_CCBIN"], [NVCC_HOST="-ccbin $NVCC_CCBIN"])
  AS_IF([test "x$with_cuda" = xno], [eco_cuda_why="not wanted"],
        [test "x$enable_shared" = xno], [eco_cuda_why="a module needs --enable-shared"],
        [_ECO_CUDA_TOOLKIT([$1])])
  _ECO_CUDA_GENCODE([CUDA_GENCODE], [$with_cuda_arch])
  _ECO_CUDA_GENCODE_RESIDENT
  AS_IF([test -z "$eco_cuda_why"], [_ECO_CUDA_TRY])
  AS_IF([test -z "$eco_cuda_why"],
    [eco_cuda_msg="$eco_cuda_version for $with_cuda_arch"],
    [eco_cuda_msg="no ($eco_cuda_why)"
     AS_CASE([$with_cuda], [auto|no], [], [AC_MSG_ERROR([--with-cuda=$with_cuda: $eco_cuda_why])])])
  # bench/bench_gpu measures against cuDNN where it lies beside CUDA.
  AS_IF([test -z "$eco_cuda_why" && test -e "$eco_cuda_root/include/cudnn.h" &&
         test -e "$CUDA_LIBDIR/libcudnn.so"],
    [AC_SUBST([CUDNN_CPPFLAGS], [-DECO_HAVE_CUDNN])
     AC_SUBST([CUDNN_LIBS], [-lcudnn])])
  AM_CONDITIONAL([HAVE_CUDA], [test -z "$eco_cuda_why"])
  AC_SUBST([NVCC_HOST])
  AC_SUBST([CUDA_GENCODE])
  AC_SUBST([CUDA_GENCODE_RESIDENT])
  AC_SUBST([CUDA_CPPFLAGS], ["-isystem $eco_cuda_root/include"])
  AC_SUBST([CUDA_LIBDIR])
])
