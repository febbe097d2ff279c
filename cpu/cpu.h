/*
 * What the files of the CPU backend share: the device's data, one thread's view of a run, and the
 * large products. Knows the tape's operations, no cell and no instruction set.
 */
#ifndef ECO_CPU_H
#define ECO_CPU_H

#include "cpu/algo/rates.h"
#include "common/backend.h"
#include "common/bound.h"
#include "common/program/verbs.h"
#include "cpu/run/barrier.h"
#include "cpu/isa/pointwise.h"
#include "cpu/isa/tile.h"

/* How the threads of a run divide the steps: `ops` operations of equal level at once; in each the
 * batch in `rows` parts, and the units of each part in `units` parts. The threads of one part of
 * the batch are a group: in steps they wait for each other only. Example: 8 threads as 2x1x4 run
 * two directions at once, each with 4 threads that have a quarter of the units. */
struct eco_grid {
    int ops, rows, units;
};
enum { ECO_STEP_THREADS = 64 }; /* most threads of a grid */
/* Reads "2x1x4", run/cpuid.c; false if the text is invalid. */
bool eco_cpu_read_grid(const char *text, struct eco_grid *grid);

struct eco_cpu {
    const struct eco_isa *isa;
    int threads;
    struct eco_grid grid; /* of all steps, for tests; ops 0: by their work */
    bool blas_threads;    /* this CBLAS has threads of its own, unknown to OpenMP */
    int spins;            /* looks of a waiting thread before it sleeps, if each thread has a CPU */
    int cpus;             /* of the affinity mask */
    struct eco_busy *busy; /* changed by runs; NULL: more threads than CPUs */
    bool small_products;   /* this CBLAS multiplies small matrices without packing them */
};

/* The threads of a run, how they share its steps, and whether those that have finished their part
 * of a product take tasks of others. */
struct eco_cpu_team {
    int threads;
    struct eco_grid grid;
    bool helps;
};
/* Teams are chosen for the planned size, and for smaller runs: of at most 1/2, 1/4 and 1/8 of its
 * rows, and of at most T/8, T/128, T/4096 and T/262144 steps. */
enum { ECO_TEAM_ROWS = 4, ECO_TEAM_STEPS = 5 };
static inline int32_t eco_team_steps(int32_t T, int index)
{
    return T >> index * (index + 5) / 2;
}

/* The backend's data of a plan: what runs look up. */
struct eco_cpu_plan {
    const struct eco_isa *isa; /* the device's, or without tiles if the system refuses them */
    struct eco_grid grid;      /* the device's, or a forced one; ops 0: by their work */
    /* With at least this many threads R, and if [1] W, stays in their caches between steps. */
    int32_t cached_threads[2];
    /* [backward][with lengths] */
    struct eco_cpu_team team[2][2][ECO_TEAM_ROWS][ECO_TEAM_STEPS];
};

/* ---- the team of threads of one run, run/team.c ---------------------------------------------- */

/* Items [from, to). */
struct eco_range {
    int32_t from, to;
};

struct eco_cpu_run;
/* An op of the tape, done by all threads of a team together. On return a thread sees what it wrote
 * itself; the walker waits for the other threads. */
typedef void (*eco_cpu_kernel)(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* One thread's view of a run. All threads walk the same tape; each is number `id` of `count`. */
struct eco_cpu_run {
    const eco_cpu_kernel *ops; /* [ECO_OP_KINDS] */
    const struct eco_cpu *cpu;
    const struct eco_isa *isa;
    struct eco_grid grid;  /* requested; ops 0: by their work */
    struct eco_grid steps; /* used by a run with more than one thread */
    const struct eco_caps *caps;
    const struct eco_problem *problem;
    const struct eco_work *work;
    const struct eco_lowered *lowered;
    const struct eco_layout *layout;
    const struct eco_args *args;
    const struct eco_pointwise_kernels *kernels;
    const struct eco_products *products;
    const struct eco_tile_kernel *tile;
    const struct eco_team *team; /* all threads; in steps the group */
    unsigned *turn;              /* how often it waited for the team */
    uint32_t *product;           /* how many products it shared with the team */
    int id, count;               /* in the team */
    const int32_t *order;        /* [N]: the batch row at each position; NULL: the same */
    const int32_t *active; /* [T]: positions whose rows have not ended at step t; NULL: all N */
    int thread;            /* among all threads of the run: selects the scratch */
    struct eco_range rows; /* batch rows of the team: in steps the group's part */
    int32_t unit_group;    /* units are divided in multiples of this */
    int32_t
        cached_threads; /* with at least this many threads R stays in their caches between steps */
    bool whole_rows;    /* a step's products take the whole batch: grids divide units */
    bool own_units;     /* a thread's products write the units that its pointwise passes read */
    bool helps;         /* a thread that has finished its part of a product takes tasks of others */
    bool scans; /* steps have no products: all threads take an op, each with all steps of its part
                   of the plane, */
    int32_t block_steps; /* or of blocks of this many steps; 0: not */
};

/* algo/run.c: what the threads of a run share, by the plan's choices. */
struct eco_cpu_run eco_cpu_run_of(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                  const struct eco_args *args);
/* The function of every algorithm, eco_algo.run. */
ecornn_status eco_cpu_run_tape(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args);
/* Walks the tape: calls run->ops[kind] for every op, on at most `threads` threads, without waiting
 * between ops of equal level. */
ecornn_status eco_cpu_walk(const struct eco_cpu_run *run, const struct eco_tape *tape, int threads);
/* Calls work on at most `threads` threads, each with its id and their count. */
void eco_cpu_run_on_threads(const struct eco_cpu *cpu, int threads,
                            void (*work)(void *user_data, int id, int count), void *user_data);
/* run/queue.c, for the backend. */
ecornn_status eco_cpu_queue(struct ecornn_device *device, const struct eco_call *calls, int count,
                            void *stream);
ecornn_status eco_cpu_fork(struct ecornn_device *device, const struct eco_jobs *jobs, void *stream);
bool eco_cpu_same(const struct ecornn_device *device, const void *a, const void *b, size_t bytes);
/* Waits for every thread of the team; what they wrote is then visible to all. */
void eco_cpu_wait(const struct eco_cpu_run *run);
/* Does OpenMP count on threads that this process, a fork, does not have? Then the calling thread
 * does everything. run/openmp.c. */
bool eco_cpu_forked(void);
/* Threads for a region that wants `threads`: fewer if the system does not give more; or up to
 * `most` if the last region had more, which are better kept. run/openmp.c. */
int eco_cpu_try_threads(int threads, int most);
/* Bytes of the workspace that a team of `threads` threads shares, eco_layout_request.team_bytes. */
size_t eco_cpu_team_bytes(int threads);

/* Has this CBLAS threads of its own? Between these two calls it does not use them.
 * run/blas.c. */
bool eco_cpu_blas_has_threads(void);
void eco_cpu_blas_alone(void);
void eco_cpu_blas_as_before(void);
/* In the child of a fork: the runs of other threads do not exist there. */
void eco_cpu_blas_forked(void);
/* Before a run of `threads` threads multiplies with the CBLAS: returns how many of them have memory
 * for it, 0 for none. The run gives as many back after it; in the child of a fork all are given
 * back. run/blas.c. */
int eco_cpu_blas_take(int threads);
void eco_cpu_blas_give(int threads);
void eco_cpu_blas_give_all(void);

/* This thread's part of n items, in whole groups; of the team's rows, or other items. */
struct eco_range eco_cpu_part(const struct eco_cpu_run *run, int32_t n, int32_t group);
struct eco_range eco_cpu_part_of(const struct eco_cpu_run *run, struct eco_range all,
                                 int32_t group);
/* The part of another thread of the team. */
struct eco_range eco_cpu_part_for(const struct eco_cpu_run *run, int id, struct eco_range all,
                                  int32_t group);

/* ---- rows by length, ops/row_order.c --------------------------------------------------------- */

/* Fills order and active, in the workspace; the run's other fields are set. */
void eco_cpu_sort(struct eco_cpu_run *run);
/* Positions 0 .. n that are active at step t; those of the team. */
int32_t eco_cpu_active(const struct eco_cpu_run *run, int32_t t);
struct eco_range eco_cpu_step_rows(const struct eco_cpu_run *run, int32_t t);
/* The caller's row at a position. */
int32_t eco_cpu_row(const struct eco_cpu_run *run, int32_t place);
/* A range of consecutive active rows among an op's steps [t1-t0,N]; initialised to {0}. */
struct eco_row_range {
    int32_t steps;      /* steps seen so far, from t0 */
    int32_t step, rows; /* from the first row of this step on */
};
bool eco_cpu_next_row_range(const struct eco_cpu_run *run, const struct eco_op *op,
                            struct eco_row_range *stretch);

/* ---- addresses ------------------------------------------------------------------------------- */

/* This thread's scratch, of layout->thread_bytes. */
static inline char *eco_cpu_scratch(const struct eco_cpu_run *run)
{
    return (char *)run->args->workspace + run->layout->thread_offset +
           (size_t)run->thread * run->layout->thread_bytes;
}
/* Address of the element `elements` after p. */
static inline const void *eco_cpu_after(ecornn_type type, const void *p, size_t elements)
{
    return (const char *)p + elements * eco_type_bytes(type);
}
static inline void *eco_cpu_after_mutable(ecornn_type type, void *p, size_t elements)
{
    return (char *)p + elements * eco_type_bytes(type);
}

/* The row at a position, at step t; NULL if there is no such array. */
static inline void *eco_cpu_row_at(const struct eco_cpu_run *run, const struct eco_view *view,
                                   int32_t t, int32_t place)
{
    const int32_t own = view->caller ? eco_cpu_row(run, place) : place;
    const size_t row = (size_t)(view->stream ? run->args->rows[own] : own);
    void *const rows = eco_view_at(view, t);
    return rows == NULL ? NULL : eco_cpu_after_mutable(view->type, rows, row * view->row);
}

/* ---- verbs, ops/verbs.c; the same for every algorithm ---------------------------------------- */

/* Does an op that is no claim. */
void eco_cpu_expand(const struct eco_cpu_run *run, const struct eco_bound *bound);
extern const struct eco_verbs eco_cpu_verbs;
void eco_cpu_move(void *run, const struct eco_move *move); /* ops/verbs.c */
void eco_cpu_cut(void *run, const struct eco_cut *cut);    /* ops/states.c */
/* ops/verbs.c */
void eco_cpu_weight_product(void *run, const struct eco_weight_product *product);
void eco_cpu_gradients(void *run, const struct eco_gradients *gradients);

/* ---- resets, ops/states.c ------------------------------------------------------------------- */

/* Does step t restart any of the team's rows? False outside of the run. */
bool eco_cpu_resets(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t);
/* STEP: copies starts of such rows to `before`; restores `before`; each thread its own rows. */
void eco_cpu_replace_states(const struct eco_cpu_run *run, const struct eco_bound *bound,
                            int32_t t);
void eco_cpu_restore_states(const struct eco_cpu_run *run, const struct eco_bound *bound,
                            int32_t t);
/* REPLAY, D_STEP: fills the call's part of `with_resets` and points its states there: those that
 * products read, the others. */
enum { ECO_PATCH_READ = 1, ECO_PATCH_OTHERS = 2 };
void eco_cpu_patch_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                          struct eco_pointwise *call, unsigned which);
/* D_STEP, before step t: moves gradients that later steps gave to starts. */
void eco_cpu_cut_carries(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call);
/* Is the row at this position reset before step t, which must be one of its steps? */
bool eco_cpu_is_reset(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t,
                      int32_t place);
/* The thread's part of the carried values of a state before a stage of step t. */
struct eco_range eco_cpu_carried_rows(const struct eco_cpu_run *run,
                                      const struct eco_pointwise *call, int32_t t, int s);
struct eco_range eco_cpu_carried_units(const struct eco_cpu_run *run,
                                       const struct eco_pointwise *call, int s);
/* ops/states.c: copies the states after step t to the caller, with zeros where rows have ended; and
 * the caller's gradients to the carried ones. */
void eco_cpu_show_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t);
void eco_cpu_add_dstates(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call);

/* ops/scan.c: forward or backward steps of an op, for a linear cell, in blocks of time. */
void eco_cpu_scan(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_scan_back(const struct eco_cpu_run *run, const struct eco_bound *bound);
/* Most numbers of a step for which blocks are used; ops/scan_blocks.c: bytes of their exchange. */
enum { ECO_SCAN_MOST = 256 };
size_t eco_cpu_scan_bytes(const struct eco_problem *problem, int32_t chunk, int32_t block_steps);

/* ---- recomputation in backward, ops/replay.c ------------------------------------------------- */

void eco_cpu_replay(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* ---- products -------------------------------------------------------------------------------- */

/* One product with a part of the packed weights, M [n*units, columns]; called by all threads. */
struct eco_multiply {
    const struct eco_op *op; /* layer and direction */
    int part;                /* enum eco_weight_id */
    int32_t rows, t;         /* t: the step, or 0. Consecutive steps may walk M in opposite order */
    const void *a;
    size_t a_row;
    const void *later; /* A of the next step; NULL: unknown */
    void *c;           /* sums; backward: of c_type, the layout's type for the caller's dx */
    size_t c_row;
    ecornn_type c_type;
    struct eco_blocks blocks; /* of C's units */
    bool back;                /* C += A accs M; else C accs += A M^T */
    bool bias;                /* forward, W: C starts from the biases of its accumulators */
    bool add;                 /* else, C is added to; or overwritten */
    bool alone;               /* threads wait for each other before they use C otherwise */
};

/* One stage of an op's steps: products of one C, then the kernel on the call's part of the
 * plane. */
struct eco_stage {
    const struct eco_multiply *product;
    int n;
    const struct eco_pointwise *call;
    eco_pointwise_kernel kernel;
};

/* Room for what an algorithm determines once for the stages of an op. */
struct eco_prepared {
    _Alignas(16) char room[24 << 10];
};

/*
 * How an algorithm multiplies. "accs" columns: those of the part's accumulators, H each, at their
 * positions in a row of acc or dacc; for the projection its P columns.
 */
struct eco_products {
    void (*multiply)(const struct eco_cpu_run *, const struct eco_multiply *);
    /* dM += A accs^T C for n parts with the same A: gradients over all active rows of the op,
     * `rows` of them; C is only read. */
    void (*weights)(const struct eco_cpu_run *, const struct eco_multiply *, int n);
    /* prepare: called for all stages of an op before its steps, and again when rows of the products
     * change. stage: runs one stage of a step; t, a, later and c of its products may differ. Only
     * if a thread owns its units or rows. NULL: products and passes are called one by one. */
    void (*prepare)(const struct eco_cpu_run *, const struct eco_stage *, int stages,
                    struct eco_prepared *);
    void (*stage)(struct eco_prepared *, int stage);
    /* After prepare: sets the line's weights and returns the kernel for all steps of the only
     * stage, if one row of few units can have one; else NULL. May be NULL. */
    const struct eco_line_kernel *(*line)(const struct eco_prepared *, struct eco_line *line);
    bool uses_cblas;
};

enum eco_product_kind {
    ECO_PRODUCT_NT, /* C[m,n] += A[m,k] B[n,k]^T */
    ECO_PRODUCT_NN, /* C[m,n] += A[m,k] B[k,n] */
    ECO_PRODUCT_TN  /* C[m,n] += A[k,m]^T B[k,n] */
};

struct eco_dense_product {
    enum eco_product_kind kind;
    int32_t m, n, k;
    const void *a, *b;
    void *c;
    size_t a_row, b_row, c_row; /* elements between rows */
    bool add;                   /* to C; else C is overwritten */
};

/* ops/verbs.c: the bias of an accumulator, [H], or NULL. */
const void *eco_cpu_bias(const struct eco_cpu_run *run, const struct eco_op *op, int acc);
/* For a C that is not an accumulator: its units are contiguous. */
extern const struct eco_blocks eco_cpu_one_block;
/* gemm/cblas.c: this thread's share of a product through CBLAS, in pieces whose shape depends on m,
 * n and k alone, so that bits do not depend on the number of threads. The caller waits before it
 * reads C. */
void eco_cpu_product(const struct eco_cpu_run *run, const struct eco_dense_product *product);
/* gemm/cblas.c: F64, NT and NN, without CBLAS: rows of C do not depend on m either. */
void eco_cpu_product_row_invariant(const struct eco_cpu_run *run,
                                   const struct eco_dense_product *product);
/* gemm/dense.c: gradients of n parts, through CBLAS; dweights are dense in every algorithm. */
void eco_dense_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

/* Up to this number of rows a product with BF16 weights, or rows of bytes, does not use AMX. */
enum { ECO_FEW_ROWS = 4, ECO_FEW_BYTES = 1 };
/* Do products of a part with this number of rows use tiles? Those of BF16 weights have other bits.
 * Widened, floats multiply only the k of a head, which tiles cannot. */
static inline bool eco_cpu_has_tiles(const struct eco_cpu_run *run, int part, int32_t rows)
{
    const struct eco_problem *problem = run->problem;
    if (problem->int8)
        return run->isa->byte_tiles != NULL && rows > ECO_FEW_BYTES;
    if (run->layout->type == ECORNN_F32 &&
        (problem->row_invariant || (problem->heads > 1 && part >= ECO_WEIGHT_RECURRENT)))
        return false;
    return run->isa->amx != NULL && run->layout->weight == ECORNN_BF16 &&
           (problem->row_invariant || rows > ECO_FEW_ROWS);
}

/* ---- pointwise passes, ops/pointwise_pass.c -------------------------------------------------- */

/* The fields of a pointwise call that are the same for every step of an op. */
struct eco_pointwise eco_cpu_call(const struct eco_cpu_run *run, const struct eco_bound *bound);
/* Previous and next states of a call at step t. */
void eco_cpu_point_at_states(const struct eco_bound *bound, int32_t t, struct eco_pointwise *call);
/* This thread's part of the [N,H] plane of step t; in a scan the same in all steps. */
void eco_cpu_take_part(const struct eco_cpu_run *run, int32_t t, struct eco_pointwise *call);
/* Do `threads` threads divide the rows, each with all units? If not, they divide units. */
bool eco_cpu_by_rows(const struct eco_cpu_run *run, int32_t rows, int threads);
/* Has the cell no compiled stages? */
bool eco_cpu_is_interpreted(const struct eco_problem *problem);
/* The kernel of a stage. */
eco_pointwise_kernel eco_cpu_stage_kernel(const struct eco_cpu_run *run, bool backward, int stage);
/* Runs stages stage.from .. stage.to over the call's part; only the first may follow a product. */
void eco_cpu_pass(const struct eco_cpu_run *run, struct eco_pointwise *call, bool backward,
                  struct eco_range stage);
/* Between a pointwise pass and a product: waits if threads read what others wrote. */
void eco_cpu_after_pointwise(const struct eco_cpu_run *run);
void eco_cpu_after_product(const struct eco_cpu_run *run);
/* After the passes of a step; a scan waits only for starts and returned states. */
void eco_cpu_after_step(const struct eco_cpu_run *run);

/* ---- steps: ops/forward.c, ops/backward.c ---------------------------------------------------- */

void eco_cpu_step(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_d_step(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* ---- gradients of vectors, ops/vector_gradients.c -------------------------------------------- */

/* The request sums_vectors. */
bool eco_cpu_sums_vectors(const struct eco_problem *problem);
/* D_STEP: where step number i (backward) adds them up. The caller sets the rows with a sum. */
void eco_cpu_point_at_sums(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t i,
                           struct eco_pointwise *call);
/* D_WEIGHTS: adds the op's vector gradients to the sums of weight gradients; multiply: its dacc. */
void eco_cpu_d_vectors(const struct eco_cpu_run *run, const struct eco_view *dvector,
                       const struct eco_multiply *multiply);

/* ---- sums of weight gradients, ops/gradient_sums.c ------------------------------------------- */

/* The request gradient_rows. */
int32_t eco_cpu_gradient_group(const struct eco_problem *problem);
/* Sums of an op's weights are added to eco_cpu_gradient: to dweights; or in a long run to an array
 * of the workspace, which eco_cpu_gradient_join adds to dweights from time to time, so that sums
 * over many rows are no long chains. Returns whether there is something to add to. */
bool eco_cpu_gradient_begin(const struct eco_cpu_run *run, const struct eco_op *op);
void *eco_cpu_gradient(const struct eco_cpu_run *run, const struct eco_op *op, int part);
/* After the op, and within it after every eco_cpu_gradient_rows rows. */
void eco_cpu_gradient_end(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_gradient_join(const struct eco_cpu_run *run, const struct eco_op *op);
int32_t eco_cpu_gradient_rows(const struct eco_cpu_run *run);

/* ---- estimates of work, algo/cost.c ---------------------------------------------------------- */

/* Fills in what runs look up, from the plan's problem, request and layouts. */
void eco_cpu_choose_teams(const struct ecornn_plan *plan, struct eco_cpu_plan *own);
/* Seconds of the products of a run on all threads; a step takes at least as long as loading its
 * weights. */
double eco_cpu_estimate(const struct eco_problem *problem, const struct eco_caps *caps);

extern const struct eco_products eco_dense_products;
extern const struct eco_algo eco_algo_blas, eco_algo_packed, eco_algo_scan;

/* ---- attention, attention/run.c -------------------------------------------------------------- */

extern const struct eco_attention_backend eco_cpu_attention;

#endif /* ECO_CPU_H */
