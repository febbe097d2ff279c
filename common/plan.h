/*
 * The plan, and the arguments of a run.  plan/planner.c, plan/pack.c, lib/api_run.c.
 */
#ifndef ECO_PLAN_H
#define ECO_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/problem.h"
#include "common/tape.h"

struct eco_algo;
struct eco_lanes_code;

enum { ECO_MAX_REASON = 600, ECO_MAX_NOTE = 800 };

struct ecornn_plan {
    struct eco_problem problem;
    /* Of several models: of each, which does all the work, so many at once.  Else NULL. */
    struct ecornn_plan *one;
    int concurrent;
    struct ecornn_device *device;
    struct ecornn_device
        *owned_device; /* the same, where it is a part, and the plan's own; else NULL */
    const struct eco_algo *algo;
    struct eco_layout_request request;
    struct eco_work work;                  /* of layer 0 */
    struct eco_layout layout[ECO_LAYOUTS]; /* of a run of T steps and N rows */
    struct eco_tape tape[2][2];            /* of T steps: [forward, backward][whole, ragged] */
    ecornn_sizes sizes;
    void *context;               /* the backend's; what changes in it is safe from many threads */
    uint64_t mark;               /* of its runs, mark.h */
    double estimate;             /* seconds of one run of the planned size */
    double seconds;              /* and of what it saves less */
    char reason[ECO_MAX_REASON]; /* why this algorithm: what the others would have taken */
    bool by_wisdom;              /* the forced choices of its problem are wisdom's */
    char note[ECO_MAX_NOTE];     /* what wisdom says of the problem, or why it does not; or "" */
};

/* What the environment forces, else what wisdom knows, else what the planner estimates. */
ecornn_status eco_plan_create(struct ecornn_plan **plan, struct ecornn_device *device,
                              const struct eco_problem *problem);
/* A variable of the environment that takes choices from the planner; NULL: there is none. */
struct eco_backend;
const char *eco_plan_asked(const struct eco_backend *backend);
/* What the problem forces, and nothing else. */
ecornn_status eco_plan_make(struct ecornn_plan **plan, struct ecornn_device *device,
                            const struct eco_problem *problem);
void eco_plan_free(struct ecornn_plan *plan);
/* Of a run of up to the planned steps and rows. */
ecornn_sizes eco_plan_sizes(const struct ecornn_plan *plan, int32_t T, int32_t N);
/* describe.c: as snprintf. */
int eco_plan_describe(const struct ecornn_plan *plan, char *text, size_t size);
/* pack.c, host memory: parameters to packed weights, gradients to those of the parameters.  Each of
 * `count` threads does its part; code: what fills panels (plan/lanes.h). */
struct eco_slice {
    int id, count;
};
void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                   const struct eco_lanes_code *code, struct eco_slice slice);
/* To packed vectors; NULL: nothing. */
void eco_plan_pack_add(const struct ecornn_plan *plan, const void *const *params, void *weights);
void eco_plan_unpack(const struct ecornn_plan *plan, const void *dweights, void *const *params,
                     bool add, struct eco_slice slice);

/* ---- a run ---------------------------------------------------------------------------------- */

/* The caller's arguments, checked: T and N filled in, everything else as given. */
struct eco_args {
    int32_t T, N;
    const int32_t *lengths;
    const void *x;
    void *y;
    const void *initial[ECO_MAX_STATES];
    void *final[ECO_MAX_STATES];
    const uint8_t *resets; /* [T,N]; NULL: none */
    const void *reset_state[ECO_MAX_STATES];
    const uint8_t *mask;          /* [T,N]; NULL: every step counts */
    void *states[ECO_MAX_STATES]; /* [L*D,T,N,width] */
    const void *weights;
    void *workspace;
    void *reserve; /* backward: only read */
    uint64_t seed;
    uint32_t first_step, first_row; /* of a piece, for random numbers */
    void *stream;
    bool alone; /* others run beside it: it takes one thread */
    /* backward */
    bool backward;
    const void *dy;
    const void *dfinal[ECO_MAX_STATES];
    void *dx;
    void *dinitial[ECO_MAX_STATES];
    void *dreset_state[ECO_MAX_STATES];
    const void *dstates[ECO_MAX_STATES];
    void *dweights;
    bool accumulate;
};

/* empty.c: a run of no steps or no rows, of any algorithm. */
ecornn_status eco_plan_run_empty(const struct ecornn_plan *plan, const struct eco_args *args);

#endif /* ECO_PLAN_H */
