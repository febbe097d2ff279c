/*
 * What plan, bench and tune share: a device, a cell, and one problem after the other.
 */
#define _DEFAULT_SOURCE 1 /* isatty, getloadavg */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/core/files.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"

static bool open_cell(struct session *session)
{
    const char *path = session->options->cell;
    if (path != NULL)
        session->cell = read_cell(path);
    return path == NULL || session->cell != NULL;
}

ecornn_device *open_device(const struct options *options)
{
    ecornn_device *device = NULL;
    if (ecornn_device_open(&device, options->device) != ECORNN_OK)
        say("%s", ecornn_error_detail());
    return device;
}

void warn_if_busy(void)
{
    double load = 0;
    if (getloadavg(&load, 1) == 1 && load > 0.5)
        say("the machine was busy in the last minute (load %.1f): times may mislead", load);
}

/* "3 of 20, 40 s left: lstm/..." on standard error, where that is a terminal; n are done. */
static void show_progress(const struct problems *problems, int n, double begin)
{
    if (!isatty(STDERR_FILENO))
        return;
    const double left = n > 0 ? (now() - begin) / n * (problems->n - n) : 0;
    fprintf(stderr, "\r\033[K");
    if (n < problems->n && problems->n > 1)
        fprintf(stderr, "%d of %d, %.0f s left: %.60s", n + 1, problems->n, left,
                problems->text[n]);
}

static void print_regrets(const struct regrets *regrets, bool wisdom)
{
    printf("regret of %d problems", regrets->n);
    if (wisdom || regrets->by_wisdom > 0)
        printf(", %d by wisdom", regrets->by_wisdom);
    printf(": mean %.1f %%, at worst %.1f %% (%s)\n", 100 * regrets->sum / regrets->n,
           100 * regrets->most, regrets->worst);
}

static bool call_each(struct session *session, const struct problems *problems, session_call *call)
{
    const struct regrets *regrets = &session->regrets;
    const double begin = now();
    bool good = true;
    if (session->options->json)
        json_array(&session->json, NULL);
    for (int k = 0; k < problems->n; k++) {
        show_progress(problems, k, begin);
        good = call(session, problems->text[k]) && good;
        fflush(stdout);
    }
    show_progress(problems, problems->n, begin);
    if (session->options->json)
        json_end(&session->json);
    else if (regrets->n > 1)
        print_regrets(regrets, session->options->wisdom);
    return good;
}

int session_run(const struct options *options, bool measures, session_call *call, void *own)
{
    struct session session = {.options = options, .own = own};
    struct problems problems;
    bool good = problems_read(&problems, options) && open_cell(&session);
    if (good)
        good = (session.device = open_device(options)) != NULL;
    if (good && measures)
        warn_if_busy();
    good = good && call_each(&session, &problems, call);
    ecornn_device_close(session.device);
    ecornn_cell_free(session.cell);
    problems_free(&problems);
    return !good;
}
