/*
 * What a plan keeps for a GPU (algo/plan.c): its kernels, its graphs, what was forced.
 */
#ifndef ECO_GPU_VIEW_PLAN_H
#define ECO_GPU_VIEW_PLAN_H

#include "gpu/algo/force.h"
#include "gpu/kernels.h"

/* Of algorithm persistent, one way. */
struct eco_persistent_kernels {
    bool used;                                   /* else steps are those of algorithm step */
    uint64_t shapes;                             /* what runs may be divided into */
    const void *by_shape[ECO_PERSISTENT_SHAPES]; /* eco_persistent_place() */
    char why[256];                               /* they are not, though they should be */
};

/* Of algorithm fused. */
struct eco_fused_kernels {
    bool used; /* else steps are those of algorithm step */
    const void *by_shape[ECO_FUSED_SHAPES], *projection[ECO_FUSED_SHAPES];
    char why[256]; /* they are not, though they should be */
};

/* Of algorithm scan. */
struct eco_scan_kernels {
    bool used;             /* else steps are those of algorithm step */
    const void *kernel[2]; /* [forward, backward] */
    char why[256];         /* they are not, though they should be */
};

struct eco_gpu_plan {
    struct eco_graphs *graphs;
    struct eco_gpu_force force;
    const struct eco_own_code *cell; /* of algorithm step; NULL: built in, unused or interpreted */
    char why[256];                   /* the latter */
    struct eco_persistent_kernels persistent[2]; /* [forward, backward] */
    struct eco_fused_kernels fused;
    struct eco_scan_kernels scan;
    const void *const *wide; /* kernels of steps of many rows, [ECO_WIDE_SHAPES]; NULL: none */
};

#endif /* ECO_GPU_VIEW_PLAN_H */
