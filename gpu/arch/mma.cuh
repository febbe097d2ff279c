/*
 * Operands of matrix instructions, words of the exchange between blocks, and how long to wait for
 * them.  ECO_OPERAND_BF16 or _F16: what R and what is exchanged are rounded to; _PAIR: not at all,
 * two numbers of F16 for each (persistent/block_scales.cuh).  With ECO_SCALED they are numbers
 * times powers of two, which are exchanged beside them, so they may be of any size.
 */
#if defined(ECO_OPERAND_PAIR)
typedef unsigned operand_bits;
#else
typedef unsigned short operand_bits;
#endif

enum {
    PIECE = 16 / sizeof(operand_bits), /* operands in 16 bytes */
    ITEM = 4 * PIECE                   /* k of two steps of the matrix instruction */
};

/* NaNs become the one that instructions make: never the mark of what is not yet written. */
WORD operand_bits to_operand(float x)
{
#if defined(ECO_OPERAND_BF16)
    operand_bits bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#elif defined(ECO_OPERAND_F16)
    operand_bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    unsigned short nearest, left;
    float back;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(nearest) : "f"(x));
    asm("cvt.f32.f16 %0, %1;" : "=f"(back) : "h"(nearest));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(left) : "f"(x - back));
    return nearest | (unsigned)left << 16;
#endif
}

/* d += a b, 16 rows times 8 columns: lane 4g + q holds rows g and g + 8 of a, column g of b, and of
 * d columns 2q and 2q + 1. */
#if defined(ECO_OPERAND_BF16)
#define MATRIX "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MATRIX "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
WORD void multiply_add(float d[4], uint4 a, unsigned b0, unsigned b1)
{
    asm(MATRIX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* d = a b */
WORD void multiply_first(float d[4], uint4 a, unsigned b0, unsigned b1)
{
    asm(MATRIX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "f"(0.f));
}

#if defined(ECO_OPERAND_PAIR)
#define INSTRUCTIONS ECO_RESIDENT_PAIR
#else
#define INSTRUCTIONS ECO_RESIDENT_PLAIN
#endif
#if defined(ECO_SCALED)
#define ITEM_SCALES 1
#else
#define ITEM_SCALES 0
#endif

#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
#define SCALED_R 1
#endif

/* Operands may be numbers times powers of two: those of R; states, unless their bundles have
 * scales. Back, of sums. */
struct scales {
#if defined(SCALED_R)
    float state, sums;
#endif
};

WORD float scaled(const struct scales *scales, float state)
{
#if defined(ECO_OPERAND_PAIR) && !defined(ECO_SCALED)
    return scales->state * state;
#else
    return state;
#endif
}

WORD float unscaled(const struct scales *scales, float sum)
{
#if defined(SCALED_R)
    return scales->sums * sum;
#else
    return sum;
#endif
}

/* Four words, of pairs, as matrix instructions take them: the nearest ones, then what they leave.
 */
WORD uint4 in_order(uint4 v)
{
#if defined(ECO_OPERAND_PAIR)
    enum { LOWER = 0x5410, UPPER = 0x7632 };
    return make_uint4(__byte_perm(v.x, v.y, LOWER), __byte_perm(v.z, v.w, LOWER),
                      __byte_perm(v.x, v.y, UPPER), __byte_perm(v.z, v.w, UPPER));
#else
    return v;
#endif
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Each word says itself whether it was written: no order is needed among them, hence "relaxed". */
WORD uint4 read_shared_by_all(const void *p)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

/* Where it is wanted, else zeros, without a branch. */
WORD uint4 read_shared_by_all_if(bool wanted, const void *p)
{
    uint4 v;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0;"
                 " mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
                 " @p ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"((int)wanted)
                 : "memory");
    return v;
}

WORD uint2 read_two_shared_by_all_if(bool wanted, const void *p)
{
    uint2 v;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
                 " @p ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2]; }"
                 : "=&r"(v.x), "=&r"(v.y)
                 : "l"(p), "r"((int)wanted)
                 : "memory");
    return v;
}

/* Where it is wanted, without a branch. */
WORD void write_shared_by_all_if(bool wanted, void *p, unsigned short bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.relaxed.gpu.global.u16 [%0], %1; }"
                 :
                 : "l"(p), "h"(bits), "r"((int)wanted)
                 : "memory");
}
WORD void write_shared_by_all_if(bool wanted, void *p, unsigned bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.relaxed.gpu.global.u32 [%0], %1; }"
                 :
                 : "l"(p), "r"(bits), "r"((int)wanted)
                 : "memory");
}
WORD void write_half_if(bool wanted, void *p, unsigned short bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.u16 [%0], %1; }"
                 :
                 : "l"(p), "h"(bits), "r"((int)wanted)
                 : "memory");
}
WORD void write_word_if(bool wanted, void *p, unsigned bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.u32 [%0], %1; }"
                 :
                 : "l"(p), "r"(bits), "r"((int)wanted)
                 : "memory");
}

/* Is a number of the word still all ones? */
WORD unsigned missing(unsigned word)
{
#if defined(ECO_OPERAND_PAIR)
    return word == 0xFFFFFFFF;
#else
    const unsigned zero = ~word;
    return (zero - 0x00010001u) & ~zero & 0x80008000u;
#endif
}

/* Of many words: `look` at each, then ask.  A number that is missing is the greatest there is, so
 * it is enough to keep the greatest. */
WORD void look(unsigned *seen, unsigned word)
{
#if defined(ECO_OPERAND_PAIR)
    *seen = word > *seen ? word : *seen;
#elif __CUDA_ARCH__ >= 900
    asm("max.u16x2 %0, %0, %1;" : "+r"(*seen) : "r"(word));
#else
    *seen |= missing(word) ? ~0u : 0;
#endif
}

WORD unsigned long long now(void)
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

/* Counts how often something was not there; false: too long, or another block gave up, and from
 * then on. */
enum { NOT_YET = 0, GIVEN_UP = 1, OTHER_TIMES = 2 };
struct patience {
    unsigned tries;
    unsigned until; /* time in 2^16 ns; NOT_YET: did not wait for long */
};

WORD bool wait_more(struct patience *patience, const struct eco_resident_call *call)
{
    enum { LOOK_EVERY = 1 << 12, UNIT = 16 };
    if (++patience->tries % LOOK_EVERY != 0)
        return patience->until != GIVEN_UP;
    const unsigned time = (unsigned)(now() >> UNIT);
    if (patience->until == NOT_YET)
        patience->until = (time + (unsigned)(call->patience >> UNIT)) | OTHER_TIMES;
    if ((int)(time - patience->until) > 0)
        *(volatile unsigned *)call->failed = 1;
    if (*(volatile unsigned *)call->failed != 0)
        patience->until = GIVEN_UP;
    return patience->until != GIVEN_UP;
}
