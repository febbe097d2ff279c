# ECO_BLAS: a CBLAS, OpenBLAS before others; sets BLAS_CFLAGS and BLAS_LIBS, stops without one.
# The flavours of OpenBLAS share one soname; the OpenMP one shares its threads with ours.
AC_DEFUN([ECO_BLAS], [
  AC_ARG_VAR([BLAS_CFLAGS], [C compiler flags for cblas.h, instead of a search])
  AC_ARG_VAR([BLAS_LIBS], [linker flags for a CBLAS, instead of a search])
  AS_IF([test -z "$BLAS_LIBS"],
    [PKG_CHECK_MODULES([OPENBLAS], [openblas],
      [BLAS_CFLAGS=$OPENBLAS_CFLAGS BLAS_LIBS=$OPENBLAS_LIBS],
      [eco_save_LIBS=$LIBS
       AC_SEARCH_LIBS([cblas_sgemm], [openblas cblas blas],
         [AS_IF([test "$ac_cv_search_cblas_sgemm" != "none required"],
                [BLAS_LIBS=$ac_cv_search_cblas_sgemm])],
         [AC_MSG_ERROR([no CBLAS found (Debian: libopenblas-openmp-dev)])])
       LIBS=$eco_save_LIBS])])
  eco_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $BLAS_CFLAGS"
  AC_CHECK_HEADER([cblas.h], [],
    [AC_MSG_ERROR([cblas.h not found (Debian: libopenblas-openmp-dev)])])
  eco_save_LIBS=$LIBS
  LIBS="$BLAS_LIBS $LIBS"
  AC_MSG_CHECKING([whether programs link with $BLAS_LIBS])
  eco_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS $OPENMP_CFLAGS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cblas.h>]],
      [[void (*volatile one)(void) = (void (*)(void))cblas_sgemm; return one == 0;]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([BLAS_LIBS is $BLAS_LIBS, must have cblas_sgemm (see config.log)])])
  CFLAGS=$eco_save_CFLAGS
  CPPFLAGS=$eco_save_CPPFLAGS
  AC_CHECK_FUNCS([openblas_get_parallel openblas_get_config])
  LIBS=$eco_save_LIBS
])
