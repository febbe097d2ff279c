/*
 * What the two files of the opponent "onednn" share: a net of oneDNN primitives (3.x) that computes
 * one problem.
 *
 * A net has one layer primitive for all layers, or one for each; a training net also has their
 * backward primitives.  A primitive wants weights in a layout of its own, so each matrix exists
 * twice: plain (ldgoi, in ecornn's order of rows) and packed.  Training packs before each run and
 * unpacks the gradients after it, as ecornn does.
 */
#ifndef BENCH_ONEDNN_H
#define BENCH_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "bench/core/opponent.h"

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
enum { ONEDNN_MATRICES = 3, ONEDNN_ARGUMENTS_MAX = 32 };

/* What oneDNN calls one of ecornn's cells. */
struct onednn_cell {
    const char *name;
    dnnl_alg_kind_t kind, activation;
    int gates, biases, states;
    /* Its gates are these lines of ecornn's cell, in this order: of W, of R, of the biases. */
    const char *W[4], *R[4], *bias[4];
};

/* A copy from one layout to another; primitive NULL: both are one memory. */
struct onednn_reorder {
    dnnl_primitive_t primitive;
    dnnl_memory_t from, to;
};

/* A layer, or all layers at once. */
struct onednn_layer {
    int first, layers, width;                                 /* width of its input */
    dnnl_memory_desc_t md[ONEDNN_ARRAYS], dmd[ONEDNN_ARRAYS]; /* NULL: the array is not used */
    dnnl_primitive_desc_t pd[2];                              /* forward, backward */
    dnnl_primitive_t primitive[2];
    dnnl_memory_t memory[ONEDNN_ARRAYS], dmemory[ONEDNN_ARRAYS]; /* without matrices */
    void *states[2][ONEDNN_ARRAYS]; /* allocated here, because oneDNN frees its own memory when
                                       handles are swapped */
    dnnl_memory_t dpacked[ONEDNN_MATRICES];
    struct onednn_reorder packs[2][ONEDNN_MATRICES], unpacks[ONEDNN_MATRICES]; /* [pass] */
    dnnl_exec_arg_t arguments[2][ONEDNN_ARGUMENTS_MAX];
    int n_arguments[2];
};

struct onednn_net {
    const struct problem *problem;
    const struct onednn_cell *cell;
    dnnl_prop_kind_t kind; /* of the forward primitives */
    dnnl_data_type_t type;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes;
    struct onednn_layer *layers;
    int n_layers, passes; /* passes: 2 in training, else 1 */
    size_t *offsets;      /* [L,D,G+G+G'] of ecornn's parameters, in oneDNN's order */
    size_t weights_bytes, workspace_bytes, reserve_bytes;
    struct onednn_reorder y; /* to f32 */
    float *dparams;
    dnnl_memory_t *memories; /* all memories, to be freed */
    dnnl_primitive_t *primitives;
    int n_memories, n_primitives;
};

/* W, R and biases. */
extern const enum onednn_array onednn_matrices[ONEDNN_MATRICES];

/* NULL if oneDNN has no such primitive. whole: one primitive for all layers. */
struct onednn_net *onednn_net_create(const struct side *side, const struct onednn_cell *cell,
                                     dnnl_prop_kind_t kind, bool whole);
/* Copies the parameters of a layer between ecornn's block and the plain arrays: values to these, or
 * gradients to the block. */
void onednn_copy_params(struct onednn_net *net, const struct onednn_layer *layer, float *block,
                        bool to_block);
bool onednn_reorder_run(const struct onednn_net *net, const struct onednn_reorder *reorder);
void *onednn_data(dnnl_memory_t memory);
void onednn_net_free(struct onednn_net *net);

#endif /* BENCH_ONEDNN_H */
