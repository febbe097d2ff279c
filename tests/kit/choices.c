/* Prints a plan, forces the printed choices, and prints the new plan. */
#include "tests/kit/choices.h"
#include "tests/kit/calls.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { PRINT = 1 << 14 };

/* Prints a plan of the problem and its sizes. */
static void print_plan(ecornn_device *device, const char *problem, char print[PRINT],
                       ecornn_sizes *sizes)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    ck_assert_int_eq(parse_desc(&desc, problem, NULL), ECORNN_OK);
    ck_assert_msg(ecornn_plan_create_desc(&plan, device, &desc) == ECORNN_OK, "%s: %s", problem,
                  ecornn_error_detail());
    ck_assert_int_lt(ecornn_plan_print(plan, print, PRINT), PRINT);
    get_sizes(plan, sizes);
    ecornn_plan_free(plan);
}

/* The part of a print with choices and tapes. The reasons before it, and the memory of unused
 * methods after it, differ if choices are forced. */
static char *choices_of(char *print)
{
    char *at = strstr(print, "ECORNN_FORCE="), *bytes = strstr(print, "bytes: ");
    ck_assert(at != NULL && bytes != NULL);
    *bytes = '\0';
    return at;
}

bool choices_take(const ecornn_plan *plan)
{
    static char print[PRINT];
    ck_assert_int_lt(ecornn_plan_print(plan, print, PRINT), PRINT);
    char *const at = strstr(print, "ECORNN_FORCE=");
    if (at == NULL)
        return false;
    at[strcspn(at, "\n")] = '\0';
    return setenv("ECORNN_FORCE", strchr(at, '=') + 1, 1) == 0;
}

void force_choices(ecornn_device *device, const char *problem)
{
    static char first[PRINT], again[PRINT];
    ecornn_sizes sizes, forced;
    print_plan(device, problem, first, &sizes);
    char *choices = choices_of(first), *end = strchr(choices, '\n');
    *end = '\0';
    ck_assert_int_eq(setenv("ECORNN_FORCE", strchr(choices, '=') + 1, 1), 0);
    *end = '\n';
    print_plan(device, problem, again, &forced);
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    ck_assert_str_eq(choices, choices_of(again));
    ck_assert_uint_eq(sizes.weight_bytes, forced.weight_bytes);
    ck_assert_uint_eq(sizes.reserve_bytes, forced.reserve_bytes);
    ck_assert_uint_ge(sizes.workspace_bytes, forced.workspace_bytes);
}
