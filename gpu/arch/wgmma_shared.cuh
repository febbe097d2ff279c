/*
 * Words of matrix instructions that read both operands from shared memory and take four warps
 * (compute capability 9.0a), of copies that the hardware makes, and of barriers that count what
 * arrives, in a cluster too.
 */
#include "gpu/arch/wgmma.cuh"

/* ---- barriers -------------------------------------------------------------------------------- */

WORD void open_barrier(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(address_of(barrier)), "r"(arrivals)
                 : "memory");
}

/* Before all meet. */
WORD void show_barriers(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

/* At this barrier of a block of the cluster.  Nobody reads there what this thread wrote but in its
 * own block: a wider scope than that waits for memory outside the chip. */
WORD void arrive(uint64_t *barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there;"
                 " mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 :
                 : "r"(address_of(barrier)), "r"(rank)
                 : "memory");
}

/* Arrives, and so many bytes are to come. */
WORD void expect(uint64_t *barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(address_of(barrier)), "r"(bytes)
                 : "memory");
}

/* Until the phase with this parity is over. */
WORD void wait_for(uint64_t *barrier, unsigned parity)
{
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(over)
                     : "r"(address_of(barrier)), "r"(parity)
                     : "memory");
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* From global memory; the barrier counts the bytes. */
WORD void copy(unsigned to, const char *from, unsigned bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :
                 : "r"(to), "l"(from), "r"(bytes), "r"(address_of(barrier))
                 : "memory");
}

/* To the same place of every block of the cluster in the mask, and counted there. */
WORD void copy_to_all(unsigned to, const char *from, unsigned bytes, uint64_t *barrier,
                      unsigned mask)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :
                 : "r"(to), "l"(from), "r"(bytes), "r"(address_of(barrier)),
                   "h"((unsigned short)mask)
                 : "memory");
}

/* ---- matrix instructions --------------------------------------------------------------------- */

/*
 * An operand lies in lines of 64 elements of a row that follow each other in memory (128 bytes),
 * whose 16 byte groups change places by line: g is at g ^ line % 8.  What the instruction wants to
 * know: where, and the bytes from 8 lines to the next 8.
 */
enum { LINE_BYTES = 128, EIGHT_LINES = 1024, NEXT_K = 32 /* bytes from an instruction's k on */ };

WORD uint64_t describe(unsigned address)
{
    return (uint64_t)(address >> 4) | UINT64_C(1) << 16 | (uint64_t)(EIGHT_LINES >> 4) << 32 |
           UINT64_C(1) << 62;
}

/*
 * 64 rows of A times 128, 64 or 32 rows of B, of F16: four warps, each 16 rows; d[4j+0..3]: lane 4g
 * + q holds columns 8j + 2q and 8j + 2q + 1 of row g, then of row g + 8.  d = A B^T, or added to.
 */
#define D4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
WORD void multiply_squares(float (&d)[64], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;"
                 " wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
                 " %64, %65, p, 1, 1, 0, 0; }"
                 : D16(0), D16(16), D16(32), D16(48)
                 : "l"(a), "l"(b), "r"(add));
}

WORD void multiply_squares(float (&d)[32], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
                 " %32, %33, p, 1, 1, 0, 0; }"
                 : D16(0), D16(16)
                 : "l"(a), "l"(b), "r"(add));
}

WORD void multiply_squares(float (&d)[16], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0;"
                 " wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
                 " %16, %17, p, 1, 1, 0, 0; }"
                 : D16(0)
                 : "l"(a), "l"(b), "r"(add));
}
#undef D16
#undef D4

/* ---- registers ------------------------------------------------------------------------------- */

/* Of the four warps. */
template <int n> WORD void more_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(n));
}

template <int n> WORD void fewer_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(n));
}
