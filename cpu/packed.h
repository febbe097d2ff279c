/*
 * What the files of algorithm packed share.
 */
#ifndef ECO_PACKED_H
#define ECO_PACKED_H

#include "cpu/cpu.h"
#include "cpu/narrow.h"

/* packed_product.c: as eco_products.multiply and .stage. */
void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply);
void eco_packed_stage(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n,
                      const struct eco_pointwise *call, eco_pointwise_kernel kernel);
/* Has an accumulator a product that is done before this part's? */
bool eco_packed_has_earlier(const struct eco_lowered *lowered, int acc, int part);
/* packed_weights.c: as eco_products.weights. */
void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

/* packed_narrow.c: with weights in BF16. */
extern const struct eco_products eco_narrow_products;
/* Up to so many rows a product with them waits for memory, and is done without AMX. */
enum { ECO_FEW_NARROW_ROWS = 4 };
/* packed_narrow_weights.c: as eco_products.weights. */
void eco_narrow_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n);

#endif /* ECO_PACKED_H */
