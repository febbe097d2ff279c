/*
 * ecornn tune: measures problems, and writes wisdom; or says how far the planner is from the best.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"

/* What is known now comes to what the file holds by now, after all of that. */
static bool add_to_file(struct wisdom_file *file)
{
    char *own = wisdom_text();
    bool good = own != NULL && wisdom_file_lock(file) && wisdom_file_read(file);
    if (good && ecornn_wisdom_from_text(own) != ECORNN_OK)
        good = say("%s", ecornn_error_detail());
    good = good && wisdom_file_write(file);
    wisdom_file_unlock(file);
    free(own);
    return good;
}

/* What a program's plan says of wisdom. */
static void ask_wisdom(const struct session *session, const char *problem, char note[MOST_NOTE])
{
    ecornn_sizes sizes;
    char *text = plan_text(session, problem, &sizes);
    if (text != NULL)
        wisdom_of(text, note);
    free(text);
}

static void print_tuned(struct session *session, const char *problem, const ecornn_tuned *tuned,
                        const char *note)
{
    ecornn_desc desc;
    const bool parsed = ecornn_desc_parse(&desc, problem, session->cell) == ECORNN_OK;
    const double steps = parsed ? layer_steps(&desc) : 1;
    if (session->options->json) {
        json_object(&session->json, NULL);
        json_text(&session->json, "problem", problem);
        json_number(&session->json, "planned_seconds", tuned->planned_seconds);
        json_number(&session->json, "best_seconds", tuned->best_seconds);
        json_number(&session->json, "regret", tuned->measured ? tuned->regret : NAN);
        json_truth(&session->json, "measured", tuned->measured != 0);
        json_truth(&session->json, "complete", tuned->complete != 0);
        json_text(&session->json, "planned", tuned->planned);
        json_text(&session->json, "best", tuned->best);
        json_truth(&session->json, "by_wisdom", tuned->by_wisdom != 0);
        json_text(&session->json, "wisdom", note[0] != '\0' ? note : NULL);
        json_whole(&session->json, "candidates", tuned->candidates);
        json_whole(&session->json, "wrong", tuned->wrong);
        json_end(&session->json);
        return;
    }
    printf("%-52s %10.2f us, best %10.2f (%.2f us a step and layer), ", problem,
           1e6 * tuned->planned_seconds, 1e6 * tuned->best_seconds,
           1e6 * tuned->best_seconds / steps);
    if (tuned->measured)
        printf("regret %5.1f %%, %d candidates\n", 100 * tuned->regret, (int)tuned->candidates);
    else if (tuned->complete)
        printf("no other plan\n");
    else
        printf("not measured: only %d candidates\n", (int)tuned->candidates);
    const bool other = strcmp(tuned->planned, tuned->best) != 0;
    if (other || session->options->regret)
        printf("  %s %s\n", tuned->by_wisdom ? "wisdom: " : "planner:", tuned->planned);
    if (!tuned->by_wisdom && note[0] != '\0')
        printf("  wisdom:  %s\n", note);
    if (other)
        printf("  best:    %s\n", tuned->best);
    if (tuned->wrong > 0)
        printf("  %d of them had other results than that plan: a fault, please report it\n",
               (int)tuned->wrong);
}

/* A row for each candidate: what the planner predicted, and what it takes. */
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

/* What is found is kept at once, so that nothing is lost where this is stopped. */
static bool tune_one(struct session *session, const char *problem)
{
    const struct options *options = session->options;
    char note[MOST_NOTE] = "";
    struct candidates candidates = {.n = 0};
    ecornn_tuned tuned;
    if (!is_one_plan(problem))
        return false;
    if (!options->wisdom)
        ecornn_wisdom_forget(); /* only what is found now is added */
    bool good = tune_problem(session, problem, &tuned, options->csv != NULL ? &candidates : NULL);
    if (good && options->csv != NULL)
        good = add_rows(options->csv, problem, &candidates);
    candidates_free(&candidates);
    if (!good)
        return false;
    if (options->wisdom)
        ask_wisdom(session, problem, note);
    if (!options->regret && !add_to_file(session->own))
        return false;
    regrets_add(&session->regrets, problem, &tuned);
    print_tuned(session, problem, &tuned, note);
    return tuned.wrong == 0;
}

/* What this machine's estimates are made of; the lines of it, since they are few. */
static bool tune_machine(const struct options *options, struct wisdom_file *file)
{
    struct json json = {.depth = 0};
    ecornn_device *device = open_device(options);
    if (device == NULL)
        return false;
    ecornn_wisdom_forget(); /* only what is found now is added */
    warn_if_busy();
    const bool measured = ecornn_tune_machine(device) == ECORNN_OK;
    ecornn_device_close(device);
    if (!measured)
        return say("%s", ecornn_error_detail());
    char *found = wisdom_text();
    const bool good = found != NULL && add_to_file(file);
    if (good && options->json && options->n == 0)
        json_lines(&json, NULL, found);
    else if (good && !options->json)
        printf("%s", strchr(found, '\n') + 1); /* without the head */
    free(found);
    return good;
}

static bool has_problems(const struct options *options)
{
    return options->n > 0 || options->recorded != NULL || options->random > 0;
}

static int run(const struct options *options)
{
    struct wisdom_file file = {.lock = -1};
    if (options->regret && (options->machine || options->output != NULL)) {
        say("--regret writes nothing: not with --machine, not with -o");
        return 2;
    }
    if (options->wisdom && !options->regret) {
        say("--wisdom is only of --regret");
        return 2;
    }
    if (options->again > 0 &&
        (!options->regret || options->json || options->again > REGRETS_KEPT)) {
        say("--again is for at most %d problems, with --regret, without --json", REGRETS_KEPT);
        return 2;
    }
    bool good =
        options->regret || (wisdom_file_find(&file, options->output) && wisdom_file_read(&file));
    if (options->machine)
        good = good && tune_machine(options, &file);
    if (!good || (options->machine && !has_problems(options)))
        return !good;
    return session_run(options, true, tune_one, &file);
}

const struct command command_tune = {
    .name = "tune",
    .operands = "[PROBLEM|@LIST]...",
    .about = "Measures which choices are fastest for problems, and writes wisdom",
    .more =
        "What the file holds already stays, but for the same problems of this device.  Best\n"
        "where nothing else runs.  With --regret nothing is written, and wisdom does not count;\n"
        "with --wisdom, too, the plans are measured that programs get.  --machine measures\n"
        "what estimates are made of, in less than a minute, and needs no problem.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS | TAKES_OUTPUT |
             TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED | TAKES_REGRET | TAKES_WISDOM |
             TAKES_MACHINE | TAKES_AGAIN | TAKES_CSV,
    .most = MANY_OPERANDS,
    .run = run,
};
