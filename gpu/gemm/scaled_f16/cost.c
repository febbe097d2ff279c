/*
 * Which large products of ECORNN_FAST_MATH are faster in F16, including the conversion of their
 * matrices, and how much room that takes.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"

#include <math.h>

#include "gpu/device/rates.h"

/* ---- which products -------------------------------------------------------------------------- */

/* A matrix of weights in the layout, and the op's rows that are multiplied by it. */
struct size {
    int32_t rows, accs, row; /* accs: rows of the matrix */
};

static struct size size_of(const struct eco_problem *problem, int layer, int part, int32_t rows)
{
    const struct eco_layout_request aligned = {.gpu.aligned = ECO_GPU_ALIGNED};
    const struct eco_matrix matrix = eco_stored_matrix(problem, &aligned, layer, part);
    return (struct size){rows, matrix.n * matrix.height, matrix.row};
}

static double elements(struct size size)
{
    return (double)size.rows * size.row;
}

static int64_t dacc_columns(const struct eco_problem *problem)
{
    const struct eco_layout_request aligned = {.gpu.aligned = ECO_GPU_ALIGNED};
    const struct eco_lowered *lowered = &problem->cell->lowered;
    return (int64_t)(lowered->n_accs + lowered->n_extra) *
           (int64_t)eco_request_row(&aligned, (size_t)problem->H);
}

/* Seconds that a product saves over TF32 with cuBLAS's kernels. */
static double saved(const struct eco_gpu_rates *rates, enum eco_product_kind kind, struct size size)
{
    _Static_assert(sizeof rates->f16 / sizeof *rates->f16 == ECO_PRODUCT_KINDS, "one of each");
    const double work = (double)size.accs * elements(size);
    return rates->tf32[kind].launch - rates->f16[kind].launch +
           work / rates->tf32[kind].multiply_adds - work / rates->f16[kind].multiply_adds;
}

/* Seconds of converting `numbers` numbers at once; of other passes over memory. */
static double brought(const struct eco_gpu_rates *rates, double numbers)
{
    return rates->convert_launch + 10 * numbers / rates->convert_bytes;
}

static double passed(const struct eco_gpu_rates *rates, double bytes)
{
    return rates->pass_launch + bytes / rates->pass_bytes;
}

static double gain_forward(const struct eco_problem *problem, const struct eco_caps *caps,
                           int layer, int32_t rows)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct size input = size_of(problem, layer, ECO_WEIGHT_INPUT, rows);
    return saved(rates, ECO_NT, input) -
           brought(rates, elements(input) + (double)input.accs * input.row);
}

/* The products with dacc that an op needs. */
struct wanted {
    bool dx, dweights;
};

static double gain_back(const struct eco_problem *problem, const struct eco_caps *caps, int layer,
                        int32_t rows, struct wanted wanted)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const struct size input = size_of(problem, layer, ECO_WEIGHT_INPUT, rows);
    /* dacc is read for its column sums in any case */
    double gain = -passed(rates, 3. * rows * dacc_columns(problem)), numbers = elements(input);
    if (wanted.dx)
        gain += saved(rates, ECO_NN, input) - brought(rates, (double)input.accs * input.row) -
                passed(rates, 12 * elements(input));
    if (!wanted.dweights)
        return gain;
    gain += saved(rates, ECO_TN, input);
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const struct size operand = size_of(problem, layer, ECO_WEIGHT_RECURRENT + o, rows);
        gain += saved(rates, ECO_TN, operand);
        numbers += elements(operand);
    }
    return gain - brought(rates, numbers);
}

/* Rates were measured on devices that have code for split operands, too. */
static bool may_scale(const struct eco_problem *problem, const struct eco_caps *caps,
                      const struct eco_layout_request *request)
{
    return problem->type == ECORNN_F32 && problem->fast && caps->gpu.splits &&
           !request->wavefront && !problem->row_invariant &&
           dacc_columns(problem) <= ECO_SCALED_F16_MOST_COLUMNS;
}

/* ---- room ------------------------------------------------------------------------------------ */

size_t eco_scaled_f16_take(size_t *at, size_t bytes)
{
    const size_t taken = *at;
    *at += (bytes + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT * ECO_ROOM_ALIGNMENT;
    return taken;
}

struct eco_scaled_f16_places eco_scaled_f16_places(const struct eco_problem *problem,
                                                   const struct eco_caps *caps, int32_t rows)
{
    const int32_t columns = (int32_t)dacc_columns(problem);
    /* so that all are resident at once */
    const int32_t most = caps->threads * (columns <= 2048 ? 4 : columns <= 4096 ? 2 : 1);
    struct eco_scaled_f16_places p = {.columns = columns, .blocks = rows < most ? rows : most};
    const size_t sums = problem->training ? (size_t)p.blocks * (size_t)columns : 0;
    size_t at = ECO_ROOM_OF_MANY;
    p.scalars = eco_scaled_f16_take(&at, sizeof(struct eco_scaled_f16_scalars));
    p.most =
        eco_scaled_f16_take(&at, sizeof(float) * ECO_SCALED_F16_MATRICES * ECO_SCALED_F16_BLOCKS);
    p.scales = eco_scaled_f16_take(&at, sizeof(float) * (size_t)rows);
    p.sums = eco_scaled_f16_take(&at, sizeof(float) * sums);
    p.rest = at;
    return p;
}

size_t eco_scaled_f16_copy_bytes(int32_t rows, int32_t row)
{
    size_t bytes = 0;
    eco_scaled_f16_take(&bytes, (size_t)rows * (size_t)row * 2);
    return bytes;
}

/* Bytes for an op with these rows. */
static size_t bytes_of(const struct eco_problem *problem, const struct eco_caps *caps, int layer,
                       int32_t rows, bool backward)
{
    const struct size input = size_of(problem, layer, ECO_WEIGHT_INPUT, rows);
    const size_t weights = eco_scaled_f16_copy_bytes(input.accs, input.row),
                 x = eco_scaled_f16_copy_bytes(rows, input.row);
    const size_t fixed = ECO_ROOM_ALIGNMENT + eco_scaled_f16_places(problem, caps, rows).rest;
    if (!backward)
        return fixed + weights + x;
    const size_t dx = weights + 2 * x;
    size_t gradients = x;
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const int32_t row = size_of(problem, layer, ECO_WEIGHT_RECURRENT + o, rows).row;
        gradients += eco_scaled_f16_copy_bytes(rows, row) +
                     eco_scaled_f16_copy_bytes(problem->N, row); /* for the first step */
    }
    return fixed + (dx > gradients ? dx : gradients);
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
    return (struct choice){rows, gain > 0 || planned->use >= ECO_USE_ALWAYS ? gain : 0};
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
        for (int backward = 0; backward <= (int)problem->training; backward++) {
            const struct choice choice = choose(&planned, layer, backward);
            const size_t bytes = bytes_of(problem, caps, layer, choice.rows, backward);
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
    for (int backward = 0; backward <= (int)problem->training; backward++) {
        int layers = 0;
        double saves = 0;
        for (int layer = 0; layer < problem->L; layer++) {
            const struct choice choice = choose(&planned, layer, backward);
            const double ops = ceil((double)problem->T * problem->N / choice.rows) * problem->D;
            layers += choice.gain != 0;
            saves += choice.gain * ops;
        }
        if (layers > 0)
            eco_text_add(text, "%s of %d layers in F16, saving %.0f us over TF32\n",
                         backward ? "dx and gradients of weights" : "input products", layers,
                         1e6 * saves);
    }
}

/* ---- of a run -------------------------------------------------------------------------------- */

static int32_t rows_of_op(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return (op->t1 - op->t0) * run->args->N;
}

/* A run may have fewer rows than its plan has room for. */
static bool fits(const struct eco_gpu_run *run, const struct eco_op *op, double gain)
{
    const struct eco_caps *caps = &run->plan->device->caps;
    const enum eco_use use = eco_gpu_use_scaled_f16(run->problem);
    return may_scale(run->problem, caps, &run->layout->request) && use != ECO_USE_NEVER &&
           (gain > 0 || use >= ECO_USE_ALWAYS) &&
           bytes_of(run->problem, caps, op->layer, rows_of_op(run, op), run->args->backward) <=
               run->layout->request.gpu.product_bytes;
}

bool eco_gpu_wants_dx(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return op->layer > 0 || run->args->dx != NULL;
}

static struct wanted wanted_of(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return (struct wanted){eco_gpu_wants_dx(run, op), run->args->dweights != NULL};
}

bool eco_gpu_scales_input(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return fits(
        run, op,
        gain_forward(run->problem, &run->plan->device->caps, op->layer, rows_of_op(run, op)));
}

bool eco_gpu_scales_back(const struct eco_gpu_run *run, const struct eco_op *op)
{
    /* F16 overwrites dacc, but dx needs its floats if x is an accumulator */
    return run->lowered->raw < 0 &&
           fits(run, op,
                gain_back(run->problem, &run->plan->device->caps, op->layer, rows_of_op(run, op),
                          wanted_of(run, op)));
}
