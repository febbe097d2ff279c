/*
 * Packs torch's weights, and unpacks gradients.
 */
#include "python/native/weights.h"

#include <string.h>

#include "python/native/operator.h"

static int64_t bytes_of(const struct job *job, int64_t weight)
{
    return shape_bytes(&job->layout->weight[weight], job->of->desc.param_type);
}

/* The copy of the weights at the end of a block, or NULL. */
static char *copy_of(const struct job *job, struct packed packed)
{
    const bool is_there = !job->cuda && packed.bytes - job->packed >= job->layout->copy;
    return is_there ? (char *)packed.data + packed.bytes - job->layout->copy : NULL;
}

static void point_at(const struct job *job, char *const *start, const struct place *places,
                     void **params)
{
    for (int64_t i = 0; i < job->of->count; i++)
        params[i] = places[i].tensor < 0 ? NULL : start[places[i].tensor] + places[i].offset;
}

/* The addresses of parameters in the caller's tensors. */
struct sources {
    void *params[MOST_PARAMS], *added[MOST_PARAMS];
    torch_tensor *zeros; /* to be dropped after the call; NULL: none */
};

/* Each call on a GPU makes its own zeros: its stream writes them before it reads them, also when a
 * captured graph is replayed.  Zeros that calls share would be unset for another stream. */
static bool sources_of(const struct job *job, char *const *start, struct sources *sources)
{
    const void *zeros = job->layout->zeros;
    sources->zeros = NULL;
    if (zeros && job->cuda) {
        sources->zeros = make_bytes(job, job->of->desc.hidden * (int64_t)sizeof(double));
        zeros = data_of(sources->zeros);
        if (!zeros || torch.aoti_torch_zero_(sources->zeros) != TORCH_OK) {
            drop(sources->zeros);
            return false;
        }
    }
    point_at(job, start, job->layout->from, sources->params);
    for (int64_t i = 0; i < job->of->count; i++)
        if (!sources->params[i])
            sources->params[i] = (void *)(uintptr_t)zeros;
    point_at(job, start, job->layout->more, sources->added);
    return true;
}

/* start [job->layout->weights]: addresses of the weights; false if one does not fit the job. */
static bool starts_of(const struct job *job, torch_tensor *const *weights, char **start)
{
    const int32_t type = torch_type(job->of->desc.param_type);
    for (int64_t i = 0; i < job->layout->weights; i++) {
        if (!tensor_is(job, weights[i], &job->layout->weight[i], type))
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
    for (int64_t i = 0; copy && i < job->layout->weights; i++) {
        const int64_t bytes = bytes_of(job, i);
        start[i] = memcpy(copy, start[i], (size_t)bytes);
        copy += bytes;
    }
    struct sources sources;
    if (!sources_of(job, start, &sources))
        return false;
    const ecornn_status status =
        library.pack(job->of->plan, (const void *const *)sources.params,
                     (const void *const *)sources.added, packed.data, stream);
    drop(sources.zeros);
    return status == ECORNN_OK;
}

bool forward_with(const struct job *job, torch_tensor *const *weights, const ecornn_io *io)
{
    char *start[MOST_TENSORS];
    struct sources sources;
    if (!starts_of(job, weights, start) || !sources_of(job, start, &sources))
        return false;
    ecornn_io with = *io;
    with.params = (const void *const *)sources.params;
    with.added = (const void *const *)sources.added;
    const ecornn_status status =
        library.forward(job->of->plan, (int32_t)job->steps, (int32_t)job->batch, &with);
    drop(sources.zeros);
    return status == ECORNN_OK;
}

bool weights_hold(const struct job *job, torch_tensor *const *weights, struct packed packed)
{
    char *start[MOST_TENSORS];
    const char *copy = copy_of(job, packed);
    if (!copy || !starts_of(job, weights, start))
        return false;
    bool same = true;
    for (int64_t i = 0; same && i < job->layout->weights; i++) {
        const int64_t bytes = bytes_of(job, i);
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
    const int32_t type = torch_type(job->of->desc.param_type);
    for (int64_t i = 0; i < job->layout->weights; i++)
        start[i] = data_of(result(out, *ok ? make(job, &job->layout->weight[i], type) : NULL, ok));
    if (!*ok)
        return;
    point_at(job, start, job->layout->from, params);
    *ok = library.unpack(job->of->plan, packed, params, 0, stream) == ECORNN_OK;
    point_at(job, start, job->layout->more, params);
    if (*ok && job->layout->adds)
        *ok = library.unpack(job->of->plan, packed, params, 0, stream) == ECORNN_OK;
}
