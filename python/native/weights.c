/*
 * Packs torch's weights, and unpacks gradients.
 */
#include "python/native/weights.h"

#include <stdlib.h>

#include "python/native/operator.h"

/* The copy of the weights at the end of a block, or NULL. */
static char *copy_of(const struct job *job, struct torch_packed packed)
{
    const bool is_there = !job->cuda && packed.bytes - job->packed >= job->layout->bytes;
    return is_there ? (char *)packed.data + packed.bytes - job->layout->bytes : NULL;
}

/* Zeros for the biases of a layer without any.  Each call on a GPU makes its own: its stream writes
 * them before it reads them, also when a captured graph is replayed.  Zeros that calls share would
 * be unset for another stream.  *made: to be dropped after the call. */
static bool find_zeros(const struct job *job, const void **zeros, torch_tensor **made)
{
    *made = NULL;
    *zeros = job->layout->zeros;
    if (!*zeros || !job->cuda)
        return true;
    *made = make_bytes(job, job->of->desc.hidden * (int64_t)sizeof(double));
    *zeros = data_of(*made);
    return *zeros && torch.aoti_torch_zero_(*made) == TORCH_OK;
}

bool weights_starts(const struct job *job, torch_tensor *const *weights, char **start)
{
    const int32_t type = torch_type(job->of->desc.param_type);
    for (int64_t i = 0; i < job->layout->arrays; i++) {
        if (!tensor_is(job, weights[i], &job->layout->array[i], type))
            return false;
        start[i] = data_of(weights[i]);
    }
    return true;
}

bool pack_weights(const struct job *job, torch_tensor *const *weights, struct torch_packed packed,
                  void *stream)
{
    char *start[MOST_TENSORS], *const copy = copy_of(job, packed);
    const void *zeros = NULL;
    torch_tensor *made = NULL;
    if (!weights_starts(job, weights, start))
        return false;
    if (!job->cuda)
        memory_large(packed.data, (size_t)packed.bytes);
    if (copy)
        layout_copy(job->of, start, copy);
    const bool ok = find_zeros(job, &zeros, &made) &&
                    layout_pack(job->of, start, zeros, packed.data, stream) == ECORNN_OK;
    drop(made);
    return ok;
}

bool forward_with(const struct job *job, torch_tensor *const *weights, const ecornn_io *io)
{
    char *start[MOST_TENSORS];
    const void *zeros = NULL;
    torch_tensor *made = NULL;
    if (!weights_starts(job, weights, start))
        return false;
    const void **const params =
        find_zeros(job, &zeros, &made) ? layout_sources(job->of, start, zeros) : NULL;
    ecornn_io with = *io;
    with.params = params;
    with.added = params ? params + job->layout->count : NULL;
    const bool ok = params && library.forward(job->of->plan, (int32_t)job->steps,
                                              (int32_t)job->batch, &with) == ECORNN_OK;
    free(params);
    drop(made);
    return ok;
}

bool weights_hold(const struct job *job, torch_tensor *const *weights, struct torch_packed packed)
{
    char *start[MOST_TENSORS];
    const char *const copy = copy_of(job, packed);
    return copy && weights_starts(job, weights, start) && layout_same(job->of, start, copy);
}

/* Bytes of a number of the weights. */
static int64_t element_of(const struct job *job)
{
    return shape_bytes(&(struct shape){.rank = 0}, job->of->desc.param_type);
}

struct shape gradients_shape(const struct job *job)
{
    return (struct shape){.rank = 1, .size = {job->dpacked / element_of(job)}, .stride = {1}};
}

torch_tensor *make_gradients(const struct job *job)
{
    const struct shape shape = gradients_shape(job);
    bool any = false;
    for (int64_t i = 0; i < job->layout->arrays; i++)
        any |= job->layout->gradient[i] >= 0;
    return any && !job->cuda ? make(job, &shape, torch_type(job->of->desc.param_type)) : NULL;
}

void unpack_weights(const struct job *job, const void *packed, torch_tensor *block,
                    struct results *out, void *stream, bool *ok)
{
    char *start[MOST_TENSORS];
    const int64_t type = job->of->desc.param_type;
    for (int64_t i = 0; i < job->layout->arrays; i++) {
        const struct shape *const shape = &job->layout->array[i];
        const int64_t at = block ? job->layout->gradient[i] : -1;
        torch_tensor *const made = !*ok      ? NULL
                                   : at >= 0 ? make_part(block, shape, at / element_of(job))
                                             : make(job, shape, torch_type(type));
        char *const data = data_of(result(out, made, ok));
        start[i] = at >= 0 ? NULL : data;
        if (!job->cuda)
            memory_large(start[i], (size_t)shape_bytes(shape, type));
    }
    *ok = *ok && layout_unpack(job->of, start, packed, false, stream) == ECORNN_OK;
}
