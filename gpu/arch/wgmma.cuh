/*
 * Matrix instructions that four warps issue together and that run asynchronously (wgmma). Only code
 * for compute capability 9.0a has them.
 */
#ifndef ECO_GPU_ARCH_WGMMA_CUH
#define ECO_GPU_ARCH_WGMMA_CUH

#include <stdint.h>

#include "gpu/arch/device.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

/* ---- begin and end --------------------------------------------------------------------------- */

/* Before the first instruction, and after other code has touched its registers. */
ECO_DEVICE void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

/* The instructions since the last call form a group. */
ECO_DEVICE void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Waits for all groups but the last `left`. */
template <int left> ECO_DEVICE void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(left) : "memory");
}

/* The same; the sums are not read before it. */
template <int left, int n> ECO_DEVICE void wgmma_wait_for_sums(float (&d)[n])
{
    wgmma_wait<left>();
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i]) : : "memory");
}

/* ---- 64 rows of A times some rows of B ------------------------------------------------------- */

/*
 * d = A B^T, or d += A B^T, over k 16. Each warp has 16 rows; in d[4j+0..3] lane 4g + q holds
 * columns 8j + 2q and 8j + 2q + 1 of row g, then of row g + 8. Operands in shared memory are given
 * by descriptors of 64 bits.
 */
#define D4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
/* F16, 128, 64 or 32 rows of B. */
ECO_DEVICE void wgmma_f16(float (&d)[64], uint64_t a, uint64_t b, int add)
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

ECO_DEVICE void wgmma_f16(float (&d)[32], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;"
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
                 " %32, %33, p, 1, 1, 0, 0; }"
                 : D16(0), D16(16)
                 : "l"(a), "l"(b), "r"(add));
}

ECO_DEVICE void wgmma_f16(float (&d)[16], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0;"
                 " wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
                 " %16, %17, p, 1, 1, 0, 0; }"
                 : D16(0)
                 : "l"(a), "l"(b), "r"(add));
}

/* F16 or BF16, 32 or 16 rows of B, with A in registers or described. Only the lower half of a
 * descriptor is passed; the upper half is constant. */
enum { WGMMA_ROWS_APART = 512 /* bytes from 8 rows to the next 8 */ };
#define UPPER_HALF "0x20" /* WGMMA_ROWS_APART >> 4 */

#define WGMMA(type)                                                                                \
    ECO_DEVICE void wgmma_##type(float(&d)[16], uint4 a, unsigned b, int add)                      \
    {                                                                                              \
        asm volatile(                                                                              \
            "{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, %21, 0;"                                  \
            " mov.b64 b, {%20, " UPPER_HALF "};"                                                   \
            " wgmma.mma_async.sync.aligned.m64n32k16.f32." #type "." #type                         \
            " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, b, "     \
            "p, 1, 1, 0; }"                                                                        \
            : D4(0), D4(4), D4(8), D4(12)                                                          \
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b), "r"(add));                           \
    }                                                                                              \
                                                                                                   \
    ECO_DEVICE void wgmma_##type(float(&d)[16], unsigned a, unsigned b, int add)                   \
    {                                                                                              \
        asm volatile(                                                                              \
            "{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %18, 0;"                               \
            " mov.b64 a, {%16, " UPPER_HALF "}; mov.b64 b, {%17, " UPPER_HALF "};"                 \
            " wgmma.mma_async.sync.aligned.m64n32k16.f32." #type "." #type                         \
            " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, a, b, p, 1, 1, 0, 0; }"     \
            : D4(0), D4(4), D4(8), D4(12)                                                          \
            : "r"(a), "r"(b), "r"(add));                                                           \
    }                                                                                              \
                                                                                                   \
    ECO_DEVICE void wgmma_##type(float(&d)[8], uint4 a, unsigned b, int add)                       \
    {                                                                                              \
        asm volatile("{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, %13, 0;"                         \
                     " mov.b64 b, {%12, " UPPER_HALF "};"                                          \
                     " wgmma.mma_async.sync.aligned.m64n16k16.f32." #type "." #type                \
                     " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, b, p, 1, 1, 0; }"               \
                     : D4(0), D4(4)                                                                \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b), "r"(add));                  \
    }                                                                                              \
                                                                                                   \
    ECO_DEVICE void wgmma_##type(float(&d)[8], unsigned a, unsigned b, int add)                    \
    {                                                                                              \
        asm volatile("{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %10, 0;"                      \
                     " mov.b64 a, {%8, " UPPER_HALF "}; mov.b64 b, {%9, " UPPER_HALF "};"          \
                     " wgmma.mma_async.sync.aligned.m64n16k16.f32." #type "." #type                \
                     " {%0,%1,%2,%3,%4,%5,%6,%7}, a, b, p, 1, 1, 0, 0; }"                          \
                     : D4(0), D4(4)                                                                \
                     : "r"(a), "r"(b), "r"(add));                                                  \
    }
WGMMA(f16)
WGMMA(bf16)

#undef WGMMA
#undef UPPER_HALF
#undef D16
#undef D4

/* ---- registers ------------------------------------------------------------------------------- */

/* Called by all four warps. */
template <int n> ECO_DEVICE void warpgroup_take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(n));
}

template <int n> ECO_DEVICE void warpgroup_leave_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(n));
}

#endif /* ECO_GPU_ARCH_WGMMA_CUH */
