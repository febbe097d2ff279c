/*
 * The mark of a run in its reserve; see mark.h.  Of the arrays it reads only lengths, resets and
 * mask.
 */
#include "common/mark.h"

#include <string.h>

#include "common/backend.h"

#define MAGIC UINT64_C(0x9F8B4EC0A21D736B) /* unlikely to be in memory by chance */

uint64_t eco_mark_of_plan(const struct ecornn_plan *plan)
{
    const uint64_t problem = eco_hash(ECO_HASH, plan->problem.text, strlen(plan->problem.text));
    const uint64_t algo = eco_hash(problem, plan->algo->name, strlen(plan->algo->name));
    return eco_hash(algo, &plan->sizes.reserve_bytes, sizeof plan->sizes.reserve_bytes);
}

/* One multiplication per row, which is negligible in a short run. */
uint64_t eco_mark_lengths(const int32_t *lengths, int32_t N)
{
    uint64_t sum = 0;
    for (int32_t n = 0; lengths != NULL && n < N; n++)
        sum = sum * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)lengths[n] + 1;
    return sum;
}

/* Takes eight bytes of a row's steps at a time. */
static uint64_t sum_bytes(const uint8_t *from, size_t bytes)
{
    uint64_t sum = 1;
    for (size_t i = 0; from != NULL && i < bytes; i += sizeof(uint64_t)) {
        uint64_t some = 0;
        memcpy(&some, from + i, bytes - i < sizeof some ? bytes - i : sizeof some);
        sum = sum * UINT64_C(0x9E3779B97F4A7C15) + some;
    }
    return from == NULL ? 0 : sum;
}

static struct eco_mark mark_of(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_saving *saving = &plan->problem.saving;
    const size_t rows = (size_t)args->T * (size_t)args->N;
    const bool draws = eco_problem_draws(&plan->problem);
    const enum eco_save policy = /* plans with another save_type differ in their problem's text */
        saving->policy == ECO_SAVE_NARROW ? ECO_SAVE_ALL : saving->policy;
    struct eco_mark mark = {.magic = MAGIC,
                            .plan = plan->mark,
                            .saving = (uint64_t)policy << 32 | (uint32_t)saving->every,
                            .seed = draws ? args->seed : 0,
                            .first_step = draws ? args->first_step : 0,
                            .first_row = draws ? args->first_row : 0,
                            .lengths = eco_mark_lengths(args->lengths, args->N),
                            .resets = sum_bytes(args->resets, rows),
                            .mask = sum_bytes(args->mask, rows),
                            .T = args->T,
                            .N = args->N,
                            .ragged = args->lengths != NULL};
    for (int s = 0; s < ECO_MAX_STATES; s++)
        mark.initial |= (uint32_t)(args->initial[s] != NULL) << s;
    for (int s = 0; args->resets != NULL && s < ECO_MAX_STATES; s++)
        mark.starts |= (uint32_t)(args->reset_state[s] != NULL) << s;
    return mark;
}

void eco_mark_write(const struct ecornn_plan *plan, const struct eco_args *args)
{
    *(struct eco_mark *)args->reserve = mark_of(plan, args);
}

static ecornn_status fail_states(const char *name, uint32_t forward, uint32_t backward)
{
    int s = 0;
    while (((forward ^ backward) >> s & 1) == 0)
        s++;
    const bool given = (backward >> s & 1) != 0;
    return eco_fail(ECORNN_BAD_ARGUMENT,
                    "io.%s[%d] is %s, but the forward run of io.reserve had %s", name, s,
                    given ? "given" : "NULL", given ? "none" : "one");
}

static ecornn_status fail_bytes(const char *name, uint64_t forward, uint64_t backward)
{
    return eco_fail(ECORNN_BAD_ARGUMENT, "io.%s %s than in the forward run of io.reserve", name,
                    forward && backward ? "has other values" : "is given differently");
}

/* "all", "states", "every:16", from the mark as it was stored. */
static const char *name_saving(uint64_t saving, char text[32])
{
    struct eco_text to = {text, 32, 0};
    if (saving >> 32 > ECO_SAVE_EVERY)
        eco_text_add(&to, "?");
    else
        eco_saving_name(&to, (enum eco_save)(saving >> 32), (int32_t)(uint32_t)saving);
    return text;
}

static ecornn_status fail_saving(uint64_t forward, uint64_t backward)
{
    char then[32], now[32];
    return eco_fail(ECORNN_BAD_ARGUMENT,
                    "io.reserve belongs to a forward run with save:%s, but this plan has save:%s",
                    name_saving(forward, then), name_saving(backward, now));
}

ecornn_status eco_mark_compare(const struct eco_mark *then, const struct eco_mark *now,
                               const char *plan)
{
    if (then->magic != now->magic)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve is %p, which no forward run with a reserve has written",
                        (const void *)then);
    if (then->saving != now->saving)
        return fail_saving(then->saving, now->saving);
    if (then->plan != now->plan)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve belongs to a forward run of another plan, not of %s", plan);
    if (then->S != now->S || (now->S > 0 && (then->T != now->T || then->N != now->N)))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "steps, source and batch are %d, %d and %d, but %d, %d and %d in "
                        "the forward run of io.reserve",
                        now->T, now->S, now->N, then->T, then->S, then->N);
    if (then->T != now->T || then->N != now->N)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "steps and batch are %d and %d, but %d and %d in the forward run of "
                        "io.reserve",
                        now->T, now->N, then->T, then->N);
    if (then->ragged != now->ragged)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.lengths is %s, but the forward run of io.reserve had %s",
                        now->ragged ? "given" : "NULL", now->ragged ? "none" : "some");
    if (then->lengths != now->lengths)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.lengths has other values than in the forward run of io.reserve");
    if (then->initial != now->initial)
        return fail_states("initial", then->initial, now->initial);
    if (then->resets != now->resets)
        return fail_bytes("resets", then->resets, now->resets);
    if (then->mask != now->mask)
        return fail_bytes("mask", then->mask, now->mask);
    if (then->starts != now->starts)
        return fail_states("reset_state", then->starts, now->starts);
    if (then->seed != now->seed)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.seed is %llu, but %llu in the forward run of io.reserve",
                        (unsigned long long)now->seed, (unsigned long long)then->seed);
    if (then->first_step != now->first_step || then->first_row != now->first_row)
        return eco_fail(
            ECORNN_BAD_ARGUMENT,
            "io.first_step and io.first_row are %u and %u, but %u and %u in the forward "
            "run of io.reserve",
            now->first_step, now->first_row, then->first_step, then->first_row);
    return ECORNN_OK;
}

ecornn_status eco_mark_check(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_mark now = mark_of(plan, args);
    return eco_mark_compare(args->reserve, &now, plan->problem.text);
}
