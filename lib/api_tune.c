/*
 * Tuning: the public function, over the search of tune_search.c.
 */
#include "ecornn.h"

#include <inttypes.h>

#include "common/backend.h"
#include "common/caller.h"
#include "common/util.h"
#include "common/wisdom/files.h"
#include "lib/check.h"
#include "lib/tune.h"

static ecornn_status check(const ecornn_device *device, const ecornn_tuning *tuning)
{
    if (!(tuning->limit_seconds >= 0 && tuning->limit_seconds <= 1e6))
        return eco_fail(ECORNN_BAD_ARGUMENT, "tuning.limit_seconds is %g, must be 0 to 1000000",
                        tuning->limit_seconds);
    if (!device->backend->choices)
        return eco_fail(ECORNN_UNSUPPORTED, "device %s has no choices to tune",
                        device->backend->name);
    const char *asked = eco_plan_asked(device->backend);
    if (asked)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "unset %s before tuning: it fixes choices that tuning must vary", asked);
    return ECORNN_OK;
}

/* With a memory limit, the planner shrinks chunks of a forced plan, so the plan that wisdom makes
 * would not be the one that was measured. */
static ecornn_status check_limit(const struct eco_problem *problem)
{
    if (problem->models > 1)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "models is %d, must be 1 for tuning: tune one model instead",
                        problem->models);
    if (problem->memory_limit == 0)
        return ECORNN_OK;
    return eco_fail(ECORNN_UNSUPPORTED,
                    "memory_limit is %" PRIu64
                    ", must be 0 for tuning: it fixes choices that tuning must vary",
                    problem->memory_limit);
}

ecornn_status ecornn_tune(ecornn_device *device, const ecornn_desc *desc, ecornn_tuning *tuning)
{
    ecornn_tuning usual = {.size = sizeof usual}, own;
    ecornn_desc own_desc;
    struct eco_problem problem;
    const ecornn_tuning *const asked =
        eco_take("tuning", tuning ? tuning : &usual, &own, sizeof own);
    ecornn_status status = eco_check_device(device);
    if (status != ECORNN_OK || !asked)
        return ECORNN_BAD_ARGUMENT;
    if (!(desc = eco_take("desc", desc, &own_desc, sizeof own_desc)))
        return ECORNN_BAD_ARGUMENT;
    ecornn_tuning found = *asked;
    status = check(device, &found);
    if (status != ECORNN_OK)
        return status;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_open();
    status = eco_problem_build(&problem, desc);
    if (status == ECORNN_OK && (desc->flags & ECORNN_TANGENT) != 0)
        status = eco_fail(ECORNN_UNSUPPORTED, "tangents are not tuned");
    if (status == ECORNN_OK)
        status = check_limit(&problem);
    if (status == ECORNN_OK)
        status = eco_tune(device, &problem, eco_choices, asked, &found);
    eco_caller_end(&caller);
    return status == ECORNN_OK ? eco_give("tuning", tuning ? tuning : &usual, &found, sizeof found)
                               : status;
}
