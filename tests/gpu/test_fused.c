/*
 * How algorithm fused cuts a step into blocks: a function of sizes, tested without a device.
 */
#include <check.h>

#include "common/backend.h"
#include "gpu/fused_step/fused_step.h"
#include "tests/kit/suite.h"

static const struct eco_caps h200 = {.threads = 132,
                                     .gpu.block_bytes = 227 << 10,
                                     .gpu.fuses = true},
                             small = {
                                 .threads = 20, .gpu.block_bytes = 99 << 10, .gpu.fuses = true};

static struct eco_fused_size size_of(int accs, int units, int rows, int k)
{
    return (struct eco_fused_size){
        .type = ECORNN_BF16, .accs = accs, .units = units, .rows = rows, .k = k, .shapes = 7};
}

/* There is a kernel for what is chosen, and it has room. */
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

/* Every row of the matrices has its place in a block's tiles. */
START_TEST(holds_all_of_a_unit)
{
    for (int accs = 1; accs <= ECO_MAX_ACCS; accs++)
        ck_assert_int_ge(ECO_FUSED_TILES(accs) * ECO_FUSED_M, accs * ECO_FUSED_UNITS(accs));
    ck_assert_int_ge(ECO_FUSED_WARPS, ECO_FUSED_SOURCES);
}
END_TEST

/* More of anything never takes less time; one row takes the narrowest block. */
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

int main(void)
{
    Suite *suite = suite_create("fused");
    TCase *tests = tcase_create("shapes");
    tcase_add_loop_test(tests, chooses_what_there_is, 0, 2);
    tcase_add_test(tests, holds_all_of_a_unit);
    tcase_add_test(tests, takes_longer_for_more);
    suite_add_tcase(suite, tests);
    return suite_run(suite, true);
}
