/*
 * Memory for one call of torch's operators.
 */
#ifndef ECO_TORCH_SCRATCH_H
#define ECO_TORCH_SCRATCH_H

#include "python/native/lent.h"
#include "python/native/tensors.h"

struct scratch {
    torch_tensor *tensor;  /* on a GPU the memory is torch's, whose streams know its users */
    struct memory *memory; /* on a CPU */
};

/* Returns the address; NULL: no memory. */
void *scratch_take(struct scratch *scratch, const struct job *job, enum lent_use use,
                   int64_t bytes);
void scratch_end(struct scratch *scratch); /* also after a failure, or when nothing was taken */

#endif /* ECO_TORCH_SCRATCH_H */
