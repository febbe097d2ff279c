/*
 * Matrix instructions of one warp (compute capability 8.0): d += a b, 16 rows times 8 columns. Lane
 * 4g + q holds rows g and g + 8 of a, column g of b, and columns 2q and 2q + 1 of d.
 */
#ifndef ECO_GPU_ARCH_MMA_CUH
#define ECO_GPU_ARCH_MMA_CUH

#include "gpu/arch/device.cuh"

/* k 16: d += a b; _first: d = a b. */
#define MMA(type)                                                                                  \
    ECO_DEVICE void mma_##type(float d[4], uint4 a, unsigned b0, unsigned b1)                      \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32"                        \
            " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                               \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                       \
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));                           \
    }                                                                                              \
    ECO_DEVICE void mma_##type##_first(float d[4], uint4 a, unsigned b0, unsigned b1)              \
    {                                                                                              \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32"                        \
            " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"                           \
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                       \
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "f"(0.f));                 \
    }
MMA(f16)
MMA(bf16)
#undef MMA

/* k 8 of TF32: a0 and a1 have k q of rows g and g + 8; a2 and a3 have k q + 4. */
ECO_DEVICE void mma_tf32(float d[4], uint4 a, unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
        " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* Loads four matrices of 8 rows of 8 numbers of 16 bits from shared memory, or transposes them;
 * lane 8m + r gives the address of row r of the mth. */
#define LOAD_MATRICES(name, how)                                                                   \
    ECO_DEVICE uint4 name(const void *row)                                                         \
    {                                                                                              \
        uint4 v;                                                                                   \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0,%1,%2,%3}, [%4];"        \
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                                  \
                     : "r"((unsigned)__cvta_generic_to_shared(row))                                \
                     : "memory");                                                                  \
        return v;                                                                                  \
    }
LOAD_MATRICES(load_matrices, "")
LOAD_MATRICES(load_matrices_transposed, ".trans")
#undef LOAD_MATRICES

/* Transposes a matrix of 8 rows of 8 numbers of 16 bits, as a lane has it of those loaded. */
ECO_DEVICE unsigned transpose_matrix(unsigned a)
{
    unsigned d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

#endif /* ECO_GPU_ARCH_MMA_CUH */
