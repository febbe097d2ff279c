/*
 * Memory functions of devices that compute on the host; see host.h.
 */
#include "common/host.h"

#include <string.h>

#include "common/compose/compaction.h"
#include "common/number.h"

int eco_host_count(void)
{
    return 1;
}

void eco_host_close(struct ecornn_device *device)
{
    eco_free(device->context);
}

void *eco_host_alloc(struct ecornn_device *device, size_t bytes)
{
    (void)device;
    return eco_alloc(bytes);
}

void eco_host_free(struct ecornn_device *device, void *memory)
{
    (void)device;
    eco_free(memory);
}

ecornn_status eco_host_copy(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                            bool to_device)
{
    (void)device;
    (void)to_device;
    memcpy(to, from, bytes);
    return ECORNN_OK;
}

/* Doubles what is set with each copy. */
static void set_elements(const struct eco_fill *fill)
{
    char *to = fill->to;
    eco_type_set(to, 0, fill->type, fill->value);
    for (size_t done = eco_type_bytes(fill->type); done < fill->bytes; done *= 2)
        memcpy(to + done, to, done < fill->bytes - done ? done : fill->bytes - done);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void fill_part(const struct eco_call *call, int id, int count)
{
    const struct eco_fill *const fill = &call->fill;
    (void)count;
    if (id > 0)
        return;
    if (fill->from != NULL)
        memcpy(fill->to, fill->from, fill->bytes);
    else if (fill->value != 0)
        set_elements(fill);
    else
        memset(fill->to, 0, fill->bytes);
}

static void move_part(const struct eco_call *call, int id, int count)
{
    const struct eco_rows_move *const rows = &call->move;
    const size_t bytes = eco_type_bytes(rows->type),
                 end = rows->rows * ((size_t)id + 1) / (size_t)count;
    for (size_t r = rows->rows * (size_t)id / (size_t)count; r < end; r++) {
        char *to = (char *)rows->to + r * rows->to_row * bytes;
        const char *from = (const char *)((uintptr_t)rows->from + r * rows->from_row * bytes);
        if (rows->from == NULL)
            memset(to, 0, rows->width * bytes);
        else if (rows->add)
            eco_type_add(to, rows->type, from, rows->type, rows->width);
        else
            memcpy(to, from, rows->width * bytes);
    }
}

static size_t place_of(const struct eco_join *join, int32_t t, int32_t n, int32_t T, int32_t width)
{
    const size_t row = join->batch_major ? (size_t)n * (size_t)T + (size_t)t
                                         : (size_t)t * (size_t)join->N + (size_t)n;
    return row * (size_t)width;
}

/* Has row n the step t, and does it count? */
static bool counts(const int32_t *lengths, const uint8_t *mask, int32_t T, int32_t N, int32_t t,
                   int32_t n)
{
    return t < (lengths != NULL ? lengths[n] : T) &&
           (mask == NULL || mask[(size_t)t * (size_t)N + (size_t)n] != 0);
}

static void join_row(const struct eco_join *join, int32_t t, int32_t n)
{
    const size_t bytes = eco_type_bytes(join->type), width = (size_t)join->width * bytes;
    const int32_t u = t / join->steps;
    const bool there = counts(join->lengths, join->mask, join->T, join->N, t, n);
    const size_t column = (size_t)join->at + (size_t)(t % join->steps) * (size_t)join->width,
                 wide_at = place_of(join, u, n, join->U, join->row) + column,
                 narrow_at = place_of(join, t, n, join->T, join->width);
    char *const to = (char *)(join->back ? join->narrow : join->wide) +
                     (join->back ? narrow_at : wide_at) * bytes;
    const char *const from = join->back ? join->wide : join->narrow;
    const size_t from_at = (join->back ? wide_at : narrow_at) * bytes;
    if (there && from != NULL)
        memcpy(to, from + from_at, width);
    else
        memset(to, 0, width);
}

static void join_part(const struct eco_call *call, int id, int count)
{
    const struct eco_join *const join = &call->join;
    const int64_t N = join->N, steps = join->back ? join->T : join->U * join->steps,
                  rows = steps * N;
    for (int64_t r = rows * id / count; r < rows * (id + 1) / count; r++)
        join_row(join, (int32_t)(r / N), (int32_t)(r % N));
}

static void lengths_part(const struct eco_call *call, int id, int count)
{
    const struct eco_join_lengths *const lengths = &call->lengths;
    for (int32_t n = 0; id == 0 && n < lengths->N; n++)
        lengths->to[n] = eco_joined(lengths->from[n], lengths->steps);
    (void)count;
}

static void bytes_part(const struct eco_call *call, int id, int count)
{
    const struct eco_join_bytes *const join = &call->bytes;
    const int64_t N = join->N, all = (int64_t)join->U * N;
    for (int64_t r = all * id / count; r < all * (id + 1) / count; r++) {
        const int32_t u = (int32_t)(r / N), n = (int32_t)(r % N);
        bool any = false;
        for (int64_t t = (int64_t)u * join->steps;
             t < ((int64_t)u + 1) * join->steps && t < join->T; t++)
            any |= counts(join->lengths, join->mask, join->T, join->N, (int32_t)t, n) &&
                   join->from[t * N + n] != 0;
        join->to[r] = any;
    }
}

static void drop_row(const struct eco_drop *drop, int32_t t, int32_t n)
{
    const struct eco_coordinates at = {.seed = drop->seed,
                                       .layer = drop->layer,
                                       .t = drop->first_step + (uint32_t)t,
                                       .n = drop->first_row + (uint32_t)n};
    const uint64_t threshold = eco_random_threshold(drop->p);
    const double scale = 1 / (1 - drop->p);
    const size_t row = drop->batch_major ? (size_t)n * (size_t)drop->T + (size_t)t
                                         : (size_t)t * (size_t)drop->N + (size_t)n,
                 first = row * (size_t)drop->width;
    uint32_t word[4];
    for (int32_t i = 0; i < drop->width; i++) {
        if (i % 4 == 0)
            eco_random_quad(&at, (uint32_t)i / 4, word);
        const double value = eco_type_get(drop->from, first + (size_t)i, drop->type) * scale;
        eco_type_set(drop->to, first + (size_t)i, drop->type, word[i % 4] < threshold ? 0 : value);
    }
}

static void drop_part(const struct eco_call *call, int id, int count)
{
    const struct eco_drop *const drop = &call->drop;
    const int64_t N = drop->N, all = (int64_t)drop->T * N;
    for (int64_t r = all * id / count; r < all * (id + 1) / count; r++)
        drop_row(drop, (int32_t)(r / N), (int32_t)(r % N));
}

void eco_host_call_part(const struct eco_call *call, int id, int count)
{
    static void (*const by_verb[ECO_CALLS])(const struct eco_call *, int id, int count) = {
        [ECO_CALL_FILL] = fill_part,       [ECO_CALL_MOVE] = move_part,
        [ECO_CALL_JOIN] = join_part,       [ECO_CALL_LENGTHS] = lengths_part,
        [ECO_CALL_BYTES] = bytes_part,     [ECO_CALL_DROP] = drop_part,
        [ECO_CALL_COUNT] = eco_count_part, [ECO_CALL_COMPACT] = eco_compact_part};
    by_verb[call->verb](call, id, count);
}

ecornn_status eco_host_fork(struct ecornn_device *device, const struct eco_jobs *jobs, void *stream)
{
    ecornn_status status = ECORNN_OK;
    (void)device;
    for (int job = 0; status == ECORNN_OK && job < jobs->jobs; job++)
        status = jobs->one(jobs->user_data, job, 0, stream);
    return status == ECORNN_OK ? jobs->last(jobs->user_data, stream) : status;
}

ecornn_status eco_host_wait(struct ecornn_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return ECORNN_OK;
}
