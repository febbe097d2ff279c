/*
 * Runs against runs of their steps. A case with all-states gives the bits of its runs of so many
 * steps and rows each, and a case with resets those of its episodes. An episode is run without
 * resets with all rows, but only one of its rows is compared.
 */
#include "tests/kit/whole.h"

#include "common/problem.h"
#include "common/type.h"

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Runs the piece of the whole that begins there; the piece after it has been run. */
static bool check_piece(struct trial *piece, struct part whole, const struct test_case *test)
{
    const struct part own = {.of = piece};
    const int32_t t1 = whole.step + piece->T;
    const struct part before = {
        .of = whole.of, .step = whole.step - 1, .row = whole.row, .steps = 1};
    const struct part last = {.of = whole.of, .step = t1 - 1, .row = whole.row, .steps = 1};
    piece->without = 0;
    part_copy(own, DFINAL, own, DINITIAL); /* of the piece after it */
    for (int role = 0; role < Y; role++)
        if (role != DFINAL || t1 == test->T)
            part_copy(own, role, whole, role);
    if (whole.step > 0)
        part_copy(own, INITIAL, before, STATES);
    piece->without = whole.of->without & ~(1u << INITIAL | 1u << DFINAL);
    piece->without |= whole.step == 0 ? whole.of->without & 1u << INITIAL : 0;
    piece->without |= t1 == test->T ? whole.of->without & 1u << DFINAL : 0;
    trial_point(piece);
    piece->io.first_step = (uint32_t)(test->first_step + whole.step);
    piece->io.first_row = (uint32_t)(test->first_row + whole.row);
    trial_run(piece);
    return whole_same(own, Y, whole, Y) && whole_same(own, DX, whole, DX) &&
           whole_same(own, STATES, whole, STATES) && whole_same(own, FINAL, last, STATES) &&
           (whole.step > 0 || whole_same(own, DINITIAL, whole, DINITIAL));
}

bool pieces_same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs, int32_t steps, int32_t rows)
{
    struct trial whole, piece;
    struct part at = {.of = &whole};
    bool ok = whole_open(&whole, machine, test, inputs);
    whole_part(&piece, machine, test, steps, rows);
    for (; ok && at.row < test->N; at.row += rows)
        for (int32_t t1 = test->T; ok && t1 > 0; t1 = at.step) {
            at.step = (t1 - 1) / steps * steps;
            trial_size(&piece, t1 - at.step, at.row + rows < test->N ? rows : test->N - at.row, 0);
            ok = check_piece(&piece, at, test);
        }
    trial_close(&piece), trial_close(&whole);
    return ok;
}

/* ---- episodes -------------------------------------------------------------------------------- */

/* Adds in the type of sums. */
static bool add_rounded(struct part_row a, struct part_row b, void *context)
{
    const ecornn_type type = a.array->type;
    (void)context;
    for (size_t i = 0; i < a.array->row / a.array->element; i++)
        eco_type_set(a.at, i, type,
                     eco_type_round(eco_type_get(a.at, i, type) + eco_type_get(b.at, i, type),
                                    eco_type_sum(type)));
    return true;
}

/* Runs the episode of a row that begins there, and compares the row; initial, ends: is it the row's
 * first episode, its last one? `sums` gets the gradient of its start. */
static bool check_episode(struct trial *episode, struct part row, bool initial, bool ends,
                          struct trial *sums)
{
    const struct part own = {.of = episode}, all = {.of = row.of, .step = row.step},
                      own_row = {.of = episode, .row = row.row, .rows = 1};
    const int from = initial ? INITIAL : START;
    episode->without = 0;
    part_copy_inputs(own, all);
    part_copy(own, INITIAL, all, from);
    episode->without = row.of->without & ~(1u << INITIAL);
    episode->without |= (row.of->without >> from & 1u) << INITIAL;
    episode->without |= ends ? 0 : 1u << DFINAL;
    trial_point(episode);
    trial_run(episode);
    if (!initial)
        part_each((struct part){.of = sums, .row = row.row, .rows = 1}, DSTART, own_row, DINITIAL,
                  add_rounded, NULL);
    return whole_same(own_row, Y, row, Y) && whole_same(own_row, DX, row, DX) &&
           (!ends || whole_same(own_row, FINAL, row, FINAL)) &&
           (!initial || whole_same(own_row, DINITIAL, row, DINITIAL));
}

/* Checks the row's episodes in backward's order, the last one first, because their gradients are
 * added in this order. */
static bool check_row(struct trial *episode, struct part row, struct trial *sums, int32_t T)
{
    const struct trial_array *const resets = &row.of->array[0][RESETS][0];
    const bool reversed = row.of->of[0]->reverse;
    bool ok = true;
    for (int32_t k = 0, done = 0; ok && k < T; k++) { /* in backward's order */
        const int32_t first =
            reversed ? k + 1 : T - 1 - k; /* first step of an episode or of the row */
        const bool inside = first < T, reset = inside && resets->host[first * row.of->N + row.row];
        if (first > 0 && inside && !reset)
            continue;
        row.step = reversed ? done : first;
        trial_size(episode, (reversed ? first : T - done) - row.step, row.of->N, 0);
        ok = check_episode(episode, row, reversed ? first == T : first == 0 && !reset, done == 0,
                           sums);
        done = k + 1;
    }
    return ok;
}

bool episodes_same(const struct test_case *test, const struct machine *machine,
                   const struct data *inputs)
{
    struct trial whole, episode, sums;
    struct test_case of = *test;
    bool ok = whole_open(&whole, machine, test, inputs);
    of.desc.flags &= ~(uint32_t)ECORNN_RESETS;
    whole_part(&episode, machine, &of, test->T, test->N);
    whole_part(&sums, machine, test, test->T, test->N);
    for (int32_t n = 0; ok && n < test->N; n++)
        ok = check_row(&episode, (struct part){.of = &whole, .row = n, .rows = 1}, &sums,
                       case_length(inputs, n, test->T));
    if (ok && !eco_type_narrow(test->desc.type))
        ok = whole_same((struct part){.of = &sums}, DSTART, (struct part){.of = &whole}, DSTART);
    trial_close(&sums), trial_close(&episode), trial_close(&whole);
    return ok;
}
