/*
 * The mark (mark.h) of an attention run in its reserve.  Not used if the reserve is in a GPU's own
 * memory.
 */
#include "common/attention/attention.h"

#include <string.h>

#include "common/mark.h"

_Static_assert(sizeof(struct eco_mark) <= ECO_ATTENTION_MARK, "room for a mark");

static struct eco_mark mark_of(const struct eco_attention_plan *plan,
                               const struct eco_attention_args *args)
{
    return (struct eco_mark){.magic = UINT64_C(0x6C1E0B7A93D452F8), /* unlikely by chance */
                             .plan =
                                 eco_hash(ECO_HASH, plan->problem.text, strlen(plan->problem.text)),
                             .lengths = eco_mark_lengths(args->lengths, args->N),
                             .T = args->T,
                             .S = args->S,
                             .N = args->N,
                             .ragged = args->lengths != NULL};
}

void eco_attention_mark_write(const struct eco_attention_plan *plan,
                              const struct eco_attention_args *args)
{
    *(struct eco_mark *)args->reserve = mark_of(plan, args);
}

ecornn_status eco_attention_mark_check(const struct eco_attention_plan *plan,
                                       const struct eco_attention_args *args)
{
    const struct eco_mark now = mark_of(plan, args);
    return eco_mark_compare(args->reserve, &now, plan->problem.text);
}
