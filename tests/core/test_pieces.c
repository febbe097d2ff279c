/*
 * Runs in pieces on the CPU. The states of each step are the final states of a run that ends there.
 * Pieces in time and in rows have the bits of the whole run, random numbers included.
 *
 *     test_pieces [CASE]
 */
#include "tests/kit/exact.h"

/* Problems whose numbers do not depend on the number of rows or steps: doc/numerics.md, "Rows". */
static const char *const list[] = {
    "lstm/f32/train/L2/T7/N4/I3/H21/states/all-states/dropout:0.4",
    "lstm/f32/infer/L3/T6/N5/I3/H8/states/all-states",
    "lstm/f32/train/L2/T6/N4/I3/H16/P5/states/all-states/resets:30/first:9x2/dropout:0.2",
    "gru/f64/row-invariant/train/L2/T7/N4/I3/H19/states/all-states/dropout:0.3",
    "gru-reset-first/f32/train/T8/N3/I3/H24/states/all-states/save:every:3",
    "drawn-lstm/f32/train/L2/T7/N4/I3/H17/states/all-states/dropout:0.3",
    "gated-delta/f32/train/T7/N4/I3/H36/states/all-states",
    "mlstm/f32/infer/T7/N4/I3/H10/states/all-states",
};
enum { CASES = sizeof list / sizeof *list };

static bool same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs)
{
    return pieces_same(test, machine, inputs, 1, test->N) &&
           pieces_same(test, machine, inputs, 4, 3);
}

const struct exact_program exact_program = {"pieces", list, CASES, same, NULL};
