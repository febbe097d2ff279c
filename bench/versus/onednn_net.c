/*
 * Making a net of oneDNN primitives: descriptors, memory, and the arguments of each primitive.  It
 * is long because oneDNN has a function of twenty arguments for each kind of cell and direction.
 */
#include "onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "bench/core/named.h"

const enum onednn_array onednn_matrices[ONEDNN_MATRICES] = {ONEDNN_WEIGHTS, ONEDNN_R, ONEDNN_BIAS};
static const int argument[ONEDNN_ARRAYS] = {
    DNNL_ARG_SRC_LAYER,     DNNL_ARG_SRC_ITER,     DNNL_ARG_SRC_ITER_C,
    DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_BIAS,
    DNNL_ARG_DST_LAYER,     DNNL_ARG_DST_ITER,     DNNL_ARG_DST_ITER_C};
static const int dargument[ONEDNN_ARRAYS] = {
    DNNL_ARG_DIFF_SRC_LAYER,     DNNL_ARG_DIFF_SRC_ITER,     DNNL_ARG_DIFF_SRC_ITER_C,
    DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS,
    DNNL_ARG_DIFF_DST_LAYER,     DNNL_ARG_DIFF_DST_ITER,     DNNL_ARG_DIFF_DST_ITER_C};

/* ---- memory ---------------------------------------------------------------------------------- */

/* A list that grows by powers of two. */
static void *grown(void *list, int count, size_t element)
{
    return count & (count - 1) ? list : realloc(list, (size_t)(count ? 2 * count : 1) * element);
}

static size_t bytes_of(const_dnnl_memory_desc_t md)
{
    return md ? dnnl_memory_desc_get_size(md) : 0;
}

/* data: DNNL_MEMORY_ALLOCATE, or the caller's.  The net frees the memory.  NULL: there is none. */
static dnnl_memory_t make_memory(struct onednn_net *net, const_dnnl_memory_desc_t md, void *data)
{
    dnnl_memory_t memory = NULL;
    dnnl_memory_t *list = grown(net->memories, net->n_memories, sizeof(dnnl_memory_t));
    if (!list)
        return NULL;
    net->memories = list;
    if (!md || dnnl_memory_create(&memory, md, net->engine, data) != dnnl_success)
        return NULL;
    return net->memories[net->n_memories++] = memory;
}

void *onednn_data(dnnl_memory_t memory)
{
    void *data = NULL;
    dnnl_memory_get_data_handle(memory, &data);
    return data;
}

static bool make_primitive(struct onednn_net *net, dnnl_primitive_t *primitive,
                           dnnl_primitive_desc_t pd)
{
    dnnl_primitive_t *list = grown(net->primitives, net->n_primitives, sizeof(dnnl_primitive_t));
    if (!list)
        return false;
    net->primitives = list;
    if (dnnl_primitive_create(primitive, pd) != dnnl_success)
        return false;
    net->primitives[net->n_primitives++] = *primitive;
    return true;
}

/* Makes the memories that are missing, and a primitive unless both have one layout. */
static bool make_reorder(struct onednn_net *net, struct onednn_reorder *reorder,
                         const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to)
{
    const bool same = dnnl_memory_desc_equal(from, to);
    dnnl_primitive_desc_t pd = NULL;
    if (!reorder->from)
        reorder->from = make_memory(net, from, DNNL_MEMORY_ALLOCATE);
    if (!reorder->to)
        reorder->to = same ? reorder->from : make_memory(net, to, DNNL_MEMORY_ALLOCATE);
    if (!reorder->from || !reorder->to || reorder->from == reorder->to)
        return reorder->from && reorder->to;
    const bool good = dnnl_reorder_primitive_desc_create(&pd, from, net->engine, to, net->engine,
                                                         NULL) == dnnl_success &&
                      make_primitive(net, &reorder->primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    return good;
}

bool onednn_reorder_run(const struct onednn_net *net, const struct onednn_reorder *reorder)
{
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, reorder->from},
                                         {DNNL_ARG_TO, reorder->to}};
    return !reorder->primitive ||
           dnnl_primitive_execute(reorder->primitive, net->stream, 2, arguments) == dnnl_success;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static bool is_state(enum onednn_array array)
{
    return array == ONEDNN_SRC_H || array == ONEDNN_SRC_C || array == ONEDNN_DST_H ||
           array == ONEDNN_DST_C;
}

static bool is_matrix(enum onednn_array array)
{
    return array == ONEDNN_WEIGHTS || array == ONEDNN_R || array == ONEDNN_BIAS;
}

/* States are passed if they are kept between calls, and always in training, because without them
 * oneDNN 2.6.3 used the wrong h for the gradient of R. */
static bool is_used(const struct onednn_net *net, enum onednn_array array)
{
    const bool second = array == ONEDNN_SRC_C || array == ONEDNN_DST_C;
    return !is_state(array) || ((net->problem->training || net->problem->streaming) &&
                                (!second || net->cell->states > 1));
}

/* any: the primitive may choose the layout; otherwise it is plain. */
static dnnl_memory_desc_t make_md(const struct onednn_net *net, const struct onednn_layer *layer,
                                  enum onednn_array array, dnnl_data_type_t type, bool any)
{
    static const dnnl_format_tag_t tags[ONEDNN_ARRAYS] = {dnnl_tnc,   dnnl_ldnc,  dnnl_ldnc,
                                                          dnnl_ldgoi, dnnl_ldgoi, dnnl_ldgo,
                                                          dnnl_tnc,   dnnl_ldnc,  dnnl_ldnc};
    static const int dimensions[ONEDNN_ARRAYS] = {3, 4, 4, 5, 5, 4, 3, 4, 4};
    const ecornn_desc *desc = &net->problem->desc;
    const dnnl_dim_t T = desc->steps, N = desc->batch, H = desc->hidden;
    const dnnl_dim_t L = layer->layers, D = net->problem->directions;
    const dnnl_dim_t sizes[ONEDNN_ARRAYS][5] = {{T, N, layer->width},
                                                {L, D, N, H},
                                                {L, D, N, H},
                                                {L, D, layer->width, net->cell->gates, H},
                                                {L, D, H, net->cell->gates, H},
                                                {L, D, net->cell->biases, H},
                                                {T, N, D * H},
                                                {L, D, N, H},
                                                {L, D, N, H}};
    dnnl_memory_desc_t md = NULL;
    dnnl_memory_desc_create_with_tag(&md, dimensions[array], sizes[array], type,
                                     any ? dnnl_format_tag_any : tags[array]);
    return md;
}

/* Gradients are f32 whatever the type of the rows; so are biases and the second state. */
static bool make_mds(const struct onednn_net *net, struct onednn_layer *layer)
{
    for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++) {
        const bool any = array == ONEDNN_WEIGHTS || array == ONEDNN_R;
        const bool wide = array == ONEDNN_BIAS || array == ONEDNN_SRC_C || array == ONEDNN_DST_C;
        if (!is_used(net, array))
            continue;
        layer->md[array] = make_md(net, layer, array, wide ? dnnl_f32 : net->type, any);
        if (net->problem->training)
            layer->dmd[array] = make_md(net, layer, array, dnnl_f32, any);
        if (!layer->md[array] || (net->problem->training && !layer->dmd[array]))
            return false;
    }
    return true;
}

static dnnl_status_t make_forward(const struct onednn_net *net, struct onednn_layer *layer,
                                  dnnl_rnn_direction_t direction)
{
    const dnnl_memory_desc_t *m = layer->md;
    switch (net->cell->kind) {
    case dnnl_vanilla_lstm:
        return dnnl_lstm_forward_primitive_desc_create(
            &layer->pd[0], net->engine, net->kind, direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_SRC_C], m[ONEDNN_WEIGHTS], m[ONEDNN_R], NULL, NULL, m[ONEDNN_BIAS],
            m[ONEDNN_DST], m[ONEDNN_DST_H], m[ONEDNN_DST_C], 0, net->attributes);
    case dnnl_vanilla_gru:
    case dnnl_lbr_gru:
        return (net->cell->kind == dnnl_vanilla_gru ? dnnl_gru_forward_primitive_desc_create
                                                    : dnnl_lbr_gru_forward_primitive_desc_create)(
            &layer->pd[0], net->engine, net->kind, direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H], 0,
            net->attributes);
    default:
        return dnnl_vanilla_rnn_forward_primitive_desc_create(
            &layer->pd[0], net->engine, net->kind, net->cell->activation, direction, m[ONEDNN_SRC],
            m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST],
            m[ONEDNN_DST_H], 0, 0, 0, net->attributes);
    }
}

static dnnl_status_t make_backward(const struct onednn_net *net, struct onednn_layer *layer,
                                   dnnl_rnn_direction_t direction)
{
    const dnnl_memory_desc_t *m = layer->md, *d = layer->dmd;
    switch (net->cell->kind) {
    case dnnl_vanilla_lstm:
        return dnnl_lstm_backward_primitive_desc_create(
            &layer->pd[1], net->engine, dnnl_backward, direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_SRC_C], m[ONEDNN_WEIGHTS], m[ONEDNN_R], NULL, NULL, m[ONEDNN_BIAS],
            m[ONEDNN_DST], m[ONEDNN_DST_H], m[ONEDNN_DST_C], d[ONEDNN_SRC], d[ONEDNN_SRC_H],
            d[ONEDNN_SRC_C], d[ONEDNN_WEIGHTS], d[ONEDNN_R], NULL, NULL, d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], d[ONEDNN_DST_C], 0, layer->pd[0], net->attributes);
    case dnnl_vanilla_gru:
    case dnnl_lbr_gru:
        return (net->cell->kind == dnnl_vanilla_gru ? dnnl_gru_backward_primitive_desc_create
                                                    : dnnl_lbr_gru_backward_primitive_desc_create)(
            &layer->pd[1], net->engine, dnnl_backward, direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H],
            d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R], d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], 0, layer->pd[0], net->attributes);
    default:
        return dnnl_vanilla_rnn_backward_primitive_desc_create(
            &layer->pd[1], net->engine, dnnl_backward, net->cell->activation, direction,
            m[ONEDNN_SRC], m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS],
            m[ONEDNN_DST], m[ONEDNN_DST_H], d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS],
            d[ONEDNN_R], d[ONEDNN_BIAS], d[ONEDNN_DST], d[ONEDNN_DST_H], 0, 0, 0, layer->pd[0],
            net->attributes);
    }
}

static bool make_primitives(struct onednn_net *net, struct onednn_layer *layer)
{
    const dnnl_rnn_direction_t direction = net->problem->directions == 2 ? dnnl_bidirectional_concat
                                           : (net->problem->desc.flags & ECORNN_REVERSE)
                                               ? dnnl_unidirectional_right2left
                                               : dnnl_unidirectional_left2right;
    return make_mds(net, layer) && make_forward(net, layer, direction) == dnnl_success &&
           make_primitive(net, &layer->primitive[0], layer->pd[0]) &&
           (net->passes == 1 || (make_backward(net, layer, direction) == dnnl_success &&
                                 make_primitive(net, &layer->primitive[1], layer->pd[1])));
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The layout that a primitive wants. */
static const_dnnl_memory_desc_t wanted(const struct onednn_layer *layer, int pass, int which)
{
    return dnnl_primitive_desc_query_md(layer->pd[pass], dnnl_query_exec_arg_md, which);
}

static void set_argument(struct onednn_layer *layer, int pass, int which, dnnl_memory_t memory)
{
    layer->arguments[pass][layer->n_arguments[pass]++] = (dnnl_exec_arg_t){which, memory};
}

/* The plain array of a matrix, which both passes pack, and its gradient. */
static bool make_weights(struct onednn_net *net, struct onednn_layer *layer, int matrix)
{
    const enum onednn_array array = onednn_matrices[matrix];
    struct onednn_reorder *unpack = &layer->unpacks[matrix];
    dnnl_memory_desc_t plain = make_md(net, layer, array, dnnl_f32, false);
    bool good = plain != NULL;
    for (int pass = 0; good && pass < net->passes; pass++) {
        struct onednn_reorder *pack = &layer->packs[pass][matrix];
        const const_dnnl_memory_desc_t md = wanted(layer, pass, argument[array]);
        pack->from = layer->packs[0][matrix].from;
        good = make_reorder(net, pack, plain, md);
        set_argument(layer, pass, argument[array], pack->to);
        net->weights_bytes += bytes_of(md);
    }
    if (good && net->passes == 2) {
        const const_dnnl_memory_desc_t md = wanted(layer, 1, dargument[array]);
        layer->dpacked[matrix] = unpack->from = make_memory(net, md, DNNL_MEMORY_ALLOCATE);
        good = unpack->from && make_reorder(net, unpack, md, plain);
        set_argument(layer, 1, dargument[array], unpack->from);
    }
    dnnl_memory_desc_destroy(plain);
    return good;
}

/* The memory of a sequence or a state: states begin with zeros, rows come from the layer below. */
static dnnl_memory_t make_array(struct onednn_net *net, struct onednn_layer *layer,
                                enum onednn_array array, bool gradient)
{
    const const_dnnl_memory_desc_t md = gradient ? layer->dmd[array] : layer->md[array];
    const struct onednn_layer *below = layer > net->layers ? layer - 1 : NULL;
    if (array == ONEDNN_SRC && !gradient)
        return below ? below->memory[ONEDNN_DST] : make_memory(net, md, net->problem->x);
    if (is_state(array)) {
        void *const data = layer->states[gradient][array] = calloc(1, bytes_of(md));
        return data ? make_memory(net, md, data) : NULL;
    }
    dnnl_memory_t memory = make_memory(net, md, DNNL_MEMORY_ALLOCATE);
    if (memory && array == ONEDNN_SRC && below) /* its dsrc is the ddst below */
        dnnl_memory_set_data_handle(below->dmemory[ONEDNN_DST], onednn_data(memory));
    return memory;
}

static bool make_arrays(struct onednn_net *net, struct onednn_layer *layer)
{
    for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++) {
        if (is_matrix(array) || !is_used(net, array))
            continue;
        if (!(layer->memory[array] = make_array(net, layer, array, false)))
            return false;
        for (int pass = 0; pass < net->passes; pass++)
            set_argument(layer, pass, argument[array], layer->memory[array]);
        if (net->passes == 1)
            continue;
        if (!(layer->dmemory[array] = make_array(net, layer, array, true)))
            return false;
        set_argument(layer, 1, dargument[array], layer->dmemory[array]);
    }
    return true;
}

/* The workspace that the forward primitive fills for the backward one. */
static bool make_reserve(struct onednn_net *net, struct onednn_layer *layer)
{
    const const_dnnl_memory_desc_t md = wanted(layer, 0, DNNL_ARG_WORKSPACE);
    if (net->kind == dnnl_forward_inference || bytes_of(md) == 0)
        return true;
    dnnl_memory_t memory = make_memory(net, md, DNNL_MEMORY_ALLOCATE);
    for (int pass = 0; pass < net->passes; pass++)
        set_argument(layer, pass, DNNL_ARG_WORKSPACE, memory);
    net->reserve_bytes += bytes_of(md);
    return memory != NULL;
}

/* One scratchpad that all primitives use in turn: that of the largest. */
static bool make_scratchpads(struct onednn_net *net)
{
    const_dnnl_memory_desc_t largest = NULL;
    for (int k = 0; k < net->n_layers * net->passes; k++) {
        const const_dnnl_memory_desc_t md =
            wanted(&net->layers[k / net->passes], k % net->passes, DNNL_ARG_SCRATCHPAD);
        largest = largest && bytes_of(largest) >= bytes_of(md) ? largest : md;
    }
    dnnl_memory_t scratch = make_memory(net, largest, DNNL_MEMORY_ALLOCATE);
    net->workspace_bytes += bytes_of(largest);
    for (int k = 0; scratch && k < net->n_layers * net->passes; k++) {
        struct onednn_layer *layer = &net->layers[k / net->passes];
        const int pass = k % net->passes;
        set_argument(
            layer, pass, DNNL_ARG_SCRATCHPAD,
            make_memory(net, wanted(layer, pass, DNNL_ARG_SCRATCHPAD), onednn_data(scratch)));
    }
    return scratch != NULL;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static size_t offset_of(const ecornn_plan *plan, const char *name)
{
    for (int k = 0; k < count_of_params(plan); k++) {
        ecornn_param param = {.size = sizeof param};
        if (ecornn_param_get(plan, k, &param) == ECORNN_OK && !strcmp(param.name, name))
            return param.offset;
    }
    return SIZE_MAX;
}

static bool find_params(struct onednn_net *net, const ecornn_plan *plan)
{
    const struct onednn_cell *cell = net->cell;
    const int D = net->problem->directions;
    const int L = net->problem->desc.layers ? net->problem->desc.layers : 1;
    const int each = 2 * cell->gates + cell->biases;
    net->offsets = calloc((size_t)(L * D * each), sizeof *net->offsets);
    for (int k = 0; net->offsets && k < L * D * each; k++) {
        const int pair = k / each, g = k % each, r = g - cell->gates, b = r - cell->gates;
        const bool back = pair % D || (net->problem->desc.flags & ECORNN_REVERSE);
        char name[64];
        snprintf(name, sizeof name, "%d.%s.%s.%s", pair / D, back ? "rev" : "fwd",
                 r < 0   ? "W"
                 : b < 0 ? "R"
                         : "b",
                 r < 0   ? cell->W[g]
                 : b < 0 ? cell->R[r]
                         : cell->bias[b]);
        net->offsets[k] = offset_of(plan, name);
        if (net->offsets[k] == SIZE_MAX)
            return say("%s: no parameter %s", net->problem->text, name);
    }
    return net->offsets != NULL;
}

void onednn_copy_params(struct onednn_net *net, const struct onednn_layer *layer, float *block,
                        bool to_block)
{
    const struct onednn_cell *cell = net->cell;
    const size_t H = (size_t)net->problem->desc.hidden;
    const int counts[ONEDNN_MATRICES] = {cell->gates, cell->gates, cell->biases};
    const size_t elements[ONEDNN_MATRICES] = {H * (size_t)layer->width, H * H, H};
    const int D = net->problem->directions;
    float *at[ONEDNN_MATRICES];
    for (int m = 0; m < ONEDNN_MATRICES; m++)
        at[m] = onednn_data(to_block ? layer->unpacks[m].to : layer->packs[0][m].from);
    const size_t *offset =
        net->offsets + (size_t)(layer->first * D * (2 * cell->gates + cell->biases));
    for (int pair = 0; pair < layer->layers * D; pair++)
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            for (int g = 0; g < counts[m]; g++, offset++, at[m] += elements[m]) {
                float *const ours = block + *offset;
                memcpy(to_block ? ours : at[m], to_block ? at[m] : ours,
                       elements[m] * sizeof(float));
            }
}

/* ---- nets ------------------------------------------------------------------------------------ */

static bool make_layer(struct onednn_net *net, struct onednn_layer *layer)
{
    if (!make_primitives(net, layer) || !make_arrays(net, layer) || !make_reserve(net, layer))
        return false;
    for (int m = 0; m < ONEDNN_MATRICES; m++)
        if (!make_weights(net, layer, m))
            return false;
    onednn_copy_params(net, layer, net->problem->params, false);
    for (int k = 0; k < net->passes * ONEDNN_MATRICES; k++)
        if (!onednn_reorder_run(net, &layer->packs[k / ONEDNN_MATRICES][k % ONEDNN_MATRICES]))
            return false;
    if (layer->first > 0) { /* the rows and gradients between two layers */
        const size_t rows = bytes_of(layer->md[ONEDNN_SRC]);
        *(net->passes == 2 ? &net->reserve_bytes : &net->workspace_bytes) += rows;
        net->workspace_bytes += bytes_of(layer->dmd[ONEDNN_SRC]);
    }
    return true;
}

static bool make_y(struct onednn_net *net)
{
    const struct onednn_layer *last = &net->layers[net->n_layers - 1];
    dnnl_memory_desc_t plain = make_md(net, last, ONEDNN_DST, dnnl_f32, false);
    net->y.from = last->memory[ONEDNN_DST];
    const bool good = plain && make_reorder(net, &net->y, last->md[ONEDNN_DST], plain);
    dnnl_memory_desc_destroy(plain);
    return good;
}

/* oneDNN's dy is f32 whatever the type of the rows. */
static void fill_dy(const struct onednn_net *net)
{
    float *const dy = onednn_data(net->layers[net->n_layers - 1].dmemory[ONEDNN_DST]);
    for (size_t k = 0; k < net->problem->y_elements; k++)
        dy[k] = (float)type_get(net->problem->dy, k, net->problem->type);
}

static bool make_net(struct onednn_net *net, const ecornn_plan *plan, bool whole)
{
    const ecornn_desc *desc = &net->problem->desc;
    const int layers = desc->layers ? desc->layers : 1;
    net->n_layers = whole ? 1 : layers;
    net->layers = calloc((size_t)net->n_layers, sizeof *net->layers);
    if (!net->layers || !find_params(net, plan))
        return false;
    for (int k = 0; k < net->n_layers; k++) {
        net->layers[k].first = k;
        net->layers[k].layers = whole ? layers : 1;
        net->layers[k].width = k ? net->problem->width : desc->input;
        if (!make_layer(net, &net->layers[k]))
            return false;
    }
    if (net->passes == 2)
        fill_dy(net);
    return make_scratchpads(net) && make_y(net);
}

struct onednn_net *onednn_net_create(const struct side *side, const struct onednn_cell *cell,
                                     dnnl_prop_kind_t kind, bool whole)
{
    const struct problem *problem = side->problem;
    struct onednn_net *net = calloc(1, sizeof *net);
    if (!net)
        return NULL;
    net->problem = problem;
    net->cell = cell;
    net->kind = kind;
    net->passes = problem->training ? 2 : 1;
    net->type = problem->type == ECORNN_BF16 ? dnnl_bf16 : dnnl_f32;
    net->dparams = problem->training ? calloc(problem->param_elements, sizeof(float)) : NULL;
    if (dnnl_engine_create(&net->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&net->stream, net->engine, dnnl_stream_default_flags) == dnnl_success &&
        dnnl_primitive_attr_create(&net->attributes) == dnnl_success &&
        dnnl_primitive_attr_set_scratchpad_mode(net->attributes, dnnl_scratchpad_mode_user) ==
            dnnl_success &&
        make_net(net, side->plan, whole))
        return net;
    onednn_net_free(net);
    return NULL;
}

static void free_layer(struct onednn_layer *layer)
{
    for (int pass = 0; pass < 2; pass++)
        if (layer->pd[pass])
            dnnl_primitive_desc_destroy(layer->pd[pass]);
    for (int array = 0; array < ONEDNN_ARRAYS; array++) {
        free(layer->states[0][array]);
        free(layer->states[1][array]);
        if (layer->md[array])
            dnnl_memory_desc_destroy(layer->md[array]);
        if (layer->dmd[array])
            dnnl_memory_desc_destroy(layer->dmd[array]);
    }
}

void onednn_net_free(struct onednn_net *net)
{
    if (!net)
        return;
    for (int k = 0; k < net->n_primitives; k++)
        dnnl_primitive_destroy(net->primitives[k]);
    for (int k = 0; k < net->n_memories; k++)
        dnnl_memory_destroy(net->memories[k]);
    for (int k = 0; net->layers && k < net->n_layers; k++)
        free_layer(&net->layers[k]);
    if (net->attributes)
        dnnl_primitive_attr_destroy(net->attributes);
    if (net->stream)
        dnnl_stream_destroy(net->stream);
    if (net->engine)
        dnnl_engine_destroy(net->engine);
    free(net->memories);
    free(net->primitives);
    free(net->layers);
    free(net->offsets);
    free(net->dparams);
    free(net);
}
