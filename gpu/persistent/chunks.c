/*
 * The lengths of algorithm persistent's chunks, and what memory they share.
 */
#include <math.h>

#include "gpu/gemm/gemm.h"
#include "gpu/persistent/persistent.h"
#include "gpu/algo/algo.h"

/* ---- steps ----------------------------------------------------------------------------------- */

/* Chunks are limited by the bytes that steps read and exchange, and in full F32 by the rows of sums
 * for weight gradients. Otherwise they are as few as possible, because each has launches and reads
 * R again. If such chunks had few steps, they may take more bytes. Forward, an exchanged number
 * (padding rows included) counts as many bytes as the accumulators of an LSTM unit. Overlapping
 * layers have a chunk each. */
enum {
    BYTES = 60 << 20,
    BYTES_OF_FEW_STEPS = 120 << 20,
    BYTES_OF_MANY_ROWS = 300 << 20, /* split operands fit in this */
    MANY_ROWS = 128,
    FEW_STEPS = 128,
    OF_EACH_LAYER = 30 << 20,
    SENT_BYTES = 16,
    ROWS = 32768,
    LEAST_STEPS = 32,
    LONG_RUN = 350 /* steps */
};

/* Bytes of a step. */
static double step_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward)
{
    struct eco_persistent_shape shape;
    const struct eco_persistent_need need =
        eco_persistent_need(problem, caps, backward, problem->N, 1, 1);
    const size_t value = eco_type_bytes(backward ? problem->type : ECORNN_F32);
    const double accs =
        (double)problem->cell->lowered.n_accs * problem->H * (double)value * problem->N;
    if (!(eco_persistent_shape(&need, &shape) > 0))
        return accs;
    const double sent = (double)shape.exchange_bytes * (backward ? 1. : SENT_BYTES / need.operand);
    return fmax(accs, sent);
}

/* Steps of even chunks within the limits of bytes and rows of sums. */
static int32_t even_steps(const struct eco_problem *problem, double step_bytes, int32_t bytes,
                          bool backward)
{
    const bool sums = backward && eco_cost_form(problem) == ECO_COST_FULL;
    const double rows = sums ? (double)problem->N / ROWS : 0;
    return (int32_t)ceil(problem->T / ceil(problem->T * fmax(step_bytes / bytes, rows)));
}

/* About the bytes of cuDNN's workspace, as measured on an H100: for each layer its weights and 7
 * MiB; and T N H numbers, once for each gate, or once in a long run and twice if it trains. */
static double cudnn_bytes(const struct eco_problem *problem)
{
    enum { MORE = 7 << 20 };
    const double accs = problem->cell->lowered.n_accs, size = (double)eco_type_bytes(problem->type),
                 output = (double)problem->N * problem->H * problem->T * size,
                 weights = MORE + 2 * accs * problem->H * problem->P * size,
                 gates = accs + .6 + problem->L - 1,
                 outputs = problem->T > LONG_RUN ? problem->training ? 2 : 1 : gates;
    return fmin(gates, outputs) * output + weights * problem->L;
}

/* Steps of even chunks whose workspace is at most about 1.25 times that of cuDNN. A
 * further chunk takes longest in full F32: training is not cut, and inference only if it fits then.
 */
static int32_t thrifty_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward)
{
    enum { THRIFTY_STEPS = 48, FULL_STEPS = 64 };
    const bool full = eco_cost_form(problem) == ECO_COST_FULL;
    struct eco_persistent_shape shape;
    const struct eco_persistent_need need =
        eco_persistent_need(problem, caps, backward, problem->N, 1, 1);
    if ((full && problem->training) || !(eco_persistent_shape(&need, &shape) > 0))
        return problem->T;
    const double accs = problem->cell->lowered.n_accs, T = problem->T,
                 size = (double)eco_type_bytes(problem->type),
                 units = (double)problem->N * problem->H,
                 step = accs * units * (backward ? size : sizeof(float)) +
                        (double)shape.exchange_bytes,
                 /* dx of layers */
        between = backward ? fmin(problem->L - 1, problem->D == 1 ? 1 : 2) * units * T * size : 0,
                 allowed = 1.25 * cudnn_bytes(problem) - between,
                 most = fmax(1, floor(T / (full ? FULL_STEPS : THRIFTY_STEPS)));
    double room = fmin(ECO_NARROW_BYTES, 32 * accs * units);
    for (double chunks = 1; chunks <= most; chunks++) {
        struct eco_layout_request request = {.chunk = (int32_t)ceil(T / chunks),
                                             .gpu.steps_exchange = true};
        request.chunk_backward = request.chunk;
        if (full)
            room = (double)eco_step_product_bytes(problem, caps, &request);
        if (step * T / chunks + room <= allowed)
            return request.chunk;
    }
    return full ? problem->T : (int32_t)ceil(T / most);
}

int32_t eco_persistent_most_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                                  bool backward, bool wavefront)
{
    const double bytes = step_bytes(problem, caps, backward);
    int32_t steps = even_steps(problem, bytes, wavefront ? OF_EACH_LAYER : BYTES, backward);
    if (!wavefront && steps < FEW_STEPS)
        steps = even_steps(problem, bytes,
                           problem->N >= MANY_ROWS && eco_cost_form(problem) != ECO_COST_FULL
                               ? BYTES_OF_MANY_ROWS
                               : BYTES_OF_FEW_STEPS,
                           backward);
    const int32_t thrifty = wavefront ? steps : thrifty_steps(problem, caps, backward),
                  least = steps < thrifty ? steps : thrifty;
    return least < LEAST_STEPS ? LEAST_STEPS : least;
}

int32_t eco_persistent_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward)
{
    const int32_t asked = eco_step_asked(problem, backward);
    return asked > 0 ? asked : eco_persistent_most_steps(problem, caps, backward, false);
}

int32_t eco_persistent_steps_back(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const int32_t steps = eco_persistent_steps(problem, caps, true);
    const double step = (double)problem->cell->lowered.n_saves * problem->H * problem->N *
                        (double)eco_type_bytes(problem->type);
    if (problem->saving.policy == ECO_SAVE_ALL || eco_step_asked(problem, true) > 0 ||
        step * steps <= ECO_L2_BYTES)
        return steps;
    const int32_t fitting = (int32_t)fmax(ECO_L2_BYTES / step, LEAST_STEPS),
                  chunks = (problem->T + fitting / 2) / fitting;
    return chunks > 1 ? (problem->T + chunks - 1) / chunks : problem->T;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Does the exchange of a pass share memory with products? Its marks then wait for these, instead of
 * overlapping: not for little memory, nor in a replay if marks are many and what is saved is
 * little. Layers of a wavefront do not wait for each other. */
static bool shares(const struct eco_problem *problem, const struct eco_layout_request *request,
                   bool backward)
{
    enum { LEAST_BYTES = 4 << 20 };
    const double steps = fmin(backward ? request->chunk_backward : request->chunk, problem->T),
                 exchange = steps * (double)request->exchange[backward].most,
                 room = (double)request->gpu.product_bytes;
    if (backward)
        return problem->saving.policy == ECO_SAVE_ALL || 2 * room >= exchange;
    return !request->wavefront && exchange >= LEAST_BYTES && room >= LEAST_BYTES;
}

static size_t workspace_of(const struct eco_problem *problem,
                           const struct eco_layout_request *request, enum eco_layout_kind kind)
{
    struct eco_layout layout;
    eco_layout_build(&layout, problem, request, problem->T, problem->N, kind);
    return layout.workspace_bytes;
}

/* Two chunks take no longer than one if steps back are products in full F32. */
static void halve_large(const struct eco_problem *problem, const struct eco_caps *caps,
                        struct eco_layout_request *request)
{
    enum { LEAST_STEPS_BACK = 24 };
    const int32_t half = (problem->T + 1) / 2;
    if (eco_cost_form(problem) != ECO_COST_FULL || problem->D > 1 || half < LEAST_STEPS_BACK ||
        workspace_of(problem, request, ECO_LAYOUT_TRAIN) <= 1.25 * cudnn_bytes(problem))
        return;
    request->chunk = request->chunk < half ? request->chunk : half;
    request->chunk_backward = request->chunk_backward < half ? request->chunk_backward : half;
    eco_step_fit(problem, caps, request);
}

/* Chunks of a replay are as few as fit into the memory that forward needs: each takes time. */
static void lengthen_replay(const struct eco_problem *problem, const struct eco_caps *caps,
                            struct eco_layout_request *request)
{
    enum { MOST = 16 /* chunks; if there are more, one fewer saves little time */ };
    const size_t forward = workspace_of(problem, request, ECO_LAYOUT_TRAIN);
    struct eco_layout_request longer = *request;
    for (int32_t chunks = 1; chunks <= MOST; chunks++) {
        longer.chunk_backward = eco_saving_chunk(problem, eco_ceil_div(problem->T, chunks));
        if (longer.chunk_backward <= request->chunk_backward)
            return;
        eco_step_fit(problem, caps, &longer);
        longer.gpu.shares[1] = shares(problem, &longer, true);
        if (workspace_of(problem, &longer, ECO_LAYOUT_BACK) <= forward) {
            *request = longer;
            return;
        }
    }
}

void eco_persistent_fit_chunks(const struct eco_problem *problem, const struct eco_caps *caps,
                               struct eco_layout_request *request)
{
    const enum eco_save saving = problem->saving.policy;
    const bool outside = problem->training && !request->gpu.steps_exchange;
    for (int backward = 0; backward < 2; backward++)
        request->gpu.shares[backward] = shares(problem, request, backward);
    if (eco_step_asked(problem, true) > 0 || request->wavefront)
        return;
    if (outside && saving == ECO_SAVE_ALL)
        halve_large(problem, caps, request);
    if (saving == ECO_SAVE_STATES || saving == ECO_SAVE_EVERY)
        lengthen_replay(problem, caps, request);
}
