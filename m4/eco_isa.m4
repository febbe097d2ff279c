# ECO_ISA: which instruction sets the compiler can build besides plain C.  For each, the conditional
# ISA_NAME, the flags ISA_NAME_CFLAGS (cpu/cpu.am) and ECO_HAVE_NAME in config.h (cpu/run/cpuid.c).
# Which one runs is decided by the processor, at run time.  --with-isa=native leaves out those that this
# machine would not choose, which are most of the time of a build.

# _ECO_ISA_ONE(name, flags, header, a function that needs them)
AC_DEFUN([_ECO_ISA_ONE], [
  AX_CHECK_COMPILE_FLAG([$2], [eco_have_isa=yes], [eco_have_isa=no], [-Werror],
    [AC_LANG_SOURCE([[#include <$3>
$4]])])
  AS_CASE([" $eco_isa_wanted "], [*" $1 "* | *" all "*], [], [eco_have_isa=no])
  AM_CONDITIONAL([ISA_]m4_toupper([$1]), [test "$eco_have_isa" = yes])
  AS_IF([test "$eco_have_isa" = yes],
    [AC_DEFINE([ECO_HAVE_]m4_toupper([$1]), [1], [The $1 variant of the CPU kernels is built.])
     eco_isa_list="$eco_isa_list $1"])
  AC_SUBST([ISA_]m4_toupper([$1])[_CFLAGS], ["$2"])
])

# _ECO_ISA_WANTED: which sets --with-isa asks for, in eco_isa_wanted.
AC_DEFUN([_ECO_ISA_WANTED], [
  AC_ARG_WITH([isa], [AS_HELP_STRING([--with-isa=all|native|plain],
    [CPU kernels for all instruction sets, for those of this machine, or in plain C @<:@all@:>@])], [], [with_isa=all])
  AS_CASE([$with_isa], [all | plain], [eco_isa_wanted=$with_isa], [native], [
    eco_macros=`$CC -march=native -dM -E - < /dev/null 2> /dev/null | tr '\n' ' '`
    AS_CASE([$eco_macros], [*__AVX512VL__*], [eco_isa_wanted=avx512], [*__AVX2__*], [eco_isa_wanted=avx2],
      [*__SSE2__*], [eco_isa_wanted=sse2], [*__ARM_NEON*], [eco_isa_wanted=neon], [eco_isa_wanted=all])
    AS_CASE([$eco_macros], [*__ARM_FEATURE_DOTPROD*], [AS_VAR_APPEND([eco_isa_wanted], [" neondot"])])
    AS_CASE([$eco_macros], [*__AVX512VL__*], [],
      [*__AVXVNNI__*], [AS_VAR_APPEND([eco_isa_wanted], [" avxvnni"])])
    AS_CASE([$eco_macros], [*__AVX512VNNI__*], [AS_VAR_APPEND([eco_isa_wanted], [" avx512vnni"])])
    AS_CASE([$eco_macros], [*__AVX512BF16__*], [AS_VAR_APPEND([eco_isa_wanted], [" avx512bf16"])])
    AS_CASE([$eco_macros], [*__AMX_BF16__*], [AS_VAR_APPEND([eco_isa_wanted], [" amx"])])],
    [AC_MSG_ERROR([--with-isa=$with_isa: must be all, native or plain])])
])

AC_DEFUN([ECO_ISA], [
  _ECO_ISA_WANTED
  eco_isa_list=plain
  _ECO_ISA_ONE([sse2], [-msse2], [emmintrin.h],
    [__m128 f(__m128 a); __m128 f(__m128 a) { return _mm_add_ps(a, a); }])
  _ECO_ISA_ONE([neon], [-march=armv8-a], [arm_neon.h],
    [float32x4_t f(float32x4_t a); float32x4_t f(float32x4_t a) { return vfmaq_f32(a, a, vsqrtq_f32(a)); }])
  _ECO_ISA_ONE([avx2], [-mavx2 -mfma], [immintrin.h],
    [__m256 f(__m256 a); __m256 f(__m256 a) { return _mm256_fmadd_ps(a, a, a); }])
  _ECO_ISA_ONE([neondot], [-march=armv8.2-a+dotprod], [arm_neon.h],
    [int32x4_t f(int32x4_t a, int8x16_t b); int32x4_t f(int32x4_t a, int8x16_t b) { return vdotq_s32(a, b, b); }])
  _ECO_ISA_ONE([avxvnni], [-mavx2 -mfma -mavxvnni], [immintrin.h],
    [__m256i f(__m256i a); __m256i f(__m256i a) { return _mm256_dpbusd_avx_epi32(a, a, a); }])
  _ECO_ISA_ONE([avx512], [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma], [immintrin.h],
    [__m512 f(__m512 a); __m512 f(__m512 a) { return _mm512_and_ps(a, a); }])
  _ECO_ISA_ONE([avx512vnni], [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mavx512vnni],
    [immintrin.h], [__m512i f(__m512i a);
__m512i f(__m512i a) { return _mm512_dpbusd_epi32(a, a, a); }])
  _ECO_ISA_ONE([avx512bf16], [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mavx512bf16],
    [immintrin.h], [__m512 f(__m512 a, __m512i b);
__m512 f(__m512 a, __m512i b) { return _mm512_dpbf16_ps(a, (__m512bh)b, (__m512bh)b); }])
  _ECO_ISA_ONE([amx], [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mamx-tile -mamx-bf16 -mamx-int8],
    [immintrin.h], [void f(const void *, __SIZE_TYPE__);
void f(const void *rows, __SIZE_TYPE__ bytes) { _tile_loadd(0, rows, bytes); _tile_dpbf16ps(0, 1, 2); _tile_dpbusd(0, 1, 2); }])
])
