/*
 * Nets: a text of layers, a plan for each layer, and runs that go from layer to layer.
 * lib/api_net.c checks arguments, lib/net_plan.c makes the plans, lib/net_blocks.c places their
 * blocks, lib/net_run.c runs.
 */
#ifndef ECO_LIB_NET_H
#define ECO_LIB_NET_H

#include "ecornn.h"

#include "common/backend.h"
#include "common/net_text.h"

/* ---- plan ------------------------------------------------------------------------------------ */

struct eco_net_layer {
    ecornn_plan *plan;
    int32_t width;  /* of y */
    int32_t column; /* first column of its y in the output of its piece */
    int first_param;
    size_t params;            /* elements before its parameters in the block */
    size_t weights, dweights; /* bytes before its own in the net's blocks, as for the reserve: */
    size_t reserve;
    size_t workspace; /* bytes before its own in the net's workspace */
    size_t
        y; /* its y in the reserve, if other layers are side by side with it; in the workspace: */
    size_t half, dx; /* y or dy; and dx, for all such layers but the first */
};

struct eco_net_piece {
    int32_t join; /* 1: layers */
    int first, layers;
    bool at_once;   /* layers run concurrently, each in a partition of the device */
    int32_t before; /* steps of x that one of its input steps stands for */
    int32_t input, output;
    size_t value; /* bytes before its output in the reserve; unused for the last piece, whose output
                     is y */
};

/* Bytes of the workspace before each array; the workspace of the layers comes first. */
struct eco_net_workspace {
    size_t lengths; /* [N] after each join */
    size_t slot[2]; /* outputs of pieces in turn, or their gradients */
    size_t half;    /* the same for layers that are side by side */
    size_t dx;      /* and their dx */
};

struct ecornn_net_plan {
    ecornn_device *device;
    int pieces, layers;
    struct eco_net_piece piece[ECO_NET_PIECES];
    struct eco_net_layer layer[ECO_NET_LAYERS];
    struct eco_net_workspace workspace;
    ecornn_net_sizes sizes;
    char text[ECO_NET_TEXT]; /* as the user wrote it */
};

/* net_plan.c: adds to the error detail that it is about this layer. */
ecornn_status eco_net_fail(ecornn_status status, int layer);
/* The problem whose type, order, batch and flags all layers share. */
static inline const struct eco_problem *eco_net_problem(const struct ecornn_net_plan *plan)
{
    return &plan->layer[0].plan->problem;
}

/* net_blocks.c: places all blocks of a plan whose layers have plans. */
ecornn_status eco_net_place(struct ecornn_net_plan *plan);
/* net_plan.c: fills in a plan that is zero except for its device. */
ecornn_status eco_net_create(struct ecornn_net_plan *plan, const char *text,
                             const ecornn_cell *const *cells);

/* ---- run ------------------------------------------------------------------------------------- */

/* A run. Its own arguments have been checked, those of its layers have not. */
struct eco_net_run {
    const struct ecornn_net_plan *plan;
    const ecornn_io *io;
    const ecornn_gradient *gradient; /* NULL: forward */
    const ecornn_net_states *states; /* of each layer, or NULL */
    int32_t T, N;
    int32_t steps[ECO_NET_PIECES + 1]; /* steps of each piece's input, then of y */
    const int32_t *lengths[ECO_NET_PIECES + 1];
    char *value[ECO_NET_PIECES + 1];  /* each piece's input, beginning with x, then y */
    char *dvalue[ECO_NET_PIECES + 1]; /* their gradients; NULL: zeros, or not needed */
};

/* net_run.c: runs. The caller has set all members down to N. */
ecornn_status eco_net_compute(struct eco_net_run *run);

#endif /* ECO_LIB_NET_H */
