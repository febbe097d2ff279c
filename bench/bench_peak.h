/*
 * What the processor could do at most, measured.
 */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

/* GFLOP/s of F32 multiply-adds between registers, on so many threads at once, for about `seconds`.
 * The widest vectors that this processor has. */
double peak_gflops(int threads, double seconds);
/* From now on vectors of at most so many floats, with fewer than 8 no fused operations. */
void peak_limit(int lanes);

#endif /* BENCH_PEAK_H */
