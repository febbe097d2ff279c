/*
 * Which large products of ECORNN_FAST_MATH are faster in F16, including the conversion of their
 * matrices, and how much room that takes.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"

#include <math.h>

#include "gpu/device/rates.h"

/* ---- which products -------------------------------------------------------------------------- */

static double elements(struct eco_scaled_f16_size size)
{
    return (double)size.rows * size.row;
}

/* Seconds that a product saves over TF32 with cuBLAS's kernels. */
static double saved(const struct eco_gpu_rates *rates, struct eco_scaled_f16_size size)
{
    enum { TF32 = 1 };
    const double work = (double)size.accs * elements(size);
    return rates->full_launch - rates->f16_launch + work / rates->product_multiply_adds[TF32] -
           work / rates->f16_multiply_adds;
}

/* Seconds of converting `numbers` numbers at once; of other passes over memory. */
static double brought(const struct eco_gpu_rates *rates, double numbers)
{
    return rates->f16_launch + 10 * numbers / rates->stream_bytes;
}

static double passed(const struct eco_gpu_rates *rates, double bytes)
{
    return rates->pass_launch + bytes / rates->stream_bytes;
}

static double gain_forward(const struct eco_problem *problem, const struct eco_caps *caps,
                           int layer, int32_t rows)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct eco_scaled_f16_size input =
        eco_scaled_f16_size(problem, layer, ECO_WEIGHT_INPUT, rows);
    return saved(rates, input) - brought(rates, elements(input) + (double)input.accs * input.row);
}

/* The products with dacc that an op needs. */
struct wanted {
    bool dx, dweights;
};

static double gain_back(const struct eco_problem *problem, const struct eco_caps *caps, int layer,
                        int32_t rows, struct wanted wanted)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct eco_scaled_f16_size input =
        eco_scaled_f16_size(problem, layer, ECO_WEIGHT_INPUT, rows);
    /* dacc is read for its column sums in any case */
    double gain = -passed(rates, 3. * rows * eco_scaled_f16_columns(problem)),
           numbers = elements(input);
    if (wanted.dx)
        gain += saved(rates, input) - brought(rates, (double)input.accs * input.row) -
                passed(rates, 12 * elements(input));
    if (!wanted.dweights)
        return gain;
    gain += saved(rates, input);
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const struct eco_scaled_f16_size operand =
            eco_scaled_f16_size(problem, layer, ECO_WEIGHT_RECURRENT + o, rows);
        gain += saved(rates, operand);
        numbers += elements(operand);
    }
    return gain - brought(rates, numbers);
}

/* Rates were measured on devices that have code for split operands, too. Weight gradients of
 * several chunks at once would need dacc's floats after dx. */
static bool may_scale(const struct eco_problem *problem, const struct eco_caps *caps,
                      const struct eco_layout_request *request)
{
    return problem->type == ECORNN_F32 && problem->fast && caps->gpu.splits &&
           request->gpu.weights_chunks <= 1 && !problem->row_invariant &&
           eco_scaled_f16_columns(problem) <= ECO_SCALED_F16_MOST_COLUMNS;
}

static int32_t rows_of(const struct eco_problem *problem, int32_t chunk)
{
    const int64_t rows =
        (int64_t)(chunk > 0 && chunk < problem->T ? chunk : problem->T) * problem->N;
    return rows < INT32_MAX ? (int32_t)rows : INT32_MAX;
}

/* ---- of a plan ------------------------------------------------------------------------------- */

/* A layer's forward or backward ops with the plan's sizes. */
struct choice {
    int32_t rows;
    double gain; /* of an op; 0: stays in TF32 */
};

/* A plan's requests, and what is forced. */
struct planned {
    const struct eco_problem *problem;
    const struct eco_caps *caps;
    const struct eco_layout_request *request;
    enum eco_use use;
};

static struct choice choose(const struct planned *planned, int layer, bool backward)
{
    const struct wanted all = {true, true};
    const struct eco_problem *problem = planned->problem;
    const struct eco_layout_request *request = planned->request;
    const int32_t rows = rows_of(problem, backward ? request->chunk_backward : request->chunk);
    const double gain = backward ? gain_back(problem, planned->caps, layer, rows, all)
                                 : gain_forward(problem, planned->caps, layer, rows);
    const bool asked = planned->use >= ECO_USE_ALWAYS || (backward && request->gpu.half_back);
    return (struct choice){rows, gain > 0 || asked ? gain : 0};
}

double eco_scaled_f16_gain(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request, int32_t layer, bool backward)
{
    const enum eco_use use = eco_gpu_use_scaled_f16(problem);
    const struct planned planned = {problem, caps, request, use};
    return may_scale(problem, caps, request) && use != ECO_USE_NEVER
               ? choose(&planned, layer, backward).gain
               : 0;
}

size_t eco_scaled_f16_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                            const struct eco_layout_request *request)
{
    const enum eco_use use = eco_gpu_use_scaled_f16(problem);
    const struct planned planned = {problem, caps, request, use};
    size_t most = 0;
    if (!may_scale(problem, caps, request) || use == ECO_USE_NEVER)
        return 0;
    for (int layer = 0; layer < problem->L && layer < 2; layer++)
        /* fused steps multiply the input themselves */
        for (int backward = request->fuse_input; backward <= (int)problem->training; backward++) {
            const struct choice choice = choose(&planned, layer, backward);
            const size_t bytes =
                eco_scaled_f16_op_bytes(problem, caps, layer, choice.rows, backward);
            if (choice.gain != 0 && bytes > most)
                most = bytes;
        }
    return most;
}

void eco_scaled_f16_describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_problem *problem = &plan->problem;
    const enum eco_use use = eco_gpu_use_scaled_f16(problem);
    const struct planned planned = {problem, &plan->device->caps, &plan->request, use};
    if (!may_scale(problem, &plan->device->caps, &plan->request) || use == ECO_USE_NEVER)
        return;
    for (int backward = plan->request.fuse_input; backward <= (int)problem->training; backward++) {
        int layers = 0;
        double saves = 0;
        for (int layer = 0; layer < problem->L; layer++) {
            const struct choice choice = choose(&planned, layer, backward);
            const double ops = ceil((double)problem->T * problem->N / choice.rows) * problem->D;
            layers += choice.gain != 0;
            saves += choice.gain * ops;
        }
        if (backward && plan->request.gpu.half_back)
            eco_text_add(text, "steps back store dacc in F16, and all its products are in F16\n");
        else if (layers > 0)
            eco_text_add(text, "%s of %d layers in F16, saving %.0f us over TF32\n",
                         backward ? "dx and gradients of weights" : "input products", layers,
                         1e6 * saves);
    }
}

bool eco_scaled_f16_halves(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request)
{
    enum { ROWS = 128, UNITS = 1024 }; /* least rows; most units: a block has whole rows */
    const struct eco_lowered *lowered = &problem->cell->lowered;
    return may_scale(problem, caps, request) && problem->training &&
           problem->T >= ECO_HALVES_STEPS && eco_gpu_use_scaled_f16(problem) != ECO_USE_NEVER &&
           eco_gpu_use(problem, ECO_FORCE_EMULATED_F32) < ECO_USE_ALWAYS &&
           eco_forced(problem, ECO_FORCE_STEP_TILE, ECO_NOT_FORCED) < 0 && problem->N >= ROWS &&
           problem->H <= UNITS && problem->H % ECO_WIDE_UNITS == 0 && problem->P == problem->H &&
           problem->weight_type == problem->type && problem->saving.policy == ECO_SAVE_ALL &&
           eco_gpu_has_wide_back(problem, caps, problem->N) && lowered->copies == 0 &&
           eco_gpu_has_one_span(lowered);
}

/* ---- for runs -------------------------------------------------------------------------------- */

/* What an op's gain depends on, but for its rows. */
struct op {
    const struct planned *planned;
    int layer;
    bool backward;
    struct wanted wanted;
};

static bool gains(const struct op *op, int32_t rows)
{
    const struct planned *p = op->planned;
    return (op->backward ? gain_back(p->problem, p->caps, op->layer, rows, op->wanted)
                         : gain_forward(p->problem, p->caps, op->layer, rows)) > 0;
}

/* The rows for which an op gains: a gain rises or falls steadily with the rows. */
static struct eco_rows_range rows_that_gain(const struct op *op)
{
    int32_t low = 1, high = INT32_MAX;
    const bool at_low = gains(op, low), at_high = gains(op, high);
    if (op->planned->use >= ECO_USE_ALWAYS || (at_low && at_high))
        return (struct eco_rows_range){1, INT32_MAX};
    if (!at_low && !at_high)
        return (struct eco_rows_range){1, 0};
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (gains(op, middle) == at_low)
            low = middle;
        else
            high = middle;
    }
    return at_high ? (struct eco_rows_range){high, INT32_MAX} : (struct eco_rows_range){1, low};
}

void eco_scaled_f16_choose(const struct ecornn_plan *plan, struct eco_gpu_plan *own)
{
    const struct eco_problem *problem = &plan->problem;
    const struct planned planned = {problem, &plan->device->caps, &plan->request,
                                    eco_gpu_use_scaled_f16(problem)};
    const bool may =
        may_scale(problem, planned.caps, planned.request) && planned.use != ECO_USE_NEVER;
    for (int upper = 0; upper < 2 && upper < problem->L && may; upper++) {
        own->scaled_input[upper] =
            rows_that_gain(&(struct op){.planned = &planned, .layer = upper});
        for (int k = 0; k < 4; k++)
            own->scaled_back[upper][k / 2][k % 2] = rows_that_gain(
                &(struct op){&planned, upper, true, {.dx = k / 2, .dweights = k % 2}});
    }
}
