/*
 * Measures what estimates of a device are made of, and tells it to devices; see machine.h.  What is
 * measured is the backend's table.
 */
#include "lib/machine.h"

#include <math.h>
#include <time.h>

#include "common/locks.h"
#include "lib/tune.h"

void eco_machine_set_rates(struct ecornn_device *device, bool last)
{
    char values[ECO_MAX_VALUES];
    double value[ECO_MAX_MEASURES] = {0};
    if (device->backend->measures == NULL ||
        atomic_load_explicit(&device->rates_set, memory_order_acquire))
        return;
    eco_lock(ECO_LOCK_RATES);
    if (!atomic_load(&device->rates_set)) {
        eco_wisdom_find_machine(device, values);
        eco_values_read(device->backend->measures, values, value);
        if (values[0] != '\0')
            device->backend->set_rates(device, value);
        atomic_store(&device->rates_set, last || values[0] != '\0');
    }
    eco_unlock(ECO_LOCK_RATES);
}

/* ---- measuring ------------------------------------------------------------------------------- */

enum { ROUNDS = 15 };

static ecornn_status time_problem(struct ecornn_device *device, const struct eco_measure *measure,
                                  double *value)
{
    struct eco_problem problem;
    struct eco_tune_data data;
    struct eco_trial trial = {.data = NULL};
    struct ecornn_plan *plan;
    ecornn_desc desc;
    ecornn_status status = eco_problem_parse(&desc, measure->problem, NULL);
    if (status == ECORNN_OK)
        status = eco_problem_build(&problem, &desc);
    if (status == ECORNN_OK)
        status = eco_plan_make(&plan, device, &problem);
    if (status != ECORNN_OK)
        return status;
    status = eco_tune_data_make(&data, plan);
    data.problem = &problem;
    if (status == ECORNN_OK)
        status = eco_trial_make(&trial, &data, measure->forced);
    for (int round = 0; status == ECORNN_OK && round < ROUNDS; round++)
        status = eco_trial_round(&trial);
    if (status == ECORNN_OK) {
        /* Others only take time from it. */
        const double seconds = eco_trial_least(&trial);
        *value = measure->work > 0 ? measure->work / seconds / device->caps.threads
                                   : seconds / problem.T;
    }
    eco_trial_free(&trial);
    eco_tune_data_free(&data);
    ecornn_plan_free(plan);
    return status;
}

/* What this device cannot do is not measured; what nobody can go on after is a failure. */
static ecornn_status measure_all(struct ecornn_device *device, double value[ECO_MAX_MEASURES])
{
    const struct eco_measure *measures = device->backend->measures;
    for (int k = 0; measures[k].key != NULL; k++) {
        ecornn_status status = ECORNN_OK;
        if (measures[k].measure != NULL)
            value[k] = measures[k].measure(device);
        else
            status = time_problem(device, &measures[k], &value[k]);
        if (status != ECORNN_OK && status != ECORNN_UNSUPPORTED && status != ECORNN_BAD_ARGUMENT)
            return status;
    }
    return ECORNN_OK;
}

ecornn_status eco_machine_measure(struct ecornn_device *device)
{
    char values[ECO_MAX_VALUES] = "", date[16], before[ECO_MAX_DETAIL];
    double value[ECO_MAX_MEASURES] = {0};
    struct eco_text text = {values, sizeof values, 0};
    struct tm day;
    const time_t now = time(NULL);
    eco_fail_keep(before);
    const ecornn_status status = measure_all(device, value);
    if (status != ECORNN_OK)
        return status;
    eco_fail_restore(before);
    eco_values_write(&text, device->backend->measures, value);
    if (values[0] == '\0')
        return eco_fail(ECORNN_UNSUPPORTED, "device %s: nothing of it could be measured",
                        device->backend->name);
    if (gmtime_r(&now, &day) == NULL || strftime(date, sizeof date, "%Y-%m-%d", &day) == 0)
        return eco_fail(ECORNN_FAILED, "there is no date");
    return eco_wisdom_learn_machine(device, values, date);
}
