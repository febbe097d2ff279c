/*
 * The table of rates and latencies, and how it is scaled to other devices; see rates.h.
 */
#include "gpu/device/rates.h"

#include <stddef.h>
#include <string.h>

/* Fitted on an H200; an H100 has the same kernels and makes the same choices. */
const struct eco_gpu_rates eco_gpu_rates_h200 = {
    .unaligned_narrow = 3.6,
    .unaligned_fast = 2.7,
    .unaligned_narrow_step = 0.7,
    .unaligned_fast_step = 0.47,
    .unaligned_narrow_term = 16e-9,
    .unaligned_fast_term = 24e-9,
    .copy_launch = 2e-6,
    .copy_bytes = 2e12,
    .step = {{{4.1e-6, 5.8e-6}, {3.3e-6, 5.2e-6}, 2.5e12},
             {{1.2e-6, 0.5e-6}, {4.9e-6, 6.7e-6}, 3.35e12},
             {{2.4e-6, 6.9e-6}, {10e-6, 10.5e-6}, 4.1e12}},
    .step_projection = {2.6e-6, 5e-6, 5e-6},
    .step_multiply_adds = 314e12,
    .l2_bytes = 3.4e12,
    .step_term = 1.7e-9,
    .wide_back_launch = 3.2e-6,
    .wide_back_overlapped = 3e-6,
    .wide_back_bytes = 3.9e12,
    .product = {{1.7e-6, 410e12}, {3e-6, 163e12}},
    .fast_weights_launch = 8.9e-6,
    .product_term = 3.25e-9,
    .product_sums_bytes = 5.7e12,
    .launch = 1.2e-6,
    .persistent_launch = 7e-6,
    .load_element = 1.5e-12,
    .accumulator_bytes = 2.6e12,
    .scan_launch = 8e-6,
    .scan_bytes = 2e12,
    .fused_launch = 2.6e-6,
    .fused_block = 1e-6,
    .fused_bytes = 60e9,
    .fused_full_bytes = 50e9,
    .fused_full_multiply_add = 6.4e-12,
    .wide = {{2.12, 0.877, 0.261, 0.12},
             {1.85, 1.22, 0.134, 0.252},
             {1.64, 1.45, 0.169, 0.299},
             {1.34, 3.49, 0.201, 0.455},
             {0.5, 8.22, 0.243, 0.545},
             {1.5, 0.5, 0.4, 0}},
    .wide_exposed = 4,
    .wide_bytes = 6.7e12,
    .wide_saved = 0.9e-12,
    .full_launch = 8e-6,
    .full_multiply_adds = 23e12,
    .split_bytes = 1.5e12,
    .split_piece = 6.5e-6,
    .split_stage = 1.08e-6,
    .split_tile_end = 1.3e-6,
    .split_partial_sums = 12e-6,
    .split_step_slice = 0.46e-6,
    .split_step_wave = 3.6e-6,
    .split_step_bytes = 4.2e12,
    .split_step = {{5.2e-6, {{0.57e-6, 0.82e-6}, {0.74e-6, 1.11e-6}}},
                   {7.6e-6, {{0.41e-6, 0.54e-6}, {0.45e-6, 0.78e-6}}},
                   {7.5e-6, {{0.24e-6, 0.37e-6}, {0.3e-6, 0.48e-6}}}},
    .cublas_step = {{{4e-6, 4e-6}, 0.65e-12, 2.5e-12, 0.06e-12},
                    {{5.5e-6, 12.5e-6}, 1e-12, 1e-12, 0.004e-12}},
    .tf32 = {{8e-6, 190e12}, {8e-6, 163e12}, {12e-6, 130e12}},
    .f16 = {{7e-6, 325e12}, {6e-6, 350e12}, {6e-6, 400e12}},
    .convert_launch = 5e-6,
    .convert_bytes = 4.5e12,
    .pass_launch = 2e-6,
    .pass_bytes = 3.8e12,
    .wgmma_four_tiles = 102,
    .wgmma_two_tiles = 82,
    .scale_block = 30.8,
    .persistent = {[ECO_COST_FORWARD] = {982, 322, 13.9, 146, 57.8, 123, 14.6, 82.4, 24.6},
                   [ECO_COST_FORWARD_TWO] = {916, 454, 14.6, 169, 77, 112, 10.8, 0, 0},
                   [ECO_COST_BACK] = {1830, 336, 33.6, 81.2, 55.7, 172, 0, 763, 146},
                   [ECO_COST_BACK_SCALED] = {1930, 679, 5.8, 0, 128, 231, 0, 699, 0},
                   [ECO_COST_BACK_TWO] = {1900, 841, 51, 0, 143, 222, 0, 0, 0},
                   [ECO_COST_WGMMA] = {1140, 553, 16.9, 146, 0, 0, 14.6, 82.4, 24.6},
                   [ECO_COST_WGMMA_TWO] = {1380, 300, 14.6, 169, 0, 0, 10.8, 0, 0},
                   [ECO_COST_DIRECT] = {886, 0, 22.3, 0, 61.6, 0, 10, 0, 0},
                   [ECO_COST_DIRECT_TWO] = {693, 0, 18.5, 0, 77, 0, 10.8, 0, 0},
                   [ECO_COST_WIDE_TWO] = {808, 0, 18.5, 0, 77, 0, 10.8, 0, 0},
                   [ECO_COST_DIRECT_BACK] = {1330, 336, 33.6, 0, 0, 0, 0, 763, 146}},
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
    ONE(unaligned_narrow, unaligned_fast_step, MATRIX_RATIO, true)
    ONE(unaligned_narrow_term, unaligned_fast_term, CLOCK, false)
    ONE(copy_bytes, copy_bytes, MEMORY, true)
    ROWS(step[0].cell_bytes, step[0].cell_bytes, COUNT(step), TABLE(step[0]), L2, true)
    ONE(step_multiply_adds, step_multiply_adds, MATRIX, true)
    ONE(l2_bytes, l2_bytes, L2, true)
    ONE(step_term, step_term, CLOCK, false)
    ONE(wide_back_bytes, wide_back_bytes, L2, true)
    ROWS(product[0].multiply_adds, product[0].multiply_adds, COUNT(product), TABLE(product[0]), MATRIX, true)
    ONE(product_term, product_term, CLOCK, false)
    ONE(product_sums_bytes, product_sums_bytes, MEMORY, true)
    ONE(load_element, load_element, MEMORY, false)
    ONE(accumulator_bytes, accumulator_bytes, MEMORY, true)
    ONE(scan_bytes, scan_bytes, MEMORY, true)
    ONE(fused_block, fused_block, CLOCK, false)
    ONE(fused_bytes, fused_full_bytes, CLOCK, true)
    ONE(fused_full_multiply_add, fused_full_multiply_add, CLOCK, false)
    ROWS(wide[0].wave, wide[0].crowded_stage, COUNT(wide), TABLE(wide[0]), CLOCK, false)
    ONE(wide_exposed, wide_exposed, CLOCK, false)
    ONE(wide_bytes, wide_bytes, MEMORY, true)
    ONE(wide_saved, wide_saved, MEMORY, false)
    ONE(full_multiply_adds, full_multiply_adds, FLOAT, true)
    ONE(split_bytes, split_bytes, MEMORY, true)
    ONE(split_stage, split_partial_sums, CLOCK, false)
    ONE(split_step_slice, split_step_wave, CLOCK, false)
    ONE(split_step_bytes, split_step_bytes, MEMORY, true)
    ROWS(split_step[0].stage, split_step[0].stage[1][1], COUNT(split_step), TABLE(split_step[0]), CLOCK, false)
    ROWS(cublas_step[0].few_rows, cublas_step[0].few_rows, COUNT(cublas_step), TABLE(cublas_step[0]), L2, false)
    ROWS(cublas_step[0].many_rows, cublas_step[0].many_rows, COUNT(cublas_step), TABLE(cublas_step[0]), MEMORY, false)
    ROWS(cublas_step[0].row, cublas_step[0].row, COUNT(cublas_step), TABLE(cublas_step[0]), FLOAT, false)
    ROWS(tf32[0].multiply_adds, tf32[0].multiply_adds, COUNT(tf32) + COUNT(f16), TABLE(tf32[0]), MATRIX, true)
    ONE(convert_bytes, convert_bytes, MEMORY, true)
    ONE(pass_bytes, pass_bytes, MEMORY, true)
    ONE(wgmma_four_tiles, scale_block, CLOCK, false)
    ROWS(persistent[0].exchange, persistent[0].cluster_sums, ECO_COSTS, TABLE(persistent[0]), CLOCK, false)
// clang-format on
#undef ONE
#undef ROWS
#undef TABLE
#undef COUNT
};

void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS])
{
    *rates = eco_gpu_rates_h200;
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (size_t row = 0; row < scales[k].rows; row++)
            for (size_t at = scales[k].first; at <= scales[k].last; at += sizeof(double)) {
                double *member = (double *)(void *)((char *)rates + at + row * scales[k].row);
                const double factor = speed[scales[k].speed];
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

double eco_gpu_speeds_of(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties)
{
    const struct units own = units_of(properties->capability), h200 = units_of(90);
    const double clock = properties->clock / H200_CLOCK,
                 share = (double)properties->multiprocessors / H200_MULTIPROCESSORS,
                 floats = clock * own.floats / h200.floats;
    for (int k = 0; k < ECO_SPEEDS; k++)
        speed[k] = 1;
    if (strstr(properties->name, "H100") != NULL || strstr(properties->name, "H200") != NULL ||
        !(clock > 0 && share > 0))
        return 1;
    speed[ECO_SPEED_CLOCK] = clock;
    speed[ECO_SPEED_L2] = clock * share;
    speed[ECO_SPEED_FLOAT] = floats * share;
    speed[ECO_SPEED_MATRIX] = clock * share * own.matrix / h200.matrix;
    speed[ECO_SPEED_MATRIX_RATIO] = speed[ECO_SPEED_MATRIX] / speed[ECO_SPEED_FLOAT];
    if (properties->memory_bytes > 0)
        speed[ECO_SPEED_MEMORY] = properties->memory_bytes / H200_MEMORY;
    return floats;
}
