/*
 * Plans of tangents, and their runs.  lib/tangent.c makes plans and checks arguments,
 * tangent_run.c runs layer after layer, tangent_weights.c moves parameters.
 */
#ifndef ECO_TANGENT_PLAN_H
#define ECO_TANGENT_PLAN_H

#include "common/cell/tangent.h"
#include "common/compose/sequence.h"

/* A plan of one layer. */
struct eco_tangent_part {
    struct ecornn_plan *plan;
    ecornn_sizes sizes;
};

/* The plans for layers of one input width. */
struct eco_tangent_layer {
    int32_t input;                /* I of the cell */
    struct eco_tangent_part cell; /* the cell, */
    struct eco_tangent_part both; /* and its tangent, whose input is twice as wide */
};

struct eco_tangent_plan {
    struct ecornn_device *device;
    struct eco_problem problem; /* of all layers, without their tangents */
    struct eco_tangent *tangent;
    int states, params;                /* of the cell */
    struct eco_tangent_layer layer[2]; /* for the first layer, and for all others */
    ecornn_sizes sizes;
};

/* The arrays in the workspace of a run. */
struct eco_tangent_areas {
    /* of all layers */
    char *workspace, *dweights; /* of the layers' plans */
    char *zeros;                /* [H,H] */
    char *matrices;        /* every W of the tangent [H,2I] of each direction, or its gradient */
    char *dboth, *dcell;   /* [T,N,2I], [T,N,I]: dx of the two plans */
    char *dy, *dy_tangent; /* [T,N,D*H]: of a layer that is not the last */
    char *dinitial;        /* [S,D,N,H] */
    char *dreset;          /* the same, of the states that rows restart from */
    char *dropped;         /* [T,N,D*H]: tangent of a layer's input after dropout */
    /* of a layer */
    char *both_weights, *cell_weights, *both_reserve, *cell_reserve;
    char *input;         /* [T,N,2I]: x and its tangent */
    char *y, *y_tangent; /* [T,N,D*H] */
    char *x;             /* [T,N,D*H]: what dropout leaves of y of the layer below */
};

/* A run, and the layer that it has reached. */
struct eco_tangent_run {
    const struct eco_tangent_plan *plan;
    /* args: from io and gradient.  tangent: from io.tangent and gradient.tangent.  An input that is
     * NULL is zeros, an output that is NULL is not wanted.  The caller owns params. */
    struct eco_args args, tangent;
    void *const *dparams;
    int layer;
    const struct eco_tangent_layer *kind; /* of the layer */
    struct eco_tangent_areas at;
    struct eco_sequence sequence;
};

/* tangent_run.c: the areas of a layer in a workspace that begins at base.  Returns the bytes up to
 * their end. */
struct eco_size eco_tangent_place(const struct eco_tangent_plan *plan, char *base, int layer,
                                  struct eco_tangent_areas *areas);
/* Computes a run whose arguments have been checked. */
ecornn_status eco_tangent_compute(struct eco_tangent_run *run);

/* tangent_weights.c: pack the layer's weights for both plans; unpack their gradients to dparams,
 * first those of the tangent, to which those of the cell are added. */
void eco_tangent_pack(struct eco_tangent_run *run);
void eco_tangent_pack_cell(struct eco_tangent_run *run);
void eco_tangent_unpack(struct eco_tangent_run *run);
void eco_tangent_unpack_cell(struct eco_tangent_run *run);
/* to[rows,width] = from or zeros, or adds it; rows begin to_row and from_row elements apart. */
void eco_tangent_move(struct eco_tangent_run *run, const struct eco_rows_move *rows);

#endif /* ECO_TANGENT_PLAN_H */
