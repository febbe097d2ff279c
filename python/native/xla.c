/*
 * Reads the frames of XLA's calls.  Any program may call a handler with any buffers, so types and
 * sizes are checked.
 */
#include "python/native/xla.h"

#include <inttypes.h>
#include <stdio.h>
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
        xla_fail(call, (size_t)status < known ? codes[status] : XLA_INTERNAL,
                 xla_library.error_detail());
    return status == ECORNN_OK;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static size_t bytes_of_type(int type)
{
    switch (type) {
    case XLA_U8:
        return 1;
    case XLA_F16:
    case XLA_BF16:
        return 2;
    case XLA_F64:
        return 8;
    default:
        return 4; /* XLA_S32, XLA_U32, XLA_F32 */
    }
}

static const char ARGUMENT[] = "argument", RESULT[] = "result";

/* Number of the current item in a buffer with these leading dimensions. */
static int64_t item_in(const struct xla_call *call, const int64_t *dims)
{
    const int64_t *const full = call->frame->out.buffer[0]->dims;
    int64_t rest = call->item, number = 0, stride = 1;
    for (int64_t i = call->leads; i-- > 0; rest /= full[i]) {
        number += dims[i] == 1 ? 0 : rest % full[i] * stride;
        stride *= dims[i];
    }
    return number;
}

static void *item_of(struct xla_call *call, const struct xla_buffer *buffer, const char *which,
                     int64_t index, int type, size_t bytes)
{
    const int64_t *const full = call->frame->out.buffer[0]->dims;
    bool fits = buffer->type == type && buffer->rank >= call->leads;
    size_t found = bytes_of_type(type);
    for (int64_t i = 0; fits && i < call->leads; i++)
        fits = buffer->dims[i] == 1 || buffer->dims[i] == full[i];
    for (int64_t i = call->leads; fits && i < buffer->rank; i++)
        found *= (size_t)buffer->dims[i];
    if (!fits || (type == XLA_U8 ? found < bytes : found != bytes)) {
        char text[160];
        snprintf(text, sizeof text,
                 "%s %" PRId64 " of a program has %zu bytes of type %d, must have %zu of type %d: "
                 "the program is of another version or machine",
                 which, index, found, buffer->type, bytes, type);
        xla_fail(call, XLA_BAD_ARGUMENT, text);
        return NULL;
    }
    char *const at = (char *)buffer->data + (size_t)item_in(call, buffer->dims) * found;
    if (call->zero && which == RESULT)
        memset(at, 0, found);
    return at;
}

static void *next(struct xla_call *call, const struct xla_buffers *all, int64_t *index,
                  const char *which, int type, size_t bytes)
{
    if (call->error)
        return NULL;
    if (*index >= all->count) {
        xla_fail(call, XLA_BAD_ARGUMENT, "a program has too few buffers: it is of another version");
        return NULL;
    }
    const int64_t i = (*index)++;
    return item_of(call, all->buffer[i], which, i, type, bytes);
}

void *xla_in(struct xla_call *call, int type, size_t bytes)
{
    return next(call, &call->frame->in, &call->in, ARGUMENT, type, bytes);
}

void *xla_out(struct xla_call *call, int type, size_t bytes)
{
    return next(call, &call->frame->out, &call->out, RESULT, type, bytes);
}

/* ---- a call ---------------------------------------------------------------------------------- */

static bool is_named(const struct xla_span *name, const char *text)
{
    return name->bytes == strlen(text) && memcmp(name->at, text, name->bytes) == 0;
}

/* The attributes, sorted by name. */
enum { ATTRIBUTES = 4 };
static bool read_attributes(struct xla_call *call, struct xla_span *texts)
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
            texts[i] = *(const struct xla_span *)all->values[i];
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
    call->stream = stream.stream;
    snprintf(name, size, "cuda:%d", (int)gpu.ordinal);
    return !call->error;
}

static bool find_plan(struct xla_call *call)
{
    char name[32];
    struct xla_span texts[ATTRIBUTES] = {{0}};
    if (!read_attributes(call, texts))
        return false;
    struct xla_span device = texts[1];
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
        device = (struct xla_span){name, strlen(name)};
    }
    return xla_ok(call, xla_plan_find(&call->plan, device, texts[3], texts[0]));
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

xla_error *xla_run(const struct xla_frame *frame, xla_task *task, bool on_gpu)
{
    struct xla_call call = {.frame = frame, .on_gpu = on_gpu, .items = 1};
    if (tell_version(frame))
        return NULL;
    if (frame->out.count < 1 || frame->out.buffer[0]->rank < 1)
        return error_of(frame, XLA_BAD_ARGUMENT, "a program has no results");
    if (!find_plan(&call))
        return call.error;
    call.leads = frame->out.buffer[0]->rank - 1; /* the first result is a block of bytes */
    for (int64_t i = 0; i < call.leads; i++)
        call.items *= frame->out.buffer[0]->dims[i];
    for (; call.item < call.items && !call.error; call.item++) {
        call.in = call.out = 0;
        call.zero = false;
        task(&call);
    }
    return call.error;
}
