/*
 * Calls of composite programs (common/compose/call.h) on a GPU: each verb is queued on the stream
 * by one function.
 */
#include "gpu/copy/compaction.h"
#include "gpu/copy/join.h"
#include "gpu/copy/streams.h"
#include "gpu/ops/ops.h"

#include <stddef.h>
#include <string.h>

#include "common/compose/arena.h"
#include "common/number.h"

/* ---- pointers of callers --------------------------------------------------------------------- */

/* Those of each verb, by where they are in a call. */
#define GIVEN(verb, field, name)                                                                   \
    {                                                                                              \
        ECO_CALL_##verb, offsetof(struct eco_call, field), name                                    \
    }
static const struct {
    enum eco_verb verb;
    size_t at;
    const char *name;
} given[] = {GIVEN(MOVE, move.to, "an array to write"),
             GIVEN(MOVE, move.from, "an array to read"),
             GIVEN(JOIN, join.narrow, "an array to join"),
             GIVEN(JOIN, join.wide, "an array of joined steps"),
             GIVEN(JOIN, join.lengths, "io.lengths"),
             GIVEN(JOIN, join.mask, "io.mask"),
             GIVEN(LENGTHS, lengths.to, "io.workspace"),
             GIVEN(LENGTHS, lengths.from, "io.lengths"),
             GIVEN(BYTES, bytes.to, "io.workspace"),
             GIVEN(BYTES, bytes.from, "io.resets"),
             GIVEN(BYTES, bytes.mask, "io.mask"),
             GIVEN(BYTES, bytes.lengths, "io.lengths"),
             GIVEN(DROP, drop.to, "an array to write"),
             GIVEN(DROP, drop.from, "an array to read"),
             GIVEN(STREAMS, streams.rows, "io.rows")};

static ecornn_status check_given(const struct eco_gpu *gpu, const struct eco_call *call)
{
    ecornn_status status = ECORNN_OK;
    for (size_t k = 0; status == ECORNN_OK && k < sizeof given / sizeof *given; k++)
        if (given[k].verb == call->verb) {
            const void *at;
            memcpy(&at, (const char *)call + given[k].at, sizeof at);
            status = eco_gpu_check_pointer(gpu, given[k].name, at);
        }
    return status;
}

static ecornn_status check_fill(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const ecornn_status status = eco_gpu_check_pointer(gpu, call->fill.name, call->fill.to);
    return status == ECORNN_OK ? eco_gpu_check_pointer(gpu, call->fill.from_name, call->fill.from)
                               : status;
}

/* The run inside a compaction does not see all of them. */
static ecornn_status check_count(const struct eco_gpu *gpu, const struct eco_call *call)
{
    return eco_gpu_check_args(gpu, call->count.args);
}

static ecornn_status check_streams(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct eco_stream_rows *const streams = &call->streams;
    ecornn_status status = check_given(gpu, call);
    for (int s = 0; status == ECORNN_OK && s < streams->states; s++) {
        const char *const to = streams->scatter ? "io.final" : "io.workspace",
                          *const from = streams->scatter ? "io.workspace" : "io.initial";
        status = eco_gpu_check_pointer(gpu, to, streams->state[s].to);
        if (status == ECORNN_OK)
            status = eco_gpu_check_pointer(gpu, from, streams->state[s].from);
    }
    return status;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static ecornn_status fill(const struct eco_call *call, void *stream)
{
    const struct eco_fill *const fill = &call->fill;
    uint64_t element = 0;
    if (fill->from == NULL && fill->value != 0) {
        eco_type_set(&element, 0, fill->type, fill->value);
        return eco_cuda_status(
            eco_launch_set(fill->to, element, eco_type_bytes(fill->type), fill->bytes, stream),
            "filling states");
    }
    if (fill->from == NULL)
        return ECO_CUDA(cudaMemsetAsync(fill->to, 0, fill->bytes, stream));
    return ECO_CUDA(cudaMemcpyAsync(fill->to, fill->from, fill->bytes, cudaMemcpyDefault, stream));
}

/* Rows in parts that a launch can count. */
static ecornn_status move(const struct eco_call *call, void *stream)
{
    enum { MOST = 1 << 30 };
    const struct eco_rows_move *const rows = &call->move;
    const size_t bytes = eco_type_bytes(rows->type);
    ecornn_status status = ECORNN_OK;
    for (size_t begin = 0; status == ECORNN_OK && begin < rows->rows; begin += MOST) {
        const size_t left = rows->rows - begin;
        const struct eco_move_call some = {
            .to = {.data = eco_after(rows->to, begin * rows->to_row * bytes),
                   .row = rows->to_row,
                   .type = rows->type},
            .from = {.data = eco_after(rows->from, begin * rows->from_row * bytes),
                     .row = rows->from_row,
                     .type = rows->type},
            .steps = 1,
            .rows = (int32_t)(left < MOST ? left : MOST),
            .width = (int32_t)rows->width,
            .add = rows->add};
        status = eco_cuda_status(eco_launch_move(&some, stream), "moving rows");
    }
    return status;
}

static ecornn_status join(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_join(&call->join, stream));
}

static ecornn_status lengths(const struct eco_call *call, void *stream)
{
    const struct eco_join_lengths *const lengths = &call->lengths;
    return ECO_CUDA(
        eco_launch_join_lengths(lengths->to, lengths->from, lengths->N, lengths->steps, stream));
}

static ecornn_status bytes(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_join_bytes(&call->bytes, stream));
}

static ecornn_status drop(const struct eco_call *call, void *stream)
{
    const struct eco_drop *const drop = &call->drop;
    const size_t width = (size_t)drop->width;
    const struct eco_plane plane = {.step = drop->batch_major ? width : (size_t)drop->N * width,
                                    .row = drop->batch_major ? (size_t)drop->T * width : width,
                                    .type = drop->type};
    struct eco_move_call all = {.to = plane,
                                .from = plane,
                                .steps = drop->T,
                                .rows = drop->N,
                                .width = drop->width,
                                .drop = true,
                                .layer = drop->layer,
                                .seed = drop->seed,
                                .threshold = eco_random_threshold(drop->p),
                                .draw_step = drop->first_step,
                                .draw_row = drop->first_row,
                                .scale = 1 / (1 - drop->p)};
    all.to.data = drop->to;
    all.from.data = eco_after(drop->from, 0);
    return ECO_CUDA(eco_launch_move(&all, stream));
}

static ecornn_status count(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_count(call->count.run, stream));
}

static ecornn_status compact(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_compact(call->compact.run, call->compact.move, stream));
}

static ecornn_status streams(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_streams(&call->streams, stream));
}

static ecornn_status pack(const struct eco_call *call, void *stream)
{
    const struct eco_pack *const pack = &call->pack;
    return eco_gpu_pack(pack->plan, pack->params, pack->added, pack->weights, stream);
}

static ecornn_status unpack(const struct eco_call *call, void *stream)
{
    const struct eco_unpack *const unpack = &call->unpack;
    return eco_gpu_unpack(unpack->plan, unpack->dweights, unpack->params, unpack->add, stream);
}

/* ---- a list ---------------------------------------------------------------------------------- */

ecornn_status eco_gpu_queue_calls(struct ecornn_device *device, const struct eco_call *calls,
                                  int length, void *stream)
{
    static const struct {
        ecornn_status (*check)(const struct eco_gpu *gpu, const struct eco_call *call);
        ecornn_status (*queue)(const struct eco_call *call, void *stream);
    } by_verb[ECO_CALLS] = {
        [ECO_CALL_FILL] = {check_fill, fill},          [ECO_CALL_MOVE] = {check_given, move},
        [ECO_CALL_JOIN] = {check_given, join},         [ECO_CALL_LENGTHS] = {check_given, lengths},
        [ECO_CALL_BYTES] = {check_given, bytes},       [ECO_CALL_DROP] = {check_given, drop},
        [ECO_CALL_COUNT] = {check_count, count},       [ECO_CALL_COMPACT] = {check_given, compact},
        [ECO_CALL_STREAMS] = {check_streams, streams}, [ECO_CALL_PACK] = {check_given, pack},
        [ECO_CALL_UNPACK] = {check_given, unpack}};
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    for (int k = 0; status == ECORNN_OK && k < length; k++)
        status = by_verb[calls[k].verb].check(device->context, &calls[k]);
    for (int k = 0; status == ECORNN_OK && k < length; k++)
        status = by_verb[calls[k].verb].queue(&calls[k], stream);
    eco_gpu_leave(&scope);
    return status;
}
