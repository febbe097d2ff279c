/*
 * Compares a run with the same run in pieces of some steps and rows. Bits must be the same, random
 * numbers included. Each piece begins from the whole run's states of that step. Cases are
 * time-major, forward in time, without lengths.
 */
#include "tests/kit/testing.h"

#include <stdio.h>
#include <string.h>

/* Steps [t0, t1) of rows [n0, n1). */
struct piece {
    const struct test_case *test;
    const struct data *inputs, *whole;
    int32_t t0, t1, n0, n1;
};

/* A part of an array [lanes,T,N,width]. */
struct place {
    int32_t lanes, T, N;
    size_t width;
};

static struct place place_of(const struct array *array, int32_t T, int32_t N)
{
    const size_t width = array->rank == 3 ? (size_t)array->extent[2] : 1;
    const size_t lanes = array->count / ((size_t)T * (size_t)N * width);
    return (struct place){(int32_t)lanes, T, N, width};
}

static size_t at(const struct place *place, int32_t lane, int32_t t, int32_t n)
{
    const size_t step = (size_t)lane * (size_t)place->T + (size_t)t;
    return (step * (size_t)place->N + (size_t)n) * place->width;
}

/* Copies the piece's part of an array of the whole run: its steps, or one of the whole's T steps.
 */
static void cut(const struct piece *piece, struct data *to, const char *name,
                const struct array *from, int32_t T, struct piece part)
{
    if (!from)
        return;
    const struct place source = place_of(from, T, piece->test->N);
    const struct place goal = {source.lanes, part.t1 - part.t0, part.n1 - part.n0, source.width};
    const int32_t extent[] = {goal.lanes * goal.T, goal.N, (int32_t)goal.width};
    struct array *copy = data_add(to, name, from->rank, extent);
    for (int32_t lane = 0; lane < goal.lanes; lane++)
        for (int32_t t = 0; t < goal.T; t++)
            memcpy(copy->value + at(&goal, lane, t, 0),
                   from->value + at(&source, lane, part.t0 + t, part.n0),
                   (size_t)goal.N * goal.width * sizeof(double));
}

static struct piece step_of(const struct piece *piece, int32_t t)
{
    struct piece one = *piece;
    one.t0 = t;
    one.t1 = t + 1;
    return one;
}

static void take_states(const struct piece *piece, struct data *to, const struct data *after)
{
    for (int s = 0; s < piece->test->states; s++) {
        char name[32], shown[32], dinitial[32];
        snprintf(shown, sizeof shown, "states%d", s);
        snprintf(dinitial, sizeof dinitial, "dinitial%d", s);
        snprintf(name, sizeof name, "initial%d", s);
        if (piece->t0 > 0)
            cut(piece, to, name, data_find(piece->whole, shown), piece->test->T,
                step_of(piece, piece->t0 - 1));
        else
            cut(piece, to, name, data_find(piece->inputs, name), 1, step_of(piece, 0));
        snprintf(name, sizeof name, "start%d", s);
        cut(piece, to, name, data_find(piece->inputs, name), 1, step_of(piece, 0));
        snprintf(name, sizeof name, "dfinal%d", s);
        const struct array *carried = data_find(after, dinitial);
        if (piece->t1 == piece->test->T)
            cut(piece, to, name, data_find(piece->inputs, name), 1, step_of(piece, 0));
        else if (carried)
            memcpy(data_add(to, name, carried->rank, carried->extent)->value, carried->value,
                   carried->count * sizeof(double));
        snprintf(name, sizeof name, "dstates%d", s);
        cut(piece, to, name, data_find(piece->inputs, name), piece->test->T, *piece);
    }
}

static void take_inputs(const struct piece *piece, struct data *to, const struct data *after)
{
    const char *const sequence[] = {"x", "dy", "resets"};
    for (size_t i = 0; i < sizeof sequence / sizeof *sequence; i++)
        cut(piece, to, sequence[i], data_find(piece->inputs, sequence[i]), piece->test->T, *piece);
    take_states(piece, to, after);
    for (int i = 0; i < piece->inputs->n; i++)
        if (strchr(piece->inputs->array[i].name, '.')) { /* a parameter */
            const struct array *from = &piece->inputs->array[i];
            memcpy(data_add(to, from->name, from->rank, from->extent)->value, from->value,
                   from->count * sizeof(double));
        }
}

/* Takes the piece's expected results from the whole run. */
static void take_expected(const struct piece *piece, struct data *to)
{
    const struct test_case *test = piece->test;
    cut(piece, to, "y", data_find(piece->whole, "y"), test->T, *piece);
    cut(piece, to, "dx", data_find(piece->whole, "dx"), test->T, *piece);
    for (int s = 0; s < test->states; s++) {
        char name[32], shown[32];
        snprintf(shown, sizeof shown, "states%d", s);
        cut(piece, to, shown, data_find(piece->whole, shown), test->T, *piece);
        snprintf(name, sizeof name, "final%d", s);
        cut(piece, to, name, data_find(piece->whole, shown), test->T,
            step_of(piece, piece->t1 - 1));
        snprintf(name, sizeof name, "dinitial%d", s);
        if (piece->t0 == 0)
            cut(piece, to, name, data_find(piece->whole, name), 1, step_of(piece, 0));
    }
}

/* results: those of the piece after this one; replaced by this one's. */
static bool check(const struct piece *piece, const struct machine *machine, struct data *results)
{
    struct test_case part = *piece->test;
    struct data inputs = {0}, expected = {0}, own = {0};
    part.desc.flags &= ~(uint32_t)(ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
    part.desc.save_every = 0;
    part.desc.steps = part.T = piece->t1 - piece->t0;
    part.desc.batch = part.N = piece->n1 - piece->n0;
    part.first_step += piece->t0;
    part.first_row += piece->n0;
    take_inputs(piece, &inputs, results);
    take_expected(piece, &expected);
    const bool ok =
        case_run(&part, machine, &inputs, &own) && results_same(&part, "a piece", &expected, &own);
    if (!ok)
        fprintf(stderr, "    steps %d to %d, rows %d to %d\n", (int)piece->t0, (int)piece->t1,
                (int)piece->n0, (int)piece->n1);
    data_free(&inputs);
    data_free(&expected);
    data_free(results);
    *results = own;
    return ok;
}

bool pieces_same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs, int32_t steps, int32_t rows)
{
    struct data whole = {0};
    bool ok = case_run(test, machine, inputs, &whole);
    struct piece piece = {.test = test, .inputs = inputs, .whole = &whole};
    for (; ok && piece.n0 < test->N; piece.n0 = piece.n1) {
        struct data results = {0};
        piece.n1 = piece.n0 + rows < test->N ? piece.n0 + rows : test->N;
        for (piece.t1 = test->T; ok && piece.t1 > 0; piece.t1 = piece.t0) {
            piece.t0 = (piece.t1 - 1) / steps * steps;
            ok = check(&piece, machine, &results);
        }
        data_free(&results);
    }
    data_free(&whole);
    return ok;
}
