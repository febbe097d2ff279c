/*
 * Algorithm step: cuBLAS products and one fused kernel per step and stage.  Runs every cell, option
 * and type; what an algorithm of its own must beat.
 */
#include "gpu/gpu.h"

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem;
    (void)caps;
    return NULL;
}

/* Rows of a chunk: enough that the input product runs at full speed, few enough that its result
 * stays in the L2 until the steps read it. */
enum { ROWS = 4096, LEAST_STEPS = 8, MOST_CHUNKS = 8 };

static int32_t steps_for(const struct eco_problem *problem, bool wavefront)
{
    int32_t steps = (ROWS + problem->N - 1) / problem->N;
    if (wavefront && steps > problem->T / MOST_CHUNKS)
        steps = problem->T / MOST_CHUNKS;
    return steps < LEAST_STEPS ? LEAST_STEPS : steps;
}

static size_t clamp(double value, double least, double most)
{
    return (size_t)(value < least ? least : value > most ? most : value);
}

/* Partial sums of a step's product, split some ways.  F32 has products that want more, but not so
 * small a plan that this would be most of its memory. */
static size_t product_bytes(const struct eco_problem *problem)
{
    static const double least_work = 1e6;
    const double accs = problem->cell->lowered.n_accs * (double)problem->H;
    const double work = accs * problem->H * problem->N;
    const bool used = problem->training || !(problem->fast || eco_gpu_is_short(problem->N, work));
    if (problem->type == ECORNN_F32 && used && work >= least_work)
        return ECO_SPLITTING_BYTES + ECO_ROOM_ALIGNMENT;
    return clamp(32 * accs * problem->N, 65536, 8 << 20);
}

static void wishes(const struct eco_problem *problem, const struct eco_caps *caps,
                   struct eco_wishes *wishes)
{
    const bool wavefront = problem->L > 1 && problem->D == 1;
    (void)caps;
    *wishes = (struct eco_wishes){
        .wavefront = wavefront,
        .lean = true,
        .widened = problem->weight_type != problem->type,
        /* cuBLAS multiplies in TF32 twice as fast where k is contiguous in both operands */
        .turned = problem->training && problem->type == ECORNN_F32 && problem->fast,
        .chunk = steps_for(problem, wavefront),
        .chunk_backward = steps_for(problem, wavefront),
        .weights_chunks = wavefront ? ROWS / (steps_for(problem, true) * problem->N) : 0,
        .product_bytes = product_bytes(problem),
    };
}

/* Multiply-adds a second of a product of few rows, and of one of many: how many times those of
 * plain float arithmetic, by type; fitted to times of BF16
 * on an H200, of the other types taken from their peaks. */
static double rate(const struct eco_problem *problem, const struct eco_caps *caps, bool many_rows)
{
    const double plain = caps->flops * caps->threads;
    if (eco_type_bytes(problem->type) == 2)
        return plain * (many_rows ? 10 : 3.3);
    if (problem->type == ECORNN_F32 && problem->fast)
        return plain * (many_rows ? 4 : 1.5);
    return plain * (many_rows ? 0.8 : 0.5);
}

double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps)
{
    double work = 0;
    for (int32_t layer = 0; layer < problem->L; layer++) {
        const double input = eco_problem_input(problem, layer);
        work += problem->training ? 3 * input + problem->P : input;
    }
    work *= 2. * problem->cell->lowered.n_accs * problem->H * problem->N * problem->D;
    return problem->T * work / rate(problem, caps, true);
}

/* Seconds: a product and a cell's kernel take 4.6 us and longer, more back; lanes overlap. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double accs = problem->cell->lowered.n_accs * (double)problem->H;
    const double steps = (double)problem->T * problem->L * problem->D;
    const double step = 2 * accs * problem->P * problem->N / rate(problem, caps, false);
    const double alone = problem->training ? 10e-6 + 2 * step : 4.6e-6 + step;
    const double overlap = problem->D > 1 ? 0.8 : problem->L > 1 ? 0.6 : 1;
    return overlap * steps * alone + eco_step_products(problem, caps);
}

static ecornn_status run(const struct ecornn_plan *plan, const struct eco_tape *tape,
                         const struct eco_layout *layout, const struct eco_args *args)
{
    return eco_gpu_run_plan(plan, tape, layout, args, NULL);
}

const struct eco_algo eco_algo_step = {"step", refuses, wishes, estimate, run};
