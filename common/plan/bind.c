/*
 * Binds an op: combines the layout's offsets with the caller's pointers to addresses.  Knows order,
 * directions and what forward keeps for backward; no kernels.
 */
#include "common/bound.h"

#include <assert.h>

struct binding {
    struct eco_bound *bound;
    const struct eco_layout *layout;
    const struct eco_problem *problem;
    const struct eco_args *args;
    const struct eco_op *op;
};

/* ---- arrays ---------------------------------------------------------------------------------- */

struct eco_view eco_bind_view(const struct eco_array *array, const struct eco_args *args,
                              int32_t from)
{
    char *const block = array->block == ECO_BLOCK_RESERVE ? args->reserve : args->workspace;
    assert((array->wrap & (array->wrap - 1)) == 0);
    return (struct eco_view){.first = block + array->offset,
                             .step = array->step * eco_type_bytes(array->type),
                             .mask = array->wrap > 0 ? array->wrap - 1 : SIZE_MAX,
                             .row = array->row,
                             .from = from,
                             .type = array->type};
}

/* The step at which the op's part of an array begins. */
static int32_t begins(const struct eco_layout *layout, const struct eco_args *args,
                      const struct eco_op *op, enum eco_begins begins)
{
    const bool several = args->backward && layout->request.gpu.weights_chunks > 1;
    return begins == ECO_BEGINS_RUN               ? 0
           : begins == ECO_BEGINS_SPAN && several ? op->t0 - op->t0 % layout->weights_steps
                                                  : op->t0;
}

struct eco_view eco_bind_array(const struct eco_layout *layout, const struct eco_args *args,
                               const struct eco_op *op, enum eco_inner which, int index)
{
    const struct eco_array array =
        eco_layout_array(layout, which, args->backward, op->layer, op->d, index);
    return eco_bind_view(&array, args, begins(layout, args, op, array.begins));
}

static struct eco_view array_of(const struct binding *b, enum eco_inner which, int index)
{
    return eco_bind_array(b->layout, b->args, b->op, which, index);
}

static int states(const struct binding *b)
{
    return b->problem->cell->recipe.n_states;
}

/* One for each state, from state `first` on. */
static void bind_arrays(const struct binding *b, struct eco_view view[ECO_MAX_STATES],
                        enum eco_inner which, int first)
{
    for (int s = first; s < states(b); s++)
        view[s] = array_of(b, which, s);
}

/* A caller's sequence of rows of `width` elements, from a column on. */
static struct eco_view sequence(const struct binding *b, const void *data, size_t width,
                                size_t column)
{
    const size_t T = (size_t)b->args->T, N = (size_t)b->args->N;
    const bool time_major = !b->problem->batch_major;
    const ecornn_type type = b->layout->type;
    struct eco_view view = {.first = (char *)(uintptr_t)data,
                            .step = (time_major ? N * width : width) * eco_type_bytes(type),
                            .mask = SIZE_MAX,
                            .row = time_major ? width : T * width,
                            .type = type,
                            .caller = true};
    return eco_view_column(&view, column);
}

int32_t eco_args_input(const struct eco_problem *problem, const struct eco_args *args)
{
    return args->inputs == NULL ? problem->I : eco_problem_rest(problem, 0);
}

struct eco_view eco_bind_x(const struct eco_layout *layout, const struct eco_args *args,
                           const struct eco_view *x, int copy, bool gradient)
{
    const struct eco_problem *problem = layout->problem;
    const struct binding binding = {.layout = layout, .args = args, .problem = problem};
    const size_t *const rows = gradient ? args->dinput_rows : args->input_rows,
                        own = copy > 0 ? (size_t)eco_problem_part(problem, copy - 1) : 0;
    const int k = copy - 1;
    if (copy == 0 || args->inputs == NULL)
        return eco_view_column(x, (size_t)eco_problem_column(problem, copy));
    const void *const data = !gradient               ? args->inputs[k]
                             : args->dinputs != NULL ? args->dinputs[k]
                                                     : NULL;
    return sequence(&binding, data, rows == NULL || rows[k] == 0 ? own : rows[k], 0);
}

/* x, or dx, of the first layer. */
static struct eco_view x_at(const struct binding *b, const void *data)
{
    return sequence(b, data, (size_t)eco_args_input(b->problem, b->args), 0);
}

/* This direction's columns of the caller's rows of D*Y. */
static struct eco_view output(const struct binding *b, const void *data)
{
    const size_t Y = (size_t)b->problem->Y;
    return sequence(b, data, (size_t)b->problem->D * Y, b->op->d * Y);
}

/* rows: of the caller's array in each lane; those of streams if it has these. */
static struct eco_view state_of(const struct eco_layout *layout, const struct eco_op *op, int s,
                                const void *data, size_t rows)
{
    const struct eco_problem *problem = layout->problem;
    const size_t width = (size_t)eco_problem_width(problem, s);
    const size_t before = (size_t)op->layer * (size_t)problem->D + op->d;
    struct eco_view view = {.first = (char *)(uintptr_t)data,
                            .mask = SIZE_MAX,
                            .row = width,
                            .type = layout->type,
                            .caller = true};
    return eco_view_column(&view, before * rows * width);
}

struct eco_view eco_bind_caller_state(const struct eco_layout *layout, const struct eco_args *args,
                                      const struct eco_op *op, int s, const void *data)
{
    return state_of(layout, op, s, data, (size_t)args->N);
}

static struct eco_view caller_state(const struct binding *b, const void *data, int s)
{
    return state_of(b->layout, b->op, s, data, (size_t)b->args->N);
}

const void *eco_bind_weights(const struct eco_layout *layout, const struct eco_args *args,
                             const struct eco_op *op, int weight_id)
{
    const char *weights = args->weights;
    const int place = (op->layer * layout->problem->D + op->d) * ECO_WEIGHT_IDS + weight_id;
    if (args->matrices != NULL && args->matrices[place] != NULL)
        return args->matrices[place];
    return weights == NULL ? NULL
                           : weights + eco_layout_weights(layout, op->layer, op->d, weight_id);
}

const void *eco_bind_weights_back(const struct eco_layout *layout, const struct eco_args *args,
                                  const struct eco_op *op, int weight_id)
{
    const char *weights = args->weights;
    return weights == NULL ? NULL
                           : weights + eco_layout_weights_back(layout, op->layer, op->d, weight_id);
}

void *eco_bind_gradient(const struct eco_layout *layout, const struct eco_args *args,
                        const struct eco_op *op, int weight_id)
{
    char *dweights = args->dweights;
    return dweights == NULL ? NULL
                            : dweights + eco_layout_gradient(layout, op->layer, op->d, weight_id);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void bind_planes(const struct binding *b)
{
    const int32_t before = (int32_t)eco_layout_state_plane(b->layout, b->op->d, 0, false),
                  next = (int32_t)eco_layout_state_plane(b->layout, b->op->d, 0, true);
    for (int s = 0; s < states(b); s++) {
        b->bound->next[s] = b->bound->before[s] = array_of(b, ECO_INNER_STATE, s);
        b->bound->next[s].from -= next;
        b->bound->before[s].from -= before;
        b->bound->begins[s] = false;
    }
    b->bound->copied = false;
}

static void bind_caller_states(const struct binding *b, const void *const initial[ECO_MAX_STATES],
                               void *const final[ECO_MAX_STATES])
{
    const bool streams = b->args->rows != NULL;
    const size_t N = (size_t)(streams ? b->args->streams : b->args->N);
    for (int s = 0; s < states(b); s++) {
        b->bound->initial[s] = state_of(b->layout, b->op, s, initial[s], N);
        b->bound->final[s] = state_of(b->layout, b->op, s, final[s], N);
        b->bound->initial[s].stream = b->bound->final[s].stream = streams;
    }
}

/* What the layer above reads in a run that is not lean: this direction's columns. */
static struct eco_view sequence_of(const struct binding *b, const struct eco_op *op)
{
    struct eco_view view = eco_bind_array(b->layout, b->args, op, ECO_INNER_SEQUENCE, 0);
    view.from = -1;
    return view;
}

/* y of a direction; below the last layer, the copy that a lean run keeps, or a run with wide
 * planes. */
static struct eco_view y_of(const struct binding *b, const struct eco_op *op)
{
    struct binding at = *b;
    at.op = op;
    if (op->layer == b->problem->L - 1)
        return output(&at, b->args->y);
    if (!eco_layout_is_lean(b->layout))
        return eco_problem_wide_output(b->problem) ? sequence_of(b, op) : output(&at, NULL);
    return array_of(&at, ECO_INNER_CHECKPOINT, 0);
}

/* Copies of states after steps; in a lean run without all checkpoints those of the chunk, backward
 * from one before it. */
static struct eco_view copies_of(const struct binding *b, int s)
{
    if (eco_layout_copies_direct(b->layout))
        return array_of(b, ECO_INNER_CHECKPOINT, s);
    struct eco_view recent = array_of(b, ECO_INNER_RECENT, s);
    recent.from -= b->args->backward && !b->op->reversed;
    return recent;
}

/* Must steps and products of backward read a copy of y?  Yes if its rows are not contiguous or not
 * padded as requested, or if they contain padding although a reversed direction begins from an
 * initial state.  The answer is the same for the whole run, because launches take both directions.
 */
static bool copies_y(const struct binding *b)
{
    const struct eco_problem *problem = b->problem;
    const bool falls = (problem->reverse || problem->D == 2);
    return (problem->batch_major && b->args->N > 1) ||
           eco_request_needs_copy(&b->layout->request, (size_t)problem->P) ||
           (falls && b->args->lengths != NULL && b->args->initial[0] != NULL);
}

/* That copy: the output state before and after the steps of all chunks whose weight gradients are
 * computed together.  In forward order the state before a step is one step earlier in the array. */
static struct eco_view history_of(const struct binding *b)
{
    struct eco_view history = array_of(b, ECO_INNER_HISTORY, 0);
    history.from -= b->op->reversed ? 0 : 1;
    return history;
}

/* The checkpoints of a lean forward, and the caller's state before the first step. */
static void bind_checkpoints(const struct binding *b)
{
    b->bound->copied = copies_y(b);
    b->bound->y = y_of(b, b->op);
    for (int s = 0; s < states(b); s++) {
        struct eco_view *const next = &b->bound->next[s], *const before = &b->bound->before[s];
        const bool history = s == 0 && b->bound->copied;
        *next = s > 0 ? copies_of(b, s) : history ? history_of(b) : b->bound->y;
        *before = *next;
        before->from += b->op->reversed ? -1 : 1;
        b->bound->begins[s] = !history && (s == 0 || eco_layout_copies_direct(b->layout));
        b->bound->before_first[s] = caller_state(b, b->args->initial[s], s);
    }
}

static void bind_states_back(const struct binding *b)
{
    (eco_layout_is_lean(b->layout) ? bind_checkpoints : bind_planes)(b);
}

/* ---- resets ---------------------------------------------------------------------------------- */

static void bind_starts(const struct binding *b)
{
    for (int s = 0; b->args->resets != NULL && s < states(b); s++)
        b->bound->start[s] = caller_state(b, b->args->reset_state[s], s);
}

/* A lean run has none if no product reads the state. */
static void bind_with_resets(const struct binding *b)
{
    bind_starts(b);
    for (int s = 0; b->args->resets != NULL && s < states(b); s++) {
        b->bound->with_resets[s] = array_of(b, ECO_INNER_WITH_RESETS, s);
        if (b->bound->with_resets[s].row == 0)
            b->bound->with_resets[s] = (struct eco_view){0};
    }
}

static void bind_dstarts(const struct binding *b)
{
    if (!b->problem->resets)
        return;
    bind_arrays(b, b->bound->dstart, ECO_INNER_DSTART, 0);
    for (int s = 0; s < states(b); s++)
        b->bound->dreset_state[s] = caller_state(b, b->args->dreset_state[s], s);
}

/* ---- states of every step -------------------------------------------------------------------- */

static void bind_all_states(const struct binding *b, const void *const arrays[ECO_MAX_STATES])
{
    const size_t T = (size_t)b->args->T, N = (size_t)b->args->N;
    for (int s = 0; s < states(b); s++) {
        struct eco_view *const view = &b->bound->all_states[s];
        *view = (struct eco_view){.first = NULL};
        if (arrays[s] == NULL)
            continue;
        *view = state_of(b->layout, b->op, s, arrays[s], T * N);
        view->step = N * view->row * eco_type_bytes(view->type);
    }
}

/* ---- what a layer reads, and its gradient ---------------------------------------------------- */

static struct eco_view x_of(const struct binding *b)
{
    const struct eco_op below = {.layer = (uint8_t)(b->op->layer - 1)};
    if (b->op->layer == 0)
        return x_at(b, b->args->x);
    return (eco_layout_is_lean(b->layout) ? y_of : sequence_of)(b, &below);
}

static void bind_gather(const struct binding *b)
{
    b->bound->x = x_of(b);
    b->bound->gather = array_of(b, ECO_INNER_GATHER, 0);
}

static void bind_input(const struct binding *b)
{
    if (b->op->gathered) {
        b->bound->input = array_of(b, ECO_INNER_GATHER, 0);
        return;
    }
    b->bound->input = x_of(b);
    if (b->op->layer ==
        0) /* with batch-major order there is only one row here, whose steps are contiguous */
        b->bound->input.row = (size_t)eco_args_input(b->problem, b->args);
}

/* Above the first layer: the gradient of y below, both directions. */
static struct eco_view dinput_of(const struct binding *b)
{
    const struct eco_op both = {.layer = b->op->layer};
    return eco_bind_array(b->layout, b->args, &both, ECO_INNER_DINPUT, 0);
}

static struct eco_view dy_of(const struct binding *b)
{
    const struct eco_op above = {.layer = (uint8_t)(b->op->layer + 1), .d = b->op->d};
    return b->op->layer == b->problem->L - 1
               ? output(b, b->args->dy)
               : eco_bind_array(b->layout, b->args, &above, ECO_INNER_DINPUT, 0);
}

/* ---- by kind --------------------------------------------------------------------------------- */

static void begin(const struct binding *b)
{
    bind_planes(b);
    bind_starts(b);
    bind_caller_states(b, b->args->initial, b->args->final);
    bind_all_states(b, (const void *const *)b->args->states);
    if (!eco_layout_copies_states(b->layout))
        return;
    b->bound->y = y_of(b, b->op);
    if (eco_layout_copies_direct(b->layout))
        bind_arrays(b, b->bound->checkpoint, ECO_INNER_CHECKPOINT, 1);
}

static void input(const struct binding *b)
{
    bind_input(b);
    b->bound->acc = array_of(b, ECO_INNER_ACC, 0);
}

static void bind_projection(const struct binding *b)
{
    if (!b->problem->projected)
        return;
    b->bound->u = array_of(b, ECO_INNER_OUTPUT, 0);
    b->bound->h = array_of(b, ECO_INNER_STEP, 0);
}

/* Nothing is saved in inference, nor in a forward whose backward replays. */
static struct eco_view save_of(const struct binding *b)
{
    return eco_layout_saves(b->layout) ? array_of(b, ECO_INNER_SAVE, 0) : (struct eco_view){0};
}

static void step(const struct binding *b)
{
    struct eco_bound *bound = b->bound;
    bind_planes(b);
    bind_starts(b);
    if (b->args->resets != NULL && !b->layout->request.gpu.lean)
        bind_arrays(b, bound->replaced, ECO_INNER_REPLACED, 0);
    input(b);
    bind_projection(b);
    bound->operand = array_of(b, ECO_INNER_OPERAND, 0);
    bound->mean = array_of(b, ECO_INNER_MEAN, 0);
    bound->save = save_of(b);
    bound->y = y_of(b, b->op);
    for (int s = 1; s < states(b) && eco_layout_copies_states(b->layout); s++)
        bound->checkpoint[s] = copies_of(b, s);
    bind_all_states(b, (const void *const *)b->args->states);
}

static void begin_back(const struct binding *b)
{
    bind_arrays(b, b->bound->carry, ECO_INNER_CARRY, 0);
    bind_dstarts(b);
    bind_caller_states(b, b->args->dfinal, b->args->dinitial);
}

/* Indexed by sums, not by steps. */
static struct eco_view dvector_of(const struct binding *b)
{
    struct eco_view sums = array_of(b, ECO_INNER_DVECTOR, 0);
    if (!b->layout->request.cpu.sums_vectors)
        sums.first = NULL;
    return sums;
}

static void step_back(const struct binding *b)
{
    struct eco_bound *bound = b->bound;
    bind_states_back(b);
    bind_with_resets(b);
    bind_dstarts(b);
    bind_arrays(b, bound->carry, ECO_INNER_CARRY, 0);
    bind_projection(b);
    bound->acc = array_of(b, ECO_INNER_DACC, 0);
    bound->operand = array_of(b, ECO_INNER_OPERAND, 0);
    bound->doperand = array_of(b, ECO_INNER_DOPERAND, 0);
    bound->dvector = dvector_of(b);
    bound->mean = array_of(b, ECO_INNER_MEAN, 0);
    bound->save = save_of(b);
    bound->dy = dy_of(b);
    bind_all_states(b, b->args->dstates);
    if (b->problem->projected)
        bound->du = array_of(b, ECO_INNER_DOUTPUT, 0);
}

/* Dense over the op's steps; NULL if the caller does not need it. */
static void dx(const struct binding *b)
{
    b->bound->acc = array_of(b, ECO_INNER_DACC, 0);
    if (b->op->layer == 0 && b->args->dx == NULL) {
        b->bound->dx = (struct eco_view){0};
    } else if (b->op->gathered) {
        b->bound->dx = array_of(b, ECO_INNER_DGATHER, 0);
    } else if (b->op->layer > 0) {
        b->bound->dx = dinput_of(b);
    } else {
        const size_t I = (size_t)eco_args_input(b->problem, b->args);
        b->bound->dx = sequence(b, b->args->dx, I, 0);
        b->bound->dx.row = I;
        b->bound->dx.step = (size_t)b->args->N * I * eco_type_bytes(b->bound->dx.type);
    }
}

static void scatter(const struct binding *b)
{
    b->bound->dgather = array_of(b, ECO_INNER_DGATHER, 0);
    b->bound->dsum = b->op->layer == 0 && eco_layout_sums_dx(b->problem)
                         ? array_of(b, ECO_INNER_DX, 0)
                         : (struct eco_view){0};
    b->bound->dx = b->op->layer > 0 ? dinput_of(b) : x_at(b, b->args->dx);
}

static void weights(const struct binding *b)
{
    bind_states_back(b);
    bind_with_resets(b);
    for (int s = 0; b->args->resets != NULL && s < states(b); s++)
        if (b->bound->with_resets[s].first != NULL) {
            b->bound->before[s] = b->bound->with_resets[s];
            b->bound->begins[s] = false;
        }
    bind_input(b);
    bind_projection(b);
    b->bound->acc = array_of(b, ECO_INNER_DACC, 0);
    b->bound->dvector = dvector_of(b);
    b->bound->operand = array_of(b, ECO_INNER_OPERAND, 0);
}

/* Binds saved values and u, and what the reserve keeps of them. */
static void bind_narrowed(const struct binding *b)
{
    b->bound->save = save_of(b);
    bind_projection(b);
    b->bound->kept_save = array_of(b, ECO_INNER_KEPT_SAVE, 0);
    b->bound->kept_u = array_of(b, ECO_INNER_KEPT_OUTPUT, 0);
}

static void keep(const struct binding *b)
{
    const bool lean = eco_layout_is_lean(b->layout);
    bind_planes(b);
    bind_all_states(b, (const void *const *)b->args->states);
    if (eco_layout_narrows(b->layout))
        bind_narrowed(b);
    for (int s = 1; s < states(b) && eco_layout_replays(b->layout); s++) {
        b->bound->checkpoint[s] = array_of(b, ECO_INNER_CHECKPOINT, s);
        if (lean)
            b->bound->next[s] = copies_of(b, s);
    }
}

static void replay(const struct binding *b)
{
    struct eco_bound *bound = b->bound;
    keep(b);
    if (eco_layout_is_lean(b->layout))
        bind_checkpoints(b);
    bind_with_resets(b);
    bind_dstarts(b);
    bind_caller_states(b, b->args->initial, b->args->final);
    bind_input(b);
    bind_projection(b);
    bound->operand = array_of(b, ECO_INNER_OPERAND, 0);
    bound->mean = array_of(b, ECO_INNER_MEAN, 0);
    bound->save = save_of(b);
    if (eco_layout_is_lean(b->layout))
        return;
    const bool last = b->op->layer == b->problem->L - 1;
    bound->y = last ? output(b, b->args->y) : sequence_of(b, b->op);
}

void eco_bind(struct eco_bound *bound, const struct eco_layout *layout, const struct eco_args *args,
              const struct eco_op *op)
{
    static void (*const by_kind[ECO_OP_KINDS])(const struct binding *) = {
        [ECO_BEGIN] = begin,     [ECO_GATHER] = bind_gather, [ECO_INPUT] = input,
        [ECO_STEP] = step,       [ECO_KEEP] = keep,          [ECO_REPLAY] = replay,
        [ECO_END] = begin,       [ECO_D_BEGIN] = begin_back, [ECO_D_STEP] = step_back,
        [ECO_D_INPUT] = dx,      [ECO_D_SCATTER] = scatter,  [ECO_D_WEIGHTS] = weights,
        [ECO_D_END] = begin_back};
    const struct binding binding = {bound, layout, layout->problem, args, op};
    bound->op = op;
    bound->first = op->reversed ? args->T - 1 : 0;
    bound->last = op->reversed ? 0 : args->T - 1;
    by_kind[op->kind](&binding);
}
