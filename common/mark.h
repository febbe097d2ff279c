/*
 * The mark at the start of a reserve identifies its forward run, so that a backward run that does
 * not belong to it is refused.  Written and read on the host, so only if the host can access the
 * reserve.  plan/mark.c, compose/run_one.c; its offset: plan/layout.c.  Attention has its own magic
 * number, and only plan, lengths and sizes.
 */
#ifndef ECO_MARK_H
#define ECO_MARK_H

#include "common/plan.h"

struct eco_mark {
    uint64_t magic;
    uint64_t plan; /* eco_mark_of_plan */
    uint64_t seed; /* 0 if nothing is drawn; the next two as well */
    uint32_t first_step, first_row;
    uint64_t lengths; /* hash of lengths, 0 without */
    uint64_t resets;  /* hash of resets, 0 without */
    uint64_t mask;    /* hash of the mask, 0 without */
    uint64_t saving;  /* the policy and its interval */
    int32_t T, N, S;  /* S: positions of attention's source; else 0 */
    uint32_t initial; /* bit s: initial state s was given */
    uint32_t starts;  /* with resets: bit s: reset_state s was given */
    uint32_t ragged;  /* no padding bytes between fields */
};

/* Bytes in the reserve: more than needed, so that the next array starts on a GPU's cache line. */
enum { ECO_MARK_BYTES = 256 };
_Static_assert(sizeof(struct eco_mark) <= ECO_MARK_BYTES, "room for a mark");

/* Equal for plans with the same problem and algorithm. */
uint64_t eco_mark_of_plan(const struct ecornn_plan *plan);
/* Writes the mark to args->reserve after a forward run. */
void eco_mark_write(const struct ecornn_plan *plan, const struct eco_args *args);
/* Checks the mark before a backward run; BAD_ARGUMENT if args->reserve belongs to another run. */
ecornn_status eco_mark_check(const struct ecornn_plan *plan, const struct eco_args *args);

/* The hash of lengths. */
uint64_t eco_mark_lengths(const int32_t *lengths, int32_t N);
/* Checks that `then`, in the reserve at this address, is the mark `now`; plan: its problem's text.
 */
ecornn_status eco_mark_compare(const struct eco_mark *then, const struct eco_mark *now,
                               const char *plan);

#endif /* ECO_MARK_H */
