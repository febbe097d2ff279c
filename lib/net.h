/*
 * Nets: a text of layers, a plan of each, and runs that go from one to the next.  lib/api_net.c
 * checks arguments, lib/net_plan.c makes the plans, lib/net_blocks.c places their blocks,
 * lib/net_run.c runs.
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
    int32_t column; /* where its y begins in that of its piece */
    int first_param;
    size_t params;            /* elements of the block ahead of its parameters */
    size_t weights, dweights; /* bytes ahead of its own, as those of the reserve: */
    size_t reserve;
    size_t workspace; /* of the net's */
    size_t y;         /* its own where it stands beside others, in the reserve; in the workspace: */
    size_t half, dx;  /* y or dy; dx, of all but the first */
};

struct eco_net_piece {
    int32_t join; /* 1: layers */
    int first, layers;
    bool at_once;   /* each in a part of the device */
    int32_t before; /* steps of x in a step that it reads */
    int32_t input, output;
    size_t value; /* bytes of the reserve ahead of its output; not of the last, which gives y */
};

/* Bytes of the workspace ahead of each, after that of the layers. */
struct eco_net_workspace {
    size_t lengths; /* [N] behind each join */
    size_t slot[2]; /* outputs of pieces in turn, or their gradients */
    size_t half;    /* those of layers that stand beside others, */
    size_t dx;      /* and their dx */
};

struct ecornn_net_plan {
    ecornn_device *device;
    int pieces, layers;
    struct eco_net_piece piece[ECO_NET_PIECES];
    struct eco_net_layer layer[ECO_NET_LAYERS];
    struct eco_net_workspace workspace;
    ecornn_net_sizes sizes;
    char text[ECO_NET_TEXT]; /* as it was given */
};

/* net_plan.c: what the detail says now is of layer number k. */
ecornn_status eco_net_fail(ecornn_status status, int layer);
/* What all layers have in common: type, order, batch, flags. */
static inline const struct eco_problem *eco_net_problem(const struct ecornn_net_plan *plan)
{
    return &plan->layer[0].plan->problem;
}

/* net_blocks.c: all of a plan whose layers have theirs. */
ecornn_status eco_net_place(struct ecornn_net_plan *plan);
/* net_plan.c: in a plan that is zeros but for its device. */
ecornn_status eco_net_create(struct ecornn_net_plan *plan, const char *text,
                             const ecornn_cell *const *cells);

/* ---- run ------------------------------------------------------------------------------------- */

/* A run; its own arguments are checked, those of layers are not. */
struct eco_net_run {
    const struct ecornn_net_plan *plan;
    const ecornn_io *io;
    const ecornn_gradient *gradient; /* NULL: forward */
    const ecornn_net_states *states; /* of each layer, or NULL */
    int32_t T, N;
    int32_t steps[ECO_NET_PIECES + 1]; /* of what a piece reads, then of y */
    const int32_t *lengths[ECO_NET_PIECES + 1];
    char *value[ECO_NET_PIECES + 1];  /* what a piece reads, then y: x first */
    char *dvalue[ECO_NET_PIECES + 1]; /* and its gradient; NULL: zeros, or unwanted */
};

/* net_run.c: with everything in it down to N. */
ecornn_status eco_net_compute(struct eco_net_run *run);

#endif /* ECO_LIB_NET_H */
