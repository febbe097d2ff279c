/*
 * Moves data between the caller's arrays and those of a reference run: types, orders, padding.
 */
#include "common/ref/ref.h"

#include "common/quantise.h"

/* The index of row (t,n) in the caller's order of x, y and their gradients. */
static size_t callers_row(const struct eco_reference *run, int32_t t, int32_t n)
{
    return !run->problem->batch_major ? (size_t)t * (size_t)run->N + (size_t)n
                                      : (size_t)n * (size_t)run->T + (size_t)t;
}

bool eco_reference_is_padding(const struct eco_reference *run, int32_t t, int32_t n)
{
    return run->args->lengths && t >= run->args->lengths[n];
}

bool eco_reference_counts(const struct eco_reference *run, int32_t t, int32_t n)
{
    const uint8_t *mask = run->args->mask;
    return !eco_reference_is_padding(run, t, n) &&
           (!mask || mask[(size_t)t * (size_t)run->N + (size_t)n] != 0);
}

bool eco_reference_repeats(const struct eco_reference *run, int32_t t, int32_t n)
{
    return !eco_reference_counts(run, t, n) &&
           (run->problem->repeats || !eco_reference_is_padding(run, t, n));
}

uint32_t eco_reference_number(const struct eco_reference *run, int32_t t, int32_t n)
{
    uint32_t number = run->args->first_step;
    for (int32_t before = 0; before < t; before++)
        number += eco_reference_counts(run, before, n);
    return number;
}

bool eco_reference_resets(const struct eco_reference *run, int32_t t, int32_t n)
{
    if (!run->args->resets || !eco_reference_counts(run, t, n))
        return false;
    if (eco_problem_reversed(run->problem,
                             run->d)) /* in reverse order the previous step has the later x */
        do
            t++;
        while (t < run->T && !eco_reference_counts(run, t, n));
    return t < run->T && run->args->resets[(size_t)t * (size_t)run->N + (size_t)n] != 0;
}

/* n elements of an array from index `from` on; NULL: zeros. */
static void load_as(ecornn_type type, double *to, const void *array, size_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = array ? eco_type_get(array, from + i, type) : 0;
}

static void load(const struct eco_reference *run, double *to, const void *array, size_t from,
                 size_t n)
{
    load_as(run->problem->type, to, array, from, n);
}

static void store_as(ecornn_type type, void *array, size_t to, const double *from, size_t n)
{
    for (size_t i = 0; array && i < n; i++)
        eco_type_set(array, to + i, type, from[i]);
}

static void store(const struct eco_reference *run, void *array, size_t to, const double *from,
                  size_t n)
{
    store_as(run->problem->type, array, to, from, n);
}

void eco_reference_round_row(void *to, ecornn_type to_type, const void *from, ecornn_type from_type,
                             size_t n, ecornn_type rounding)
{
    if (rounding == ECORNN_F64) {
        eco_type_move(to, to_type, from, from_type, n);
        return;
    }
    const float scale = rounding == ECORNN_S8 ? eco_weight_scale(from, from_type, n) : 0;
    for (size_t i = 0; i < n; i++) {
        const double value = eco_type_get(from, i, from_type);
        eco_type_set(to, i, to_type,
                     rounding == ECORNN_S8 ? (double)scale * eco_weight_integer(scale, (float)value)
                                           : eco_type_round(value, rounding));
    }
}

/* Loads the packed weights, with matrices rounded to their type. */
void eco_reference_load_weights(struct eco_reference *run)
{
    const struct eco_problem *problem = run->problem;
    const ecornn_type sum = eco_type_sum(problem->type);
    const char *from = run->args->weights;
    double *to = run->weights;
    for (int i = 0; i < eco_problem_params(problem); i++) {
        struct eco_param_position position;
        eco_problem_param_position(problem, i, &position);
        const size_t cols = (size_t)position.cols;
        for (size_t k = 0; k < position.elements; k += cols)
            eco_reference_round_row(to + k, ECORNN_F64, from + k * eco_type_bytes(sum), sum, cols,
                                    position.vector ? ECORNN_F64 : run->arithmetic.weight_type);
        to += position.elements;
        from += position.elements * eco_type_bytes(sum);
    }
}

void eco_reference_load_sequence(const struct eco_reference *run, double *to, const void *array,
                                 size_t width)
{
    for (int32_t t = 0; t < run->T; t++)
        for (int32_t n = 0; n < run->N; n++)
            load(run, to + ((size_t)t * (size_t)run->N + (size_t)n) * width,
                 eco_reference_counts(run, t, n) ||
                         (array != run->args->x && eco_reference_repeats(run, t, n))
                     ? array
                     : NULL,
                 callers_row(run, t, n) * width, width);
}

void eco_reference_store_sequence(const struct eco_reference *run, void *array, const double *from,
                                  size_t width)
{
    for (int32_t t = 0; t < run->T; t++)
        for (int32_t n = 0; n < run->N; n++)
            store(run, array, callers_row(run, t, n) * width,
                  from + ((size_t)t * (size_t)run->N + (size_t)n) * width, width);
}

/* Elements from one row of part k's array to the next. */
static size_t part_row(const struct eco_reference *run, const size_t *rows, int k)
{
    return rows && rows[k] ? rows[k] : (size_t)eco_problem_part(run->problem, k);
}

/* The columns of part k, or of what precedes all parts, k = -1, in a row of x. */
static size_t part_columns(const struct eco_reference *run, int k, size_t *width)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    size_t end = (size_t)run->problem->I, first = end;
    for (int j = recipe->n_parts - 1; j >= 0 && j >= k; j--) {
        end = first;
        first -= (size_t)eco_problem_part(run->problem, j);
    }
    *width = k < 0 ? first : end - first;
    return k < 0 ? 0 : first;
}

void eco_reference_move_x(const struct eco_reference *run, double *inside, bool out)
{
    const struct eco_args *const args = run->args;
    const void *const whole = out ? args->dx : args->x;
    const void *const *const parts = out ? (const void *const *)args->dinputs : args->inputs;
    const size_t *const rows = out ? args->dinput_rows : args->input_rows;
    const size_t I = (size_t)run->problem->I;
    const int n_parts = args->inputs != NULL ? run->problem->cell->recipe.n_parts : 0;
    for (int k = -1; k < n_parts; k++) {
        size_t width = I;
        const size_t column = args->inputs != NULL ? part_columns(run, k, &width) : 0,
                     row = k < 0 ? width : part_row(run, rows, k);
        const void *const array = k < 0 ? whole : parts != NULL ? parts[k] : NULL;
        for (int32_t t = 0; t < run->T; t++)
            for (int32_t n = 0; n < run->N; n++) {
                double *const at = inside + ((size_t)t * (size_t)run->N + (size_t)n) * I + column;
                const size_t outside = callers_row(run, t, n) * row;
                if (out)
                    store(run, (void *)(uintptr_t)array, outside, at, width);
                else
                    load(run, at, eco_reference_counts(run, t, n) ? array : NULL, outside, width);
            }
    }
}

/* Offset of state s of row n of the current layer and direction in the caller's [L*D,N,width]. */
static size_t callers_state(const struct eco_reference *run, int s, int32_t n)
{
    const size_t pair = (size_t)run->layer * (size_t)run->problem->D + (size_t)run->d;
    return (pair * (size_t)run->state_rows + (size_t)n) *
           (size_t)eco_problem_width(run->problem, s);
}

void eco_reference_load_state(const struct eco_reference *run, double *to, const void *array, int s,
                              int32_t n)
{
    load_as(eco_problem_state_type(run->problem, s), to, array, callers_state(run, s, n),
            (size_t)eco_problem_width(run->problem, s));
}

void eco_reference_begin_state(const struct eco_reference *run, double *to, const void *array,
                               int s, int32_t n)
{
    const double start = eco_type_round(run->problem->cell->recipe.start[s],
                                        eco_problem_state_type(run->problem, s));
    eco_reference_load_state(run, to, array, s, n);
    for (int32_t i = 0; array == NULL && i < eco_problem_width(run->problem, s); i++)
        to[i] = start;
}

void eco_reference_begin_again(const struct eco_reference *run, double *to, int s, int32_t n)
{
    eco_reference_begin_state(run, to, run->args->reset_state[s], s, n);
}

void eco_reference_store_state(const struct eco_reference *run, void *array, const double *from,
                               int s, int32_t n)
{
    store_as(eco_problem_state_type(run->problem, s), array, callers_state(run, s, n), from,
             (size_t)eco_problem_width(run->problem, s));
}

static size_t callers_states(const struct eco_reference *run, int s,
                             const struct eco_reference_row *row)
{
    const size_t pair = (size_t)run->layer * (size_t)run->problem->D + (size_t)run->d,
                 step = pair * (size_t)run->T + (size_t)row->t;
    return (step * (size_t)run->N + (size_t)row->n) * (size_t)eco_problem_width(run->problem, s);
}

void eco_reference_add_states(const struct eco_reference *run, double *to, const void *array, int s,
                              const struct eco_reference_row *row)
{
    const size_t from = callers_states(run, s, row);
    for (size_t i = 0; array && i < (size_t)eco_problem_width(run->problem, s); i++)
        to[i] += eco_type_get(array, from + i, eco_problem_state_type(run->problem, s));
}

void eco_reference_show(const struct eco_reference *run, void *array, const double *from, int s,
                        const struct eco_reference_row *row)
{
    const size_t to = callers_states(run, s, row);
    for (size_t i = 0; array && i < (size_t)eco_problem_width(run->problem, s); i++)
        eco_type_set(array, to + i, eco_problem_state_type(run->problem, s), from ? from[i] : 0);
}

void eco_reference_move_states(struct eco_reference *run, bool out)
{
    const struct eco_problem *problem = run->problem;
    const int32_t *const rows = run->args->rows;
    run->state_rows = rows != NULL ? run->args->streams : run->N;
    for (int pair = 0; pair < problem->L * problem->D; pair++)
        for (int s = 0; s < problem->cell->recipe.n_states; s++)
            for (int32_t n = 0; n < run->N; n++) {
                run->layer = pair / problem->D;
                run->d = pair % problem->D;
                double *inside =
                    eco_reference_state(run, s, eco_reference_plane(run, out ? run->T : 0), n);
                const int32_t row = rows != NULL ? rows[n] : n;
                if (out)
                    eco_reference_store_state(run, run->args->final[s], inside, s, row);
                else
                    eco_reference_begin_state(run, inside, run->args->initial[s], s, row);
            }
    run->state_rows = run->N;
}
