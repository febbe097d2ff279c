/*
 * Tensors on their way through an operator: those of its list, and those that it returns.
 */
#ifndef ECO_TORCH_TENSORS_H
#define ECO_TORCH_TENSORS_H

#include "python/native/job.h"
#include "python/native/torch_abi.h"

enum { MOST_TENSORS = MOST_WEIGHTS + 24 }; /* of one call: rows, states, their gradients, too */

static inline torch_value of_pointer(const void *pointer)
{
    return (torch_value)(uintptr_t)pointer;
}

static inline void *as_pointer(torch_value value)
{
    return (void *)(uintptr_t)value;
}

/* NULL of NULL. */
void *data_of(torch_tensor *tensor);
/* On the job's device; NULL: no memory. */
torch_tensor *make(const struct job *job, const struct shape *shape, int32_t type);
torch_tensor *make_bytes(const struct job *job, int64_t bytes);
void drop(torch_tensor *tensor); /* NULL is allowed */

/* The tensors of an operator's list, all to be deleted. */
struct tensors {
    torch_tensor *tensor[MOST_TENSORS];
    size_t count, next;
};

/* Takes them out of a list, which ends; false: not all. */
bool tensors_take(struct tensors *all, torch_list *list);
void tensors_end(struct tensors *all);
/* Is it dense, of that shape and type, where the job is?  Then its elements lie at its address. */
bool tensor_is(const struct job *job, torch_tensor *tensor, const struct shape *shape,
               int32_t type);
/* The address of the next one where it is given, else NULL.  ok: is it what tensor_is asks for? */
void *next_if(struct tensors *all, int64_t given, const struct job *job, const struct shape *shape,
              int32_t type, bool *ok);
/* The address of the next one, a block of at least so many bytes; count: of how many. */
void *next_bytes(struct tensors *all, const struct job *job, int64_t bytes, int64_t *count,
                 bool *ok);

/* What an operator returns: an empty list, unless all of it could be made. */
struct results {
    torch_tensor *tensor[MOST_TENSORS];
    size_t count;
};

/* Adds a tensor, or drops it where ok is false; ok: could it be made, and all before? */
torch_tensor *result(struct results *results, torch_tensor *tensor, bool *ok);
torch_value results_end(struct results *results, bool ok);

#endif /* ECO_TORCH_TENSORS_H */
