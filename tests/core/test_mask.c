/*
 * Masked steps on the CPU. A row must have the bits of a run of only its unmasked steps, by every
 * algorithm, on one thread and on several.
 *
 *     test_mask [CASE]
 */
#include "tests/kit/exact.h"

/* Problems whose numbers do not depend on the number of rows or steps: doc/numerics.md, "Rows". */
static const char *const list[] = {
    "lstm/f32/train/T9/N5/I3/H8/states/mask:30",
    "lstm/f32/train/L2/bi/T7/N6/I3/H21/states/mask:50/lengths:random",
    "lstm/f32/infer/L3/rev/T7/N4/I3/H19/states/mask:30/lengths:random/repeat-padding",
    "lstm/f32/train/L2/bi/T8/N5/I3/H19/P5/states/mask:0/lengths:random/repeat-padding/batch-major",
    "gru/f32/train/L2/bi/T7/N5/I3/H19/states/repeat-padding/lengths:random",
    "gru/f32/train/T11/N4/I3/H19/states/mask:25/resets:30/save:every:4",
    "gru/f32/train/T6/N3/I3/H19/states/mask:100",
    "gru-reset-first/f32/train/bi/T7/N9/I3/H34/states/mask:40/resets:30/lengths:random/batch-major",
    "lstm/bf16/row-invariant/train/bi/T7/N4/I7/H40/states/mask:30",
    "lstm/f64/row-invariant/train/L2/rev/T7/N4/I5/H19/states/mask:30/save:states",
    "projected-two-states/f32/train/L2/T5/N3/I4/H16/P6/states/mask:40",
    "kimi-delta/f32/train/T9/N4/I3/H36/states/mask:40/lengths:random",
    "mlstm/f32/train/rev/T9/N4/I3/H10/states/mask:40/repeat-padding/lengths:random",
};
enum { CASES = sizeof list / sizeof *list };

const struct exact_program exact_program = {"masked steps", list, CASES, masked_same, NULL};
