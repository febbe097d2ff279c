/*
 * What a translation unit is compiled for. The type of rows: ECO_ROWS_F32 (the default), _F64,
 * _BF16 or _F16; memory holds `narrow`, arithmetic uses `real`. And whether it is for plans whose
 * rows begin again (ECO_RESETS), which have kernels of their own.
 */
#ifndef ECO_GPU_TILE_ROWS_CUH
#define ECO_GPU_TILE_ROWS_CUH

#include "gpu/arch/float16.cuh"

#if !defined(ECO_ROWS_F64) && !defined(ECO_ROWS_BF16) && !defined(ECO_ROWS_F16) &&                 \
    !defined(ECO_ROWS_F32)
#define ECO_ROWS_F32 1
#endif

#if defined(ECO_ROWS_F64)
typedef double real;
typedef double narrow;
#elif defined(ECO_ROWS_F32)
typedef float real;
typedef float narrow;
#else
typedef float real;
typedef struct {
    unsigned short bits;
} narrow;
#endif
#if defined(ECO_RESETS)
enum { HAS_RESETS = 1 };
#else
enum { HAS_RESETS = 0 };
#endif

/* A function of math.h for `real`. */
#if defined(ECO_ROWS_F64)
#define REAL(name) name
#else
#define REAL(name) name##f
#endif

ECO_DEVICE real to_real(narrow x)
{
#if defined(ECO_ROWS_BF16)
    return bf16_to_float(x.bits);
#elif defined(ECO_ROWS_F16)
    return f16_to_float(x.bits);
#else
    return x;
#endif
}

/* Rounds to nearest, ties to even. */
ECO_DEVICE narrow to_narrow(real x)
{
#if defined(ECO_ROWS_BF16)
    return {float_to_bf16(x)};
#elif defined(ECO_ROWS_F16)
    return {float_to_f16(x)};
#else
    return x;
#endif
}

/* Rounds to the type of rows: for BF16 one instruction instead of three. */
ECO_DEVICE real as_kept(real x)
{
#if defined(ECO_ROWS_BF16) && __CUDA_ARCH__ >= 800
    return __uint_as_float(floats_to_bf16(0, x));
#else
    return to_real(to_narrow(x));
#endif
}

#endif /* ECO_GPU_TILE_ROWS_CUH */
