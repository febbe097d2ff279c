/*
 * What plan, bench and tune share: a device, and a loop over problems with their cells.
 */
#define _DEFAULT_SOURCE 1 /* isatty */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/core/files.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "bench/core/system.h"
#include "command.h"

/* Parses the cell of a problem: the one in a recorded file, or the one of --cell, whose name the
 * problem must have. */
static bool take_cell(struct session *session, const struct one_problem *problem)
{
    const char *path = session->options->cell;
    session->cell = NULL;
    if (problem->cell != NULL)
        return ecornn_cell_parse(&session->cell, problem->cell) == ECORNN_OK ||
               say("%s: its cell: %s", problem->text, ecornn_error_detail());
    if (path == NULL)
        return true;
    session->cell = read_cell(path);
    return session->cell != NULL &&
           (is_net(problem->text) || names_cell(problem->text, session->cell, path));
}

static bool call_one(struct session *session, const struct one_problem *problem, session_call *call)
{
    const bool good = take_cell(session, problem) && call(session, problem->text);
    ecornn_cell_free(session->cell);
    session->cell = NULL;
    return good;
}

ecornn_device *open_device(const struct options *options)
{
    ecornn_device *device = NULL;
    if (ecornn_device_open(&device, options->device) != ECORNN_OK)
        say("%s", ecornn_error_detail());
    return device;
}

double layer_steps(const ecornn_desc *desc)
{
    const int layers = desc->layers > 0 ? desc->layers : 1;
    return (double)desc->steps * layers * ((desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1);
}

void warn_if_busy(void)
{
    const double load = system_load();
    if (load > 0.5)
        say("warning: the machine was busy in the last minute (load %.1f)", load);
}

/* Prints "3 of 20, 40 s left: lstm/..." on standard error if that is a terminal.  n: problems that
 * are done. */
static void show_progress(const struct problems *problems, int n, double begin)
{
    if (!isatty(STDERR_FILENO))
        return;
    const double left = n > 0 ? (now() - begin) / n * (problems->n - n) : 0;
    fprintf(stderr, "\r\033[K");
    if (n < problems->n && problems->n > 1)
        fprintf(stderr, "%d of %d, %.0f s left: %.60s", n + 1, problems->n, left,
                problems->list[n].text);
}

static void print_regrets(const struct regrets *regrets)
{
    char text[1024];
    regrets_print(regrets, text, sizeof text);
    printf("%s", text);
    fflush(stdout);
}

/* Measures the problems with the largest regrets once more, in a new process with fresh memory. */
static bool measure_again(const struct session *session)
{
    const struct options *options = session->options;
    const struct regrets *regrets = &session->regrets;
    char seconds[32];
    const char *words[REGRETS_KEPT + 12] = {"ecornn", "tune", "--regret"};
    int n = 3;
    if (options->device != NULL) {
        words[n++] = "--device";
        words[n++] = options->device;
    }
    if (options->cell != NULL) {
        words[n++] = "--cell";
        words[n++] = options->cell;
    }
    if (options->seconds > 0) {
        snprintf(seconds, sizeof seconds, "%g", options->seconds);
        words[n++] = "--seconds";
        words[n++] = seconds;
    }
    const int before = n;
    for (int k = 0; k < regrets->n_worst && k < options->again && regrets->worst[k].regret > 0; k++)
        words[n++] = regrets->worst[k].problem;
    if (n == before)
        return true;
    printf("the worst once more, in a new process:\n");
    fflush(stdout);
    return system_run_again(words) || say("the measurement in a new process failed");
}

static bool call_each(struct session *session, const struct problems *problems, session_call *call)
{
    struct regrets *regrets = &session->regrets;
    const double begin = now();
    bool good = true;
    if (session->options->json)
        json_array(&session->json, NULL);
    for (int k = 0; k < problems->n; k++) {
        show_progress(problems, k, begin);
        const bool done = call_one(session, &problems->list[k], call);
        regrets->failed += !done;
        good = done && good;
        fflush(stdout);
    }
    show_progress(problems, problems->n, begin);
    if (session->options->json)
        json_end(&session->json);
    else if (problems->n > 1 && (regrets->n > 0 || session->options->regret))
        print_regrets(regrets);
    return good && !(session->options->regret && regrets->missed > 0);
}

int session_run(const struct options *options, bool measures, session_call *call, void *own)
{
    struct session session = {.options = options, .own = own};
    struct problems problems;
    bool good = problems_read(&problems, options);
    if (good)
        good = (session.device = open_device(options)) != NULL;
    if (good && measures)
        warn_if_busy();
    good = good && call_each(&session, &problems, call);
    ecornn_device_close(session.device);
    problems_free(&problems);
    if (options->again > 0)
        good = measure_again(&session) && good;
    return !good;
}
