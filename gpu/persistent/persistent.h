/*
 * Algorithm persistent on the host's side: the division into blocks and the launches.
 */
#ifndef ECO_GPU_PERSISTENT_PERSISTENT_H
#define ECO_GPU_PERSISTENT_PERSISTENT_H

#include "gpu/jit/compile.h"
#include "gpu/view/run.h"
#include "gpu/persistent/args.h"

/* Bits eco_persistent_place(): all, and those by instructions that only some devices have. */
#define ECO_PERSISTENT_ALL_SHAPES ((UINT64_C(1) << ECO_PERSISTENT_SHAPES) - 1)
enum { ECO_PERSISTENT_MOST_PARTS = 128 }; /* of a sum, four to a lane */
#define ECO_PERSISTENT_SQUARES                                                                     \
    (ECO_PERSISTENT_ALL_SHAPES -                                                                   \
     ((UINT64_C(1) << ECO_PERSISTENT_PLACE(ECO_PERSISTENT_SHIFT, 0, ECO_PERSISTENT_WGMMA)) - 1))

/* What the division depends on. */
struct eco_persistent_need {
    bool backward;
    uint64_t shapes; /* those there is code for: bits eco_persistent_place() */
    int32_t hidden, rows, steps;
    int32_t jobs;                               /* of one launch */
    int32_t groups;                             /* at most; 0: any */
    int32_t products;                           /* of a step, one after the other */
    int32_t width[ECO_PERSISTENT_PRODUCTS];     /* of what each gathers, for a batch row */
    int32_t recurrent[ECO_PERSISTENT_PRODUCTS]; /* accumulators that it adds to */
    int32_t accs, states;                       /* all accumulators */
    int32_t means, sums, hand_overs;            /* of a row; of a block for these; of such sums */
    int32_t fields;                             /* that a step back may read */
    int32_t operand;                            /* bytes of one */
    int32_t instructions;                       /* of the matrix units for a k block's product */
    bool scaled;                                /* scale blocks have scales */
    int32_t blocks[ECO_PERSISTENT_CLUSTERS];    /* that run at once, in clusters of 1, 2, 4 */
    int32_t gang;                               /* as eco_caps.gpu has it */
    size_t block_bytes;                         /* of shared memory */
    const struct eco_gpu_rates *rates;          /* of parts of a step */
};

/* Numbers of a unit that product o gathers. */
static inline int32_t eco_persistent_runs(const struct eco_persistent_need *need, int o)
{
    return need->backward ? need->recurrent[o] : 1;
}

/* Among those of different kernels: mainloop, blocks of a cluster, units of a block. */
static inline int eco_persistent_place(const struct eco_persistent_shape *shape)
{
    return ECO_PERSISTENT_PLACE(shape->unit_shift, shape->cluster_log2, shape->mainloop);
}

static inline struct eco_persistent_shape eco_persistent_at(int place)
{
    return (struct eco_persistent_shape){.unit_shift = ECO_PERSISTENT_SHIFT_OF(place),
                                         .cluster_log2 = ECO_PERSISTENT_CLUSTER_LOG2_OF(place),
                                         .mainloop = ECO_PERSISTENT_MAINLOOP_OF(place)};
}

/* ---- what a problem needs, requirements.c ---------------------------------------------------- */

/* By the type of rows, and what operands of products are rounded to. */
enum {
    ECO_BF16_IN_BF16,
    ECO_F16_IN_F16,
    ECO_F32_IN_F16,
    ECO_F32_IN_SCALED_F16,  /* of any size */
    ECO_F32_IN_PAIR,        /* not at all, by two numbers of F16 */
    ECO_F32_IN_SCALED_PAIR, /* the same, of any size */
    ECO_PERSISTENT_KINDS
};
/* What persistent kernels calculate with: ECO_ROWS_rows, ECO_OPERAND_operand, ECO_accuracy; with
 * scales ECO_SCALED. */
struct eco_persistent_kind {
    const char *rows, *operand, *accuracy;
    int32_t bytes;        /* of an operand */
    int32_t instructions; /* of the matrix units for a k block, 16 rows and 8 batch rows */
    bool scaled;          /* what is exchanged has scales */
};
extern const struct eco_persistent_kind eco_persistent_kinds[ECO_PERSISTENT_KINDS];
/* Names of mainloops, as ECORNN_FORCE has them. */
extern const char *const eco_persistent_mainloops[ECO_PERSISTENT_MAINLOOPS];

/* NULL: a type without kernels. */
const struct eco_persistent_kind *eco_persistent_kind(const struct eco_problem *problem,
                                                      bool backward);
/* Are its kernels in the module?  Those of other cells, and with resets, are compiled at run time.
 */
bool eco_persistent_is_made(const struct eco_problem *problem, bool backward);
/* Why there is no kernel for this cell and type; NULL: there is, or it can be compiled. */
const char *eco_persistent_refuses(const struct eco_problem *problem, bool backward);
/* Arrays that a step back may read. */
int32_t eco_persistent_fields(const struct ecornn_cell *cell);

/* For so many jobs at once, before there is a plan: with what is forced. */
struct eco_persistent_need eco_persistent_need(const struct eco_problem *problem,
                                               const struct eco_caps *caps, bool backward,
                                               int32_t rows, int32_t steps, int32_t jobs);
/* The same of a plan. */
struct eco_persistent_need eco_persistent_need_of(const struct ecornn_plan *plan, bool backward,
                                                  int32_t rows, int32_t steps, int32_t jobs);

/* Of such kernels of a cell with means: those where no thread ever has more than one element. */
uint64_t eco_persistent_kept(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward, uint64_t shapes);

/* tiling.c: microseconds of a step by prediction; 0: it does not fit. */
double eco_persistent_shape(const struct eco_persistent_need *need,
                            struct eco_persistent_shape *shape);

/* Bytes that a step of a run of up to need->rows rows exchanges, in a launch of up to so many jobs.
 */
void eco_persistent_exchange(const struct eco_persistent_need *need, int32_t jobs,
                             struct eco_by_rows *bytes);

/* Vectors of 16 bytes that a group exchanges in a step for means: a sum of each block, or of each
 * 32 units of it. */
int32_t eco_persistent_means(const struct eco_persistent_need *need,
                             const struct eco_persistent_shape *shape);

/* ---- kernels, kernels.c ---------------------------------------------------------------------- */

/* Once per device: its kernels get all the shared memory there is; caps.gpu.block_bytes becomes 0
 * where this module has none for it. */
ecornn_status eco_persistent_load(struct ecornn_device *device);

/* A launch, in clusters where they are of more than one block. */
struct eco_persistent_launch {
    int blocks, cluster; /* all of them; of a cluster */
    bool gangs;          /* clusters begin as they can; else all blocks at once */
    bool overlap;        /* put in place before the kernel ahead has ended */
    size_t bytes;        /* of a block's shared memory */
    cudaStream_t stream;
};
cudaLaunchConfig_t eco_persistent_config(cudaLaunchAttribute attributes[3],
                                         const struct eco_persistent_launch *launch);

/* At creation of a plan of algorithm persistent: finds the plan's kernels, or compiles them. */
void eco_persistent_prepare(const struct ecornn_plan *plan);
/* The division of a plan's runs, in words. */
void eco_persistent_describe(const struct ecornn_plan *plan, struct eco_text *text);

/* ---- runs ------------------------------------------------------------------------------------ */

/* Where the arrays of one op lie; what is the same for all ops is set in the call. */
struct eco_persistent_job eco_persistent_job(const struct eco_gpu_run *run,
                                             const struct eco_bound *bound,
                                             struct eco_persistent_call *call);

/* With resets: what the rows of an op begin anew from. */
struct eco_persistent_starts eco_persistent_starts(const struct eco_gpu_run *run,
                                                   const struct eco_bound *bound);

/* May a step back copy all that it reads in words of 4 bytes, also what is the caller's? */
bool eco_persistent_words(const struct eco_gpu_run *run);
/* What was exchanged before a launch of n jobs. */
void eco_persistent_forget(struct eco_gpu_run *run, const struct eco_persistent_call *call,
                           struct eco_persistent_need need, int n);

/* Is one launch of so many ops of a plan's run as fast as two, one after the other? */
bool eco_persistent_together(const struct ecornn_plan *plan, bool backward, int32_t rows,
                             int32_t steps, int32_t jobs);
/* Directions, or layers of a wavefront, of a full run that one launch takes. */
int32_t eco_persistent_jobs(const struct ecornn_plan *plan, bool backward);
/* Queues ops of one level, all ECO_STEP, or all ECO_D_STEP; ECO_PERSISTENT_JOBS at most. */
void eco_persistent_run(struct eco_gpu_run *run, const struct eco_bound *bounds, int n);

/* ---- kernels that are not in the module, source_text.c --------------------------------------- */

/* Those of one way, for each bit of shapes. */
struct eco_persistent_source {
    const struct ecornn_cell *cell;
    const struct eco_persistent_kind *kind;
    bool backward, resets;
    uint64_t shapes, kept; /* kept, of cells with means: threads have an element each, at most */
};
/* The caller: eco_free.  NULL: no memory. */
char *eco_persistent_text(const struct eco_persistent_source *source);
void eco_persistent_kernel_name(int place, char name[ECO_KERNEL_NAME]);

#endif /* ECO_GPU_PERSISTENT_PERSISTENT_H */
