/*
 * The peaks: products of BF16 tiles, or twelve independent chains of multiply-adds per thread,
 * which hide the latency of two units of four to six cycles.  There is one loop for each width of
 * vectors.
 */
#define _GNU_SOURCE /* syscall */
#include "peak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/stats.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86 1
#if defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#include <cpuid.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HAVE_TILES 1
#define HAVE_DOTS  1
#endif
#endif

enum { CHAINS = 12, TURNS = 20000 };

/* Does some multiply-adds, and returns their number of operations.  The sum is stored, so the
 * compiler keeps the work. */
typedef double (*burst)(float *sum);

#ifdef HAVE_X86
__attribute__((target("avx512f"))) static double burst_avx512(float *sum)
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
    return 2.0 * TURNS * CHAINS * 16;
}

#ifdef HAVE_DOTS
__attribute__((target("avx512f,avx512bf16"))) static double burst_dots(float *sum)
{
    __m512 chain[CHAINS];
    const __m512i factor = _mm512_set1_epi16(0x3f7f), term = _mm512_set1_epi16(0x3a83);
    for (int c = 0; c < CHAINS; c++)
        chain[c] = _mm512_set1_ps((float)c);
    for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            chain[c] = _mm512_dpbf16_ps(chain[c], (__m512bh)factor, (__m512bh)term);
    for (int c = 1; c < CHAINS; c++)
        chain[0] = _mm512_add_ps(chain[0], chain[c]);
    *sum = _mm512_cvtss_f32(chain[0]);
    return 2.0 * TURNS * CHAINS * 32;
}

static bool has_dots(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a >> 5 & 1);
}
#endif

__attribute__((target("avx2,fma"))) static double burst_avx2(float *sum)
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
    return 2.0 * TURNS * CHAINS * 8;
}

#ifdef HAVE_TILES
/* Four tiles of 16 x 16 sums from two tiles of A and two of B, 32 deep; all eight have one shape.
 */
__attribute__((target("amx-tile,amx-bf16"))) static double burst_tiles(float *sum)
{
    static const unsigned char shape[64] = {1,         [16] = 64, [18] = 64, [20] = 64, [22] = 64,
                                            [24] = 64, [26] = 64, [28] = 64, [30] = 64, [48] = 16,
                                            16,        16,        16,        16,        16,
                                            16,        16};
    _tile_loadconfig(shape);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int turn = 0; turn < TURNS; turn++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    float mine[16 * 16];
    _tile_stored(0, mine, 64);
    _tile_release();
    *sum = mine[0];
    return 2.0 * TURNS * 4 * 16 * 16 * 32;
}

/* The processor has tiles, and the system lets this process use them. */
static bool may_use_tiles(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

static double burst_sse(float *sum)
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
    return 2.0 * TURNS * CHAINS * 4;
}
#endif

#ifndef HAVE_X86
/* Any processor: four floats at a time, multiplied and added as the compiler can. */
static double burst_plain(float *sum)
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
    return 2.0 * TURNS * CHAINS * 4;
}
#endif

/* Floats in a vector that ECORNN_ISA allows; 32 stands for BF16 dot products, 64 for tiles. */
static int most_lanes(void)
{
    static const struct {
        const char *isa;
        int lanes;
    } table[] = {{"avx512bf16", 32}, {"avx512vnni", 16}, {"avx512", 16}, {"avxvnni", 8},
                 {"avx2", 8},        {"sse2", 4},        {"plain", 4}};
    const char *set = getenv("ECORNN_ISA");
    for (size_t k = 0; set && k < sizeof table / sizeof *table; k++)
        if (strcmp(set, table[k].isa) == 0)
            return table[k].lanes;
    return 64;
}

static burst widest(ecornn_type type)
{
    const int lanes_max = most_lanes();
#ifdef HAVE_TILES
    if (type == ECORNN_BF16 && lanes_max >= 64 && may_use_tiles())
        return burst_tiles;
#endif
#ifdef HAVE_DOTS
    if (type == ECORNN_BF16 && lanes_max >= 32 && has_dots())
        return burst_dots;
#endif
    (void)type;
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

static double rate_of(burst run, int threads, double seconds)
{
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
            operations += run(&sum);
            elapsed = now() - start;
        } while (elapsed < seconds);
        keep = sum;
        (void)keep;
        gflops += operations / elapsed * 1e-9;
    }
    return gflops;
}

/* Dot products are slower than multiply-adds on some processors. */
double peak_gflops(ecornn_type type, int threads, double seconds)
{
    const double peak = rate_of(widest(type), threads, seconds);
#ifdef HAVE_DOTS
    if (widest(type) == burst_dots)
        return fmax(peak, rate_of(widest(ECORNN_F32), threads, seconds));
#endif
    return peak;
}
