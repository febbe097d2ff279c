/*
 * Memory, descriptors and reorders of a net of oneDNN primitives.
 */
#include "net.h"

#include <stdlib.h>
#include <string.h>

const enum onednn_array onednn_matrices[ONEDNN_MATRICES] = {ONEDNN_WEIGHTS, ONEDNN_R, ONEDNN_BIAS};
const int onednn_arguments[ONEDNN_ARRAYS] = {
    DNNL_ARG_SRC_LAYER,     DNNL_ARG_SRC_ITER,     DNNL_ARG_SRC_ITER_C,
    DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_BIAS,
    DNNL_ARG_DST_LAYER,     DNNL_ARG_DST_ITER,     DNNL_ARG_DST_ITER_C};
const int onednn_darguments[ONEDNN_ARRAYS] = {
    DNNL_ARG_DIFF_SRC_LAYER,     DNNL_ARG_DIFF_SRC_ITER,     DNNL_ARG_DIFF_SRC_ITER_C,
    DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS,
    DNNL_ARG_DIFF_DST_LAYER,     DNNL_ARG_DIFF_DST_ITER,     DNNL_ARG_DIFF_DST_ITER_C};
static void *grown(void *list, int count, size_t element)
{
    return count & (count - 1) ? list : realloc(list, (size_t)(count ? 2 * count : 1) * element);
}

/* data: DNNL_MEMORY_ALLOCATE, or the caller's. NULL: no memory. */
dnnl_memory_t onednn_memory(struct onednn_net *net, onednn_md md, void *data)
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

void *onednn_data(dnnl_memory_t memory)
{
    void *data = NULL;
    dnnl_memory_get_data_handle(memory, &data);
    return data;
}

onednn_md onednn_argument_md(dnnl_primitive_desc_t pd, int argument)
{
    return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument);
}

bool onednn_keep(struct onednn_net *net, dnnl_primitive_t *primitive, dnnl_primitive_desc_t pd)
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
bool onednn_reorder_make(struct onednn_net *net, struct onednn_reorder *reorder, onednn_md from_md,
                         onednn_md to_md)
{
    dnnl_primitive_desc_t pd = NULL;
    const bool same = dnnl_memory_desc_equal(from_md, to_md);
    if (!reorder->from)
        reorder->from =
            same && reorder->to ? reorder->to : onednn_memory(net, from_md, DNNL_MEMORY_ALLOCATE);
    if (!reorder->to)
        reorder->to = same ? reorder->from : onednn_memory(net, to_md, DNNL_MEMORY_ALLOCATE);
    if (!reorder->from || !reorder->to || reorder->from == reorder->to)
        return reorder->from && reorder->to;
    const bool good = dnnl_reorder_primitive_desc_create(&pd, from_md, net->engine, to_md,
                                                         net->engine, NULL) == dnnl_success &&
                      onednn_keep(net, &reorder->primitive, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return good;
}

bool onednn_reorder_run(const struct onednn_net *net, const struct onednn_reorder *reorder)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, reorder->from}, {DNNL_ARG_TO, reorder->to}};
    return !reorder->primitive ||
           dnnl_primitive_execute(reorder->primitive, net->stream, 2, args) == dnnl_success;
}
/* Sizes of an array, for their letters; returns how many. */
static int sizes_of(const struct onednn_net *net, const struct onednn_piece *piece,
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

onednn_md onednn_piece_md(const struct onednn_net *net, const struct onednn_piece *piece,
                          enum onednn_array array, dnnl_data_type_t type, bool any)
{
    static const dnnl_format_tag_t tags[ONEDNN_ARRAYS] = {dnnl_tnc,   dnnl_ldnc,  dnnl_ldnc,
                                                          dnnl_ldgoi, dnnl_ldgoi, dnnl_ldgo,
                                                          dnnl_tnc,   dnnl_ldnc,  dnnl_ldnc};
    dnnl_dim_t sizes[5];
    const int count = sizes_of(net, piece, array, sizes);
    return onednn_md_create(count, sizes, type, any ? dnnl_format_tag_any : tags[array]);
}
