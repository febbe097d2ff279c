# Compiler and linker flags: ECO_HOST, ECO_LINKER, ECO_HARDENING, ECO_WARNINGS, ECO_SANITIZER, ECO_FUZZ.

# What a host needs that is not like Linux.  Windows, by mingw-w64: printf and scanf with C's formats, and no
# move of a vector that wants alignment, because gcc aligns the stack to 16 bytes there and spills vectors of 32
# and 64 bytes as if it did more (its bug 54412; Debian's is patched); on aligned memory the others are as fast.
AC_DEFUN([ECO_HOST], [
  DL_LIBS=-ldl
  AS_CASE([$host_os], [mingw*], [
    DL_LIBS= HOST_CPPFLAGS=-D__USE_MINGW_ANSI_STDIO=1 HOST_CFLAGS=-Wa,-muse-unaligned-vector-move
    AX_CHECK_COMPILE_FLAG([$HOST_CFLAGS], [], [AC_MSG_ERROR([the assembler of $CC needs binutils 2.38 or newer])])
    AS_VAR_APPEND([HOST_CFLAGS], [" -Wno-format -Wno-format-extra-args"]) # of printf by Microsoft
    LIBS="$LIBS -lsynchronization"])
  AC_SUBST([HOST_CPPFLAGS])
  AC_SUBST([HOST_CFLAGS])
  AC_SUBST([DL_LIBS])
])

# Only ecornn_* is visible, and the library stays in memory: libgomp's threads outlive a dlclose.
AC_DEFUN([ECO_LINKER], [
  AX_CHECK_COMPILE_FLAG([-fvisibility=hidden], [VISIBILITY_CFLAGS=-fvisibility=hidden])
  AC_SUBST([VISIBILITY_CFLAGS])
  AS_ECHO(['ECORNN { local: *; };']) > conftest.map
  AX_CHECK_LINK_FLAG([-Wl,--version-script=conftest.map], [have_version_script=yes], [have_version_script=no])
  AM_CONDITIONAL([HAVE_VERSION_SCRIPT], [test "$have_version_script" = yes])
  AX_CHECK_LINK_FLAG([-Wl,-z,nodelete], [NODELETE_LDFLAGS=-Wl,-z,nodelete])
  AC_SUBST([NODELETE_LDFLAGS])
])

# What costs nothing and stops some faults from becoming exploits.  tests/build/hardened.sh looks.
AC_DEFUN([ECO_HARDENING], [
  # mingw-w64: Windows probes large frames by itself, and the other checks need one more library.
  AS_CASE([$host_os], [mingw*], [], [_ECO_HARDENING])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
])

AC_DEFUN([_ECO_HARDENING], [
  # A frame larger than the guard below a stack touches each of its pages: no step over the guard.
  AX_APPEND_COMPILE_FLAGS([-fstack-clash-protection -fstack-protector-strong], [HARDEN_CFLAGS],
    [-Werror])
  # Warns without optimization, where the level is unknown, and where CPPFLAGS or CFLAGS have one.
  # A sanitizer sees more without.
  AS_IF([test -z "$SANITIZER_CFLAGS"],
    [AX_CHECK_COMPILE_FLAG([-D_FORTIFY_SOURCE=3], [fortify=" -D_FORTIFY_SOURCE=3"],
       [AX_CHECK_COMPILE_FLAG([-D_FORTIFY_SOURCE=2], [fortify=" -D_FORTIFY_SOURCE=2"],
          [fortify=], [-Werror], [AC_LANG_PROGRAM([[#include <stdio.h>]])])],
       [-Werror], [AC_LANG_PROGRAM([[#include <stdio.h>]])])
     AS_VAR_APPEND([HARDEN_CFLAGS], ["$fortify"])])
  # All symbols are found when a library is loaded; then their table is no more written.
  AX_APPEND_LINK_FLAGS([-Wl,-z,relro -Wl,-z,now], [HARDEN_LDFLAGS])
])

# A fused multiply-add is written as one or does not happen: variants must not differ by chance.
AC_DEFUN([ECO_WARNINGS], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [stop at compiler warnings])])
  AX_APPEND_COMPILE_FLAGS([-Wall -Wextra -Wshadow -Wvla -Wcast-qual -Wstrict-prototypes \
    -Wmissing-prototypes], [WARN_CFLAGS], [-Werror])
  # clang: "omp simd" that a sanitizer's checks keep from becoming vectors is no mistake.
  AX_CHECK_COMPILE_FLAG([-Wpass-failed],
    [AS_VAR_APPEND([WARN_CFLAGS], [" -Wno-pass-failed"])], [], [-Werror])
  AS_IF([test "x$enable_werror" = xyes], [AS_VAR_APPEND([WARN_CFLAGS], [" -Werror"])])
  AC_SUBST([WARN_CFLAGS])
  AX_CHECK_COMPILE_FLAG([-ffp-contract=off], [MATH_CFLAGS=-ffp-contract=off])
  AC_SUBST([MATH_CFLAGS])
])

# --enable-sanitizer=address,undefined or thread: everything that is built, tests included.  Of clang's only
# programs have the functions, so modules are linked without them.
AC_DEFUN([ECO_SANITIZER], [
  AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=LIST], [compile with -fsanitize=LIST])])
  AS_CASE([$enable_sanitizer],
    [''|no], [NO_UNDEFINED=-Wl,-z,defs],
    [yes], [AC_MSG_ERROR([--enable-sanitizer needs a list, e.g. address,undefined])],
    [SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer -fno-sanitize-recover=all"
     AS_VAR_APPEND([SANITIZER_CFLAGS], [" -fno-omit-frame-pointer"])
     AX_CHECK_LINK_FLAG([$SANITIZER_CFLAGS], [],
       [AC_MSG_ERROR([$CC cannot link with $SANITIZER_CFLAGS])])])
  AC_SUBST([SANITIZER_CFLAGS])
  AC_SUBST([NO_UNDEFINED])
])

# --enable-fuzz: tests/*/fuzz_*.c for libFuzzer, which is clang's.
AC_DEFUN([ECO_FUZZ], [
  AC_ARG_ENABLE([fuzz], [AS_HELP_STRING([--enable-fuzz], [build the fuzzers (needs clang)])])
  eco_fuzz=no
  AS_IF([test "x$enable_fuzz" = xyes],
    [AX_CHECK_COMPILE_FLAG([-fsanitize=fuzzer-no-link], [eco_fuzz=yes],
       [AC_MSG_ERROR([$CC has no libFuzzer; try CC=clang])])
     FUZZ_CFLAGS=-fsanitize=fuzzer-no-link
     FUZZ_LDFLAGS=-fsanitize=fuzzer
     AS_IF([test -z "$SANITIZER_CFLAGS"],
       [AC_MSG_ERROR([--enable-fuzz needs --enable-sanitizer=address,undefined])])])
  AC_SUBST([FUZZ_CFLAGS])
  AC_SUBST([FUZZ_LDFLAGS])
  AM_CONDITIONAL([FUZZ], [test "$eco_fuzz" = yes])
])
