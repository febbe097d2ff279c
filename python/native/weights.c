/*
 * Packs torch's weights, and unpacks gradients.
 */
#include "python/native/weights.h"

#include <string.h>

#include "python/native/operator.h"

/* The copy of the weights at the end of a block, or NULL. */
static char *copy_of(const struct job *job, struct packed packed)
{
    const bool is_there = !job->cuda && packed.bytes - job->packed >= job->copy;
    return is_there ? (char *)packed.data + packed.bytes - job->copy : NULL;
}

static void point_at(const struct job *job, char *const *start, const struct place *places,
                     void **params)
{
    for (int64_t i = 0; i < job->params; i++)
        params[i] = places[i].tensor < 0 ? NULL : start[places[i].tensor] + places[i].offset;
}

static bool pack_from(const struct job *job, char *const *start, void *packed, void *stream)
{
    void *params[MOST_PARAMS], *added[MOST_PARAMS];
    point_at(job, start, job->from, params);
    for (int64_t i = 0; i < job->params; i++)
        if (!params[i])
            params[i] = (void *)(uintptr_t)job->zeros;
    point_at(job, start, job->more, added);
    return library.pack_sums(job->plan, (const void *const *)params, (const void *const *)added,
                             packed, stream) == ECORNN_OK;
}

/* start [job->weights]: addresses of the weights; false if one does not fit the job. */
static bool starts_of(const struct job *job, torch_tensor *const *weights, char **start)
{
    for (int64_t i = 0; i < job->weights; i++) {
        if (!tensor_is(job, weights[i], &job->weight[i], torch_number.type[job->param_type]))
            return false;
        start[i] = data_of(weights[i]);
    }
    return true;
}

bool pack_weights(const struct job *job, torch_tensor *const *weights, struct packed packed,
                  void *stream)
{
    char *start[MOST_TENSORS];
    if (!starts_of(job, weights, start))
        return false;
    char *copy = copy_of(job, packed);
    for (int64_t i = 0; copy && i < job->weights; i++) {
        const int64_t bytes = shape_bytes(&job->weight[i], job->param_type);
        start[i] = memcpy(copy, start[i], (size_t)bytes);
        copy += bytes;
    }
    return pack_from(job, start, packed.data, stream);
}

bool weights_hold(const struct job *job, torch_tensor *const *weights, struct packed packed,
                  void *stream)
{
    char *start[MOST_TENSORS];
    if (job->cuda)
        return pack_weights(job, weights, packed, stream);
    const char *copy = copy_of(job, packed);
    if (!copy || !starts_of(job, weights, start))
        return false;
    bool same = true;
    for (int64_t i = 0; same && i < job->weights; i++) {
        const int64_t bytes = shape_bytes(&job->weight[i], job->param_type);
        same = memcmp(copy, start[i], (size_t)bytes) == 0;
        copy += bytes;
    }
    return same;
}

void unpack_weights(const struct job *job, const void *packed, struct results *out, void *stream,
                    bool *ok)
{
    char *start[MOST_TENSORS];
    void *params[MOST_PARAMS];
    for (int64_t i = 0; i < job->weights; i++)
        start[i] = data_of(result(
            out, *ok ? make(job, &job->weight[i], torch_number.type[job->param_type]) : NULL, ok));
    if (!*ok)
        return;
    point_at(job, start, job->to, params);
    *ok = library.unpack(job->plan, packed, params, 0, stream) == ECORNN_OK;
    point_at(job, start, job->twin, params);
    if (*ok && job->adds)
        *ok = library.unpack(job->plan, packed, params, 0, stream) == ECORNN_OK;
}
