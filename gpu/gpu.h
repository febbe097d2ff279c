/*
 * What the host's files of the CUDA backend share: the device's private part, one run, its
 * products.  Knows the tape's operations, no cell.
 */
#ifndef ECO_GPU_GPU_H
#define ECO_GPU_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "common/module.h"
#include "common/util.h"
#include "gpu/algo/force.h"
#include "gpu/kernels.h"
#include "gpu/device/cuda_compat.h"

/* ---- errors, device/status.c ----------------------------------------------------------------- */

extern const struct eco_services *eco_gpu_services; /* set once, by eco_module_open */

/* What CUDA and cuBLAS said, in words; NO_MEMORY where that was it, else FAILED. */
ecornn_status eco_cuda_error(cudaError_t error, const char *doing);
ecornn_status eco_cublas_error(cublasStatus_t error, const char *doing);
/* The same of a call that may be made to seem to have failed. */
ecornn_status eco_cuda_status(cudaError_t error, const char *doing);
ecornn_status eco_cublas_status(cublasStatus_t error, const char *doing);
/* A call that may be left out, as if it had failed: for tests. */
#define ECO_FAILS()    eco_gpu_services->call_fails()
#define ECO_CUDA(call) eco_cuda_error(ECO_FAILS() ? cudaErrorUnknown : (call), #call)
#define ECO_CUBLAS(call)                                                                           \
    eco_cublas_error(ECO_FAILS() ? CUBLAS_STATUS_INTERNAL_ERROR : (call), #call)

/* ---- device, backend.c and device/handle_pool.c ---------------------------------------------- */

/* Streams of one run at most: lanes of the tape beyond share them. */
enum { ECO_MAX_STREAMS = 8 };
/* Ops of a level that are queued at once, at most. */
enum { ECO_TOGETHER = 4 };

/* What a run needs besides memory; a run takes a free set and gives it back once all is queued. */
struct eco_gpu_set {
    _Atomic bool taken;
    _Atomic bool made;
    cublasHandle_t blas;
    cudaStream_t stream[ECO_MAX_STREAMS];
    cudaEvent_t event[ECO_MAX_STREAMS + 1];
};

enum { ECO_MAX_SETS = 32 };

struct eco_gpu {
    int device;
    int capability;      /* 90: compute capability 9.0 */
    bool overlap;        /* kernels may be put in place before those ahead have ended */
    bool graphs;         /* not forced to be without: graph=0 */
    long spin_timeout_s; /* how long blocks of a kernel wait for each other: ECORNN_PATIENCE */
    uint32_t *failed;    /* host's memory that kernels reach: set when one waited too long */
    struct eco_gpu_set set[ECO_MAX_SETS]; /* as many as runs were ever queued at once */
    struct eco_own_code *own_codes;       /* jit/user_cells.c; at creation of plans only */
    pthread_mutex_t own_codes_lock;
};

/* Makes the device current for the calling thread; eco_gpu_leave gives back the one before. */
struct eco_gpu_scope {
    int before, device;
};
ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device);
void eco_gpu_leave(const struct eco_gpu_scope *scope);

ecornn_status eco_gpu_take_set(struct eco_gpu *gpu, struct eco_gpu_set **set);
void eco_gpu_return_set(struct eco_gpu_set *set);
void eco_gpu_free_set(struct eco_gpu_set *set);

/* BAD_ARGUMENT where the device cannot reach it: a kernel that tried would end the context, for
 * everybody.  NULL is allowed. */
ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer);

ecornn_status eco_gpu_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                           void *stream);
ecornn_status eco_gpu_pack_add(const struct ecornn_plan *plan, const void *const *params,
                               void *weights, void *stream);
ecornn_status eco_gpu_unpack(const struct ecornn_plan *plan, const void *dweights,
                             void *const *params, bool add, void *stream);

/* ---- what plans keep, algo/plan.c ------------------------------------------------------------ */

/* Of algorithm resident, one way. */
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

struct eco_gpu_plan {
    struct eco_graphs *graphs;
    struct eco_gpu_force force;
    const struct eco_own_code *cell; /* of algorithm step; NULL: built in, unused or interpreted */
    char why[256];                   /* the latter */
    struct eco_persistent_kernels resident[2]; /* [forward, backward] */
    struct eco_fused_kernels fused;
};

ecornn_status eco_gpu_prepare(struct ecornn_plan *plan);
void eco_gpu_release(struct ecornn_plan *plan);
void eco_gpu_describe(const struct ecornn_plan *plan, struct eco_text *text);

/* run/graph.c */
ecornn_status eco_gpu_make_graphs(const struct ecornn_plan *plan, struct eco_graphs **graphs);
void eco_gpu_free_graphs(struct eco_graphs *graphs);

/* jit/user_cells.c: code of cells from text, the device's until it is closed; NULL: why not. */
struct eco_persistent_kind;
/* The stages of the problem's cell for its type of rows: kernels of forward, then of backward. */
const struct eco_own_code *
eco_own_stages_get(struct eco_gpu *gpu, const struct eco_problem *problem, struct eco_text *why);
/* All steps, one way: a kernel for each bit of shapes. */
const struct eco_own_code *eco_own_persistent_get(struct eco_gpu *gpu,
                                                  const struct ecornn_cell *cell,
                                                  const struct eco_persistent_kind *kind,
                                                  bool backward, uint64_t shapes,
                                                  struct eco_text *why);
/* Fused steps: a kernel for each shape there is. */
const struct eco_own_code *eco_own_fused_get(struct eco_gpu *gpu, const struct eco_problem *problem,
                                             struct eco_text *why);
const void *eco_own_kernel(const struct eco_own_code *own, int k);
void eco_own_codes_free(struct eco_gpu *gpu);

/* ---- code compiled at run time, jit/load.c --------------------------------------------------- */

struct eco_gpu_code {
    const char *text;           /* CUDA C++; may include the headers listed in gpu.am */
    const char *const *options; /* of the compiler, ends with NULL; NULL: none */
    int n;
    const char *const *name; /* [n]: extern "C" kernels of the text */
    const void **kernel;     /* [n], filled in: for cudaLaunchKernelExC and the like */
    cudaLibrary_t library;   /* filled in */
};

/* Compiles the text for the device, which is current (from the disk where it was compiled before),
 * and loads it.  At plan creation only.  False: why not. */
bool eco_gpu_load(const struct eco_gpu *gpu, struct eco_gpu_code *code, struct eco_text *why);
/* No kernel of it may be queued or be part of a graph. */
void eco_gpu_unload(struct eco_gpu_code *code);

/* ---- a run ----------------------------------------------------------------------------------- */

struct eco_gpu_run;
/* Queues one op of the tape on run->stream; or all `n` of a level. */
typedef void (*eco_gpu_op)(struct eco_gpu_run *run, const struct eco_op *op);
typedef void (*eco_gpu_ops)(struct eco_gpu_run *run, const struct eco_op *ops, int n);

/* One thread queues a run; after the first failure nothing more is queued. */
struct eco_gpu_run {
    const struct ecornn_plan *plan;
    const struct eco_problem *problem;
    const struct eco_lowered *lowered;
    const struct eco_layout *layout;
    const struct eco_args *args;
    const struct eco_stage_kernels *stages;
    const eco_gpu_ops *together; /* by kind: what queues all ops of a level at once; NULL: one by
                                  * one */
    struct eco_gpu_set *set;
    cudaStream_t stream; /* of the op at hand */
    void *room;          /* for its products */
    size_t room_bytes;   /* as cuBLAS was told last */
    int lanes;           /* of the tape that run beside each other */
    int share;           /* of multiprocessors, as cuBLAS was told last; 0: all; -1: unknown */
    bool overlap;        /* the op has queued a kernel there before */
    bool stepping;       /* and a stage since R was prepared */
    bool chained;        /* in one lane there is a kernel ahead, of whatever op */
    struct eco_grouped_call few; /* gemm/grouped/grouped.c: what is still to be launched */
    bool collects;               /* and the op at hand adds to it */
    bool apart; /* the run has queued kernels that touch nothing that is exchanged since
                 * its last persistent kernel */
    ecornn_status status;
};

/* Are all steps of an op queued at once, with those of its level? */
static inline bool eco_gpu_at_once(const struct eco_gpu_run *run, enum eco_op_kind kind)
{
    return run->together != NULL && run->together[kind] != NULL;
}

/* A kernel is queued that touches nothing that is exchanged. */
static inline void eco_gpu_queued(struct eco_gpu_run *run)
{
    run->overlap = run->apart = true;
    run->chained = run->lanes == 1;
}

/* May the next kernel be put in place before the one ahead has ended?  Not an op's first, unless
 * they are chained: it may come after several streams. */
static inline bool eco_gpu_overlap(struct eco_gpu_run *run)
{
    const bool before = run->overlap || run->chained;
    run->overlap = true;
    run->chained = run->lanes == 1;
    return before && ((const struct eco_gpu *)run->plan->device->own)->overlap;
}

void eco_gpu_note_cuda(struct eco_gpu_run *run, cudaError_t error, const char *doing);

void eco_gpu_begin(struct eco_gpu_run *run, const struct eco_op *op); /* ops/copies.c */
void eco_gpu_gather(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_end(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_end_state(struct eco_gpu_run *run, const struct eco_op *op, int s); /* of these one */
void eco_gpu_d_begin(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_d_scatter(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_d_end(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_input(struct eco_gpu_run *run, const struct eco_op *op);  /* ops/input.c */
void eco_gpu_step(struct eco_gpu_run *run, const struct eco_op *op);   /* ops/step.c */
void eco_gpu_d_step(struct eco_gpu_run *run, const struct eco_op *op); /* ops/step_backward.c */
/* Bit s: nothing comes to the last step's state s from behind, and its first kernel knows. */
uint16_t eco_gpu_zero_carry(const struct eco_gpu_run *run);
void eco_gpu_d_input(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_d_weights(struct eco_gpu_run *run, const struct eco_op *op);

/* run/run.c: enters the device, checks the pointers, queues the tape. */
ecornn_status eco_gpu_run_plan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args,
                               const eco_gpu_ops *together);

/* run/graph.c: queues a tape, or launches the graph that was kept of it. */
ecornn_status eco_gpu_run_tape(struct eco_gpu_run *run, const struct eco_tape *tape);

/* run/executor.c: all ops of a tape, on the caller's stream and those that fork from it and join
 * it. */
ecornn_status eco_gpu_queue(struct eco_gpu_run *run, const struct eco_tape *tape,
                            cudaStream_t stream);

/* ---- addresses, view/arrays.c ---------------------------------------------------------------- */

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type);
void *eco_gpu_at(const struct eco_gpu_run *run, const struct eco_array *array, size_t step);
const void *eco_gpu_weights(const struct eco_gpu_run *run, const struct eco_op *op, int part);
/* A caller's sequence of `width` wide rows (x, y and their gradients) from step t on. */
struct eco_plane eco_gpu_sequence(const struct eco_gpu_run *run, const void *data, int32_t t,
                                  size_t width);
/* An array of the run's blocks from step `step` on. */
struct eco_plane eco_gpu_plane(const struct eco_gpu_run *run, const struct eco_array *array,
                               size_t step);
/* Elements from one accumulator of a row to the next. */
int32_t eco_gpu_column(const struct eco_gpu_run *run);
/* Every plan's wish. */
enum { ECO_GPU_ALIGNED = true };
/* The vector that accumulator a adds; -1: none. */
int eco_gpu_bias(const struct eco_gpu_run *run, int a);
/* Do rows of a state's planes end with zeros, as products of whole groups want it? */
bool eco_gpu_fills_state(const struct eco_gpu_run *run, const struct eco_op *op, int s);
/* Input rows of the op's steps for a product: gathered or in place; dense over the steps. */
struct eco_plane eco_gpu_product_input(const struct eco_gpu_run *run, const struct eco_op *op);
/* One direction of one layer's state in the caller's array [L*D,N,width]; data NULL: zeros. */
struct eco_plane eco_gpu_caller_state(const struct eco_gpu_run *run, const struct eco_op *op, int s,
                                      const void *data);
/* The fields of a stage's call that are the same for every step of an op. */
struct eco_stage_call eco_gpu_call(const struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_stage(struct eco_gpu_run *run, bool backward, int stage,
                   const struct eco_stage_call *call);
/* Forward, those of step t: states, what is saved, y; where there is a projection instead of next
 * states and y what it is of. */
void eco_gpu_point_at_step(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t,
                           struct eco_stage_call *call);
void eco_gpu_point_at_output(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t,
                             struct eco_stage_call *call);

/* ---- what fills up rows, ops/zero_padding.c -------------------------------------------------- */

/* Zeros between the elements of what products read, before the first step: forward; backward, where
 * products run over all of a row in any case. */
void eco_gpu_fill_rows(struct eco_gpu_run *run, const struct eco_op *op);
void eco_gpu_fill_columns(struct eco_gpu_run *run, const struct eco_op *op);

/* ---- states, view/states.c ------------------------------------------------------------------- */

/* y of this direction of the layer from step t on; data NULL: nobody wants it. */
struct eco_plane eco_gpu_y(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t);
/* Backward: its gradient, the caller's or in lower layers ours; data NULL: there is none. */
struct eco_plane eco_gpu_dy(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t);
/* Backward: state s after step t, and from there on; before it: of the direction's first step the
 * caller's, data NULL: zeros. */
struct eco_plane eco_gpu_next(const struct eco_gpu_run *run, const struct eco_op *op, int s,
                              int32_t t);
struct eco_plane eco_gpu_before(const struct eco_gpu_run *run, const struct eco_op *op, int s,
                                int32_t t);
/* Is the state before step t no neighbour of those before other steps, but the caller's? */
bool eco_gpu_begins(const struct eco_gpu_run *run, const struct eco_op *op, int s, int32_t t);
/* Where y is not what the op's steps read: makes what is. */
void eco_gpu_copy_history(struct eco_gpu_run *run, const struct eco_op *op);
/* Forward, bit s: the first step starts from zeros, and its kernels know: no plane has them. */
uint16_t eco_gpu_zero_states(const struct eco_gpu_run *run);
/* Previous and next states of step t. */
void eco_gpu_point_at_states(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t,
                             struct eco_stage_call *call);

/* ---- algorithms ------------------------------------------------------------------------------ */

/* algo/cost.c; seconds of the products over all steps: of inputs and, in training, gradients; with
 * what products lose, or copies cost, where rows are no whole groups (steps: those of a step too)
 */
double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool steps);
/* Of all steps one way: their products and the cell. */
double eco_step_time(const struct eco_problem *problem, const struct eco_caps *caps, bool backward);
/* Of so many launches for each layer and direction. */
double eco_gpu_launches(const struct eco_problem *problem, int n);
/* Launches that steps back are followed by, and what these write: all but their products. */
double eco_gpu_after_back(const struct eco_problem *problem, const struct eco_caps *caps);
/* Of algorithm step's launches beside its steps: of states, or their gradients, and of products. */
double eco_step_launches(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward);
/* Do products gain more from whole groups than copies of rows cost? */
bool eco_step_gains_by_groups(const struct eco_problem *problem, const struct eco_caps *caps,
                              bool steps);
/* Steps of a chunk that are forced; 0: the planner chooses. */
int32_t eco_step_asked(const struct eco_problem *problem);
/* Steps of a chunk at least, and rows: enough that the input product runs at full speed, few enough
 * that its result stays in the L2 until the steps read it. */
enum { ECO_STEP_CHUNK = 8, ECO_STEP_ROWS = 4096 };
/* Is what follows a layer's steps back one launch, and all of a run a chunk?  Then layers had
 * better follow each other. */
bool eco_step_is_over_at_once(const struct eco_problem *problem, const struct eco_caps *caps);
/* algo/per_step.c; are rows filled to whole groups?  Where that is forced, or products gain more
 * than copies cost. */
bool eco_step_fills(const struct eco_problem *problem, const struct eco_caps *caps, bool steps);
/* Bytes of ECO_SCRATCH_PRODUCT, by what else is wished: a wavefront, chunks. */
size_t eco_step_product_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              const struct eco_wishes *wishes);
extern const struct eco_algo eco_algo_step;
extern const struct eco_algo eco_algo_persistent; /* algo/persistent.c */
extern const struct eco_algo eco_algo_fused;      /* algo/fused_step.c */

#endif /* ECO_GPU_GPU_H */
