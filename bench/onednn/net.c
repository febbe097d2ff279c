/*
 * One way to compute a problem with oneDNN, put together: its primitives and what they work on.
 */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    ecornn_type ours;
    dnnl_data_type_t theirs;
} types[] = {{ECORNN_F32, dnnl_f32}, {ECORNN_BF16, dnnl_bf16}};

/* ---- descriptors ----------------------------------------------------------------------------- */

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
static bool describe(const struct onednn_net *net, struct onednn_piece *piece)
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
        piece->recipe.md[array] = onednn_piece_md(net, piece, array, type, matrix);
        if (!piece->recipe.md[array])
            return false;
        if (net->problem->training &&
            !(piece->recipe.dmd[array] = onednn_piece_md(net, piece, array, dnnl_f32, matrix)))
            return false;
    }
    return true;
}

static bool create_primitives(struct onednn_net *net, struct onednn_piece *piece)
{
    return describe(net, piece) &&
           onednn_forward_create(&piece->pd[0], net->engine, net->way.kind, &piece->recipe,
                                 net->attributes) == dnnl_success &&
           onednn_keep(net, &piece->primitive[0], piece->pd[0]) &&
           (!net->problem->training ||
            (onednn_backward_create(&piece->pd[1], net->engine, &piece->recipe, piece->pd[0],
                                    net->attributes) == dnnl_success &&
             onednn_keep(net, &piece->primitive[1], piece->pd[1])));
}
/* ---- arguments ------------------------------------------------------------------------------- */

static void set_argument(struct onednn_piece *piece, int pass, int argument, dnnl_memory_t memory)
{
    piece->args[pass][piece->arg_count[pass]++] = (dnnl_exec_arg_t){argument, memory};
}

static bool make_weights(struct onednn_net *net, struct onednn_piece *piece, int matrix)
{
    const enum onednn_array array = onednn_matrices[matrix];
    const int argument = onednn_arguments[array], passes = net->problem->training ? 2 : 1;
    onednn_md plain = onednn_piece_md(net, piece, array, dnnl_f32, false);
    bool good = plain != NULL;
    for (int pass = 0; good && pass < passes; pass++) {
        struct onednn_reorder *pack = &piece->packs[piece->pack_count++];
        const onednn_md md = onednn_argument_md(piece->pd[pass], argument);
        pack->from = piece->plain[matrix];
        good = onednn_reorder_make(net, pack, plain, md);
        piece->plain[matrix] = pack->from;
        set_argument(piece, pass, argument, pack->to);
        net->weights_bytes += dnnl_memory_desc_get_size(md);
    }
    if (good && net->problem->training) {
        struct onednn_reorder *unpack = &piece->unpacks[matrix];
        const int gradient = onednn_darguments[array];
        good = onednn_reorder_make(net, unpack, onednn_argument_md(piece->pd[1], gradient), plain);
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
    struct onednn_piece *piece = &net->pieces[index], *below = index ? piece - 1 : NULL;
    const onednn_md *md = piece->recipe.md, *dmd = piece->recipe.dmd;
    const bool training = net->problem->training, last = index + 1 == net->piece_count;
    piece->src = below ? below->dst : onednn_memory(net, md[ONEDNN_SRC], net->problem->x);
    piece->dst = onednn_memory(net, md[ONEDNN_DST], DNNL_MEMORY_ALLOCATE);
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
    piece->dsrc = onednn_memory(net, dmd[ONEDNN_SRC], DNNL_MEMORY_ALLOCATE);
    piece->ddst = onednn_memory(net, dmd[ONEDNN_DST], DNNL_MEMORY_ALLOCATE);
    if (below && piece->dsrc)
        dnnl_memory_set_data_handle(below->ddst, onednn_data(piece->dsrc));
    if (below)
        net->workspace_bytes += dnnl_memory_desc_get_size(dmd[ONEDNN_SRC]);
    set_argument(piece, 1, DNNL_ARG_DIFF_SRC_LAYER, piece->dsrc);
    set_argument(piece, 1, DNNL_ARG_DIFF_DST_LAYER, piece->ddst);
    return piece->dsrc && piece->ddst;
}

/* Initial and final states, their gradients; all zero at the beginning. */
static bool make_states(struct onednn_net *net, struct onednn_piece *piece)
{
    for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++) {
        if (!is_state(array) || !is_used(net, array))
            continue;
        for (int pass = 0; pass < (net->problem->training ? 2 : 1); pass++) {
            const onednn_md md = pass ? piece->recipe.dmd[array] : piece->recipe.md[array];
            void *const data = calloc(1, dnnl_memory_desc_get_size(md));
            piece->state_data[pass][array] = data;
            dnnl_memory_t memory = data ? onednn_memory(net, md, data) : NULL;
            if (!memory)
                return false;
            if (!pass)
                piece->state[array] = memory;
            set_argument(piece, pass, pass ? onednn_darguments[array] : onednn_arguments[array],
                         memory);
            if (!pass && net->problem->training)
                set_argument(piece, 1, onednn_arguments[array], memory);
        }
    }
    return true;
}

/* What the forward primitive leaves for the backward one. */
static bool make_reserve(struct onednn_net *net, struct onednn_piece *piece)
{
    const onednn_md md = onednn_argument_md(piece->pd[0], DNNL_ARG_WORKSPACE);
    if (net->way.kind == dnnl_forward_inference || !md || !dnnl_memory_desc_get_size(md))
        return true;
    dnnl_memory_t memory = onednn_memory(net, md, DNNL_MEMORY_ALLOCATE);
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
            onednn_argument_md(net->pieces[k / passes].pd[k % passes], DNNL_ARG_SCRATCHPAD));
        most = bytes > most ? bytes : most;
    }
    net->scratch = aligned_alloc(4096, (most / 4096 + 1) * 4096);
    net->scratch_bytes = most;
    for (int k = 0; net->scratch && k < passes * net->piece_count; k++) {
        struct onednn_piece *piece = &net->pieces[k / passes];
        const onednn_md md = onednn_argument_md(piece->pd[k % passes], DNNL_ARG_SCRATCHPAD);
        set_argument(piece, k % passes, DNNL_ARG_SCRATCHPAD, onednn_memory(net, md, net->scratch));
    }
    return net->scratch != NULL;
}
/* ---- create and free ------------------------------------------------------------------------ */

static bool make_y(struct onednn_net *net)
{
    const struct onednn_piece *last = &net->pieces[net->piece_count - 1];
    onednn_md plain = onednn_piece_md(net, last, ONEDNN_DST, dnnl_f32, false);
    net->y.from = last->dst;
    const bool good =
        plain && onednn_reorder_make(net, &net->y, last->recipe.md[ONEDNN_DST], plain);
    onednn_md_free(plain);
    return good;
}

/* Theirs is f32 whatever ours is. */
static void fill_dy(const struct onednn_net *net)
{
    float *const dy = onednn_data(net->pieces[net->piece_count - 1].ddst);
    for (size_t k = 0; k < net->problem->y_elements; k++)
        dy[k] = (float)type_get(net->problem->dy, k, net->problem->type);
}

static bool build(struct onednn_net *net, const ecornn_plan *plan)
{
    const ecornn_desc *desc = &net->problem->desc;
    const int layers = desc->layers ? desc->layers : 1;
    net->piece_count = net->way.whole ? 1 : layers;
    net->pieces = calloc((size_t)net->piece_count, sizeof *net->pieces);
    if (!net->pieces || !onednn_params_find(net, plan))
        return false;
    for (int k = 0; k < net->piece_count; k++) {
        struct onednn_piece *piece = &net->pieces[k];
        piece->first = k;
        piece->layers = net->way.whole ? layers : 1;
        piece->width = k ? net->problem->width : desc->input;
        if (!create_primitives(net, piece) || !make_sequences(net, k) || !make_states(net, piece) ||
            !make_reserve(net, piece))
            return false;
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            if (!make_weights(net, piece, m))
                return false;
        onednn_params_copy(net, piece, net->problem->params, false);
        for (int p = 0; p < piece->pack_count; p++)
            if (!onednn_reorder_run(net, &piece->packs[p]))
                return false;
    }
    if (net->problem->training)
        fill_dy(net);
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
