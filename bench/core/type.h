/*
 * Elements of arrays, whatever their type.
 */
#ifndef BENCH_TYPE_H
#define BENCH_TYPE_H

#include <stddef.h>

#include "ecornn.h"

size_t type_bytes(ecornn_type type);
/* Element k; rounded to the nearest where it is written. */
double type_get(const void *array, size_t k, ecornn_type type);
void type_set(void *array, size_t k, ecornn_type type, double value);
/* The largest relative error of a result, y, dx and gradients of the weights, that two programs may
 * differ by when both keep their arrays and operands in the type. */
const double *type_tolerance(ecornn_type type);

#endif /* BENCH_TYPE_H */
