/*
 * Other work on the CPUs: regions take fewer threads, and all of them again when it has ended. The
 * clocks are the test's own (tests/kit/clock.h), so the load of the machine does not matter.
 */
#include <check.h>

#include "cpu/cpu.h"
#include "tests/kit/clock.h"
#include "tests/kit/suite.h"

enum { MS = 1000000 };

/* Runs a region of at most `all` threads, without a CPU for `away` ns; returns how many it took. */
static int pass_region(struct eco_busy *busy, int all, int64_t away, int64_t waited)
{
    struct eco_region region;
    struct eco_waits waits;
    eco_region_begin(&region, busy, all);
    if (region.threads == 1)
        return 1;
    eco_region_enter(&region, &waits);
    clock_now += away;
    eco_waits_add(&waits, waited, 0);
    for (int id = 0; id < region.threads; id++)
        eco_region_leave(&region, &waits, id);
    eco_region_end(&region);
    return region.threads;
}

/* Two losses in a row count. The pause before the next try is twice their sum, twice as long after
 * each try that fails, and a second at most. */
START_TEST(takes_fewer_and_all_again)
{
    struct eco_busy busy = {0};
    ck_assert_int_eq(pass_region(&busy, 2, 0, 0), 2);
    ck_assert_int_eq(busy.measure, 0);
    ck_assert_int_eq(pass_region(&busy, 2, 5 * MS, MS), 2); /* noticed, not yet measured */
    ck_assert_int_gt(busy.measure, 0);
    for (int64_t pause = 10 * MS; pause <= 1280 * MS; pause *= 2) {
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(pass_region(&busy, 2, 5 * MS, MS), 2);
        ck_assert_int_eq(busy.most, 1);
        clock_now += (2 * pause < 1000 * MS ? 2 * pause : 1000 * MS) - 1;
        ck_assert_int_eq(pass_region(&busy, 2, 0, 0), 1);
        clock_now += 1;
    }
    /* In a try CPUs that have slept are late once, as one is now and then: all threads stay. */
    for (int k = 0; k < 20; k++) {
        ck_assert_int_eq(pass_region(&busy, 2, k % 2 == 0 ? 5 * MS : 0, MS), 2);
        ck_assert_int_eq(busy.most, k == 0);
    }
    /* A loss on fewer threads does not cut their pause short. */
    busy = (struct eco_busy){.most = 2, .again = clock_now + 1000 * MS, .measure = 1};
    ck_assert_int_eq(pass_region(&busy, 4, 5 * MS, MS) + pass_region(&busy, 4, 5 * MS, MS), 4);
}
END_TEST

/* If threads wait because one had less to do, and not because of other work, all threads stay. */
START_TEST(uneven_shares_take_all)
{
    struct eco_busy busy = {0};
    for (int k = 0; k < 100; k++)
        ck_assert_int_eq(pass_region(&busy, 2, 0, MS), 2);
}
END_TEST

static void note_count(void *own, int id, int count)
{
    if (id == 0)
        *(int *)own = count;
}

/* The same of work that a device spreads over two threads: time passes only while they wait. */
START_TEST(work_takes_fewer_and_all_again)
{
    static const int expected[] = {2, 2, 2, 1, 1, 2, 2};
    struct eco_busy busy = {0};
    const struct eco_cpu cpu = {.threads = 2, .cpus = 2, .busy = &busy};
    for (int k = 0; k < 7; k++) {
        int count = 0;
        clock_step = k < 3 ? MS : 0; /* other work during the first three */
        clock_now += k == 5 ? 1000 * MS : 0;
        eco_cpu_run_on_threads(&cpu, 2, note_count, &count);
        ck_assert_msg(count == expected[k], "%d threads the %dth time", count, k);
    }
}
END_TEST

TEST_MAIN("busy", {takes_fewer_and_all_again, 1}, {uneven_shares_take_all, 1},
          {work_takes_fewer_and_all_again, 1})
