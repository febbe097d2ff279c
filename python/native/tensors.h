/*
 * The tensors of an operator: those of its list, and its results.
 */
#ifndef ECO_TORCH_TENSORS_H
#define ECO_TORCH_TENSORS_H

#include "python/native/job.h"
#include "python/native/torch_abi.h"

enum { MOST_TENSORS = MOST_WEIGHTS + 24 }; /* of one call, with rows, states and their gradients */

static inline torch_value of_pointer(const void *pointer)
{
    return (torch_value)(uintptr_t)pointer;
}

static inline void *as_pointer(torch_value value)
{
    return (void *)(uintptr_t)value;
}

/* Address of a tensor's data; NULL for NULL. */
void *data_of(torch_tensor *tensor);
/* A new tensor on the job's device; NULL: no memory. */
torch_tensor *make(const struct job *job, const struct shape *shape, int32_t type);
torch_tensor *make_bytes(const struct job *job, int64_t bytes);
/* A part of a block, from that element on. */
torch_tensor *make_part(torch_tensor *block, const struct shape *shape, int64_t offset);
void drop(torch_tensor *tensor); /* NULL is allowed */

/* The tensors of an operator's list, to be deleted at the end. */
struct tensors {
    torch_tensor *tensor[MOST_TENSORS];
    size_t count, next;
};

/* Takes the tensors out of a list and frees it; false: not all were taken. */
bool tensors_take(struct tensors *all, torch_list *list);
void tensors_end(struct tensors *all);
/* Is it of that type, on the job's device? */
bool tensor_fits(const struct job *job, torch_tensor *tensor, int32_t type);
/* Is it dense and aligned, so that its address can be used? */
bool tensor_is_plain(torch_tensor *tensor, int32_t type);
/* Is it plain, of that shape and type, on the job's device? */
bool tensor_is(const struct job *job, torch_tensor *tensor, const struct shape *shape,
               int32_t type);
/* The address of the next tensor if it is given, else NULL.  ok: cleared if tensor_is fails. */
void *next_if(struct tensors *all, int64_t given, const struct job *job, const struct shape *shape,
              int32_t type, bool *ok);
/* The address of the next tensor, a block of at least `bytes` bytes; *count: its size. */
void *next_bytes(struct tensors *all, const struct job *job, int64_t bytes, int64_t *count,
                 bool *ok);

/* The results of an operator: an empty list, unless all of them could be made. */
struct results {
    torch_tensor *tensor[MOST_TENSORS];
    size_t count;
};

/* Adds a tensor, or drops it if *ok is false; clears *ok if one could not be made. */
torch_tensor *result(struct results *results, torch_tensor *tensor, bool *ok);
torch_value results_end(struct results *results, bool ok);

#endif /* ECO_TORCH_TENSORS_H */
