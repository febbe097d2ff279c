/*
 * Words of matrix instructions that read both operands from shared memory and take four warps
 * (compute capability 9.0a), and of barriers that count arrivals.
 */
WORD unsigned address_of(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

/* ---- barriers -------------------------------------------------------------------------------- */

WORD void open_barrier(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(address_of(barrier)), "r"(arrivals)
                 : "memory");
}

WORD void arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
                 :
                 : "r"(address_of(barrier))
                 : "memory");
}

/* Until the phase with this parity is over. */
WORD void wait_for(uint64_t *barrier, unsigned parity)
{
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(over)
                     : "r"(address_of(barrier)), "r"(parity)
                     : "memory");
}

/* All of n threads meet; did one say yes? */
template <int n> WORD bool any_of(bool yes)
{
    unsigned any;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0;"
                 " barrier.cta.red.or.pred q, 1, %2, p; selp.u32 %0, 1, 0, q; }"
                 : "=r"(any)
                 : "r"((unsigned)yes), "n"(n)
                 : "memory");
    return any != 0;
}

/* ---- matrix instructions --------------------------------------------------------------------- */

/*
 * An operand lies in squares of 64 lines, each 64 elements that follow each other in memory (128
 * bytes), whose 16 byte groups change places by line: g is at g ^ line % 8.  Lines are rows of the
 * operand, or k ("turned").  What the instruction wants to know: where, the bytes from one square
 * to the next, from 8 lines to the next 8.
 */
enum { SQUARE = 64, SQUARE_BYTES = 8192, LINE_BYTES = 128, EIGHT_LINES = 1024 };

WORD uint64_t describe(unsigned address)
{
    return (uint64_t)(address >> 4) | (uint64_t)(SQUARE_BYTES >> 4) << 16 |
           (uint64_t)(EIGHT_LINES >> 4) << 32 | UINT64_C(1) << 62;
}

/* Bytes from k of one instruction to that of the next. */
WORD constexpr unsigned next_k(bool turned)
{
    return turned ? 2 * EIGHT_LINES : 32;
}

/* 64 rows of A times 128 columns: four warps, each 16 rows; d[4j+0..3]: lane 4g + q holds columns
 * 8j + 2q and 8j + 2q + 1 of row g, then of row g + 8.  d = A B, or added to. */
template <bool turned_a, bool turned_b>
WORD void multiply_squares(float (&d)[64], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;"
                 " wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
                 " %64, %65, p, 1, 1, %67, %68; }"
#define D4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
                 : D16(0), D16(16), D16(32), D16(48)
                 : "l"(a), "l"(b), "r"(add), "n"((int)turned_a), "n"((int)turned_b));
#undef D16
#undef D4
}

WORD void begin_products(void)
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

WORD void end_products(void)
{
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
                 :
                 :
                 : "memory");
}

/* What ordinary stores wrote is what matrix instructions read. */
WORD void show_to_products(void)
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

template <int n> WORD void more_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(n));
}

template <int n> WORD void fewer_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(n));
}
