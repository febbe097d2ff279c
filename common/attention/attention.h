/*
 * Attention: the canonical description, a plan, the arguments of a run, and the interface of a
 * backend.  attention_problem.c, attention_plan.c, attention_mark.c; lib/attention.c.
 */
#ifndef ECO_ATTENTION_H
#define ECO_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/type.h"
#include "common/util.h"

struct ecornn_device;
struct eco_caps;

/* ---- the problem, attention_problem.c -------------------------------------------------------- */

enum { ECO_ATTENTION_TEXT = 192 };

struct eco_attention {
    char text[ECO_ATTENTION_TEXT]; /* "attention/additive/f32/train/T50/S50/N128/H512" */
    int32_t T, S, N, H, V;
    bool training;
    bool batch_major;
    ecornn_type type;
};

/* What a problem string says; 0: the default. */
struct eco_attention_desc {
    int32_t steps, source, batch, hidden, value;
    ecornn_type type;
    uint32_t flags; /* ECORNN_TRAINING, ECORNN_BATCH_MAJOR */
};
/* Checks a description completely and makes it a problem. */
ecornn_status eco_attention_build(struct eco_attention *problem,
                                  const struct eco_attention_desc *desc);
/* Parses a problem string to a description. */
ecornn_status eco_attention_parse(struct eco_attention_desc *desc, const char *text);

/* ---- plans and runs -------------------------------------------------------------------------- */

/* The caller's arguments after checking, with T, S and N filled in. */
struct eco_attention_args {
    int32_t T, S, N;
    const int32_t *lengths;
    const void *query, *keys, *values, *vector;
    void *context, *weights;
    void *workspace;
    void *reserve; /* backward: only read */
    void *stream;
    /* backward */
    bool backward;
    const void *dcontext, *dweights;
    void *dquery, *dkeys, *dvalues, *dvector;
    bool accumulate;
};

struct eco_attention_plan {
    struct eco_attention problem;
    struct ecornn_device *device;
    ecornn_sizes sizes;
};

/* The interface of a backend, in eco_backend. */
struct eco_attention_backend {
    /* NULL: it supports all.  Returns NULL if it supports the problem.  Else the reason: "needs
     * ..." or "does not support ...". */
    const char *(*refuses)(const struct eco_attention *problem, const struct eco_caps *caps);
    /* Bytes of a run's workspace.  They never grow with fewer steps, positions or rows. */
    struct eco_size (*workspace)(const struct eco_attention *problem, const struct eco_caps *caps,
                                 const struct eco_attention_args *sizes);
    /* args have been checked; T, S and N are not 0. */
    ecornn_status (*run)(const struct eco_attention_plan *plan,
                         const struct eco_attention_args *args);
    /* Prints how it runs, in one or more lines. */
    void (*describe)(const struct eco_attention_plan *plan, struct eco_text *text);
};

/* Makes the plan of a device and a problem. */
ecornn_status eco_attention_plan_create(struct eco_attention_plan *plan);
int eco_attention_plan_describe(const struct eco_attention_plan *plan, char *text, size_t size);
/* Bytes of the blocks for a run of this T, S and N, with a reserve and a backward pass. */
struct eco_size eco_attention_workspace(const struct eco_attention_plan *plan,
                                        const struct eco_attention_args *sizes);
struct eco_size eco_attention_reserve(const struct eco_attention *problem,
                                      const struct eco_attention_args *sizes);

/* A run of no steps, positions or rows: every result is 0. */
ecornn_status eco_attention_run_empty(const struct eco_attention_plan *plan,
                                      const struct eco_attention_args *args);

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Row number of step or position i of batch row n in an array of `steps` steps. */
static inline size_t eco_attention_row(const struct eco_attention *problem,
                                       const struct eco_attention_args *args, int32_t steps,
                                       int32_t i, int32_t n)
{
    return !problem->batch_major ? (size_t)i * (size_t)args->N + (size_t)n
                                 : (size_t)n * (size_t)steps + (size_t)i;
}

/* Positions of source n. */
static inline int32_t eco_attention_length(const struct eco_attention_args *args, int32_t n)
{
    return args->lengths != NULL ? args->lengths[n] : args->S;
}

/* The weights [N,T,S] in the reserve, after the mark, in the type of sums; NULL: no reserve. */
enum { ECO_ATTENTION_MARK = 256 };
static inline void *eco_attention_saved(const struct eco_attention_args *args)
{
    return args->reserve != NULL ? (char *)args->reserve + ECO_ATTENTION_MARK : NULL;
}

/* ---- the mark of a run in its reserve, attention_mark.c -------------------------------------- */

/* Writes the mark after a forward run; checks it before a backward run, BAD_ARGUMENT if the reserve
 * belongs to another run. */
void eco_attention_mark_write(const struct eco_attention_plan *plan,
                              const struct eco_attention_args *args);
ecornn_status eco_attention_mark_check(const struct eco_attention_plan *plan,
                                       const struct eco_attention_args *args);

#endif /* ECO_ATTENTION_H */
