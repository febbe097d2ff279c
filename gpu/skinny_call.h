/*
 * Launches of skinny products, skinny_product.cu: of floats, in full accuracy, few rows by a large
 * matrix that many of them read.
 */
#ifndef ECO_GPU_SKINNY_CALL_H
#define ECO_GPU_SKINNY_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ECO_SKINNY_ROWS = 32,          /* of C, at most */
    ECO_SKINNY_TILE = 16,          /* columns of C, that is rows of the matrix, of an instruction */
    ECO_SKINNY_ITEM = 16,          /* and its terms */
    ECO_SKINNY_PIECE = 1024,       /* bytes of both together, prepared */
    ECO_SKINNY_BATCH = 8,          /* rows of C of an instruction */
    ECO_SKINNY_WARPS = 8,          /* of a block */
    ECO_SKINNY_STATIC_BYTES = 1024 /* of shared memory that a kernel has anyway */
};

/*
 * How a product is cut.  A block has `group_tiles` tiles of the matrix and one of `slices` of k; in
 * it the warps stand in a grid, down along tiles, `across` along k.
 */
struct eco_skinny_shape {
    int32_t tiles, items; /* of the matrix: of rows, of k */
    int32_t row_tiles;    /* of C, of ECO_SKINNY_BATCH rows: 1, 2 or 4 */
    int32_t slices, slice_items, groups, group_tiles, across;
    size_t shared_bytes;
};

/* The matrix B [n,k], b_row and b_step elements from row to row and from term to term, brought into
 * the order of matrix instructions, as pairs: [tiles, items, 2, 32] of 16 bytes, then for each tile
 * what its sums are to be multiplied by. */
struct eco_skinny_prepare {
    const float *b;
    void *prepared;
    size_t b_row, b_step;
    int32_t n, k;
};
static inline size_t eco_skinny_bytes(int32_t n, int32_t k)
{
    const size_t tiles = ((size_t)n + ECO_SKINNY_TILE - 1) / ECO_SKINNY_TILE,
                 items = ((size_t)k + ECO_SKINNY_ITEM - 1) / ECO_SKINNY_ITEM;
    return tiles * items * ECO_SKINNY_PIECE + tiles * sizeof(float);
}
cudaError_t eco_launch_skinny_prepare(const struct eco_skinny_prepare *call, cudaStream_t stream);

/* C[m,n] (+)= A[m,k] B^T. */
struct eco_skinny_call {
    struct eco_skinny_shape shape;
    const float *a;
    void *prepared;
    float *c, *parts;
    size_t a_row, c_row;
    int32_t m, n, k;
    bool add;
};
cudaError_t eco_launch_skinny(const struct eco_skinny_call *call, cudaStream_t stream);

/* Once for a device: kernels get all the shared memory of a block. */
cudaError_t eco_skinny_load(size_t block_bytes);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_SKINNY_CALL_H */
