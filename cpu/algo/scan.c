/*
 * Algorithm scan, for cells that are linear in their states, unit by unit: steps have no
 * product. So each thread runs all steps of a chunk for units or rows of its own, without waiting.
 * If a step has too few of those, threads take blocks of time. No bit depends on the number of
 * threads. Products over all steps are those of algorithm packed, or of blas if packed refuses.
 */
#include "cpu/algo/force.h"

static const struct eco_algo *base_of(const struct eco_problem *problem,
                                      const struct eco_caps *caps)
{
    return eco_algo_packed.refuses(problem, caps) == NULL ? &eco_algo_packed : &eco_algo_blas;
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (!problem->cell->lowered.linear.scans)
        return "needs a cell that is linear in its states";
    if (problem->projected)
        return "does not support projections";
    if (eco_forced(problem, ECO_FORCE_OWN_UNITS, 0) > 0 ||
        eco_forced(problem, ECO_FORCE_FUSE, 0) > 0)
        return "ECORNN_FORCE asks for what is no choice of it";
    return base_of(problem, caps)->refuses(problem, caps);
}

static bool draws(const struct eco_program *program)
{
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_BERNOULLI)
            return true;
    return false;
}

/* Blocks round differently from steps, so the choice depends on problem and run only, not on the
 * device. They need a step's arithmetic twice, which a thread recovers only for small steps; with 8
 * or more rows, two threads divide the rows. */
static bool may_block(const struct eco_problem *problem)
{
    enum { FEW_ROWS = 7 };
    const struct eco_lowered *lowered = &problem->cell->lowered;
    return problem->N <= FEW_ROWS && (int64_t)problem->N * problem->H <= ECO_SCAN_MOST &&
           eco_problem_is_plain(problem) && !problem->states && !draws(lowered->forward) &&
           !draws(lowered->backward) && problem->saving.policy == ECO_SAVE_ALL;
}

static void request_blocks(const struct eco_problem *problem, struct eco_layout_request *request)
{
    enum { STEPS = 32, BLOCKS = 32, LEAST_BLOCKS = 8 }; /* of a chunk, for threads; of a run */
    const int32_t steps = eco_forced(problem, ECO_FORCE_BLOCK_STEPS, STEPS);
    const bool forced = eco_forced(problem, ECO_FORCE_BLOCK_STEPS, 0) > 0;
    request->cpu.block_from = forced ? 1 : LEAST_BLOCKS * steps;
    if (steps == 0 || problem->T < request->cpu.block_from || !may_block(problem))
        return;
    request->cpu.block_steps = steps;
    request->chunk = eco_forced(problem, ECO_FORCE_CHUNK, BLOCKS * steps);
    request->chunk_backward = eco_forced(problem, ECO_FORCE_CHUNK_BACK, BLOCKS * steps);
    request->cpu.by_rows = false;
    const int32_t most =
        request->chunk > request->chunk_backward ? request->chunk : request->chunk_backward;
    request->exchange_bytes =
        eco_cpu_scan_bytes(problem, most < problem->T ? most : problem->T, steps);
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    base_of(problem, caps)->request(problem, caps, request);
    request->fuse_input = false;
    request->cpu.own_units = false;
    request->cpu.whole_rows = true;
    request->cpu.scans = true;
    request_blocks(problem, request);
}

/* Like the products, which dominate; slightly less, so that it is preferred. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return 0.95 * base_of(problem, caps)->estimate(problem, caps);
}

const struct eco_algo eco_algo_scan = {"scan",           refuses, request,           estimate,
                                       eco_cpu_run_tape, NULL,    ECO_CELLS_OF_UNITS};
