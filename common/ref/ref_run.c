/*
 * A run of the reference: every option as plain loops over layer, direction, row and step, in
 * double.  The packed weights are the parameter block.  Backward repeats forward, so there is no
 * reserve.  Does not use layout, tape or lowered programs, because it checks them.
 */
#include "common/ref/ref.h"

#include <string.h>

#include "common/number.h"
#include "common/util.h"

/* ---- the current pair ------------------------------------------------------------------------ */

static int32_t step_of(const struct eco_reference *run, int32_t k)
{
    return eco_problem_reversed(run->problem, run->d) ? run->T - 1 - k : k;
}

static void choose_pair(struct eco_reference *run, int layer, int d)
{
    const struct eco_problem *problem = run->problem;
    const int each = problem->cell->recipe.n_params + (problem->projected ? 1 : 0);
    run->layer = layer;
    run->d = d;
    run->input = eco_problem_rest(problem, layer);
    for (int i = 0; i < each; i++) {
        ecornn_param param;
        eco_problem_param(problem, (layer * problem->D + d) * each + i, &param);
        run->offset[i] = param.offset;
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Applies dropout to the input of a layer or its gradient, [T,N,D*Y] in place. */
static void drop(struct eco_reference *run, int layer, double *array, bool gradient)
{
    const struct eco_problem *problem = run->problem;
    const int32_t width = problem->D * problem->Y;
    const double p = (double)problem->dropout;
    if (!run->draws || !(p > 0))
        return;
    const double scale = eco_round(&run->arithmetic, 1 / (1 - p));
    struct eco_coordinates at = {.seed = run->args->seed, .layer = (uint32_t)layer};
    for (int32_t t = 0; t < run->T; t++)
        for (int32_t n = 0; n < run->N; n++)
            for (int32_t j = 0; j < width; j++) {
                uint32_t word[4];
                at.t = eco_reference_number(run, t, n);
                at.n = run->args->first_row + (uint32_t)n;
                eco_random_quad(&at, (uint32_t)j / 4, word);
                const bool kept = word[j % 4] >= eco_random_threshold(p);
                *array = kept ? eco_round(&run->arithmetic, *array * scale) : 0;
                if (!gradient)
                    *array = eco_round_stored(&run->arithmetic, *array);
                array++;
            }
}

/* The data that row n of step k of the current pair reads and writes.  A reset row reads its reset
 * state, and the plane keeps the result of the step before. */
static struct eco_reference_row row_of(const struct eco_reference *run, int32_t k, int32_t n)
{
    const int32_t t = step_of(run, k);
    const size_t width = (size_t)eco_problem_input(run->problem, run->layer),
                 at = ((size_t)t * (size_t)run->N + (size_t)n) * width;
    struct eco_reference_row row = {
        .t = t, .n = n, .x = eco_reference_input(run, run->layer) + at, .dx = run->dinput + at};
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        row.state[s] = eco_reference_state(run, s, eco_reference_plane(run, k), n);
        row.next[s] = eco_reference_state(run, s, eco_reference_plane(run, k + 1), n);
        if (!eco_reference_resets(run, t, n))
            continue;
        eco_reference_begin_again(run, run->start[s], s, n);
        row.state[s] = run->start[s];
    }
    return row;
}

static double *output_part(const struct eco_reference *run, double *array, int32_t t, int32_t n)
{
    const size_t Y = (size_t)run->problem->Y, D = (size_t)run->problem->D;
    return array + (((size_t)t * (size_t)run->N + (size_t)n) * D + (size_t)run->d) * Y;
}

/* Stores the row's states after this step, and y; NULL: zeros. */
static void show(struct eco_reference *run, const struct eco_reference_row *row,
                 const double *const state[ECO_MAX_STATES])
{
    const struct eco_problem *problem = run->problem;
    double *output = output_part(run, eco_reference_input(run, run->layer + 1), row->t, row->n);
    for (int32_t j = 0; j < problem->Y; j++)
        output[j] = state[0] ? state[j / problem->P][j % problem->P] : 0;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        eco_reference_show(run, run->args->states[s], state[s], s, row);
}

static void forward_row(struct eco_reference *run, int32_t n)
{
    static const double *const zeros[ECO_MAX_STATES];
    const struct eco_problem *problem = run->problem;
    const double *last[ECO_MAX_STATES] = {NULL}; /* after the last counted step */
    for (int32_t k = 0; k < run->T; k++) {
        const struct eco_reference_row row = row_of(run, k, n);
        const bool counts = eco_reference_counts(run, row.t, n);
        if (counts)
            eco_reference_forward(run, &row);
        for (int s = 0; s < problem->cell->recipe.n_states; s++) {
            if (counts)
                last[s] = row.next[s];
            else
                memcpy(row.next[s], row.state[s],
                       (size_t)eco_problem_width(problem, s) * sizeof(double));
        }
        show(run, &row, counts || eco_reference_repeats(run, row.t, n) ? last : zeros);
    }
}

static void forward(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    eco_reference_load_weights(run);
    eco_reference_move_x(run, eco_reference_input(run, 0), false);
    eco_reference_move_states(run, false);
    for (int layer = 0; layer < problem->L; layer++) {
        for (int d = 0; d < problem->D; d++) {
            choose_pair(run, layer, d);
            for (int32_t n = 0; n < run->N; n++)
                forward_row(run, n);
        }
        if (layer + 1 < problem->L)
            drop(run, layer + 1, eco_reference_input(run, layer + 1), false);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Ends the gradient of a reset state here. */
static void cut_carry(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        for (int32_t j = 0; j < eco_problem_width(problem, s); j++) {
            eco_round_add(&run->arithmetic, &run->dstart[s][j], run->carry[s][j]);
            run->carry[s][j] = 0;
        }
}

/* Adds the gradient of a repeated output to the step it repeats, ... */
static void hold(struct eco_reference *run, const double *doutput)
{
    for (int32_t j = 0; j < run->problem->Y; j++)
        eco_round_add(&run->arithmetic, &run->held[j], doutput[j]);
}

/* ... rounded to the type of dy. */
static double take_held(struct eco_reference *run, int32_t j, double doutput)
{
    const double sum = run->held[j] + doutput;
    run->held[j] = 0;
    return run->layer == run->problem->L - 1 ? eco_round_stored(&run->arithmetic, sum) : sum;
}

/* Adds gradients of states that the caller read to those carried from later steps. */
static void take_held_states(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        for (int32_t j = 0; j < eco_problem_width(problem, s); j++) {
            const double sum = eco_round_stored(&run->arithmetic, run->held_state[s][j]);
            eco_round_add(&run->arithmetic, &run->carry[s][j], sum);
            run->held_state[s][j] = 0;
        }
}

static void backward_row(struct eco_reference *run, int32_t n)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_args *args = run->args;
    const int states = problem->cell->recipe.n_states;
    memset(run->held, 0, (size_t)problem->Y * sizeof *run->held);
    for (int s = 0; s < states; s++)
        memset(run->held_state[s], 0, (size_t)run->width * sizeof *run->held);
    for (int s = 0; s < states; s++) {
        eco_reference_load_state(run, run->carry[s], args->dfinal[s], s, n);
        memset(run->dstart[s], 0, (size_t)run->width * sizeof *run->dstart[s]);
    }
    for (int32_t k = run->T - 1; k >= 0; k--) {
        const struct eco_reference_row row = row_of(run, k, n);
        const double *doutput = output_part(run, run->doutput, row.t, n);
        if (eco_reference_repeats(run, row.t, n))
            hold(run, doutput);
        if (eco_reference_repeats(run, row.t, n) || eco_reference_counts(run, row.t, n))
            for (int s = 0; s < states; s++)
                eco_reference_add_states(run, run->held_state[s], args->dstates[s], s, &row);
        if (!eco_reference_counts(run, row.t, n))
            continue;
        take_held_states(run);
        for (int32_t j = 0; j < problem->Y; j++) {
            double *const carry = &run->carry[j / problem->P][j % problem->P];
            *carry = eco_round(&run->arithmetic, *carry + take_held(run, j, doutput[j]));
        }
        eco_reference_backward(run, &row);
        eco_reference_sum_row(run);
        if (eco_reference_resets(run, row.t, n))
            cut_carry(run);
    }
    for (int s = 0; s < states; s++) {
        eco_reference_store_state(run, args->dinitial[s], run->carry[s], s, n);
        eco_reference_store_state(run, args->dreset_state[s], run->dstart[s], s, n);
    }
}

static void backward(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_args *args = run->args;
    const size_t rows = (size_t)run->T * (size_t)run->N;
    const size_t elements = eco_problem_param_elements(problem);
    eco_reference_sum_begin(run, args->accumulate ? args->dweights : NULL,
                            eco_type_sum(problem->type));
    eco_reference_load_sequence(run, run->doutput, args->dy,
                                (size_t)problem->D * (size_t)problem->Y);
    for (int layer = problem->L - 1; layer >= 0; layer--) {
        memset(run->dinput, 0, rows * (size_t)eco_problem_input(problem, layer) * sizeof(double));
        for (int d = 0; d < problem->D; d++) {
            choose_pair(run, layer, d);
            for (int32_t n = 0; n < run->N; n++)
                backward_row(run, n);
            eco_reference_sum_pair(run);
        }
        if (layer > 0)
            drop(run, layer, run->dinput, true);
        double *const done = run->dinput; /* the gradient of the lower layer's output */
        run->dinput = run->doutput;
        run->doutput = done;
    }
    eco_reference_move_x(run, run->doutput, true);
    eco_reference_sum_end(run);
    for (size_t i = 0; args->dweights && i < elements; i++)
        eco_type_set(args->dweights, i, eco_type_sum(problem->type), run->dweights[i]);
}

/* ---- a run --------------------------------------------------------------------------- */

/* Only nodes that next states depend on are swept: 0 times an infinity would not be 0. */
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
static void find_saved(struct eco_reference *run)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_lowered *lowered = &run->problem->cell->lowered;
    for (int i = 0; i < lowered->n_saves; i++)
        run->saved[lowered->saved[i]] = true;
    run->narrow[0] = !lowered->remembers;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        if (node->op == ECO_OP_PRODUCT && recipe->node[node->a].op == ECO_OP_STATE)
            run->narrow[recipe->node[node->a].index] = true;
    }
}

/* The node of x itself, 0, or of part copy - 1. */
static int node_of_x(const struct eco_recipe *recipe, int copy)
{
    int i = 0;
    while (recipe->node[i].op != ECO_OP_X || recipe->node[i].index != copy)
        i++;
    return i;
}

/* The sums of several parts that a chained machine adds in one go. */
static void find_chains(struct eco_reference *run)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_lowered *lowered = &run->problem->cell->lowered;
    memset(run->chain, -1, sizeof run->chain);
    for (int a = 0; run->arithmetic.chained && a < lowered->n_accs; a++) {
        const struct eco_accumulator *acc = &lowered->acc[a];
        run->last[a] = -1;
        if (acc->vector >= 0)
            run->chain[recipe->param[acc->vector].node] = (int8_t)a;
        for (int o = -1; o < lowered->n_operands; o++) {
            const int param = o < 0 ? acc->input : acc->recurrent[o];
            const int16_t node = param < 0 ? -1 : recipe->param[param].node;
            if (node >= 0)
                run->chain[node] = (int8_t)a;
            if (node > run->last[a])
                run->last[a] = node;
        }
        if (acc->copy >= 0 && run->last[a] >= 0) /* else it stands by itself */
            run->chain[node_of_x(recipe, acc->copy)] = (int8_t)a;
    }
}

ecornn_status eco_reference_run(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_problem *problem = &plan->problem;
    struct eco_reference run = {.problem = problem,
                                .args = args,
                                .arithmetic = *(const struct eco_arithmetic *)plan->device->context,
                                .draws = problem->training && args->reserve,
                                .T = args->T,
                                .N = args->N,
                                .state_rows = args->N,
                                .width = problem->H > problem->P ? problem->H : problem->P};
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        if (eco_problem_width(problem, s) > run.width)
            run.width = eco_problem_width(problem, s);
    void *block;
    const ecornn_status status = eco_reference_allocate(&run, &block);
    if (status != ECORNN_OK)
        return status;
    find_live(&run);
    find_saved(&run);
    find_chains(&run);
    forward(&run);
    if (args->backward) {
        backward(&run);
    } else {
        eco_reference_store_sequence(&run, args->y, eco_reference_input(&run, problem->L),
                                     (size_t)problem->D * (size_t)problem->Y);
        eco_reference_move_states(&run, true);
    }
    eco_free(block);
    return ECORNN_OK;
}
