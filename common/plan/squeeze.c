/*
 * What of a run is moved together, and apart again, and where it lies in between: behind all else
 * in the workspace.
 */
#include "common/squeeze.h"

#include "common/util.h"

/* ---- where ----------------------------------------------------------------------------------- */

/* One after the other, first to count their bytes. */
struct places {
    char *base; /* NULL: only counts */
    struct eco_size end;
};

static void *take(struct places *places, size_t element, size_t rows, size_t width)
{
    const size_t at = places->end.value;
    const struct eco_size bytes = eco_size_mul(eco_size_mul(eco_size_of(element), rows), width);
    places->end = eco_size_add(places->end, eco_size_align(bytes));
    return places->base == NULL ? NULL : places->base + at;
}

/* Copies of the caller's arrays. */
struct copies {
    void *x, *y, *dy, *dx;
    void *states[ECO_MAX_STATES]; /* backward: their gradients */
};

static struct copies place(struct eco_squeezed *run, const struct eco_layout *layout,
                           struct places *places)
{
    const struct eco_problem *problem = layout->problem;
    const size_t N = (size_t)layout->N, rows = (size_t)layout->T * N, I = (size_t)problem->I,
                 output = (size_t)problem->D * (size_t)problem->P,
                 element = eco_type_bytes(layout->type);
    struct copies copies = {.x = NULL};
    run->counted = take(places, sizeof *run->counted, rows, 1);
    run->lengths = take(places, sizeof *run->lengths, N, 1);
    run->own_resets = take(places, problem->resets ? 1 : 0, rows, 1);
    copies.x = take(places, element, rows, I);
    copies.y = take(places, element, rows, output);
    if (layout->training) {
        copies.dy = take(places, element, rows, output);
        copies.dx = take(places, element, rows, I);
    }
    for (int s = 0; problem->states && s < problem->cell->recipe.n_states; s++)
        copies.states[s] = take(places, element, rows * (size_t)problem->L * (size_t)problem->D,
                                (size_t)eco_problem_width(problem, s));
    return copies;
}

struct eco_size eco_squeeze_bytes(const struct eco_layout *layout)
{
    struct eco_squeezed unused;
    struct places places = {NULL, eco_size_of(0)};
    if (layout->problem->masks || layout->problem->repeats)
        place(&unused, layout, &places);
    return places.end;
}

bool eco_squeezes(const struct eco_layout *layout, const struct eco_args *args)
{
    const bool padding = layout->problem->repeats && args->lengths != NULL;
    return (args->mask != NULL || padding) && !layout->request.plain;
}

/* ---- what ------------------------------------------------------------------------------------ */

static void add(struct eco_squeeze_move *moves, int *count, struct eco_squeeze_move move)
{
    if (move.from != NULL && move.to != NULL)
        moves[(*count)++] = move;
}

/* Rows of x, or of y with its directions. */
static struct eco_squeeze_move rows_of(const struct eco_layout *layout, enum eco_squeeze_kind kind,
                                       bool output)
{
    const struct eco_problem *problem = layout->problem;
    const int32_t lanes = output ? problem->D : 1, width = output ? problem->P : problem->I;
    const size_t row = (size_t)lanes * (size_t)width;
    const bool time_major = problem->order == ECORNN_TIME_MAJOR;
    return (struct eco_squeeze_move){.kind = kind,
                                     .type = layout->type,
                                     .step = time_major ? (size_t)layout->N * row : row,
                                     .row = time_major ? row : (size_t)layout->T * row,
                                     .lane = (size_t)width,
                                     .lanes = lanes,
                                     .width = width};
}

/* A state of every step, whose array has steps outside whatever the order. */
static struct eco_squeeze_move states_of(const struct eco_layout *layout,
                                         enum eco_squeeze_kind kind, int s)
{
    const struct eco_problem *problem = layout->problem;
    const size_t width = (size_t)eco_problem_width(problem, s), step = (size_t)layout->N * width;
    return (struct eco_squeeze_move){.kind = kind,
                                     .type = layout->type,
                                     .step = step,
                                     .row = width,
                                     .lane = (size_t)layout->T * step,
                                     .lanes = problem->L * problem->D,
                                     .width = (int32_t)width};
}

static struct eco_squeeze_move between(struct eco_squeeze_move move, const void *from, void *to)
{
    move.from = from;
    move.to = to;
    return move;
}

/* An array of the run inside, where the caller has one. */
static void *where(const void *given, void *copy)
{
    return given == NULL ? NULL : copy;
}

static void add_states(struct eco_squeeze *squeeze, const struct eco_layout *layout,
                       const struct copies *copies)
{
    struct eco_args *const inside = &squeeze->inside;
    for (int s = 0; layout->problem->states && s < layout->problem->cell->recipe.n_states; s++) {
        const struct eco_squeeze_move sums = states_of(layout, ECO_SQUEEZE_SUMS, s),
                                      repeats = states_of(layout, ECO_SQUEEZE_REPEATS, s);
        inside->dstates[s] = where(squeeze->args->dstates[s], copies->states[s]);
        inside->states[s] = where(squeeze->args->states[s], copies->states[s]);
        add(squeeze->in, &squeeze->ins,
            between(sums, squeeze->args->dstates[s], copies->states[s]));
        add(squeeze->out, &squeeze->outs,
            between(repeats, inside->states[s], squeeze->args->states[s]));
    }
}

void eco_squeeze_begin(struct eco_squeeze *squeeze, const struct eco_layout *layout,
                       const struct eco_args *args)
{
    const struct eco_problem *problem = layout->problem;
    struct places places = {(char *)args->workspace + layout->squeezed, eco_size_of(0)};
    *squeeze = (struct eco_squeeze){.args = args,
                                    .inside = *args,
                                    .run = {.T = args->T,
                                            .N = args->N,
                                            .mask = args->mask,
                                            .resets = args->resets,
                                            .whole = args->lengths,
                                            .repeats = problem->repeats,
                                            .directions = problem->D}};
    for (int d = 0; d < problem->D; d++)
        squeeze->run.reversed[d] = eco_problem_reversed(problem, d);
    const struct copies copies = place(&squeeze->run, layout, &places);
    struct eco_args *const inside = &squeeze->inside;
    if (args->resets == NULL)
        squeeze->run.own_resets = NULL;
    inside->mask = NULL;
    inside->lengths = squeeze->run.lengths;
    inside->resets = squeeze->run.own_resets;
    inside->x = copies.x;
    inside->y = where(args->y, copies.y);
    const struct eco_squeeze_move x = rows_of(layout, ECO_SQUEEZE_TOGETHER, false),
                                  y = rows_of(layout, ECO_SQUEEZE_TOGETHER, true),
                                  sums = rows_of(layout, ECO_SQUEEZE_SUMS, true),
                                  repeats = rows_of(layout, ECO_SQUEEZE_REPEATS, true),
                                  apart = rows_of(layout, ECO_SQUEEZE_APART, false);
    add(squeeze->in, &squeeze->ins, between(x, args->x, copies.x));
    add_states(squeeze, layout, &copies);
    if (!args->backward) {
        add(squeeze->out, &squeeze->outs, between(repeats, inside->y, args->y));
        return;
    }
    inside->dy = where(args->dy, copies.dy);
    inside->dx = where(args->dx, copies.dx);
    add(squeeze->in, &squeeze->ins, between(y, args->y, inside->y));
    add(squeeze->in, &squeeze->ins, between(sums, args->dy, copies.dy));
    add(squeeze->out, &squeeze->outs, between(apart, inside->dx, args->dx));
}
