/*
 * Weights of torch to packed ones, and gradients back.
 */
#include "python/native/weights.h"

#include "python/native/operator.h"

/* Is it dense, of that shape, where the job is and in its type? */
static bool is_weight(const struct job *job, torch_tensor *tensor, const struct shape *shape)
{
    int64_t rank = 0, *size = NULL;
    int32_t type = -1, device_type = -1, device = -1;
    bool dense = false;
    torch.aoti_torch_get_dim(tensor, &rank);
    torch.aoti_torch_get_sizes(tensor, &size);
    torch.aoti_torch_get_dtype(tensor, &type);
    torch.aoti_torch_get_device_type(tensor, &device_type);
    torch.aoti_torch_get_device_index(tensor, &device);
    torch.aoti_torch_is_contiguous(tensor, &dense);
    bool same = dense && rank == shape->rank && type == torch_number.type[job->param_type] &&
                device_type == torch_number.device[job->cuda != 0] &&
                (!job->cuda || device == job->device);
    for (int64_t i = 0; same && i < rank; i++)
        same = size[i] == shape->size[i];
    return same;
}

static void point_at(const struct job *job, char *const *start, const struct place *places,
                     void **params)
{
    for (int64_t i = 0; i < job->params; i++)
        params[i] = places[i].tensor < 0 ? NULL : start[places[i].tensor] + places[i].offset;
}

bool pack_weights(const struct job *job, torch_tensor *const *weights, void *packed, void *stream)
{
    char *start[MOST_TENSORS];
    void *params[MOST_PARAMS];
    for (int64_t i = 0; i < job->weights; i++) {
        if (!is_weight(job, weights[i], &job->weight[i]))
            return false;
        start[i] = data_of(weights[i]);
    }
    point_at(job, start, job->from, params);
    for (int64_t i = 0; i < job->params; i++)
        if (!params[i])
            params[i] = (void *)(uintptr_t)job->zeros;
    if (library.pack(job->plan, (const void *const *)params, packed, stream) != ECORNN_OK)
        return false;
    point_at(job, start, job->more, params);
    return !job->adds ||
           library.pack_add(job->plan, (const void *const *)params, packed, stream) == ECORNN_OK;
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
