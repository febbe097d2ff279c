/*
 * What tuning found becomes a line of the process's wisdom; see tune.h.
 */
#include "lib/tune.h"

#include <math.h>
#include <time.h>

#include "common/backend.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"

ecornn_status eco_tune_learn(ecornn_device *device, const struct eco_problem *problem,
                             const ecornn_tuned *tuned)
{
    const double most = 1e8, nanoseconds = 1e9 * fmin(tuned->best_seconds, most);
    char date[16];
    struct tm day;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &day) == NULL || strftime(date, sizeof date, "%Y-%m-%d", &day) == 0)
        return eco_fail(ECORNN_FAILED, "there is no date");
    const struct eco_wisdom_line line = {
        .problem = problem->text,
        .choices = tuned->best,
        .date = date,
        .cell = eco_cell_identity(problem->cell),
        .nanoseconds = nanoseconds < 1 ? 1 : (uint64_t)nanoseconds,
        .spread = (uint64_t)(1e9 * fmin(tuned->best_high - tuned->best_low, most)),
    };
    return eco_wisdom_learn(device, &line);
}
