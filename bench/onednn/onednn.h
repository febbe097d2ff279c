/*
 * oneDNN as an opponent: what its files share.  The generations of its interface differ in how
 * descriptors are made and in nothing else that is needed here: v2.c and v3.c.
 */
#ifndef BENCH_ONEDNN_H
#define BENCH_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "bench/core/opponent.h"

/* A memory descriptor of either generation, read only. */
typedef const void *onednn_md;

/* The arrays of a recurrent primitive, in the order of its arguments. */
enum onednn_array {
    ONEDNN_SRC,     /* [T,N,I]      */
    ONEDNN_SRC_H,   /* [L,D,N,H]    */
    ONEDNN_SRC_C,   /* [L,D,N,H]    */
    ONEDNN_WEIGHTS, /* [L,D,I,G,H]  */
    ONEDNN_R,       /* [L,D,H,G,H]  */
    ONEDNN_BIAS,    /* [L,D,G',H]   */
    ONEDNN_DST,     /* [T,N,D*H]    */
    ONEDNN_DST_H,   /* [L,D,N,H]    */
    ONEDNN_DST_C,   /* [L,D,N,H]    */
    ONEDNN_ARRAYS
};

/* How one of our cells is called there. */
struct onednn_cell {
    const char *name;
    dnnl_alg_kind_t kind, activation;
    int gates, biases, states;
    /* Their gates are lines of our cell, in this order: of W, of R, and of the vectors. */
    const char *W[4], *R[4], *bias[4];
};

/* What a primitive is made from. */
struct onednn_recipe {
    const struct onednn_cell *cell;
    dnnl_rnn_direction_t direction;
    onednn_md md[ONEDNN_ARRAYS], dmd[ONEDNN_ARRAYS]; /* NULL: none, zero */
};

/* v2.c or v3.c. NULL: no memory. */
onednn_md onednn_md_create(int dimensions, const dnnl_dim_t *sizes, dnnl_data_type_t type,
                           dnnl_format_tag_t tag);
void onednn_md_free(onednn_md md);
dnnl_status_t onednn_forward_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                    dnnl_prop_kind_t kind, const struct onednn_recipe *recipe,
                                    dnnl_primitive_attr_t attributes);
dnnl_status_t onednn_backward_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                     const struct onednn_recipe *recipe, dnnl_primitive_desc_t hint,
                                     dnnl_primitive_attr_t attributes);

/* ---- one way to compute a problem, net.c ----------------------------------------------------- */

struct onednn_way {
    dnnl_prop_kind_t kind; /* of the forward primitives */
    bool whole;            /* all layers in one primitive; else one for each */
};
struct onednn_net;

/* NULL where the library has no such primitive. */
struct onednn_net *onednn_net_create(const struct problem *problem, const ecornn_plan *plan,
                                     const struct onednn_cell *cell, struct onednn_way way);
bool onednn_net_run(struct onednn_net *net, struct opponent *opponent, int set);
bool onednn_net_fetch(struct onednn_net *net, struct opponent *opponent);
/* Zero states, where they stay from run to run. */
void onednn_net_reset(struct onednn_net *net);
/* Fills detail and the bytes. */
void onednn_net_describe(const struct onednn_net *net, struct opponent *opponent);
void onednn_net_free(struct onednn_net *net);

#endif /* BENCH_ONEDNN_H */
