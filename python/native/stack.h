/*
 * The plan of a stack of layers, and where its parameters are in torch's tensors; _spec.py and
 * _native.py know the same for Python.  Plans are kept: one for each bucket of T and N.
 */
#ifndef ECO_TORCH_STACK_H
#define ECO_TORCH_STACK_H

#include <pthread.h>

#include "python/native/tensors.h"

/* The functions of the library that make plans. */
struct planning {
    ecornn_status (*cell_parse)(ecornn_cell **, const char *);
    ecornn_status (*cell_states)(const ecornn_cell *, int *, double *);
    ecornn_status (*device_open)(ecornn_device **, const char *);
    ecornn_status (*plan_create)(ecornn_plan **, ecornn_device *, const ecornn_desc *);
    void (*plan_free)(ecornn_plan *);
    void (*cell_free)(ecornn_cell *);
    ecornn_status (*plan_sizes)(const ecornn_plan *, ecornn_sizes *);
    ecornn_status (*run_sizes)(const ecornn_plan *, int32_t, int32_t, ecornn_sizes *);
    int32_t (*bucket)(int32_t);
    ecornn_status (*param_get)(const ecornn_plan *, int, ecornn_param *);
    ecornn_status (*weights_fit)(const ecornn_plan *, const ecornn_plan *);
    const char *(*error_detail)(void);
};
/* Finds libecornn, when this module is loaded: the one that the process has, next to this module,
 * or the system's; else the one that the process has later.  Returns its functions; NULL: there is
 * none. */
const struct planning *planning_find(void);

/* The operator's argument `shape`, in order. */
enum {
    SHAPE_INPUT,
    SHAPE_HIDDEN,
    SHAPE_LAYERS,
    SHAPE_BIAS,
    SHAPE_BOTH,
    SHAPE_PROJ,
    SHAPE_LIMIT,
    SHAPE_HEADS,
    SHAPE_GROUPED,
    SHAPE_MODELS,
    SHAPES
};

/* What a plan is made for; compared as bytes, without the cell's text. */
struct wish {
    int64_t shape[SHAPES], batch_major, flags, type, param_type, cuda, device, threads;
    int64_t steps, batch; /* of the bucket; last, because packed weights may suit several */
};

/* A block of packed weights, shared by plans that pack alike; the holder of the lock may use it. */
struct block {
    pthread_mutex_t lock;
    int users;            /* stacks that have it */
    torch_tensor *packed; /* NULL: not made yet */
};

struct stack {
    struct wish wish;
    int users; /* calls that hold it, and the table */
    char *cell;
    ecornn_cell *recipe;
    ecornn_plan *plan;
    struct block *block;
    torch_tensor *zeros;    /* for parameters that are in no tensor */
    int64_t *numbers, some; /* of weights and places, in the form of struct job; how many */
    int64_t states, weights, params;
    size_t packed;
};

/* Holds the stack for that wish until stack_let_go; NULL: *why says what is wrong.  The last 4096
 * are kept. */
struct stack *stack_hold(const struct wish *wish, const char *cell, const char **why);
void stack_let_go(struct stack *stack); /* NULL is allowed; its jobs must be dropped before */
/* A job for a run of T and N; 0: no memory.  x: [T,N,I] or [N,T,I]. */
int64_t stack_job(const struct stack *stack, const int64_t *x, int64_t steps, int64_t batch);

#endif /* ECO_TORCH_STACK_H */
