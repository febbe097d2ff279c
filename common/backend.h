/*
 * The interface of a backend: one eco_backend with an array of eco_algo.  lib/api_device.c lists
 * the backends, planner.c chooses among the algorithms, compose/run_one.c calls run.
 */
#ifndef ECO_BACKEND_H
#define ECO_BACKEND_H

#include "common/attention/attention.h"
#include "common/choice.h"
#include "common/compose/call.h"
#include "common/fp.h"
#include "common/plan.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"

/* What an algorithm may know of the device: first of any device, then of one kind of backend. */
struct eco_gpu_rates;
struct eco_caps {
    int threads; /* GPU: multiprocessors */
    double flops,
        bytes_per_s; /* of one thread: a fused multiply-add counts as two; bytes read from memory */
    bool int8;       /* supports rows of int8, not only weights */
    bool streams;    /* its steps read io.rows; else compose/run_one.c gathers states */
    bool own_memory; /* the host cannot read device memory, so lengths are not checked */
    struct eco_cpu_caps {
        int32_t lanes, vectors; /* panels of the product kernel (layout_request.h); 0: none */
        bool tiles;             /* AMX multiplies BF16 */
        int32_t sums;           /* sums of the product kernel at a time, rows times vectors */
        int32_t first_bytes;    /* first-level cache of one thread */
        size_t cache_bytes;     /* second-level cache of one thread */
    } cpu;
    struct eco_gpu_caps {
        int version;        /* ten times the compute capability */
        size_t block_bytes; /* shared memory of a thread block */
        int32_t blocks[3];  /* thread blocks that are resident at once, in clusters of 1, 2 and 4 */
        int32_t partitions; /* number of partitions that the device is cut into; 0: it is whole */
        /* In a partition, blocks that wait for each other must be one cluster, with at most this
         * many; 0: all blocks of a launch are resident. */
        int32_t cluster_launch;
        int32_t clusters[8];               /* [k - 1]: resident clusters of k step-kernel blocks */
        int32_t groups[8];                 /* [k - 1]: the same of k persistent blocks */
        bool fuses;                        /* the module has kernels for fused steps */
        bool wide;                         /* and kernels for fused steps with many rows */
        bool splits;                       /* and kernels for products of split operands */
        const struct eco_gpu_rates *rates; /* times of parts of runs; NULL: those of an H200 */
    } gpu;
};

struct ecornn_device {
    _Atomic int holders; /* plans, and the program until it closes the device */
    _Atomic bool closed;
    const struct eco_backend *backend;
    struct eco_caps caps;
    ecornn_device_info info;
    void *context;                   /* the backend's data */
    char identity[ECO_MAX_IDENTITY]; /* what times depend on, as text (wisdom/wisdom.h) */
    uint64_t id;                     /* hash of identity */
};

/* One way to run a problem; a constant. */
struct eco_algo {
    const char *name;
    /* NULL if it supports the problem.  Else the reason: "needs ..." or "does not support ...". */
    const char *(*refuses)(const struct eco_problem *problem, const struct eco_caps *caps);
    void (*request)(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request);
    double (*estimate)(const struct eco_problem *problem,
                       const struct eco_caps *caps); /* seconds */
    /* Runs a whole tape.  args have been checked; tape and layout fit them. */
    ecornn_status (*run)(const struct ecornn_plan *plan, const struct eco_tape *tape,
                         const struct eco_layout *layout, const struct eco_args *args);
    /* Optional.  Recomputes the layout request after the planner has changed the chunk sizes. */
    void (*fit)(const struct eco_problem *problem, const struct eco_caps *caps,
                struct eco_layout_request *request);
    enum eco_algo_cells {
        ECO_CELLS_OF_UNITS,    /* it runs cells whose states have H units, */
        ECO_CELLS_OF_MATRICES, /* those with a matrix state, */
        ECO_CELLS_ALL          /* or all */
    } cells;
};

/* NULL if it supports the problem; else the reason. */
static inline const char *eco_algo_refusal(const struct eco_algo *algo,
                                           const struct eco_problem *problem,
                                           const struct eco_caps *caps)
{
    const bool matrix = problem->cell->recipe.matrix;
    if (algo->cells != ECO_CELLS_ALL && matrix != (algo->cells == ECO_CELLS_OF_MATRICES))
        return matrix ? "does not support a matrix state" : "needs a cell with a matrix state";
    return algo->refuses(problem, caps);
}

/* How models share a device: `concurrent` at a time, each in a partition, or, algo NULL, on all. */
struct eco_models_share {
    int concurrent;
    const struct eco_algo *algo;
    struct eco_caps caps; /* of a partition */
};

/* A thread that measures plans. */
struct eco_measuring {
    void *stream;
    int mode; /* how captures of other threads treat its calls; of CUDA */
};

struct eco_backend {
    const char *name;      /* "cpu", "cuda", "reference" */
    enum eco_fp_mode mode; /* for threads that run and pack; lib sets it for the caller's thread */
    int (*count)(void);
    /* Fills in caps, info and context.  argument: number after the colon of the name; -1: none. */
    ecornn_status (*open)(struct ecornn_device *device, int argument);
    void (*close)(struct ecornn_device *device);
    void *(*alloc)(struct ecornn_device *device, size_t bytes);
    void (*free)(struct ecornn_device *device, void *memory);
    ecornn_status (*copy)(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                          bool to_device);
    /* Queues calls on the stream, like a run.  Each list follows compose/sequence.h. */
    ecornn_status (*queue)(struct ecornn_device *device, const struct eco_call *calls, int count,
                           void *stream);
    /* Runs jobs: on lanes that fork from the stream and join it, or on threads. */
    ecornn_status (*fork)(struct ecornn_device *device, const struct eco_jobs *jobs, void *stream);
    ecornn_status (*wait)(struct ecornn_device *device, void *stream);
    /* Are these bytes of the host equal?  NULL: the calling thread compares them. */
    bool (*same)(const struct ecornn_device *device, const void *a, const void *b, size_t bytes);
    /* Lets this thread measure outside of any capture, on a stream of its own, until the end.
     * UNSUPPORTED: a stream is being captured.  NULL: there are no streams. */
    ecornn_status (*begin_measuring)(struct ecornn_device *device, struct eco_measuring *own);
    void (*end_measuring)(struct ecornn_device *device, const struct eco_measuring *own);
    bool packs_in_runs; /* forward packs eco_args.params */
    /* Creates and frees what the backend keeps with a plan, plan->context; NULL: nothing. */
    ecornn_status (*prepare)(struct ecornn_plan *plan);
    void (*release)(struct ecornn_plan *plan);
    void (*describe)(const struct ecornn_plan *plan,
                     struct eco_text *text); /* prints plan->context; or NULL */
    /* Writes the choices as ",KEY=VALUE" of ECORNN_FORCE, which gives the same plan.  Or NULL. */
    void (*choices)(const struct ecornn_plan *plan, struct eco_text *text);
    /* Decides how models of one layer, or different layers of one model, share the device.
     * share->algo NULL: each has all of it.  NULL: they run on threads, or one after the other. */
    void (*share)(const struct ecornn_device *device, const struct eco_problem *const layer[],
                  int layers, int models, struct eco_models_share *share);
    /* Reads the value of a choice that is neither a number nor a word; false: invalid. */
    bool (*read_choice)(enum eco_forced_key key, const char *text, int32_t *value);
    const char *const
        *variables; /* other environment variables that override choices; terminated by NULL */
    /* Adds " key=value" for what times depend on, besides name, variant and threads.  Or NULL. */
    void (*identity)(const struct ecornn_device *device, struct eco_text *words);
    void (*about)(
        struct eco_text *text); /* prints lines "word: value" about its software; or NULL */
    int (*threads)(
        const struct ecornn_device *device); /* current number of threads; NULL: as info says */
    const struct eco_algo *const *algos;     /* terminated by NULL */
    const struct eco_attention_backend *attention; /* NULL: not supported */
};

extern const struct eco_backend eco_backend_reference; /* common/ref/ref_backend.c */
extern const struct eco_backend eco_backend_cpu;       /* cpu/backend.c */
extern const struct eco_backend eco_backend_cuda;      /* lib/module.c, then gpu/backend.c */

#endif /* ECO_BACKEND_H */
