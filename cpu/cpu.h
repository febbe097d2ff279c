/*
 * What the files of the CPU backend share: the device's private part, one thread's view of a run,
 * and the large products.  Knows the tape's operations, no cell and no instruction set.
 */
#ifndef ECO_CPU_H
#define ECO_CPU_H

#include "cpu/algo/rates.h"
#include "common/backend.h"
#include "common/bound.h"
#include "cpu/run/barrier.h"
#include "cpu/isa/pointwise.h"
#include "cpu/isa/tile.h"

/* How the threads of a run share out the steps: `ops` operations of equal level at once; in each
 * the batch in `rows` parts and each part's units in `units`.  Those of one part of the batch are a
 * group: in steps they wait for each other only. */
struct eco_grid {
    int ops, rows, units;
};
enum { ECO_STEP_THREADS = 64 }; /* of a grid, at most */
/* "2x1x4", run/cpuid.c; false: no such text. */
bool eco_cpu_read_grid(const char *text, struct eco_grid *grid);

struct eco_cpu {
    const struct eco_isa *isa;
    int threads;
    struct eco_grid grid; /* of all steps, for tests; ops 0: by their work */
    bool blas_threads;    /* this CBLAS has threads of its own, which OpenMP knows nothing of */
    int spins;            /* looks of a waiting thread before it sleeps, if each thread has a CPU */
    int cpus;             /* of the affinity mask */
    struct eco_busy *busy;      /* changes with what runs find; NULL: more threads than CPUs */
    bool small_products;        /* this CBLAS multiplies small matrices without packing them */
    struct eco_cpu_rates rates; /* where they were measured */
};

/* What this backend keeps with a plan. */
struct eco_cpu_plan {
    const struct eco_isa *isa; /* the device's, or without tiles, where the system refuses them */
    struct eco_grid grid;      /* the device's, or one that is forced; ops 0: by their work */
    _Atomic uint64_t team[2];  /* of the last forward and backward run, algo/cost.c */
};

/* ---- the team of threads of one run, run/team.c ---------------------------------------------- */

/* Things [from, to) of some. */
struct eco_share {
    int32_t from, to;
};

/* One thread's view of a run.  All threads walk the same tape; id of count tells them apart. */
struct eco_cpu_run {
    const struct eco_cpu *cpu;
    const struct eco_isa *isa;
    struct eco_grid grid;         /* wanted; ops 0: by their work */
    struct eco_grid steps;        /* taken by a run of more than one thread */
    _Atomic uint64_t *known_team; /* of the plan */
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
    const int32_t *order;        /* [N]: which row of the batch lies at each place; NULL: its own */
    const int32_t *active;       /* [T]: places whose rows have not ended at step t; NULL: all N */
    int thread;                  /* among all of the run: whose scratch it has */
    struct eco_share rows;       /* of the batch, that the team does: in steps the group's part */
    int32_t unit_group;          /* units are shared out in such groups */
    int32_t near;                /* among so many threads R stays in their caches between steps */
    bool whole_rows;             /* a step's products take the whole batch: grids share out units */
    bool own_units; /* a thread's products write the units that its pointwise passes read */
    bool helps;     /* who is done with its part of a product takes from others' */
    bool scans;     /* steps have no products: all threads take an op, each does all steps of its
                     * part of the plane, */
    int32_t block_steps; /* or of blocks of so many steps; 0: not */
};

/* An op of the tape, done by all threads of a team together; it ends with everything it wrote
 * visible to the thread that wrote it: the walker waits for the others. */
typedef void (*eco_cpu_kernel)(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* What all algorithms set alike: everything but products and how work is shared out. */
struct eco_cpu_run eco_cpu_run_of(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                  const struct eco_args *args);
/* Walks the tape: kernel[kind] for every op, on at most threads threads; ops of equal level without
 * waiting in between. */
ecornn_status eco_cpu_walk(const struct eco_cpu_run *run, const struct eco_tape *tape, int threads);
/* Calls work on at most so many threads, each as id of count. */
void eco_cpu_together(const struct eco_cpu *cpu, int threads,
                      void (*work)(void *own, int id, int count), void *own);
/* ops/squeeze.c: the backend's. */
ecornn_status eco_cpu_squeeze(const struct ecornn_plan *plan, const struct eco_squeeze *squeeze,
                              bool out);
/* ops/join.c: likewise. */
ecornn_status eco_cpu_join(struct ecornn_device *device, const struct eco_join *join, void *stream);
/* Waits until every thread of the run is here; what they wrote is then visible to all. */
void eco_cpu_wait(const struct eco_cpu_run *run);
/* Does OpenMP believe in threads that this process does not have, a fork of one that had some? Then
 * the calling thread does everything.  run/fork.c. */
bool eco_cpu_forked(void);
/* Threads for a region that wants some: fewer, if the system does not give more; or up to `most`,
 * if the last region had more, which are better kept.  run/try_threads.c. */
int eco_cpu_try_threads(int threads, int most);
/* Bytes that a team of so many threads shares in a run: of the workspace,
 * eco_layout_request.team_bytes. */
size_t eco_cpu_team_bytes(int threads);

/* Has this CBLAS threads that OpenMP does not know?  While a run calls it, between these two, it
 * does without them.  run/blas_threads.c. */
bool eco_cpu_blas_has_threads(void);
void eco_cpu_blas_alone(void);
void eco_cpu_blas_as_before(void);
/* In the child of a fork: the runs of other threads are not in it. */
void eco_cpu_blas_forked(void);
/* Before a run of so many threads multiplies with the CBLAS: how many of them have memory for that,
 * 0: none.  As many are given back after it; in the child of a fork all.  run/blas_memory.c. */
int eco_cpu_blas_take(int threads);
void eco_cpu_blas_give(int threads);
void eco_cpu_blas_give_all(void);

/* This thread's part of n things, in whole groups; of the team's rows, or other things. */
struct eco_share eco_cpu_part(const struct eco_cpu_run *run, int32_t n, int32_t group);
struct eco_share eco_cpu_part_of(const struct eco_cpu_run *run, struct eco_share all,
                                 int32_t group);
/* That of another thread of the team. */
struct eco_share eco_cpu_part_for(const struct eco_cpu_run *run, int id, struct eco_share all,
                                  int32_t group);

/* ---- rows by length, ops/row_order.c --------------------------------------------------------- */

/* Fills order and active, in the workspace; the run's other fields are there. */
void eco_cpu_sort(struct eco_cpu_run *run);
/* Places 0 .. n that are active at step t; which of them are the team's. */
int32_t eco_cpu_active(const struct eco_cpu_run *run, int32_t t);
struct eco_share eco_cpu_step_rows(const struct eco_cpu_run *run, int32_t t);
/* The caller's row at a place. */
int32_t eco_cpu_row(const struct eco_cpu_run *run, int32_t place);
/* Neighbouring active rows among those of an op's steps [t1-t0,N]; starts as {0}. */
struct eco_stretch {
    int32_t steps;      /* looked at, counted from t0 */
    int32_t step, rows; /* from the first row of this step on */
};
bool eco_cpu_stretch(const struct eco_cpu_run *run, const struct eco_op *op,
                     struct eco_stretch *stretch);

/* ---- addresses ------------------------------------------------------------------------------- */

/* This thread's scratch, of layout->thread_bytes. */
static inline char *eco_cpu_scratch(const struct eco_cpu_run *run)
{
    return (char *)run->args->workspace + run->layout->thread_offset +
           (size_t)run->thread * run->layout->thread_bytes;
}
/* Address `elements` of a type after p. */
static inline const void *eco_cpu_after(ecornn_type type, const void *p, size_t elements)
{
    return (const char *)p + elements * eco_type_bytes(type);
}
static inline void *eco_cpu_after_mutable(ecornn_type type, void *p, size_t elements)
{
    return (char *)p + elements * eco_type_bytes(type);
}

/* ---- the ops that only move rows, ops/copies.c; the same for every algorithm ----------------- */

void eco_cpu_begin(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_gather(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_end(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_d_scatter(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* ---- resets, ops/resets.c ------------------------------------------------------------------- */

/* Does any of the team's rows begin anew before step t?  False outside of the run. */
bool eco_cpu_resets(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t);
/* STEP: starts of such rows to their places in `before`, and back; each thread its own rows. */
void eco_cpu_replace_states(const struct eco_cpu_run *run, const struct eco_bound *bound,
                            int32_t t);
void eco_cpu_restore_states(const struct eco_cpu_run *run, const struct eco_bound *bound,
                            int32_t t);
/* REPLAY, D_STEP: the call's part of `patched`, at which its states then point: of those that
 * products read, of others. */
enum { ECO_PATCH_READ = 1, ECO_PATCH_OTHERS = 2 };
void eco_cpu_patch_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                          struct eco_pointwise *call, unsigned which);
/* D_STEP, before step t: what the steps that came first in backward gave to starts. */
void eco_cpu_cut_carries(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call);
/* Of one row. */
void eco_cpu_cut_carry(const struct eco_cpu_run *run, const struct eco_bound *bound, int s,
                       int32_t place, struct eco_share units);
/* Is step t, the row's first if there is one, a reset? */
bool eco_cpu_begins_reset(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t,
                          int32_t place);
/* The thread's part of what is carried of a state before a stage of step t. */
struct eco_share eco_cpu_carried_rows(const struct eco_cpu_run *run,
                                      const struct eco_pointwise *call, int32_t t, int s);
struct eco_share eco_cpu_carried_units(const struct eco_cpu_run *run,
                                       const struct eco_pointwise *call, int s);
/* ops/states.c: those after step t to the caller, zeros where rows have ended; and the caller's
 * gradients to what is carried. */
void eco_cpu_show_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t);
void eco_cpu_add_dstates(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call);

/* ops/scan.c: the steps of an op, or those back, of a cell that is linear, in blocks of time. */
void eco_cpu_scan(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_scan_back(const struct eco_cpu_run *run, const struct eco_bound *bound);
/* Most numbers of a step that blocks are for; ops/scan_blocks.c: the bytes that they tell each
 * other. */
enum { ECO_SCAN_MOST = 256 };
size_t eco_cpu_scan_bytes(const struct eco_problem *problem, int32_t chunk, int32_t block_steps);

/* ---- what backward computes again, ops/replay.c ---------------------------------------------- */

void eco_cpu_keep(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_replay(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* ---- products -------------------------------------------------------------------------------- */

/* One product with a part of the packed weights, M [n*units, columns]; all threads call together.
 */
struct eco_multiply {
    const struct eco_op *op; /* layer and direction */
    int part;                /* enum eco_part */
    int32_t rows, t;         /* t: the step, or 0: consecutive steps may walk M in opposite order */
    const void *a;
    size_t a_row;
    const void *later; /* A of the step after this one, NULL: it is not known */
    void *c;           /* sums; back: of c_type, which is the layout's type for the caller's dx */
    size_t c_row;
    ecornn_type c_type;
    struct eco_blocks blocks; /* of C's units */
    bool back;                /* C += A accs M; else C accs += A M^T */
    bool bias;                /* forward, of W: C starts from the biases of its accumulators */
    bool add;                 /* else, C is added to; or overwritten */
    bool alone; /* threads wait for each other before they do more with C than this product */
};

/* One stage of the steps of an op: products of one C, then the kernel on the part of the plane that
 * the call says. */
struct eco_stage {
    const struct eco_multiply *product;
    int n;
    const struct eco_pointwise *call;
    eco_pointwise_kernel kernel;
};

/* Room for what an algorithm finds out once for the stages of an op. */
struct eco_prepared {
    _Alignas(16) char room[24 << 10];
};

/*
 * How an algorithm multiplies.  "accs" columns: those of the part's accumulators, H each, at their
 * places in a row of acc or dacc; of the projection: its P columns.
 */
struct eco_products {
    void (*multiply)(const struct eco_cpu_run *, const struct eco_multiply *);
    /* dM += A accs^T C of n parts with the same A: gradients over all active rows of the op, `rows`
     * in number; here C is only read. */
    void (*weights)(const struct eco_cpu_run *, const struct eco_multiply *, int n);
    /* All stages of an op, before its steps, and again where rows of the products change; then one
     * of a step, for which the products' t, a, later and c may be others; only where a thread owns
     * its units or rows.  NULL: products and passes are called one by one. */
    void (*prepare)(const struct eco_cpu_run *, const struct eco_stage *, int stages,
                    struct eco_prepared *);
    void (*stage)(struct eco_prepared *, int stage);
};

enum eco_product_kind {
    ECO_PRODUCT_NT, /* C[m,n] += A[m,k] B[n,k]^T */
    ECO_PRODUCT_NN, /* C[m,n] += A[m,k] B[k,n] */
    ECO_PRODUCT_TN  /* C[m,n] += A[k,m]^T B[k,n] */
};

struct eco_product {
    enum eco_product_kind kind;
    int32_t m, n, k;
    const void *a, *b;
    void *c;
    size_t a_row, b_row, c_row; /* elements between rows */
    bool add;                   /* to C; else C is overwritten */
};

/* gemm/bias.c: the bias of an accumulator, [H], or NULL. */
const void *eco_cpu_bias(const struct eco_cpu_run *run, const struct eco_op *op, int acc);
/* Of a C that is no accumulator: its units are neighbours. */
extern const struct eco_blocks eco_cpu_one_block;
/* gemm/cblas.c: this thread's share of a product through CBLAS, in pieces whose shape depends on m,
 * n, k alone: the bits do not depend on the number of threads.  The caller waits before C is read.
 */
void eco_cpu_product(const struct eco_cpu_run *run, const struct eco_product *product);
/* gemm/row_invariant.c: of F64, NT and NN, without CBLAS: rows of C do not depend on m either. */
void eco_cpu_product_apart(const struct eco_cpu_run *run, const struct eco_product *product);
/* gemm/dense.c: gradients of n parts, through CBLAS; dweights are dense in every algorithm. */
void eco_dense_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

/* Up to so many rows a product with weights in BF16 waits for memory, and is done without AMX. */
enum { ECO_FEW_ROWS = 4 };
/* Do products of so many rows go in tiles of BF16?  Their sums have other bits: row-invariant all
 * do. */
static inline bool eco_cpu_has_tiles(const struct eco_cpu_run *run, int32_t rows)
{
    return run->isa->amx != NULL && run->layout->type == ECORNN_BF16 &&
           run->layout->weight == ECORNN_BF16 &&
           (rows > ECO_FEW_ROWS || run->problem->row_invariant);
}

/* ---- pointwise passes, ops/pointwise_pass.c -------------------------------------------------- */

/* The fields of a pointwise call that are the same for every step of an op. */
struct eco_pointwise eco_cpu_call(const struct eco_cpu_run *run, const struct eco_bound *bound);
/* Previous and next states of a call at step t. */
void eco_cpu_point_at_states(const struct eco_bound *bound, int32_t t, struct eco_pointwise *call);
/* This thread's part of the [N,H] plane of step t; in a scan the same units of the same rows in all
 * steps. */
void eco_cpu_take_part(const struct eco_cpu_run *run, int32_t t, struct eco_pointwise *call);
/* Do so many threads share out these rows, each with all units?  Else they share out units. */
bool eco_cpu_by_rows(const struct eco_cpu_run *run, int32_t rows, int threads);
/* Has the cell no compiled stages? */
bool eco_cpu_is_interpreted(const struct eco_problem *problem);
/* The kernel of a stage. */
eco_pointwise_kernel eco_cpu_stage_kernel(const struct eco_cpu_run *run, bool backward, int stage);
/* Stages stage.from .. stage.to over the call's part, none but the first behind a product. */
void eco_cpu_pass(const struct eco_cpu_run *run, struct eco_pointwise *call, bool backward,
                  struct eco_share stage);
/* Between a pointwise pass and a product, and the other way round: waits where threads may read
 * what others wrote. */
void eco_cpu_after_pointwise(const struct eco_cpu_run *run);
void eco_cpu_after_product(const struct eco_cpu_run *run);
/* After the passes of a step; in a scan only where somebody reads what others wrote: starts, states
 * that are shown. */
void eco_cpu_after_step(const struct eco_cpu_run *run);

/* ---- the ops that compute: ops/forward.c, ops/backward.c, ops/weight_gradients.c ------------- */

void eco_cpu_input(const struct eco_cpu_run *run, const struct eco_bound *bound);
/* After an input product: the accumulator that is x itself, if there is one, of its rows; each
 * thread its units, once all have multiplied. */
void eco_cpu_copy_raw(const struct eco_cpu_run *run, const struct eco_multiply *multiply);
void eco_cpu_step(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_d_step(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_d_input(const struct eco_cpu_run *run, const struct eco_bound *bound);
void eco_cpu_d_weights(const struct eco_cpu_run *run, const struct eco_bound *bound);

/* ---- gradients of vectors, ops/vector_gradients.c -------------------------------------------- */

/* The wish sums_vectors. */
bool eco_cpu_sums_vectors(const struct eco_problem *problem);
/* D_STEP: where its step number i, in backward's order, adds them up.  The caller says afterwards
 * how many rows have a sum. */
void eco_cpu_point_at_sums(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t i,
                           struct eco_pointwise *call);
/* D_WEIGHTS: those of the op to where weight gradients are summed; multiply: its dacc. */
void eco_cpu_d_vectors(const struct eco_cpu_run *run, const struct eco_bound *bound,
                       const struct eco_multiply *multiply);

/* ---- where weight gradients are summed, ops/gradient_sums.c ---------------------------------- */

/* The wish gradient_rows. */
int32_t eco_cpu_gradient_group(const struct eco_problem *problem);
/* Sums of an op's weights are added to what is at eco_cpu_gradient: dweights; or, in a long run, an
 * array of the workspace, which eco_cpu_gradient_join adds to dweights now and then.  So a sum of
 * any number of rows is no long chain.  The answer: is there something to add to? */
bool eco_cpu_gradient_begin(const struct eco_cpu_run *run, const struct eco_op *op);
void *eco_cpu_gradient(const struct eco_cpu_run *run, const struct eco_op *op, int part);
/* After the op, and within it after every eco_cpu_gradient_rows rows. */
void eco_cpu_gradient_end(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_gradient_join(const struct eco_cpu_run *run, const struct eco_op *op);
int32_t eco_cpu_gradient_rows(const struct eco_cpu_run *run);

/* ---- how much work it is, algo/cost.c -------------------------------------------------------- */

/* How so many threads do the steps of the run soonest; they may be more than the grid takes. */
struct eco_grid eco_cpu_grid(const struct eco_cpu_run *run, int threads);
/* Is a step of so many threads so long that one may be late by more than it costs to find out? */
bool eco_cpu_helps(const struct eco_cpu_run *run, int threads);
/* How many of the device's threads the run is worth, and how they share out its steps; a run of
 * scans. */
int eco_cpu_threads(const struct eco_cpu_run *run, struct eco_grid *grid);
int eco_cpu_scan_threads(const struct eco_cpu_run *run);
/* Seconds of a run, at so many flops a second for products of a step and for large ones; a step is
 * never faster than its weights come from memory. */
double eco_cpu_estimate(const struct eco_problem *problem, const struct eco_caps *caps, double step,
                        double large);

extern const struct eco_products eco_dense_products;
extern const struct eco_algo eco_algo_blas, eco_algo_packed, eco_algo_scan;

/* ---- attention, attention/run.c -------------------------------------------------------------- */

extern const struct eco_attention_backend eco_cpu_attention;

#endif /* ECO_CPU_H */
