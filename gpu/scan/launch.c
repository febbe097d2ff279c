/*
 * Finds the arrays of an op for a scan, launches it, and compiles the kernels of a plan.
 */
#include "gpu/scan/scan.h"

#include "gpu/jit/jit.h"
#include "gpu/kernels.h"
#include "gpu/ops/ops.h"
#include "gpu/run/run.h"

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Rows of the op's steps, from its first on. */
static struct eco_scan_array array_of(const struct eco_view *view, int32_t t)
{
    const struct eco_plane plane = eco_gpu_plane(view, t);
    return (struct eco_scan_array){plane.data, (int64_t)plane.step, (int64_t)plane.row};
}

/* Rows of one step. */
static struct eco_scan_array plane_of(const struct eco_view *view, int32_t t)
{
    struct eco_scan_array array = array_of(view, t);
    array.step = 0;
    return array;
}

static void point_at_planes(const struct eco_gpu_run *run, const struct eco_bound *bound,
                            struct eco_scan_call *call)
{
    const struct eco_op *op = bound->op;
    const int32_t first = op->reversed ? op->t1 - 1 : op->t0,
                  last = op->reversed ? op->t0 : op->t1 - 1;
    call->zero_states = first == bound->first ? eco_gpu_zero_states(run) : 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_view *next = &bound->next[s];
        call->first[s] = plane_of(&bound->before[s], first);
        call->last[s] = plane_of(next, last);
        call->wide_states |= (uint16_t)((next->type != run->layout->type) << s);
        if (next->mask == SIZE_MAX)
            call->next[s] = array_of(next, op->t0);
        if (s > 0 && eco_layout_copies_states(run->layout))
            call->kept[s] = array_of(&bound->checkpoint[s], op->t0);
    }
    for (int a = 0; a < run->lowered->n_accs; a++)
        call->bias[a] = (int8_t)eco_gpu_bias(run, a);
    call->y = array_of(&bound->y, op->t0);
}

static void point_at_kept(const struct eco_gpu_run *run, const struct eco_bound *bound,
                          struct eco_scan_call *call)
{
    const int32_t t0 = bound->op->t0;
    const int32_t last = bound->op->reversed ? bound->op->t0 : bound->op->t1 - 1;
    call->zero_carry = last == bound->last ? eco_gpu_zero_carry(run) : 0;
    call->begin = bound->first;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        call->before[s] = array_of(&bound->before[s], t0);
        call->next[s] = array_of(&bound->next[s], t0);
        call->initial[s] = plane_of(&bound->before_first[s], bound->first);
        call->begins |= (uint16_t)(bound->begins[s] << s);
        call->carry[s] = plane_of(&bound->carry[s], 0);
        if (run->args->dstates[s] != NULL)
            call->given[s] = array_of(&bound->all_states[s], t0);
    }
    call->y = array_of(&bound->dy, t0);
    call->wide_dy = bound->dy.type != run->layout->type;
}

/* ---- the exchange between tiles -------------------------------------------------------------- */

/* A ticket, then what tiles pass on: 8 bytes for each 4 of the states of all groups of units, and,
 * with resets, of the sums of their gradients. */
enum { WORDS_ALIGNMENT = 256 };

/* Groups have units of a row or, if units never meet, of all rows. */
static size_t groups_of(const struct eco_problem *problem, int32_t rows)
{
    if (eco_scan_is_apart(problem->cell))
        return ((size_t)rows * (size_t)problem->H + ECO_SCAN_UNITS - 1) / ECO_SCAN_UNITS;
    return (size_t)rows * (((size_t)problem->H + ECO_SCAN_UNITS - 1) / ECO_SCAN_UNITS);
}

static size_t passed_words(const struct eco_problem *problem, int32_t rows)
{
    const size_t numbers =
        groups_of(problem, rows) * (size_t)problem->cell->recipe.n_states * ECO_SCAN_UNITS;
    return numbers * eco_type_bytes(eco_type_sum(problem->type)) / sizeof(uint32_t);
}

static size_t exchange_bytes(const struct eco_problem *problem, int32_t rows)
{
    const size_t sets = problem->resets && problem->training ? 2 : 1;
    return eco_scan_is_apart(problem->cell)
               ? 0
               : WORDS_ALIGNMENT + sets * passed_words(problem, rows) * sizeof(uint64_t);
}

size_t eco_scan_bytes(const struct eco_problem *problem)
{
    return exchange_bytes(problem, problem->N);
}

/* ---- resets ---------------------------------------------------------------------------------- */

/* The gradients of starts are summed if the caller wants them. */
static void point_at_resets(const struct eco_gpu_run *run, const struct eco_bound *bound,
                            struct eco_scan_call *call)
{
    call->resets = run->args->resets;
    call->resets_ahead = eco_op_reset(bound->op, 0);
    call->resets_end = run->args->T;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        call->start[s] = plane_of(&bound->start[s], 0);
        if (run->args->backward && run->args->dreset_state[s] != NULL) {
            call->dstart[s] = plane_of(&bound->dstart[s], 0);
            call->summed = call->passed + passed_words(run->problem, call->rows);
        }
    }
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* May an array's elements of `bytes` bytes be read ECO_SCAN_WIDE at a time? */
static bool is_wide(const struct eco_scan_array *array, size_t bytes)
{
    return array->data == NULL ||
           ((uintptr_t)array->data % (bytes * ECO_SCAN_WIDE) == 0 &&
            array->step % ECO_SCAN_WIDE == 0 && array->row % ECO_SCAN_WIDE == 0);
}

/* For the arrays of whole tiles; states at the ends of a chunk are read one by one. */
static bool has_pairs(const struct eco_gpu_run *run, const struct eco_scan_call *call)
{
    const size_t sum = eco_type_bytes(eco_type_sum(run->layout->type)),
                 element = eco_type_bytes(run->layout->type);
    const bool backward = run->args->backward;
    bool wide = call->hidden % ECO_SCAN_WIDE == 0 && call->column % ECO_SCAN_WIDE == 0 &&
                is_wide(&call->acc, backward ? element : sum) && is_wide(&call->save, element) &&
                is_wide(&call->y, call->wide_dy ? sum : element);
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++)
        wide = wide && is_wide(&call->kept[s], element) && is_wide(&call->before[s], element) &&
               is_wide(&call->given[s], element) &&
               is_wide(&call->next[s], call->wide_states >> s & 1 ? sum : element);
    return wide;
}

/* ---- the launch ------------------------------------------------------------------------------ */

static struct eco_scan_call call_of(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const bool backward = run->args->backward;
    char *room = eco_bind_array(run->layout, run->args, op, ECO_INNER_EXCHANGE, 0).first;
    struct eco_scan_call call = {
        .rows = run->args->N,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .t0 = op->t0,
        .steps = op->t1 - op->t0,
        .falls = op->reversed != backward,
        .training = run->args->reserve != NULL,
        .layer = op->layer,
        .direction = op->d,
        .seed = run->args->seed,
        .draw_step = run->args->first_step,
        .draw_row = run->args->first_row,
        .lengths = run->args->lengths,
        .vector = eco_gpu_weights(run, op, ECO_WEIGHT_VECTORS),
        .acc = array_of(&bound->acc, op->t0),
        .save = array_of(&bound->save, op->t0),
        .ticket = (uint32_t *)(void *)room,
        .passed = (uint64_t *)(void *)(room + WORDS_ALIGNMENT),
    };
    (backward ? point_at_kept : point_at_planes)(run, bound, &call);
    if (run->args->resets != NULL)
        point_at_resets(run, bound, &call);
    call.pairs = has_pairs(run, &call);
    return call;
}

int32_t eco_scan_steps(const struct eco_problem *problem, bool backward)
{
    const struct eco_scan_source source = {problem, backward};
    const struct eco_scan_tiles tiles = eco_scan_tiles(&source);
    return tiles.steps * (eco_scan_is_apart(problem->cell) ? 1 : tiles.warps);
}

static void launch(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const bool backward = run->args->backward;
    struct eco_scan_call call = call_of(run, bound);
    const struct eco_scan_source source = {run->problem, backward};
    const unsigned warps = (unsigned)eco_scan_tiles(&source).warps;
    const size_t groups = groups_of(run->problem, call.rows),
                 bytes = exchange_bytes(run->problem, call.rows),
                 steps = (size_t)eco_scan_steps(run->problem, backward),
                 tiles = bytes == 0 ? 1 : ((size_t)call.steps + steps - 1) / steps;
    const dim3 blocks = {(unsigned)(groups * tiles), 1, 1}, threads = {32, warps, 1};
    void *arguments[] = {&call};
    if (run->status != ECORNN_OK)
        return;
    if (bytes > 0)
        eco_gpu_note_cuda(run, cudaMemsetAsync(call.ticket, 0, bytes, run->stream),
                          "cudaMemsetAsync");
    eco_launch_serialize(&run->launch, ECO_SERIALIZED_COPY);
    (void)eco_launch_after(&run->launch);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(
            run,
            eco_launch(own->scan.kernel[backward], blocks, threads, arguments, false, run->stream),
            "a scan");
}

/* Queues STEP or D_STEP of all ops of a level. */
static void run_ops(struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    for (int i = 0; i < n; i++) {
        if (run->args->backward)
            eco_gpu_copy_history(run, &bounds[i]);
        launch(run, &bounds[i]);
    }
}

/* ---- the run of a plan ----------------------------------------------------------------------- */

ecornn_status eco_gpu_run_scan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args)
{
    static const eco_gpu_ops ops[ECO_OP_KINDS] = {[ECO_STEP] = run_ops, [ECO_D_STEP] = run_ops};
    const struct eco_gpu_plan *own = plan->context;
    return eco_gpu_run_plan(plan, tape, layout, args, own->scan.used ? ops : NULL);
}

/* ---- kernels of a plan ----------------------------------------------------------------------- */

void eco_scan_prepare(const struct ecornn_plan *plan)
{
    struct eco_gpu_plan *own = plan->context;
    struct eco_text why = {own->scan.why, sizeof own->scan.why, 0};
    const struct eco_problem *problem = &plan->problem;
    struct eco_own_text wanted[] = {{.n = 1, .name = {"scan_forward"}, .why = &why},
                                    {.n = 1, .name = {"scan_backward"}, .why = &why}};
    const int n = problem->training ? 2 : 1;
    for (int way = 0; way < n; way++) {
        const struct eco_scan_source source = {problem, way};
        wanted[way].text = eco_scan_text(&source);
    }
    eco_own_codes_get(plan->device->context, wanted, n,
                      problem->training && problem->saving.policy != ECO_SAVE_ALL ? problem : NULL);
    own->scan.used = wanted[0].code != NULL && wanted[n - 1].code != NULL;
    for (int way = 0; way < n && own->scan.used; way++)
        own->scan.kernel[way] = eco_own_kernel(wanted[way].code, 0);
}

void eco_scan_describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_gpu_plan *own = plan->context;
    if (!own->scan.used) {
        eco_text_add(text, "scan: steps as in algorithm step (%s)\n", own->scan.why);
        return;
    }
    eco_text_add(text, "scan: %d steps at once", eco_scan_steps(&plan->problem, false));
    if (plan->problem.training)
        eco_text_add(text, ", backward of %d", eco_scan_steps(&plan->problem, true));
    eco_text_add(text, "\n");
}
