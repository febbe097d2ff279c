/*
 * The summary of tune --regret over many problems. Problems whose alternatives were not measured do
 * not count in the mean, and the worst are listed in order.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/kit/suite.h"
#include "tools/ecornn/command.h"

const char program_name[] = "test_regrets";

static void add(struct regrets *regrets, const char *problem, double regret, int candidates)
{
    ecornn_tuning tuned = {.regret = regret, .candidates = candidates};
    tuned.measured = candidates >= 3;
    tuned.complete = candidates == 0;
    regrets_add(regrets, problem, &tuned);
}

START_TEST(counts_what_was_measured)
{
    struct regrets regrets = {0};
    char text[512];
    add(&regrets, "a", 0.5, 3);
    add(&regrets, "b", 0, 2); /* there was no time for the third */
    add(&regrets, "c", 0.1, 9);
    add(&regrets, "d", 0, 0); /* there is no other plan */
    regrets.failed = 1;
    regrets_print(&regrets, text, sizeof text);
    ck_assert_str_eq(text, "regret of 2 problems: mean 30.0 %, at worst 50.0 % (a), at least 3 "
                           "candidates each; 1 have no other plan; 1 not measured; 1 failed\n");
    struct regrets none = {.by_wisdom = 1};
    add(&none, "b", 0, 1);
    regrets_print(&none, text, sizeof text);
    ck_assert_str_eq(text, "regret of 0 problems, 1 by wisdom; 1 not measured\n");
}
END_TEST

START_TEST(keeps_the_worst)
{
    enum { PROBLEMS = 2 * REGRETS_KEPT };
    struct regrets regrets = {0};
    for (int k = 0; k < PROBLEMS; k++) {
        char name[16];
        const int regret = k * 37 % PROBLEMS;
        snprintf(name, sizeof name, "%d", regret);
        add(&regrets, name, regret, 4);
    }
    ck_assert_int_eq(regrets.n_worst, REGRETS_KEPT);
    for (int k = 0; k < REGRETS_KEPT; k++) {
        char name[16];
        snprintf(name, sizeof name, "%d", PROBLEMS - 1 - k);
        ck_assert_str_eq(regrets.worst[k].problem, name);
    }
}
END_TEST

TEST_MAIN("regrets", {counts_what_was_measured, 1}, {keeps_the_worst, 1})
