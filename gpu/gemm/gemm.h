/*
 * One product, the methods to queue it, and what cuBLAS gets: room, a share of the chip, sums in
 * pieces. Knows no cell and no weights.
 */
#ifndef ECO_GPU_GEMM_GEMM_H
#define ECO_GPU_GEMM_GEMM_H

#include "gpu/view/run.h"

/* Rows are contiguous; the kind says which operand is transposed. */
enum eco_product_kind {
    ECO_NT, /* C[m,n] += A[m,k] B[n,k]^T */
    ECO_NN, /* C[m,n] += A[m,k] B[k,n] */
    ECO_TN, /* C[m,n] += A[k,m]^T B[k,n] */
    ECO_PRODUCT_KINDS
};

struct eco_product {
    enum eco_product_kind kind;
    int32_t m, n, k;
    const void *a, *b;
    void *c;
    size_t a_row, b_row, c_row;
    ecornn_type c_type;                  /* type of A and B, if not that of rows */
    const struct eco_scaled_f16 *scaled; /* F16 operands; or NULL */
    const float *scales;                 /* [n] of B, which has integers of 8 bits; or NULL */
    bool add;
    const float *bias; /* [n], to which C is initialised, which then is F32; or NULL */
    int32_t piece;     /* terms added at once; 0: eco_gpu_piece() */
    int32_t slices; /* parts of k, each with a C of its own, m rows after the one before; 0: one */
};

/* product.c: queues the product, by the first method that takes it. False, only with a bias: none
 * does, and nothing is queued. A method's function returns false if it does not support the product
 * or another is faster. */
bool eco_gpu_product(struct eco_gpu_run *run, const struct eco_product *product);

/* Must one kernel compute it for any number of rows? In row-invariant plans this holds for NT
 * products and, with algorithm persistent, for NN products. Other backward products are grouped. */
static inline bool eco_gpu_is_fixed(const struct eco_gpu_run *run, const struct eco_product *p)
{
    const bool persistent = ((const struct eco_gpu_plan *)run->plan->context)->persistent[0].used;
    return run->problem->row_invariant && (p->kind == ECO_NT || (p->kind == ECO_NN && persistent));
}

/* Multiprocessors for a product of steps, or over many steps; 0: all. */
int eco_gpu_share(const struct eco_gpu_run *run, bool many_rows);

/* The number of terms that are added at once. */
int32_t eco_gpu_piece(const struct eco_gpu_run *run, const struct eco_product *product);

/* cuBLAS's names of a type, and of the sums of a problem's products. */
cudaDataType eco_gpu_cuda_type(ecornn_type type);
cublasComputeType_t eco_gpu_compute_type(const struct eco_problem *problem,
                                         const struct eco_scaled_f16 *scaled);

/* With this much room cuBLAS chooses its fastest kernels, which need a quarter of it and less; room
 * for other products with many rows. */
enum { ECO_SPLITTING_BYTES = 32 << 20, ECO_ROOM_OF_MANY = 2 << 20, ECO_ROOM_ALIGNMENT = 256 };
enum { ECO_NARROW_BYTES = 8 << 20 /* usually the most room of 16-bit products */ };
/* A second stream uses the end of the room for a product and sums, from ECO_LENT_ROWS rows on. */
enum {
    ECO_LENT_SUMS = 1 << 20,
    ECO_LENT_ROWS = 4096,
    ECO_LENT_BYTES = ECO_ROOM_OF_MANY + ECO_LENT_SUMS + ECO_ROOM_ALIGNMENT
};
/* More rows than this has a product over many steps. */
enum { ECO_MANY_ROWS = 512 };
/* Is a product of these rows and multiply-adds too short for such kernels? */
bool eco_gpu_is_short(int32_t rows, double work);
/* The part of the run's room (run->blas.room) for a product over many steps. */
size_t eco_gpu_room_of_many(const struct eco_gpu_run *run, const struct eco_scaled_f16 *scaled);
/* How much of the room cuBLAS gets for the product. */
size_t eco_gpu_room_for(const struct eco_gpu_run *run, const struct eco_product *product);
/* Has the product less room than ECO_SPLITTING_BYTES, which may still be enough for its kernel? */
bool eco_gpu_has_some_room(const struct eco_gpu_run *run, const struct eco_product *product);
/* Room of the op's lane, aligned to ECO_ROOM_ALIGNMENT. */
void *eco_gpu_room(const struct eco_gpu_run *run, const struct eco_op *op, size_t *bytes);
/* Sets the stream and the room of the run's next products. */
void eco_gpu_point_at_stream(struct eco_gpu_run *run, const struct eco_op *op, cudaStream_t stream);

#endif /* ECO_GPU_GEMM_GEMM_H */
