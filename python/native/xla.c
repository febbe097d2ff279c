/*
 * Reads the frames of XLA's calls: attributes, the plan, and the items.
 */
#include "python/native/xla.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

static xla_error *error_of(const struct xla_frame *frame, int code, const char *text)
{
    return frame->api->error(&(struct xla_error_arguments){
        .size = sizeof(struct xla_error_arguments), .message = text, .code = code});
}

void xla_fail(struct xla_call *call, int code, const char *text)
{
    if (!call->error)
        call->error = error_of(call->frame, code, text);
}

bool xla_ok(struct xla_call *call, ecornn_status status)
{
    static const int codes[] = {[ECORNN_BAD_ARGUMENT] = XLA_BAD_ARGUMENT,
                                [ECORNN_BAD_CELL] = XLA_BAD_ARGUMENT,
                                [ECORNN_NO_MEMORY] = XLA_NO_MEMORY,
                                [ECORNN_NO_DEVICE] = XLA_WRONG_STATE,
                                [ECORNN_UNSUPPORTED] = XLA_UNSUPPORTED};
    const size_t known = sizeof codes / sizeof *codes;
    if (status != ECORNN_OK)
        xla_fail(call, (size_t)status < known ? codes[status] : XLA_INTERNAL, error_text(status));
    return status == ECORNN_OK;
}

/* ---- a call ---------------------------------------------------------------------------------- */

static bool is_named(const struct span *name, const char *text)
{
    return name->bytes == strlen(text) && memcmp(name->at, text, name->bytes) == 0;
}

/* The attributes, sorted by name. */
enum { ATTRIBUTES = 4 };
static bool read_attributes(struct xla_call *call, struct span *texts)
{
    static const char *const names[ATTRIBUTES] = {"cell", "device", "given", "problem"};
    const struct xla_attributes *const all = &call->frame->attributes;
    bool right = all->count == ATTRIBUTES;
    for (int i = 0; right && i < ATTRIBUTES; i++) {
        const bool number = i == 2;
        right = is_named(all->names[i], names[i]) &&
                all->kinds[i] == (number ? XLA_SCALAR : XLA_STRING);
        if (right && number) {
            const struct xla_scalar *const scalar = all->values[i];
            right = scalar->type == XLA_S64;
            if (right)
                memcpy(&call->given, scalar->value, sizeof call->given);
        } else if (right)
            texts[i] = *(const struct span *)all->values[i];
        right = right && (number || memchr(texts[i].at, 0, texts[i].bytes) == NULL);
    }
    if (!right)
        xla_fail(call, XLA_BAD_ARGUMENT,
                 "the attributes of a program are wrong: it is of another version");
    return right;
}

/* The stream, and the name of the GPU in name. */
static bool find_gpu(struct xla_call *call, char *name, size_t size)
{
    struct xla_stream_arguments stream = {.size = sizeof stream, .context = call->frame->context};
    struct xla_ordinal_arguments gpu = {.size = sizeof gpu, .context = call->frame->context};
    const struct xla_api *const api = call->frame->api;
    if (api->size < sizeof *api) {
        xla_fail(call, XLA_UNSUPPORTED,
                 "this jaxlib does not tell which GPU a program runs on: use a later one");
        return false;
    }
    call->error = api->stream(&stream);
    if (!call->error)
        call->error = api->ordinal(&gpu);
    call->io.stream = stream.stream;
    snprintf(name, size, "cuda:%d", (int)gpu.ordinal);
    return !call->error;
}

static bool find_plan(struct xla_call *call)
{
    char name[32];
    struct span all[ATTRIBUTES] = {{0}};
    if (!read_attributes(call, all))
        return false;
    struct span texts[TEXTS] = {[OF_DEVICE] = all[1], [OF_PROBLEM] = all[3], [OF_CELL] = all[0]};
    const struct span device = all[1];
    const bool for_gpu = device.bytes >= 4 && memcmp(device.at, "cuda", 4) == 0;
    if (for_gpu != call->on_gpu) {
        xla_fail(call, XLA_BAD_ARGUMENT,
                 for_gpu ? "the layer's device is a GPU, but the program runs on a CPU"
                         : "the layer's device is a CPU, but the program runs on a GPU: make the "
                           "layer with device='cuda'");
        return false;
    }
    if (for_gpu) {
        if (!find_gpu(call, name, sizeof name))
            return false;
        texts[OF_DEVICE] = (struct span){name, strlen(name)};
    }
    return xla_ok(call, plan_hold(&call->plan, texts, 0));
}

/* Does XLA only ask for the version? */
static bool tell_version(const struct xla_frame *frame)
{
    if (!frame->extension || frame->extension->type != XLA_METADATA)
        return false;
    struct xla_metadata_extension *const asked = (struct xla_metadata_extension *)frame->extension;
    asked->metadata->version.major = XLA_MAJOR;
    asked->metadata->version.minor = XLA_MINOR;
    asked->metadata->traits = 0;
    return true;
}

/* T and N, those of x, and the sizes of their run. */
static bool find_sizes(struct xla_call *call, int64_t index)
{
    const struct xla_buffers *const all = &call->frame->in;
    const struct xla_buffer *const x = index < all->count ? all->buffer[index] : NULL;
    const int64_t *const last = x && x->rank >= call->leads + 3 ? x->dims + x->rank - 3 : NULL;
    const bool batch_first = (call->plan->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    if (!last || last[0] < 1 || last[1] < 1 || last[0] > INT32_MAX || last[1] > INT32_MAX) {
        xla_fail(call, XLA_BAD_ARGUMENT, "x of a program is not [T,N,I]");
        return false;
    }
    call->steps = (int32_t)last[batch_first];
    call->batch = (int32_t)last[!batch_first];
    return xla_ok(call,
                  library.run_sizes(call->plan->plan, call->steps, call->batch, &call->sizes));
}

/* Was the reserve that is an argument never written?  Under vmap, `cond` replaces the reserve of an
 * item whose branch was not taken by zeros, and drops its gradients.  On a CPU the library would
 * refuse that reserve. */
static bool has_no_reserve(const struct xla_call *call)
{
    const unsigned char *const reserve = call->io.reserve;
    return reserve && !call->on_gpu && !reserve[call->sizes.reserve_bytes];
}

static void run_item(struct xla_call *call, const struct xla_task *task)
{
    call->io = (ecornn_io){.size = sizeof call->io,
                           .stream = call->io.stream,
                           .workspace_bytes = call->sizes.workspace_bytes,
                           .reserve_bytes = call->sizes.reserve_bytes};
    call->gradient = (ecornn_gradient){.size = sizeof call->gradient};
    call->zero = false;
    if (!xla_find(call, &call->frame->in, task->in))
        return;
    call->zero = has_no_reserve(call);
    if (xla_find(call, &call->frame->out, task->out) && !call->zero)
        task->run(call);
}

xla_error *xla_run(const struct xla_frame *frame, bool on_gpu)
{
    struct xla_call call = {.frame = frame, .on_gpu = on_gpu};
    if (tell_version(frame))
        return NULL;
    if (frame->out.count < 1 || frame->out.buffer[0]->rank < 1)
        return error_of(frame, XLA_BAD_ARGUMENT, "a program has no results");
    if (!find_plan(&call))
        return call.error;
    call.leads = frame->out.buffer[0]->rank - 1; /* the first result is a block of bytes */
    call.items = xla_product(1, frame->out.buffer[0]->dims, call.leads);
    call.sizes = call.plan->sizes;
    const uint64_t number = (uint64_t)call.given / XLA_TASK;
    const struct xla_task *const task = &xla_tasks[number < XLA_TASKS ? number : 0];
    call.given %= XLA_TASK;
    if (call.items < 0 || number >= XLA_TASKS ||
        (call.given & ~(xla_bits(&call, task->in | task->out))) != 0)
        xla_fail(&call, XLA_BAD_ARGUMENT,
                 "the results or `given` of a program are wrong: it is of another version");
    else if (task->x < 0 || find_sizes(&call, task->x))
        for (; call.item < call.items && !call.error; call.item++)
            run_item(&call, task);
    free(call.params);
    plan_let_go(call.plan);
    return call.error;
}
