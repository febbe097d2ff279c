/*
 * What the files of algorithm packed share.
 */
#ifndef ECO_PACKED_H
#define ECO_PACKED_H

#include "cpu/cpu.h"

/* packed_weights.c: as eco_products.weights. */
void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply);

#endif /* ECO_PACKED_H */
