/*
 * Problem strings: no round trip changes them, and wrong ones are refused.
 */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "tests/kit/problems.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

START_TEST(strings_come_back)
{
    struct eco_problem problem, again;
    problem_of(&problem, problems[_i]);
    problem_of(&again, problem.text);
    ck_assert_str_eq(problem.text, again.text);
}
END_TEST

static void dropout_comes_back(float dropout)
{
    struct eco_problem problem;
    ecornn_desc desc;
    check_ok(eco_problem_parse(&desc, "lstm/train/L2/T1/N1/I1/H1", NULL));
    desc.dropout = dropout;
    check_ok(eco_problem_build(&problem, &desc));
    check_ok(eco_problem_parse(&desc, problem.text, NULL));
    ck_assert_msg(memcmp(&desc.dropout, &dropout, sizeof dropout) == 0, "%a came back as %a",
                  (double)dropout, (double)desc.dropout);
}

/* A printed dropout parses to the same number, even in a locale with a decimal comma, if the
 * machine has one. */
START_TEST(any_dropout_comes_back)
{
    static const struct {
        const char *text, *printed;
    } usual[] = {{"0.1", "0.1"}, {".25", "0.25"}, {"5e-1", "0.5"}, {"0.000001", "0.000001"}};
    setlocale(LC_NUMERIC, _i == 0 ? "C" : "de_DE.UTF-8");
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        char text[64];
        struct eco_problem problem;
        snprintf(text, sizeof text, "lstm/L2/T1/N1/I1/H1/dropout:%s", usual[k].text);
        problem_of(&problem, text);
        ck_assert_str_eq(strchr(problem.text, ':') + 1, usual[k].printed);
    }
    const uint32_t one = 0x3F800000;
    for (uint32_t bits = 1; bits < one; bits += bits < 64 || bits > one - 64 ? 1 : 123457) {
        float dropout;
        memcpy(&dropout, &bits, sizeof dropout);
        dropout_comes_back(dropout);
    }
    dropout_comes_back(nextafterf(1, 0));
    setlocale(LC_NUMERIC, "C");
}
END_TEST

static const char *const broken[] = {
    "",
    "lstm",
    "nonsense/T1/N1/I1/H1",
    "lstm/T0/N1/I1/H1",
    "lstm/T1/N1/I1",
    "lstm/T1/N1/I1/H1/",
    "lstm/L2/T1/N1/I1/H1/dropout:1",
    "lstm/L2/T1/N1/I1/H1/dropout:",
    "lstm/T1/N1/I1/H1/f8",
    "lstm/T99999999999/N1/I1/H1",
    "lstm/T1/N1/I1/H-1",
    "lstm/T1x/N1/I1/H1",
    "lstm//T1/N1/I1/H1",
    "gru/T1/N1/I1/H4/P2",
    "lstm/T1/N1/I1/H1/L999",
    "lstm/L2/T1/N1/I1/H1/dropout:nan",
    "lstm/L2/T1/N1/I1/H1/dropout:0,5",
    "lstm/L2/T1/N1/I1/H1/dropout:0x1p-1",
    "lstm/L2/T1/N1/I1/H1/dropout:5e",
    "lstm/L2/T1/N1/I1/H1/dropout:0.5 ",
    "lstm/L2/T1/N1/I1/H1/dropout:.5.5",
    "lstm/L2/T1/N1/I1/H1/dropout:1e99",
    "lstm/T1/N1/I1/H4/heads:0",
    "lstm/T1/N1/I1/H4/heads:3",
    "lstm/T1/N1/I1/H4/heads:",
    "lstm/T1/N1/I1/H4/heads:2x",
    "lstm/T1/N1/I1/H4/heads:2/heads:2",
    "lstm/T1/N1/I1/H4/P2/heads:2",
    "lstm/T1/N1/I1/H4/heads:99999999999999999999",
    "lstm/T1/N1/I4/H4/grouped-input",
    "lstm/T1/N1/I3/H4/heads:2/grouped-input",
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

/* A part of a problem string that sets this option to something: a word, or a number of one digit.
 */
static void add_option(struct eco_text *text, const struct eco_option *option, unsigned random)
{
    const char *const word = option->word[random / 16 % ECO_WORDS].word;
    if (word != NULL)
        eco_text_add(text, "/%s", word);
    else if (option->key != NULL)
        eco_text_add(text, "/%s%u", option->key, random % 16 % 10);
}

/* Every option, in any company: the printed string gives an equal problem, but for
 * two that are no part of it. */
START_TEST(random_options_come_back)
{
    const struct eco_grammar *const grammar = &eco_problem_grammar;
    unsigned random = 1;
    int taken = 0;
    for (int k = 0; k < 30000; k++) {
        char string[ECO_MAX_PROBLEM_TEXT];
        struct eco_text text = {string, sizeof string, 0};
        struct eco_problem problem, again;
        ecornn_desc desc;
        eco_text_add(&text, "lstm/T7/N3/I8/H8");
        for (int count = k % 5; count >= 0; count--) {
            random = random * 1664525U + 1013904223U;
            const int row = (int)(random >> 16) % grammar->options;
            add_option(&text, &grammar->option[row], random >> 8);
        }
        if (eco_problem_parse(&desc, string, NULL) != ECORNN_OK)
            continue;
        taken++;
        desc.flags &= ~(uint32_t)(ECORNN_TANGENT | ECORNN_MEASURE), desc.measure_seconds = 0;
        check_ok(eco_problem_build(&problem, &desc));
        problem_of(&again, problem.text);
        ck_assert_str_eq(problem.text, again.text);
        again.flags |= problem.flags & ECORNN_SAVE_ALL; /* printed where it changes something */
        ck_assert_msg(memcmp(&problem, &again, sizeof problem) == 0, "%s became %s", string,
                      problem.text);
    }
    ck_assert_int_gt(taken, 3000);
}
END_TEST

TEST_MAIN("problem", {random_options_come_back, 1}, {strings_come_back, PROBLEMS},
          {any_dropout_comes_back, 2}, {broken_strings_are_refused, BROKEN})
