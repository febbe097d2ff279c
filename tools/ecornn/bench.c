/*
 * ecornn bench: how long problems take, with the means of bench/bench.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/core/ours.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"
#include "json.h"

enum { ROUNDS_MIN = 5, ROUNDS_MAX = 2000, WARM_UP_RUNS = 2 };
static const double ROUND_SECONDS = 0.005; /* at least */

struct work {
    const struct options *options;
    ecornn_cell *cell;
    struct json json;
    double *seconds; /* [ROUNDS_MAX] of a run */
};

/* Rounds until they took so long; how many, 0 on failure. */
static int time_rounds(const struct work *work, struct ours *ours)
{
    const double wanted = work->options->seconds > 0 ? work->options->seconds : 1;
    int rounds = 0, set = 0;
    for (int k = 0; k < WARM_UP_RUNS; k++)
        if (!ours_run(ours, 0))
            return 0;
    const int repeats = 1 + (int)(ROUND_SECONDS / fmax(ours->seconds, 1e-6));
    for (double sum = 0; rounds < ROUNDS_MAX && (rounds < ROUNDS_MIN || sum < wanted); rounds++) {
        work->seconds[rounds] = 0;
        for (int k = 0; k < repeats; k++) {
            set = (set + 1) % ours->problem->sets;
            if (!ours_run(ours, set))
                return 0;
            work->seconds[rounds] += ours->seconds / repeats;
        }
        sum += work->seconds[rounds] * repeats;
    }
    return rounds;
}

static void print_times(struct work *work, const struct ours *ours, int rounds)
{
    const struct problem *problem = ours->problem;
    const struct spread spread = spread_of(work->seconds, rounds);
    const double gflops = 1e-9 * problem->flops / spread.median;
    if (!work->options->json) {
        printf("%-52s %10.2f us [%.2f, %.2f], %d rounds, %.1f GFLOP/s, %s %s\n", problem->text,
               1e6 * spread.median, 1e6 * spread.low, 1e6 * spread.high, rounds, gflops,
               ours->info.backend, ours->info.variant);
        return;
    }
    json_object(&work->json, NULL);
    json_text(&work->json, "problem", problem->text);
    json_text(&work->json, "device", ours->info.name);
    json_text(&work->json, "variant", ours->info.variant);
    json_whole(&work->json, "threads", ours->info.threads);
    json_number(&work->json, "seconds", spread.median);
    json_number(&work->json, "low", spread.low);
    json_number(&work->json, "high", spread.high);
    json_whole(&work->json, "rounds", rounds);
    json_number(&work->json, "gflops", gflops);
    json_end(&work->json);
}

static bool measure(struct work *work, const char *text)
{
    struct problem problem;
    struct ours ours = {.problem = NULL};
    if (!problem_parse(&problem, text, work->cell))
        return false;
    int rounds = 0;
    if (ours_plan(&ours, &problem, work->options->device) && problem_fill(&problem, ours.plan, 1) &&
        ours_upload(&ours))
        rounds = time_rounds(work, &ours);
    if (rounds > 0)
        print_times(work, &ours, rounds);
    fflush(stdout);
    ours_free(&ours);
    problem_free(&problem);
    return rounds > 0;
}

static bool measure_all(struct work *work, const struct problems *problems)
{
    const double begin = now();
    bool good = true;
    work->seconds = malloc(ROUNDS_MAX * sizeof *work->seconds);
    if (work->seconds == NULL)
        return say("no memory");
    if (work->options->json)
        json_array(&work->json, NULL);
    for (int k = 0; k < problems->n; k++) {
        show_progress(problems, k, begin);
        good = measure(work, problems->text[k]) && good;
    }
    show_progress(problems, problems->n, begin);
    if (work->options->json)
        json_end(&work->json);
    free(work->seconds);
    return good;
}

static int run(const struct options *options)
{
    struct work work = {.options = options};
    struct problems problems;
    const bool good = problems_read(&problems, options) && open_cell(options, &work.cell) &&
                      measure_all(&work, &problems);
    ecornn_cell_free(work.cell);
    problems_free(&problems);
    return !good;
}

const struct command command_bench = {
    .name = "bench",
    .operands = "PROBLEM|@LIST...",
    .about = "Times problems: median, quartiles and rate of a run",
    .more = "A run of inference is forward; of training it packs, runs forward and backward, and\n"
            "unpacks.  \"/lengths:uniform\" may follow a PROBLEM, and \"/resets:3\", in percent.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS |
             TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED,
    .most = MANY_OPERANDS,
    .run = run,
};
