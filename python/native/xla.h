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

#include "python/native/xla_plans.h"

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
    XLA_DSTARTS = 1 << 24
};

struct xla_call {
    const struct xla_frame *frame;
    const struct xla_plan *plan;
    int64_t given;
    void *stream; /* of a GPU */
    bool on_gpu;
    int32_t steps, batch;
    int64_t leads, items, item; /* leading dimensions, their product, and the current one */
    int64_t in, out;            /* the next buffers */
    bool zero;                  /* results are filled with zeros when their address is taken */
    xla_error *error;
};

/* What a handler does for one item: reads the next buffers. */
typedef void xla_task(struct xla_call *call);

/* Runs a task for every item.  Returns an error, also for a frame that does not fit. */
xla_error *xla_run(const struct xla_frame *frame, xla_task *task, bool on_gpu);
/* Sets call->error, unless there is one. */
void xla_fail(struct xla_call *call, int code, const char *text);
/* The same for a status of the library that is not OK; returns whether it is OK. */
bool xla_ok(struct xla_call *call, ecornn_status status);
/* The address of the current item in the next buffer, whose items must have that type and at least
 * `bytes` bytes, or exactly as many unless it is a block of bytes.  NULL: an error is set.
 * Arguments are only read. */
void *xla_in(struct xla_call *call, int type, size_t bytes);
void *xla_out(struct xla_call *call, int type, size_t bytes);

#endif /* ECO_XLA_H */
