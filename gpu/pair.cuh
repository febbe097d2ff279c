/*
 * Operands of nearly float accuracy in two numbers of F16: the nearest one, and the nearest to what
 * that leaves.  They hold 22 bits and more, and of the four products of two such operands the
 * fourth, of what was left both times, is at most 2^-22 of the whole.  So a product takes three
 * matrix instructions where operands of TF32 and their rests (`split` in matrix.cuh) take eight.
 * Scaled together: a block's R, and the states of its group, which have a bound.  A number is off
 * by 2^-23 of itself, or by 2^-40 of the largest one, whichever is more; sums are divided again.
 */
#include "gpu/scale.cuh"

/* The greatest size of what is finite. */
WORD void enlarge(float *most, float x)
{
    enum { INFINITE = 0x7F800000 };
    const float size = fabsf(x);
    *most = __float_as_uint(size) < INFINITE && size > *most ? size : *most;
}

WORD void enlarge(float *most, uint4 v)
{
    enlarge(most, __uint_as_float(v.x));
    enlarge(most, __uint_as_float(v.y));
    enlarge(most, __uint_as_float(v.z));
    enlarge(most, __uint_as_float(v.w));
}

/* Four operands, as matrix instructions take them: the nearest ones, then what they leave. */
WORD uint4 pairs_of(uint4 raw, float scale)
{
    return in_order(make_uint4(
        to_operand(scale * __uint_as_float(raw.x)), to_operand(scale * __uint_as_float(raw.y)),
        to_operand(scale * __uint_as_float(raw.z)), to_operand(scale * __uint_as_float(raw.w))));
}
