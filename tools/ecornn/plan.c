/*
 * ecornn plan: prints plans and why they were chosen, and measures their candidates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"

char *plan_text(const struct session *session, const char *problem, ecornn_sizes *sizes)
{
    ecornn_desc desc = {.size = sizeof desc};
    ecornn_plan *plan = NULL;
    char *text = NULL;
    const ecornn_cell *const cells[] = {session->cell, NULL};
    ecornn_status status;
    if (is_net(problem))
        status = ecornn_plan_create(&plan, session->device, problem, cells);
    else if ((status = ecornn_desc_parse(&desc, problem, session->cell)) == ECORNN_OK)
        status = ecornn_plan_create_desc(&plan, session->device, &desc);
    if (status != ECORNN_OK) {
        say("%s: %s", problem, ecornn_error_detail());
        return NULL;
    }
    const int length = ecornn_plan_print(plan, NULL, 0);
    if (length >= 0)
        text = malloc((size_t)length + 1);
    if (text != NULL)
        ecornn_plan_print(plan, text, (size_t)length + 1);
    else
        say("no memory");
    ecornn_plan_sizes(plan, sizes);
    ecornn_plan_free(plan);
    return text;
}

void choices_of(const char *text, char choices[256])
{
    static const char head[] = "ECORNN_FORCE=";
    const size_t length = sizeof head - 1;
    choices[0] = '\0';
    for (const char *line = text; line != NULL && choices[0] == '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, head, length) == 0)
            snprintf(choices, 256, "%.*s", (int)strcspn(line + length, "\n"), line + length);
    }
}

bool is_net(const char *problem)
{
    return strchr(problem, ';') != NULL;
}

bool is_one_plan(const char *problem)
{
    if (is_net(problem))
        return say("%s: a net cannot be measured; measure its layers, which \"ecornn plan\" prints",
                   problem);
    if (is_attention(problem))
        return say("%s: this command does not measure attention; \"ecornn bench\" does", problem);
    return true;
}

/* Seconds to make a plan, without what only the first plan of a process finds and compiles; 0 if
 * this was not requested. */
static struct spread time_of_plan(const struct session *session, const char *problem)
{
    enum { ROUNDS = 25 };
    double seconds[ROUNDS];
    ecornn_desc desc = {.size = sizeof desc};
    ecornn_plan *plan = NULL;
    if (!session->options->time || is_net(problem) ||
        ecornn_desc_parse(&desc, problem, session->cell) != ECORNN_OK)
        return (struct spread){.median = 0};
    for (int k = 0; k < ROUNDS; k++) {
        const double start = now();
        const ecornn_status status = ecornn_plan_create_desc(&plan, session->device, &desc);
        seconds[k] = now() - start;
        if (status != ECORNN_OK)
            return (struct spread){.median = 0};
        ecornn_plan_free(plan);
    }
    return spread_of(seconds, ROUNDS);
}

/* ---- as JSON ---------------------------------------------------------------------------- */

static void write_sizes(struct json *json, const ecornn_sizes *sizes)
{
    json_object(json, "bytes");
    json_whole(json, "weights", (long long)sizes->weight_bytes);
    json_whole(json, "dweights", (long long)sizes->dweight_bytes);
    json_whole(json, "workspace", (long long)sizes->workspace_bytes);
    json_whole(json, "reserve", (long long)sizes->reserve_bytes);
    json_end(json);
    json_whole(json, "parameters", (long long)sizes->param_elements);
}

static void write_choices(struct json *json, const char *text)
{
    char choices[256];
    choices_of(text, choices);
    json_text(json, "choices", choices);
}

static void write_candidates(struct json *json, const struct candidates *candidates)
{
    json_number(json, "planned_seconds", candidates->tuned.planned_seconds);
    json_number(json, "best_seconds", candidates->tuned.best_seconds);
    json_number(json, "regret", candidates->tuned.regret);
    json_truth(json, "by_wisdom", candidates->tuned.by_wisdom != 0);
    json_text(json, "best", candidates->tuned.best);
    json_array(json, "candidates");
    for (int k = 0; k < candidates->n; k++) {
        const struct candidate *one = &candidates->list[k];
        json_object(json, NULL);
        json_text(json, "choices", one->choices);
        if (one->refusal[0] != '\0') {
            json_text(json, "refusal", one->refusal);
        } else {
            json_number(json, "seconds", one->seconds);
            json_number(json, "low", one->low);
            json_number(json, "high", one->high);
        }
        json_end(json);
    }
    json_end(json);
}

/* ---- as text ------------------------------------------------------------------------------ */

static void print_candidates(const struct candidates *candidates)
{
    const ecornn_tuning *tuned = &candidates->tuned;
    const char *origin = tuned->by_wisdom ? "  (by wisdom)" : "  (by the planner)";
    printf("candidates, microseconds of a run, median and quartiles, in several races:\n");
    for (int k = 0; k < candidates->n; k++) {
        const struct candidate *one = &candidates->list[k];
        if (one->refusal[0] != '\0')
            printf("  %-32s %s\n    %s\n", "refused", one->choices, one->refusal);
        else
            printf("  %10.2f [%.2f, %.2f] %s%s\n", 1e6 * one->seconds, 1e6 * one->low,
                   1e6 * one->high, one->choices,
                   strcmp(one->choices, tuned->planned) == 0 ? origin : "");
    }
    printf("regret %.1f %%: planned%s %.2f us", 100 * tuned->regret,
           tuned->by_wisdom ? " by wisdom" : "", 1e6 * tuned->planned_seconds);
    if (tuned->regret > 0 || candidates->n == 0)
        printf(", best %.2f us\n", 1e6 * tuned->best_seconds);
    else
        printf("; no other plan was clearly faster when both ran in turns\n");
}

/* ---- one problem, and all -------------------------------------------------------------------- */

static bool show(struct session *session, const char *problem)
{
    const bool measured = session->options->measure;
    struct candidates candidates = {.n = 0};
    ecornn_tuning tuned;
    ecornn_sizes sizes = {.size = sizeof sizes};
    if ((measured || !is_net(problem)) && !is_one_plan(problem))
        return false;
    char *text = plan_text(session, problem, &sizes);
    bool good = text != NULL;
    if (good && measured)
        good = tune_problem(session, problem, &tuned, &candidates);
    if (good && measured)
        regrets_add(&session->regrets, problem, &tuned);
    const struct spread time = time_of_plan(session, problem);
    if (good && session->options->json) {
        json_object(&session->json, NULL);
        json_text(&session->json, "problem", problem);
        if (!is_net(problem))
            write_choices(&session->json, text);
        write_sizes(&session->json, &sizes);
        if (time.median > 0)
            json_number(&session->json, "plan_seconds", time.median);
        if (measured)
            write_candidates(&session->json, &candidates);
        json_lines(&session->json, "print", text);
        json_end(&session->json);
    } else if (good) {
        printf("%s", text);
        if (time.median > 0)
            printf("planned in %.1f us, quartiles %.1f and %.1f\n", 1e6 * time.median,
                   1e6 * time.low, 1e6 * time.high);
        if (measured)
            print_candidates(&candidates);
        printf("\n");
    }
    candidates_free(&candidates);
    free(text);
    return good;
}

static int run(const struct options *options)
{
    return session_run(options, options->measure, show, NULL);
}

const struct command command_plan = {
    .name = "plan",
    .operands = "PROBLEM|@LIST...",
    .about = "Prints the plan of each problem; with --measure, the time of every candidate",
    .more = "PROBLEM is like lstm/train/T50/N32/I256/H256, @LIST a list in the file of shapes.\n"
            "A net is a problem, too: \"train/T400/N32/I40; lstm/H256/bi; join:2; gru/H256\".\n"
            "The regret is the time of the plan over that of the best candidate, minus 1.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS | TAKES_MEASURE |
             TAKES_TIME | TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED,
    .most = MANY_OPERANDS,
    .run = run,
};
