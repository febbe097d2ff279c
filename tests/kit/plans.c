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
#include "tests/kit/testing.h"

enum { ROOM = 1 << 16, LINE = 1024 };

/* "PROBLEM CHOICES", and what the backend describes, as one line. */
static void plan_line(char line[LINE], struct ecornn_device *device, const char *name)
{
    struct eco_text text = {line, LINE, 0};
    struct eco_problem problem;
    struct ecornn_plan *plan;
    ecornn_desc desc;
    ck_assert_msg(eco_problem_parse(&desc, name, NULL) == ECORNN_OK &&
                      eco_problem_build(&problem, &desc) == ECORNN_OK,
                  "%s", eco_fail_detail());
    ck_assert_msg(eco_plan_make(&plan, device, &problem) == ECORNN_OK, "%s", eco_fail_detail());
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
