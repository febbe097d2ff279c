/*
 * The memory of a reference run, and the arrays in it.
 */
#include "common/ref/ref.h"

#include "common/util.h"

/* ---- allocation ------------------------------------------------------------------------------ */

/* Used twice: first with base NULL to count bytes, then to assign addresses. */
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

/* The width of the first `count` states together. */
static size_t states_width(const struct eco_problem *problem, int count)
{
    size_t width = 0;
    for (int s = 0; s < count; s++)
        width += (size_t)eco_problem_width(problem, s);
    return width;
}

static void take_all(struct eco_reference *run, struct arena *arena)
{
    const struct eco_problem *problem = run->problem;
    const size_t T = (size_t)run->T, N = (size_t)run->N, L = (size_t)problem->L,
                 D = (size_t)problem->D, I = (size_t)problem->I, output = D * (size_t)problem->Y;
    const size_t nodes = (size_t)problem->cell->recipe.n_nodes, width = (size_t)run->width;
    const size_t elements = eco_problem_param_elements(problem);
    run->weights = take(arena, 1, 1, elements);
    run->dweights = take(arena, 1, 1, elements);
    run->dsome = take(arena, 1, 1, elements);
    run->dchain = take(arena, 1, 1, elements);
    run->inputs = take(arena, T, N, I);
    take(arena, L * T, N, output);
    run->states =
        take(arena, L * D * (T + 1), N, states_width(problem, problem->cell->recipe.n_states));
    run->dinput = take(arena, T, N, I > output ? I : output);
    run->doutput = take(arena, T, N, I > output ? I : output);
    for (int s = 0; s < ECO_MAX_STATES; s++) {
        run->carry[s] = take(arena, 1, 1, width);
        run->start[s] = take(arena, 1, 1, width);
        run->dstart[s] = take(arena, 1, 1, width);
    }
    run->held = take(arena, 1, 1, output);
    for (int s = 0; s < ECO_MAX_STATES; s++)
        run->held_state[s] = take(arena, 1, 1, width);
    run->operand = take(arena, 1, 1, width + I + output); /* enough for any product */
    run->value = take(arena, 1, nodes, width);
    run->dvalue = take(arena, 1, nodes, width);
}

ecornn_status eco_reference_allocate(struct eco_reference *run, void **block)
{
    struct arena arena = {NULL, eco_size_of(0)};
    take_all(run, &arena);
    const struct eco_size bytes = eco_size_mul(arena.used, sizeof(double));
    arena = (struct arena){bytes.overflow ? NULL : eco_alloc(bytes.value), eco_size_of(0)};
    if (!arena.base)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of the reference's scratch",
                        bytes.value);
    take_all(run, &arena);
    *block = arena.base;
    return ECORNN_OK;
}

/* ---- lookup ---------------------------------------------------------------------------------- */

double *eco_reference_input(const struct eco_reference *run, int layer)
{
    const size_t rows = (size_t)run->T * (size_t)run->N;
    if (layer == 0)
        return run->inputs;
    return run->inputs + rows * (size_t)run->problem->I +
           (size_t)(layer - 1) * rows * (size_t)run->problem->D * (size_t)run->problem->Y;
}

double *eco_reference_state(const struct eco_reference *run, int s, int32_t plane, int32_t n)
{
    const struct eco_problem *problem = run->problem;
    const size_t rows = ((size_t)run->T + 1) * (size_t)run->N;
    const size_t pair = (size_t)run->layer * (size_t)problem->D + (size_t)run->d;
    const size_t all = states_width(problem, problem->cell->recipe.n_states);
    return run->states + rows * (pair * all + states_width(problem, s)) +
           ((size_t)plane * (size_t)run->N + (size_t)n) * (size_t)eco_problem_width(problem, s);
}

int32_t eco_reference_plane(const struct eco_reference *run, int32_t k)
{
    return eco_problem_reversed(run->problem, run->d) ? run->T - k : k;
}
