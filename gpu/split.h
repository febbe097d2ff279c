/*
 * Products of floats on the tensor cores, of split operands: which, and how.
 */
#ifndef ECO_GPU_SPLIT_H
#define ECO_GPU_SPLIT_H

#include "gpu/product.h"
#include "gpu/split_shape.h"

/* Queues it, where it is a product of floats in full, the device can and it is faster so; bias [n],
 * or NULL.  False: it is not. */
bool eco_gpu_product_split(struct eco_gpu_run *run, const struct eco_product *product,
                           const float *bias);

/* A product of steps, with such an operand prepared before: its rows as those of B, whatever the
 * product's kind.  False: there is no room. */
bool eco_gpu_product_prepared(struct eco_gpu_run *run, const struct eco_product *product,
                              const struct eco_split_operand *prepared);

#endif /* ECO_GPU_SPLIT_H */
