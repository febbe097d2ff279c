/*
 * Algorithm scan, for cells that are linear in their states, unit by unit, and for others whose
 * units never meet. The steps of a chunk are one launch, for linear cells parallel over time, which
 * reads and writes memory once. Products are those of algorithm step.
 */
#include "gpu/algo/algo.h"
#include "gpu/device/rates.h"
#include "gpu/jit/compile.h"
#include "gpu/scan/scan.h"

#include <math.h>

/* Rows of a chunk: enough to make launches and the chain of tiles cheap. */
enum { ROWS = 8192 };
/* Most units of a step; the number of blocks must fit in 31 bits. */
static const double MOST_UNITS = 1e10;

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    char unused[1];
    (void)caps;
    if (!problem->cell->lowered.linear.scans && !eco_scan_is_apart(problem->cell))
        return "needs a cell that is linear in its states, or one stage without R";
    if (problem->row_invariant)
        return "does not support ECORNN_ROW_INVARIANT: its rows may depend on others";
    if (problem->projected)
        return "does not support projections";
    if ((double)problem->N * problem->H > MOST_UNITS)
        return "needs fewer rows: one launch has too few blocks";
    if (!eco_nvrtc_open(&(struct eco_text){unused, sizeof unused, 0}))
        return "needs NVRTC to compile its kernels at run time";
    return NULL;
}

static void fit(const struct eco_problem *problem, const struct eco_caps *caps,
                struct eco_layout_request *request)
{
    eco_step_fit(problem, caps, request);
    request->exchange_bytes = eco_scan_bytes(problem);
}

static int32_t chunk_of(const struct eco_problem *problem, bool backward)
{
    const int32_t asked = eco_step_asked(problem, backward);
    const int32_t steps = (ROWS + problem->N - 1) / problem->N;
    return asked > 0 ? asked : steps < ECO_STEP_CHUNK ? ECO_STEP_CHUNK : steps;
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    eco_family_step.algo.request(problem, caps, request);
    request->wavefront = false;
    request->gpu.scans = true;
    request->gpu.weights_chunks = request->gpu.carry_planes = 0;
    request->gpu.half_back = false;
    request->gpu.padded = eco_step_fills(problem, caps, ECO_OUTSIDE_INPUT);
    for (int way = 0; way < 2; way++) {
        request->gpu.transposed[way] = false;
        request->gpu.prepared_bytes[way] = 0;
    }
    request->chunk = chunk_of(problem, false);
    request->chunk_backward = eco_saving_chunk(problem, chunk_of(problem, true));
    fit(problem, caps, request);
}

/* Seconds until memory answers: IndRNN, 8 steps ahead, takes at most an eighth on an H200. */
static const double LATENCY = 0.8e-6;

/* Seconds of the scans: their bytes or steps, and what starts each chunk. */
static double scan_time(const struct eco_problem *problem, const struct eco_caps *caps,
                        bool backward)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const double element = (double)eco_type_bytes(problem->type),
                 sum = (double)eco_type_bytes(eco_type_sum(problem->type));
    const double saved = problem->training ? lowered->n_saves * element : 0;
    const double bytes = backward ? saved + (lowered->n_accs + 3) * element
                                  : saved + lowered->n_accs * sum + element;
    const double elements = (double)problem->T * problem->N * problem->H * problem->L * problem->D;
    const bool apart = eco_scan_is_apart(problem->cell);
    const double chunks = ceil((double)problem->T / chunk_of(problem, backward)),
                 layers = (double)problem->L * problem->D,
                 steps = apart ? LATENCY * problem->T / eco_scan_steps(problem, backward) : 0,
                 launch = apart ? rates->launch : rates->persistent_launch;
    return fmax(bytes * elements / rates->memory_bytes, steps * layers) + launch * chunks * layers;
}

static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    return eco_gpu_launches(problem, caps, 1) + scan_time(problem, caps, false) +
           (problem->training
                ? eco_gpu_launches(problem, caps, ECO_AFTER_BACK) + scan_time(problem, caps, true)
                : 0) +
           eco_step_products(problem, caps, ECO_OUTSIDE_INPUT);
}

const struct eco_gpu_family eco_family_scan = {
    {"scan", refuses, request, estimate, eco_gpu_run_scan, fit, ECO_CELLS_OF_UNITS},
    eco_scan_prepare,
    eco_scan_describe,
    NULL};
