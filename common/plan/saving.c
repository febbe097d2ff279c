/*
 * How much memory training uses: checks these fields of a description, makes them canonical, and
 * writes and parses their parts of a problem string.  Knows no layout.
 */
#include "common/problem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "common/util.h"

static const char *const policy_name[] = {"all", "states", "every", "all"};

void eco_saving_name(struct eco_text *text, enum eco_save policy, int32_t every)
{
    eco_text_add(text, "%s", policy_name[policy]);
    if (policy == ECO_SAVE_EVERY)
        eco_text_add(text, ":%d", every);
}

static enum eco_save policy_of(const ecornn_desc *desc)
{
    return desc->save_every != 0                                               ? ECO_SAVE_EVERY
           : (desc->flags & ECORNN_SAVE_STATES) != 0                           ? ECO_SAVE_STATES
           : desc->save_type == 0 || desc->save_type == eco_problem_type(desc) ? ECO_SAVE_ALL
                                                                               : ECO_SAVE_NARROW;
}

static ecornn_status check_every(const ecornn_desc *desc)
{
    const uint32_t others = desc->flags & (ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
    if (desc->save_every != 0 && others != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "save_every is %d, must be 0 with ECORNN_SAVE_%s",
                        desc->save_every, others == ECORNN_SAVE_ALL ? "ALL" : "STATES");
    if (desc->save_every < 0 || desc->save_every > desc->steps)
        return eco_fail(ECORNN_BAD_ARGUMENT, "save_every is %d, must be 0 to %d, the steps",
                        desc->save_every, desc->steps);
    return ECORNN_OK;
}

/* Called after the extents are checked. */
ecornn_status eco_saving_check(const ecornn_desc *desc)
{
    const ecornn_type type = eco_problem_type(desc), save = desc->save_type;
    const enum eco_save policy = policy_of(desc);
    const bool all = (desc->flags & ECORNN_SAVE_ALL) != 0;
    const bool narrow = policy == ECO_SAVE_NARROW, training = (desc->flags & ECORNN_TRAINING) != 0;
    if (((policy != ECO_SAVE_ALL && !narrow) || all) && !training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "saving %s requires ECORNN_TRAINING",
                        all                         ? "all"
                        : policy == ECO_SAVE_STATES ? "states"
                                                    : "every K-th step");
    if (save != 0 && save != type && !(type == ECORNN_F32 && eco_type_narrow(save)))
        return eco_fail(
            ECORNN_BAD_ARGUMENT, "save_type is %s, must be %s with type %s", eco_type_name(save),
            type == ECORNN_F32 ? "f32, bf16 or f16" : eco_type_name(type), eco_type_name(type));
    if (narrow && !training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "save_type is %s, must be 0 without ECORNN_TRAINING",
                        eco_type_name(save));
    return check_every(desc);
}

int32_t eco_saving_chunk(const struct eco_problem *problem, int32_t steps)
{
    const int32_t every = problem->saving.every;
    if (problem->saving.policy != ECO_SAVE_EVERY)
        return steps;
    const int32_t most = steps < problem->T ? steps : problem->T + every - 1; /* a whole run */
    return most < every ? every : most / every * every;
}

struct eco_saving eco_saving_of(const ecornn_desc *desc)
{
    const enum eco_save policy = policy_of(desc);
    return (struct eco_saving){
        .policy = policy,
        .fixed = (desc->flags & ECORNN_SAVE_ALL) != 0 && desc->memory_limit > 0,
        .every = policy == ECO_SAVE_STATES || policy == ECO_SAVE_NARROW ? 1 : desc->save_every,
        .type = desc->save_type != 0 ? desc->save_type : eco_problem_type(desc),
    };
}

/* ---- problem strings ------------------------------------------------------------------------- */

static const struct unit {
    char letter;
    int shift;
} unit[] = {{'G', 30}, {'M', 20}, {'K', 10}};
enum { UNITS = sizeof unit / sizeof *unit };

void eco_saving_print(struct eco_text *text, const void *of)
{
    const struct eco_problem *problem = of;
    const struct eco_saving *saving = &problem->saving;
    if ((saving->policy != ECO_SAVE_ALL && saving->policy != ECO_SAVE_NARROW) || saving->fixed) {
        eco_text_add(text, "/save:");
        eco_saving_name(text, saving->policy, saving->every);
    }
    if (saving->type != problem->type)
        eco_text_add(text, "/%s-save", eco_type_name(saving->type));
    if (problem->memory_limit == 0)
        return;
    int k = 0;
    while (k < UNITS && problem->memory_limit % (UINT64_C(1) << unit[k].shift) != 0)
        k++;
    if (k < UNITS)
        eco_text_add(text, "/memory:%" PRIu64 "%c", problem->memory_limit >> unit[k].shift,
                     unit[k].letter);
    else
        eco_text_add(text, "/memory:%" PRIu64, problem->memory_limit);
}

ecornn_status eco_saving_parse_memory(struct eco_reading *reading, const char *part,
                                      const char *value)
{
    char *rest;
    errno = 0;
    uint64_t number = strtoull(value, &rest, 10);
    bool good = value[0] >= '0' && value[0] <= '9' && errno == 0 && number > 0;
    for (int k = 0; k < UNITS; k++)
        if (rest[0] == unit[k].letter && number <= UINT64_MAX >> unit[k].shift) {
            number <<= unit[k].shift;
            rest++;
            break;
        }
    good = good && rest[0] == '\0';
    if (good)
        ((ecornn_desc *)reading->desc)->memory_limit = number;
    return good ? ECORNN_OK : eco_reading_fail(reading, part);
}
