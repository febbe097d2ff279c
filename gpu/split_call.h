/*
 * Launches of products of split operands: split_prepare.cu, split_product.cu, split_step.cu.
 */
#ifndef ECO_GPU_SPLIT_CALL_H
#define ECO_GPU_SPLIT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An operand is prepared in pieces: so many rows by so many of k, the rest zeros; two numbers of
 * F16 for each float, first all the large ones, then the small ones; a line of 128 bytes for a row,
 * whose groups of 16 bytes lie as the matrix instructions of squares.cuh want them.  Pieces of a
 * tile of rows follow each other.
 */
enum {
    ECO_SPLIT_TILE = 128,
    ECO_SPLIT_DEPTH = 64,
    ECO_SPLIT_PLANE_BYTES = 2 * ECO_SPLIT_TILE * ECO_SPLIT_DEPTH,
    ECO_SPLIT_PIECE_BYTES = 2 * ECO_SPLIT_PLANE_BYTES,
    /* what a block puts aside where blocks share tiles of C */
    ECO_SPLIT_PART_BYTES = 2 * 4 * ECO_SPLIT_TILE * ECO_SPLIT_TILE,
    ECO_SPLIT_MOST_K = 16384,
    ECO_SPLIT_PAIR = 2 /* blocks of a cluster, that read one operand together */
};

/* A [rows,k], turned [k,rows], of floats; of the turned one zeros are before `begin`, where its
 * data begin. */
struct eco_split_operand {
    const float *data;
    size_t row;
    int32_t rows, k, begin;
    bool turned;
    char *pieces;  /* [tiles of rows][tiles of the product's k] */
    float *scales; /* [rows, in whole tiles]: what rows were multiplied by; infinite or NaN: a row
                    * that is not finite; NULL: not prepared */
};

/* C[a.rows,b.rows] (+)= A B^T (+ bias). */
struct eco_split_call {
    struct eco_split_operand a, b;
    const float *bias; /* [b.rows] or NULL */
    float *c, *parts;  /* parts: ECO_SPLIT_PART_BYTES for every block, or NULL */
    size_t c_row;
    int32_t k; /* ECO_SPLIT_MOST_K at most, and at least that of both operands */
    bool add;
};

/* One operand of a product of so many k. */
cudaError_t eco_launch_split_prepare(const struct eco_split_operand *operand, int32_t k,
                                     cudaStream_t stream);
/* Both. */
cudaError_t eco_launch_split_prepare_both(const struct eco_split_call *call, cudaStream_t stream);
/* The product of prepared operands.  clusters of ECO_SPLIT_PAIR blocks: as many as fit the device
 * at most, nor more than pairs of tiles; with parts, than pairs of pieces. */
cudaError_t eco_launch_split(const struct eco_split_call *call, int32_t clusters,
                             cudaStream_t stream);
/* The same, of few rows of B, which is not prepared and lies straight, C turned [b.rows,a.rows], no
 * bias.  A tile has 64 rows of A or ECO_SPLIT_TILE; so many blocks, ECO_SPLIT_SLICES at most and
 * not more than pieces of k, share it.  overlap: put in place while the kernel ahead computes B; A
 * is there. */
enum {
    ECO_SPLIT_SLICES = 8,
    ECO_SPLIT_COLUMNS = 64, /* rows of B, of a block */
    ECO_SPLIT_FEW_COLUMNS = 32,
    ECO_SPLIT_MOST_COLUMNS = ECO_SPLIT_COLUMNS * 65535 /* of a launch */
};
cudaError_t eco_launch_split_step(const struct eco_split_call *call, int32_t tile, int32_t slices,
                                  bool overlap, cudaStream_t stream);
/* How many clusters of 1, 2 ... blocks of that kernel run at once; 0: none, or the device cannot
 * say. */
void eco_split_step_count(int32_t clusters[ECO_SPLIT_SLICES]);

/* Once for a device.  usable: there is code for it. */
cudaError_t eco_split_load(bool *usable);
cudaError_t eco_split_prepare_load(void); /* parts of that */
cudaError_t eco_split_step_load(bool *usable);
/* Of one kernel. */
cudaError_t eco_split_load_kernel(const void *kernel, int shared_bytes, bool *usable);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_SPLIT_CALL_H */
