/*
 * Runs every case of the sweep, and every cell from text, on the CUDA device with each
 * algorithm and compares it with the reference. Each runs forward and backward, queued kernel by
 * kernel and from a graph.  Skipped, with the reason, where there is no device.
 *
 *     test_gpu [CASE]           that case only
 *     ECORNN_ALGORITHM=NAME     that algorithm only
 *     ECORNN_PART=K/N           every N-th case only, from the K-th on (tests/gpu/suite.sh)
 *
 * Cases in F32 also run with ECORNN_FAST_MATH, in BF16 and in F16. All cases also run with padded
 * rows and products of split operands, which the planner chooses only where they pay.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/comparison.h"
#include "tests/kit/suite.h"

/* A GPU has weights of int8, but not rows. */
static void check_refused(const char *text)
{
    struct test_case test;
    ecornn_plan *plan = NULL;
    ck_assert(case_parse(&test, text));
    ck_assert_int_eq(ecornn_plan_create_desc(&plan, device, &test.desc), ECORNN_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    ck_assert_msg(strstr(ecornn_error_detail(), "int8") != NULL, "%s", ecornn_error_detail());
    case_free(&test);
}

START_TEST(agrees_with_reference)
{
    static const char *const type[] = {"f32", "f32/fast", "bf16", "f16"};
    char text[CASE_TEXT];
    for (int k = 0; k < (only ? 1 : 4); k++) {
        sweep_text(only, nth(_i), text);
        if (strstr(text, "/int8/") != NULL) {
            check_refused(text);
            return;
        }
        if (k == 0 || retype(text, type[k]))
            ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
    }
}
END_TEST

/* Backward computes again what forward did not save. */
START_TEST(replay_agrees_with_reference)
{
    static const char *const type[] = {"f32", "bf16", "f32/fast", "f16"};
    char text[CASE_TEXT], policy[CASE_TEXT];
    sweep_text(only, nth(_i), text);
    if (strstr(text, "/int8") != NULL) /* is inference */
        return;
    const int k = nth(_i) % POLICIES, t = nth(_i) / POLICIES % 4;
    if (!only && t > 0 && !retype(text, type[t]))
        return;
    if (sweep_policy(text, k, only != NULL, policy))
        ck_assert_msg(case_agrees(policy, true, algorithms_agree), "%s", policy);
}
END_TEST

START_TEST(agrees_for_matrix_states)
{
    char text[CASE_TEXT];
    sweep_matrix_text(nth(_i), text);
    ck_assert_msg(case_agrees(text, false, algorithms_agree), "%s", text);
}
END_TEST

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : getenv("ECORNN_CASE");
    restricted = getenv("ECORNN_ALGORITHM") != NULL;
    if (!suite_open_gpu(&device))
        return EXIT_SUCCESS;
    Suite *suite = suite_create("gpu");
    TCase *tests = tcase_create("cuda"), *own = tcase_create("own cells"),
          *replay = tcase_create("replay");
    const bool first = read_part();
    tcase_add_loop_test(replay, replay_agrees_with_reference, 0, share(sweep_count(only)));
    tcase_add_loop_test(tests, agrees_with_reference, 0, share(sweep_count(only)));
    if (!only) {
        tcase_add_loop_test(own, agrees_for_matrix_states, 0, share(sweep_matrix_count()));
        add_listed_cases(tests, own);
        add_exact_cases(tests, own, first);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, replay);
    suite_add_tcase(suite, own);
    const int status = suite_run_cases(suite, true);
    printf("# cases: %d\n", compared);
    ecornn_device_close(device);
    return status;
}
