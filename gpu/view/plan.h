/*
 * GPU data of a plan (algo/plan.c): its kernels and its graphs.
 */
#ifndef ECO_GPU_VIEW_PLAN_H
#define ECO_GPU_VIEW_PLAN_H

#include "common/backend.h"
#include "gpu/algo/force.h"
#include "gpu/kernels.h"
#include "gpu/persistent/need.h"

/* Algorithm persistent, forward or backward. */
struct eco_persistent_kernels {
    bool used;                       /* if false, steps run as in algorithm step */
    uint64_t shapes;                 /* kernels that runs may use */
    struct eco_persistent_need need; /* of a run, but for its rows, steps and jobs */
    struct eco_persistent_choices choices[ECO_PERSISTENT_JOBS]; /* for each number of jobs */
    const void *by_shape[ECO_PERSISTENT_SHAPES];                /* eco_persistent_index() */
    struct eco_persistent_usual usual[ECO_PERSISTENT_SHAPES];   /* what they were compiled for */
    char why[256]; /* why they are not used although they should be */
};

/* Shapes of blocks by rows: each is for runs of at most `rows` rows, and more than the one before
 * it has.  Chosen for multiples of 8, above 256 for about eight numbers of rows in each octave. */
struct eco_step_shape {
    int32_t rows;
    int8_t fused, wide; /* -1: none */
};
enum { ECO_STEP_SHAPES = 40 };
struct eco_step_shapes {
    int n;
    struct eco_step_shape of[ECO_STEP_SHAPES];
};
/* The next number of rows for which a shape is chosen. */
static inline int32_t eco_next_rows(int32_t rows, int32_t most)
{
    const int32_t more = rows < 256 ? 8 : rows / 64 * 8;
    return most - rows > more ? rows + more : most;
}
/* Adds the shapes for up to shape.rows rows. If there are too many, the last ones are also for
 * these rows. */
static inline void eco_step_shapes_add(struct eco_step_shapes *shapes, struct eco_step_shape shape)
{
    const struct eco_step_shape *last = &shapes->of[shapes->n - (shapes->n > 0)];
    if (shapes->n == 0 ||
        (shapes->n < ECO_STEP_SHAPES && (last->fused != shape.fused || last->wide != shape.wide)))
        shapes->of[shapes->n++] = shape;
    else
        shapes->of[shapes->n - 1].rows = shape.rows;
}
static inline struct eco_step_shape eco_step_shape_for(const struct eco_step_shapes *shapes,
                                                       int32_t rows)
{
    for (int i = 0; i < shapes->n; i++)
        if (rows <= shapes->of[i].rows)
            return shapes->of[i];
    return (struct eco_step_shape){rows, -1, -1};
}

/* Have steps back of these rows the kernel of wide_step/backward.cuh, if arrays are aligned? */
static inline bool eco_gpu_has_wide_back(const struct eco_problem *problem,
                                         const struct eco_caps *caps, int64_t rows)
{
    enum { LEAST = 1 << 13 }; /* units of all rows; fewer do not fill the device */
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const int64_t units = rows * problem->H;
    return caps->gpu.wide && problem->cell->builtin >= 0 && lowered->n_backward == 1 &&
           eco_cell_products(problem->cell) == 1 && problem->H % ECO_WIDE_QUAD == 0 &&
           lowered->n_accs + lowered->n_extra <= ECO_WIDE_DACCS && eco_problem_is_plain(problem) &&
           !problem->projected && lowered->n_slots == 0 && units >= LEAST && units <= INT32_MAX;
}

/* Does R multiply the output state only, for accumulators that are neighbours? */
static inline bool eco_gpu_has_one_span(const struct eco_lowered *lowered)
{
    struct eco_acc_range span, more;
    return lowered->n_operands == 1 && lowered->operand[0].state == 0 &&
           eco_acc_range_next(lowered, ECO_WEIGHT_RECURRENT, 0, &span) &&
           !eco_acc_range_next(lowered, ECO_WEIGHT_RECURRENT, span.end, &more);
}

/* How products of steps with a prepared operand of R are divided, by rows, as above. */
struct eco_prepared_cut {
    int32_t rows;
    struct eco_emulated_cut cut;
};
enum { ECO_PREPARED_CUTS = 24 };
struct eco_prepared_cuts {
    int n;
    struct eco_prepared_cut of[ECO_PREPARED_CUTS];
};

/* Which large products in full F32 split their operands: those with more than `least_work`
 * multiply-adds and at most `rows` rows, which are more than the choice before it has.  shared:
 * clusters share tiles. */
struct eco_split_choice {
    int32_t rows;
    bool shared;
    double least_work;
};
/* Products that differ in their rows only: C[rows,a] of b terms; or, of weight gradients, C[a,b] of
 * `rows` terms. */
enum { ECO_SPLIT_ROWS = 80, ECO_SPLIT_CLASSES = 48 };
struct eco_split_class {
    bool gradient;
    int32_t a, b;
    struct eco_split_choice choice[ECO_SPLIT_ROWS];
};
struct eco_split_choices {
    int n, n_rows; /* classes; choices of each */
    struct eco_split_class of[ECO_SPLIT_CLASSES];
};

/* Numbers of rows from..to; none if from > to. */
struct eco_rows_range {
    int32_t from, to;
};
static inline bool eco_rows_within(struct eco_rows_range range, int32_t rows)
{
    return range.from <= rows && rows <= range.to;
}

/* Algorithm fused. */
struct eco_fused_kernels {
    bool used; /* if false, steps run as in algorithm step */
    const void *by_shape[ECO_FUSED_SHAPES], *projection[ECO_FUSED_SHAPES];
    struct eco_step_shapes steps[2], projected; /* of the first layer, of others; by rows */
    char why[256];                              /* why they are not used although they should be */
};

/* Algorithm scan. */
struct eco_scan_kernels {
    bool used;             /* if false, steps run as in algorithm step */
    const void *kernel[2]; /* [forward, backward] */
    char why[256];         /* why they are not used although they should be */
};

/* The first stream of a replay: those before it are of directions. */
enum { ECO_REPLAY_STREAM = 2 };

struct eco_gpu_plan {
    struct eco_graphs *graphs;
    const struct eco_own_code
        *cell[2];  /* code of algorithm step; NULL: built in, unused or interpreted */
    char why[256]; /* why it is interpreted */
    struct eco_persistent_kernels persistent[2]; /* [forward, backward] */
    struct eco_fused_kernels fused;
    struct eco_scan_kernels scan;
    const struct eco_wide_kernel *wide; /* kernels of steps of many rows; or NULL */
    struct eco_step_shapes steps;       /* of algorithm step, by rows; wide: one launch */
    struct eco_step_shapes replays[2];  /* of the first layer, of others; by rows of all steps */
    /* Segments of a replay run concurrently on this many streams, from ECO_REPLAY_STREAM on. 0:
     * they run one by one. */
    int replay_streams;
    /* Most rows, of all steps of an op, with which dx and weight gradients are concurrent: of the
     * first layer, of others. */
    int32_t dx_beside[2];
    struct eco_split_choices *splits;                       /* NULL: no product is split */
    struct eco_prepared_cuts prepared[2][ECO_MAX_OPERANDS]; /* [backward][operand] */
    /* Ops whose large products use F16, by rows of all steps: [of an upper layer]; with dacc also
     * [wants dx][wants dweights]. */
    struct eco_rows_range scaled_input[2], scaled_back[2][2][2];
};

#endif /* ECO_GPU_VIEW_PLAN_H */
