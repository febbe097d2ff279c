/*
 * Descriptors of oneDNN 2.x: plain structs, and an operation's descriptor on the way to that of a
 * primitive.
 */
#include "onednn.h"

#include <stdlib.h>

onednn_md onednn_md_create(int dimensions, const dnnl_dim_t *sizes, dnnl_data_type_t type,
                           dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t *md = malloc(sizeof *md);
    if (md && dnnl_memory_desc_init_by_tag(md, dimensions, sizes, type, tag) == dnnl_success)
        return md;
    free(md);
    return NULL;
}

void onednn_md_free(onednn_md md)
{
    union {
        onednn_md in;
        void *out;
    } handle = {md};
    free(handle.out);
}

static dnnl_status_t describe_forward(dnnl_rnn_desc_t *desc, dnnl_prop_kind_t kind,
                                      const struct onednn_recipe *recipe)
{
    const onednn_md *m = recipe->md;
    switch (recipe->cell->kind) {
    case dnnl_vanilla_lstm:
        return dnnl_lstm_forward_desc_init(desc, kind, recipe->direction, m[ONEDNN_SRC],
                                           m[ONEDNN_SRC_H], m[ONEDNN_SRC_C], m[ONEDNN_WEIGHTS],
                                           m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST],
                                           m[ONEDNN_DST_H], m[ONEDNN_DST_C], 0);
    case dnnl_vanilla_gru:
        return dnnl_gru_forward_desc_init(desc, kind, recipe->direction, m[ONEDNN_SRC],
                                          m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R],
                                          m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H], 0);
    case dnnl_lbr_gru:
        return dnnl_lbr_gru_forward_desc_init(desc, kind, recipe->direction, m[ONEDNN_SRC],
                                              m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R],
                                              m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H], 0);
    default:
        return dnnl_vanilla_rnn_forward_desc_init(desc, kind, recipe->cell->activation,
                                                  recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
                                                  m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS],
                                                  m[ONEDNN_DST], m[ONEDNN_DST_H], 0, 0, 0);
    }
}

static dnnl_status_t describe_backward(dnnl_rnn_desc_t *desc, const struct onednn_recipe *recipe)
{
    const onednn_md *m = recipe->md, *d = recipe->dmd;
    switch (recipe->cell->kind) {
    case dnnl_vanilla_lstm:
        return dnnl_lstm_backward_desc_init(
            desc, dnnl_backward, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H], m[ONEDNN_SRC_C],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H],
            m[ONEDNN_DST_C], d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_SRC_C], d[ONEDNN_WEIGHTS],
            d[ONEDNN_R], d[ONEDNN_BIAS], d[ONEDNN_DST], d[ONEDNN_DST_H], d[ONEDNN_DST_C], 0);
    case dnnl_vanilla_gru:
        return dnnl_gru_backward_desc_init(
            desc, dnnl_backward, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H],
            d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R], d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], 0);
    case dnnl_lbr_gru:
        return dnnl_lbr_gru_backward_desc_init(
            desc, dnnl_backward, recipe->direction, m[ONEDNN_SRC], m[ONEDNN_SRC_H],
            m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST], m[ONEDNN_DST_H],
            d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R], d[ONEDNN_BIAS],
            d[ONEDNN_DST], d[ONEDNN_DST_H], 0);
    default:
        return dnnl_vanilla_rnn_backward_desc_init(
            desc, dnnl_backward, recipe->cell->activation, recipe->direction, m[ONEDNN_SRC],
            m[ONEDNN_SRC_H], m[ONEDNN_WEIGHTS], m[ONEDNN_R], m[ONEDNN_BIAS], m[ONEDNN_DST],
            m[ONEDNN_DST_H], d[ONEDNN_SRC], d[ONEDNN_SRC_H], d[ONEDNN_WEIGHTS], d[ONEDNN_R],
            d[ONEDNN_BIAS], d[ONEDNN_DST], d[ONEDNN_DST_H], 0, 0, 0);
    }
}

dnnl_status_t onednn_forward_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                    dnnl_prop_kind_t kind, const struct onednn_recipe *recipe,
                                    dnnl_primitive_attr_t attributes)
{
    dnnl_rnn_desc_t desc;
    const dnnl_status_t status = describe_forward(&desc, kind, recipe);
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, attributes, engine, NULL)
                                  : status;
}

dnnl_status_t onednn_backward_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                     const struct onednn_recipe *recipe, dnnl_primitive_desc_t hint,
                                     dnnl_primitive_attr_t attributes)
{
    dnnl_rnn_desc_t desc;
    const dnnl_status_t status = describe_backward(&desc, recipe);
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, attributes, engine, hint)
                                  : status;
}
