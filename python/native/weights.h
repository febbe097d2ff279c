/*
 * Packs torch's weights, and unpacks gradients.
 *
 * On a CPU a block of packed weights may end with a copy of the weights that it was packed from.
 * Comparing that copy with the weights shows whether the block is up to date.  Packing reads the
 * copy, so that both agree whatever is written meanwhile.
 */
#ifndef ECO_TORCH_WEIGHTS_H
#define ECO_TORCH_WEIGHTS_H

#include "python/native/tensors.h"

struct torch_packed {
    void *data;
    int64_t bytes; /* job->packed, plus layout->bytes if there is a copy of the weights */
};

/* start [job->layout->arrays]: addresses of the weights; false if one does not fit the job. */
bool weights_starts(const struct job *job, torch_tensor *const *weights, char **start);
/* weights [job->layout->arrays]: false if one does not fit the job, or the library refuses. */
bool pack_weights(const struct job *job, torch_tensor *const *weights, struct torch_packed packed,
                  void *stream);
/* Is the block up to date with these weights?  On a CPU. */
bool weights_hold(const struct job *job, torch_tensor *const *weights, struct torch_packed packed);
/* On a GPU: forward with these weights, packed or where they are; the block is scratch. */
bool forward_with(const struct job *job, torch_tensor *const *weights, const ecornn_io *io);
/* The shape of a tensor of the weights' type that holds the packed gradient. */
struct shape gradients_shape(const struct job *job);
/* A new one, on a CPU, if any array's gradient is there as it is in the array; else NULL. */
torch_tensor *make_gradients(const struct job *job);
/* Makes tensors with the gradients of all weights from the packed one; block: or parts of that. */
void unpack_weights(const struct job *job, const void *packed, torch_tensor *block,
                    struct results *out, void *stream, bool *ok);

#endif /* ECO_TORCH_WEIGHTS_H */
