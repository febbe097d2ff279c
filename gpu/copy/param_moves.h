/*
 * Packs parameters into weights, and unpacks gradients: many moves in one launch.
 */
#ifndef ECO_GPU_COPY_PARAM_MOVES_H
#define ECO_GPU_COPY_PARAM_MOVES_H

#include "gpu/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ECO_PARAM_MOVES = 32 };

/* Moves rows of elements; a plane's step is not used. */
struct eco_param_move {
    struct eco_plane to, from;
    const void *added; /* added to `from`, with the same layout; or NULL */
    int32_t rows, width;
};

struct eco_param_moves {
    struct eco_param_move move[ECO_PARAM_MOVES];
    uint32_t
        end[ECO_PARAM_MOVES]; /* blocks of this move and of those before it; set by the launch */
    bool add;                 /* add to the destination */
};
cudaError_t eco_launch_params(struct eco_param_moves *moves, int count, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_PARAM_MOVES_H */
