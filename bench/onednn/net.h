/*
 * What the files of one way to compute with oneDNN share: the net, its pieces, and helpers for
 * memory.  Nobody else includes it.
 */
#ifndef BENCH_ONEDNN_NET_H
#define BENCH_ONEDNN_NET_H

#include "onednn.h"

enum { ONEDNN_MATRICES = 3, ONEDNN_ARGUMENTS_MAX = 32, ONEDNN_PACKS_MAX = 2 * ONEDNN_MATRICES };

/* A copy from one layout to another. */
struct onednn_reorder {
    dnnl_primitive_t primitive; /* NULL: both are one */
    dnnl_memory_t from, to;
};

/* One primitive, or one of each for training, and what they work on. */
struct onednn_piece {
    int first, layers, width; /* width: of its input */
    struct onednn_recipe recipe;
    dnnl_primitive_desc_t pd[2]; /* forward, backward */
    dnnl_primitive_t primitive[2];
    dnnl_memory_t plain[ONEDNN_MATRICES], dplain[ONEDNN_MATRICES],
        dpacked[ONEDNN_MATRICES]; /* plain: ldgoi, f32 */
    dnnl_memory_t src, dst, dsrc, ddst;
    dnnl_memory_t state[ONEDNN_ARRAYS]; /* NULL where the array is none, or not given */
    void *state_data[2][ONEDNN_ARRAYS]; /* ours: oneDNN frees its own when handles are swapped */
    struct onednn_reorder packs[ONEDNN_PACKS_MAX], unpacks[ONEDNN_MATRICES];
    int pack_count;
    dnnl_exec_arg_t args[2][ONEDNN_ARGUMENTS_MAX];
    int arg_count[2];
};

struct onednn_net {
    const struct problem *problem;
    const struct onednn_cell *cell;
    struct onednn_way way;
    dnnl_data_type_t type;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes;
    struct onednn_piece *pieces;
    int piece_count;
    size_t *offsets; /* [L,D,G+G+G']: of our parameters, in the order of theirs */
    size_t weights_bytes, workspace_bytes, scratch_bytes, reserve_bytes;
    void *scratch;
    struct onednn_reorder y; /* to f32 */
    float *dparams;
    dnnl_memory_t *memories; /* to be freed */
    dnnl_primitive_t *primitives;
    int memory_count, primitive_count;
};

/* W, R and biases; and the names of arrays, and of their gradients, as arguments. */
extern const enum onednn_array onednn_matrices[ONEDNN_MATRICES];
extern const int onednn_arguments[ONEDNN_ARRAYS], onednn_darguments[ONEDNN_ARRAYS];

/* ---- memory.c -------------------------------------------------------------------------------- */

/* data: DNNL_MEMORY_ALLOCATE, or the caller's.  The net frees it.  NULL: no memory. */
dnnl_memory_t onednn_memory(struct onednn_net *net, onednn_md md, void *data);
void *onednn_data(dnnl_memory_t memory);
/* The layout that a primitive wants. */
onednn_md onednn_argument_md(dnnl_primitive_desc_t pd, int argument);
/* Creates a primitive, which the net frees. */
bool onednn_keep(struct onednn_net *net, dnnl_primitive_t *primitive, dnnl_primitive_desc_t pd);
/* Makes what is missing of from and to; the same memory where they have one layout. */
bool onednn_reorder_make(struct onednn_net *net, struct onednn_reorder *reorder, onednn_md from_md,
                         onednn_md to_md);
bool onednn_reorder_run(const struct onednn_net *net, const struct onednn_reorder *reorder);
/* An array of a piece, plain or as the primitive likes it best. */
onednn_md onednn_piece_md(const struct onednn_net *net, const struct onednn_piece *piece,
                          enum onednn_array array, dnnl_data_type_t type, bool any);

/* ---- params.c -------------------------------------------------------------------------------- */

/* Fills net->offsets; prints which parameter of ours is missing. */
bool onednn_params_find(struct onednn_net *net, const ecornn_plan *plan);
/* Copies the parameters of a piece between our block and its plain arrays: values to these, or
 * gradients to the block. */
void onednn_params_copy(struct onednn_net *net, const struct onednn_piece *piece, float *block,
                        bool to_block);

#endif /* BENCH_ONEDNN_NET_H */
