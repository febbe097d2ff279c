/*
 * What a backend implements: one eco_backend, an array of eco_algo.  lib/api_device.c lists the
 * backends; planner.c chooses among the algorithms; lib/api_run.c calls run.
 */
#ifndef ECO_BACKEND_H
#define ECO_BACKEND_H

#include <stdatomic.h>

#include "common/attention/attention.h"
#include "common/choice.h"
#include "common/fp.h"
#include "common/join.h"
#include "common/plan.h"
#include "common/compaction.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"

/* What an algorithm may know of the device when it is asked for support and time: of any device,
 * then of the backend's kind. */
struct eco_cpu_rates;
struct eco_gpu_rates;
struct eco_caps {
    int threads;               /* of a GPU: multiprocessors */
    double flops, bytes_per_s; /* of one thread: fused multiply-adds count twice; memory reads */
    bool own_memory;           /* the host cannot read the device's: lengths are not checked */
    struct eco_cpu_caps {
        int32_t lanes,
            vectors;  /* panels for the product kernel (eco_layout_request); 0: there is none */
        int32_t sums; /* of the kernel at a time, rows times vectors */
        size_t cache_bytes;                /* next to one thread */
        const struct eco_cpu_rates *rates; /* what parts of runs take; NULL: as usual */
    } cpu;
    struct eco_gpu_caps {
        int version;            /* ten times the compute capability */
        size_t block_bytes;     /* of memory that a block of threads shares */
        int32_t blocks[3];      /* that run at once, in clusters of 1, 2 and 4 */
        int32_t partitions;     /* that the device was cut into; 0: it is whole */
        int32_t cluster_launch; /* a part: blocks that wait for each other are a cluster, so many at
                                 * most; 0: all of a launch begin at once */
        int32_t clusters[8];    /* of 1 to 8 blocks of the kernel for steps, that run at once */
        bool fuses;             /* the module has code for fused steps */
        bool wide;              /* and for those of many rows */
        bool splits;            /* and for products of split operands */
        const struct eco_gpu_rates *rates; /* what parts of runs take; NULL: as on an H200 */
    } gpu;
};

struct ecornn_device {
    const struct eco_backend *backend;
    struct eco_caps caps;
    ecornn_device_info info;
    void *context;                   /* the backend's */
    char identity[ECO_MAX_IDENTITY]; /* what times depend on, in words (wisdom/wisdom.h) */
    uint64_t id;                     /* and its hash */
    atomic_bool rates_set;           /* what was measured of it, lib/machine.c */
};

/* One way to run a problem; a constant. */
struct eco_algo {
    const char *name;
    /* NULL: it can.  Else why not, in a few words. */
    const char *(*refuses)(const struct eco_problem *problem, const struct eco_caps *caps);
    void (*request)(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request);
    double (*estimate)(const struct eco_problem *problem, const struct eco_caps *caps); /* s */
    /* Runs a whole tape; args are checked, tape and layout fit them. */
    ecornn_status (*run)(const struct ecornn_plan *plan, const struct eco_tape *tape,
                         const struct eco_layout *layout, const struct eco_args *args);
    /* What of its wishes follows from chunks, for others than it wished; or NULL. */
    void (*fit)(const struct eco_problem *problem, const struct eco_caps *caps,
                struct eco_layout_request *request);
};

/* A number that estimates are made of, measured when somebody asks for it, and kept with wisdom. */
enum { ECO_MAX_MEASURES = 8 };
struct eco_measure {
    const char *key;    /* with its unit, "launch-ps" */
    double unit;        /* of numbers as they are kept; values are in s, bytes, flops */
    double least, most; /* values that can be */
    /* How: 0: it cannot be measured.  Or NULL: a run of a problem is timed, */
    double (*measure)(struct ecornn_device *device);
    const char *problem, *forced; /* with these choices; */
    double work; /* of it in a second, or, 0: seconds of a step of it, on a thread */
};

/* bytes of `from`, or where that is NULL elements of `value`, 0 of any type; in a call `to` is
 * called name, from from_name. */
struct eco_fill {
    const char *name, *from_name;
    void *to;
    const void *from;
    size_t bytes;
    double value;
    ecornn_type type;
};

/* to[r][j] = from[r][j], zeros where that is NULL; add: to what is there.  Of F32 or F64; a backend
 * with share does it of any type. */
struct eco_rows_move {
    void *to;
    const void *from;
    size_t to_row, from_row; /* elements from row to row */
    size_t rows, width;
    bool add;
    ecornn_type type;
};

/* How runs go side by side: so many at once; each in a part of the device, by one algorithm, or,
 * algo NULL, in all of it. */
struct eco_models_share {
    int concurrent;
    const struct eco_algo *algo;
    struct eco_caps caps; /* of a part */
};

/* Runs side by side, so many at once: one queues a run on a stream, in place run modulo at_once of
 * the workspace; last what comes behind all of them. */
struct eco_concurrent_runs {
    int runs, concurrent;
    ecornn_status (*one)(void *own, int run, int place, void *stream);
    ecornn_status (*last)(void *own, void *stream);
    void *user_data;
    /* Of several models: all of it may be kept as one graph.  NULL: it is not. */
    const struct ecornn_plan *plan;
    const struct eco_args *args;
};

struct eco_backend {
    const char *name;      /* "cpu", "cuda", "reference" */
    enum eco_fp_mode mode; /* of threads that run and pack; lib sets that of the caller's */
    int (*count)(void);
    /* argument: what stood behind the colon of the device's name, -1: nothing.  Fills caps, info
     * and own. */
    ecornn_status (*open)(struct ecornn_device *device, int argument);
    void (*close)(struct ecornn_device *device);
    void *(*alloc)(struct ecornn_device *device, size_t bytes);
    void (*free)(struct ecornn_device *device, void *memory);
    ecornn_status (*copy)(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                          bool to_device);
    /* In order on the stream, as a run; the device's memory is checked before. */
    ecornn_status (*fill)(struct ecornn_device *device, const struct eco_fill *fills, int count,
                          void *stream);
    /* Likewise. */
    ecornn_status (*move_rows)(struct ecornn_device *device, const struct eco_rows_move *rows,
                               void *stream);
    /* In order on the stream, as a run. */
    ecornn_status (*join)(struct ecornn_device *device, const struct eco_join *join, void *stream);
    /* to[N] = how many steps rows of from[N] steps have when so many are joined; likewise. */
    ecornn_status (*join_lengths)(struct ecornn_device *device, int32_t *to, const int32_t *from,
                                  int32_t N, int32_t steps, void *stream);
    ecornn_status (*wait)(struct ecornn_device *device, void *stream);
    /* added[k]: what is added to vector k, or NULL; added NULL: nothing to any. */
    ecornn_status (*pack)(const struct ecornn_plan *plan, const void *const *params,
                          const void *const *added, void *weights, void *stream);
    ecornn_status (*unpack)(const struct ecornn_plan *plan, const void *weights,
                            void *const *params, bool add, void *stream);
    /* Fills the numbers of squeeze->run and does the moves of `in`; or those of `out`.  NULL: its
     * algorithms know masks. */
    ecornn_status (*compact)(const struct ecornn_plan *plan, const struct eco_compaction *squeeze,
                             bool out);
    /* NULL: nothing to do.  What the backend keeps with a plan, in plan->own, and its end. */
    ecornn_status (*prepare)(struct ecornn_plan *plan);
    void (*release)(struct ecornn_plan *plan);
    void (*describe)(const struct ecornn_plan *plan, struct eco_text *text); /* of it; or NULL */
    /* What was chosen, each as ",KEY=VALUE" of ECORNN_FORCE: a plan that is forced so is the same.
     * Or NULL. */
    void (*choices)(const struct ecornn_plan *plan, struct eco_text *text);
    /* Several models: on a stream, as share says; NULL: on threads. */
    void (*share)(const struct ecornn_device *device, const struct eco_problem *one, int models,
                  struct eco_models_share *share);
    /* Layers that read the same, each in a part of the device; share->algo NULL: one after the
     * other is faster, or a part is too small.  NULL: always. */
    void (*share_layers)(const struct ecornn_device *device,
                         const struct eco_problem *const layer[], int layers,
                         struct eco_models_share *share);
    /* Of a backend with share. */
    ecornn_status (*run_concurrently)(struct ecornn_device *device,
                                      const struct eco_concurrent_runs *beside, void *stream);
    /* Calls work(own, id, count) in count threads of the device.  NULL: the backend has share. */
    void (*run_on_threads)(struct ecornn_device *device, void (*work)(void *own, int id, int count),
                           void *own);
    /* Measured numbers, ends with a key NULL; or NULL.  tell: what was measured, by place, 0: it
     * was not; before the device's first plan. */
    const struct eco_measure *measures;
    void (*set_rates)(struct ecornn_device *device, const double value[ECO_MAX_MEASURES]);
    const struct eco_choice *tunables; /* worth trying, ends with a key NULL; NULL: none are */
    const char *const *variables;      /* that take choices from the planner, too; ends with NULL */
    /* Adds " key=value" of what times depend on, beside name, variant and threads.  Or NULL. */
    void (*identity)(const struct ecornn_device *device, struct eco_text *words);
    void (*about)(struct eco_text *text); /* lines "word: value" of what it runs on; or NULL */
    int (*threads)(const struct ecornn_device *device); /* now; or NULL: as info says */
    const struct eco_algo *const *algos;                /* ends with NULL */
    const struct eco_attention_backend *attention;      /* NULL: it has none */
};

extern const struct eco_backend eco_backend_reference; /* common/ref/ref_backend.c */
extern const struct eco_backend eco_backend_cpu;       /* cpu/backend.c */
extern const struct eco_backend eco_backend_cuda;      /* lib/module.c, then gpu/backend.c */

#endif /* ECO_BACKEND_H */
