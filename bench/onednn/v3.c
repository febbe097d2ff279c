/*
 * Descriptors of oneDNN 3.x: opaque, and primitive descriptors are made in one call.
 */
#include "onednn.h"

onednn_md onednn_md_create(int dimensions, const dnnl_dim_t *sizes, dnnl_data_type_t type,
                           dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md = NULL;
    return dnnl_memory_desc_create_with_tag(&md, dimensions, sizes, type, tag) == dnnl_success
               ? md
               : NULL;
}

void onednn_md_free(onednn_md md)
{
    union {
        onednn_md in;
        dnnl_memory_desc_t out;
    } handle = {md};
    if (md)
        dnnl_memory_desc_destroy(handle.out);
}

dnnl_status_t onednn_forward_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                    dnnl_prop_kind_t kind, const struct onednn_recipe *recipe,
                                    dnnl_primitive_attr_t attributes)
{
    const onednn_md *m = recipe->md;
    switch (recipe->cell->kind) {
    case dnnl_vanilla_lstm:
        return dnnl_lstm_forward_primitive_desc_create(
            pd, engine, kind, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H], m[ONEDNN_SRC_C],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], NULL, NULL, m[ONEDNN_BIAS], m[ONEDNN_DST],
            m[ONEDNN_DST_H], m[ONEDNN_DST_C], 0, attributes);
    case dnnl_vanilla_gru:
        return dnnl_gru_forward_primitive_desc_create(
            pd, engine, kind, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS],
            m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H], 0, attributes);
    case dnnl_lbr_gru:
        return dnnl_lbr_gru_forward_primitive_desc_create(
            pd, engine, kind, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS],
            m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H], 0, attributes);
    default:
        return dnnl_vanilla_rnn_forward_primitive_desc_create(
            pd, engine, kind, recipe->cell->activation, recipe->direction, m[ONEDNN_SRC],
            m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST],
            m[ONEDNN_DST_H], 0, 0, 0, attributes);
    }
}

dnnl_status_t onednn_backward_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                     const struct onednn_recipe *recipe, dnnl_primitive_desc_t hint,
                                     dnnl_primitive_attr_t attributes)
{
    const onednn_md *m = recipe->md, *d = recipe->dmd;
    switch (recipe->cell->kind) {
    case dnnl_vanilla_lstm:
        return dnnl_lstm_backward_primitive_desc_create(
            pd, engine, dnnl_backward, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_SRC_C], m[ONEDNN_WEIGHTS], m[ONEDNN_R], NULL, NULL, m[ONEDNN_BIAS],
            m[ONEDNN_DST], m[ONEDNN_DST_H], m[ONEDNN_DST_C], d[ONEDNN_SRC], d[ONEDNN_SRC_H],
            d[ONEDNN_SRC_C], d[ONEDNN_WEIGHTS], d[ONEDNN_R], NULL, NULL, d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], d[ONEDNN_DST_C], 0, hint, attributes);
    case dnnl_vanilla_gru:
        return dnnl_gru_backward_primitive_desc_create(
            pd, engine, dnnl_backward, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H],
            d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R], d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], 0, hint, attributes);
    case dnnl_lbr_gru:
        return dnnl_lbr_gru_backward_primitive_desc_create(
            pd, engine, dnnl_backward, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H],
            d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R], d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], 0, hint, attributes);
    default:
        return dnnl_vanilla_rnn_backward_primitive_desc_create(
            pd, engine, dnnl_backward, recipe->cell->activation, recipe->direction, m[ONEDNN_SRC],
            m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST],
            m[ONEDNN_DST_H], d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R],
            d[ONEDNN_BIAS], d[ONEDNN_DST], d[ONEDNN_DST_H], 0, 0, 0, hint, attributes);
    }
}
