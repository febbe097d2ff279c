/*
 * A run of the reference: every option as plain loops over layer, direction, row and step, in
 * double.  The packed weights are the parameter block, and backward computes forward again, so that
 * there is no reserve.  Knows no layout, tape or lowered programs: it checks them.
 */
#include "common/ref/ref.h"

#include <string.h>

#include "common/number.h"
#include "common/util.h"

/* ---- memory of a run ------------------------------------------------------------------------- */

/* Taken twice in the same way: first with base NULL to learn the size, then to give addresses. */
struct arena {
    double *base;
    struct eco_size used; /* elements */
};

static double *take(struct arena *arena, size_t planes, size_t rows, size_t width)
{
    double *taken = arena->base ? arena->base + arena->used.value : NULL;
    const struct eco_size area = eco_size_mul(eco_size_of(planes), rows);
    arena->used = eco_size_add(arena->used, eco_size_mul(area, width));
    return taken;
}

static size_t states_width(const struct eco_problem *problem)
{
    return (size_t)problem->P + (size_t)(problem->cell->recipe.n_states - 1) * (size_t)problem->H;
}

static void take_all(struct eco_reference *run, struct arena *arena)
{
    const struct eco_problem *problem = run->problem;
    const size_t T = (size_t)run->T, N = (size_t)run->N, L = (size_t)problem->L,
                 D = (size_t)problem->D, I = (size_t)problem->I, output = D * (size_t)problem->P;
    const size_t nodes = (size_t)problem->cell->recipe.n_nodes, width = (size_t)run->width;
    const size_t elements = eco_problem_param_elements(problem);
    run->weights = take(arena, 1, 1, elements);
    run->dweights = take(arena, 1, 1, elements);
    run->inputs = take(arena, T, N, I);
    take(arena, L * T, N, output);
    run->states = take(arena, L * D * (T + 1), N, states_width(problem));
    run->dinput = take(arena, T, N, I > output ? I : output);
    run->doutput = take(arena, T, N, I > output ? I : output);
    for (int s = 0; s < ECO_MAX_STATES; s++)
        run->carry[s] = take(arena, 1, 1, width);
    run->operand = take(arena, 1, 1, width);
    run->value = take(arena, 1, nodes, width);
    run->dvalue = take(arena, 1, nodes, width);
}

/* ---- where things are ------------------------------------------------------------------------ */

/* Input of a layer [T,N,width]; layer L: the output of the last. */
static double *input_of(const struct eco_reference *run, int layer)
{
    const size_t rows = (size_t)run->T * (size_t)run->N;
    if (layer == 0)
        return run->inputs;
    return run->inputs + rows * (size_t)run->problem->I +
           (size_t)(layer - 1) * rows * (size_t)run->problem->D * (size_t)run->problem->P;
}

/* State s of the layer and direction at hand, row n of a plane. */
static double *state_of(const struct eco_reference *run, int s, int32_t plane, int32_t n)
{
    const struct eco_problem *problem = run->problem;
    const size_t rows = ((size_t)run->T + 1) * (size_t)run->N;
    const size_t pair = (size_t)run->layer * (size_t)problem->D + (size_t)run->d;
    const size_t before = s == 0 ? 0 : (size_t)problem->P + (size_t)(s - 1) * (size_t)problem->H;
    return run->states + rows * (pair * states_width(problem) + before) +
           ((size_t)plane * (size_t)run->N + (size_t)n) * (size_t)eco_problem_width(problem, s);
}

/* Row (t,n) in the caller's order of x, y and their gradients. */
static size_t callers_row(const struct eco_reference *run, int32_t t, int32_t n)
{
    return run->problem->order == ECORNN_TIME_MAJOR ? (size_t)t * (size_t)run->N + (size_t)n
                                                    : (size_t)n * (size_t)run->T + (size_t)t;
}

static bool is_padding(const struct eco_reference *run, int32_t t, int32_t n)
{
    return run->args->lengths && t >= run->args->lengths[n];
}

/* Step number k of the recurrence; its previous state is plane_before, its next plane_after. */
static int32_t step_of(const struct eco_reference *run, int32_t k)
{
    return eco_problem_reversed(run->problem, run->d) ? run->T - 1 - k : k;
}

static int32_t plane_of(const struct eco_reference *run, int32_t k)
{
    return eco_problem_reversed(run->problem, run->d) ? run->T - k : k;
}

/* Makes (layer, d) the pair at hand. */
static void choose_pair(struct eco_reference *run, int layer, int d)
{
    const struct eco_problem *problem = run->problem;
    const int each = problem->cell->recipe.n_params + (problem->projected ? 1 : 0);
    run->layer = layer;
    run->d = d;
    run->input = eco_problem_input(problem, layer);
    for (int i = 0; i < each; i++) {
        struct eco_param_place place;
        eco_problem_param(problem, (layer * problem->D + d) * each + i, &place);
        run->offset[i] = place.param.offset;
    }
}

/* ---- the caller's arrays --------------------------------------------------------------------- */

/* n elements from place `from` of an array; NULL: zeros. */
static void load(const struct eco_reference *run, double *to, const void *array, size_t from,
                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = array ? eco_type_get(array, from + i, run->problem->type) : 0;
}

static void store(const struct eco_reference *run, void *array, size_t to, const double *from,
                  size_t n)
{
    for (size_t i = 0; array && i < n; i++)
        eco_type_set(array, to + i, run->problem->type, from[i]);
}

/* Weights, as they are packed: matrices rounded to what they are kept in. */
static void load_weights(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    const ecornn_type sum = eco_type_sum(problem->type);
    for (int i = 0; i < eco_problem_params(problem); i++) {
        struct eco_param_place place;
        eco_problem_param(problem, i, &place);
        const int k = place.recipe_param;
        const bool vector = k >= 0 && problem->cell->recipe.param[k].kind == ECO_PARAM_VECTOR;
        const size_t end = place.param.offset + (size_t)place.param.rows * (size_t)place.param.cols;
        for (size_t j = place.param.offset; j < end; j++) {
            const double value = eco_type_get(run->args->weights, j, sum);
            run->weights[j] = vector ? value : eco_type_round(value, run->arithmetic.weight_type);
        }
    }
}

/* x or dy to time order; padding is not read, it becomes 0. */
static void load_sequence(const struct eco_reference *run, double *to, const void *array,
                          size_t width)
{
    for (int32_t t = 0; t < run->T; t++)
        for (int32_t n = 0; n < run->N; n++)
            load(run, to + ((size_t)t * (size_t)run->N + (size_t)n) * width,
                 is_padding(run, t, n) ? NULL : array, callers_row(run, t, n) * width, width);
}

static void store_sequence(const struct eco_reference *run, void *array, const double *from,
                           size_t width)
{
    for (int32_t t = 0; t < run->T; t++)
        for (int32_t n = 0; n < run->N; n++)
            store(run, array, callers_row(run, t, n) * width,
                  from + ((size_t)t * (size_t)run->N + (size_t)n) * width, width);
}

/* Where state s of row n of the pair at hand lies in the caller's [L*D,N,width]. */
static size_t callers_state(const struct eco_reference *run, int s, int32_t n)
{
    const size_t pair = (size_t)run->layer * (size_t)run->problem->D + (size_t)run->d;
    return (pair * (size_t)run->N + (size_t)n) * (size_t)eco_problem_width(run->problem, s);
}

/* All pairs' initial states in, or final states out. */
static void move_states(struct eco_reference *run, bool out)
{
    const struct eco_problem *problem = run->problem;
    for (int pair = 0; pair < problem->L * problem->D; pair++)
        for (int s = 0; s < problem->cell->recipe.n_states; s++)
            for (int32_t n = 0; n < run->N; n++) {
                const size_t width = (size_t)eco_problem_width(problem, s);
                run->layer = pair / problem->D;
                run->d = pair % problem->D;
                double *inside = state_of(run, s, plane_of(run, out ? run->T : 0), n);
                if (out)
                    store(run, run->args->final[s], callers_state(run, s, n), inside, width);
                else
                    load(run, inside, run->args->initial[s], callers_state(run, s, n), width);
            }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Dropout on the input of a layer, or on its gradient: [T,N,D*P] in place. */
static void drop(struct eco_reference *run, int layer, double *array, bool gradient)
{
    const struct eco_problem *problem = run->problem;
    const int32_t width = problem->D * problem->P;
    const double p = (double)problem->dropout;
    if (!run->draws || !(p > 0))
        return;
    const double scale = eco_round(&run->arithmetic, 1 / (1 - p));
    struct eco_coordinates at = {.seed = run->args->seed, .layer = (uint32_t)layer};
    for (int32_t t = 0; t < run->T; t++)
        for (int32_t n = 0; n < run->N; n++)
            for (int32_t j = 0; j < width; j++) {
                uint32_t word[4];
                at.t = (uint32_t)t;
                at.n = (uint32_t)n;
                eco_random_quad(&at, (uint32_t)j / 4, word);
                const bool kept = word[j % 4] >= eco_random_threshold(p);
                *array = kept ? eco_round(&run->arithmetic, *array * scale) : 0;
                if (!gradient)
                    *array = eco_round_kept(&run->arithmetic, *array);
                array++;
            }
}

/* What row n of step number k of the pair at hand reads and writes. */
static struct eco_reference_row row_of(const struct eco_reference *run, int32_t k, int32_t n)
{
    const int32_t t = step_of(run, k);
    const size_t at = ((size_t)t * (size_t)run->N + (size_t)n) * (size_t)run->input;
    struct eco_reference_row row = {
        .t = t, .n = n, .x = input_of(run, run->layer) + at, .dx = run->dinput + at};
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        row.state[s] = state_of(run, s, plane_of(run, k), n);
        row.next[s] = state_of(run, s, plane_of(run, k + 1), n);
    }
    return row;
}

/* Where the pair at hand has its part of a [T,N,D*P] array. */
static double *output_part(const struct eco_reference *run, double *array, int32_t t, int32_t n)
{
    const size_t P = (size_t)run->problem->P, D = (size_t)run->problem->D;
    return array + (((size_t)t * (size_t)run->N + (size_t)n) * D + (size_t)run->d) * P;
}

static void forward_row(struct eco_reference *run, int32_t n)
{
    const struct eco_problem *problem = run->problem;
    for (int32_t k = 0; k < run->T; k++) {
        const struct eco_reference_row row = row_of(run, k, n);
        const bool padding = is_padding(run, row.t, n);
        if (!padding)
            eco_reference_forward(run, &row);
        for (int s = 0; padding && s < problem->cell->recipe.n_states; s++)
            memcpy(row.next[s], row.state[s],
                   (size_t)eco_problem_width(problem, s) * sizeof(double));
        double *output = output_part(run, input_of(run, run->layer + 1), row.t, n);
        for (int32_t j = 0; j < problem->P; j++)
            output[j] = padding ? 0 : row.next[0][j];
    }
}

static void forward(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    load_weights(run);
    load_sequence(run, input_of(run, 0), run->args->x, (size_t)problem->I);
    move_states(run, false);
    for (int layer = 0; layer < problem->L; layer++) {
        for (int d = 0; d < problem->D; d++) {
            choose_pair(run, layer, d);
            for (int32_t n = 0; n < run->N; n++)
                forward_row(run, n);
        }
        if (layer + 1 < problem->L)
            drop(run, layer + 1, input_of(run, layer + 1), false);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

static void backward_row(struct eco_reference *run, int32_t n)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_args *args = run->args;
    const int states = problem->cell->recipe.n_states;
    for (int s = 0; s < states; s++)
        load(run, run->carry[s], args->dfinal[s], callers_state(run, s, n),
             (size_t)eco_problem_width(problem, s));
    for (int32_t k = run->T - 1; k >= 0; k--) {
        const struct eco_reference_row row = row_of(run, k, n);
        if (is_padding(run, row.t, n))
            continue;
        const double *doutput = output_part(run, run->doutput, row.t, n);
        for (int32_t j = 0; j < problem->P; j++)
            run->carry[0][j] = eco_round(&run->arithmetic, run->carry[0][j] + doutput[j]);
        eco_reference_backward(run, &row);
    }
    for (int s = 0; s < states; s++)
        store(run, args->dinitial[s], callers_state(run, s, n), run->carry[s],
              (size_t)eco_problem_width(problem, s));
}

static void backward(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_args *args = run->args;
    const size_t rows = (size_t)run->T * (size_t)run->N;
    const size_t elements = eco_problem_param_elements(problem);
    for (size_t i = 0; i < elements; i++)
        run->dweights[i] = args->accumulate && args->dweights
                               ? eco_type_get(args->dweights, i, eco_type_sum(problem->type))
                               : 0;
    load_sequence(run, run->doutput, args->dy, (size_t)problem->D * (size_t)problem->P);
    for (int layer = problem->L - 1; layer >= 0; layer--) {
        memset(run->dinput, 0, rows * (size_t)eco_problem_input(problem, layer) * sizeof(double));
        for (int d = 0; d < problem->D; d++) {
            choose_pair(run, layer, d);
            for (int32_t n = 0; n < run->N; n++)
                backward_row(run, n);
        }
        if (layer > 0)
            drop(run, layer, run->dinput, true);
        double *const done = run->dinput; /* is the gradient of the output of the layer below */
        run->dinput = run->doutput;
        run->doutput = done;
    }
    store_sequence(run, args->dx, run->doutput, (size_t)problem->I);
    for (size_t i = 0; args->dweights && i < elements; i++)
        eco_type_set(args->dweights, i, eco_type_sum(problem->type), run->dweights[i]);
}

/* ---- a run --------------------------------------------------------------------------- */

/* Only nodes that a next state depends on take part in the sweep: 0 times the infinity of a value
 * nobody uses would be no 0. */
static void find_live(struct eco_reference *run)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    for (int s = 0; s < recipe->n_states; s++)
        run->live[recipe->next[s]] = true;
    for (int i = recipe->n_nodes - 1; i >= 0; i--) {
        const int16_t argument[] = {recipe->node[i].a, recipe->node[i].b, recipe->node[i].c};
        for (int k = 0; run->live[i] && k < 3; k++)
            if (argument[k] >= 0)
                run->live[argument[k]] = true;
    }
}

/* What a machine keeps, by what the cell's products read and its gradient saves. */
static void find_kept(struct eco_reference *run)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_lowered *lowered = &run->problem->cell->lowered;
    for (int i = 0; i < lowered->n_saves; i++)
        run->kept[lowered->saved[i]] = true;
    run->narrow[0] = true;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        if (node->op == ECO_OP_PRODUCT && recipe->node[node->a].op == ECO_OP_STATE)
            run->narrow[recipe->node[node->a].index] = true;
    }
}

ecornn_status eco_reference_run(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_problem *problem = &plan->problem;
    struct eco_reference run = {.problem = problem,
                                .args = args,
                                .arithmetic = *(const struct eco_arithmetic *)plan->device->own,
                                .draws = problem->training && args->reserve,
                                .T = args->T,
                                .N = args->N,
                                .width = problem->H > problem->P ? problem->H : problem->P};
    struct arena arena = {NULL, eco_size_of(0)};
    take_all(&run, &arena);
    const struct eco_size bytes = eco_size_mul(arena.used, sizeof(double));
    arena = (struct arena){bytes.overflow ? NULL : eco_alloc(bytes.value), eco_size_of(0)};
    if (!arena.base)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of the reference's scratch",
                        bytes.value);
    take_all(&run, &arena);
    find_live(&run);
    find_kept(&run);
    forward(&run);
    if (args->backward) {
        backward(&run);
    } else {
        store_sequence(&run, args->y, input_of(&run, problem->L),
                       (size_t)problem->D * (size_t)problem->P);
        move_states(&run, true);
    }
    eco_free(arena.base);
    return ECORNN_OK;
}
