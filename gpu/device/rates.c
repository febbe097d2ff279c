/*
 * The table of rates and latencies, and how it is scaled to other devices; see rates.h.
 */
#include "gpu/device/rates.h"

#include <stddef.h>
#include <string.h>

/* Measured and fitted on an H200; an H100 has the same kernels and choices. */
const struct eco_gpu_rates eco_gpu_rates_h200 = {
    .lost_narrow = 3.6,
    .lost_fast = 2.7,
    .lost_narrow_step = 0.7,
    .lost_fast_step = 0.47,
    .lost_narrow_chain = 16e-9,
    .lost_fast_chain = 24e-9,
    .copy_launch = 2e-6,
    .copy_bytes = 2e12,
    .step = {{{4.1e-6, 5.8e-6}, {3.3e-6, 5.2e-6}, 314e12, 2.8e12, 2.5e12, 1.7e-9},
             {{1.2e-6, 0.5e-6}, {4.9e-6, 6.7e-6}, 0, 0, 3.35e12, 0},
             {{2.4e-6, 6.9e-6}, {10e-6, 10.5e-6}, 0, 0, 4.1e12, 0}},
    .large = {{{1.7e-6, 410e12}, {1.6e-6, 182e12}, {1.35e-6, 296e12}},
              {{3e-6, 163e12}, {7.8e-6, 237e12}, {8.9e-6, 97e12}}},
    .chain = 3.25e-9,
    .sums_bytes = 5.7e12,
    .launch = 1.2e-6,
    .written_bytes = 4.3e12,
    .persistent_launch = 7e-6,
    .reading_narrow = 0.7e-12,
    .reading = 1.5e-12,
    .accumulator_bytes = 2.6e12,
    .scan_launch = 8e-6,
    .scan_bytes = 2e12,
    .fused_launch = 2.6e-6,
    .fused_block = 1e-6,
    .fused_bytes = 60e9,
    .fused_parts_bytes = 50e9,
    .fused_parts = 6.4e-12,
    .fused_float = 1.1e-12,
    .fused_narrow = 0.5e-12,
    .wide = {{2.4, 0.93, 0.213, 0.15},
             {2.4, 1.76, 0.119, 0.25},
             {1.8, 3.1, 0.15, 0.277},
             {2.2, 4.45, 0.18, 0.55},
             {2.5, 9.9, 0.214, 0.72}},
    .wide_bytes = 2.3e12,
    .wide_saved = 7e-12,
    .fma_launch = 8e-6,
    .fma = 23e12,
    .prepare_bytes = 1.5e12,
    .piece = 6.5e-6,
    .piece_step = 1.08e-6,
    .piece_end = 1.3e-6,
    .piece_parts = 12e-6,
    .slice = 0.46e-6,
    .wave = 3.6e-6,
    .step_bytes = 4.2e12,
    .emulated = {{5.2e-6, {{0.57e-6, 0.82e-6}, {0.74e-6, 1.11e-6}}},
                 {7.6e-6, {{0.41e-6, 0.54e-6}, {0.45e-6, 0.78e-6}}},
                 {7.5e-6, {{0.24e-6, 0.37e-6}, {0.3e-6, 0.48e-6}}}},
    .cublas_step = {{{4e-6, 4e-6}, 0.65e-12, 1.3e-12, 2.5e-12, 0.06e-12},
                    {{5.5e-6, 12.5e-6}, 1e-12, 1e-12, 1e-12, 0.004e-12}},
    .tf32 = {{8e-6, 190e12}, {8e-6, 163e12}, {12e-6, 130e12}},
    .f16 = {{7e-6, 325e12}, {6e-6, 350e12}, {6e-6, 400e12}},
    .bring_launch = 5e-6,
    .bring_bytes = 4.5e12,
    .pass_launch = 2e-6,
    .pass_bytes = 3.8e12,
    .wgmma_four = 102,
    .wgmma_two = 82,
    .persistent = {[ECO_COST_FORWARD] = {982, 322, 13.9, 146, 57.8, 123, 14.6, 82.4, 24.6},
                   [ECO_COST_FORWARD_TWO] = {916, 454, 14.6, 169, 77, 112, 10.8, 0, 7.7},
                   [ECO_COST_BACK] = {1830, 336, 33.6, 81.2, 55.7, 172, 0, 763, 146},
                   [ECO_COST_BACK_SCALED] = {1930, 679, 5.8, 0, 128, 231, 0, 699, 0},
                   [ECO_COST_BACK_TWO] = {1900, 841, 51, 0, 143, 222, 0, 0, 0},
                   [ECO_COST_WGMMA] = {1140, 553, 16.9, 146, 0, 0, 14.6, 82.4, 24.6},
                   [ECO_COST_WGMMA_TWO] = {1380, 300, 14.6, 169, 0, 0, 10.8, 0, 7.7},
                   [ECO_COST_DIRECT] = {886, 0, 22.3, 0, 61.6, 0, 10, 0, 0},
                   [ECO_COST_DIRECT_SCALED] = {947, 0, 22.3, 0, 61.6, 0, 10, 0, 0, 30.8},
                   [ECO_COST_DIRECT_TWO] = {693, 0, 18.5, 0, 77, 0, 10.8, 0, 0},
                   [ECO_COST_DIRECT_TWO_SCALED] = {755, 0, 18.5, 0, 77, 0, 10.8, 0, 0, 30.8},
                   [ECO_COST_WIDE_TWO] = {808, 0, 18.5, 0, 77, 0, 10.8, 0, 0},
                   [ECO_COST_DIRECT_BACK] = {1330, 336, 33.6, 81.2, 55.7, 0, 0, 763, 146}},
};

const struct eco_gpu_rates *eco_gpu_rates_of(const struct eco_caps *caps)
{
    return caps->gpu.rates != NULL ? caps->gpu.rates : &eco_gpu_rates_h200;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* The speed with which each member scales: rates are multiplied by it, times divided. */
static const struct {
    size_t first, last; /* members of every row */
    size_t rows, row;   /* number of rows; bytes of a row */
    enum eco_gpu_speed speed;
    bool rate;
} scales[] = {
#define ONE(first, last, speed, rate) ROWS(first, last, 1, 0, speed, rate)
#define ROWS(first, last, rows, row, speed, rate)                                                  \
    {offsetof(struct eco_gpu_rates, first),                                                        \
     offsetof(struct eco_gpu_rates, last),                                                         \
     rows,                                                                                         \
     row,                                                                                          \
     ECO_SPEED_##speed,                                                                            \
     rate},
#define TABLE(name) sizeof((struct eco_gpu_rates *)NULL)->name
#define COUNT(name) TABLE(name) / TABLE(name[0])
    // clang-format off
    ONE(lost_narrow, lost_fast_step, MATRIX_RATIO, true)
    ONE(lost_narrow_chain, lost_fast_chain, CHIP, false)
    ONE(copy_launch, copy_launch, LAUNCH, false)
    ONE(copy_bytes, copy_bytes, MEMORY, true)
    ROWS(step[0].launch, step[0].hidden[1], COUNT(step), TABLE(step[0]), LAUNCH, false)
    ROWS(step[0].multiply, step[0].multiply, COUNT(step), TABLE(step[0]), MATRIX, true)
    ROWS(step[0].from_l2, step[0].cell_bytes, COUNT(step), TABLE(step[0]), L2, true)
    ROWS(step[0].chain, step[0].chain, COUNT(step), TABLE(step[0]), CHIP, false)
    ROWS(large[0][0].launch, large[0][0].launch, 2 * COUNT(large[0]), TABLE(large[0][0]), LAUNCH, false)
    ROWS(large[0][0].rate, large[0][0].rate, 2 * COUNT(large[0]), TABLE(large[0][0]), MATRIX, true)
    ONE(chain, chain, CHIP, false)
    ONE(sums_bytes, sums_bytes, MEMORY, true)
    ONE(launch, launch, LAUNCH, false)
    ONE(written_bytes, written_bytes, MEMORY, true)
    ONE(persistent_launch, persistent_launch, LAUNCH, false)
    ONE(reading_narrow, reading, MEMORY, false)
    ONE(accumulator_bytes, accumulator_bytes, MEMORY, true)
    ONE(scan_launch, scan_launch, LAUNCH, false)
    ONE(scan_bytes, scan_bytes, MEMORY, true)
    ONE(fused_launch, fused_launch, LAUNCH, false)
    ONE(fused_block, fused_block, CHIP, false)
    ONE(fused_bytes, fused_parts_bytes, CHIP, true)
    ONE(fused_parts, fused_narrow, CHIP, false)
    ROWS(wide[0].launch, wide[0].launch, COUNT(wide), TABLE(wide[0]), LAUNCH, false)
    ROWS(wide[0].wave, wide[0].busy, COUNT(wide), TABLE(wide[0]), CHIP, false)
    ONE(wide_bytes, wide_bytes, MEMORY, true)
    ONE(wide_saved, wide_saved, MEMORY, false)
    ONE(fma_launch, fma_launch, LAUNCH, false)
    ONE(fma, fma, FLOAT, true)
    ONE(prepare_bytes, prepare_bytes, MEMORY, true)
    ONE(piece, piece, LAUNCH, false)
    ONE(piece_step, piece_parts, CHIP, false)
    ONE(slice, wave, CHIP, false)
    ONE(step_bytes, step_bytes, MEMORY, true)
    ROWS(emulated[0].fixed, emulated[0].fixed, COUNT(emulated), TABLE(emulated[0]), LAUNCH, false)
    ROWS(emulated[0].stage, emulated[0].stage[1][1], COUNT(emulated), TABLE(emulated[0]), CHIP, false)
    ROWS(cublas_step[0].launches, cublas_step[0].launches[1], COUNT(cublas_step),
         TABLE(cublas_step[0]), LAUNCH, false)
    ROWS(cublas_step[0].from_l2, cublas_step[0].from_l2, COUNT(cublas_step), TABLE(cublas_step[0]), L2, false)
    ROWS(cublas_step[0].from_memory, cublas_step[0].more, COUNT(cublas_step), TABLE(cublas_step[0]), MEMORY, false)
    ROWS(cublas_step[0].multiply, cublas_step[0].multiply, COUNT(cublas_step),
         TABLE(cublas_step[0]), FLOAT, false)
    ROWS(tf32[0].launch, tf32[0].launch, COUNT(tf32) + COUNT(f16), TABLE(tf32[0]), LAUNCH, false)
    ROWS(tf32[0].rate, tf32[0].rate, COUNT(tf32) + COUNT(f16), TABLE(tf32[0]), MATRIX, true)
    ONE(bring_launch, bring_launch, LAUNCH, false)
    ONE(bring_bytes, bring_bytes, MEMORY, true)
    ONE(pass_launch, pass_launch, LAUNCH, false)
    ONE(pass_bytes, pass_bytes, MEMORY, true)
    ONE(wgmma_four, wgmma_two, CHIP, false)
    ROWS(persistent[0].step, persistent[0].cluster, ECO_COSTS, TABLE(persistent[0]), HAND_OVER, false)
    ROWS(persistent[0].kbyte, persistent[0].scale, ECO_COSTS, TABLE(persistent[0]), CHIP, false)
// clang-format on
#undef ONE
#undef ROWS
#undef TABLE
#undef COUNT
};

/* Adds the speeds that follow from others. */
static void complete(double to[ECO_SPEEDS], const double from[ECO_SPEEDS])
{
    memcpy(to, from, ECO_SPEEDS * sizeof *to);
    to[ECO_SPEED_FLOAT] = from[ECO_SPEED_PLAIN] * from[ECO_SPEED_SHARE];
    to[ECO_SPEED_MATRIX_RATIO] = from[ECO_SPEED_MATRIX] / to[ECO_SPEED_FLOAT];
    to[ECO_SPEED_L2_RATIO] = from[ECO_SPEED_L2] / to[ECO_SPEED_FLOAT];
}

void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS])
{
    double all[ECO_SPEEDS];
    complete(all, speed);
    *rates = eco_gpu_rates_h200;
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (size_t row = 0; row < scales[k].rows; row++)
            for (size_t at = scales[k].first; at <= scales[k].last; at += sizeof(double)) {
                double *member = (double *)(void *)((char *)rates + at + row * scales[k].row);
                const double factor = all[scales[k].speed];
                *member = scales[k].rate ? *member * factor : *member / factor;
            }
}

/* ---- speeds ---------------------------------------------------------------------------------- */

/* The properties of an H200. */
static const double H200_CLOCK = 1.98e9, H200_MEMORY = 4.8e12;
enum { H200_MULTIPROCESSORS = 132 };

/* Multiply-adds of a multiprocessor in a clock: of 16-bit numbers with F32 sums, and of floats. The
 * vendor's figures, for a compute capability and later ones. */
static const struct units {
    int capability;
    double matrix, floats;
} units[] = {{75, 512, 64},   {80, 1024, 64},   {86, 256, 128}, {89, 256, 128},
             {90, 2048, 128}, {100, 4096, 128}, {120, 512, 128}};

static struct units units_of(int capability)
{
    struct units found = units[0];
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        if (units[k].capability <= capability)
            found = units[k];
    return found;
}

void eco_gpu_speeds_say(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties)
{
    const struct units own = units_of(properties->capability), h200 = units_of(90);
    const double clock = properties->clock / H200_CLOCK,
                 share = (double)properties->multiprocessors / H200_MULTIPROCESSORS;
    for (int k = 0; k < ECO_SPEEDS; k++)
        speed[k] = 1;
    if (strstr(properties->name, "H100") != NULL || strstr(properties->name, "H200") != NULL ||
        !(clock > 0 && share > 0))
        return;
    speed[ECO_SPEED_HAND_OVER] = speed[ECO_SPEED_CHIP] = clock;
    speed[ECO_SPEED_PLAIN] = clock * own.floats / h200.floats;
    speed[ECO_SPEED_SHARE] = share;
    speed[ECO_SPEED_L2] = clock * share;
    speed[ECO_SPEED_MATRIX] = clock * share * own.matrix / h200.matrix;
    if (properties->memory_bytes > 0)
        speed[ECO_SPEED_MEMORY] = properties->memory_bytes / H200_MEMORY;
}
