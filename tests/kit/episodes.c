/*
 * Compares a run with resets with the same run cut into episodes. Every row must have the same
 * bits. An episode is run without resets with all rows, but only one of its rows is compared.
 */
#include "tests/kit/testing.h"

#include <stdio.h>
#include <string.h>

#include "common/type.h"

/* Steps [t0, t1) of row n, whose direction begins from the row's start, or from `initial`. */
struct episode {
    const struct test_case *test;
    const struct data *inputs;
    int32_t n, t0, t1;
    bool initial, ends; /* is it the row's first episode, its last one? */
};

static bool is_reset(const struct episode *e, int32_t t)
{
    return data_find(e->inputs, "resets")->value[t * e->test->N + e->n] != 0;
}

/* The position of row (t,n) in a sequence of a run of T steps. */
static size_t row_at(const struct test_case *test, int32_t T, int32_t t, int32_t n, size_t width)
{
    const bool batch_major = (test->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    return (batch_major ? (size_t)n * (size_t)T + (size_t)t
                        : (size_t)t * (size_t)test->N + (size_t)n) *
           width;
}

static void cut_sequence(const struct episode *e, struct data *to, const char *name)
{
    const struct array *from = data_find(e->inputs, name);
    if (!from)
        return;
    const bool batch_major = (e->test->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    const int32_t steps = e->t1 - e->t0;
    const size_t width = (size_t)from->extent[2];
    const int32_t extent[] = {batch_major ? e->test->N : steps, batch_major ? steps : e->test->N,
                              from->extent[2]};
    struct array *cut = data_add(to, name, 3, extent);
    for (int32_t t = 0; t < steps; t++)
        for (int32_t n = 0; n < e->test->N; n++)
            memcpy(cut->value + row_at(e->test, steps, t, n, width),
                   from->value + row_at(e->test, e->test->T, e->t0 + t, n, width),
                   width * sizeof(double));
}

static void take(const struct episode *e, struct data *to, const char *name, const char *kind,
                 int s)
{
    char inside[32];
    snprintf(inside, sizeof inside, "%s%d", kind, s);
    const struct array *from = data_find(e->inputs, inside);
    if (!from)
        return;
    struct array *copy = data_add(to, name, from->rank, from->extent);
    memcpy(copy->value, from->value, from->count * sizeof(double));
}

static void cut_inputs(const struct episode *e, struct data *to)
{
    char name[32];
    cut_sequence(e, to, "x");
    cut_sequence(e, to, "dy");
    for (int s = 0; s < e->test->states; s++) {
        snprintf(name, sizeof name, "initial%d", s);
        take(e, to, name, e->initial ? "initial" : "start", s);
        snprintf(name, sizeof name, "dfinal%d", s);
        if (e->ends)
            take(e, to, name, "dfinal", s);
    }
    for (int i = 0; i < e->inputs->n; i++)
        if (strchr(e->inputs->array[i].name, '.')) { /* a parameter */
            const struct array *from = &e->inputs->array[i];
            struct array *copy = data_add(to, from->name, from->rank, from->extent);
            memcpy(copy->value, from->value, from->count * sizeof(double));
        }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same(const struct episode *e, const char *name, const double *is, const double *should,
                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is[i] != should[i]) {
            fprintf(stderr, "%s: row %d, steps %d to %d: %s is %.17g, %.17g cut\n", e->test->text,
                    (int)e->n, (int)e->t0, (int)e->t1, name, is[i], should[i]);
            return false;
        }
    return true;
}

static bool same_sequence(const struct episode *e, const char *name, const struct data *whole,
                          const struct data *part)
{
    const struct array *a = data_find(whole, name), *b = data_find(part, name);
    bool ok = true;
    for (int32_t t = e->t0; ok && a && t < e->t1; t++) {
        const size_t width = (size_t)a->extent[2];
        ok = same(e, name, a->value + row_at(e->test, e->test->T, t, e->n, width),
                  b->value + row_at(e->test, e->t1 - e->t0, t - e->t0, e->n, width), width);
    }
    return ok;
}

static bool same_state(const struct episode *e, const char *kind, int s, const struct data *whole,
                       const struct data *part)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", kind, s);
    const struct array *a = data_find(whole, name), *b = data_find(part, name);
    bool ok = true;
    for (int32_t lane = 0; ok && a && lane < a->extent[0]; lane++) {
        const size_t width = (size_t)a->extent[2],
                     at = (size_t)(lane * a->extent[1] + e->n) * width;
        ok = same(e, name, a->value + at, b->value + at, width);
    }
    return ok;
}

/* Adds the gradient of an episode's start, in the type of sums. */
static void add_start(const struct episode *e, int s, struct data *sums, const struct data *part)
{
    char name[32];
    snprintf(name, sizeof name, "dinitial%d", s);
    const struct array *from = data_find(part, name);
    snprintf(name, sizeof name, "dstart%d", s);
    struct array *to = data_find(sums, name);
    for (int32_t lane = 0; from && lane < from->extent[0]; lane++)
        for (int32_t j = 0; j < from->extent[2]; j++) {
            const size_t at =
                (size_t)(lane * from->extent[1] + e->n) * (size_t)from->extent[2] + (size_t)j;
            to->value[at] =
                eco_type_round(to->value[at] + from->value[at], eco_type_sum(e->test->desc.type));
        }
}

/* Runs the episode, and compares its row. */
static bool check(const struct episode *e, const struct machine *machine, const struct data *whole,
                  struct data *sums)
{
    struct test_case part = *e->test;
    struct data inputs = {0}, results = {0};
    part.desc.flags &= ~(uint32_t)ECORNN_RESETS;
    part.desc.steps = part.T = e->t1 - e->t0;
    part.desc.flags &= ~(uint32_t)(ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
    part.desc.save_every = 0;
    part.resets = -1;
    part.lengths = LENGTHS_NULL;
    cut_inputs(e, &inputs);
    bool ok = case_run(&part, machine, &inputs, &results) &&
              same_sequence(e, "y", whole, &results) && same_sequence(e, "dx", whole, &results);
    for (int s = 0; ok && s < e->test->states; s++) {
        ok = (!e->ends || same_state(e, "final", s, whole, &results)) &&
             (!e->initial || same_state(e, "dinitial", s, whole, &results));
        if (!e->initial)
            add_start(e, s, sums, &results);
    }
    data_free(&inputs);
    data_free(&results);
    return ok;
}

/* Checks the row's episodes in backward's order, the last one first, because their gradients are
 * added in this order. */
static bool check_row(struct episode e, const struct machine *machine, const struct data *whole,
                      struct data *sums)
{
    const int32_t T = case_length(e.inputs, e.n, e.test->T);
    const bool reversed = (e.test->desc.flags & ECORNN_REVERSE);
    bool ok = true;
    for (int32_t k = 0, done = 0; ok && k < T; k++) { /* in backward's order */
        const int32_t first =
            reversed ? k + 1 : T - 1 - k; /* first step of an episode or of the row */
        if (first > 0 && first < T && !is_reset(&e, first))
            continue;
        e.t0 = reversed ? done : first;
        e.t1 = reversed ? first : T - done;
        e.ends = done == 0;
        e.initial = reversed ? first == T : first == 0 && !is_reset(&e, 0);
        ok = check(&e, machine, whole, sums);
        done = k + 1;
    }
    return ok;
}

bool episodes_same(const struct test_case *test, const struct machine *machine,
                   const struct data *inputs)
{
    struct data whole = {0}, sums = {0};
    bool ok = case_run(test, machine, inputs, &whole);
    for (int s = 0; s < test->states; s++) {
        char name[32];
        snprintf(name, sizeof name, "dstart%d", s);
        const struct array *like = data_find(&whole, name);
        if (like)
            data_add(&sums, name, like->rank, like->extent);
    }
    for (int32_t n = 0; ok && n < test->N; n++)
        ok = check_row((struct episode){.test = test, .inputs = inputs, .n = n}, machine, &whole,
                       &sums);
    if (ok && !eco_type_narrow(test->desc.type))
        ok = results_same(test, "sums of episodes", &sums, &whole);
    data_free(&whole);
    data_free(&sums);
    return ok;
}
