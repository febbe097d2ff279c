/*
 * Host side of algorithm persistent: the division into blocks and the launches.
 */
#ifndef ECO_GPU_PERSISTENT_PERSISTENT_H
#define ECO_GPU_PERSISTENT_PERSISTENT_H

#include "gpu/jit/compile.h"
#include "gpu/view/run.h"
#include "gpu/persistent/division.h"

/* Sets of kernels as bits eco_persistent_index(): all of them; those with WGMMA. */
#define ECO_PERSISTENT_ALL_SHAPES ((UINT64_C(1) << ECO_PERSISTENT_SHAPES) - 1)
#define ECO_PERSISTENT_WGMMA_SHAPES                                                                \
    (ECO_PERSISTENT_ALL_SHAPES -                                                                   \
     ((UINT64_C(1) << ECO_PERSISTENT_INDEX(ECO_PERSISTENT_SHIFT, 0, ECO_PERSISTENT_WGMMA)) - 1))

/* ---- what a problem needs, requirements.c ---------------------------------------------------- */

/* Kinds of kernels: the type of rows, and what operands of products are rounded to. */
enum {
    ECO_BF16_IN_BF16,
    ECO_F16_IN_F16,
    ECO_F32_IN_F16,
    ECO_F32_IN_SCALED_F16,  /* of any magnitude */
    ECO_F32_IN_PAIR,        /* two F16 numbers, which lose nothing */
    ECO_F32_IN_SCALED_PAIR, /* the same, of any magnitude */
    ECO_PERSISTENT_KINDS
};
/* The arithmetic of a kernel: beside the type of rows, ECO_OPERAND_operand, ECO_accuracy and, with
 * scales, ECO_SCALED are defined when it is compiled. */
struct eco_persistent_kind {
    const char *operand, *accuracy;
    int32_t bytes;        /* of an operand */
    int32_t instructions; /* matrix instructions for a k block, 16 rows of R and 8 batch rows */
    bool scaled;          /* exchanged numbers have scales */
};
extern const struct eco_persistent_kind eco_persistent_kinds[ECO_PERSISTENT_KINDS];
/* Names of mainloops in ECORNN_FORCE. */
extern const char *const eco_persistent_mainloops[ECO_PERSISTENT_MAINLOOPS];

/* NULL if the type has no kernels. */
const struct eco_persistent_kind *eco_persistent_kind(const struct eco_problem *problem,
                                                      bool backward);
/* Are the kernels of this problem in the module? Others are compiled at run time. */
bool eco_persistent_is_made(const struct eco_problem *problem, bool backward);
/* Why this cell and type have no kernel, and none can be compiled; or NULL. */
const char *eco_persistent_refuses(const struct eco_problem *problem, bool backward);

/* Most elements from a batch row to the next: kernels compute offsets within a step in 32 bits, and
 * the caller's rows may be T apart. */
double eco_persistent_row(const struct eco_problem *problem);

/* For `jobs` concurrent (layer, direction)s, before there is a plan. Applies ECORNN_FORCE. In
 * row-invariant plans need.rows is at most what a launch takes. */
struct eco_persistent_need eco_persistent_need(const struct eco_problem *problem,
                                               const struct eco_caps *caps, bool backward,
                                               int32_t rows, int32_t steps, int32_t jobs);
/* The same for a plan. */
struct eco_persistent_need eco_persistent_need_of(const struct ecornn_plan *plan, bool backward,
                                                  int32_t rows, int32_t steps, int32_t jobs);

/* The subset of `shapes` with which no thread ever has more than one element (cells with means). */
uint64_t eco_persistent_kept(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward, uint64_t shapes);

/* tiling.c: predicts the microseconds of a step; 0 if no division fits. */
double eco_persistent_shape(const struct eco_persistent_need *need,
                            struct eco_persistent_shape *shape);

/* Bytes exchanged in a step, for each number of rows, in a launch of at most `jobs` jobs. */
void eco_persistent_exchange(const struct eco_persistent_need *need, int32_t jobs,
                             struct eco_by_rows *bytes);

/* The divisions of runs of up to need->rows rows, in launches of 1 ... `jobs` jobs. */
void eco_persistent_choose(const struct eco_persistent_need *need, int32_t jobs,
                           struct eco_persistent_choices *choices);

/* ---- chunks, chunks.c -------------------------------------------------------------------------
 */

/* Most steps of a chunk, ... */
int32_t eco_persistent_most_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                                  bool backward, bool wavefront);
/* ... its steps if layers follow each other, as forced or most; ... */
int32_t eco_persistent_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward);
/* The least steps of a chunk of a replay; eco_persistent_fit_chunks() takes more if they fit. */
int32_t eco_persistent_steps_back(const struct eco_problem *problem, const struct eco_caps *caps);
/* At last, with all else requested: what shares memory, and chunks that fit in memory. */
void eco_persistent_fit_chunks(const struct eco_problem *problem, const struct eco_caps *caps,
                               struct eco_layout_request *request);

/* ---- kernels, kernels.c ---------------------------------------------------------------------- */

/* Once per device: allows its kernels all the shared memory there is. Sets caps.gpu.block_bytes to
 * 0 if this module has no kernels for the device. */
ecornn_status eco_persistent_load(struct ecornn_device *device);

/* A launch; blocks form clusters if `cluster` is above 1. */
struct eco_persistent_launch {
    int blocks, cluster; /* all blocks; those of a cluster */
    bool cluster_launch; /* clusters start independently, instead of all blocks at once */
    bool overlap;        /* blocks may be resident before the preceding kernel has ended */
    size_t bytes;        /* shared memory of a block */
    cudaStream_t stream;
};
cudaLaunchConfig_t eco_persistent_config(cudaLaunchAttribute attributes[3],
                                         const struct eco_persistent_launch *launch);

/* At plan creation: finds the plan's kernels, or compiles them. */
void eco_persistent_prepare(const struct ecornn_plan *plan);
/* Prints how a plan divides its runs. */
void eco_persistent_describe(const struct ecornn_plan *plan, struct eco_text *text);
void eco_persistent_write_choices(const struct ecornn_plan *plan, struct eco_text *text);

/* ---- runs ------------------------------------------------------------------------------------ */

/* The arrays of one op from batch row `row` on. Sets in the call what is the same for all ops. */
struct eco_persistent_job eco_persistent_job(const struct eco_gpu_run *run,
                                             const struct eco_bound *bound, int32_t row,
                                             struct eco_persistent_call *call);

/* What the rows of an op restart from. */
struct eco_persistent_starts eco_persistent_starts(const struct eco_gpu_run *run,
                                                   const struct eco_bound *bound);

/* May a backward step copy all that it reads, the caller's arrays included, in words of 4 bytes? */
bool eco_persistent_words(const struct eco_gpu_run *run);
/* Marks the exchange as unwritten before a launch. */
void eco_persistent_forget(struct eco_gpu_run *run, const struct eco_persistent_call *call,
                           const struct eco_persistent_need *need);

/* The plan's choice for a launch of `jobs` jobs with this number of rows; NULL: no kernel fits. */
const struct eco_persistent_choice *
eco_persistent_chosen(const struct eco_persistent_kernels *kernels, int32_t jobs, int32_t rows);
/* What a kernel of a plan can be compiled for. */
struct eco_persistent_usual eco_persistent_usual(const struct eco_problem *problem,
                                                 const struct eco_caps *caps, bool backward,
                                                 int place);
/* Directions, or layers of a wavefront, in each launch of a full run. */
int32_t eco_persistent_jobs(const struct ecornn_plan *plan, bool backward);
ecornn_status eco_gpu_run_persistent(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                     const struct eco_layout *layout, const struct eco_args *args);

/* ---- kernels compiled at run time, source_text.c --------------------------------------------- */

/* The kernel of a division, eco_persistent_index(), forward or backward. */
struct eco_persistent_source {
    const struct eco_problem *problem;
    const struct eco_persistent_kind *kind;
    bool backward;
    int place;
    bool kept; /* threads have at most one element (cells with means) */
    struct eco_persistent_usual usual;
};
/* The caller releases the text by eco_free. NULL: no memory. */
char *eco_persistent_text(const struct eco_persistent_source *source);
void eco_persistent_kernel_name(int place, char name[ECO_KERNEL_NAME]);

#endif /* ECO_GPU_PERSISTENT_PERSISTENT_H */
