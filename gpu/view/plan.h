/*
 * GPU data of a plan (algo/plan.c): its kernels and its graphs.
 */
#ifndef ECO_GPU_VIEW_PLAN_H
#define ECO_GPU_VIEW_PLAN_H

#include "gpu/algo/force.h"
#include "gpu/kernels.h"

/* Algorithm persistent, forward or backward. */
struct eco_persistent_kernels {
    bool used;                                   /* if false, steps run as in algorithm step */
    uint64_t shapes;                             /* kernels that runs may use */
    const void *by_shape[ECO_PERSISTENT_SHAPES]; /* eco_persistent_index() */
    char why[256];                               /* why they are not used although they should be */
};

/* Algorithm fused. */
struct eco_fused_kernels {
    bool used; /* if false, steps run as in algorithm step */
    const void *by_shape[ECO_FUSED_SHAPES], *projection[ECO_FUSED_SHAPES];
    char why[256]; /* why they are not used although they should be */
};

/* Algorithm scan. */
struct eco_scan_kernels {
    bool used;             /* if false, steps run as in algorithm step */
    const void *kernel[2]; /* [forward, backward] */
    char why[256];         /* why they are not used although they should be */
};

struct eco_gpu_plan {
    struct eco_graphs *graphs;
    const struct eco_own_code
        *cell;     /* code of algorithm step; NULL: built in, unused or interpreted */
    char why[256]; /* why it is interpreted */
    struct eco_persistent_kernels persistent[2]; /* [forward, backward] */
    struct eco_fused_kernels fused;
    struct eco_scan_kernels scan;
    const void *const *wide; /* kernels of steps of many rows, [ECO_WIDE_SHAPES]; or NULL */
};

#endif /* ECO_GPU_VIEW_PLAN_H */
