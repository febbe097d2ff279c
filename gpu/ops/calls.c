/*
 * Calls of composite programs (common/compose/call.h) on a GPU: each verb is queued on the stream
 * by one function.
 */
#include "gpu/copy/compaction.h"
#include "gpu/copy/join.h"
#include "gpu/copy/streams.h"
#include "gpu/ops/ops.h"

#include "common/compose/arena.h"
#include "common/number.h"

/* Checks the pointers that a call has been given. */
struct pointer {
    const char *name;
    const void *at;
};

static ecornn_status check(const struct eco_gpu *gpu, const struct pointer *pointers, int count)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < count; k++)
        status = eco_gpu_check_pointer(gpu, pointers[k].name, pointers[k].at);
    return status;
}
#define CHECK(gpu, pointers) check(gpu, pointers, sizeof(pointers) / sizeof *(pointers))

/* ---- verbs ----------------------------------------------------------------------------------- */

static ecornn_status check_fill(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct pointer all[] = {{call->fill.name, call->fill.to},
                                  {call->fill.from_name, call->fill.from}};
    return CHECK(gpu, all);
}

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

static ecornn_status check_move(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct pointer all[] = {{"an array to write", call->move.to},
                                  {"an array to read", call->move.from}};
    return CHECK(gpu, all);
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

static ecornn_status check_join(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct pointer all[] = {{"an array to join", call->join.narrow},
                                  {"an array of joined steps", call->join.wide},
                                  {"io.lengths", call->join.lengths},
                                  {"io.mask", call->join.mask}};
    return CHECK(gpu, all);
}

static ecornn_status join(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_join(&call->join, stream));
}

static ecornn_status check_lengths(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct pointer all[] = {{"io.workspace", call->lengths.to},
                                  {"io.lengths", call->lengths.from}};
    return CHECK(gpu, all);
}

static ecornn_status lengths(const struct eco_call *call, void *stream)
{
    const struct eco_join_lengths *const lengths = &call->lengths;
    return ECO_CUDA(
        eco_launch_join_lengths(lengths->to, lengths->from, lengths->N, lengths->steps, stream));
}

static ecornn_status check_bytes(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct pointer all[] = {{"io.workspace", call->bytes.to},
                                  {"io.resets", call->bytes.from},
                                  {"io.mask", call->bytes.mask},
                                  {"io.lengths", call->bytes.lengths}};
    return CHECK(gpu, all);
}

static ecornn_status bytes(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_join_bytes(&call->bytes, stream));
}

static ecornn_status check_drop(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct pointer all[] = {{"an array to write", call->drop.to},
                                  {"an array to read", call->drop.from}};
    return CHECK(gpu, all);
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

/* The pointers that the run inside a compaction does not see. */
static ecornn_status check_count(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct eco_args *const args = call->count.args;
    const struct pointer all[] = {
        {"io.x", args->x},           {"io.y", args->y},        {"io.lengths", args->lengths},
        {"io.resets", args->resets}, {"io.mask", args->mask},  {"io.workspace", args->workspace},
        {"gradient.dy", args->dy},   {"gradient.dx", args->dx}};
    ecornn_status status = CHECK(gpu, all);
    for (int s = 0; status == ECORNN_OK && s < ECO_MAX_STATES; s++) {
        const struct pointer states[] = {{"io.states", args->states[s]},
                                         {"gradient.dstates", args->dstates[s]}};
        status = CHECK(gpu, states);
    }
    return status;
}

static ecornn_status count(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_count(call->count.run, stream));
}

static ecornn_status compact(const struct eco_call *call, void *stream)
{
    return ECO_CUDA(eco_launch_compact(call->compact.run, call->compact.move, stream));
}

static ecornn_status check_streams(const struct eco_gpu *gpu, const struct eco_call *call)
{
    const struct eco_stream_rows *const streams = &call->streams;
    const struct pointer rows[] = {{"io.rows", streams->rows}};
    ecornn_status status = CHECK(gpu, rows);
    for (int s = 0; status == ECORNN_OK && s < streams->states; s++) {
        const struct pointer states[] = {
            {streams->scatter ? "io.final" : "io.workspace", streams->state[s].to},
            {streams->scatter ? "io.workspace" : "io.initial", streams->state[s].from}};
        status = CHECK(gpu, states);
    }
    return status;
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
        ecornn_status (*check)(const struct eco_gpu *gpu,
                               const struct eco_call *call); /* or NULL */
        ecornn_status (*queue)(const struct eco_call *call, void *stream);
    } by_verb[ECO_CALLS] = {[ECO_CALL_FILL] = {check_fill, fill},
                            [ECO_CALL_MOVE] = {check_move, move},
                            [ECO_CALL_JOIN] = {check_join, join},
                            [ECO_CALL_LENGTHS] = {check_lengths, lengths},
                            [ECO_CALL_BYTES] = {check_bytes, bytes},
                            [ECO_CALL_DROP] = {check_drop, drop},
                            [ECO_CALL_COUNT] = {check_count, count},
                            [ECO_CALL_COMPACT] = {NULL, compact},
                            [ECO_CALL_STREAMS] = {check_streams, streams},
                            [ECO_CALL_PACK] = {NULL, pack},
                            [ECO_CALL_UNPACK] = {NULL, unpack}};
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    for (int k = 0; status == ECORNN_OK && k < length; k++)
        if (by_verb[calls[k].verb].check != NULL)
            status = by_verb[calls[k].verb].check(device->context, &calls[k]);
    for (int k = 0; status == ECORNN_OK && k < length; k++)
        status = by_verb[calls[k].verb].queue(&calls[k], stream);
    eco_gpu_leave(&scope);
    return status;
}
