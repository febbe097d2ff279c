/*
 * How algorithm fused divides a step into blocks, and how long that takes (rates.h).
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/device/rates.h"
#include "gpu/wide_step/wide_step.h"

#include <limits.h>
#include <math.h>

struct eco_fused_size eco_fused_size(const struct eco_problem *problem, int32_t layer, int32_t rows)
{
    return (struct eco_fused_size){.type = problem->type,
                                   .fast = problem->fast,
                                   .accs = problem->cell->lowered.n_accs,
                                   .units = problem->H,
                                   .rows = rows,
                                   .k = eco_problem_input(problem, layer) + problem->P,
                                   .ahead = problem->T == 1 && layer > 0,
                                   .shapes = eco_gpu_shapes(problem, ECO_FORCE_FUSED)};
}

struct eco_fused_size eco_fused_projection(const struct eco_problem *problem, int32_t rows)
{
    return (struct eco_fused_size){.type = problem->type,
                                   .fast = problem->fast,
                                   .accs = 1,
                                   .units = problem->P,
                                   .rows = rows,
                                   .k = problem->H,
                                   .shapes = eco_gpu_shapes(problem, ECO_FORCE_PROJECTION)};
}

/* Seconds of a launch with its sums and its cell, of loading, and of multiplying. If there are more
 * blocks than multiprocessors, some have one more than others, and each block begins and ends. */
static double time_of(const struct eco_fused_size *size, const struct eco_caps *caps, int shape)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const bool parts = size->type == ECORNN_F32 && !size->fast;
    const double term = parts ? rates->fused_full_multiply_add : 0;
    const double rows = ECO_FUSED_TILES(size->accs) * ECO_FUSED_M,
                 columns = ECO_FUSED_COLUMNS(shape), terms = rows * columns * size->k;
    const double reading =
        (size->ahead ? columns : rows + columns) * size->k * (double)eco_type_bytes(size->type);
    const double blocks =
        ceil((double)size->units / ECO_FUSED_UNITS(size->accs)) * ceil(size->rows / columns);
    const double mean = fmax(1, blocks / caps->threads), share = (mean + ceil(mean)) / 2;
    return rates->fused_launch + share * fmax(reading / rates->fused_bytes, term * terms) +
           (share - 1) * rates->fused_block;
}

struct eco_fused_choice eco_fused_choose(const struct eco_fused_size *size,
                                         const struct eco_caps *caps)
{
    struct eco_fused_choice best = {-1, 0};
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++) {
        if (!(size->shapes >> shape & 1) || !ECO_FUSED_MADE(size->accs, shape) ||
            (size_t)ECO_FUSED_SHARED(size->accs, shape) > caps->gpu.block_bytes)
            continue;
        const double time = time_of(size, caps, shape);
        if (best.shape < 0 || time < best.time)
            best = (struct eco_fused_choice){shape, time};
    }
    return best;
}

struct eco_step_choice eco_step_choose(const struct eco_problem *problem,
                                       const struct eco_caps *caps, int32_t layer, int32_t rows)
{
    struct eco_step_choice best = {.size = eco_fused_size(problem, layer, rows), .wide = -1};
    const unsigned shapes = best.size.shapes, forced = shapes >> ECO_FUSED_SHAPES;
    struct eco_wide_size wide = eco_wide_size(problem, caps, forced, layer, rows);
    const int32_t ops = eco_wide_ops(problem);
    wide.ops = problem->D;
    struct eco_wide_choice many = eco_wide_choose(&wide, caps);
    best.ops = wide.ops;
    if (ops > wide.ops) {
        wide.ops = ops;
        const struct eco_wide_choice all = eco_wide_choose(&wide, caps);
        if (all.shape >= 0 && all.time < many.time) {
            best.ops = ops;
            many = all;
        }
    }
    const bool is_forced = (shapes & ((1u << ECO_FUSED_SHAPES) - 1)) == 0;
    if (is_forced) /* others replace it if its arrays are not aligned for copies */
        best.size.shapes = UINT_MAX;
    const struct eco_fused_choice few = eco_fused_choose(&best.size, caps);
    best.time = few.shape < 0 ? 0 : few.time;
    if (many.shape >= 0 && (few.shape < 0 || is_forced || many.time < few.time)) {
        best.wide = many.shape;
        best.time = many.time;
    }
    return best;
}

static struct eco_step_shape step_shape(const struct ecornn_plan *plan, int32_t layer, int32_t rows)
{
    const struct eco_caps *caps = &plan->device->caps;
    const struct eco_step_choice choice = eco_step_choose(&plan->problem, caps, layer, rows);
    return (struct eco_step_shape){rows, (int8_t)eco_fused_choose(&choice.size, caps).shape,
                                   (int8_t)choice.wide};
}

void eco_fused_choose_all(const struct ecornn_plan *plan, struct eco_fused_kernels *fused)
{
    const struct eco_problem *problem = &plan->problem;
    for (int32_t rows = 0; rows < problem->N;) {
        rows = eco_next_rows(rows, problem->N);
        for (int upper = 0; upper < 2 && upper < problem->L; upper++)
            eco_step_shapes_add(&fused->steps[upper], step_shape(plan, upper, rows));
        if (!problem->projected)
            continue;
        const struct eco_fused_size size = eco_fused_projection(problem, rows);
        const int shape = eco_fused_choose(&size, &plan->device->caps).shape;
        eco_step_shapes_add(&fused->projected, (struct eco_step_shape){rows, (int8_t)shape, -1});
    }
}
