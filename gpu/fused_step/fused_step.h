/*
 * Host side of algorithm fused: its kernels, predicted times, and launches.
 */
#ifndef ECO_GPU_FUSED_STEP_FUSED_STEP_H
#define ECO_GPU_FUSED_STEP_FUSED_STEP_H

#include "gpu/fused_step/args.h"
#include "gpu/jit/jit.h"
#include "gpu/view/run.h"

/* ---- tiling.c -------------------------------------------------------------------------------- */

/* Size of the sums. */
struct eco_fused_size {
    ecornn_type type;
    bool fast;
    int32_t accs, units, rows;
    int32_t k;       /* of all sources */
    bool ahead;      /* matrices are loaded while the kernel before runs */
    unsigned shapes; /* available shapes: a bit for each */
};
/* The fastest shape of blocks, and its seconds for a step; shape -1: none. */
struct eco_fused_choice {
    int shape;
    double time;
};
struct eco_fused_choice eco_fused_choose(const struct eco_fused_size *size,
                                         const struct eco_caps *caps);
/* A layer's steps: with blocks of that size, or wide ones of that shape. */
struct eco_step_choice {
    struct eco_fused_size size;
    int wide;    /* -1: not wide */
    int32_t ops; /* of a launch */
    double time;
};
struct eco_step_choice eco_step_choose(const struct eco_problem *problem,
                                       const struct eco_caps *caps, int32_t layer, int32_t rows);
/* The size for a layer's steps, and for the projection that follows them. */
struct eco_fused_size eco_fused_size(const struct eco_problem *problem, int32_t layer,
                                     int32_t rows);
struct eco_fused_size eco_fused_projection(const struct eco_problem *problem, int32_t rows);

/* At plan creation: the shapes of all runs. */
void eco_fused_choose_all(const struct ecornn_plan *plan, struct eco_fused_kernels *fused);

/* ---- kernels of cells that are not built in -------------------------------------------------- */

/* source_text.c: prints the kernel of a shape. With `fast` floats are multiplied in TF32. The
 * caller releases the text by eco_free. NULL: no memory. */
char *eco_fused_text(const struct eco_problem *problem, int shape);
void eco_fused_kernel_name(int shape, char name[ECO_KERNEL_NAME]);

/* ---- kernels.c ------------------------------------------------------------------------------- */

/* Once for a device. usable: the module has code for it. */
ecornn_status eco_fused_load(bool *usable);
/* At creation of a plan of algorithm fused: finds its kernels, or compiles them. */
void eco_fused_prepare(const struct ecornn_plan *plan);
/* Prints the blocks of a full run's steps in the first layer. */
void eco_fused_describe(const struct ecornn_plan *plan, struct eco_text *text);
void eco_fused_write_choices(const struct ecornn_plan *plan, struct eco_text *text);

/* launch.c, eco_algo.run */
ecornn_status eco_gpu_run_fused(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                const struct eco_layout *layout, const struct eco_args *args);

#endif /* ECO_GPU_FUSED_STEP_FUSED_STEP_H */
