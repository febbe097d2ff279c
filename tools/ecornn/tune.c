/*
 * ecornn tune: measures which choices are fastest and writes them to a wisdom file, or, with
 * --regret, tells how much faster they are than the planner's.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"

static void write_tuned(struct json *json, const char *problem, const ecornn_tuning *tuned)
{
    json_object(json, NULL);
    json_text(json, "problem", problem);
    json_number(json, "planned_seconds", tuned->planned_seconds);
    json_number(json, "best_seconds", tuned->best_seconds);
    json_number(json, "regret", tuned->measured ? tuned->regret : NAN);
    json_truth(json, "measured", tuned->measured != 0);
    json_truth(json, "complete", tuned->complete != 0);
    json_text(json, "planned", tuned->planned);
    json_text(json, "best", tuned->best);
    json_whole(json, "candidates", tuned->candidates);
    json_whole(json, "wrong", tuned->wrong);
    json_end(json);
}

static void print_tuned(const struct session *session, const char *problem,
                        const ecornn_tuning *tuned)
{
    ecornn_desc desc = {.size = sizeof desc};
    const bool parsed = ecornn_desc_parse(&desc, problem, session->cell) == ECORNN_OK,
               improved = strcmp(tuned->planned, tuned->best) != 0;
    const double steps = parsed ? layer_steps(&desc) : 1;
    printf("%-52s %10.2f us, best %10.2f (%.2f us a step and layer), ", problem,
           1e6 * tuned->planned_seconds, 1e6 * tuned->best_seconds,
           1e6 * tuned->best_seconds / steps);
    if (tuned->measured)
        printf("regret %5.1f %%, %d candidates\n", 100 * tuned->regret, (int)tuned->candidates);
    else if (tuned->complete)
        printf("no other plan\n");
    else
        printf("not measured: only %d candidates\n", (int)tuned->candidates);
    if (improved || session->options->regret)
        printf("  planner: %s\n", tuned->planned);
    if (improved)
        printf("  best:    %s\n", tuned->best);
    if (tuned->wrong > 0)
        printf("  %d candidates computed other results than the planner's plan: please report\n",
               (int)tuned->wrong);
}

/* Adds a row for each candidate: the planner's estimate and the measured time. */
static bool add_rows(const char *path, const char *problem, const struct candidates *candidates)
{
    FILE *file = fopen(path, "a");
    if (file == NULL)
        return say("%s cannot be opened", path);
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) == 0)
        fprintf(file, "problem;choices;planned;estimate_us;us;low;high\n");
    for (int k = 0; k < candidates->n; k++) {
        const struct candidate *one = &candidates->list[k];
        if (one->refusal[0] == '\0')
            fprintf(file, "%s;%s;%d;%.3f;%.3f;%.3f;%.3f\n", problem, one->choices,
                    strcmp(one->choices, candidates->tuned.planned) == 0, 1e6 * one->estimate,
                    1e6 * one->seconds, 1e6 * one->low, 1e6 * one->high);
    }
    return fclose(file) == 0 || say("%s cannot be written", path);
}

/* Each result is written at once, so that an interrupted command loses only the current one. */
static bool tune_one(struct session *session, const char *problem)
{
    const struct options *options = session->options;
    struct candidates candidates = {.n = 0};
    ecornn_tuning tuned;
    if (!is_one_plan(problem))
        return false;
    ecornn_wisdom_forget(); /* so that only the new result is added to the file */
    bool good = tune_problem(session, problem, &tuned, options->csv != NULL ? &candidates : NULL);
    if (good && options->csv != NULL)
        good = add_rows(options->csv, problem, &candidates);
    candidates_free(&candidates);
    if (!good || (!options->regret && !wisdom_file_add_known(session->own)))
        return false;
    regrets_add(&session->regrets, problem, &tuned);
    if (options->json)
        write_tuned(&session->json, problem, &tuned);
    else
        print_tuned(session, problem, &tuned);
    return tuned.wrong == 0;
}

static int run(const struct options *options)
{
    char path[WISDOM_PATH];
    if (options->regret && options->output != NULL) {
        say("--regret writes no wisdom: it does not go with -o");
        return 2;
    }
    if (options->again > 0 &&
        (!options->regret || options->json || options->again > REGRETS_KEPT)) {
        say("--again requires --regret, not --json, and at most %d problems", REGRETS_KEPT);
        return 2;
    }
    if (!options->regret && !wisdom_file_open(path, options->output))
        return 1;
    return session_run(options, true, tune_one, path);
}

const struct command command_tune = {
    .name = "tune",
    .operands = "[PROBLEM|@LIST]...",
    .about = "Measures which choices are fastest for problems, and writes wisdom",
    .more = "New results replace those of the same problem and device; all others stay in the\n"
            "file.  Measure on an idle machine.  With --regret nothing is written, and existing\n"
            "wisdom is ignored: the planner's own plans are compared with the best.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS | TAKES_OUTPUT |
             TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED | TAKES_REGRET | TAKES_AGAIN | TAKES_CSV,
    .most = MANY_OPERANDS,
    .run = run,
};
