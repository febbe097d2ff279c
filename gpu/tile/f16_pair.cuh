/*
 * Eight floats of a row: how they are read, their size, and the numbers of F16 that they are split
 * into.
 */
#include <cuda_fp16.h>

enum { GROUP = 8 /* of k: 16 bytes of F16 */ };

/* Sizes as integers: a NaN is larger than infinity, that than all others. */
WORD unsigned size_of(float x)
{
    return __float_as_uint(x) & 0x7FFFFFFF;
}

WORD unsigned size_of_eight(const float *x)
{
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        most = max(most, size_of(x[i]));
    return most;
}

/* Do eights of a row lie at multiples of 16 bytes? */
WORD bool is_aligned(const eco_split_operand &o)
{
    return ((uintptr_t)o.data | o.row * sizeof(float)) % 16 == 0;
}

/* Zeros where it is not there.  Under a predicate, not behind a branch: that would wait for what it
 * loads. */
WORD uint4 load_16_bytes(const void *at, bool there)
{
    uint4 x;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0;"
                 " mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
                 " @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&r"(x.x), "=&r"(x.y), "=&r"(x.z), "=&r"(x.w)
                 : "l"(at), "r"((int)there));
    return x;
}

/* Of a row that has so many more; zeros beyond. */
WORD void load_eight(const float *at, int32_t there, float *x)
{
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        x[i] = i < there ? at[i] : 0;
}

/* The same where eights are aligned, and there or not. */
WORD void load_whole_eight(const float *at, bool there, float *x)
{
    *(uint4 *)x = load_16_bytes(at, there);
    *(uint4 *)(x + 4) = load_16_bytes(at + 4, there);
}

WORD unsigned bits_of(__half2 x)
{
    return *(unsigned *)&x;
}

/* The nearest numbers to scale times x, and the nearest to what these leave. */
WORD void split_eight(const float *x, float scale, uint4 *large, uint4 *small)
{
    unsigned of_large[4], of_small[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 both = make_float2(x[2 * i] * scale, x[2 * i + 1] * scale);
        const __half2 near = __float22half2_rn(both);
        const float2 taken = __half22float2(near);
        of_large[i] = bits_of(near);
        of_small[i] = bits_of(__float22half2_rn(make_float2(both.x - taken.x, both.y - taken.y)));
    }
    *large = make_uint4(of_large[0], of_large[1], of_large[2], of_large[3]);
    *small = make_uint4(of_small[0], of_small[1], of_small[2], of_small[3]);
}

/* The first of these alone. */
WORD uint4 nearest_eight(const float *x, float scale)
{
    unsigned near[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        near[i] = bits_of(__floats2half2_rn(x[2 * i] * scale, x[2 * i + 1] * scale));
    return make_uint4(near[0], near[1], near[2], near[3]);
}
