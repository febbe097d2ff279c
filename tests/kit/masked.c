/*
 * Compares a run with a mask with runs of only the unmasked steps. Every row must have the same
 * bits. Each of these runs has all rows and neither lengths nor mask, but only one of its rows is
 * compared.
 */
#include "tests/kit/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"

/* Row n has `steps` unmasked steps, the kth of which is step at[k]. */
struct row {
    const struct test_case *test;
    const struct data *inputs;
    int32_t n, steps, *at;
};

/* The position of step t of row n in a sequence of a run of T steps. */
static size_t place_of(const struct test_case *test, int32_t T, int32_t t, int32_t n, size_t width)
{
    const bool batch_major = (test->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    return (batch_major ? (size_t)n * (size_t)T + (size_t)t
                        : (size_t)t * (size_t)test->N + (size_t)n) *
           width;
}

static bool is_reversed(const struct test_case *test, size_t column, size_t width)
{
    return (test->desc.flags & ECORNN_REVERSE) ||
           ((test->desc.flags & ECORNN_BIDIRECTIONAL) && column >= width / 2);
}

/* The unmasked step whose output step t has; -1: none. */
static int32_t source_of(const struct row *row, int32_t t, bool reversed)
{
    const bool repeats = (row->test->desc.flags & ECORNN_REPEAT_PADDING) != 0;
    int32_t k = reversed ? row->steps : -1;
    if (!repeats && t >= case_length(row->inputs, row->n, row->test->T))
        return -1;
    for (int32_t i = 0; i < row->steps; i++) {
        if (!reversed && row->at[i] <= t)
            k = i;
        if (reversed && row->at[i] >= t && k == row->steps)
            k = i;
    }
    return k < row->steps ? k : -1;
}

/* ---- its inputs ------------------------------------------------------------------------------ */

static struct array *add_sequence(const struct row *row, struct data *to, const char *name)
{
    const struct array *from = data_find(row->inputs, name);
    const bool batch_major = (row->test->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    if (!from)
        return NULL;
    const int32_t extent[] = {batch_major ? row->test->N : row->steps,
                              batch_major ? row->steps : row->test->N, from->extent[2]};
    return data_add(to, name, 3, extent);
}

static void take_x(const struct row *row, struct data *to)
{
    const struct array *from = data_find(row->inputs, "x");
    struct array *x = add_sequence(row, to, "x");
    const size_t width = (size_t)from->extent[2];
    for (int32_t k = 0; k < row->steps; k++)
        memcpy(x->value + place_of(row->test, row->steps, k, row->n, width),
               from->value + place_of(row->test, row->test->T, row->at[k], row->n, width),
               width * sizeof(double));
}

/* Sums dy of a step and of all steps that repeat it, rounded once. */
static void take_dy(const struct row *row, struct data *to)
{
    const struct array *from = data_find(row->inputs, "dy");
    struct array *dy = add_sequence(row, to, "dy");
    const size_t width = dy ? (size_t)dy->extent[2] : 0;
    for (size_t j = 0; j < width; j++) {
        const bool reversed = is_reversed(row->test, j, width);
        for (int32_t i = 0; i < row->test->T; i++) {
            const int32_t t = reversed ? row->test->T - 1 - i : i, k = source_of(row, t, reversed);
            if (k >= 0)
                dy->value[place_of(row->test, row->steps, k, row->n, width) + j] +=
                    from->value[place_of(row->test, row->test->T, t, row->n, width) + j];
        }
    }
    for (size_t i = 0; dy && i < dy->count; i++)
        dy->value[i] = eco_type_round(dy->value[i], row->test->desc.type);
}

static void take_resets(const struct row *row, struct data *to)
{
    const struct array *from = data_find(row->inputs, "resets");
    if (!from)
        return;
    struct array *resets = data_add(to, "resets", 2, (int32_t[]){row->steps, row->test->N});
    for (int32_t k = 0; k < row->steps; k++)
        resets->value[k * row->test->N + row->n] = from->value[row->at[k] * row->test->N + row->n];
}

static void take_inputs(const struct row *row, struct data *to)
{
    take_x(row, to);
    take_dy(row, to);
    take_resets(row, to);
    for (int i = 0; i < row->inputs->n; i++) {
        const struct array *from = &row->inputs->array[i];
        const bool state = strncmp(from->name, "initial", 7) == 0 ||
                           strncmp(from->name, "dfinal", 6) == 0 ||
                           strncmp(from->name, "start", 5) == 0;
        if (state || strchr(from->name, '.')) { /* or a parameter */
            struct array *copy = data_add(to, from->name, from->rank, from->extent);
            memcpy(copy->value, from->value, from->count * sizeof(double));
        }
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same(const struct row *row, const char *name, int32_t t, double is, double should)
{
    if (is == should)
        return true;
    fprintf(stderr, "%s: row %d, step %d: %s is %.17g, %.17g without the others\n", row->test->text,
            (int)row->n, (int)t, name, is, should);
    return false;
}

/* Compares y, or dx, in which no step is repeated. */
static bool same_sequence(const struct row *row, const char *name, const struct data *whole,
                          const struct data *part)
{
    const struct array *a = data_find(whole, name), *b = part ? data_find(part, name) : NULL;
    const bool output = strcmp(name, "y") == 0;
    bool ok = true;
    for (int32_t t = 0; a && t < row->test->T; t++) {
        const size_t width = (size_t)a->extent[2];
        for (size_t j = 0; ok && j < width; j++) {
            int32_t k = source_of(row, t, is_reversed(row->test, j, width) && output);
            if (!output && !case_counts(row->test, row->inputs, t, row->n))
                k = -1;
            const double should =
                k < 0 || !b ? 0 : b->value[place_of(row->test, row->steps, k, row->n, width) + j];
            ok = same(row, name, t,
                      a->value[place_of(row->test, row->test->T, t, row->n, width) + j], should);
        }
    }
    return ok;
}

/* Compares state `kind` of the whole run with state `like` of the part. */
static bool same_state(const struct row *row, const char *kind, const char *like, int s,
                       const struct data *whole, const struct data *part)
{
    char name[32], other[32];
    snprintf(name, sizeof name, "%s%d", kind, s);
    snprintf(other, sizeof other, "%s%d", like, s);
    const struct array *a = data_find(whole, name), *b = data_find(part, other);
    bool ok = true;
    for (int32_t lane = 0; a && lane < a->extent[0]; lane++)
        for (int32_t j = 0; ok && j < a->extent[2]; j++) {
            const size_t at =
                (size_t)(lane * a->extent[1] + row->n) * (size_t)a->extent[2] + (size_t)j;
            ok = same(row, name, -1, a->value[at], b ? b->value[at] : 0);
        }
    return ok;
}

static bool check_part(const struct row *row, const struct machine *machine,
                       const struct data *whole)
{
    struct test_case part = *row->test;
    struct data inputs = {0}, results = {0};
    part.desc.flags &= ~(uint32_t)(ECORNN_MASK | ECORNN_REPEAT_PADDING);
    part.desc.steps = part.T = row->steps;
    part.desc.flags &= ~(uint32_t)(ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
    part.desc.save_every = 0;
    part.mask = -1;
    part.lengths = LENGTHS_NULL;
    take_inputs(row, &inputs);
    bool ok = case_run(&part, machine, &inputs, &results) &&
              same_sequence(row, "y", whole, &results) && same_sequence(row, "dx", whole, &results);
    for (int s = 0; ok && s < row->test->states; s++)
        ok = same_state(row, "final", "final", s, whole, &results) &&
             same_state(row, "dinitial", "dinitial", s, whole, &results) &&
             same_state(row, "dstart", "dstart", s, whole, &results);
    data_free(&inputs);
    data_free(&results);
    return ok;
}

/* In a row whose steps are all masked, final states equal initial ones. */
static bool check_empty(const struct row *row, const struct data *whole)
{
    bool ok = same_sequence(row, "y", whole, NULL) && same_sequence(row, "dx", whole, NULL);
    for (int s = 0; ok && s < row->test->states; s++)
        ok = same_state(row, "final", "initial", s, whole, row->inputs) &&
             same_state(row, "dinitial", "dfinal", s, whole, row->inputs);
    return ok;
}

bool masked_same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs)
{
    struct data whole = {0};
    struct row row = {
        .test = test, .inputs = inputs, .at = calloc((size_t)test->T, sizeof *row.at)};
    bool ok = row.at && case_run(test, machine, inputs, &whole);
    for (; ok && row.n < test->N; row.n++) {
        row.steps = 0;
        for (int32_t t = 0; t < test->T; t++)
            if (case_counts(test, inputs, t, row.n))
                row.at[row.steps++] = t;
        ok = row.steps > 0 ? check_part(&row, machine, &whole) : check_empty(&row, &whole);
    }
    free(row.at);
    data_free(&whole);
    return ok;
}
