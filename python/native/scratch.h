/*
 * Memory for one call.
 */
#ifndef ECO_TORCH_SCRATCH_H
#define ECO_TORCH_SCRATCH_H

#include "python/native/tensors.h"

enum scratch_use { SCRATCH_WORKSPACE, SCRATCH_DWEIGHTS, SCRATCH_USES };

bool scratch_begin(void); /* called once; false: scratch is not available */
/* NULL: no memory.  *tensor: to be dropped after the run; NULL if the thread keeps the memory. */
void *scratch(const struct job *job, enum scratch_use use, int64_t bytes, torch_tensor **tensor);

#endif /* ECO_TORCH_SCRATCH_H */
