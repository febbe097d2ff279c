/*
 * ecornn tune: measures problems, and writes wisdom; or says how far the planner is from the best.
 */
#define _DEFAULT_SOURCE 1 /* flock */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
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
    char path[1024]; /* of the file that is written */
};

/* ---- the file -------------------------------------------------------------------------------- */

/* The user's file, where the library looks for it (doc/guide/wisdom.md), and its folders. */
static bool find_user_file(char *path, size_t size)
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    if (folder != NULL && *folder == '/')
        length = snprintf(path, size, "%s/ecornn/wisdom", folder);
    else if (home != NULL && *home == '/')
        length = snprintf(path, size, "%s/.config/ecornn/wisdom", home);
    if (length <= 0 || (size_t)length >= size)
        return say(
            "neither XDG_CONFIG_HOME nor HOME is an absolute path, and not too long: -o says "
            "where to write");
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0777); /* what fails, the lock says */
        *at = '/';
    }
    return true;
}

/* Only what the file holds is known after that.  One that is not there holds nothing; any other
 * that cannot be read is not to be lost. */
static bool read_file(const char *path)
{
    ecornn_wisdom_forget();
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return true;
    return ecornn_wisdom_load(path) == ECORNN_OK || say("%s", ecornn_error_detail());
}

static bool begin_file(struct work *work)
{
    const char *output = work->options->output;
    if (output == NULL && !find_user_file(work->path, sizeof work->path))
        return false;
    if (output != NULL && strlen(output) >= sizeof work->path)
        return say("the path of -o is too long");
    if (output != NULL)
        strcpy(work->path, output);
    return read_file(work->path);
}

/* Others that tune into this file wait.  The lock lies beside it, since the file is replaced. -1,
 * and said so. */
static int lock_file(const char *path)
{
    char name[1024 + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    const int lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock >= 0 && flock(lock, LOCK_EX) == 0)
        return lock;
    say("cannot lock %s: %s", name, strerror(errno));
    if (lock >= 0)
        close(lock);
    return -1;
}

/* What is known now comes to what the file holds by now, after all of that. */
static bool add_to_file(const char *path)
{
    char *own = wisdom_text();
    const int lock = own != NULL ? lock_file(path) : -1;
    bool good = lock >= 0 && read_file(path);
    if (good &&
        (ecornn_wisdom_from_text(own) != ECORNN_OK || ecornn_wisdom_save(path) != ECORNN_OK))
        good = say("%s", ecornn_error_detail());
    if (lock >= 0)
        close(lock);
    free(own);
    return good;
}

/* ---- problems -------------------------------------------------------------------------------- */

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
    ecornn_wisdom_forget(); /* only what is found now is added */
    if (!tune_problem(work->device, problem, work->cell, work->options, only_regret, &tuned, NULL))
        return false;
    if (!only_regret && !add_to_file(work->path))
        return false;
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
                (options->regret || begin_file(&work));
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
    .most = MANY_OPERANDS,
    .run = run,
};
