/*
 * See plans.h.
 */
#include "tests/kit/plans.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/choice.h"
#include "common/util.h"
#include "tests/kit/problems.h"
#include "tests/kit/testing.h"

enum { ROOM = 1 << 16, LINE = 1024 };

/* NULL: the planner refuses what is forced. */
static struct ecornn_plan *make_plan(struct ecornn_device *device, const char *name,
                                     const char *force)
{
    struct eco_problem problem;
    struct ecornn_plan *plan = NULL;
    problem_of(&problem, name);
    snprintf(problem.force.text, sizeof problem.force.text, "%s", force);
    ck_assert_msg(eco_plan_make(&plan, device, &problem) == ECORNN_OK || *force != '\0', "%s",
                  eco_fail_detail());
    return plan;
}

/* "PROBLEM CHOICES", and what the backend describes, as one line. */
static void plan_line(char line[LINE], struct ecornn_device *device, const char *name)
{
    struct eco_text text = {line, LINE, 0};
    struct ecornn_plan *plan = make_plan(device, name, "");
    eco_text_add(&text, "%s ", name);
    eco_plan_choices(plan, &text);
    eco_text_add(&text, "\n");
    if (device->backend->describe != NULL)
        device->backend->describe(plan, &text);
    for (char *end = strchr(line, '\n'); end[1] != '\0'; end = strchr(end, '\n'))
        *end = ';';
    eco_plan_free(plan);
}

void keep_plans(const char *file, struct ecornn_device *device)
{
    static char kept[ROOM], made[ROOM];
    char path[1024], line[LINE];
    int differ = 0;
    size_t length = 0;
    source_path(path, file);
    ck_assert(source_read(file, kept, sizeof kept));
    for (char *at = kept, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        char name[LINE];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
        plan_line(line, device, name);
        length += (size_t)snprintf(made + length, sizeof made - length, "%s", line);
        ck_assert_uint_lt(length, sizeof made);
        line[strlen(line) - 1] = '\0';
        if (strcmp(line, at) != 0 && ++differ > 0)
            printf("# -%s\n# +%s\n", at, line);
    }
    if (getenv("ECORNN_KEEP_PLANS") == NULL) {
        ck_assert_msg(differ == 0,
                      "%d plans differ from %s; this test with ECORNN_KEEP_PLANS=1 writes it",
                      differ, path);
        return;
    }
    FILE *to = fopen(path, "w");
    ck_assert(to != NULL && fputs(made, to) >= 0 && fclose(to) == 0);
}

void replay_plans(struct ecornn_device *device)
{
    char line[LINE], choices[LINE];
    while (fgets(line, LINE, stdin) != NULL) {
        struct eco_text text = {choices, LINE, 0};
        char *const force = line + strcspn(line, " ");
        force[strcspn(force, "\n")] = '\0';
        *force = '\0';
        struct ecornn_plan *plan = make_plan(device, line, force + 1);
        printf("replay %.9g ",
               plan == NULL ? 0 : plan->algo->estimate(&plan->problem, &device->caps));
        if (plan != NULL)
            eco_plan_choices(plan, &text);
        puts(plan != NULL ? choices : "none");
        eco_plan_free(plan);
    }
}
