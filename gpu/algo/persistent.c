/*
 * Algorithm persistent: one launch runs all steps. R stays in registers and shared memory of the
 * multiprocessors, which exchange the new states through the L2 (Diamos et al., "Persistent RNNs",
 * ICML 2016). Input products, weight gradients and dx are those of algorithm step, and so are
 * backward steps that do not fit.
 */
#include "gpu/gemm/presplit.h"
#include "gpu/persistent/persistent.h"
#include "gpu/algo/algo.h"

#include <math.h>

static double step_time(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool backward, int32_t jobs)
{
    struct eco_persistent_shape shape;
    const struct eco_persistent_need need =
        eco_persistent_need(problem, caps, backward, problem->N, 1, jobs);
    return eco_persistent_shape(&need, &shape);
}

/* Kernels compute offsets within a step in 32 bits; the caller's rows may be T apart. */
static bool fits_32bit(const struct eco_problem *problem)
{
    const double state = (double)problem->D * problem->H,
                 row = problem->batch_major ? problem->T * state : ECO_MAX_ACCS * state;
    return problem->N * row < UINT32_MAX;
}

/* Can the backward steps stay on the chip, too? */
static bool also_back(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_persistent_refuses(problem, true) == NULL && step_time(problem, caps, true, 1) > 0;
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (problem->row_invariant)
        return "does not support ECORNN_ROW_INVARIANT: its rows may depend on others";
    if (caps->gpu.version < ECO_PERSISTENT_VERSION || caps->gpu.block_bytes == 0)
        return "needs compute capability 8.0 or later";
    if (problem->projected)
        return "does not support projections";
    if (problem->weight_type != problem->type)
        return "needs weights of the type of the rows";
    if (eco_persistent_refuses(problem, false) != NULL)
        return eco_persistent_refuses(problem, false);
    if (!fits_32bit(problem))
        return "needs rows whose elements are within 32 bits of each other";
    if (!(step_time(problem, caps, false, 1) > 0))
        return eco_gpu_divides(problem, false) ? "does not support the forced division"
                                               : "needs weights that fit on the chip";
    return problem->training && eco_gpu_divides(problem, true) && !also_back(problem, caps)
               ? "does not support the forced backward division"
               : NULL;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Chunks are limited by the bytes that steps read and exchange, and by the rows of sums for weight
 * gradients. Otherwise they are as few as possible, because each has launches and reads R again. If
 * such chunks had few steps, they may take more bytes. Forward, an exchanged number (padding rows
 * included) counts as many bytes as the accumulators of an LSTM unit. Overlapping layers have a
 * chunk each, up to eight where bytes allow fewer. */
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
    LONG_RUN = 350, /* steps */
    CHUNKS = 8,
    LEAST_OVERLAPPED = 12
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
static int32_t even_steps(const struct eco_problem *problem, double step_bytes, int32_t bytes)
{
    const double rows = (double)problem->N / ROWS;
    return (int32_t)ceil(problem->T / ceil(problem->T * fmax(step_bytes / bytes, rows)));
}

/* Seconds to load R the first time; later chunks find it in the L2. Backward reads columns as rows,
 * which takes three times as long. Fitted to some 800 runs of 1 to 16 steps. */
static double reading_time(const struct eco_problem *problem, const struct eco_caps *caps,
                           bool backward)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const double element = eco_type_narrow(problem->type) ? 0 : rates->load_element;
    return (backward ? 3 : 1) * element * problem->cell->lowered.n_accs * problem->H * problem->P;
}

/* About the bytes of cuDNN's workspace: the gates of a layer's steps in the type of rows, or, of a
 * long run, as much as its output and in training twice; each layer's weights, and a little more.
 */
static double cudnn_bytes(const struct eco_problem *problem)
{
    enum { MORE = 7 << 20 };
    const double accs = problem->cell->lowered.n_accs, size = (double)eco_type_bytes(problem->type),
                 output = (double)problem->N * problem->H * problem->T * size,
                 weights = MORE + 2 * accs * problem->H * problem->P * size,
                 gates = accs + .6 + problem->L - 1,
                 rows = problem->T > LONG_RUN ? problem->training ? 2 : 1 : gates;
    return fmin(gates, rows) * output + weights * problem->L;
}

/* Steps of even chunks whose workspace is at most about 1.25 times that of cuDNN. In full F32 a
 * further chunk takes longest: if that is not enough, none is cut. */
static int32_t thrifty_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                             bool backward)
{
    enum { THRIFTY_STEPS = 48, FULL_STEPS = 64, ROOM = 8 << 20 /* of products */ };
    const bool full = eco_cost_form(problem) == ECO_COST_FULL;
    struct eco_persistent_shape shape;
    const struct eco_persistent_need need =
        eco_persistent_need(problem, caps, backward, problem->N, 1, 1);
    if ((full && problem->training && problem->T <= LONG_RUN) ||
        !(eco_persistent_shape(&need, &shape) > 0))
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
    double room = fmin(ROOM, 32 * accs * units);
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

/* Most steps of a chunk. */
static int32_t most_steps(const struct eco_problem *problem, const struct eco_caps *caps,
                          bool backward, bool wavefront)
{
    const double bytes = step_bytes(problem, caps, backward);
    int32_t steps = even_steps(problem, bytes, wavefront ? OF_EACH_LAYER : BYTES);
    if (!wavefront && steps < FEW_STEPS)
        steps = even_steps(problem, bytes,
                           problem->N >= MANY_ROWS && eco_cost_form(problem) != ECO_COST_FULL
                               ? BYTES_OF_MANY_ROWS
                               : BYTES_OF_FEW_STEPS);
    const int32_t thrifty = wavefront ? steps : thrifty_steps(problem, caps, backward),
                  least = steps < thrifty ? steps : thrifty;
    return least < LEAST_STEPS ? LEAST_STEPS : least;
}

/* A wavefront of layers, as many at a time as pay. */
struct wave {
    int32_t steps; /* of a chunk */
    double time;   /* s; 0: does not fit */
};

/* Steps of a chunk for this number of chunks. */
static int32_t wave_steps(const struct eco_problem *problem, int32_t chunks, int32_t most)
{
    const int32_t asked = eco_step_asked(problem, false),
                  steps = (problem->T + chunks - 1) / chunks;
    if (asked > 0)
        return asked;
    return steps >= most ? most : steps < LEAST_OVERLAPPED ? LEAST_OVERLAPPED : steps;
}

/* Seconds that each further chunk adds to its launch: the input products of the layers are
 * concurrent, but those of chunks follow each other. */
static double input_launch(const struct eco_problem *problem, const struct eco_gpu_rates *rates)
{
    return problem->type == ECORNN_F32 && !problem->fast ? rates->full_launch : 2 * rates->launch;
}

/* Launches at both ends of a wavefront are not full, and longer the fewer chunks there are. */
static struct wave find_wave(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const int32_t most = most_steps(problem, caps, false, true);
    const double reading = reading_time(problem, caps, false);
    struct wave best = {.time = 0};
    for (int32_t jobs = 1; jobs <= ECO_PERSISTENT_JOBS && jobs <= problem->L; jobs++) {
        const double step = 1e-6 * step_time(problem, caps, false, jobs);
        const double rounds = (double)problem->L / jobs;
        for (int32_t count = CHUNKS; step > 0 && count > 1; count--) {
            const int32_t steps = wave_steps(problem, count, most);
            const double chunks = ceil((double)problem->T / steps),
                         launches = rounds * (chunks + jobs - 1);
            const double time = launches * (step * problem->T / chunks + rates->persistent_launch) +
                                (launches - problem->L) * input_launch(problem, rates) +
                                rounds * reading;
            if (best.time == 0 || time < best.time)
                best = (struct wave){steps, time};
        }
    }
    return best;
}

/* Steps of a chunk if layers follow each other. */
static int32_t steps_for(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward)
{
    const int32_t asked = eco_step_asked(problem, backward);
    return asked > 0 ? asked : most_steps(problem, caps, backward, false);
}

/* Recomputed saved values stay in the L2 until the steps read them. */
static int32_t steps_back(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const int32_t steps = steps_for(problem, caps, true);
    const double step = (double)problem->cell->lowered.n_saves * problem->H * problem->N *
                        (double)eco_type_bytes(problem->type);
    if (problem->saving.policy == ECO_SAVE_ALL || eco_step_asked(problem, true) > 0 ||
        step * steps <= ECO_L2_BYTES)
        return steps;
    const int32_t fitting = (int32_t)fmax(ECO_L2_BYTES / step, LEAST_STEPS),
                  chunks = (problem->T + fitting / 2) / fitting;
    return chunks > 1 ? (problem->T + chunks - 1) / chunks : problem->T;
}

/* Seconds of all layers in turn, with concurrent directions where that pays; 0 if they do not
 * fit. */
static double steps_time(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const int32_t chunk = steps_for(problem, caps, backward);
    const double chunks = (double)((problem->T + chunk - 1) / chunk);
    double least = 0;
    for (int32_t jobs = 1; jobs <= problem->D; jobs++) {
        const double step = 1e-6 * step_time(problem, caps, backward, jobs);
        const double rounds = (double)problem->L * problem->D / jobs;
        const double time =
            rounds * (chunks * (step * problem->T / chunks + rates->persistent_launch) +
                      reading_time(problem, caps, backward));
        if (step > 0 && (least == 0 || time < least))
            least = time;
    }
    return least;
}

/* Seconds of memory traffic with many rows: accumulators, saved values, outputs or gradients. A
 * fast run reads gradients of accumulators again, to convert and to multiply them, and if those of
 * a chunk have left the L2, that takes longer than estimates of products know. */
static double memory_time(const struct eco_problem *problem, const struct eco_caps *caps,
                          bool backward)
{
    static const double beyond_l2 = 32e6; /* bytes */
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const double element = (double)eco_type_bytes(problem->type),
                 sum = (double)eco_type_bytes(eco_type_sum(problem->type)),
                 saved = problem->training ? lowered->n_saves * element : 0,
                 accs = lowered->n_accs * (backward ? element : sum),
                 chunk = (double)steps_for(problem, caps, backward) * problem->N * problem->H,
                 again = backward && problem->fast && chunk * accs > beyond_l2 ? 3 * accs : 0,
                 unit = saved + element + accs + again,
                 units = (double)problem->T * problem->L * problem->D * problem->N * problem->H;
    return unit * units / eco_gpu_rates_of(caps)->accumulator_bytes;
}

/* Seconds of products, for layers one after the other. */
static double products_time(const struct eco_problem *problem, const struct eco_caps *caps,
                            bool backward)
{
    const int32_t chunk = steps_for(problem, caps, backward);
    const struct eco_layout_request request = {.chunk = chunk, .chunk_backward = chunk};
    return eco_products_time(problem, caps, backward, &request);
}

static double forward_time(const struct eco_problem *problem, const struct eco_caps *caps,
                           bool wavefront)
{
    /* Input products of the short chunks of a wavefront take longer, measured. */
    static const double longer = 1.65;
    const double products = (wavefront ? longer : 1) * products_time(problem, caps, false) +
                            eco_step_lost(problem, caps, ECO_OUTSIDE_INPUT);
    return products + memory_time(problem, caps, false) +
           (wavefront ? find_wave(problem, caps).time : steps_time(problem, caps, false));
}

/* Can layers run as a wavefront? Backward steps of different layers are not in one level, so no
 * launch takes them together. */
static bool may_overlap(const struct eco_problem *problem)
{
    return problem->L > 1 && problem->D == 1 && !problem->training;
}

/* Is a wavefront faster than layers one after the other? */
static bool overlaps_layers(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return may_overlap(problem) &&
           forward_time(problem, caps, true) < forward_time(problem, caps, false);
}

/* Seconds of backward steps as in algorithm step, and of what their products lose. */
static double back_outside(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_layout_request back = eco_step_chunks(problem, false);
    return eco_step_time(problem, caps, true, &back) +
           eco_step_lost(problem, caps, ECO_OUTSIDE_INPUT | ECO_OUTSIDE_STEPS) -
           eco_step_lost(problem, caps, ECO_OUTSIDE_INPUT);
}

static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double serialized = forward_time(problem, caps, false),
                 overlapped = may_overlap(problem) ? forward_time(problem, caps, true) : serialized,
                 forward = eco_gpu_launches(problem, caps, 1) + fmin(serialized, overlapped);
    if (!problem->training)
        return forward;
    return forward + eco_gpu_after_back(problem, caps) +
           (also_back(problem, caps)
                ? steps_time(problem, caps, true) + memory_time(problem, caps, true) +
                      products_time(problem, caps, true)
                : back_outside(problem, caps));
}

/* ---- the request ----------------------------------------------------------------------------- */

/* For any number of jobs in a launch. */
static void request_exchange(const struct eco_problem *problem, const struct eco_caps *caps,
                             struct eco_layout_request *request)
{
    for (int backward = 0; backward <= (int)problem->training; backward++) {
        const struct eco_persistent_need need =
            eco_persistent_need(problem, caps, backward, problem->N, 1, 1);
        eco_persistent_exchange(&need, ECO_PERSISTENT_JOBS, &request->exchange[backward]);
    }
}

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

/* Where steps back are products in full F32, two chunks take no longer than one. */
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
    enum { MOST = 16 /* chunks; fewer than more of them gain little */ };
    struct eco_layout_request longer = *request;
    for (int32_t chunks = 1; chunks <= MOST; chunks++) {
        longer.chunk_backward = eco_saving_chunk(problem, eco_ceil_div(problem->T, chunks));
        if (longer.chunk_backward <= request->chunk_backward)
            return;
        eco_step_fit(problem, caps, &longer);
        longer.gpu.shares[1] = shares(problem, &longer, true);
        if (workspace_of(problem, &longer, ECO_LAYOUT_BACK) <=
            workspace_of(problem, &longer, ECO_LAYOUT_TRAIN)) {
            *request = longer;
            return;
        }
    }
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    const bool back_is_outside = problem->training && !also_back(problem, caps);
    eco_algo_step.request(problem, caps, request);
    request->wavefront = request->wavefront && overlaps_layers(problem, caps);
    request->gpu.weights_chunks = 0;
    request->gpu.steps_exchange = !back_is_outside;
    request->gpu.transposed[0] = false;
    request->gpu.prepared_bytes[0] = 0;
    request->gpu.prepared_bytes[1] = also_back(problem, caps) || request->wavefront
                                         ? 0
                                         : eco_gpu_prepared_bytes(problem, caps, true);
    /* backward steps read it by rows */
    request->gpu.transposed[1] = problem->training && request->gpu.prepared_bytes[1] == 0;
    request->gpu.padded = eco_step_fills(
        problem, caps, ECO_OUTSIDE_INPUT | (back_is_outside ? ECO_OUTSIDE_STEPS : 0));
    request->chunk =
        request->wavefront ? find_wave(problem, caps).steps : steps_for(problem, caps, false);
    request->chunk_backward =
        request->wavefront ? request->chunk : eco_saving_chunk(problem, steps_back(problem, caps));
    request_exchange(problem, caps, request);
    eco_step_fit(problem, caps, request);
    for (int backward = 0; backward < 2; backward++)
        request->gpu.shares[backward] = shares(problem, request, backward);
    const enum eco_save saving = problem->saving.policy;
    if (back_is_outside && saving == ECO_SAVE_ALL && eco_step_asked(problem, true) == 0)
        halve_large(problem, caps, request);
    if ((saving == ECO_SAVE_STATES || saving == ECO_SAVE_EVERY) && !request->wavefront &&
        eco_step_asked(problem, true) == 0)
        lengthen_replay(problem, caps, request);
}

const struct eco_algo eco_algo_persistent = {"persistent",           refuses,     request, estimate,
                                             eco_gpu_run_persistent, eco_step_fit};
