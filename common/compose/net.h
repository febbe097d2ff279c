/*
 * Nets: a text of layers, a plan for each layer, and programs that go from layer to layer.
 * lib/net_plan.c makes the plans, net_blocks.c places their blocks, net_run.c runs.
 */
#ifndef ECO_NET_H
#define ECO_NET_H

#include "common/backend.h"
#include "common/net_text.h"
#include "common/run_arrays.h"

/* ---- plan ------------------------------------------------------------------------------------ */

/* A layer, and the bytes before its arrays in the blocks of the net. */
struct eco_net_layer {
    struct ecornn_plan *plan;
    int32_t width;  /* of y */
    int32_t column; /* first column of its y in the output of its piece */
    size_t weights, dweights, reserve, workspace;
    /* If other layers are side by side with it: its y in the reserve, or in the workspace, where dy
     * has the same place; and dx, for all such layers but the first. */
    size_t y, half, dx;
};

/* A piece: a join, dropout, or parallel layers. */
struct eco_net_piece {
    int32_t join;   /* 1: it does not join steps */
    double dropout; /* probability; 0: none */
    int first, layers;
    bool at_once;   /* layers run concurrently, each in a partition of the device */
    int32_t before; /* steps of x that one of its input steps stands for */
    int32_t copies; /* of its input: one for each model, or 1 if the models share it */
    int32_t input, output;
    /* Bytes before its output, [copies,T,N,output], in the reserve; and in the workspace, where the
     * gradient of the output has the same place.  Unused for the last piece, whose output is y. */
    size_t value, slot;
    /* Has its output arrays of lengths and marks (run_arrays.h) of its own, one for each copy?
     * Bytes before these in the workspace. */
    bool counts;
    size_t joined[ECO_IO_ARRAYS];
};

struct eco_net_plan {
    struct ecornn_device *device;
    int pieces, layers;
    struct eco_net_piece piece[ECO_NET_PIECES];
    struct eco_net_layer layer[ECO_NET_LAYERS];
    ecornn_sizes sizes;
    char text[ECO_NET_TEXT]; /* as the user wrote it */
};

/* The problem whose type, order, batch and flags all layers share. */
static inline const struct eco_problem *eco_net_problem(const struct eco_net_plan *plan)
{
    return &plan->layer[0].plan->problem;
}

/* Copies of the input of piece p; p = pieces: of y. */
static inline int32_t eco_net_copies(const struct eco_net_plan *plan, int p)
{
    return p < plan->pieces ? plan->piece[p].copies : eco_net_problem(plan)->models;
}

/* lib/net_plan.c: fills in a plan that is zero except for its device. */
ecornn_status eco_net_create(struct eco_net_plan *plan, const char *text,
                             const ecornn_cell *const *cells);
/* net_run.c: adds to the error detail that it is about this layer. */
ecornn_status eco_net_fail(ecornn_status status, int layer);
/* net_blocks.c: places all blocks of a plan whose layers have plans. */
ecornn_status eco_net_place(struct eco_net_plan *plan);

/* ---- run: net_run.c -------------------------------------------------------------------------- */

struct eco_net_run {
    const struct eco_net_plan *plan;
    struct eco_args args;              /* of the net, checked */
    const struct eco_args *states;     /* of each layer, only its arrays of states; or NULL */
    int32_t steps[ECO_NET_PIECES + 1]; /* steps of each piece's input, then of y */
    const void *joined[ECO_NET_PIECES + 1][ECO_IO_ARRAYS]; /* lengths and marks of these */
    void *value[ECO_NET_PIECES + 1];  /* each piece's input, beginning with x, then y */
    void *dvalue[ECO_NET_PIECES + 1]; /* their gradients; NULL: zeros, or not needed */
};

/* Finds the arrays of every piece.  The caller has set all members down to `states`. */
void eco_net_begin(struct eco_net_run *run);
/* The arguments of layer k, which the caller checks before it computes. */
struct eco_args eco_net_layer_args(const struct eco_net_run *run, int k);
ecornn_status eco_net_compute(struct eco_net_run *run);

#endif /* ECO_NET_H */
