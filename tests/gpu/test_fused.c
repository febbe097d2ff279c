/*
 * How algorithm fused cuts a step into blocks: a function of sizes, tested without a device.
 */
#include <check.h>

#include "common/backend.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/wide_step/wide_step.h"
#include "tests/kit/problems.h"
#include "tests/kit/suite.h"

static const struct eco_caps h200 = {.threads = 132,
                                     .gpu.block_bytes = 227 << 10,
                                     .gpu.blocks = {132, 132, 132},
                                     .gpu.fuses = true},
                             small = {
                                 .threads = 20, .gpu.block_bytes = 99 << 10, .gpu.fuses = true};

static struct eco_fused_size size_of(int accs, int units, int rows, int k)
{
    return (struct eco_fused_size){
        .type = ECORNN_BF16, .accs = accs, .units = units, .rows = rows, .k = k, .shapes = 7};
}

/* Each chosen size has a kernel, and the kernel's memory suffices. */
START_TEST(chooses_what_there_is)
{
    static const int rows[] = {1, 8, 9, 33, 64, 65, 128, 1000};
    const struct eco_caps *caps = _i % 2 ? &small : &h200;
    for (int accs = 1; accs <= ECO_MAX_ACCS; accs++)
        for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
            const struct eco_fused_size size = size_of(accs, 640, rows[n], 1280);
            const struct eco_fused_choice choice = eco_fused_choose(&size, caps);
            if (!ECO_FUSED_MADE(accs, 0))
                continue;
            ck_assert_int_ge(choice.shape, 0);
            ck_assert(ECO_FUSED_MADE(accs, choice.shape));
            ck_assert_uint_le(ECO_FUSED_SHARED(accs, choice.shape), caps->gpu.block_bytes);
            ck_assert(choice.time > 1e-6 && choice.time < 1e-2);
        }
}
END_TEST

/* Every row of the matrices is in one of the block's tiles. */
START_TEST(holds_all_of_a_unit)
{
    for (int accs = 1; accs <= ECO_MAX_ACCS; accs++)
        ck_assert_int_ge(ECO_FUSED_TILES(accs) * ECO_FUSED_M, accs * ECO_FUSED_UNITS(accs));
    ck_assert_int_ge(ECO_FUSED_WARPS, ECO_FUSED_SOURCES);
}
END_TEST

/* A larger size is never estimated to take less time. One row takes the narrowest block. */
START_TEST(takes_longer_for_more)
{
    const struct eco_fused_size one = size_of(4, 640, 1, 1280), many = size_of(4, 640, 500, 1280),
                                deep = size_of(4, 640, 1, 8000);
    const double time = eco_fused_choose(&one, &h200).time;
    ck_assert_int_eq(eco_fused_choose(&one, &h200).shape, 0);
    ck_assert(eco_fused_choose(&many, &h200).time > time);
    ck_assert(eco_fused_choose(&deep, &h200).time > time);
}
END_TEST

/* Blocks of wide steps fit in memory, and one of them is fastest unless the batch has too many
 * rows. */
START_TEST(chooses_wide_steps)
{
    static const int accs[] = {1, 3, 4};
    for (int i = 0; i < 3; i++) {
        struct eco_wide_size size = {.accs = accs[i],
                                     .ops = 1,
                                     .units = 256,
                                     .rows = 4096,
                                     .k = {256, 256},
                                     .shapes = UINT_MAX};
        const double time = eco_wide_choose(&size, &h200).time;
        ck_assert(time > 1e-6 && time < 1e-3);
        size.ops = 2; /* two ops in a launch wait for one launch only */
        ck_assert(eco_wide_choose(&size, &h200).time < time);
        size.ops = 1;
        for (int shape = 0; shape < ECO_WIDE_SHAPES; shape++)
            ck_assert_uint_le(eco_wide_shared(shape, accs[i], eco_wide_shapes[shape].stages),
                              h200.gpu.block_bytes);
        size.shapes = 1;
        ck_assert_int_eq(eco_wide_choose(&size, &h200).shape, 0);
        size.rows = 1 << 23;
        ck_assert_int_eq(eco_wide_choose(&size, &h200).shape, -1);
        size.shapes = 0;
        ck_assert_int_eq(eco_wide_choose(&size, &h200).shape, -1);
    }
}
END_TEST

/* A forced wide step is chosen even for one row, and a narrow one can replace it. If a narrow step
 * is forced or rows must be invariant, no wide one is chosen. */
START_TEST(takes_what_is_forced)
{
    struct eco_problem problem;
    struct eco_caps caps = h200;
    caps.gpu.wide = true;
    problem_of(&problem, "lstm/bf16/T9/N4096/I256/H256");
    ck_assert_int_ge(eco_step_choose(&problem, &caps, 0, problem.N).wide, 0);
    ck_assert_int_eq(eco_step_choose(&problem, &h200, 0, problem.N).wide, -1);
    for (int shape = 0; shape < ECO_WIDE_SHAPES; shape++) {
        problem.force.keys = UINT64_C(1) << ECO_FORCE_FUSED;
        problem.force.value[ECO_FORCE_FUSED] = ECO_FUSED_SHAPES + shape;
        const struct eco_step_choice choice = eco_step_choose(&problem, &caps, 0, 1);
        ck_assert_int_eq(choice.wide, shape);
        ck_assert_int_ge(eco_fused_choose(&choice.size, &caps).shape, 0);
    }
    problem.force.value[ECO_FORCE_FUSED] = 1;
    ck_assert_int_eq(eco_step_choose(&problem, &caps, 0, problem.N).wide, -1);
    problem.row_invariant = true;
    problem.force.keys = 0;
    ck_assert_int_eq(eco_step_choose(&problem, &caps, 0, problem.N).wide, -1);
}
END_TEST

TEST_MAIN("fused", {chooses_what_there_is, 2}, {holds_all_of_a_unit, 1}, {takes_longer_for_more, 1},
          {chooses_wide_steps, 1}, {takes_what_is_forced, 1})
