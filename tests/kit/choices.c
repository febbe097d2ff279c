/* Prints a plan, forces the printed choices, and prints the new plan; forces every choice. */
#include "tests/kit/choices.h"
#include "tests/kit/calls.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"

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

/* ---- every choice ---------------------------------------------------------------------------- */

static void force_value(ecornn_device *device, const ecornn_desc *desc,
                        const struct eco_choice *row, const char *value, bool right)
{
    char pair[64], wrong[128], print[PRINT];
    ecornn_plan *plan;
    snprintf(pair, sizeof pair, "%s=%s", row->key, value);
    snprintf(wrong, sizeof wrong, "ECORNN_FORCE: %s is none of the values of that key: ", pair);
    ck_assert_int_eq(setenv("ECORNN_FORCE", pair, 1), 0);
    const ecornn_status status = ecornn_plan_create_desc(&plan, device, desc);
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    if (status != ECORNN_OK) {
        const bool starts = strncmp(ecornn_error_detail(), wrong, strlen(wrong)) == 0;
        ck_assert_msg(status == ECORNN_UNSUPPORTED && starts == !right, "%s: %s", pair,
                      ecornn_error_detail());
        return;
    }
    ecornn_plan_print(plan, print, PRINT);
    ck_assert_msg(right && (!(row->flags & ECO_CHOICE_UNSAID) || strstr(print, pair) != NULL),
                  "%s: %s", pair, print);
    ecornn_plan_free(plan);
}

/* Forces values separated by blanks. */
static void force_values(ecornn_device *device, const ecornn_desc *desc,
                         const struct eco_choice *row, const char *values, bool right)
{
    for (const char *at = values, *end; *at != '\0'; at = end + (*end == ' ')) {
        char value[32];
        end = at + strcspn(at, " ");
        snprintf(value, sizeof value, "%.*s", (int)(end - at), at);
        force_value(device, desc, row, value, right);
    }
}

void force_rows(ecornn_device *device, const char *problem)
{
    ecornn_desc desc;
    ck_assert_int_eq(parse_desc(&desc, problem, NULL), ECORNN_OK);
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++) {
        char right[64] = "", wrong[64] = "";
        if (!eco_choice_is_of(row, device->backend) || row->flags & ECO_CHOICE_ELSEWHERE)
            continue;
        if (row->said == NULL) {
            snprintf(right, sizeof right, "%d %d", (int)row->least, (int)row->most);
            snprintf(wrong, sizeof wrong, "%lld %lld", row->least - 1LL, row->most + 1LL);
        }
        force_values(device, &desc, row, row->flags & ECO_CHOICE_WORDS ? row->values : right, true);
        force_values(device, &desc, row, wrong, false);
        force_values(device, &desc, row, "x 1x 99999999999", false);
        force_value(device, &desc, row, "", false);
    }
}
