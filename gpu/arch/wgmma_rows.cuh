/*
 * Matrix instructions of four warps with both operands in shared memory, in lines of 128 bytes as
 * tensor copies swizzle them (wgmma, compute capability 9.0a). Each number of rows of B has its own
 * list of registers.
 */
#ifndef ECO_GPU_ARCH_WGMMA_ROWS_CUH
#define ECO_GPU_ARCH_WGMMA_ROWS_CUH

#include "gpu/arch/wgmma.cuh"

/* Describes lines of 128 bytes (numbers of k of a row). The 16-byte piece p is stored at p ^
 * line % 8; 8 lines begin at a multiple of 1024 bytes. */
ECO_DEVICE uint64_t wgmma_describe(unsigned address)
{
    const uint64_t piece = 1, lines = 1024 >> 4, swizzle = 1;
    return (uint64_t)(address >> 4 & 0x3fff) | piece << 16 | lines << 32 | swizzle << 62;
}
enum { WGMMA_NEXT_K = 32 >> 4 }; /* add to a descriptor for the next 32 bytes of k */

#if defined(ECO_ROWS_BF16)
#define ROWS_TYPE "k16.f32.bf16.bf16"
#define ROWS_END  ", 1, 1, 1, 0, 0;"
#elif defined(ECO_ROWS_F16)
#define ROWS_TYPE "k16.f32.f16.f16"
#define ROWS_END  ", 1, 1, 1, 0, 0;"
#else
#define ROWS_TYPE "k8.f32.tf32.tf32"
#define ROWS_END  ", 1, 1, 1;"
#endif

/* d += A B^T over 32 bytes of k, for 64 rows of A and n of B. Each warp has 16 rows; in d[4j+0..3]
 * lane 4g + q holds columns 8j + 2q and 8j + 2q + 1 of row g, then of row g + 8. */
template <int n> struct wgmma_rows_of_b {
};

#define D8(i)                                                                                      \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define D24(i) D8(i), D8(i + 8), D8(i + 16)
#define D32(i) D24(i), D8(i + 24)
#define D4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R0     "%0,%1,%2,%3,%4,%5,%6,%7"
#define R8     "%8,%9,%10,%11,%12,%13,%14,%15"
#define R16    "%16,%17,%18,%19,%20,%21,%22,%23"
#define R24    "%24,%25,%26,%27,%28,%29,%30,%31"
#define R32    "%32,%33,%34,%35,%36,%37,%38,%39"
#define R40    "%40,%41,%42,%43,%44,%45,%46,%47"
#define R48    "%48,%49,%50,%51,%52,%53,%54,%55"
#define R56    "%56,%57,%58,%59,%60,%61,%62,%63"
#define R64    "%64,%65,%66,%67,%68,%69,%70,%71"
#define R72    "%72,%73,%74,%75,%76,%77,%78,%79"
#define R80    "%80,%81,%82,%83,%84,%85,%86,%87"
#define R88    "%88,%89,%90,%91,%92,%93,%94,%95"
#define R96    "%96,%97,%98,%99,%100,%101,%102,%103"
#define R104   "%104,%105,%106,%107,%108,%109,%110,%111"
#define R112   "%112,%113,%114,%115,%116,%117,%118,%119"
#define R120   "%120,%121,%122,%123,%124,%125,%126,%127"
#define R32_4  "%32,%33,%34,%35"
#define R8_4   "%8,%9,%10,%11"
#define R0_24  R0 "," R8 "," R16
#define R0_32  R0_24 "," R24
#define R0_48  R0_32 "," R32 "," R40
#define R0_64  R0_48 "," R48 "," R56
#define R0_72  R0_64 "," R64
#define R0_96  R0_72 "," R72 "," R80 "," R88
#define R0_128 R0_96 "," R96 "," R104 "," R112 "," R120

#define WGMMA_ROWS(n, registers, at_a, at_b, ...)                                                  \
    ECO_DEVICE void wgmma_rows(wgmma_rows_of_b<n>, float *d, uint64_t a, uint64_t b)               \
    {                                                                                              \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n ROWS_TYPE " {" registers "}, " at_a    \
                     ", " at_b ROWS_END:__VA_ARGS__                                                \
                     : "l"(a), "l"(b));                                                            \
    }
WGMMA_ROWS(16, R0, "%8", "%9", D8(0))
WGMMA_ROWS(24, R0 "," R8_4, "%12", "%13", D8(0), D4(8))
WGMMA_ROWS(32, R0 "," R8, "%16", "%17", D8(0), D8(8))
WGMMA_ROWS(48, R0_24, "%24", "%25", D24(0))
WGMMA_ROWS(64, R0_32, "%32", "%33", D32(0))
WGMMA_ROWS(72, R0_32 "," R32_4, "%36", "%37", D32(0), D4(32))
WGMMA_ROWS(96, R0_48, "%48", "%49", D24(0), D24(24))
WGMMA_ROWS(128, R0_64, "%64", "%65", D32(0), D32(32))
WGMMA_ROWS(144, R0_72, "%72", "%73", D24(0), D24(24), D24(48))
WGMMA_ROWS(192, R0_96, "%96", "%97", D32(0), D32(32), D32(64))
WGMMA_ROWS(256, R0_128, "%128", "%129", D32(0), D32(32), D32(64), D32(96))

#undef WGMMA_ROWS
#undef R32_4
#undef R8_4
#undef R0_24
#undef R0_32
#undef R0_48
#undef R0_64
#undef R0_72
#undef R0_96
#undef R0_128
#undef D4
#undef D8
#undef D24
#undef D32
#undef ROWS_TYPE
#undef ROWS_END
#undef R0
#undef R8
#undef R16
#undef R24
#undef R32
#undef R40
#undef R48
#undef R56
#undef R64
#undef R72
#undef R80
#undef R88
#undef R96
#undef R104
#undef R112
#undef R120

#endif /* ECO_GPU_ARCH_WGMMA_ROWS_CUH */
