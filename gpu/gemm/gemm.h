/*
 * One product, the ways to queue it, and what cuBLAS gets: room, a share of the chip, sums in
 * pieces.  Knows no cell and no weights.
 */
#ifndef ECO_GPU_GEMM_GEMM_H
#define ECO_GPU_GEMM_GEMM_H

#include "gpu/view/run.h"

/* As in a textbook, rows one behind the other: kind says which operand is transposed. */
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
    ecornn_type c_type;                /* of A and B: that of rows, if they are not */
    const struct eco_scaled_f16 *half; /* numbers of F16; or NULL */
    bool add;
    const float *bias; /* [n], which C starts from, then of floats; or NULL */
    int32_t piece;     /* so many terms are added at once; 0: as eco_gpu_piece() says */
};

/* A way to multiply.  take: queues the product, or says that it is none of its products, or that
 * others are faster, and queues nothing. */
struct eco_gemm {
    const char *name;
    bool biased; /* may take products with a bias; others need not look for one */
    bool (*take)(struct eco_gpu_run *run, const struct eco_product *product);
};

/* Offers the product to every way in turn.  False, of one with a bias only: none takes it. */
bool eco_gpu_product(struct eco_gpu_run *run, const struct eco_product *product);
/* A way, cublaslt.c: products with a bias, which cuBLASLt adds where it writes sums. */
bool eco_gpu_product_lt(struct eco_gpu_run *run, const struct eco_product *product);
/* The product without its first k terms, added to C. */
struct eco_product eco_gpu_product_after(const struct eco_gpu_run *run,
                                         const struct eco_product *product, int32_t k);

/* Of the multiprocessors so many are for a product of steps, or of the rows of many steps; 0: all.
 */
int eco_gpu_share(const struct eco_gpu_run *run, bool many_rows);

/* How many of the k terms of its sums are added at once. */
int32_t eco_gpu_piece(const struct eco_gpu_run *run, const struct eco_product *product);

/* How cuBLAS calls a type, and the sums of a problem's products. */
cudaDataType eco_gpu_cuda_type(ecornn_type type);
cublasComputeType_t eco_gpu_compute_type(const struct eco_problem *problem,
                                         const struct eco_scaled_f16 *half);

/* What cuBLAS must be given for its kernels that split long sums; rows and multiply-adds of a
 * product too short for them; what is enough for others of many rows. */
enum {
    ECO_EMULATED_SPLITTING_BYTES = 32 << 20,
    ECO_ROOM_OF_MANY = 2 << 20,
    ECO_ROOM_ALIGNMENT = 256
};
bool eco_gpu_is_short(int32_t rows, double work);
/* Of the run's room (run->blas.room) so much is a product's of the rows of many steps. */
size_t eco_gpu_room_of_many(const struct eco_gpu_run *run, const struct eco_scaled_f16 *half);
/* Room of the op's lane for whoever multiplies or sums, at a multiple of ECO_ROOM_ALIGNMENT. */
void *eco_gpu_room(const struct eco_gpu_run *run, const struct eco_op *op, size_t *bytes);
/* The stream and the workspace of the run's products from now on. */
void eco_gpu_point_at_stream(struct eco_gpu_run *run, const struct eco_op *op, cudaStream_t stream);

#endif /* ECO_GPU_GEMM_GEMM_H */
