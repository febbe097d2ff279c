/*
 * Tunes one problem and keeps a list of the candidates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"

/* The entry of these choices, which the last measurement overwrites. */
static struct candidate *find_entry(struct candidates *list, const char *choices)
{
    for (int k = 0; k < list->n; k++)
        if (strcmp(list->list[k].choices, choices) == 0)
            return &list->list[k];
    if (list->n == list->room) {
        const int room = 2 * list->room + 32;
        void *more = realloc(list->list, (size_t)room * sizeof *list->list);
        if (more == NULL)
            return NULL; /* the table lacks a line */
        list->list = more;
        list->room = room;
    }
    return &list->list[list->n++];
}

static void keep_one(void *own, const char *choices, const char *refusal, const double seconds[4])
{
    struct candidate *entry = find_entry(own, choices);
    if (entry == NULL)
        return;
    *entry = (struct candidate){
        .seconds = seconds[0], .low = seconds[1], .high = seconds[2], .estimate = seconds[3]};
    snprintf(entry->choices, sizeof entry->choices, "%s", choices);
    if (refusal != NULL)
        snprintf(entry->refusal, sizeof entry->refusal, "%s", refusal);
}

static int compare(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    const bool refused = one->refusal[0] != '\0', too = other->refusal[0] != '\0';
    if (refused != too)
        return refused ? 1 : -1;
    return (one->seconds > other->seconds) - (one->seconds < other->seconds);
}

bool tune_problem(const struct session *session, const char *problem, ecornn_tuning *tuned,
                  struct candidates *keep)
{
    const struct options *options = session->options;
    *tuned = (ecornn_tuning){.size = sizeof *tuned,
                             .limit_seconds = options->seconds,
                             .forget = options->measure || options->regret,
                             .wisdom = options->measure,
                             .report = keep != NULL ? keep_one : NULL,
                             .own = keep};
    ecornn_desc desc = {.size = sizeof desc};
    ecornn_status status = ecornn_desc_parse(&desc, problem, session->cell);
    if (status == ECORNN_OK)
        status = ecornn_tune(session->device, &desc, tuned);
    if (status != ECORNN_OK)
        return say("%s: %s", problem, ecornn_error_detail());
    if (keep != NULL) {
        keep->tuned = *tuned;
        qsort(keep->list, (size_t)keep->n, sizeof *keep->list, compare);
    }
    return true;
}

void candidates_free(struct candidates *candidates)
{
    free(candidates->list);
    *candidates = (struct candidates){.n = 0};
}
