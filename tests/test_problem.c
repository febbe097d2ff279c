/*
 * Problem strings: no round trip changes them, and wrong ones are refused.
 */
#include <check.h>

#include "common/util.h"
#include "tests/problems.h"
#include "tests/suite.h"

START_TEST(strings_come_back)
{
    struct eco_problem problem, again;
    problem_of(&problem, problems[_i]);
    problem_of(&again, problem.text);
    ck_assert_str_eq(problem.text, again.text);
}
END_TEST

static const char *const broken[] = {
    "",
    "lstm",
    "nonsense/T1/N1/I1/H1",
    "lstm/T0/N1/I1/H1",
    "lstm/T1/N1/I1",
    "lstm/T1/N1/I1/H1/",
    "lstm/T1/N1/I1/H1/dropout:1",
    "lstm/T1/N1/I1/H1/dropout:",
    "lstm/T1/N1/I1/H1/f8",
    "lstm/T99999999999/N1/I1/H1",
    "lstm/T1/N1/I1/H-1",
    "lstm/T1x/N1/I1/H1",
    "lstm//T1/N1/I1/H1",
    "gru/T1/N1/I1/H4/P2",
    "lstm/T1/N1/I1/H1/L999",
    "lstm/T1/N1/I1/H1/dropout:nan",
};

enum { BROKEN = sizeof broken / sizeof *broken };

START_TEST(broken_strings_are_refused)
{
    ecornn_desc desc = {.hidden = 77};
    ck_assert_int_ne(eco_problem_parse(&desc, broken[_i], NULL), ECORNN_OK);
    ck_assert_int_eq(desc.hidden, 77);
    ck_assert_str_ne(eco_fail_detail(), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("problem");
    TCase *tcase = tcase_create("strings");
    tcase_add_loop_test(tcase, strings_come_back, 0, PROBLEMS);
    tcase_add_loop_test(tcase, broken_strings_are_refused, 0, BROKEN);
    suite_add_tcase(suite, tcase);
    return suite_run(suite, true);
}
