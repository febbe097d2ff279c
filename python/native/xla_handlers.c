/*
 * The runs of a layer as handlers of XLA.  The first result of each is a block of bytes.
 */
#include <string.h>

#include "python/native/xla.h"

enum { VERSION = 6 }; /* version of the interface between Python and this module */

/* Called by Python with the libecornn that it has opened.  0: done. */
SHOWN int ecornn_jax_open(int version, void *opened);
SHOWN xla_error *ecornn_jax_run(const struct xla_frame *frame);
SHOWN xla_error *ecornn_jax_run_cuda(const struct xla_frame *frame);

int ecornn_jax_open(int version, void *opened)
{
    return version == VERSION && library_find(opened) ? 0 : 1;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void pack(struct xla_call *call)
{
    const void *const none = NULL; /* a cell may have no parameters */
    xla_ok(call,
           library.pack(call->plan->plan, call->params ? (const void *const *)call->params : &none,
                        NULL, call->packed, call->io.stream));
}

static void take_seed(struct xla_call *call)
{
    uint32_t words[2] = {0, 0};
    if (call->seed && !call->on_gpu)
        memcpy(words, call->seed, sizeof words);
    else if (call->seed && xla_ok(call, library.wait(call->plan->device, call->io.stream)))
        xla_ok(call, library.download(call->plan->device, words, call->seed, sizeof words));
    call->io.seed = words[1] * ((uint64_t)UINT32_MAX + 1) + words[0];
    call->io.weights = call->packed;
}

static void forward(struct xla_call *call)
{
    take_seed(call);
    if (!call->error &&
        xla_ok(call, library.forward(call->plan->plan, call->steps, call->batch, &call->io)) &&
        call->io.reserve && !call->on_gpu)
        ((unsigned char *)call->io.reserve)[call->sizes.reserve_bytes] = 1;
}

static void backward(struct xla_call *call)
{
    take_seed(call);
    if (!call->error &&
        xla_ok(call, library.backward(call->plan->plan, call->steps, call->batch, &call->io,
                                      &call->gradient)) &&
        call->params)
        xla_ok(call, library.unpack(call->plan->plan, call->gradient.dweights, call->params, 0,
                                    call->io.stream));
}

const struct xla_task xla_tasks[XLA_TASKS] = {{PACK_IN, PACK_OUT, -1, pack},
                                              {FORWARD_IN, FORWARD_OUT, 1, forward},
                                              {BACKWARD_IN, BACKWARD_OUT, 3, backward}};

/* ---- handlers -------------------------------------------------------------------------------- */

xla_error *ecornn_jax_run(const struct xla_frame *frame)
{
    return xla_run(frame, false);
}

xla_error *ecornn_jax_run_cuda(const struct xla_frame *frame)
{
    return xla_run(frame, true);
}
