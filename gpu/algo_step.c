/*
 * Algorithm step: a product and one fused kernel per step and stage.  Runs every cell, option
 * and type; what an algorithm of its own must beat.
 */
#include "gpu/few.h"
#include "gpu/half.h"
#include "gpu/prepared.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    (void)problem;
    (void)caps;
    return NULL;
}

/* Rows of a chunk: enough that the input product runs at full speed, few enough that its result
 * stays in the L2 until the steps read it. */
enum { ROWS = 4096, LEAST_STEPS = 8, MOST_CHUNKS = 12 };

/* For tests and comparisons: ECORNN_CHUNK=N asks for chunks of N steps, ECORNN_WAVEFRONT=0 for one
 * layer after the other. */
int32_t eco_step_asked(const struct eco_problem *problem)
{
    const char *asked = eco_environment("ECORNN_CHUNK");
    const long chunk = asked == NULL ? 0 : strtol(asked, NULL, 10);
    return chunk <= 0 ? 0 : chunk < problem->T ? (int32_t)chunk : problem->T;
}

static bool overlaps_layers(const struct eco_problem *problem)
{
    const char *asked = eco_environment("ECORNN_WAVEFRONT");
    return problem->L > 1 && problem->D == 1 && !(asked != NULL && strcmp(asked, "0") == 0);
}

/* Is what follows a layer's steps back one launch, and all of a run a chunk?  Then layers had
 * better follow each other. */
static bool is_over_at_once(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double rows = (double)problem->T * problem->N;
    const double widest = problem->I > problem->P ? problem->I : problem->P;
    return eco_gpu_has_few(problem, caps) && problem->T <= LEAST_STEPS &&
           eco_step_asked(problem) == 0 && rows <= ECO_FEW_ROWS &&
           rows * widest * problem->H * problem->cell->lowered.n_accs <= ECO_FEW_WORK;
}

static int32_t steps_for(const struct eco_problem *problem, bool wavefront)
{
    if (eco_step_asked(problem) > 0)
        return eco_step_asked(problem);
    int32_t steps = (ROWS + problem->N - 1) / problem->N;
    if (wavefront && steps > problem->T / MOST_CHUNKS)
        steps = problem->T / MOST_CHUNKS;
    return steps < LEAST_STEPS ? LEAST_STEPS : steps;
}

static size_t clamp(double value, double least, double most)
{
    return (size_t)(value < least ? least : value > most ? most : value);
}

/* Of gradients of vectors one value of each column at least (column.cu). */
static double sums_bytes(const struct eco_problem *problem)
{
    const struct eco_matrix vectors = eco_problem_matrix(problem, 0, ECO_PART_VECTORS);
    const struct eco_wishes aligned = {.aligned = ECO_GPU_ALIGNED};
    const size_t column = eco_wishes_row(&aligned, (size_t)vectors.units);
    return problem->training ? (double)vectors.n * (double)column *
                                       (double)eco_type_bytes(eco_type_sum(problem->type)) +
                                   ECO_ROOM_ALIGNMENT
                             : 0;
}

/* Partial sums of a step's product, split some ways.  F32 has products that want more, but not so
 * small a plan that this would be most of its memory; in full and where there are not many lanes,
 * operands that are split. */
static size_t sums_or_splits(const struct eco_problem *problem, const struct eco_caps *caps,
                             const struct eco_wishes *wishes)
{
    static const double least_work = 1e6;
    const double accs = problem->cell->lowered.n_accs * (double)problem->H;
    const double work = accs * problem->H * problem->N;
    const bool used = problem->training || !(problem->fast || eco_gpu_is_short(problem->N, work));
    const bool splits = caps->splits && !problem->fast && !wishes->wavefront &&
                        eco_gpu_wish_for_splits() != ECO_SPLIT_NEVER;
    if (problem->type == ECORNN_F32 && used && work >= least_work)
        return (splits ? ECO_SPLIT_ROOM_BYTES : ECO_SPLITTING_BYTES) + ECO_ROOM_ALIGNMENT;
    const double least = fmax(65536, sums_bytes(problem));
    return clamp(32 * accs * problem->N, least, fmax(least, 8 << 20));
}

size_t eco_step_product_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              const struct eco_wishes *wishes)
{
    const size_t bytes = sums_or_splits(problem, caps, wishes),
                 halves = eco_half_bytes(problem, caps, wishes);
    return bytes > halves ? bytes : halves;
}

/* What ECORNN_ROWS asks for, for tests and comparisons: "filled", or "dense"; else the planner
 * chooses. */
enum asked { NOTHING, FILLED, DENSE };

static enum asked asked_for(void)
{
    const char *rows = eco_environment("ECORNN_ROWS");
    if (rows == NULL || *rows == '\0')
        return NOTHING;
    return strcmp(rows, "filled") == 0 ? FILLED : DENSE;
}

/* cuBLAS reads R^T by rows faster than R in full F32 where the batch has so many rows, measured
 * from so many units on; not where layers of a wavefront share the chip.  The copy wants some
 * steps. */
static bool turns_forward(const struct eco_problem *problem)
{
    enum { ROWS_ALIVE = 32, UNITS = 512, STEPS = 16 };
    if (asked_for() != NOTHING)
        return asked_for() == FILLED;
    return problem->type == ECORNN_F32 && !problem->fast && problem->N >= ROWS_ALIVE &&
           problem->H >= UNITS && problem->T >= STEPS && !overlaps_layers(problem);
}

/* It multiplies in TF32 twice as fast where k is contiguous in both operands. */
static bool turns_back(const struct eco_problem *problem)
{
    enum { STEPS = 4 };
    return problem->type == ECORNN_F32 && problem->fast && problem->T >= STEPS;
}

static void wishes(const struct eco_problem *problem, const struct eco_caps *caps,
                   struct eco_wishes *wishes)
{
    const bool wavefront = overlaps_layers(problem) && !is_over_at_once(problem, caps);
    const int32_t steps = steps_for(problem, wavefront);
    const size_t prepared[2] = {wavefront ? 0 : eco_gpu_prepared_bytes(problem, caps, false),
                                wavefront ? 0 : eco_gpu_prepared_bytes(problem, caps, true)};
    *wishes = (struct eco_wishes){
        .wavefront = wavefront,
        .lean = true,
        .widened = problem->weight_type != problem->type,
        .prepared_bytes = {prepared[0], prepared[1]},
        .turned = {prepared[0] == 0 && turns_forward(problem),
                   prepared[1] == 0 && problem->training && turns_back(problem)},
        .rows_apart = problem->type != ECORNN_F32 || !problem->fast, /* gpu/half.h */
        .aligned = ECO_GPU_ALIGNED,
        .filled = eco_step_fills(problem, caps, true),
        .chunk = steps,
        .chunk_backward = steps,
        .weights_chunks = wavefront ? (int32_t)(ROWS / ((int64_t)steps * problem->N)) : 0,
    };
    wishes->product_bytes = eco_step_product_bytes(problem, caps, wishes);
}

/* Multiply-adds a second of a product of few rows (not in 16 bits), and of one of many: how many
 * times those of plain float arithmetic, by type; fitted to times of BF16 on an H200, of the other
 * types taken from their peaks. */
static double rate(const struct eco_problem *problem, const struct eco_caps *caps, bool many_rows)
{
    const double plain = caps->flops * caps->threads;
    if (eco_type_bytes(problem->type) == 2)
        return plain * 10;
    if (problem->type == ECORNN_F32 && problem->fast)
        return plain * (many_rows ? 4 : 1.5);
    return plain * (many_rows ? 0.8 : 0.5);
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

/* Seconds that products lose where a dimension is no multiple of 16 bytes, measured on an H200
 * (doc/performance.md): in 16 bits they take three times as long, in TF32 twice, those of a step as
 * well.  Full F32 loses nothing. */
static double lost(const struct eco_problem *problem, const struct eco_caps *caps, bool steps)
{
    const int32_t element = (int32_t)eco_type_bytes(problem->type), group = 16 / element;
    const bool whole = problem->H % group == 0 && problem->P % group == 0;
    const double plain = caps->flops * caps->threads;
    double work = 0;
    if (element == 8 || (element == 4 && !problem->fast))
        return 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        if (!whole || eco_problem_input(problem, layer) % group != 0)
            work += input_work(problem, layer);
    const double inputs = work / (plain * (element == 2 ? 3.6 : 2.7));
    return inputs +
           (steps && !whole ? step_work(problem) / (plain * (element == 2 ? 0.7 : 0.47)) : 0);
}

/* And those of copies instead: of x and, back, of x, y and dx, for a layer and chunk. */
static double copied(const struct eco_problem *problem)
{
    static const double launch = 2e-6, bytes_per_s = 2e12;
    const double copies = problem->training ? 4 : 1;
    const double rows = (double)problem->T * problem->N, chunks = 1 + floor(rows / ROWS);
    double time = 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        time += copies * problem->D *
                (launch * chunks + 2 * rows * eco_problem_input(problem, layer) *
                                       (double)eco_type_bytes(problem->type) / bytes_per_s);
    return time;
}

bool eco_step_fills(const struct eco_problem *problem, const struct eco_caps *caps, bool steps)
{
    if (asked_for() != NOTHING)
        return asked_for() == FILLED;
    return lost(problem, caps, steps) > copied(problem);
}

/* ---- estimate -------------------------------------------------------------------------------- */

double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps, bool steps)
{
    double work = 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        work += input_work(problem, layer);
    return work / rate(problem, caps, true) + fmin(lost(problem, caps, steps), copied(problem));
}

/* What steps of lanes beside each other take of their time one after the other, measured; of layers
 * in full F32 such that the whole estimate is near (doc/performance.md, "Pairs back"). */
static double overlap(const struct eco_problem *problem)
{
    if (problem->D > 1)
        return 0.8;
    if (problem->L > 1)
        return problem->type == ECORNN_F32 && !problem->fast ? 0.8 : 0.6;
    return 1;
}

/* In 16 bits a step takes as long as its multiply-adds, or R on its way from the L2, and the cell,
 * which back reads and writes more; fitted to LSTMs of 1152 to 2560 units and 16 to 128 rows on an
 * H200. */
static double narrow_step(const struct eco_problem *problem, const struct eco_caps *caps,
                          bool backward)
{
    const double plain = caps->flops * caps->threads;
    const double r = (double)problem->cell->lowered.n_accs * problem->H * problem->P;
    const double product = fmax(2 * r * problem->N / (9.3 * plain), 2 * r / (0.12 * plain));
    return product + (backward ? 6.3e-6 + 40e-12 * problem->N * (double)problem->H : 5.5e-6);
}

/* In others a product and a cell's kernel take 4.6 us and longer, in training 10, two thirds of
 * them back. */
static double wide_step(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool backward)
{
    const double accs = problem->cell->lowered.n_accs * (double)problem->H;
    const double product = 2 * accs * problem->P * problem->N / rate(problem, caps, false);
    if (!problem->training)
        return 4.6e-6 + product;
    return (10e-6 + 2 * product) * (backward ? 2 : 1) / 3;
}

double eco_step_time(const struct eco_problem *problem, const struct eco_caps *caps, bool backward)
{
    const double steps = (double)problem->T * problem->L * problem->D;
    const double step = eco_type_bytes(problem->type) == 2 ? narrow_step(problem, caps, backward)
                                                           : wide_step(problem, caps, backward);
    return overlap(problem) * steps * step;
}

double eco_gpu_launches(const struct eco_problem *problem, int n)
{
    static const double launch = 2.4e-6;
    return launch * n * problem->L * problem->D;
}

double eco_step_launches(const struct eco_problem *problem, bool backward)
{
    return eco_gpu_launches(problem, problem->cell->recipe.n_states +
                                         (backward ? ECO_GPU_PRODUCTS_BACK : 1));
}

/* Seconds; lanes overlap. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_step_launches(problem, false) +
           (problem->training ? eco_step_launches(problem, true) : 0) +
           eco_step_time(problem, caps, false) +
           (problem->training ? eco_step_time(problem, caps, true) : 0) +
           eco_step_products(problem, caps, true);
}

static ecornn_status run(const struct ecornn_plan *plan, const struct eco_tape *tape,
                         const struct eco_layout *layout, const struct eco_args *args)
{
    return eco_gpu_run_plan(plan, tape, layout, args, NULL);
}

const struct eco_algo eco_algo_step = {"step", refuses, wishes, estimate, run};
