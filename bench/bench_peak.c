/*
 * The peak: twelve independent chains of multiply-adds per thread, which is enough to hide the
 * latency of two units of four cycles.  One loop for each width of vectors.
 */
#include "bench_peak.h"

#include "bench_stats.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86 1
#endif

enum { CHAINS = 12, TURNS = 20000 };

/* Does TURNS * CHAINS multiply-adds; returns how many floats each has.  The sum is stored, so that
 * the compiler keeps the work. */
typedef int (*burst)(float *sum);

#ifdef HAVE_X86
__attribute__((target("avx512f"))) static int burst_avx512(float *sum)
{
    __m512 chain[CHAINS], factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(1e-3f);
    for (int c = 0; c < CHAINS; c++)
        chain[c] = _mm512_set1_ps((float)c);
    for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            chain[c] = _mm512_fmadd_ps(chain[c], factor, term);
    for (int c = 1; c < CHAINS; c++)
        chain[0] = _mm512_add_ps(chain[0], chain[c]);
    *sum = _mm512_cvtss_f32(chain[0]);
    return 16;
}

__attribute__((target("avx2,fma"))) static int burst_avx2(float *sum)
{
    __m256 chain[CHAINS], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(1e-3f);
    for (int c = 0; c < CHAINS; c++)
        chain[c] = _mm256_set1_ps((float)c);
    for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            chain[c] = _mm256_fmadd_ps(chain[c], factor, term);
    for (int c = 1; c < CHAINS; c++)
        chain[0] = _mm256_add_ps(chain[0], chain[c]);
    *sum = _mm256_cvtss_f32(chain[0]);
    return 8;
}

static int burst_sse(float *sum)
{
    __m128 chain[CHAINS], factor = _mm_set1_ps(0.999f), term = _mm_set1_ps(1e-3f);
    for (int c = 0; c < CHAINS; c++)
        chain[c] = _mm_set1_ps((float)c);
    for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            chain[c] = _mm_add_ps(_mm_mul_ps(chain[c], factor), term);
    for (int c = 1; c < CHAINS; c++)
        chain[0] = _mm_add_ps(chain[0], chain[c]);
    *sum = _mm_cvtss_f32(chain[0]);
    return 4;
}
#endif

#ifndef HAVE_X86
/* Any processor: four floats at a time, multiplied and added as the compiler can. */
static int burst_plain(float *sum)
{
    float chain[CHAINS][4];
    for (int c = 0; c < CHAINS; c++)
        for (int k = 0; k < 4; k++)
            chain[c][k] = (float)c;
    for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            for (int k = 0; k < 4; k++)
                chain[c][k] = chain[c][k] * 0.999f + 1e-3f;
    *sum = 0;
    for (int c = 0; c < CHAINS; c++)
        for (int k = 0; k < 4; k++)
            *sum += chain[c][k];
    return 4;
}
#endif

static int lanes_max = 16;

void peak_limit(int lanes)
{
    lanes_max = lanes;
}

static burst widest(void)
{
#ifdef HAVE_X86
    if (lanes_max >= 16 && __builtin_cpu_supports("avx512f"))
        return burst_avx512;
    if (lanes_max >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return burst_avx2;
    return burst_sse;
#else
    return burst_plain;
#endif
}

double peak_gflops(int threads, double seconds)
{
    const burst run = widest();
    double gflops = 0;
#pragma omp parallel num_threads(threads) reduction(+ : gflops)
    {
        volatile float keep;
        float sum = 0;
        double operations = 0, elapsed = 0;
        run(&sum); /* wakes the vector units */
#pragma omp barrier
        const double start = now();
        do {
            operations += 2.0 * TURNS * CHAINS * run(&sum);
            elapsed = now() - start;
        } while (elapsed < seconds);
        keep = sum;
        (void)keep;
        gflops += operations / elapsed * 1e-9;
    }
    return gflops;
}
