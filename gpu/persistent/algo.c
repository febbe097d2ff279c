/*
 * Algorithm persistent: one launch runs all steps. R stays in registers and shared memory of the
 * multiprocessors, which exchange the new states through the L2 (Diamos et al., "Persistent RNNs",
 * ICML 2016). Input products, weight gradients and dx are those of algorithm step, and so are
 * backward steps that do not fit.
 */
#include "gpu/gemm/emulated_f32/presplit.h"
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

static bool fits_32bit(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_persistent_need need =
        eco_persistent_need(problem, caps, false, problem->N, 1, 1);
    return need.rows * eco_persistent_row(problem) < UINT32_MAX;
}

/* Can the backward steps stay on the chip, too? */
static bool also_back(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_persistent_refuses(problem, true) == NULL && step_time(problem, caps, true, 1) > 0;
}

/* In F32 the numbers of several rows may be rounded for one scale. Plans of inference have the bits
 * of plans of training. */
static const char *refuses_apart(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const bool made =
        eco_persistent_is_made(problem, false) && eco_persistent_is_made(problem, true);
    if (!problem->row_invariant)
        return NULL;
    if (!eco_type_narrow(problem->type) || caps->gpu.partitions > 0 || !made)
        return "supports ECORNN_ROW_INVARIANT in 16 bits, for one model of a built-in cell with "
               "one product, without resets";
    return also_back(problem, caps)
               ? NULL
               : "needs backward steps that fit on the chip for ECORNN_ROW_INVARIANT";
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (caps->gpu.version < ECO_PERSISTENT_VERSION || caps->gpu.block_bytes == 0)
        return "needs compute capability 8.0 or later, and code for it in the module";
    if (problem->projected)
        return "does not support projections";
    if (problem->weight_type != problem->type)
        return "needs weights of the type of the rows";
    if (eco_persistent_refuses(problem, false) != NULL)
        return eco_persistent_refuses(problem, false);
    if (!fits_32bit(problem, caps))
        return "needs rows whose elements are within 32 bits of each other";
    if (!(step_time(problem, caps, false, 1) > 0))
        return eco_gpu_divides(problem, false) ? "does not support the forced division"
                                               : "needs weights that fit on the chip";
    if (refuses_apart(problem, caps) != NULL)
        return refuses_apart(problem, caps);
    return problem->training && eco_gpu_divides(problem, true) && !also_back(problem, caps)
               ? "does not support the forced backward division"
               : NULL;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Seconds to load R the first time; later chunks find it in the L2. Backward reads columns as rows,
 * which takes three times as long. */
static double reading_time(const struct eco_problem *problem, const struct eco_caps *caps,
                           bool backward)
{
    const double bytes = (double)problem->cell->lowered.n_accs * problem->H * problem->P *
                         (double)eco_type_bytes(problem->type);
    return (backward ? 3 : 1) * bytes / eco_gpu_rates_of(caps)->memory_bytes;
}

/* Chunks of a wavefront: at most CHUNKS where bytes allow fewer, of at least LEAST_OVERLAPPED
 * steps. */
enum { CHUNKS = 8, LEAST_OVERLAPPED = 12 };
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

/* Launches at both ends of a wavefront are not full, and longer the fewer chunks there are. Input
 * products of layers are concurrent, but those of chunks follow each other. */
static struct wave find_wave(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const int32_t most = eco_persistent_most_steps(problem, caps, false, true);
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
                                (launches - problem->L) * 2 * rates->launch + rounds * reading;
            if (best.time == 0 || time < best.time)
                best = (struct wave){steps, time};
        }
    }
    return best;
}

/* Seconds of all layers in turn, with concurrent directions where that pays; 0 if they do not
 * fit. */
static double steps_time(const struct eco_problem *problem, const struct eco_caps *caps,
                         bool backward)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const int32_t chunk = eco_persistent_steps(problem, caps, backward);
    const double chunks = (double)((problem->T + chunk - 1) / chunk);
    double least = 0;
    for (int32_t jobs = 1; jobs <= problem->D; jobs++) {
        const double step = 1e-6 * step_time(problem, caps, backward, jobs);
        const double rounds = (double)problem->L * problem->D / jobs;
        const double time = rounds * (step * problem->T + chunks * rates->persistent_launch +
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
                 chunk = (double)eco_persistent_steps(problem, caps, backward) * problem->N *
                         problem->H,
                 again = backward && problem->fast && chunk * accs > beyond_l2 ? 3 * accs : 0,
                 unit = saved + element + accs + again,
                 units = (double)problem->T * problem->L * problem->D * problem->N * problem->H;
    return unit * units / eco_gpu_rates_of(caps)->memory_bytes;
}

/* Seconds of products, for layers one after the other. */
static double products_time(const struct eco_problem *problem, const struct eco_caps *caps,
                            bool backward)
{
    const int32_t chunk = eco_persistent_steps(problem, caps, backward);
    const struct eco_layout_request request = {.chunk = chunk, .chunk_backward = chunk};
    return eco_products_time(problem, caps, backward, &request);
}

static double forward_time(const struct eco_problem *problem, const struct eco_caps *caps,
                           bool wavefront)
{
    /* Input products of the short chunks of a wavefront take longer, measured. */
    static const double longer = 1.5;
    const double products = (wavefront ? longer : 1) * products_time(problem, caps, false) +
                            eco_step_lost(problem, caps, ECO_OUTSIDE_INPUT);
    return products + memory_time(problem, caps, false) +
           (wavefront ? find_wave(problem, caps).time : steps_time(problem, caps, false));
}

/* Can layers run as a wavefront? Backward steps of different layers are not in one level, so no
 * launch takes them together. */
static bool may_overlap(const struct eco_problem *problem)
{
    return problem->L > 1 && problem->D == 1 && !problem->training &&
           eco_gpu_use(problem, ECO_FORCE_WAVEFRONT) != ECO_USE_NEVER;
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
    const struct eco_layout_request back = eco_step_chunks(problem, caps, false);
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
    return forward + eco_gpu_launches(problem, caps, ECO_AFTER_BACK) +
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
        /* launches of some rows may be any part of a run */
        for (int place = 0; place < ECO_FEWER && problem->row_invariant; place++)
            request->exchange[backward].fewer[place] = request->exchange[backward].most;
    }
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    const bool back_is_outside = problem->training && !also_back(problem, caps);
    eco_family_step.algo.request(problem, caps, request);
    request->wavefront = request->wavefront && overlaps_layers(problem, caps);
    request->gpu.weights_chunks = request->gpu.carry_planes = 0;
    request->gpu.half_back = false;
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
    request->chunk = request->wavefront ? find_wave(problem, caps).steps
                                        : eco_persistent_steps(problem, caps, false);
    request->chunk_backward =
        request->wavefront ? request->chunk
                           : eco_saving_chunk(problem, eco_persistent_steps_back(problem, caps));
    request_exchange(problem, caps, request);
    eco_step_fit(problem, caps, request);
    eco_persistent_fit_chunks(problem, caps, request);
}

const struct eco_gpu_family eco_family_persistent = {{"persistent", refuses, request, estimate,
                                                      eco_gpu_run_persistent, eco_step_fit,
                                                      ECO_CELLS_OF_UNITS},
                                                     eco_persistent_prepare,
                                                     eco_persistent_describe,
                                                     eco_persistent_write_choices};
