/*
 * One call of a handler: its plan, and its buffers in order.
 *
 * Under vmap every buffer has the same number of leading dimensions more, each 1 or the results'.
 * A handler then runs once for each item.  Item 4 of leading dimensions [2,3] is [1,1]; of a buffer
 * with [1,3] it reads number 1, of one with [2,1] number 1, too.
 */
#ifndef ECO_XLA_H
#define ECO_XLA_H

#include <stdbool.h>

#include "python/native/xla_abi.h"

/* Bits of `given`, as in _xla.py: inputs, and results that are wanted. */
enum {
    XLA_LENGTHS = 1 << 0,
    XLA_RESETS = 1 << 1,
    XLA_MASK = 1 << 2,
    XLA_SEED = 1 << 3,
    XLA_DY = 1 << 4,
    XLA_RESERVE = 1 << 5,
    XLA_DPARAMS = 1 << 6,
    XLA_DX = 1 << 7,
    XLA_INITIAL = 1 << 8, /* this and the next bits: one for each state */
    XLA_STARTS = 1 << 12,
    XLA_DFINAL = 1 << 16,
    XLA_DINITIAL = 1 << 20,
    XLA_DSTARTS = 1 << 24,
    XLA_TASK = 1 << 28 /* times the number of a task; the highest bits */
};

/* Buffers of a handler, bits: a buffer is an argument or a result of those that it names. */
enum {
    PACK_IN = 1 << 0,
    PACK_OUT = 1 << 1,
    FORWARD_IN = 1 << 2,
    FORWARD_OUT = 1 << 3,
    BACKWARD_IN = 1 << 4,
    BACKWARD_OUT = 1 << 5
};
enum { XLA_MARK = 64 }; /* bytes behind a reserve: the first of them says that it was written */

struct xla_call {
    const struct xla_frame *frame;
    struct plan *plan;
    int64_t given;
    bool on_gpu;
    int32_t steps, batch;
    ecornn_sizes sizes;         /* of a run of T and N */
    int64_t leads, items, item; /* leading dimensions, their product, and the current one */
    ecornn_io io;               /* what the current item has */
    ecornn_gradient gradient;
    void *packed;     /* weights */
    const void *seed; /* two words */
    void **params;    /* [models,count], arguments or results; NULL: none */
    bool zero;        /* results are filled with zeros */
    xla_error *error;
};

/* What a handler does for one item. */
struct xla_task {
    int in, out; /* its buffers */
    int64_t x;   /* number of x in the arguments; -1: none */
    void (*run)(struct xla_call *call);
};

enum { XLA_TASKS = 3 }; /* pack, forward, backward */
extern const struct xla_task xla_tasks[XLA_TASKS];

/* Runs the task that `given` says for every item.  Returns an error, also for a frame that does not
 * fit. */
xla_error *xla_run(const struct xla_frame *frame, bool on_gpu);
/* Finds the task's buffers of the current item, its arguments or its results, and writes their
 * addresses to the call.  Their number, types, dimensions and bytes must be those of the table in
 * xla_buffers.c; false: an error is set. */
bool xla_find(struct xla_call *call, const struct xla_buffers *all, int task);
/* The bits of `given` that the task with these buffers has. */
int64_t xla_bits(const struct xla_call *call, int task);
/* The product of dimensions; -1: one is negative, or there are more than PTRDIFF_MAX bytes. */
int64_t xla_product(int64_t bytes, const int64_t *dims, int64_t rank);
/* Sets call->error, unless there is one. */
void xla_fail(struct xla_call *call, int code, const char *text);
/* The same for a status of the library that is not OK; returns whether it is OK. */
bool xla_ok(struct xla_call *call, ecornn_status status);

#endif /* ECO_XLA_H */
