/*
 * Rows in 16 bits, and what arithmetic sees of them: the type `narrow` for ECO_ROWS_BF16 and
 * ECO_ROWS_F16.  Not from the toolkit's headers: a kernel compiled at run time has none.
 */
#if defined(ECO_ROWS_F64)
typedef double narrow;
#elif defined(ECO_ROWS_BF16) || defined(ECO_ROWS_F16)
typedef struct {
    unsigned short bits;
} narrow;
#else
typedef float narrow;
#endif

#if defined(ECO_ROWS_BF16)
WORD real to_real(narrow x)
{
    return __uint_as_float((unsigned)x.bits << 16);
}

/* To the nearest, ties to even; a NaN becomes the one that the instruction gives. */
WORD narrow to_narrow(real x)
{
    narrow y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    const unsigned bits = __float_as_uint(x);
    y.bits = x != x ? 0x7FFF : (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
#endif
    return y;
}

#if __CUDA_ARCH__ >= 800
/* What a row keeps of a number: in one instruction, where that and its way back are three. */
WORD real as_kept(real x)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x), "f"(0.f));
    return __uint_as_float(both);
}
#define HAVE_AS_KEPT 1
#endif
#elif defined(ECO_ROWS_F16)
WORD real to_real(narrow x)
{
    real y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

WORD narrow to_narrow(real x)
{
    narrow y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
#else
WORD real to_real(narrow x)
{
    return x;
}

WORD narrow to_narrow(real x)
{
    return x;
}
#endif

#if !defined(HAVE_AS_KEPT)
WORD real as_kept(real x)
{
    return to_real(to_narrow(x));
}
#endif
