/*
 * Compares a run with a mask with runs of only the unmasked steps. Every row must have the same
 * bits. Each of these runs has all rows and neither lengths nor mask, but only one of its rows is
 * compared.
 */
#include "tests/kit/whole.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/problem.h"
#include "common/type.h"

/* Row n has `steps` unmasked steps, the kth of which is step at[k]. */
struct row {
    const struct test_case *test;
    const struct data *inputs;
    struct trial *whole, *part;
    int32_t n, steps, *at;
};

/* Step t of the row in the whole run, or step k in its part. */
static struct part whole_at(const struct row *row, int32_t t)
{
    return (struct part){.of = row->whole, .step = t, .row = row->n, .steps = 1, .rows = 1};
}

static struct part part_of(const struct row *row, int32_t k)
{
    return (struct part){.of = row->part, .step = k, .row = row->n, .steps = 1, .rows = 1};
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

/* Sums dy of a step and of all steps that repeat it, rounded once. */
static void take_dy(const struct row *row)
{
    const struct trial_array *const dy = &row->whole->array[0][DY][0];
    if (dy->host == NULL)
        return;
    const size_t width = dy->row / dy->element;
    for (int32_t k = 0; k < row->steps; k++)
        for (size_t j = 0; j < width; j++) {
            const bool reversed = is_reversed(row->test, j, width);
            double sum = 0;
            for (int32_t i = 0; i < row->test->T; i++) {
                const int32_t t = reversed ? row->test->T - 1 - i : i;
                if (source_of(row, t, reversed) == k)
                    sum += eco_type_get(part_at(whole_at(row, t), DY), j, dy->type);
            }
            eco_type_set(part_at(part_of(row, k), DY), j, dy->type, sum);
        }
}

static void take_inputs(const struct row *row)
{
    static const int states[] = {INITIAL, DFINAL, START, PARAMS};
    const struct part whole = {.of = row->whole}, part = {.of = row->part};
    row->part->without = 0;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        part_copy(part, states[i], whole, states[i]);
    for (int32_t k = 0; k < row->steps; k++) {
        part_copy(part_of(row, k), X, whole_at(row, row->at[k]), X);
        part_copy(part_of(row, k), RESETS, whole_at(row, row->at[k]), RESETS);
    }
    take_dy(row);
    row->part->without = row->whole->without;
    trial_point(row->part);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Compares y, or dx, in which no step is repeated. */
static bool same_sequence(const struct row *row, int role)
{
    const struct trial_array *const array = &row->whole->array[0][role][0];
    const size_t width = array->row / (array->element + !array->element);
    for (int32_t t = 0; array->host && !(row->whole->without >> role & 1) && t < row->test->T; t++)
        for (size_t j = 0; j < width; j++) {
            int32_t k = source_of(row, t, is_reversed(row->test, j, width) && role == Y);
            if (role == DX && !case_counts(row->test, row->inputs, t, row->n))
                k = -1;
            const double is = eco_type_get(part_at(whole_at(row, t), role), j, array->type);
            const double should =
                k < 0 ? 0 : eco_type_get(part_at(part_of(row, k), role), j, array->type);
            if (is != should) {
                fprintf(stderr, "%s: row %d, step %d: %s is %.17g, %.17g without the others\n",
                        row->test->text, (int)row->n, (int)t, trial_role(role), is, should);
                return false;
            }
        }
    return true;
}

/* Compares states of the whole run with others of the part, or of the whole run. */
static bool same_state(const struct row *row, int role, struct trial *other, int like)
{
    const struct part whole = {.of = row->whole, .row = row->n, .rows = 1};
    return whole_same((struct part){.of = other, .row = row->n, .rows = 1}, like, whole, role);
}

static bool check_row(const struct row *row)
{
    const bool empty = row->steps == 0; /* then final states equal initial ones */
    struct trial *const other = empty ? row->whole : row->part;
    if (!empty) {
        trial_size(row->part, row->steps, row->test->N, 0);
        take_inputs(row);
        trial_run(row->part);
    }
    return same_sequence(row, Y) && same_sequence(row, DX) &&
           same_state(row, FINAL, other, empty ? INITIAL : FINAL) &&
           same_state(row, DINITIAL, other, empty ? DFINAL : DINITIAL) &&
           (empty || same_state(row, DSTART, other, DSTART));
}

bool masked_same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs)
{
    struct trial whole, part;
    struct test_case of = *test;
    struct row row = {.test = test,
                      .inputs = inputs,
                      .whole = &whole,
                      .part = &part,
                      .at = calloc((size_t)test->T, sizeof *row.at)};
    bool ok = row.at && whole_open(&whole, machine, test, inputs);
    of.desc.flags &= ~(uint32_t)(ECORNN_MASK | ECORNN_REPEAT_PADDING);
    whole_part(&part, machine, &of, test->T, test->N);
    for (; ok && row.n < test->N; row.n++) {
        row.steps = 0;
        for (int32_t t = 0; t < test->T; t++)
            if (case_counts(test, inputs, t, row.n))
                row.at[row.steps++] = t;
        ok = check_row(&row);
    }
    trial_close(&part), trial_close(&whole);
    free(row.at);
    return ok;
}
