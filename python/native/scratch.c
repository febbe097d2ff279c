/*
 * Memory for one call of torch's operators.
 */
#include "python/native/scratch.h"

void *scratch_take(struct scratch *scratch, const struct job *job, enum lent_use use, int64_t bytes)
{
    if (job->cuda)
        return data_of(scratch->tensor = make_bytes(job, bytes));
    scratch->memory = lend(NULL, NULL, use, (size_t)bytes);
    return scratch->memory ? scratch->memory->at : NULL;
}

void scratch_end(struct scratch *scratch)
{
    drop(scratch->tensor);
    memory_drop(scratch->memory);
}
