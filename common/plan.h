/*
 * The plan.  plan/planner.c, plan/pack.c, compose/run_one.c.
 *
 * A plan is made once: eco_plan_create lets every algorithm of the device refuse or estimate the
 * problem, takes the fastest, and stores its layout request, the layouts and tapes for the planned
 * T and N, and the sizes.  After that only the backend's context changes.  A run takes the tape and
 * layout of the plan, or, if it is smaller, resized copies on the stack.
 */
#ifndef ECO_PLAN_H
#define ECO_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/args.h"
#include "common/layout.h"
#include "common/problem.h"
#include "common/tape.h"

struct eco_algo;
struct eco_lanes_code;

enum { ECO_MAX_REASON = 600, ECO_MAX_NOTE = 800 };

/* What a plan is: layers of one problem, or plans that run as one.  Freed memory rarely has one of
 * these values. */
enum eco_plan_kind {
    ECO_PLAN_LAYERS = 0x65636f31,
    ECO_PLAN_NET,
    ECO_PLAN_TANGENT,
    ECO_PLAN_ATTENTION
};

struct ecornn_plan {
    enum eco_plan_kind kind;
    union {                       /* what it consists of; only device and sizes are set besides */
        struct eco_net_plan *net; /* of layers: the net that they belong to, or NULL */
        struct eco_tangent_plan *tangent;
        struct eco_attention_plan *attention;
        void *parts; /* any of them */
    };
    struct eco_problem problem;
    /* For several models, the plan of one of them; `concurrent` models run at a time. Else NULL. */
    struct ecornn_plan *one;
    int concurrent;
    struct ecornn_device *device;
    struct ecornn_device *owned_device; /* device, if it is a partition of this plan's; or NULL */
    const struct eco_algo *algo;
    struct eco_layout_request request;
    struct eco_work work;                  /* of layer 0 */
    struct eco_layout layout[ECO_LAYOUTS]; /* for a run of T steps and N rows */
    struct eco_tape tape[2][2];            /* for T steps: [forward, backward][whole, ragged] */
    ecornn_sizes sizes;
    void *context;               /* the backend's data; changes to it are safe from many threads */
    uint64_t mark;               /* fingerprint of its runs, mark.h */
    double estimate;             /* seconds of one run of the planned size */
    double seconds;              /* the same including what saving less costs */
    char reason[ECO_MAX_REASON]; /* why this algorithm was chosen: the estimates of the others */
    bool by_wisdom;              /* the forced choices come from wisdom */
    char note[ECO_MAX_NOTE];     /* what wisdom has for the problem, or why it has nothing; or "" */
};

/* Makes a plan by choices of the environment, else of wisdom, else by estimates. */
ecornn_status eco_plan_create(struct ecornn_plan **plan, struct ecornn_device *device,
                              const struct eco_problem *problem);
/* An environment variable that is set and overrides the planner's choices, or NULL. */
struct eco_backend;
const char *eco_plan_asked(const struct eco_backend *backend);
/* Forces the choices of such variables in the problem. */
ecornn_status eco_plan_force(struct eco_problem *problem, const struct eco_backend *backend);
/* Makes a plan by the choices forced in the problem, and nothing else. */
ecornn_status eco_plan_make(struct ecornn_plan **plan, struct ecornn_device *device,
                            const struct eco_problem *problem);
void eco_plan_free(struct ecornn_plan *plan);
/* Estimated seconds of a run by the choices forced in the problem; infinite if none is possible. */
double eco_plan_estimate(struct ecornn_device *device, const struct eco_problem *problem);
/* Sizes for a run of up to the planned steps and rows. */
ecornn_sizes eco_plan_sizes(const struct ecornn_plan *plan, int32_t T, int32_t N);
/* describe.c: prints the plan as snprintf does. */
int eco_plan_describe(const struct ecornn_plan *plan, char *text, size_t size);
/* pack.c, host memory: packs parameters, and unpacks gradients.  Thread id of `count` does its
 * slice. code fills panels (plan/lanes.h). */
struct eco_slice {
    int id, count;
};
void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                   const struct eco_lanes_code *code, struct eco_slice slice);
/* Adds to packed vectors; NULL: adds nothing. */
void eco_plan_pack_add(const struct ecornn_plan *plan, const void *const *params, void *weights);
void eco_plan_unpack(const struct ecornn_plan *plan, const void *dweights, void *const *params,
                     bool add, struct eco_slice slice);
/* Sets where dweights have its gradient, if they have it as eco_plan_unpack writes it; else leaves
 * param as it is. */
void eco_plan_find_gradient(const struct ecornn_plan *plan, int index, ecornn_param *param);

#endif /* ECO_PLAN_H */
