/*
 * Operands of matrix instructions, as a translation unit chooses them. R and exchanged numbers are
 * rounded to F16 (ECO_OPERAND_F16, the default) or BF16 (_BF16), or kept as a pair of F16 numbers
 * (_PAIR, block_scales.cuh). With ECO_SCALED they may have any magnitude: scales are powers of two
 * that are exchanged after the numbers. PERSISTENT_BACKWARD is 1 in backward kernels.
 */
#ifndef ECO_GPU_PERSISTENT_OPERAND_CUH
#define ECO_GPU_PERSISTENT_OPERAND_CUH

#include "gpu/arch/mma.cuh"
#include "gpu/persistent/args.h"
#include "gpu/tile/rows.cuh"

#if !defined(ECO_OPERAND_BF16) && !defined(ECO_OPERAND_PAIR) && !defined(ECO_OPERAND_F16)
#define ECO_OPERAND_F16 1
#endif
#if !defined(PERSISTENT_BACKWARD)
#define PERSISTENT_BACKWARD 0
#endif

#if defined(ECO_OPERAND_PAIR)
typedef unsigned operand_bits;
#else
typedef unsigned short operand_bits;
#endif

enum {
    PIECE = 16 / sizeof(operand_bits), /* operands in 16 bytes */
    K_BLOCK = 4 * PIECE                /* k of two matrix instructions */
};

/* NaNs become the NaN of conversions, which differs from the mark of unwritten numbers. */
ECO_DEVICE operand_bits to_operand(float x)
{
#if defined(ECO_OPERAND_BF16)
    return float_to_bf16(x);
#elif defined(ECO_OPERAND_F16)
    return float_to_f16(x);
#else
    const unsigned short nearest = float_to_f16(x), left = float_to_f16(x - f16_to_float(nearest));
    return nearest | (unsigned)left << 16;
#endif
}

/* d += a b, as in arch/mma.cuh. */
ECO_DEVICE void multiply_add(float d[4], uint4 a, unsigned b0, unsigned b1)
{
#if defined(ECO_OPERAND_BF16)
    mma_bf16(d, a, b0, b1);
#else
    mma_f16(d, a, b0, b1);
#endif
}

/* d = a b */
ECO_DEVICE void multiply_first(float d[4], uint4 a, unsigned b0, unsigned b1)
{
#if defined(ECO_OPERAND_BF16)
    mma_bf16_first(d, a, b0, b1);
#else
    mma_f16_first(d, a, b0, b1);
#endif
}

#if defined(ECO_OPERAND_PAIR)
constexpr int INSTRUCTIONS = ECO_PERSISTENT_PAIR;
#else
constexpr int INSTRUCTIONS = ECO_PERSISTENT_PLAIN;
#endif
#if defined(ECO_SCALED)
enum { K_BLOCK_SCALES = 1 };
#else
enum { K_BLOCK_SCALES = 0 };
#endif

/* Powers of two that multiply R, and states without scale blocks. `sums` undoes both. */
struct scales {
#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
    float state, sums;
#endif
};

ECO_DEVICE float scale_state(const struct scales *scales, float state)
{
#if defined(ECO_OPERAND_PAIR) && !defined(ECO_SCALED)
    return scales->state * state;
#else
    return state;
#endif
}

ECO_DEVICE float unscale(const struct scales *scales, float sum)
{
#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
    return scales->sums * sum;
#else
    return sum;
#endif
}

/* Four words of pairs in the order of instructions: nearest numbers, then residuals. */
ECO_DEVICE uint4 in_order(uint4 v)
{
#if defined(ECO_OPERAND_PAIR)
    enum { LOWER = 0x5410, UPPER = 0x7632 };
    return make_uint4(__byte_perm(v.x, v.y, LOWER), __byte_perm(v.z, v.w, LOWER),
                      __byte_perm(v.x, v.y, UPPER), __byte_perm(v.z, v.w, UPPER));
#else
    return v;
#endif
}

#endif /* ECO_GPU_PERSISTENT_OPERAND_CUH */
