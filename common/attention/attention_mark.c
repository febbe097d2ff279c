/*
 * The mark of an attention run in its reserve identifies the forward run, so that a backward run
 * that does not belong to it is refused.  Not used if the reserve is in a GPU's own memory.
 */
#include "common/attention/attention.h"

#include <string.h>

#define MAGIC UINT64_C(0x6C1E0B7A93D452F8) /* unlikely to be in memory by chance */

struct mark {
    uint64_t magic, plan;
    uint64_t lengths; /* hash of lengths; 0: there are none */
    int32_t T, S, N;
    uint32_t ragged;
};
_Static_assert(sizeof(struct mark) <= ECO_ATTENTION_MARK, "room for a mark");

uint64_t eco_attention_mark_of_plan(const struct eco_attention_plan *plan)
{
    return eco_hash(ECO_HASH, plan->problem.text, strlen(plan->problem.text));
}

static struct mark mark_of(const struct eco_attention_plan *plan,
                           const struct eco_attention_args *args)
{
    struct mark mark = {.magic = MAGIC,
                        .plan = plan->mark,
                        .T = args->T,
                        .S = args->S,
                        .N = args->N,
                        .ragged = args->lengths != NULL};
    for (int32_t n = 0; args->lengths != NULL && n < args->N; n++)
        mark.lengths = mark.lengths * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)args->lengths[n] + 1;
    return mark;
}

void eco_attention_mark_write(const struct eco_attention_plan *plan,
                              const struct eco_attention_args *args)
{
    *(struct mark *)args->reserve = mark_of(plan, args);
}

ecornn_status eco_attention_mark_check(const struct eco_attention_plan *plan,
                                       const struct eco_attention_args *args)
{
    const struct mark now = mark_of(plan, args);
    const struct mark *const then = args->reserve;
    if (then->magic != now.magic)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve is %p, which no forward run with a reserve has written",
                        args->reserve);
    if (then->plan != now.plan)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve belongs to a forward run of another plan, not of %s",
                        plan->problem.text);
    if (then->T != now.T || then->S != now.S || then->N != now.N)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "steps, source and batch are %d, %d and %d, but %d, %d and %d in "
                        "the forward run of io.reserve",
                        now.T, now.S, now.N, then->T, then->S, then->N);
    if (then->ragged != now.ragged)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.lengths is %s, but the forward run of io.reserve had %s",
                        now.ragged ? "given" : "NULL", now.ragged ? "none" : "some");
    if (then->lengths != now.lengths)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.lengths has other values than in the forward run of io.reserve");
    return ECORNN_OK;
}
