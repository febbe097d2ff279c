/*
 * Choices of a GPU's plans. The printed choices of a plan, when forced, make the same plan again.
 * Tuning finds plans that compute the same, and wisdom makes these plans.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/choices.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

static const char *const problems[] = {"lstm/bf16/T100/N64/I512/H512",
                                       "lstm/bf16/train/T300/N20/I800/H800",
                                       "gru/f32/fast/train/T100/N16/I256/H256",
                                       "lstm/f32/train/T100/N64/I512/H512",
                                       "lstm/bf16/L4/T100/N32/I512/H1024",
                                       "lstm/f16/train/L5/bi/T300/N20/I800/H800",
                                       "lstm/bf16/train/L2/T35/N32/I650/H650",
                                       "lstm/bf16/L2/T1/N1/I640/H640",
                                       "lstm/bf16/T20/N128/I512/H2048/P512",
                                       "lstm/f32/train/L2/T35/N20/I1500/H1500",
                                       "gru-reset-first/bf16/train/T50/N32/I256/H256",
                                       "rnn-relu/f64/train/T20/N8/I37/H61",
                                       "lstm/bf16/train/T8/N32/I100/H100"};

static ecornn_device *device;

START_TEST(choices_make_the_same_plan)
{
    force_choices(device, problems[_i]);
    force_rows(device, problems[_i]);
}
END_TEST

static const char *const tuned_problem[] = {
    "lstm/bf16/train/T50/N32/I256/H256", "gru/f32/infer/T20/N8/I100/H300",
    "lstm/f32/fast/train/L2/T30/N64/I512/H512", "lstm/f16/infer/T1/N1/I512/H512",
    "mgu/f64/train/T10/N8/I37/H61"};

START_TEST(tunes)
{
    static char print[1 << 14], line[400];
    ecornn_desc desc;
    ecornn_tuning tuned;
    ecornn_plan *plan;
    const ecornn_tuning tuning = {.size = sizeof tuning, .limit_seconds = 1};
    check_ok(parse_desc(&desc, tuned_problem[_i], NULL));
    ck_assert_msg(tune_into(device, &desc, &tuning, &tuned) == ECORNN_OK, "%s: %s",
                  tuned_problem[_i], ecornn_error_detail());
    printf("# %s: planned %.2f us, best %.2f us, %d candidates, %d refused, %s\n",
           tuned_problem[_i], 1e6 * tuned.planned_seconds, 1e6 * tuned.best_seconds,
           tuned.candidates, tuned.refused, tuned.best);
    ck_assert_int_eq(tuned.wrong, 0);
    ck_assert_int_gt(tuned.candidates, 1);
    check_ok(ecornn_plan_create_desc(&plan, device, &desc));
    ck_assert_int_lt(ecornn_plan_print(plan, print, sizeof print), (int)sizeof print);
    ecornn_plan_free(plan);
    snprintf(line, sizeof line, "\nECORNN_FORCE=%s\n", tuned.best);
    ck_assert_msg(strstr(print, line) != NULL, "%s: %s", tuned.best, print);
    const ecornn_tuning with = {
        .size = sizeof with, .limit_seconds = 1e-3, .forget = 1, .wisdom = 1};
    ecornn_tuning again;
    check_ok(tune_into(device, &desc, &with, &again));
    ck_assert_int_eq(again.by_wisdom, 1);
    ck_assert_str_eq(again.planned, tuned.best);
}
END_TEST

GPU_TEST_MAIN("choices", &device, {choices_make_the_same_plan, sizeof problems / sizeof *problems},
              {tunes, sizeof tuned_problem / sizeof *tuned_problem})
