/*
 * The peak of a CPU, measured.
 */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include "ecornn.h"

/* GFLOP/s of multiply-adds between registers on this many threads, measured for about `seconds`:
 * with the widest vectors that the processor has and ECORNN_ISA allows, for BF16 with dot products
 * or tiles. */
double peak_gflops(ecornn_type type, int threads, double seconds);

#endif /* BENCH_PEAK_H */
