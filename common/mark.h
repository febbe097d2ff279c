/*
 * The mark at the start of a reserve: of which forward run it is, so that a backward run that does
 * not belong to it is refused.  Written and read on the host, so not where the reserve is in a
 * GPU's own memory.  plan/mark.c, lib/api_run.c; its place: plan/layout.c.
 */
#ifndef ECO_MARK_H
#define ECO_MARK_H

#include "common/plan.h"

struct eco_mark {
    uint64_t magic;
    uint64_t plan; /* its mark, eco_mark_of_plan */
    uint64_t seed; /* 0 where nothing is drawn; so are the next two */
    uint32_t first_step, first_row;
    uint64_t lengths; /* a sum of them, 0 without */
    uint64_t resets;  /* a sum of them, 0 without */
    uint64_t mask;    /* the same */
    uint64_t saving;  /* the policy, and how often */
    int32_t T, N;
    uint32_t initial;      /* bit s: of state s there was one */
    uint32_t starts;       /* with resets: the same of reset_state */
    uint32_t ragged, zero; /* no bytes between fields */
};

/* In the reserve.  More than it takes, so that what follows begins where a GPU's line of cache
 * does.
 */
enum { ECO_MARK_BYTES = 256 };
_Static_assert(sizeof(struct eco_mark) <= ECO_MARK_BYTES, "room for a mark");

/* Equal for plans of the same problem and algorithm. */
uint64_t eco_mark_of_plan(const struct ecornn_plan *plan);
/* Into args->reserve, after a forward run. */
void eco_mark_write(const struct ecornn_plan *plan, const struct eco_args *args);
/* Before a backward run.  Fails with BAD_ARGUMENT where args->reserve is of another run. */
ecornn_status eco_mark_check(const struct ecornn_plan *plan, const struct eco_args *args);

#endif /* ECO_MARK_H */
