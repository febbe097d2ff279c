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

/* A product of steps, with such an operand prepared before: its rows as those of B, whatever the
 * product's kind.  False: there is no room. */
bool eco_gpu_product_prepared(struct eco_gpu_run *run, const struct eco_product *product,
                              const struct eco_split_operand *prepared);

/* Bytes that an operand takes, prepared: its scales first, then its pieces. */
size_t eco_split_bytes(int32_t rows, int32_t k);
/* It lies there. */
void eco_split_place(struct eco_split_operand *operand, void *at);

/* Seconds of a product of m rows and a prepared operand; of preparing that. */
double eco_split_time(const struct eco_caps *caps, int32_t m, int32_t rows, int32_t k);
double eco_split_prepare_time(int32_t rows, int32_t k);

/* Of so few terms a chain of multiply-adds is more accurate. */
enum { ECO_SPLIT_LEAST_TERMS = 64 };

/* Room that products like, for both operands and parts of C. */
enum { ECO_SPLIT_ROOM_BYTES = 64 << 20 };

#endif /* ECO_GPU_SPLIT_H */
