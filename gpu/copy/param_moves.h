/*
 * Parameters to packed weights, and gradients back: many moves in one launch.
 */
#ifndef ECO_GPU_COPY_PARAM_MOVES_H
#define ECO_GPU_COPY_PARAM_MOVES_H

#include "gpu/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ECO_PARAM_MOVES = 32 };

/* Rows of elements from place to place; a plane's step is not read. */
struct eco_param_move {
    struct eco_plane to, from;
    const void *added; /* to what comes from `from`, and as it lies; NULL: nothing */
    int32_t rows, width;
};

struct eco_param_moves {
    struct eco_param_move move[ECO_PARAM_MOVES];
    uint32_t
        end[ECO_PARAM_MOVES]; /* blocks of this move and those before; the launch fills it in */
    bool add;                 /* to what is there */
};
cudaError_t eco_launch_params(struct eco_param_moves *moves, int count, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_PARAM_MOVES_H */
