/*
 * ECORNN_FORCE: keys, values, and values that are not numbers. The printed choices of a plan, when
 * forced, make the same plan again.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/force.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/choices.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

START_TEST(text_of_a_key)
{
    const char *forced = "algorithm=packed,tile=2,il=,=7,last=x";
    char value[6];
    ck_assert(eco_force_text(forced, "algorithm", value, sizeof value));
    ck_assert_str_eq(value, "packe"); /* as much as fits */
    ck_assert(eco_force_text(forced, "last", value, sizeof value));
    ck_assert_str_eq(value, "x");
    ck_assert(
        !eco_force_text(forced, "rithm", value, sizeof value)); /* only a whole key is found */
    ck_assert(!eco_force_text(forced, "algo", value, sizeof value));
    ck_assert(eco_force_text(forced, "il", value, sizeof value));
    ck_assert_str_eq(value, "");
    ck_assert(!eco_force_text(NULL, "last", value, sizeof value));
    ck_assert(!eco_force_text("", "last", value, sizeof value));
}
END_TEST

START_TEST(number_of_a_key)
{
    static const char *const wrong[] = {
        "block=", "block=8x", "block=x", "block=99999999999", "block=-99999999999",
        "block",  "blocks=8"};
    int value = 5;
    ck_assert(eco_force_number("a=1,block=-12", "block", &value));
    ck_assert_int_eq(value, -12);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!eco_force_number(wrong[i], "block", &value), "%s", wrong[i]);
    ck_assert_int_eq(value, -12);
}
END_TEST

/* ---- choices --------------------------------------------------------------------------------- */

START_TEST(choices_make_the_same_plan)
{
    static const char *const problems[] = {"lstm/T1/N1/I8/H16",
                                           "lstm/train/T100/N1/I64/H64",
                                           "gru/train/T50/N32/I256/H256",
                                           "lstm/train/L2/bi/T20/N16/I100/H96",
                                           "lstm/L3/T40/N64/I512/H512",
                                           "lstm/train/T30/N8/I40/H64/P32",
                                           "gru/f64/train/T30/N8/I40/H64",
                                           "lstm/bf16/train/T30/N24/I64/H64",
                                           "mgu/train/T8/N4/I8/H48/save:every:3",
                                           "lstm/bf16-weights/T30/N1/I64/H64"};
    ecornn_device *const device = device_on("cpu:2");
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        force_choices(device, problems[i]);
    ecornn_device_close(device);
}
END_TEST

START_TEST(every_choice_can_be_forced)
{
    static const char *const problems[] = {"lstm/train/T9/N3/I8/H40", "lstm/bf16/T9/N3/I8/H40/P8",
                                           "min-gru/train/T300/N2/I5/H19",
                                           "gru/f64/train/T9/N3/I8/H40"};
    ecornn_device *const device = device_on("cpu:2");
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        force_rows(device, problems[i]);
    ecornn_device_close(device);
}
END_TEST

START_TEST(forced_choices_are_printed)
{
    static const char forced[] =
        "algorithm=packed,chunk=4,chunk-back=8,vectors=4,own-units=1,fuse=0,copy=0,grid=1x1x1,"
        "block=8,pass-after=0,cached=1,strips=0,whole-rows=1,help=1,pack-rows=96";
    char print[1 << 13], wanted[sizeof forced + 16];
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_device *const device = device_on("cpu:2");
    check_ok(parse_desc(&desc, "lstm/train/T9/N3/I8/H40", NULL));
    ck_assert_int_eq(setenv("ECORNN_FORCE", forced, 1), 0);
    check_ok(ecornn_plan_create_desc(&plan, device, &desc));
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    ecornn_plan_print(plan, print, sizeof print);
    snprintf(wanted, sizeof wanted, "ECORNN_FORCE=%s\n", forced);
    ck_assert_msg(strstr(print, wanted) != NULL, "%s", print);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

START_TEST(too_long_to_force)
{
    char text[300];
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_device *const device = device_on("cpu:2");
    check_ok(parse_desc(&desc, "lstm/T1/N1/I8/H8", NULL));
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_int_eq(setenv("ECORNN_FORCE", text, 1), 0);
    ck_assert_int_eq(ecornn_plan_create_desc(&plan, device, &desc), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    ck_assert_ptr_nonnull(strstr(ecornn_error_detail(), "299 characters"));
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("force", {text_of_a_key, 1}, {number_of_a_key, 1}, {choices_make_the_same_plan, 1},
          {every_choice_can_be_forced, 1}, {forced_choices_are_printed, 1}, {too_long_to_force, 1})
