/*
 * What the files of algorithm packed share.
 */
#ifndef ECO_PACKED_H
#define ECO_PACKED_H

#include "cpu/cpu.h"

/* packed_product.c: as eco_products.multiply and .stage. */
void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply);
void eco_packed_stage(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n,
                      const struct eco_pointwise *call, eco_pointwise_kernel kernel);
/* packed_weights.c: as eco_products.weights. */
void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

#endif /* ECO_PACKED_H */
