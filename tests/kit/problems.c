/*
 * Problems and layout requests; see problems.h.
 */
#include "tests/kit/problems.h"

#include <check.h>

#include "common/util.h"

const char *const problems[PROBLEMS] = {
    "lstm/T1/N1/I1/H1",
    "lstm/f32/train/T7/N3/I5/H17",
    "lstm/f64/train/L3/bi/T5/N2/I3/H7/P4/dropout:0.5",
    "lstm/L4/T6/N3/I2/H5/P3",
    "gru/train/L2/rev/T9/N4/I6/H5/batch-major",
    "gru-reset-first/train/L2/bi/T4/N3/I2/H3/dropout:0.25",
    "gru-reset-first/f64/L3/T4/N3/I2/H3",
    "lstm-peephole/train/L3/bi/T3/N5/I4/H6",
    "rnn-tanh/train/L4/T8/N1/I9/H2",
    "mgu/train/bi/T3/N2/I1/H33/batch-major",
    "lstm/bf16/train/L3/bi/T5/N2/I3/H7/P4/dropout:0.5",
    "lstm/f16/f16-params/L3/T5/N2/I3/H7",
    "gru-reset-first/bf16/bf16-params/train/L2/bi/T4/N3/I5/H35",
    "lstm-peephole/f32/bf16-weights/train/L2/T3/N5/I4/H6",
    "gru/f32/fast/row-invariant/train/L2/bi/T3/N5/I4/H6",
    "lstm/f32/train/L3/T9/N3/I4/H6/save:states",
    "lstm/bf16/train/L2/bi/T5/N3/I2/H5/P4/batch-major/resets/mask/repeat-padding/save:every:2",
    "gru-reset-first/L3/rev/T5/N3/I2/H5/resets",
    "lstm/L3/bi/T5/N3/I2/H5/all-states",
    "lstm/f32/train/L2/bi/T9/N3/I4/H6/P4/dropout:0.5/save:every:2/bf16-save",
    "gru-reset-first/bf16/train/rev/T7/N3/I4/H6/save:every:3/memory:3M",
    "gru/f32/train/L2/bi/T3/N4/I6/H12/heads:3/grouped-input",
    "min-gru/bf16/L4/bi/T6/N3/I4/H5",
    "min-lstm/bf16/train/L3/T5/N3/I2/H7/resets",
    "min-gru/bf16/train/L2/bi/T7/N3/I4/H6/save:every:3",
};

const struct eco_layout_request requests[REQUESTS] = {
    {.chunk = 0},
    {.chunk = 2, .chunk_backward = 3},
    {.chunk = 3, .chunk_backward = 2, .wavefront = true},
    {.chunk = 4, .cpu.lane_groups = 2, .cpu.lanes = 4, .cpu.vectors = 3},
    {.chunk = 4,
     .cpu.lane_groups = 2,
     .cpu.lanes = 4,
     .cpu.vectors = 2,
     .cpu.acc_units = 8,
     .cpu.alias_bytes = 32},
    {.chunk = 4,
     .cpu.lane_groups = 2,
     .cpu.lanes = 8,
     .cpu.vectors = 4,
     .cpu.group = 32,
     .cpu.pair = 2},
    {.chunk = 3,
     .cpu.lane_groups = 2,
     .cpu.lanes = 4,
     .cpu.vectors = 2,
     .cpu.pack_rows = 7,
     .cpu.threads = 2,
     .cpu.carried_threads = 3,
     .cpu.carried_rows = {2, 1},
     .cpu.sums_vectors = true},
    {.chunk = 2,
     .wavefront = true,
     .cpu.by_length = true,
     .gpu.product_bytes = 100,
     .fuse_input = true},
    {.chunk = 2,
     .cpu.by_length = true,
     .fuse_input = true,
     .cpu.fuse_rows = 3,
     .cpu.by_rows = true},
    {.chunk = 3,
     .cpu.lanes = 4,
     .cpu.lane_groups = 2,
     .cpu.vectors = 2,
     .cpu.wide = true,
     .cpu.by_rows = true},
    {.chunk = 3,
     .chunk_backward = 1,
     .wavefront = true,
     .gpu.weights_chunks = 3,
     .gpu.transposed = {true, true},
     .gpu.prepared_bytes = {300, 500},
     .gpu.widened = true,
     .gpu.rows_independent = true},
    {.chunk = 2, .chunk_backward = 3, .gpu.lean = true, .gpu.rows_independent = true},
    {.chunk = 2, .chunk_backward = 2, .wavefront = true, .gpu.weights_chunks = 2, .gpu.lean = true},
    {.chunk = 2,
     .chunk_backward = 3,
     .gpu.lean = true,
     .gpu.transposed = {true, true},
     .gpu.prepared_bytes = {700, 0},
     .gpu.widened = true,
     .gpu.aligned = true,
     .gpu.padded = true},
};

void problem_of(struct eco_problem *problem, const char *text)
{
    ecornn_desc desc;
    ck_assert_msg(eco_problem_parse(&desc, text, NULL) == ECORNN_OK, "%s: %s", text,
                  eco_fail_detail());
    ck_assert_msg(eco_problem_build(problem, &desc) == ECORNN_OK, "%s: %s", text,
                  eco_fail_detail());
}
