# ECO_ONEDNN: oneDNN 3.x as an opponent of bench/ecornn; nothing else uses it.  --with-onednn=PREFIX
# for one that is installed elsewhere.  Sets ONEDNN_CFLAGS, ONEDNN_LIBS and the conditional
# HAVE_ONEDNN.
AC_DEFUN([ECO_ONEDNN], [
  AC_ARG_WITH([onednn],
    [AS_HELP_STRING([--with-onednn=PREFIX|no], [bench measures against oneDNN (where found)])],
    [], [with_onednn=auto])
  AS_CASE([$with_onednn],
    [auto|yes|no], [ONEDNN_CFLAGS= ONEDNN_LIBS=-ldnnl],
    [eco_onednn_lib=$with_onednn/lib
     AS_IF([test -e "$with_onednn/lib64/libdnnl.so"], [eco_onednn_lib=$with_onednn/lib64])
     ONEDNN_CFLAGS=-I$with_onednn/include
     ONEDNN_LIBS="-L$eco_onednn_lib -Wl,-rpath,$eco_onednn_lib -ldnnl"])
  eco_onednn=no
  AS_IF([test "x$with_onednn" != xno],
    [eco_save_CPPFLAGS=$CPPFLAGS
     eco_save_LIBS=$LIBS
     CPPFLAGS="$ONEDNN_CFLAGS $CPPFLAGS"
     LIBS="$ONEDNN_LIBS $LIBS"
     AC_MSG_CHECKING([for oneDNN 3.x])
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <oneapi/dnnl/dnnl.h>
#if DNNL_VERSION_MAJOR != 3
#error another generation
#endif
]], [[return dnnl_version()->major != 3;]])], [eco_onednn=yes])
     AC_MSG_RESULT([$eco_onednn])
     CPPFLAGS=$eco_save_CPPFLAGS
     LIBS=$eco_save_LIBS])
  AS_IF([test "$eco_onednn" = no],
    [AS_CASE([$with_onednn], [auto|no], [],
       [AC_MSG_ERROR([no oneDNN 3.x found; see config.log])])
     ONEDNN_CFLAGS= ONEDNN_LIBS=],
    [AS_VAR_APPEND([ONEDNN_CFLAGS], [" -DHAVE_ONEDNN"])])
  AC_SUBST([ONEDNN_CFLAGS])
  AC_SUBST([ONEDNN_LIBS])
  AM_CONDITIONAL([HAVE_ONEDNN], [test "$eco_onednn" != no])
])
