/*
 * Estimates of products over the rows of many steps: of inputs and, in training, of gradients.
 */
#include <math.h>

#include "gpu/algo/algo.h"
#include "gpu/device/rates.h"
#include "gpu/gemm/emulated_f32/tiling.h"
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"

/* ---- forms ----------------------------------------------------------------------------------- */

enum eco_cost_form eco_cost_form(const struct eco_problem *problem)
{
    if (eco_type_narrow(problem->type))
        return ECO_COST_NARROW;
    return problem->type == ECORNN_F32 && problem->fast ? ECO_COST_FAST : ECO_COST_FULL;
}

double eco_cost_accs(const struct eco_problem *problem, bool recurrent)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    int count = 0;
    for (int a = 0; a < lowered->n_accs; a++) {
        count += !recurrent && lowered->acc[a].input >= 0;
        for (int o = 0; recurrent && o < lowered->n_operands; o++)
            count += lowered->acc[a].recurrent[o] >= 0;
    }
    return (double)count * problem->H;
}

/* ---- one product ----------------------------------------------------------------------------- */

/* C[m,n] of k terms. */
struct size {
    enum eco_product_kind kind;
    double m, n, k;
};

/* Full F32: split operands, or plain multiply-adds; few rows take as long as reading the matrix. */
static double full_time(const struct eco_problem *problem, const struct eco_caps *caps,
                        struct size size)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const enum eco_use use = eco_gpu_use(problem, ECO_FORCE_EMULATED_F32);
    const double read = size.kind == ECO_TN ? 0 : size.n * size.k * rates->cublas_step_many_rows[0],
                 fma = rates->full_launch +
                       fmax(size.m * size.n * size.k / rates->full_multiply_adds, read);
    const struct eco_emulated_size whole = {(int32_t)size.m, (int32_t)size.n, (int32_t)size.k};
    if (!caps->gpu.splits || use == ECO_USE_NEVER || size.k < ECO_EMULATED_LEAST_TERMS ||
        size.m * size.n > INT32_MAX)
        return fma;
    const struct eco_emulated_plan plan =
        eco_emulated_plan(rates, whole, caps->threads, ECO_EMULATED_ROOM_BYTES, -1);
    return plan.k == 0 ? fma : use >= ECO_USE_ALWAYS ? plan.time : fmin(fma, plan.time);
}

/* Seconds of a launch (unless all products share one) and the multiply-adds, or of the longest
 * chain of terms in a tile. For weight gradients tiles divide the terms. */
static double product_time(const struct eco_problem *problem, const struct eco_caps *caps,
                           struct size size, bool together)
{
    const enum eco_cost_form form = eco_cost_form(problem);
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double work = size.m * size.n * size.k;
    if (form == ECO_COST_FULL)
        return full_time(problem, caps, size);
    const double read = size.n * size.k * (double)eco_type_bytes(problem->type) / rates->l2_bytes,
                 least = size.kind == ECO_TN ? 0 : fmax(size.k * rates->product_term, read);
    const double launch = size.kind == ECO_TN && form == ECO_COST_FAST
                              ? rates->fast_weights_launch
                              : rates->product_launch[form];
    return (together ? 0 : launch) + fmax(work / rates->product_multiply_adds[form], least);
}

double eco_product_time(const struct eco_problem *problem, const struct eco_caps *caps, double m,
                        double n, double k)
{
    return product_time(problem, caps, (struct size){ECO_NT, m, n, k}, false);
}

/* ---- all products of a layer ----------------------------------------------------------------- */

/* Products of one chunk of a layer; sums are written in F32. */
static double input_time(const struct eco_problem *problem, const struct eco_caps *caps,
                         int32_t layer, double rows)
{
    const double accs = eco_cost_accs(problem, false);
    return product_time(problem, caps,
                        (struct size){ECO_NT, rows, accs, eco_problem_rest(problem, layer)},
                        false) +
           rows * accs * (double)eco_type_bytes(eco_type_sum(problem->type)) /
               eco_gpu_rates_of(caps)->stream_bytes;
}

/* The gradient of R has no term for the first step. */
static double back_time(const struct eco_problem *problem, const struct eco_caps *caps,
                        int32_t layer, double rows)
{
    const double accs = eco_cost_accs(problem, false), recurrent = eco_cost_accs(problem, true),
                 input = eco_problem_rest(problem, layer),
                 later = rows * (problem->T - 1) / problem->T;
    const bool together = eco_gpu_grouped_follow(problem, caps);
    return product_time(problem, caps, (struct size){ECO_NN, rows, input, accs}, together) +
           product_time(problem, caps, (struct size){ECO_TN, accs, input, rows}, together) +
           (later > 0 ? product_time(problem, caps,
                                     (struct size){ECO_TN, recurrent, problem->P, later}, together)
                      : 0);
}

double eco_products_time(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward, const struct eco_layout_request *request)
{
    const int32_t requested = backward ? request->chunk_backward : request->chunk,
                  chunk = requested > 0 && requested < problem->T ? requested : problem->T;
    const double chunks = (double)problem->T / chunk, rows = (double)chunk * problem->N;
    double time = 0;
    for (int32_t layer = 0; layer < problem->L; layer++)
        time += (backward ? back_time : input_time)(problem, caps, layer, rows) -
                eco_scaled_f16_gain(problem, caps, request, layer, backward);
    return time * problem->D * chunks;
}
