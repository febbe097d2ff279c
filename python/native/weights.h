/*
 * Weights of torch to packed ones, and gradients back.
 */
#ifndef ECO_TORCH_WEIGHTS_H
#define ECO_TORCH_WEIGHTS_H

#include "python/native/tensors.h"

/* weights [job->weights]: false where one is not what the job packs, or the library refuses. */
bool pack_weights(const struct job *job, torch_tensor *const *weights, void *packed, void *stream);
/* The gradients of all weights, new tensors, from the packed one. */
void unpack_weights(const struct job *job, const void *packed, struct results *out, void *stream,
                    bool *ok);

#endif /* ECO_TORCH_WEIGHTS_H */
