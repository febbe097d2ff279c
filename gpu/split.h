/*
 * Products of floats on the tensor cores, of split operands: which, and how.
 */
#ifndef ECO_GPU_SPLIT_H
#define ECO_GPU_SPLIT_H

#include "gpu/product.h"
#include "gpu/split_call.h"

/* Queues it, where it is a product of floats in full, the device can and it is faster so; bias [n],
 * or NULL.  False: it is not. */
bool eco_gpu_product_split(struct eco_gpu_run *run, const struct eco_product *product,
                           const float *bias);

#endif /* ECO_GPU_SPLIT_H */
