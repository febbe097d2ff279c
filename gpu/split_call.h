/*
 * Launches of products of split operands, split_product.cu.
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

/* C[m,n] (+)= A B (+ bias), of floats: A [m,k], turned [k,m]; B [n,k], turned [k,n].  Blocks share
 * tiles of C where there is room for parts of these: two tiles a block. */
enum { ECO_SPLIT_TILE = 128, ECO_SPLIT_DEPTH = 64 };
enum { ECO_SPLIT_PART_BYTES = 2 * 4 * ECO_SPLIT_TILE * ECO_SPLIT_TILE };
struct eco_split_call {
    const float *a, *b, *bias; /* bias [n] or NULL */
    float *c, *parts;          /* parts: ECO_SPLIT_PART_BYTES for every block, or NULL */
    size_t a_row, b_row, c_row;
    int32_t m, n, k;
    bool a_turned, b_turned; /* not A alone */
    bool add;
};
/* blocks: as many as there are multiprocessors at most, nor more than tiles; with parts, than steps
 * of ECO_SPLIT_DEPTH in all tiles. */
cudaError_t eco_launch_split(const struct eco_split_call *call, int32_t blocks,
                             cudaStream_t stream);
/* Once for a device.  usable: there is code for it. */
cudaError_t eco_split_load(bool *usable);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_SPLIT_CALL_H */
