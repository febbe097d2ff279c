/*
 * One way to compute a problem with oneDNN: its primitives, their memory, and the reorders between
 * the caller's weights and theirs.  Knows no time but that of a run's parts.
 */
#include "bench_onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_stats.h"

enum { MATRICES = 3, ARGUMENTS_MAX = 32, PACKS_MAX = 3 * MATRICES };

static const enum onednn_array matrix_arrays[MATRICES] = {ONEDNN_WEIGHTS, ONEDNN_R, ONEDNN_BIAS};
static const int arguments[ONEDNN_ARRAYS] = {
    DNNL_ARG_SRC_LAYER,     DNNL_ARG_SRC_ITER,     DNNL_ARG_SRC_ITER_C,
    DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_BIAS,
    DNNL_ARG_DST_LAYER,     DNNL_ARG_DST_ITER,     DNNL_ARG_DST_ITER_C};
static const int darguments[ONEDNN_ARRAYS] = {
    DNNL_ARG_DIFF_SRC_LAYER,     DNNL_ARG_DIFF_SRC_ITER,     DNNL_ARG_DIFF_SRC_ITER_C,
    DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS,
    DNNL_ARG_DIFF_DST_LAYER,     DNNL_ARG_DIFF_DST_ITER,     DNNL_ARG_DIFF_DST_ITER_C};
static const struct {
    ecornn_type ours;
    dnnl_data_type_t theirs;
} types[] = {{ECORNN_F32, dnnl_f32}};

/* A copy from one layout to another. */
struct reorder {
    dnnl_primitive_t primitive; /* NULL: both are one */
    dnnl_memory_t from, to;
};

/* One primitive, or one of each for training, and what they work on. */
struct piece {
    int first, layers, width; /* width: of its input */
    struct onednn_recipe recipe;
    dnnl_primitive_desc_t pd[2]; /* forward, backward */
    dnnl_primitive_t primitive[2];
    dnnl_memory_t plain[MATRICES], dplain[MATRICES], dpacked[MATRICES]; /* plain: ldgoi, f32 */
    dnnl_memory_t src, dst, dsrc, ddst;
    dnnl_memory_t state[ONEDNN_ARRAYS]; /* NULL where the array is none, or not given */
    void *state_data[2][ONEDNN_ARRAYS]; /* ours: oneDNN frees its own when handles are swapped */
    struct reorder packs[PACKS_MAX], unpacks[MATRICES];
    int pack_count;
    dnnl_exec_arg_t args[2][ARGUMENTS_MAX];
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
    struct piece *pieces;
    int piece_count;
    size_t *offsets; /* [L,D,G+G+G']: of our parameters, in the order of theirs */
    size_t weights_bytes, workspace_bytes, scratch_bytes, reserve_bytes;
    void *scratch;
    struct reorder y; /* to f32 */
    float *dparams;
    dnnl_memory_t *memories; /* to be freed */
    dnnl_primitive_t *primitives;
    int memory_count, primitive_count;
};

/* ---- memory and reorders --------------------------------------------------------------------- */

static void *grown(void *list, int count, size_t element)
{
    return count & (count - 1) ? list : realloc(list, (size_t)(count ? 2 * count : 1) * element);
}

/* data: DNNL_MEMORY_ALLOCATE, or the caller's. NULL: no memory. */
static dnnl_memory_t make_memory(struct onednn_net *net, onednn_md md, void *data)
{
    dnnl_memory_t memory = NULL;
    dnnl_memory_t *list = grown(net->memories, net->memory_count, sizeof(dnnl_memory_t));
    if (!list)
        return NULL;
    net->memories = list;
    if (!md || dnnl_memory_create(&memory, md, net->engine, data) != dnnl_success)
        return NULL;
    return net->memories[net->memory_count++] = memory;
}

static void *data_of(dnnl_memory_t memory)
{
    void *data = NULL;
    dnnl_memory_get_data_handle(memory, &data);
    return data;
}

static onednn_md argument_md(dnnl_primitive_desc_t pd, int argument)
{
    return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument);
}

static bool keep_primitive(struct onednn_net *net, dnnl_primitive_t *primitive,
                           dnnl_primitive_desc_t pd)
{
    dnnl_primitive_t *list = grown(net->primitives, net->primitive_count, sizeof(dnnl_primitive_t));
    if (!list)
        return false;
    net->primitives = list;
    if (dnnl_primitive_create(primitive, pd) != dnnl_success)
        return false;
    net->primitives[net->primitive_count++] = *primitive;
    return true;
}

/* A memory of layout `to` that is filled from one of layout `from`, or the other way round; the
 * same memory where they are one layout. */
static bool make_reorder(struct onednn_net *net, struct reorder *reorder, onednn_md from_md,
                         onednn_md to_md)
{
    dnnl_primitive_desc_t pd = NULL;
    const bool same = dnnl_memory_desc_equal(from_md, to_md);
    if (!reorder->from)
        reorder->from =
            same && reorder->to ? reorder->to : make_memory(net, from_md, DNNL_MEMORY_ALLOCATE);
    if (!reorder->to)
        reorder->to = same ? reorder->from : make_memory(net, to_md, DNNL_MEMORY_ALLOCATE);
    if (!reorder->from || !reorder->to || reorder->from == reorder->to)
        return reorder->from && reorder->to;
    const bool good = dnnl_reorder_primitive_desc_create(&pd, from_md, net->engine, to_md,
                                                         net->engine, NULL) == dnnl_success &&
                      keep_primitive(net, &reorder->primitive, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return good;
}

static bool run_reorder(const struct onednn_net *net, const struct reorder *reorder)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, reorder->from}, {DNNL_ARG_TO, reorder->to}};
    return !reorder->primitive ||
           dnnl_primitive_execute(reorder->primitive, net->stream, 2, args) == dnnl_success;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Sizes of an array, for their letters; returns how many. */
static int sizes_of(const struct onednn_net *net, const struct piece *piece,
                    enum onednn_array array, dnnl_dim_t *sizes)
{
    const ecornn_desc *desc = &net->problem->desc;
    const dnnl_dim_t T = desc->steps, N = desc->batch, H = desc->hidden;
    const dnnl_dim_t L = piece->layers, D = net->problem->directions;
    const dnnl_dim_t table[ONEDNN_ARRAYS][5] = {{T, N, piece->width},
                                                {L, D, N, H},
                                                {L, D, N, H},
                                                {L, D, piece->width, net->cell->gates, H},
                                                {L, D, H, net->cell->gates, H},
                                                {L, D, net->cell->biases, H},
                                                {T, N, D * H},
                                                {L, D, N, H},
                                                {L, D, N, H}};
    static const int counts[ONEDNN_ARRAYS] = {3, 4, 4, 5, 5, 4, 3, 4, 4};
    memcpy(sizes, table[array], sizeof table[array]);
    return counts[array];
}

static onednn_md make_md(const struct onednn_net *net, const struct piece *piece,
                         enum onednn_array array, dnnl_data_type_t type, bool any)
{
    static const dnnl_format_tag_t tags[ONEDNN_ARRAYS] = {dnnl_tnc,   dnnl_ldnc,  dnnl_ldnc,
                                                          dnnl_ldgoi, dnnl_ldgoi, dnnl_ldgo,
                                                          dnnl_tnc,   dnnl_ldnc,  dnnl_ldnc};
    dnnl_dim_t sizes[5];
    const int count = sizes_of(net, piece, array, sizes);
    return onednn_md_create(count, sizes, type, any ? dnnl_format_tag_any : tags[array]);
}

static bool is_state(enum onednn_array array)
{
    return array == ONEDNN_SRC_H || array == ONEDNN_SRC_C || array == ONEDNN_DST_H ||
           array == ONEDNN_DST_C;
}

/* States are given where they stay from call to call, and in training always: without them oneDNN
 * 2.6.3 takes the wrong h for the gradient of R. */
static bool is_used(const struct onednn_net *net, enum onednn_array array)
{
    const bool second = array == ONEDNN_SRC_C || array == ONEDNN_DST_C;
    return !is_state(array) || ((net->problem->training || net->problem->streaming) &&
                                (!second || net->cell->states > 1));
}

/* Gradients are f32 whatever the type of the arrays; so are biases and the second state. */
static bool describe(const struct onednn_net *net, struct piece *piece)
{
    piece->recipe.cell = net->cell;
    piece->recipe.direction = net->problem->directions == 2 ? dnnl_bidirectional_concat
                              : net->problem->desc.direction == ECORNN_REVERSE
                                  ? dnnl_unidirectional_right2left
                                  : dnnl_unidirectional_left2right;
    for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++) {
        const bool matrix = array == ONEDNN_WEIGHTS || array == ONEDNN_R;
        const bool wide = array == ONEDNN_BIAS || array == ONEDNN_SRC_C || array == ONEDNN_DST_C;
        const dnnl_data_type_t type = wide ? dnnl_f32 : net->type;
        if (!is_used(net, array))
            continue;
        piece->recipe.md[array] = make_md(net, piece, array, type, matrix);
        if (!piece->recipe.md[array])
            return false;
        if (net->problem->training &&
            !(piece->recipe.dmd[array] = make_md(net, piece, array, dnnl_f32, matrix)))
            return false;
    }
    return true;
}

static bool create_primitives(struct onednn_net *net, struct piece *piece)
{
    return describe(net, piece) &&
           onednn_forward_create(&piece->pd[0], net->engine, net->way.kind, &piece->recipe,
                                 net->attributes) == dnnl_success &&
           keep_primitive(net, &piece->primitive[0], piece->pd[0]) &&
           (!net->problem->training ||
            (onednn_backward_create(&piece->pd[1], net->engine, &piece->recipe, piece->pd[0],
                                    net->attributes) == dnnl_success &&
             keep_primitive(net, &piece->primitive[1], piece->pd[1])));
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void set_argument(struct piece *piece, int pass, int argument, dnnl_memory_t memory)
{
    piece->args[pass][piece->arg_count[pass]++] = (dnnl_exec_arg_t){argument, memory};
}

static bool make_weights(struct onednn_net *net, struct piece *piece, int matrix)
{
    const enum onednn_array array = matrix_arrays[matrix];
    const int argument = arguments[array], passes = net->problem->training ? 2 : 1;
    onednn_md plain = make_md(net, piece, array, dnnl_f32, false);
    bool good = plain != NULL;
    for (int pass = 0; good && pass < passes; pass++) {
        struct reorder *pack = &piece->packs[piece->pack_count++];
        const onednn_md md = argument_md(piece->pd[pass], argument);
        pack->from = piece->plain[matrix];
        good = make_reorder(net, pack, plain, md);
        piece->plain[matrix] = pack->from;
        set_argument(piece, pass, argument, pack->to);
        net->weights_bytes += dnnl_memory_desc_get_size(md);
    }
    if (good && net->problem->training) {
        struct reorder *unpack = &piece->unpacks[matrix];
        const int gradient = darguments[array];
        good = make_reorder(net, unpack, argument_md(piece->pd[1], gradient), plain);
        piece->dpacked[matrix] = unpack->from;
        piece->dplain[matrix] = unpack->to;
        set_argument(piece, 1, gradient, unpack->from);
    }
    onednn_md_free(plain);
    return good;
}

/* Sequences, shared with the neighbours. */
static bool make_sequences(struct onednn_net *net, int index)
{
    struct piece *piece = &net->pieces[index], *below = index ? piece - 1 : NULL;
    const onednn_md *md = piece->recipe.md, *dmd = piece->recipe.dmd;
    const bool training = net->problem->training, last = index + 1 == net->piece_count;
    piece->src = below ? below->dst : make_memory(net, md[ONEDNN_SRC], net->problem->x);
    piece->dst = make_memory(net, md[ONEDNN_DST], DNNL_MEMORY_ALLOCATE);
    if (!piece->src || !piece->dst)
        return false;
    if (!last) /* between pieces: part of what a run needs */
        *(training ? &net->reserve_bytes : &net->workspace_bytes) +=
            dnnl_memory_desc_get_size(md[ONEDNN_DST]);
    for (int pass = 0; pass < (training ? 2 : 1); pass++) {
        set_argument(piece, pass, DNNL_ARG_SRC_LAYER, piece->src);
        set_argument(piece, pass, DNNL_ARG_DST_LAYER, piece->dst);
    }
    if (!training)
        return true;
    piece->dsrc = make_memory(net, dmd[ONEDNN_SRC], DNNL_MEMORY_ALLOCATE);
    piece->ddst = make_memory(net, dmd[ONEDNN_DST], DNNL_MEMORY_ALLOCATE);
    if (below && piece->dsrc)
        dnnl_memory_set_data_handle(below->ddst, data_of(piece->dsrc));
    if (below)
        net->workspace_bytes += dnnl_memory_desc_get_size(dmd[ONEDNN_SRC]);
    set_argument(piece, 1, DNNL_ARG_DIFF_SRC_LAYER, piece->dsrc);
    set_argument(piece, 1, DNNL_ARG_DIFF_DST_LAYER, piece->ddst);
    return piece->dsrc && piece->ddst;
}

/* Initial and final states, their gradients; all zero at the beginning. */
static bool make_states(struct onednn_net *net, struct piece *piece)
{
    for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++) {
        if (!is_state(array) || !is_used(net, array))
            continue;
        for (int pass = 0; pass < (net->problem->training ? 2 : 1); pass++) {
            const onednn_md md = pass ? piece->recipe.dmd[array] : piece->recipe.md[array];
            void *const data = calloc(1, dnnl_memory_desc_get_size(md));
            piece->state_data[pass][array] = data;
            dnnl_memory_t memory = data ? make_memory(net, md, data) : NULL;
            if (!memory)
                return false;
            if (!pass)
                piece->state[array] = memory;
            set_argument(piece, pass, pass ? darguments[array] : arguments[array], memory);
            if (!pass && net->problem->training)
                set_argument(piece, 1, arguments[array], memory);
        }
    }
    return true;
}

/* What the forward primitive leaves for the backward one. */
static bool make_reserve(struct onednn_net *net, struct piece *piece)
{
    const onednn_md md = argument_md(piece->pd[0], DNNL_ARG_WORKSPACE);
    if (net->way.kind == dnnl_forward_inference || !md || !dnnl_memory_desc_get_size(md))
        return true;
    dnnl_memory_t memory = make_memory(net, md, DNNL_MEMORY_ALLOCATE);
    set_argument(piece, 0, DNNL_ARG_WORKSPACE, memory);
    if (net->problem->training)
        set_argument(piece, 1, DNNL_ARG_WORKSPACE, memory);
    net->reserve_bytes += dnnl_memory_desc_get_size(md);
    return memory != NULL;
}

/* One block that all primitives use in turn. */
static bool make_scratch(struct onednn_net *net)
{
    const int passes = net->problem->training ? 2 : 1;
    size_t most = 0;
    for (int k = 0; k < passes * net->piece_count; k++) {
        const size_t bytes = dnnl_memory_desc_get_size(
            argument_md(net->pieces[k / passes].pd[k % passes], DNNL_ARG_SCRATCHPAD));
        most = bytes > most ? bytes : most;
    }
    net->scratch = aligned_alloc(4096, (most / 4096 + 1) * 4096);
    net->scratch_bytes = most;
    for (int k = 0; net->scratch && k < passes * net->piece_count; k++) {
        struct piece *piece = &net->pieces[k / passes];
        const onednn_md md = argument_md(piece->pd[k % passes], DNNL_ARG_SCRATCHPAD);
        set_argument(piece, k % passes, DNNL_ARG_SCRATCHPAD, make_memory(net, md, net->scratch));
    }
    return net->scratch != NULL;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static size_t offset_of(const ecornn_plan *plan, const char *name)
{
    for (int k = 0; k < ecornn_param_count(plan); k++) {
        ecornn_param param;
        if (ecornn_param_get(plan, k, &param) == ECORNN_OK && !strcmp(param.name, name))
            return param.offset;
    }
    return SIZE_MAX;
}

/* Of all layers and directions: where our parameters lie that theirs are made of. */
static bool find_parameters(struct onednn_net *net, const ecornn_plan *plan)
{
    const struct onednn_cell *cell = net->cell;
    const int D = net->problem->directions;
    const int L = net->problem->desc.layers ? net->problem->desc.layers : 1;
    const int each = 2 * cell->gates + cell->biases;
    net->offsets = calloc((size_t)(L * D * each), sizeof *net->offsets);
    for (int k = 0; net->offsets && k < L * D * each; k++) {
        const int place = k / each, g = k % each, r = g - cell->gates, b = r - cell->gates;
        const bool back = place % D || net->problem->desc.direction == ECORNN_REVERSE;
        char name[64];
        snprintf(name, sizeof name, "%d.%s.%s.%s", place / D, back ? "rev" : "fwd",
                 r < 0   ? "W"
                 : b < 0 ? "R"
                         : "b",
                 r < 0   ? cell->W[g]
                 : b < 0 ? cell->R[r]
                         : cell->bias[b]);
        net->offsets[k] = offset_of(plan, name);
        if (net->offsets[k] == SIZE_MAX) {
            fprintf(stderr, "bench: %s: no parameter %s\n", net->problem->text, name);
            return false;
        }
    }
    return net->offsets != NULL;
}

/* Copies the parameters of a piece between our block and its plain arrays. */
static void copy_parameters(struct onednn_net *net, const struct piece *piece, float *block,
                            bool to_block)
{
    const struct onednn_cell *cell = net->cell;
    const dnnl_memory_t *const memory = to_block ? piece->dplain : piece->plain;
    const size_t H = (size_t)net->problem->desc.hidden;
    const int counts[MATRICES] = {cell->gates, cell->gates, cell->biases};
    const size_t elements[MATRICES] = {H * (size_t)piece->width, H * H, H};
    const int D = net->problem->directions;
    float *at[MATRICES];
    for (int m = 0; m < MATRICES; m++)
        at[m] = data_of(memory[m]);
    const size_t *offset =
        net->offsets + (size_t)(piece->first * D * (2 * cell->gates + cell->biases));
    for (int place = 0; place < piece->layers * D; place++)
        for (int m = 0; m < MATRICES; m++)
            for (int g = 0; g < counts[m]; g++, offset++, at[m] += elements[m]) {
                float *const ours = block + *offset;
                memcpy(to_block ? ours : at[m], to_block ? at[m] : ours,
                       elements[m] * sizeof(float));
            }
}

/* ---- create, run, free ----------------------------------------------------------------------- */

static bool make_y(struct onednn_net *net)
{
    const struct piece *last = &net->pieces[net->piece_count - 1];
    onednn_md plain = make_md(net, last, ONEDNN_DST, dnnl_f32, false);
    net->y.from = last->dst;
    const bool good = plain && make_reorder(net, &net->y, last->recipe.md[ONEDNN_DST], plain);
    onednn_md_free(plain);
    return good;
}

static bool build(struct onednn_net *net, const ecornn_plan *plan)
{
    const ecornn_desc *desc = &net->problem->desc;
    const int layers = desc->layers ? desc->layers : 1;
    net->piece_count = net->way.whole ? 1 : layers;
    net->pieces = calloc((size_t)net->piece_count, sizeof *net->pieces);
    if (!net->pieces || !find_parameters(net, plan))
        return false;
    for (int k = 0; k < net->piece_count; k++) {
        struct piece *piece = &net->pieces[k];
        piece->first = k;
        piece->layers = net->way.whole ? layers : 1;
        piece->width = k ? net->problem->width : desc->input;
        if (!create_primitives(net, piece) || !make_sequences(net, k) || !make_states(net, piece) ||
            !make_reserve(net, piece))
            return false;
        for (int m = 0; m < MATRICES; m++)
            if (!make_weights(net, piece, m))
                return false;
        copy_parameters(net, piece, net->problem->params, false);
        for (int p = 0; p < piece->pack_count; p++)
            if (!run_reorder(net, &piece->packs[p]))
                return false;
    }
    if (net->problem->training)
        dnnl_memory_set_data_handle(net->pieces[net->piece_count - 1].ddst, net->problem->dy);
    return make_scratch(net) && make_y(net);
}

struct onednn_net *onednn_net_create(const struct problem *problem, const ecornn_plan *plan,
                                     const struct onednn_cell *cell, struct onednn_way way)
{
    struct onednn_net *net = calloc(1, sizeof *net);
    if (!net)
        return NULL;
    net->problem = problem;
    net->cell = cell;
    net->way = way;
    net->dparams = problem->training ? calloc(problem->param_elements, sizeof(float)) : NULL;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].ours == problem->desc.type)
            net->type = types[k].theirs;
    if (net->type != dnnl_data_type_undef &&
        dnnl_engine_create(&net->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&net->stream, net->engine, dnnl_stream_default_flags) == dnnl_success &&
        dnnl_primitive_attr_create(&net->attributes) == dnnl_success &&
        dnnl_primitive_attr_set_scratchpad_mode(net->attributes, dnnl_scratchpad_mode_user) ==
            dnnl_success &&
        build(net, plan))
        return net;
    onednn_net_free(net);
    return NULL;
}

/* Their gradients of weights are added to what is there; all threads clear them. */
static void clear(dnnl_memory_t memory, onednn_md md)
{
    char *const data = data_of(memory);
    const long piece = 1 << 16, bytes = (long)dnnl_memory_desc_get_size(md);
#pragma omp parallel for
    for (long at = 0; at < bytes; at += piece)
        memset(data + at, 0, (size_t)(bytes - at < piece ? bytes - at : piece));
}

static bool execute(const struct onednn_net *net, const struct piece *piece, int pass)
{
    return dnnl_primitive_execute(piece->primitive[pass], net->stream, piece->arg_count[pass],
                                  piece->args[pass]) == dnnl_success;
}

/* What a call left is what the next begins with. */
static void swap_states(const struct piece *piece)
{
    static const enum onednn_array pairs[2][2] = {{ONEDNN_SRC_H, ONEDNN_DST_H},
                                                  {ONEDNN_SRC_C, ONEDNN_DST_C}};
    for (int k = 0; k < 2; k++) {
        const dnnl_memory_t from = piece->state[pairs[k][0]], to = piece->state[pairs[k][1]];
        if (!from)
            continue;
        void *const data = data_of(from);
        dnnl_memory_set_data_handle(from, data_of(to));
        dnnl_memory_set_data_handle(to, data);
    }
}

void onednn_net_reset(struct onednn_net *net)
{
    for (int k = 0; k < net->piece_count; k++)
        for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++)
            if (net->pieces[k].state[array])
                memset(data_of(net->pieces[k].state[array]), 0,
                       dnnl_memory_desc_get_size(net->pieces[k].recipe.md[array]));
}

static bool run_backward(const struct onednn_net *net)
{
    for (int k = net->piece_count - 1; k >= 0; k--) {
        const struct piece *piece = &net->pieces[k];
        for (int m = 0; m < MATRICES; m++)
            clear(piece->dpacked[m], argument_md(piece->pd[1], darguments[matrix_arrays[m]]));
        if (!execute(net, piece, 1))
            return false;
    }
    return true;
}

static bool run_packs(const struct onednn_net *net)
{
    for (int k = 0; k < net->piece_count; k++)
        for (int p = 0; p < net->pieces[k].pack_count; p++)
            if (!run_reorder(net, &net->pieces[k].packs[p]))
                return false;
    return true;
}

static bool run_unpacks(const struct onednn_net *net)
{
    for (int k = 0; k < net->piece_count; k++)
        for (int m = 0; m < MATRICES; m++)
            if (!run_reorder(net, &net->pieces[k].unpacks[m]))
                return false;
    return true;
}

bool onednn_net_run(struct onednn_net *net, struct opponent *opponent, int set)
{
    const struct problem *p = net->problem;
    dnnl_memory_set_data_handle(net->pieces[0].src,
                                (char *)p->x + (size_t)set * p->x_elements * p->element);
    const double start = now();
    if (p->training && !run_packs(net))
        return false;
    const double core = now();
    for (int k = 0; k < net->piece_count; k++)
        if (!execute(net, &net->pieces[k], 0))
            return false;
    if (p->training && !run_backward(net))
        return false;
    dnnl_stream_wait(net->stream);
    for (int k = 0; p->streaming && k < net->piece_count; k++)
        swap_states(&net->pieces[k]);
    opponent->core_seconds = now() - core;
    if (p->training && !run_unpacks(net))
        return false;
    opponent->seconds = now() - start;
    return true;
}

bool onednn_net_fetch(struct onednn_net *net, struct opponent *opponent)
{
    if (!run_reorder(net, &net->y))
        return false;
    opponent->y = data_of(net->y.to);
    if (!net->problem->training)
        return true;
    opponent->dx = data_of(net->pieces[0].dsrc);
    for (int k = 0; k < net->piece_count; k++)
        copy_parameters(net, &net->pieces[k], net->dparams, true);
    opponent->dparams = net->dparams;
    return net->dparams != NULL;
}

void onednn_net_describe(const struct onednn_net *net, struct opponent *opponent)
{
    const dnnl_version_t *version = dnnl_version();
    const char *name[2] = {"", ""};
    for (int pass = 0; pass < (net->problem->training ? 2 : 1); pass++)
        dnnl_primitive_desc_query(net->pieces[0].pd[pass], dnnl_query_impl_info_str, 0,
                                  &name[pass]);
    snprintf(opponent->detail, sizeof opponent->detail, "%d.%d.%d %s %s%s%s%s", version->major,
             version->minor, version->patch,
             net->way.kind == dnnl_forward_inference ? "FWD_I" : "FWD_D", name[0],
             name[1][0] ? " BWD " : "", name[1], net->piece_count > 1 ? " by layer" : "");
    opponent->weights = net->weights_bytes;
    opponent->workspace = net->workspace_bytes + net->scratch_bytes;
    opponent->reserve = net->reserve_bytes;
    if (!net->problem->training) { /* a run needs it, nothing keeps it */
        opponent->workspace += net->reserve_bytes;
        opponent->reserve = 0;
    }
}

void onednn_net_free(struct onednn_net *net)
{
    if (!net)
        return;
    for (int k = 0; k < net->primitive_count; k++)
        dnnl_primitive_destroy(net->primitives[k]);
    for (int k = 0; k < net->memory_count; k++)
        dnnl_memory_destroy(net->memories[k]);
    for (int k = 0; net->pieces && k < net->piece_count; k++) {
        for (int pass = 0; pass < 2; pass++)
            if (net->pieces[k].pd[pass])
                dnnl_primitive_desc_destroy(net->pieces[k].pd[pass]);
        for (int a = 0; a < ONEDNN_ARRAYS; a++) {
            onednn_md_free(net->pieces[k].recipe.md[a]);
            onednn_md_free(net->pieces[k].recipe.dmd[a]);
            free(net->pieces[k].state_data[0][a]);
            free(net->pieces[k].state_data[1][a]);
        }
    }
    if (net->attributes)
        dnnl_primitive_attr_destroy(net->attributes);
    if (net->stream)
        dnnl_stream_destroy(net->stream);
    if (net->engine)
        dnnl_engine_destroy(net->engine);
    free(net->memories);
    free(net->primitives);
    free(net->pieces);
    free(net->offsets);
    free(net->dparams);
    free(net->scratch);
    free(net);
}
