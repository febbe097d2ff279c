/*
 * The runs of a layer as handlers of XLA.  The first result of each is a block of bytes.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "python/native/xla.h"

#define SHOWN __attribute__((visibility("default")))

enum { VERSION = 3 }; /* version of the interface between Python and this module */
enum { MARK = 64 };   /* bytes behind a reserve */

/* Called by Python with the addresses of struct xla_library's functions in order.  0: done. */
SHOWN int ecornn_jax_open(int version, void *const *functions);
SHOWN xla_error *ecornn_jax_pack(const struct xla_frame *frame);
SHOWN xla_error *ecornn_jax_pack_cuda(const struct xla_frame *frame);
SHOWN xla_error *ecornn_jax_forward(const struct xla_frame *frame);
SHOWN xla_error *ecornn_jax_forward_cuda(const struct xla_frame *frame);
SHOWN xla_error *ecornn_jax_backward(const struct xla_frame *frame);
SHOWN xla_error *ecornn_jax_backward_cuda(const struct xla_frame *frame);

int ecornn_jax_open(int version, void *const *functions)
{
    if (version != VERSION)
        return 1;
    memcpy(&xla_library, functions, sizeof xla_library);
    return 0;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* The address of each parameter, [models,count], in arguments or results.  The caller frees it.
 * NULL: an error is set. */
static void **read_parameters(struct xla_call *call, bool results)
{
    const struct xla_plan *const plan = call->plan;
    const int models = plan->desc.models;
    /* One more, as a cell may have no parameters. */
    void **const params = calloc((size_t)models * (size_t)plan->count + 1, sizeof *params);
    if (!params)
        xla_fail(call, XLA_NO_MEMORY, "no memory for the addresses of the parameters");
    for (int i = 0; !call->error && i < plan->count; i++) {
        const size_t bytes = plan->bytes[i] * (size_t)models;
        char *const at =
            results ? xla_out(call, plan->xla_param, bytes) : xla_in(call, plan->xla_param, bytes);
        for (int m = 0; at && m < models; m++)
            params[(size_t)m * (size_t)plan->count + (size_t)i] = at + (size_t)m * plan->bytes[i];
    }
    if (!call->error)
        return params;
    free(params);
    return NULL;
}

/* arguments: the parameters; result: packed weights */
static void pack(struct xla_call *call)
{
    void *const packed = xla_out(call, XLA_U8, call->plan->sizes.weight_bytes);
    void **const params = read_parameters(call, false);
    if (params)
        xla_ok(call, xla_library.pack(call->plan->plan, (const void *const *)params, NULL, packed,
                                      call->stream));
    free(params);
}

/* ---- what runs read and make ----------------------------------------------------------------- */

static size_t rows(const struct xla_call *call)
{
    return (size_t)call->plan->desc.models * (size_t)call->batch;
}

static size_t width(const struct xla_call *call)
{
    const ecornn_desc *const desc = &call->plan->desc;
    return (size_t)(desc->proj > 0 ? desc->proj : desc->hidden);
}

static size_t directions(const struct xla_call *call)
{
    return (call->plan->desc.flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
}

static size_t x_bytes(const struct xla_call *call)
{
    return rows(call) * (size_t)call->steps * (size_t)call->plan->desc.input * call->plan->type;
}

static size_t y_bytes(const struct xla_call *call)
{
    return rows(call) * (size_t)call->steps * directions(call) * width(call) * call->plan->type;
}

static size_t state_bytes(const struct xla_call *call, int state)
{
    const ecornn_desc *const desc = &call->plan->desc;
    const size_t wide = state > 0 ? (size_t)desc->hidden : width(call);
    return rows(call) * (size_t)desc->layers * directions(call) * wide * call->plan->type;
}

/* x is the argument after the blocks; its dimensions give T and N. */
static void find_shape(struct xla_call *call, int64_t index)
{
    const struct xla_buffer *const x =
        index < call->frame->in.count ? call->frame->in.buffer[index] : NULL;
    if (!x || x->rank < 3 || x->dims[x->rank - 3] > INT_MAX || x->dims[x->rank - 2] > INT_MAX) {
        xla_fail(call, XLA_BAD_ARGUMENT, "x of a program is not [T,N,I]");
        return;
    }
    const bool batch_first = (call->plan->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    call->steps = (int32_t)x->dims[x->rank - 3 + batch_first];
    call->batch = (int32_t)x->dims[x->rank - 2 - batch_first];
}

static uint64_t read_seed(struct xla_call *call)
{
    const void *const at = xla_in(call, XLA_U32, 8);
    uint32_t words[2] = {0, 0};
    if (at && !call->on_gpu)
        memcpy(words, at, sizeof words);
    else if (at && xla_ok(call, xla_library.wait(call->plan->device, call->stream)))
        xla_ok(call, xla_library.download(call->plan->device, words, at, sizeof words));
    return words[1] * ((uint64_t)UINT32_MAX + 1) + words[0];
}

/* arguments: x, lengths, resets, mask, seed, initial states, reset states */
static void read_inputs(struct xla_call *call, ecornn_io *io)
{
    const size_t n = rows(call), steps = (size_t)call->steps;
    const int type = call->plan->xla_type;
    io->size = sizeof *io;
    io->stream = call->stream;
    io->x = xla_in(call, type, x_bytes(call));
    if (call->given & XLA_LENGTHS)
        io->lengths = xla_in(call, XLA_S32, n * 4);
    if (call->given & XLA_RESETS)
        io->resets = xla_in(call, XLA_U8, n * steps);
    if (call->given & XLA_MASK)
        io->mask = xla_in(call, XLA_U8, n * steps);
    if (call->given & XLA_SEED)
        io->seed = read_seed(call);
    for (int i = 0; i < call->plan->states; i++)
        if (call->given & XLA_INITIAL << i)
            io->initial[i] = xla_in(call, type, state_bytes(call, i));
    for (int i = 0; i < call->plan->states; i++)
        if (call->given & XLA_STARTS << i)
            io->reset_state[i] = xla_in(call, type, state_bytes(call, i));
}

/* The bytes of an item in a block. */
static size_t block_bytes(const struct xla_buffer *buffer)
{
    return (size_t)buffer->dims[buffer->rank - 1];
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* arguments: packed weights and those of read_inputs; results: workspace, y, final states, and the
 * reserve, if wanted, which ends with a mark that it was written (zeroed) */
static void forward(struct xla_call *call)
{
    const struct xla_plan *const plan = call->plan;
    ecornn_io io = {0};
    unsigned char *reserve = NULL;
    find_shape(call, 1);
    io.weights = xla_in(call, XLA_U8, plan->sizes.weight_bytes);
    read_inputs(call, &io);
    io.workspace = xla_out(call, XLA_U8, 0);
    io.workspace_bytes = block_bytes(call->frame->out.buffer[0]);
    io.y = xla_out(call, plan->xla_type, y_bytes(call));
    for (int i = 0; i < plan->states; i++)
        io.final[i] = xla_out(call, plan->xla_type, state_bytes(call, i));
    if (call->given & XLA_RESERVE) {
        const int64_t index = call->out;
        io.reserve = reserve = xla_out(call, XLA_U8, MARK);
        if (reserve)
            io.reserve_bytes = block_bytes(call->frame->out.buffer[index]) - MARK;
    }
    if (call->error ||
        !xla_ok(call, xla_library.forward(plan->plan, call->steps, call->batch, &io)))
        return;
    if (reserve && !call->on_gpu)
        reserve[io.reserve_bytes] = 1;
}

/* arguments: packed weights, reserve, y, those of read_inputs, dy, gradients of final states;
 * results: workspace, gradient of packed weights, and the gradients of parameters, x, initial
 * states and reset states, as far as they are wanted */
static void backward(struct xla_call *call)
{
    const struct xla_plan *const plan = call->plan;
    const int type = plan->xla_type;
    ecornn_io io = {0};
    ecornn_gradient gradient = {.size = sizeof gradient};
    void **params = NULL;
    find_shape(call, 3);
    io.weights = xla_in(call, XLA_U8, plan->sizes.weight_bytes);
    unsigned char *const reserve = xla_in(call, XLA_U8, MARK);
    if (!reserve)
        return;
    io.reserve = reserve;
    io.reserve_bytes = block_bytes(call->frame->in.buffer[1]) - MARK;
    /* Under vmap, `cond` replaces the reserve of an item whose branch was not taken by zeros, and
     * drops its gradients.  On a CPU the library would refuse that reserve. */
    call->zero = !call->on_gpu && !reserve[io.reserve_bytes];
    io.y = xla_in(call, type, y_bytes(call));
    read_inputs(call, &io);
    if (call->given & XLA_DY)
        gradient.dy = xla_in(call, type, y_bytes(call));
    for (int i = 0; i < plan->states; i++)
        if (call->given & XLA_DFINAL << i)
            gradient.dfinal[i] = xla_in(call, type, state_bytes(call, i));
    io.workspace = xla_out(call, XLA_U8, 0);
    io.workspace_bytes = block_bytes(call->frame->out.buffer[0]);
    if (call->given & XLA_DPARAMS) {
        gradient.dweights = xla_out(call, XLA_U8, plan->sizes.dweight_bytes);
        params = read_parameters(call, true);
    }
    if (call->given & XLA_DX)
        gradient.dx = xla_out(call, type, x_bytes(call));
    for (int i = 0; i < plan->states; i++)
        if (call->given & XLA_DINITIAL << i)
            gradient.dinitial[i] = xla_out(call, type, state_bytes(call, i));
    for (int i = 0; i < plan->states; i++)
        if (call->given & XLA_DSTARTS << i)
            gradient.dreset_state[i] = xla_out(call, type, state_bytes(call, i));
    if (!call->error && !call->zero &&
        xla_ok(call, xla_library.backward(plan->plan, call->steps, call->batch, &io, &gradient)) &&
        params)
        xla_ok(call, xla_library.unpack(plan->plan, gradient.dweights, params, 0, call->stream));
    free(params);
}

/* ---- handlers -------------------------------------------------------------------------------- */

xla_error *ecornn_jax_pack(const struct xla_frame *frame)
{
    return xla_run(frame, pack, false);
}

xla_error *ecornn_jax_pack_cuda(const struct xla_frame *frame)
{
    return xla_run(frame, pack, true);
}

xla_error *ecornn_jax_forward(const struct xla_frame *frame)
{
    return xla_run(frame, forward, false);
}

xla_error *ecornn_jax_forward_cuda(const struct xla_frame *frame)
{
    return xla_run(frame, forward, true);
}

xla_error *ecornn_jax_backward(const struct xla_frame *frame)
{
    return xla_run(frame, backward, false);
}

xla_error *ecornn_jax_backward_cuda(const struct xla_frame *frame)
{
    return xla_run(frame, backward, true);
}
