/*
 * Algorithm fused: a step of a layer is one launch, whose blocks multiply input and state and
 * finish the cell; two launches with a projection. For runs of few steps, which end before
 * algorithm persistent has read R, and for row invariance, because the order of a sum depends on k
 * alone. Backward steps are those of algorithm step.
 */
#include "gpu/fused_step/fused_step.h"

#include <limits.h>
#include <math.h>

#include "gpu/jit/compile.h"
#include "gpu/algo/algo.h"
#include "gpu/algo/force.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/wide_step/wide_step.h"

/* Limits for steps and rows. Longer runs are faster with large products. */
enum { MOST_STEPS = 16, MOST_ROWS = 65535 * ECO_FUSED_N };
static const double most_time = 64e-6;

/* Is there a layer with wide steps? */
static bool has_wide(const struct eco_problem *problem, const struct eco_caps *caps)
{
    for (int32_t layer = 0; layer < problem->L; layer++)
        if (eco_step_choose(problem, caps, layer, problem->N).wide >= 0)
            return true;
    return false;
}

/* Wide steps, but of padded rows. */
static bool pads(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_wide_pads(problem) && has_wide(problem, caps);
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    char unused[1];
    const struct ecornn_cell *cell = problem->cell;
    if (!caps->gpu.fuses)
        return "needs compute capability 8.0 or later";
    if (eco_type_sum(problem->type) == ECORNN_F64)
        return "does not support this type";
    if (problem->weight_type != problem->type)
        return "needs weights of the type of the rows";
    if (eco_cell_products(cell) != 1 || cell->lowered.has_means)
        return "needs a cell whose only product is with the output state, without means";
    if (cell->lowered.copies != 0)
        return "does not support cells that read x, or parts of it, unit by unit";
    if (problem->projected && problem->resets)
        return "does not support resets with a projection";
    if (problem->projected && (size_t)problem->H * eco_type_bytes(problem->type) % 16 != 0 &&
        !pads(problem, caps))
        return "needs a projection whose rows are aligned to 16 bytes";
    if (problem->N > MOST_ROWS)
        return "needs fewer rows: one launch has too few blocks";
    const struct eco_fused_size projection = eco_fused_projection(problem, problem->N);
    const struct eco_step_choice choice = eco_step_choose(problem, caps, 0, problem->N);
    if (choice.time == 0 || (problem->projected && eco_fused_choose(&projection, caps).shape < 0))
        return "needs fewer accumulators: they must fit in one block";
    if (problem->T > MOST_STEPS && !problem->row_invariant && !has_wide(problem, caps))
        return "needs fewer steps";
    if (choice.time > most_time && eco_gpu_shapes(problem, ECO_FORCE_FUSED) == UINT_MAX &&
        !problem->row_invariant && choice.wide < 0)
        return "needs steps of less work";
    if (eco_is_compiled(problem) && !eco_nvrtc_open(&(struct eco_text){unused, sizeof unused, 0}))
        return "needs NVRTC to compile its kernels at run time";
    return NULL;
}

/* Do forward steps of all layers run in the same launches? */
static bool is_lockstep(const struct eco_problem *problem, const struct eco_caps *caps)
{
    bool all = problem->L > 1 && problem->D == 1;
    for (int32_t layer = 0; layer < 2 && all; layer++) {
        const struct eco_step_choice choice = eco_step_choose(problem, caps, layer, problem->N);
        all = choice.wide >= 0 && choice.ops > 1;
    }
    return all;
}

/* Do layers overlap, which only backward steps gain by? Forward wide steps lose more than that if
 * they are not in lockstep: across streams none begins before the step ahead of it has ended. With
 * more rows, measured on an H100, a layer's kernels fill the device alone; those of floats leave
 * more of it idle. */
static bool overlaps(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const int64_t most = eco_type_narrow(problem->type) ? 1 << 19 : 1 << 21; /* units of all rows */
    const bool forced = eco_gpu_use(problem, ECO_FORCE_WAVEFRONT) >= ECO_USE_ALWAYS,
               few = (int64_t)problem->N * problem->H <= most;
    return problem->training && eco_step_overlaps(problem, caps, false) &&
           (forced || !has_wide(problem, caps) || (few && is_lockstep(problem, caps)));
}

/* Seconds of all forward steps. Layers in lockstep differ in their inputs, and wait for the blocks
 * of the longest one. */
static double forward_time(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const bool lockstep = is_lockstep(problem, caps);
    double step = 0, longest = 0;
    for (int32_t layer = 0; layer < problem->L; layer++) {
        const struct eco_fused_size projection = eco_fused_projection(problem, problem->N);
        const struct eco_step_choice choice = eco_step_choose(problem, caps, layer, problem->N);
        step += choice.time + (problem->projected ? eco_fused_choose(&projection, caps).time : 0);
        longest = fmax(longest, choice.time);
    }
    if (!lockstep)
        return step * problem->D * problem->T;
    return problem->L * longest * (problem->T + ECO_WIDE_LAG * (problem->L - 1));
}

static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (problem->row_invariant && eco_family_persistent.algo.refuses(problem, caps) == NULL)
        return HUGE_VAL; /* else N and T would decide, and algorithms differ in last bits */
    const double forward = forward_time(problem, caps);
    if (!problem->training)
        return forward;
    const struct eco_layout_request back = eco_step_chunks(problem, caps, overlaps(problem, caps));
    return forward + eco_step_launches(problem, caps, true) +
           eco_step_time(problem, caps, true, &back) +
           eco_step_lost(problem, caps, ECO_OUTSIDE_STEPS);
}

/* Requests what backward steps and large products of algorithm step need; forward nothing. */
static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    eco_family_step.algo.request(problem, caps, request);
    request->gpu.transposed[0] = false;
    request->gpu.prepared_bytes[0] = 0;
    request->gpu.padded = eco_step_fills(problem, caps, ECO_OUTSIDE_STEPS) || pads(problem, caps);
    request->wavefront = overlaps(problem, caps);
    const struct eco_layout_request chunks = eco_step_chunks(problem, caps, request->wavefront);
    request->lockstep = is_lockstep(problem, caps);
    request->chunk = request->lockstep ? ECO_WIDE_LAG : chunks.chunk;
    request->chunk_backward = chunks.chunk_backward;
    request->gpu.weights_chunks = chunks.gpu.weights_chunks;
    request->gpu.carry_planes = request->wavefront ? 0 : eco_wide_carry_planes(problem, caps);
    const bool halves = eco_scaled_f16_halves(problem, caps, &chunks);
    if (halves || request->gpu.half_back)
        request->gpu.prepared_bytes[1] = halves ? eco_scaled_f16_recurrent_bytes(problem) : 0;
    request->gpu.half_back = halves;
    /* No accumulators in memory, and no input product of many rows. If kernels are compiled at run
     * time, steps may fall back to algorithm step. */
    request->fuse_input = !eco_is_compiled(problem);
    request->gpu.rows_independent |= request->fuse_input;
    eco_step_fit(problem, caps, request);
}

const struct eco_gpu_family eco_family_fused = {
    {"fused", refuses, request, estimate, eco_gpu_run_fused, eco_step_fit, ECO_CELLS_OF_UNITS},
    eco_fused_prepare,
    eco_fused_describe,
    eco_fused_write_choices};
