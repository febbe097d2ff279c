/*
 * ecornn tune: measures problems, and writes wisdom; or says how far the planner is from the best.
 */
#define _POSIX_C_SOURCE 200809L /* access */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"
#include "json.h"

struct work {
    const struct options *options;
    ecornn_device *device;
    ecornn_cell *cell;
    struct json json;
    struct regrets regrets;
};

/* Only what the file holds already is written again.  One that is not there is begun. */
static bool begin_file(const struct options *options)
{
    ecornn_wisdom_forget();
    if (options->output != NULL && access(options->output, F_OK) != 0)
        return true;
    const ecornn_status status = ecornn_wisdom_load(options->output);
    if (status == ECORNN_OK || (options->output == NULL && status == ECORNN_FAILED))
        return true;
    return say("%s", ecornn_error_detail());
}

static void print_tuned(struct work *work, const char *problem, const ecornn_tuned *tuned)
{
    if (work->options->json) {
        json_object(&work->json, NULL);
        json_text(&work->json, "problem", problem);
        json_number(&work->json, "planned_seconds", tuned->planned_seconds);
        json_number(&work->json, "best_seconds", tuned->best_seconds);
        json_number(&work->json, "regret", tuned->regret);
        json_text(&work->json, "planned", tuned->planned);
        json_text(&work->json, "best", tuned->best);
        json_whole(&work->json, "candidates", tuned->candidates);
        json_whole(&work->json, "wrong", tuned->wrong);
        json_end(&work->json);
        return;
    }
    printf("%-52s %10.2f us, best %10.2f, regret %5.1f %%, %d candidates\n", problem,
           1e6 * tuned->planned_seconds, 1e6 * tuned->best_seconds, 100 * tuned->regret,
           (int)tuned->candidates);
    if (strcmp(tuned->planned, tuned->best) != 0)
        printf("  %s\n", tuned->best);
    if (tuned->wrong > 0)
        printf(
            "  %d of them had other results than the planner's plan: a fault, please report it\n",
            (int)tuned->wrong);
}

/* What is found is kept at once, so that nothing is lost where this is stopped. */
static bool tune_one(struct work *work, const char *problem)
{
    const bool only_regret = work->options->regret;
    ecornn_tuned tuned;
    if (!tune_problem(work->device, problem, work->cell, work->options, only_regret, &tuned, NULL))
        return false;
    if (!only_regret && ecornn_wisdom_save(work->options->output) != ECORNN_OK)
        return say("%s", ecornn_error_detail());
    regrets_add(&work->regrets, problem, tuned.regret);
    print_tuned(work, problem, &tuned);
    fflush(stdout);
    return tuned.wrong == 0;
}

static bool tune_all(struct work *work, const struct problems *problems)
{
    const struct regrets *regrets = &work->regrets;
    const double begin = now();
    bool good = true;
    if (work->options->json)
        json_array(&work->json, NULL);
    for (int k = 0; k < problems->n; k++) {
        show_progress(problems, k, begin);
        good = tune_one(work, problems->text[k]) && good;
    }
    show_progress(problems, problems->n, begin);
    if (work->options->json)
        json_end(&work->json);
    else if (regrets->n > 1)
        printf("regret of %d problems: mean %.1f %%, at worst %.1f %% (%s)\n", regrets->n,
               100 * regrets->sum / regrets->n, 100 * regrets->most, regrets->worst);
    return good;
}

static int run(const struct options *options)
{
    struct work work = {.options = options};
    struct problems problems;
    bool good = problems_read(&problems, options) && open_cell(options, &work.cell) &&
                (options->regret || begin_file(options));
    if (good)
        good = (work.device = open_device(options)) != NULL;
    if (good)
        warn_if_busy();
    good = good && tune_all(&work, &problems);
    ecornn_device_close(work.device);
    ecornn_cell_free(work.cell);
    problems_free(&problems);
    return !good;
}

const struct command command_tune = {
    .name = "tune",
    .operands = "[PROBLEM|@LIST]...",
    .about = "Measures which choices are fastest for problems, and writes wisdom",
    .more = "What the file holds already stays, but for the same problems of this device.  Best\n"
            "where nothing else runs.  With --regret nothing is written.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS | TAKES_OUTPUT |
             TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED | TAKES_REGRET,
    .run = run,
};
