/*
 * What algorithm step takes, by its parts; other algorithms have some of them.
 */
#include <math.h>

#include "gpu/gemm/grouped/args.h"
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/algo/algo.h"
#include "gpu/device/rates.h"

int32_t eco_step_asked(const struct eco_problem *problem, bool backward)
{
    const int32_t chunk = eco_gpu_force(problem).chunk[backward];
    return chunk < problem->T ? chunk : problem->T;
}

bool eco_step_is_over_at_once(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_gpu_grouped_follow(problem, caps) && problem->T <= ECO_STEP_CHUNK &&
           eco_step_asked(problem, true) == 0;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Multiply-adds a second of a product of few rows (not in 16 bits), and of one of many: how many
 * times those of plain float arithmetic, by type; fitted to times of BF16, of the other types taken
 * from their peaks. */
static double rate(const struct eco_problem *problem, const struct eco_caps *caps, bool many_rows)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double plain = caps->flops * caps->threads;
    if (eco_type_narrow(problem->type))
        return plain * rates->narrow_many;
    if (problem->type == ECORNN_F32 && problem->fast)
        return plain * (many_rows ? rates->fast_many : rates->fast_few);
    return plain * (many_rows ? rates->full_many : rates->full_few);
}

/* Twice the multiply-adds of all steps: of a layer's inputs and, in training, gradients; of the
 * recurrence. */
static double input_work(const struct eco_problem *problem, int32_t layer)
{
    const double input = eco_problem_input(problem, layer);
    return 2. * problem->cell->lowered.n_accs * problem->H * problem->N * problem->D * problem->T *
           (problem->training ? 3 * input + problem->P : input);
}

static double step_work(const struct eco_problem *problem)
{
    return 2. * problem->cell->lowered.n_accs * problem->H * problem->P * problem->N * problem->L *
           problem->D * problem->T * (problem->training ? 2 : 1);
}

/* ---- rows in whole groups -------------------------------------------------------------------- */

/* Numbers that products of a layer add up one after the other, however few rows there are: of the
 * input and, in training, of dx, but where rows are so few that dx is grouped.  Gradients of
 * weights are cut along their rows. */
static double chains(const struct eco_problem *problem, const struct eco_caps *caps, int32_t layer,
                     unsigned outside)
{
    const double rows = (double)problem->T * problem->N;
    const bool grouped = eco_gpu_has_grouped(problem, caps) && rows <= ECO_GROUPED_ROWS;
    const double input = outside & ECO_OUTSIDE_INPUT ? eco_problem_input(problem, layer) : 0,
                 back = problem->training && !grouped
                            ? (double)problem->cell->lowered.n_accs * problem->H
                            : 0;
    return problem->D * (input + back);
}

/* Seconds that products lose where a dimension is no multiple of 16 bytes, measured
 * (doc/performance.md): in 16 bits they take three times as long, in TF32 twice, those of a step as
 * well; where they are small a wave of blocks, which has all of k to go through.  Full F32 loses
 * nothing. */
static double lost(const struct eco_problem *problem, const struct eco_caps *caps, unsigned outside)
{
    const int32_t element = (int32_t)eco_type_bytes(problem->type), group = 16 / element;
    const bool whole = problem->H % group == 0 && problem->P % group == 0;
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double plain = caps->flops * caps->threads,
                 inputs = plain * (element == 2 ? rates->lost_narrow : rates->lost_fast),
                 step = plain * (element == 2 ? rates->lost_narrow_step : rates->lost_fast_step),
                 chain = element == 2 ? rates->lost_narrow_chain : rates->lost_fast_chain;
    double time = 0;
    if (element == 8 || (element == 4 && !problem->fast))
        return 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        if (!whole || eco_problem_input(problem, layer) % group != 0)
            time += fmax(input_work(problem, layer) / inputs,
                         chain * chains(problem, caps, layer, outside));
    return time + (outside & ECO_OUTSIDE_STEPS && !whole ? step_work(problem) / step : 0);
}

/* And those of copies instead, for a layer and chunk: in training of x and, back, of x, y and dx;
 * in inference of x, which everything waits for, so that it takes as long as two. */
static double copied(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double copies = problem->training ? 4 : 2;
    const double rows = (double)problem->T * problem->N, chunks = 1 + floor(rows / ECO_STEP_ROWS);
    double time = 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        time += copies * problem->D *
                (rates->copy_launch * chunks + 2 * rows * eco_problem_input(problem, layer) *
                                                   (double)eco_type_bytes(problem->type) /
                                                   rates->copy_bytes);
    return time;
}

bool eco_step_gains_by_groups(const struct eco_problem *problem, const struct eco_caps *caps,
                              unsigned outside)
{
    return lost(problem, caps, outside) > copied(problem, caps);
}

/* ---- products of all steps ------------------------------------------------------------------- */

double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps,
                         unsigned outside)
{
    double work = 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        work += input_work(problem, layer);
    return work / rate(problem, caps, true) +
           fmin(lost(problem, caps, outside), copied(problem, caps));
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* What steps of lanes beside each other take of their time one after the other, measured; of layers
 * in full F32 such that the whole estimate is near (doc/performance.md, "Pairs back"). */
static double overlap(const struct eco_problem *problem)
{
    if (problem->D > 1)
        return 0.8;
    if (problem->L > 1 && problem->T > ECO_STEP_CHUNK) /* layers overlap by chunks */
        return problem->type == ECORNN_F32 && !problem->fast ? 0.8 : 0.6;
    return 1;
}

/* Kernels of a step, so many seconds for each product.  In a run that is over at once they are put
 * in place early; what is left then is fitted to some 800 runs of 1 to 16 steps
 * (doc/performance.md, "Runs of few steps"). */
static double kernels(const struct eco_problem *problem, const struct eco_caps *caps,
                      double seconds)
{
    const double left = eco_type_narrow(problem->type) ? 0.7 : 0.8;
    const int products = problem->cell->lowered.n_operands;
    return seconds * (products > 1 ? products : 1) *
           (eco_step_is_over_at_once(problem, caps) ? left : 1);
}

/* In 16 bits a step takes as long as its multiply-adds, or R on its way from the L2, and the cell,
 * which back reads and writes more; fitted to LSTMs of 1152 to 2560 units and 16 to 128 rows on an
 * H200. */
static double narrow_step(const struct eco_problem *problem, const struct eco_caps *caps,
                          bool backward)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double plain = caps->flops * caps->threads;
    const double r = (double)problem->cell->lowered.n_accs * problem->H * problem->P;
    const double product = fmax(2 * r * problem->N / (rates->narrow_product * plain),
                                2 * r / (rates->near_narrow * plain));
    const double cell = backward ? rates->cell_back * problem->N * (double)problem->H : 0;
    return product + cell + kernels(problem, caps, rates->narrow_step[backward]);
}

/* In others a product and a cell's kernel take some us and longer, in training twice that, two
 * thirds of them back; of few rows R on its way is what takes long. */
static double wide_step(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool backward)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double plain = caps->flops * caps->threads;
    const double r = (double)problem->cell->lowered.n_accs * problem->H * problem->P;
    const double product = fmax(2 * r * problem->N / rate(problem, caps, false),
                                r * (double)eco_type_bytes(problem->type) / (rates->near * plain));
    if (!problem->training)
        return kernels(problem, caps, rates->full_step) + product;
    return (kernels(problem, caps, rates->full_training) + 2 * product) * (backward ? 2 : 1) / 3;
}

double eco_step_time(const struct eco_problem *problem, const struct eco_caps *caps, bool backward)
{
    const double steps = (double)problem->T * problem->L * problem->D;
    const double step = eco_type_narrow(problem->type) ? narrow_step(problem, caps, backward)
                                                       : wide_step(problem, caps, backward);
    return overlap(problem) * steps * step;
}

double eco_gpu_launches(const struct eco_problem *problem, const struct eco_caps *caps, int n)
{
    return eco_gpu_rates_of(caps)->launch * n * problem->L * problem->D;
}

/* Gradients of W and R on their way to memory. */
static double written(const struct eco_problem *problem, const struct eco_caps *caps)
{
    double elements = 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        elements += ((double)eco_problem_input(problem, layer) + problem->P) * problem->H *
                    problem->cell->lowered.n_accs * problem->D;
    return elements * (double)eco_type_bytes(eco_type_sum(problem->type)) /
           eco_gpu_rates_of(caps)->written_bytes;
}

double eco_gpu_after_back(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum { TOGETHER = 1, DX_W_R_VECTORS = 4 };
    const int launches = eco_gpu_grouped_follow(problem, caps) ? TOGETHER : DX_W_R_VECTORS;
    return eco_gpu_launches(problem, caps, launches) + written(problem, caps);
}

double eco_step_launches(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward)
{
    const double states = eco_gpu_launches(problem, caps, problem->cell->recipe.n_states);
    return states +
           (backward ? eco_gpu_after_back(problem, caps) : eco_gpu_launches(problem, caps, 1));
}
