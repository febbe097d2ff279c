/*
 * A run in progress, for the operators.
 */
#ifndef ECO_TORCH_RUN_H
#define ECO_TORCH_RUN_H

#include "python/native/tensors.h"

/* ok until an error. */
struct call {
    struct job *job;
    int64_t given; /* operator.h has the bits */
    void *stream;
    struct tensors in;
    struct results out;
    torch_tensor *const *weights; /* of a run that packs them; or NULL */
    const void *packed;           /* those that the plan keeps; or NULL */
    bool ok;
};

/* Runs a job forward; run.c says which tensors it reads and makes. */
void run_forward(struct call *call, torch_value seed);

#endif /* ECO_TORCH_RUN_H */
