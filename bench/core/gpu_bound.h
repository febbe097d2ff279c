/*
 * The least time that a problem takes on an H100.
 */
#ifndef BENCH_GPU_BOUND_H
#define BENCH_GPU_BOUND_H

#include "bench/cpu/machine.h"

/* `floor` is the time of the products alone at 850 TFLOP/s (TF32 425, F32 142, F64 57); `bound` is
 * the larger of that and of the bytes at 3 TB/s. Bytes are x, y, the parameters, what
 * training saves, gradients, and in each step the part of R that is larger than the chip. */
struct bound gpu_bound_of(const struct problem *problem, const ecornn_plan *plan);

#endif /* BENCH_GPU_BOUND_H */
