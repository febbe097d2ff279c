/*
 * Reading and writing elements of arrays of any type.
 */
#ifndef BENCH_TYPE_H
#define BENCH_TYPE_H

#include <stddef.h>

#include "ecornn.h"

size_t type_bytes(ecornn_type type);
/* Element k; type_set rounds to the nearest. */
double type_get(const void *array, size_t k, ecornn_type type);
void type_set(void *array, size_t k, ecornn_type type, double value);
/* The largest relative differences between two programs that keep arrays and operands in the type:
 * [3], of y, of dx, and of the gradients of weights. */
const double *type_tolerance(ecornn_type type);

#endif /* BENCH_TYPE_H */
