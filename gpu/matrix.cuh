/*
 * Operands of matrix instructions in 16 bits, words of the exchange between blocks, and how long to
 * wait for them.  ECO_OPERAND_BF16 or _F16: what R and what is exchanged are rounded to.
 */
typedef unsigned short operand_bits;

#if defined(ECO_OPERAND_BF16)
#define MATRIX_TYPE "bf16"
#else
#define MATRIX_TYPE "f16"
#endif

/* NaNs become 0x7FFF: never the mark of what is not yet written. */
WORD operand_bits to_operand(float x)
{
    operand_bits bits;
#if defined(ECO_OPERAND_BF16)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#endif
    return bits;
}

/* d += a b, 16x16 times 16x8: lane 4g + q holds rows g and g + 8 of a, column g of b, and of d
 * columns 2q and 2q + 1. */
WORD void multiply_add(float d[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                       unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32." MATRIX_TYPE "." MATRIX_TYPE
        ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
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

WORD void write_shared_by_all(void *p, operand_bits bits)
{
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" : : "l"(p), "h"(bits) : "memory");
}

/* Where it is wanted, without a branch. */
WORD void write_shared_by_all_if(bool wanted, void *p, operand_bits bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.relaxed.gpu.global.u16 [%0], %1; }"
                 :
                 : "l"(p), "h"(bits), "r"((int)wanted)
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

WORD unsigned read_word_shared_by_all(const void *p)
{
    unsigned v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

WORD void write_word_shared_by_all(void *p, unsigned v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

/* Is a half of the word still all ones? */
WORD unsigned missing(unsigned word)
{
    const unsigned zero = ~word;
    return (zero - 0x00010001u) & ~zero & 0x80008000u;
}

WORD bool whole(uint4 v)
{
    return (missing(v.x) | missing(v.y) | missing(v.z) | missing(v.w)) == 0;
}

WORD unsigned long long now(void)
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

/* Counts how often something was not there; false: too long, or another block gave up, and from
 * then on. */
enum { GIVEN_UP = 1 };
struct patience {
    unsigned tries;
    unsigned long long until; /* time; 0: not yet waited for long */
};

WORD bool wait_more(struct patience *patience, const struct eco_resident_call *call)
{
    enum { LOOK_EVERY = 1 << 12 };
    if (++patience->tries % LOOK_EVERY != 0)
        return patience->until != GIVEN_UP;
    if (patience->until == 0)
        patience->until = now() + call->patience;
    if (now() > patience->until)
        *(volatile unsigned *)call->failed = 1;
    if (*(volatile unsigned *)call->failed != 0)
        patience->until = GIVEN_UP;
    return patience->until != GIVEN_UP;
}

/* ---- copies that nobody waits for yet -------------------------------------------------------- */

/* Four bytes to shared memory; there after wait_for_copies, for this thread. */
WORD void copy_later(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
#else
    *(unsigned *)to = *(const unsigned *)from;
#endif
}

/* The same only where it is wanted, and without a branch. */
WORD void copy_later_if(bool wanted, void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0;"
                 " @p cp.async.ca.shared.global [%0], [%1], 4; }"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"((int)wanted)
                 : "memory");
#else
    if (wanted)
        copy_later(to, from);
#endif
}

WORD void wait_for_copies(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}
