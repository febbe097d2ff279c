/*
 * The part of Check's interface that the tests of test_arm64.sh and test_windows.sh need; cross
 * compilers come without that library.  All tests run in this process, one after the other, and the
 * first failure ends it. CHECK_EVERY is "N NAME": only every Nth case of the test of that name
 * runs.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CK_ENV, CK_NOFORK, CHECK_MOST = 100 };

typedef struct {
    const char *name;
    void (*run)(int _i);
    int from, to; /* _i */
} TTest;
typedef struct {
    int n;
    void (*before)(void), (*after)(void); /* each case */
    TTest test[CHECK_MOST];
} TCase, Suite, SRunner; /* one case is all there is */

#define START_TEST(test_name)                                                                      \
    static void test_name##_(int _i);                                                              \
    static const TTest test_name##_test = {.name = #test_name, .run = test_name##_};               \
    static const TTest *const test_name = &test_name##_test;                                       \
    static void test_name##_(int _i)                                                               \
    {                                                                                              \
        (void)_i;
#define END_TEST }

#define ck_abort_msg(...)                                                                          \
    do {                                                                                           \
        fprintf(stderr, "FAILED %s:%d: ", __FILE__, __LINE__);                                     \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fprintf(stderr, "\n");                                                                     \
        exit(1);                                                                                   \
    } while (0)
#define ck_assert_msg(truth, ...)                                                                  \
    do {                                                                                           \
        if (!(truth))                                                                              \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)
#define ck_assert(truth)          ck_assert_msg(truth, "%s", #truth)
#define ck_assert_int_eq(a, b)    ck_assert_msg((intmax_t)(a) == (intmax_t)(b), "%s == %s", #a, #b)
#define ck_assert_int_ne(a, b)    ck_assert_msg((intmax_t)(a) != (intmax_t)(b), "%s != %s", #a, #b)
#define ck_assert_int_lt(a, b)    ck_assert_msg((intmax_t)(a) < (intmax_t)(b), "%s < %s", #a, #b)
#define ck_assert_int_le(a, b)    ck_assert_msg((intmax_t)(a) <= (intmax_t)(b), "%s <= %s", #a, #b)
#define ck_assert_int_gt(a, b)    ck_assert_msg((intmax_t)(a) > (intmax_t)(b), "%s > %s", #a, #b)
#define ck_assert_int_ge(a, b)    ck_assert_msg((intmax_t)(a) >= (intmax_t)(b), "%s >= %s", #a, #b)
#define ck_assert_uint_lt(a, b)   ck_assert_msg((uintmax_t)(a) < (uintmax_t)(b), "%s < %s", #a, #b)
#define ck_assert_uint_le(a, b)   ck_assert_msg((uintmax_t)(a) <= (uintmax_t)(b), "%s <= %s", #a, #b)
#define ck_assert_uint_eq(a, b)   ck_assert_msg((uintmax_t)(a) == (uintmax_t)(b), "%s == %s", #a, #b)
#define ck_assert_uint_ge(a, b)   ck_assert_msg((uintmax_t)(a) >= (uintmax_t)(b), "%s >= %s", #a, #b)
#define ck_assert_str_eq(a, b)    ck_assert_msg(strcmp(a, b) == 0, "%s == %s", #a, #b)
#define ck_assert_str_ne(a, b)    ck_assert_msg(strcmp(a, b) != 0, "%s != %s", #a, #b)
#define ck_assert_ptr_null(a)     ck_assert_msg((a) == NULL, "%s == NULL", #a)
#define ck_assert_ptr_nonnull(a)  ck_assert_msg((a) != NULL, "%s != NULL", #a)
#define ck_assert_ptr_eq(a, b)    ck_assert_msg((a) == (b), "%s == %s", #a, #b)
#define ck_assert_mem_eq(a, b, n) ck_assert_msg(memcmp(a, b, n) == 0, "%s == %s", #a, #b)
#define ck_assert_mem_ne(a, b, n) ck_assert_msg(memcmp(a, b, n) != 0, "%s != %s", #a, #b)
#define ck_assert_double_eq(a, b) ck_assert_msg((a) == (b), "%s == %s", #a, #b)
#define ck_assert_double_le(a, b) ck_assert_msg((a) <= (b), "%s <= %s", #a, #b)
#define ck_assert_double_gt(a, b) ck_assert_msg((a) > (b), "%s > %s", #a, #b)
#define ck_assert_double_ge(a, b) ck_assert_msg((a) >= (b), "%s >= %s", #a, #b)
#define ck_assert_double_eq_tol(a, b, t)                                                           \
    ck_assert_msg((a) - (b) < (t) && (b) - (a) < (t), "%s == %s", #a, #b)
#define ck_assert_float_eq     ck_assert_double_eq
#define ck_assert_float_gt     ck_assert_double_gt
#define ck_assert_float_eq_tol ck_assert_double_eq_tol

static TCase check_only;

static inline TCase *tcase_create(const char *name)
{
    (void)name;
    return &check_only;
}

static inline Suite *suite_create(const char *name)
{
    return tcase_create(name);
}

#define tcase_set_timeout(tcase, seconds)       ((void)(tcase))
#define suite_add_tcase(suite, tcase)           ((void)(suite), (void)(tcase))
#define srunner_create(suite)                   (suite)
#define srunner_set_fork_status(runner, status) ((void)(runner))
#define srunner_free(runner)                    ((void)(runner))
#define tcase_add_checked_fixture(tcase, set_up, tear_down)                                        \
    ((tcase)->before = (set_up), (tcase)->after = (tear_down))

static inline void tcase_add_loop_test(TCase *tcase, const TTest *test, int from, int to)
{
    tcase->test[tcase->n] = *test;
    tcase->test[tcase->n].from = from;
    tcase->test[tcase->n++].to = to;
}

static inline int check_every(const char *name)
{
    char which[64] = "";
    int every = 1;
    const char *asked = getenv("CHECK_EVERY");
    const bool some = asked != NULL && sscanf(asked, "%d %63s", &every, which) == 2;
    return some && strcmp(which, name) == 0 ? every : 1;
}

static inline void srunner_run_all(const SRunner *runner, int unused)
{
    (void)unused;
    for (const TTest *test = runner->test; test < runner->test + runner->n; test++) {
        int cases = 0;
        for (int i = test->from; i < test->to; i += check_every(test->name), cases++) {
            if (runner->before != NULL)
                runner->before();
            test->run(i);
            if (runner->after != NULL)
                runner->after();
        }
        printf("ok - %s, %d of %d cases, %.1f s so far\n", test->name, cases, test->to - test->from,
               (double)clock() / CLOCKS_PER_SEC);
        fflush(stdout);
    }
}

static inline int srunner_ntests_failed(const SRunner *runner)
{
    (void)runner;
    return 0;
}

#endif /* CHECK_H */
