/*
 * Resets on the CPU. A run must have the bits of its episodes in separate runs, by every algorithm
 * and instruction set, on one thread and on several.
 *
 *     test_resets [CASE]
 */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/isa/isa.h"
#include "tests/kit/exact.h"

/* Problems whose numbers do not depend on the number of rows or steps: doc/numerics.md, "Rows". */
static const char *const list[] = {
    "lstm/f32/train/T9/N5/I3/H8/states/resets:30",
    "lstm/f32/train/L2/T7/N4/I3/H21/resets:30",
    "lstm/f32/infer/L3/T7/N4/I3/H19/states/resets:30/lengths:random",
    "lstm/f32/train/L2/rev/T7/N4/I3/H19/states/resets:30/lengths:random",
    "lstm/f32/train/L2/T7/N4/I3/H19/P5/states/resets:30/batch-major",
    "lstm/f32/infer/rev/T8/N3/I3/H24/P40/states/resets:40",
    "lstm/f32/train/T5/N33/I5/H37/states/resets:10",
    "lstm/f32/train/T12/N3/I3/H16/states/resets:100",
    "lstm/f32/train/T12/N3/I3/H16/states/resets:0",
    "lstm/f32/train/L2/T11/N4/I3/H11/states/resets:25/save:states",
    "lstm/f32/train/L2/rev/T11/N4/I3/H11/states/resets:25/lengths:random/save:every:3",
    "gru/f32/train/L2/T7/N4/I3/H50/states/resets:30",
    "gru/f32/infer/T40/N1/I3/H50/states/resets:20",
    "gru/f32/train/T11/N4/I3/H19/states/resets:25/lengths:random/save:every:4",
    "gru-reset-first/f32/train/T7/N4/I3/H34/states/resets:30/lengths:random",
    "gru-reset-first/f32/train/T9/N4/I3/H34/states/resets:30/save:every:4",
    "mgu/f32/train/L2/rev/T7/N4/I3/H17/states/resets:30",
    "lstm-peephole/f32/train/T7/N4/I7/H16/P4/states/resets:30",
    "rnn-tanh/f32/train/L2/T7/N4/I5/H100/states/resets:30",
    "rnn-relu/f32/train/T7/N4/I5/H1/states/resets:30",
    "lstm/f32/bf16-weights/row-invariant/train/T7/N5/I5/H131/states/resets:30",
    "lstm/bf16/row-invariant/train/T7/N4/I7/H40/states/resets:30/lengths:random",
    "gru/bf16/row-invariant/infer/L2/T7/N4/I7/H48/states/resets:30",
    "gru-reset-first/bf16/row-invariant/train/T7/N4/I5/H35/states/resets:30/save:states",
    "lstm/f64/row-invariant/train/L2/T7/N4/I5/H19/states/resets:30/lengths:random",
    "gru/f64/row-invariant/train/rev/T7/N4/I3/H20/states/resets:30",
    "four-states/f32/train/L2/T7/N4/I3/H17/resets:30/lengths:random",
    "norm-lstm-peephole/f32/train/T6/N4/I3/H20/states/resets:30",
    "gated-delta/f32/train/T40/N4/I3/H36/states/resets:10/lengths:random",
    "rwkv-7/f64/train/T9/N4/I3/H6/states/resets:30",
    "mlstm/f32/train/rev/T9/N4/I3/H10/states/resets:30",
};
enum { CASES = sizeof list / sizeof *list };

static const struct {
    const char *device, *grid;
} machine_list[] = {{"cpu:1", NULL}, {"cpu:2", "1x2x1"}, {"cpu:3", "1x1x3"}};
enum { MACHINES = sizeof machine_list / sizeof *machine_list };

static bool run_on(int k, const struct test_case *test, const struct data *inputs)
{
    if (machine_list[k].grid)
        setenv("ECORNN_GRID", machine_list[k].grid, 1);
    const bool same = exact_on(machine_list[k].device, test, inputs, episodes_same);
    unsetenv("ECORNN_GRID");
    return same;
}

static bool run(const struct test_case *test, const struct data *inputs)
{
    const struct eco_isa *isa;
    bool same = true;
    for (int k = 0; same && (isa = eco_isa_supported(k)) != NULL; k++) {
        setenv("ECORNN_ISA", isa->name, 1);
        for (int d = 0; same && d < MACHINES; d++)
            same = (k > 0 && d != k % MACHINES) || run_on(d, test, inputs);
        if (!same)
            fprintf(stderr, "    with %s\n", isa->name);
    }
    return same;
}

const struct exact_program exact_program = {"resets", list, CASES, NULL, run};
