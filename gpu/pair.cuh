/*
 * Operands of full float accuracy in two numbers of F16: the nearest one, and the nearest to what
 * that leaves.  They hold 22 bits and more, and of the four products of two such operands the
 * fourth, of what was left both times, is below the last bit of a float.  So a product takes three
 * matrix instructions where operands of TF32 and their rests (`split` in matrix.cuh) take eight.
 *
 * F16 has few exponents.  What is multiplied is therefore brought near to 2^15 by powers of two,
 * one for all that share it: in algorithm resident a block's R and the states of its group, which
 * have a bound; in skinny products a row, and 16 rows of the matrix.  A number is off by 2^-22 of
 * itself, or by 2^-40 of the largest one, whichever is more; sums are divided again.
 */

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

/* The power of two that brings it to between 2^14 and 2^15. */
WORD float scale_for(float most)
{
    enum { BIAS = 127, LEAST = -110, TOP = 15 };
    const int exponent = (int)(__float_as_uint(most) >> 23) - BIAS + 1; /* most < 2^exponent */
    return __uint_as_float((unsigned)(BIAS + TOP - max(exponent, LEAST)) << 23);
}

/* Four operands, as matrix instructions take them: the nearest ones, then what they leave. */
WORD uint4 pairs_of(uint4 raw, float scale)
{
    return in_order(make_uint4(
        to_operand(scale * __uint_as_float(raw.x)), to_operand(scale * __uint_as_float(raw.y)),
        to_operand(scale * __uint_as_float(raw.z)), to_operand(scale * __uint_as_float(raw.w))));
}
