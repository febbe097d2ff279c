/*
 * What the processor could do at most, measured.
 */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include "ecornn.h"

/* GFLOP/s of multiply-adds between registers, on so many threads at once, for about `seconds`.  The
 * widest vectors that this processor has; for BF16 its dot products or tiles. */
double peak_gflops(ecornn_type type, int threads, double seconds);
/* From now on vectors of at most so many floats, with fewer than 8 no fused operations; from 32 on:
 * dot products of BF16, from 64 on: tiles. */
void peak_limit(int lanes);

#endif /* BENCH_PEAK_H */
