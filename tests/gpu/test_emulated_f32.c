/*
 * How products of split operands are cut, for all sizes. A plan must fit the memory, and each
 * cluster must have a stage, because a cluster without one would wait for ever. Needs no device.
 */
#include <check.h>

#include <stdlib.h>

#include "gpu/device/rates.h"
#include "gpu/gemm/emulated_f32/tiling.h"
#include "tests/kit/suite.h"

enum { PROCESSORS = 132 };

/* The number of pairs of tiles of C, one below the other, as split_course.cuh deals them out. */
static int64_t pairs_of(struct eco_emulated_size size)
{
    const int64_t below = (size.m + 2 * ECO_EMULATED_TILE - 1) / (2 * ECO_EMULATED_TILE);
    return below * ((size.n + ECO_EMULATED_TILE - 1) / ECO_EMULATED_TILE);
}

static size_t bytes_of(const struct eco_emulated_plan *plan, struct eco_emulated_size size,
                       int32_t processors)
{
    return eco_emulated_bytes(ECO_EMULATED_PAIRS, size.m, plan->k) +
           eco_emulated_bytes(ECO_EMULATED_PAIRS, size.n, plan->k) +
           (plan->shared ? (size_t)processors * ECO_EMULATED_PART_BYTES : 0);
}

/* Returns the number of parts of the plan; -1: the size has no plan. */
static int check_shared(struct eco_emulated_size size, int32_t processors, size_t room, int shared)
{
    const struct eco_emulated_plan plan =
        eco_emulated_plan(&eco_gpu_rates_h200, size, processors, room, shared);
    int parts = 0;
    if (plan.k == 0)
        return -1;
    ck_assert_int_eq(plan.k % ECO_EMULATED_DEPTH, 0);
    ck_assert_int_le(plan.k, ECO_EMULATED_MOST_K);
    ck_assert_uint_le(bytes_of(&plan, size, processors), room);
    for (int64_t k = 0; k < size.k; k += plan.k, parts++) {
        const int64_t left = size.k - k;
        const int32_t here = left < plan.k ? (int32_t)left : plan.k;
        const int64_t steps = (here + ECO_EMULATED_DEPTH - 1) / ECO_EMULATED_DEPTH;
        const int32_t clusters = eco_emulated_clusters(&plan, size, here, processors);
        ck_assert_int_ge(clusters, 1);
        ck_assert_int_le(clusters * ECO_EMULATED_PAIR, processors);
        ck_assert_msg(clusters <= pairs_of(size) * (plan.shared ? steps : 1),
                      "%d x %d x %d, room %zu: %d clusters for %d of k", size.m, size.n, size.k,
                      room, clusters, here);
    }
    return parts;
}

/* Checks the size with the chosen tile and with each forced one. */
static int check_plan(struct eco_emulated_size size, int32_t processors, size_t room)
{
    check_shared(size, processors, room, 0);
    check_shared(size, processors, room, 1);
    return check_shared(size, processors, room, -1);
}

static const size_t rooms[] = {65280, (32 << 20), ECO_EMULATED_ROOM_BYTES};

/* The last of several pieces is shorter, and there are fewer stages in it than clusters. */
START_TEST(leaves_no_cluster_without_a_stage)
{
    ck_assert_int_gt(check_plan((struct eco_emulated_size){3072, 256, 20800}, PROCESSORS, rooms[1]),
                     1);
    ck_assert_int_gt(check_plan((struct eco_emulated_size){6144, 128, 57664}, PROCESSORS, rooms[2]),
                     1);
    ck_assert_int_gt(check_plan((struct eco_emulated_size){256, 3072, 20737}, PROCESSORS, rooms[1]),
                     1);
}
END_TEST

/* 1 ... a power of two below 2^bits; small ones as likely as large ones. */
static int roll_size(int bits)
{
    const int most =
        1 << rand() %
                 bits; /* one roll a statement, because C does not define the order within one */
    return 1 + rand() % most;
}

START_TEST(fits_its_room)
{
    int planned = 0;
    srand(1);
    for (int i = 0; i < 20000; i++) {
        const int m = roll_size(16), n = roll_size(14), k = 63 + roll_size(18);
        const struct eco_emulated_size size = {m, n, k};
        const int32_t processors = i % 2 == 0 ? PROCESSORS : 2 + rand() % PROCESSORS;
        planned += check_plan(size, processors, rooms[rand() % 3]) > 0;
    }
    ck_assert_int_gt(planned, 1000);
    ck_assert_int_eq(
        check_plan((struct eco_emulated_size){1 << 24, 1 << 24, 64}, PROCESSORS, rooms[2]), -1);
}
END_TEST

/* Every block of a step's product has a stage, even if there are more than 2^31 tiles. */
START_TEST(shares_the_k_of_steps)
{
    static const int32_t clusters[][ECO_EMULATED_SLICES] = {{132, 66, 41, 32, 24, 20, 16, 15},
                                                            {1, 1}};
    srand(2);
    for (int i = 0; i < 20000; i++) {
        const int32_t m = roll_size(24), rows = roll_size(24),
                      k = 64 + rand() % ECO_EMULATED_MOST_K;
        const unsigned kinds = 1 + (unsigned)rand() % ((1 << ECO_EMULATED_KINDS) - 1);
        const struct eco_emulated_choices choices = ECO_EMULATED_ANY(kinds);
        const struct eco_emulated_step step = eco_emulated_step(
            &choices, (struct eco_emulated_size){m, rows, k},
            &(struct eco_emulated_on){&eco_gpu_rates_h200, clusters[i % 2], 1 + i % 3});
        ck_assert_int_ge(step.cut.slices, 1);
        ck_assert_int_le(step.cut.slices, i % 2 == 0 ? ECO_EMULATED_SLICES : 2);
        ck_assert_int_le(step.cut.slices, (k + ECO_EMULATED_DEPTH - 1) / ECO_EMULATED_DEPTH);
        ck_assert(kinds >> step.cut.kind & 1);
        ck_assert_int_lt(step.cut.height, ECO_EMULATED_HEIGHTS);
        ck_assert_int_lt(step.cut.width, ECO_EMULATED_WIDTHS);
        ck_assert(step.time > 0);
    }
}
END_TEST

TEST_MAIN("emulated-f32", {leaves_no_cluster_without_a_stage, 1}, {fits_its_room, 1},
          {shares_the_k_of_steps, 1})
