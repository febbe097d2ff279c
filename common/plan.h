/*
 * The plan, and the arguments of a run.  plan/planner.c, plan/pack.c, compose/run_one.c.
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

/* ---- a run ---------------------------------------------------------------------------------- */

/* The caller's arguments after checking, with T and N filled in; its arrays are the rows of
 * run_array_rows.inc, such as `const void *x` and `void *final[ECO_MAX_STATES]`. */
#define ECO_OF_NUMBER void
#define ECO_OF_STATE  void
#define ECO_OF_BLOCK  void
#define ECO_OF_MARK   uint8_t
#define ECO_OF_LENGTH int32_t
#define ECO_OF_INDEX  int32_t
struct eco_args {
    int32_t T, N;
#define IN const
#define OUT
#define ONE(field)  field
#define EACH(field) field[ECO_MAX_STATES]
#define ARRAY(structure, field, number, writes, element, ...)                                      \
    writes ECO_OF_##element *number(field);
#include "common/run_array_rows.inc"
    /* [parts of x]: arrays of their own, and their rows; NULL: in x, or dense */
    const void *const *inputs;
    const size_t *input_rows;
    void *const *dinputs;
    const size_t *dinput_rows;
    int32_t streams; /* with rows: rows of initial and final */
    /* Forward, for a backend that packs in runs: the parameters that it first packs into weights,
     * or NULL. added: what pack adds to vectors, or NULL. */
    const void *const *params, *const *added;
    /* [L*D][ECO_WEIGHT_IDS]: matrices that are not in `weights`; NULL, all or one: in `weights` */
    const void *const *matrices;
    size_t workspace_bytes, reserve_bytes; /* as the caller states them; 0: not stated */
    uint64_t seed;
    uint32_t first_step, first_row; /* position in a larger run, for random numbers */
    void *stream;
    bool alone; /* other runs are concurrent: this one uses one thread */
    bool backward, accumulate;
};
/* Does the caller give gradients of the states of every step? */
static inline bool eco_args_have_dstates(const struct eco_args *args)
{
    bool any = false;
    for (int s = 0; s < ECO_MAX_STATES; s++)
        any = any || args->dstates[s] != NULL;
    return any;
}

/* Does every row go through all steps, and its states from each step to the next? */
static inline bool eco_args_whole(const struct eco_args *args)
{
    return args->lengths == NULL && args->resets == NULL;
}

#endif /* ECO_PLAN_H */
