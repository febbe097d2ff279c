/*
 * See status.h.
 */
#include "tests/kit/status.h"

#include <check.h>
#include <string.h>

void check_ok(ecornn_status status)
{
    ck_assert_msg(status == ECORNN_OK, "%s: %s", ecornn_status_name(status), ecornn_error_detail());
}

void check_refused(ecornn_status status, ecornn_status expected, const char *word)
{
    ck_assert_msg(status == expected, "status %s, detail %s", ecornn_status_name(status),
                  ecornn_error_detail());
    ck_assert_msg(strstr(ecornn_error_detail(), word), "'%s' is not in '%s'", word,
                  ecornn_error_detail());
}

ecornn_device *device_on(const char *name)
{
    ecornn_device *device;
    check_ok(ecornn_device_open(&device, name));
    return device;
}

ecornn_plan *plan_on(ecornn_device *device, const char *problem)
{
    ecornn_plan *plan;
    check_ok(ecornn_plan_create(&plan, device, problem, NULL));
    return plan;
}
