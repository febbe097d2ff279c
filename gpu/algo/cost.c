/*
 * Estimates of algorithm step, by its parts; other algorithms share some of them.
 */
#include <math.h>

#include "gpu/algo/force.h"
#include "gpu/gemm/grouped/args.h"
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/emulated_f32/presplit.h"
#include "gpu/algo/algo.h"
#include "gpu/device/rates.h"
#include "gpu/wide_step/wide_step.h"

int32_t eco_step_asked(const struct eco_problem *problem, bool backward)
{
    const int32_t all = eco_forced(problem, ECO_FORCE_GPU_CHUNK, 0),
                  back = backward ? eco_forced(problem, ECO_FORCE_GPU_CHUNK_BACK, 0) : 0,
                  chunk = back > 0 ? back : all;
    return chunk < problem->T ? chunk : problem->T;
}

/* Steps whose accumulators, or gradients of them, take a few times the L2, beyond which they are
 * read from memory, or as much as reading and writing the gradients of weights; from `least` to
 * twice as many. */
static int32_t fitting_steps(const struct eco_problem *problem, bool backward, int32_t least)
{
    static const double few_times_l2 = 160e6;
    const double accs = (double)problem->cell->lowered.n_accs * problem->H,
                 element = backward ? (double)eco_type_bytes(problem->type) : sizeof(float),
                 weights = backward ? 2 * accs * 2 * problem->P * sizeof(float) : 0,
                 steps = fmax(few_times_l2, weights) / (element * accs * problem->N * problem->D);
    return (int32_t)fmin(fmax(steps, least), 2 * least);
}

/* The most steps of a chunk. Backward each chunk reads and writes the gradients of all weights, so
 * chunks have as many rows in 16 bits as otherwise, whose sums take four bytes too, but at most
 * half of the steps: the workspace stays smaller than the reserve. */
static int32_t most_steps(const struct eco_problem *problem, bool backward, bool wavefront)
{
    enum { MOST_CHUNKS = 12, MORE_ROWS = 2 * ECO_STEP_ROWS };
    const bool narrow = eco_type_narrow(problem->type);
    const int32_t steps = eco_ceil_div(narrow ? ECO_STEP_ROWS : MORE_ROWS, problem->N);
    if (wavefront)
        return (int32_t)fmax(fmin(steps, problem->T / MOST_CHUNKS),
                             fitting_steps(problem, false, ECO_STEP_CHUNK / 2));
    if (!backward || problem->saving.policy != ECO_SAVE_ALL)
        return steps < ECO_STEP_CHUNK ? ECO_STEP_CHUNK : steps;
    const int32_t more = eco_ceil_div(MORE_ROWS, problem->N);
    return (int32_t)fmax(fmax(steps, fmin(more, eco_ceil_div(problem->T, 2))),
                         fitting_steps(problem, true, ECO_STEP_CHUNK));
}

/* Split operands of a long chunk in full F32 take more than their room, and each further piece
 * reads and writes all sums: then shorter chunks take less time. They are chosen if that shows:
 * estimates lack some of what a chunk costs. */
static int32_t steps_for(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward, bool wavefront)
{
    static const double shows = 0.98;
    double least = HUGE_VAL;
    int32_t best = most_steps(problem, backward, wavefront), steps = best;
    if (eco_step_asked(problem, backward) > 0)
        return eco_step_asked(problem, backward);
    while (!wavefront && eco_cost_form(problem) == ECO_COST_FULL) {
        const struct eco_layout_request request = {.chunk = steps, .chunk_backward = steps};
        const double time = eco_products_time(problem, caps, backward, &request);
        if (time >= shows * least)
            break;
        least = time;
        best = steps;
        steps = eco_ceil_div(problem->T, 2 * eco_ceil_div(problem->T, steps));
    }
    return best;
}

struct eco_layout_request eco_step_chunks(const struct eco_problem *problem,
                                          const struct eco_caps *caps, bool wavefront)
{
    const int32_t back = eco_saving_chunk(problem, steps_for(problem, caps, true, wavefront));
    const int64_t rows = (int64_t)back * problem->N;
    return (struct eco_layout_request){.wavefront = wavefront,
                                       .chunk = steps_for(problem, caps, false, wavefront),
                                       .chunk_backward = back,
                                       .gpu.weights_chunks =
                                           wavefront && problem->saving.policy == ECO_SAVE_ALL
                                               ? (int32_t)(ECO_STEP_ROWS / rows)
                                               : 0};
}

bool eco_step_is_short(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_gpu_grouped_follow(problem, caps) && problem->T <= ECO_STEP_CHUNK &&
           eco_step_asked(problem, true) == 0;
}

/* ---- rows in whole groups -------------------------------------------------------------------- */

/* Twice the multiply-adds of all steps: input products, or their gradients and that of R; recurrent
 * products. */
static double input_work(const struct eco_problem *problem, int32_t layer, bool backward)
{
    const double input = eco_problem_input(problem, layer);
    return 2. * problem->cell->lowered.n_accs * problem->H * problem->N * problem->D * problem->T *
           (backward ? 2 * input + problem->P : input);
}

static double step_work(const struct eco_problem *problem)
{
    return 2. * problem->cell->lowered.n_accs * problem->H * problem->P * problem->N * problem->L *
           problem->D * (problem->T - 1) * (problem->training ? 2 : 1);
}

/* The length of the sums of a layer's products, which few rows do not shorten: forward the input
 * product, backward dx. Few rows have a grouped dx, without such a sum. Gradients of weights split
 * their sums. */
static double chains(const struct eco_problem *problem, const struct eco_caps *caps, int32_t layer,
                     bool backward, unsigned outside)
{
    const double rows = (double)problem->T * problem->N;
    const bool grouped = eco_gpu_has_grouped(problem, caps) && rows <= ECO_GROUPED_ROWS;
    if (!backward)
        return outside & ECO_OUTSIDE_INPUT ? problem->D * eco_problem_input(problem, layer) : 0;
    return grouped ? 0 : (double)problem->D * problem->cell->lowered.n_accs * problem->H;
}

/* Are there rows of a layer that are no multiple of 16 bytes? Of the states alone: layer -1. */
static bool is_ragged(const struct eco_problem *problem, int32_t layer)
{
    const int32_t group = 16 / (int32_t)eco_type_bytes(problem->type);
    return problem->H % group != 0 || problem->P % group != 0 ||
           (layer >= 0 && eco_problem_input(problem, layer) % group != 0);
}

/* Seconds that products lose where a dimension is no multiple of 16 bytes.  As measured on an H200,
 * 16-bit products take three times as long and TF32 products twice; the products of a step lose as
 * much.  A small product loses one wave of blocks, which goes through all of k.  Full F32 loses
 * nothing, and neither do products that convert their operands. */
static double lost(const struct eco_problem *problem, const struct eco_caps *caps, unsigned outside)
{
    const size_t element = eco_type_bytes(problem->type);
    const bool fast = element == 4;
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double plain = caps->flops * caps->threads, inputs = plain * rates->unaligned[fast],
                 step = plain * rates->unaligned_step[fast], chain = rates->unaligned_term;
    const struct eco_layout_request chunks = eco_step_chunks(problem, caps, false);
    double time = 0;
    if (element == 8 || (element == 4 && !problem->fast))
        return 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        for (int way = 0; way <= (int)problem->training; way++)
            if (is_ragged(problem, layer) &&
                eco_scaled_f16_gain(problem, caps, &chunks, layer, way) == 0)
                time += fmax(input_work(problem, layer, way) / inputs,
                             chain * chains(problem, caps, layer, way, outside));
    return time +
           (outside & ECO_OUTSIDE_STEPS && is_ragged(problem, -1) ? step_work(problem) / step : 0);
}

/* Seconds of padding rows instead, by copies for each layer and chunk: in training x forward, and
 * x, y and dx backward; in inference x, which counts twice because everything waits for it. */
static double copied(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct eco_layout_request chunks = eco_step_chunks(problem, caps, false);
    const double rows = (double)problem->T * problem->N,
                 forward = ceil((double)problem->T / chunks.chunk),
                 back = ceil((double)problem->T / chunks.chunk_backward),
                 copies = problem->training ? forward + 3 * back : 2 * forward;
    double time = 0;
    for (int32_t layer = 0; layer < problem->L; layer++) {
        const double input = eco_problem_input(problem, layer),
                     row = problem->training ? 3 * input + problem->P : 2 * input;
        if (is_ragged(problem, layer))
            time += problem->D *
                    (copies * rates->pass_launch +
                     2 * rows * row * (double)eco_type_bytes(problem->type) / rates->memory_bytes);
    }
    return time;
}

bool eco_step_gains_by_groups(const struct eco_problem *problem, const struct eco_caps *caps,
                              unsigned outside)
{
    return lost(problem, caps, outside) > copied(problem, caps);
}

double eco_step_lost(const struct eco_problem *problem, const struct eco_caps *caps,
                     unsigned outside)
{
    return fmin(lost(problem, caps, outside), copied(problem, caps));
}

double eco_step_products(const struct eco_problem *problem, const struct eco_caps *caps,
                         unsigned outside)
{
    const struct eco_layout_request chunks = eco_step_chunks(problem, caps, false);
    return eco_products_time(problem, caps, false, &chunks) +
           (problem->training ? eco_products_time(problem, caps, true, &chunks) : 0) +
           eco_step_lost(problem, caps, outside);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Seconds of a step: its latency, and the time for which it keeps the device busy. */
struct step {
    double alone, busy;
    double before; /* once for a layer */
};

/* Launches for each product.  In a run of few steps kernels are put in place early; the share of
 * their time that remains is fitted to some 800 runs of 1 to 16 steps on an H200. */
static double kernels(const struct eco_problem *problem, const struct eco_caps *caps,
                      double seconds)
{
    const double left = eco_type_narrow(problem->type) ? 0.7 : 0.8;
    const int products = problem->cell->lowered.n_operands;
    return seconds * (products > 1 ? products : 1) * (eco_step_is_short(problem, caps) ? left : 1);
}

/* `seconds` excludes the launches. Other work overlaps launches, up to this share of a step. */
static struct step step_of(const struct eco_problem *problem, const struct eco_caps *caps,
                           bool backward, double launches, double seconds)
{
    static const double most = 0.7;
    const enum eco_cost_form form = eco_cost_form(problem);
    const double alone =
        kernels(problem, caps, launches) + seconds +
        (problem->projected ? eco_product_time(problem, caps, problem->N, problem->P, problem->H)
                            : 0);
    const double hidden =
        kernels(problem, caps, eco_gpu_rates_of(caps)->step_overlapped[form][backward]);
    return (struct step){alone, alone - fmin(hidden, most * alone), 0};
}

/* Bytes of a unit that a step's kernels read and write: forward accumulators, to which the product
 * adds, and states; backward saved values, gradients of accumulators, which the product reads, and
 * gradients of states. halves: gradients of accumulators are F16. */
static double bytes_of(const struct eco_problem *problem, bool backward, bool halves)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const double element = (double)eco_type_bytes(problem->type),
                 sum = (double)eco_type_bytes(eco_type_sum(problem->type)),
                 states = problem->cell->recipe.n_states * 2 * sum + 2 * element,
                 saved = problem->training ? lowered->n_saves * element : 0;
    return states + saved +
           lowered->n_accs * (backward ? 2 * (halves ? element / 2 : element) : 3 * sum);
}

/* halves: a fast step back whose product is in F16. */
static struct step narrow_step(const struct eco_problem *problem, const struct eco_caps *caps,
                               bool backward, bool halves)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double accs = eco_cost_accs(problem, true), r = accs * problem->P,
                 k = backward ? accs : problem->P;
    const double product =
                     fmax(fmax(r * problem->N / rates->step_multiply_adds, 2 * r / rates->l2_bytes),
                          k * rates->step_term),
                 bytes = bytes_of(problem, backward, halves) * problem->N * problem->H;
    const bool wide = backward && eco_gpu_has_wide_back(problem, caps, problem->N);
    const double rate = !wide    ? rates->step_bytes[ECO_COST_NARROW]
                        : halves ? rates->step_bytes[ECO_COST_FAST]
                                 : rates->wide_back_bytes;
    return step_of(problem, caps, backward,
                   wide ? rates->wide_back_launch : rates->step_launch[ECO_COST_NARROW][backward],
                   product + bytes / rate);
}

/* Seconds of such products, in addition to what they read. */
static const double FEW_ROWS = 5e-6;

/* Estimates of F32 products include launches. R is not prepared if layers overlap. */
static struct step float_step(const struct eco_problem *problem, const struct eco_caps *caps,
                              bool backward, bool wavefront)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const enum eco_cost_form form = eco_cost_form(problem);
    const double accs = eco_cost_accs(problem, true);
    double before = 0,
           product = eco_gpu_step_product_time(problem, caps, backward, !wavefront, &before);
    if (eco_step_is_short(problem, caps)) /* few rows have kernels of their own */
        product -= fmax(0, rates->cublas_step_launches[form == ECO_COST_FAST][backward] - FEW_ROWS);
    if (form == ECO_COST_FULL && before <= 0)
        product =
            fmin(product, eco_product_time(problem, caps, problem->N, backward ? problem->P : accs,
                                           backward ? accs : problem->P));
    const double cell =
        bytes_of(problem, backward, false) * problem->N * problem->H / rates->step_bytes[form];
    struct step step =
        step_of(problem, caps, backward, rates->step_launch[form][backward], product + cell);
    step.before = before;
    return step;
}

/* A step forward: a product with the cell or, if that is faster, a wide step, whose shape is
 * returned, or -1. */
static int forward_step(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool wavefront, struct step *step)
{
    const bool forced = eco_forced(problem, ECO_FORCE_FUSED, ECO_NOT_FORCED) >= 0;
    const struct eco_wide_choice wide = eco_wide_choose_adding(problem, caps);
    *step = eco_cost_form(problem) == ECO_COST_NARROW ? narrow_step(problem, caps, false, false)
                                                      : float_step(problem, caps, false, wavefront);
    if (wide.shape < 0 || (wide.time >= step->alone && !forced))
        return -1;
    *step = (struct step){wide.time, wide.time, 0};
    return wide.shape;
}

int eco_step_wide_shape(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool wavefront)
{
    struct step step;
    return forward_step(problem, caps, wavefront, &step);
}

/* Seconds of two concurrent activities: about the longer one, and more if both are long. */
static double concurrent_time(double a, double b)
{
    return cbrt(a * a * a + b * b * b);
}

/* A chunk begins when that of the layer below has ended. What keeps the device busy does not
 * overlap. */
static double wave_time(const struct eco_problem *problem, struct step step, double steps,
                        int32_t chunk, double products)
{
    const double layers = problem->L,
                 critical =
                     (steps + (layers - 1) * fmin(chunk, steps)) * step.alone + products / layers,
                 busy = layers * steps * step.busy + products;
    return concurrent_time(critical, busy);
}

double eco_step_time(const struct eco_problem *problem, const struct eco_caps *caps, bool backward,
                     const struct eco_layout_request *request)
{
    const bool halves = backward && eco_scaled_f16_halves(problem, caps, request);
    struct step step;
    if (!backward)
        (void)forward_step(problem, caps, request->wavefront, &step);
    else
        step = halves || eco_cost_form(problem) == ECO_COST_NARROW
                   ? narrow_step(problem, caps, true, halves)
                   : float_step(problem, caps, true, request->wavefront);
    /* half a step less: the first one (states are 0) and the last one backward have no product */
    const double products = eco_products_time(problem, caps, backward, request),
                 steps = problem->T - 0.5;
    if (request->wavefront)
        return wave_time(problem, step, steps, backward ? request->chunk_backward : request->chunk,
                         products);
    const double lane = steps * step.alone;
    return problem->L * ((problem->D > 1 ? concurrent_time(lane, 2 * steps * step.busy) : lane) +
                         problem->D * step.before) +
           products;
}

double eco_gpu_launches(const struct eco_problem *problem, const struct eco_caps *caps, int n)
{
    return eco_gpu_rates_of(caps)->launch * n * problem->L * problem->D;
}

double eco_step_launches(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward)
{
    const double states = eco_gpu_launches(problem, caps, problem->cell->recipe.n_states);
    return states + (backward ? eco_gpu_launches(problem, caps, ECO_AFTER_BACK) : 0);
}
