/*
 * Prepares R for the products of steps (split_operands.cu and step_gemm.cu of gemm/emulated_f32):
 * once in a run R is stored in their order, and floats are split; states are split in every step.
 */
#include "gpu/gemm/emulated_f32/presplit.h"
#include "gpu/device/rates.h"

#include "common/util.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Rows and k of a matrix of R in forward or backward steps. */
struct size {
    int32_t rows, k;
};

static struct size size_of(const struct eco_matrix *matrix, bool backward)
{
    const int32_t rows = matrix->n * matrix->height;
    return backward ? (struct size){matrix->row, rows} : (struct size){rows, matrix->row};
}

static size_t bytes_of(enum eco_emulated_form form, struct size size)
{
    const size_t bytes = eco_emulated_bytes(form, size.rows, size.k);
    return (bytes + ECO_ALIGNMENT - 1) / ECO_ALIGNMENT * ECO_ALIGNMENT;
}

/* Before there is a layout; assumes rows of weights aligned to 16 bytes. */
static struct size size_before(const struct eco_problem *problem, int operand, bool backward)
{
    const struct eco_layout_request aligned = {.gpu.aligned = ECO_GPU_ALIGNED};
    const struct eco_matrix matrix =
        eco_stored_matrix(problem, &aligned, 0, ECO_WEIGHT_RECURRENT + operand);
    return size_of(&matrix, backward);
}

/* ---- which products -------------------------------------------------------------------------- */

static enum eco_emulated_form form_of(const struct eco_problem *problem)
{
    return problem->fast ? ECO_EMULATED_SINGLES : ECO_EMULATED_PAIRS;
}

/* Is there an accumulator without R between accumulators with R? */
static bool has_spans(const struct eco_problem *problem)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    for (int o = 0; o < lowered->n_operands; o++) {
        struct eco_acc_range span = {0, 0, 0};
        if (!eco_acc_range_next(lowered, ECO_WEIGHT_RECURRENT + o, 0, &span) ||
            eco_acc_range_next(lowered, ECO_WEIGHT_RECURRENT + o, span.end,
                               &(struct eco_acc_range){0, 0, 0}))
            return true;
    }
    return false;
}

/* Seconds of a step with cuBLAS's product, which reads R in every step. */
static double time_of_cublas(const struct eco_gpu_rates *rates, enum eco_emulated_form form,
                             int32_t rows, struct size size, bool backward)
{
    enum { FEW = 5 }; /* fewer rows have other kernels */
    _Static_assert(ECO_EMULATED_PAIRS == 0 && ECO_EMULATED_SINGLES == 1, "as in the table");
    const double elements = (double)size.rows * size.k,
                 rate = form == ECO_EMULATED_PAIRS ? rates->full_multiply_adds
                                                   : rates->product_multiply_adds[1];
    return rates->cublas_step_launches[form][backward] +
           elements * ((rows < FEW ? rates->cublas_step_few_rows[form]
                                   : rates->cublas_step_many_rows[form]) +
                       rows / rate);
}

enum { LEAST_STEPS = 6 };

/* The tiles that a step's product may use. */
static struct eco_emulated_choices choices_of(const struct eco_problem *problem)
{
    const enum eco_use use = eco_gpu_use(problem, ECO_FORCE_EMULATED_F32);
    struct eco_emulated_choices choices = eco_gpu_step_tiles(problem);
    if (form_of(problem) == ECO_EMULATED_SINGLES)
        choices.kinds &= 1u << ECO_EMULATED_PRESPLIT_SINGLES;
    else
        choices.kinds &= 1u << ECO_EMULATED_PRESPLIT |
                         (use == ECO_USE_ALWAYS_PRESPLIT ? 0 : 1u << ECO_EMULATED_SPLITTING);
    return choices;
}

/* The fastest division; time 0: the forced choice is impossible. */
static struct eco_emulated_step step_of(const struct eco_problem *problem,
                                        const struct eco_caps *caps, int32_t lanes, int32_t rows,
                                        struct size size)
{
    const struct eco_emulated_choices choices = choices_of(problem);
    const struct eco_emulated_on on = {eco_gpu_rates_of(caps), caps->gpu.clusters, lanes};
    return eco_emulated_step(&choices, (struct eco_emulated_size){rows, size.rows, size.k}, &on);
}

/* Predicted seconds of a step. */
static double step_time(const struct eco_problem *problem, const struct eco_caps *caps,
                        struct size size)
{
    return step_of(problem, caps, problem->D, problem->N, size).time;
}

/* Does preparing R pay, given the time of a step? */
static bool pays(const struct eco_problem *problem, const struct eco_caps *caps, struct size size,
                 bool backward, double time)
{
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const enum eco_emulated_form form = form_of(problem);
    const double saved = time_of_cublas(rates, form, problem->N, size, backward) - time;
    return problem->T >= LEAST_STEPS &&
           saved * problem->T > eco_emulated_prepare_time(rates, form, size.rows, size.k);
}

size_t eco_gpu_prepared_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                              bool backward)
{
    const enum eco_emulated_form form = form_of(problem);
    const enum eco_use use = eco_gpu_use(problem, ECO_FORCE_EMULATED_F32);
    size_t bytes = 0, most = 0; /* of an operand's states */
    if (problem->type != ECORNN_F32 || !caps->gpu.splits || use == ECO_USE_NEVER ||
        has_spans(problem) || (backward && !problem->training))
        return 0;
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const struct size size = size_before(problem, o, backward);
        if (size.k < ECO_EMULATED_LEAST_TERMS || size.k > ECO_EMULATED_MOST_K ||
            problem->N > ECO_EMULATED_MOST_COLUMNS || caps->gpu.clusters[0] == 0)
            return 0;
        const double time = step_time(problem, caps, size);
        if (time == 0 || !(use >= ECO_USE_ALWAYS || pays(problem, caps, size, backward, time)))
            return 0;
        bytes += bytes_of(form, size);
        const size_t states = bytes_of(form, (struct size){problem->N, size.k});
        most = states > most ? states : most;
    }
    return bytes + most; /* a product may choose to have states prepared */
}

double eco_gpu_step_product_time(const struct eco_problem *problem, const struct eco_caps *caps,
                                 bool backward, bool prepares, double *prepare)
{
    const enum eco_emulated_form form = form_of(problem);
    const struct eco_gpu_rates *rates = eco_gpu_rates_of(caps);
    const bool prepared = prepares && eco_gpu_prepared_bytes(problem, caps, backward) > 0;
    double time = 0;
    *prepare = 0;
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const struct size size = size_before(problem, o, backward);
        time += prepared ? step_time(problem, caps, size)
                         : time_of_cublas(rates, form, problem->N, size, backward);
        *prepare += prepared ? eco_emulated_prepare_time(rates, form, size.rows, size.k) : 0;
    }
    return time;
}

static void add_cut(struct eco_prepared_cuts *cuts, struct eco_prepared_cut added)
{
    const struct eco_emulated_cut *cut = &cuts->of[cuts->n - (cuts->n > 0)].cut;
    const bool same = cuts->n > 0 && cut->kind == added.cut.kind &&
                      cut->height == added.cut.height && cut->width == added.cut.width &&
                      cut->slices == added.cut.slices;
    if (same || cuts->n == ECO_PREPARED_CUTS)
        cuts->of[cuts->n - 1].rows = added.rows;
    else
        cuts->of[cuts->n++] = added;
}

void eco_gpu_choose_prepared(const struct ecornn_plan *plan, struct eco_gpu_plan *own)
{
    const struct eco_problem *problem = &plan->problem;
    const int32_t all = plan->request.wavefront ? problem->L * problem->D : problem->D,
                  lanes = all < ECO_MAX_STREAMS ? all : ECO_MAX_STREAMS;
    for (int backward = 0; backward < 2; backward++)
        for (int o = 0; o < problem->cell->lowered.n_operands &&
                        plan->request.gpu.prepared_bytes[backward] > 0;
             o++)
            for (int32_t rows = 0; rows < problem->N;) {
                rows = eco_next_rows(rows, problem->N);
                const struct eco_emulated_cut cut = step_of(problem, &plan->device->caps, lanes,
                                                            rows, size_before(problem, o, backward))
                                                        .cut;
                add_cut(&own->prepared[backward][o], (struct eco_prepared_cut){rows, cut});
            }
}

/* ---- a run ----------------------------------------------------------------------------------- */

bool eco_gpu_prepares(const struct eco_gpu_run *run)
{
    return run->layout->request.gpu.prepared_bytes[run->args->backward] > 0 &&
           !(run->args->backward && run->layout->request.gpu.half_back) &&
           (run->args->T >= LEAST_STEPS ||
            eco_gpu_use(run->problem, ECO_FORCE_EMULATED_F32) >= ECO_USE_ALWAYS);
}

/* Address of the copy of an operand's R, after those of the operands before it; for the operand
 * after the last, of its states. */
static char *place_of(const struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const bool backward = run->args->backward;
    char *at = eco_bind_array(run->layout, run->args, op, ECO_INNER_PREPARED, 0).first;
    for (int before = ECO_WEIGHT_RECURRENT; before < part; before++)
        at += bytes_of(form_of(run->problem),
                       size_of(eco_layout_matrix(run->layout, op->layer, before), backward));
    return at;
}

static struct eco_emulated_operand operand_of(const struct eco_gpu_run *run,
                                              const struct eco_op *op, int part)
{
    const bool backward = run->args->backward;
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const struct size size = size_of(matrix, backward);
    struct eco_emulated_operand operand = {.form = form_of(run->problem),
                                           .data = eco_gpu_weights(run, op, part),
                                           .row = (size_t)matrix->row,
                                           .rows = size.rows,
                                           .k = size.k,
                                           .transposed = backward};
    eco_emulated_place(&operand, place_of(run, op, part));
    return operand;
}

void eco_gpu_prepare_matrix(struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_emulated_operand operand = operand_of(run, op, part);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_emulated_prepare(&operand, operand.k, false, run->stream),
                          "preparing R");
    eco_launch_serialize(&run->launch, ECO_SERIALIZED_PREPARED);
}

bool eco_gpu_multiply_prepared(struct eco_gpu_run *run, const struct eco_matmul *m,
                               const struct eco_acc_range *span, const struct eco_product *p)
{
    const int operand = m->weight_id - ECO_WEIGHT_RECURRENT, n = run->lowered->n_operands;
    if (operand < 0 || operand >= n || !eco_gpu_prepares(run) ||
        span->end - span->first != eco_layout_matrix(run->layout, m->op->layer, m->weight_id)->n)
        return false;
    const struct eco_gpu_plan *own = run->plan->context;
    const struct eco_prepared_cuts *cuts = &own->prepared[run->args->backward][operand];
    int i = 0;
    while (i + 1 < cuts->n && cuts->of[i].rows < p->m)
        i++;
    const struct eco_prepared_product product = {.product = p,
                                                 .prepared = operand_of(run, m->op, m->weight_id),
                                                 .room =
                                                     place_of(run, m->op, ECO_WEIGHT_RECURRENT + n),
                                                 .cut = &cuts->of[i].cut,
                                                 .from_end = m->odd};
    eco_gpu_product_prepared(run, &product);
    return true;
}
