/*
 * Weights of torch to packed ones, and gradients back.
 *
 * On a CPU a block of packed weights may end with a copy of the weights that it was packed from:
 * whoever has the block sees by that whether it still holds.  Packing reads the copy, so the two
 * agree whatever is written meanwhile.
 */
#ifndef ECO_TORCH_WEIGHTS_H
#define ECO_TORCH_WEIGHTS_H

#include "python/native/tensors.h"

struct packed {
    void *data;
    int64_t bytes; /* job->packed, and, with a copy of the weights, job->copy more */
};

/* weights [job->weights]: false where one is not what the job packs, or the library refuses. */
bool pack_weights(const struct job *job, torch_tensor *const *weights, struct packed packed,
                  void *stream);
/* Are these the weights that were packed?  On a GPU they are once this is queued. */
bool weights_hold(const struct job *job, torch_tensor *const *weights, struct packed packed,
                  void *stream);
/* The gradients of all weights, new tensors, from the packed one. */
void unpack_weights(const struct job *job, const void *packed, struct results *out, void *stream,
                    bool *ok);

#endif /* ECO_TORCH_WEIGHTS_H */
