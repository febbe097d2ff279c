/*
 * ecornn bench: how long problems take, with the means of bench/bench.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/ours.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"
#include "table.h"

/* Of each set of x: the second run of a GPU makes a graph, for no more than so many sets. */
enum { ROUNDS_MIN = 5, ROUNDS_MAX = 2000, WARM_UP_RUNS = 2, SETS_OF_GRAPHS = 2 };
static const double ROUND_SECONDS = 0.005; /* at least */

/* Rounds until they took so long; how many, 0 on failure. */
static int time_rounds(const struct session *session, struct ours *ours)
{
    double *seconds = session->own; /* [ROUNDS_MAX] of a run */
    const double wanted = session->options->seconds > 0 ? session->options->seconds : 1;
    const bool graphs = strcmp(ours->info.backend, "cuda") == 0;
    const int sets =
        graphs && ours->problem->sets > SETS_OF_GRAPHS ? SETS_OF_GRAPHS : ours->problem->sets;
    int rounds = 0, set = 0;
    for (int k = 0; k < WARM_UP_RUNS * sets; k++)
        if (!ours_run(ours, k / WARM_UP_RUNS))
            return 0;
    const int repeats = 1 + (int)(ROUND_SECONDS / fmax(ours->seconds, 1e-6));
    for (double sum = 0; rounds < ROUNDS_MAX && (rounds < ROUNDS_MIN || sum < wanted); rounds++) {
        seconds[rounds] = 0;
        for (int k = 0; k < repeats; k++) {
            set = (set + 1) % sets;
            if (!ours_run(ours, set))
                return 0;
            seconds[rounds] += ours->seconds / repeats;
        }
        sum += seconds[rounds] * repeats;
    }
    return rounds;
}

static void print_times(struct session *session, const struct ours *ours, int rounds)
{
    const struct problem *problem = ours->problem;
    const struct spread spread = spread_of(session->own, rounds);
    const double gflops = 1e-9 * problem->flops / spread.median,
                 step = spread.median / layer_steps(&problem->desc);
    if (!session->options->json) {
        printf("%-52s %10.2f us [%.2f, %.2f], %.2f us a step and layer, %d rounds, %.1f GFLOP/s, "
               "%s %s\n",
               problem->text, 1e6 * spread.median, 1e6 * spread.low, 1e6 * spread.high, 1e6 * step,
               rounds, gflops, ours->info.backend, ours->info.variant);
        return;
    }
    json_object(&session->json, NULL);
    json_text(&session->json, "problem", problem->text);
    json_text(&session->json, "device", ours->info.name);
    json_text(&session->json, "variant", ours->info.variant);
    json_whole(&session->json, "threads", ours->info.threads);
    json_number(&session->json, "seconds", spread.median);
    json_number(&session->json, "step_seconds", step);
    json_number(&session->json, "low", spread.low);
    json_number(&session->json, "high", spread.high);
    json_whole(&session->json, "rounds", rounds);
    json_number(&session->json, "gflops", gflops);
    json_end(&session->json);
}

/* A row of the table that was asked for. */
static bool add_row(const struct session *session, const struct ours *ours, int rounds)
{
    const struct problem *problem = ours->problem;
    const struct spread spread = spread_of(session->own, rounds);
    struct table_row row = {
        .threads = strcmp(ours->info.backend, "cpu") == 0 ? ours->info.threads : 1,
        .seconds = spread.median,
        .low = spread.low,
        .high = spread.high,
        .flops = problem->flops,
        .bytes = (double)ours->sizes.weights +
                 (double)problem->element * (double)(problem->x_elements + problem->y_elements),
        .memory = (double)ours->sizes.workspace + (double)ours->sizes.reserve};
    snprintf(row.device, sizeof row.device, "%s %s", ours->info.backend, ours->info.variant);
    snprintf(row.problem, sizeof row.problem, "%s", problem->text);
    return session->options->csv == NULL || table_append(session->options->csv, &row);
}

static bool measure(struct session *session, const char *text)
{
    struct problem problem;
    struct ours ours = {.problem = NULL};
    if (!is_one_plan(text) || !problem_parse(&problem, text, session->cell))
        return false;
    int rounds = 0;
    if (ours_plan(&ours, &problem, session->options->device) &&
        problem_fill(&problem, ours.plan, 1) && ours_upload(&ours))
        rounds = time_rounds(session, &ours);
    if (rounds > 0)
        print_times(session, &ours, rounds);
    const bool kept = rounds == 0 || add_row(session, &ours, rounds);
    ours_free(&ours);
    problem_free(&problem);
    return rounds > 0 && kept;
}

static int run(const struct options *options)
{
    if (options->versus)
        return versus_run(options);
    double *seconds = malloc(ROUNDS_MAX * sizeof *seconds);
    if (seconds == NULL)
        return !say("no memory");
    const int status = session_run(options, true, measure, seconds);
    free(seconds);
    return status;
}

const struct command command_bench = {
    .name = "bench",
    .operands = "PROBLEM|@LIST...",
    .about = "Times problems: median, quartiles and rate of a run",
    .more = "A run of inference is forward; of training it packs, runs forward and backward, and\n"
            "unpacks.  \"/lengths:uniform\" may follow a PROBLEM, and \"/resets:3\", in percent.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS |
             TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED | TAKES_CSV | TAKES_VERSUS,
    .most = MANY_OPERANDS,
    .run = run,
};
