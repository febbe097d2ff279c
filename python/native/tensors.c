/*
 * The tensors of an operator.
 */
#include "python/native/tensors.h"

void *data_of(torch_tensor *tensor)
{
    void *data = NULL;
    return tensor && torch.aoti_torch_get_data_ptr(tensor, &data) == TORCH_OK ? data : NULL;
}

torch_tensor *make(const struct job *job, const struct shape *shape, int32_t type)
{
    torch_tensor *made = NULL;
    const int32_t device = job->cuda ? (int32_t)job->device : -1;
    const int32_t error =
        torch.aoti_torch_empty_strided(shape->rank, shape->size, shape->stride, type,
                                       torch_number.device[job->cuda != 0], device, &made);
    return error == TORCH_OK ? made : NULL;
}

torch_tensor *make_bytes(const struct job *job, int64_t bytes)
{
    const struct shape shape = {.rank = 1, .size = {bytes}, .stride = {1}};
    return make(job, &shape, torch_number.byte);
}

torch_tensor *make_part(torch_tensor *block, const struct shape *shape, int64_t offset)
{
    torch_tensor *made = NULL;
    const int32_t error = torch.aoti_torch__reinterpret_tensor(block, shape->rank, shape->size,
                                                               shape->stride, offset, &made);
    return error == TORCH_OK ? made : NULL;
}

void drop(torch_tensor *tensor)
{
    if (tensor)
        torch.aoti_torch_delete_tensor_object(tensor);
}

bool tensors_take(struct tensors *all, torch_list *list)
{
    size_t count = 0;
    all->count = all->next = 0;
    bool ok = torch.torch_list_size(list, &count) == TORCH_OK && count <= MOST_TENSORS;
    for (size_t i = 0; ok && i < count; i++) {
        torch_value value;
        ok = torch.torch_list_get_item(list, i, &value) == TORCH_OK;
        if (ok)
            all->tensor[all->count++] = as_pointer(value);
    }
    torch.torch_delete_list(list);
    return ok;
}

void tensors_end(struct tensors *all)
{
    for (size_t i = 0; i < all->count; i++)
        drop(all->tensor[i]);
}

bool tensor_fits(const struct job *job, torch_tensor *tensor, int32_t type)
{
    int32_t is = -1, device_type = -1, device = -1;
    torch.aoti_torch_get_dtype(tensor, &is);
    torch.aoti_torch_get_device_type(tensor, &device_type);
    torch.aoti_torch_get_device_index(tensor, &device);
    return is == type && device_type == torch_number.device[job->cuda != 0] &&
           (!job->cuda || device == job->device);
}

bool tensor_is_plain(torch_tensor *tensor, int32_t type)
{
    const int32_t *const own = torch_number.type;
    const uintptr_t bytes = type == own[ECORNN_F64 - 1]                                   ? 8
                            : type == own[ECORNN_F32 - 1] || type == torch_number.int32   ? 4
                            : type == own[ECORNN_BF16 - 1] || type == own[ECORNN_F16 - 1] ? 2
                                                                                          : 1;
    bool dense = false;
    torch.aoti_torch_is_contiguous(tensor, &dense);
    return dense && (uintptr_t)data_of(tensor) % bytes == 0;
}

bool tensor_is(const struct job *job, torch_tensor *tensor, const struct shape *shape, int32_t type)
{
    int64_t rank = 0, *size = NULL;
    torch.aoti_torch_get_dim(tensor, &rank);
    torch.aoti_torch_get_sizes(tensor, &size);
    bool same =
        rank == shape->rank && tensor_fits(job, tensor, type) && tensor_is_plain(tensor, type);
    for (int64_t i = 0; same && i < rank; i++)
        same = size[i] == shape->size[i];
    return same;
}

void *next_if(struct tensors *all, int64_t given, const struct job *job, const struct shape *shape,
              int32_t type, bool *ok)
{
    if (!given)
        return NULL;
    *ok = *ok && all->next < all->count && tensor_is(job, all->tensor[all->next], shape, type);
    return *ok ? data_of(all->tensor[all->next++]) : NULL;
}

void *next_bytes(struct tensors *all, const struct job *job, int64_t bytes, int64_t *count,
                 bool *ok)
{
    int64_t rank = 0, *size = NULL;
    *ok = *ok && all->next < all->count;
    if (*ok) {
        torch.aoti_torch_get_dim(all->tensor[all->next], &rank);
        torch.aoti_torch_get_sizes(all->tensor[all->next], &size);
    }
    *ok = *ok && rank == 1 && size && size[0] >= bytes;
    if (!*ok)
        return NULL;
    *count = size[0];
    const struct shape shape = {.rank = 1, .size = {*count}};
    return next_if(all, 1, job, &shape, torch_number.byte, ok);
}

torch_tensor *result(struct results *results, torch_tensor *tensor, bool *ok)
{
    *ok = *ok && tensor && results->count < MOST_TENSORS;
    if (*ok)
        return results->tensor[results->count++] = tensor;
    drop(tensor);
    return NULL;
}

torch_value results_end(struct results *results, bool ok)
{
    torch_list *list = NULL;
    ok = torch.torch_new_list_reserve_size(results->count, &list) == TORCH_OK && ok;
    for (size_t i = 0; i < results->count; i++)
        if (ok)
            torch.torch_list_push_back(list, of_pointer(results->tensor[i]));
        else
            drop(results->tensor[i]);
    return of_pointer(list);
}
