/*
 * Public calls as most tests make them: structures know their size, runs take all planned steps and
 * rows, and counts are returned.  Tests of wrong calls use the public functions themselves.
 */
#ifndef ECO_TESTS_CALLS_H
#define ECO_TESTS_CALLS_H

#include <stdlib.h>
#include <string.h>

#include "ecornn.h"

static inline ecornn_status parse_desc(ecornn_desc *desc, const char *problem,
                                       const ecornn_cell *cell)
{
    if (desc)
        desc->size = sizeof *desc;
    return ecornn_desc_parse(desc, problem, cell);
}

/* The type of parameters, whose default depends on the type. */
static inline ecornn_type param_type_of(const ecornn_desc *desc)
{
    return desc->param_type != 0      ? desc->param_type
           : desc->type == ECORNN_F64 ? ECORNN_F64
                                      : ECORNN_F32;
}

static inline ecornn_status get_sizes(const ecornn_plan *plan, ecornn_sizes *sizes)
{
    sizes->size = sizeof *sizes;
    return ecornn_plan_sizes(plan, sizes);
}

static inline ecornn_status get_run_sizes(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                          ecornn_sizes *sizes)
{
    sizes->size = sizeof *sizes;
    return ecornn_run_sizes(plan, steps, batch, sizes);
}

static inline int count_params(const ecornn_plan *plan)
{
    ecornn_sizes sizes;
    return get_sizes(plan, &sizes) == ECORNN_OK ? sizes.param_count : 0;
}

static inline ecornn_status param_at(const ecornn_plan *plan, int index, ecornn_param *param)
{
    param->size = sizeof *param;
    return ecornn_param_get(plan, index, param);
}

static inline ecornn_status query_device(const ecornn_device *on, ecornn_device_info *info)
{
    info->size = sizeof *info;
    return ecornn_device_query(on, info);
}

static inline int count_devices(const char *backend)
{
    int count = 0;
    return ecornn_device_count(backend, &count) == ECORNN_OK ? count : 0;
}

/* NULL past the last. */
static inline const char *cell_name(int index)
{
    const char *name = NULL;
    return ecornn_cell_name(index, &name) == ECORNN_OK ? name : NULL;
}

/* A built-in cell; NULL if there is none of this name. */
static inline const ecornn_cell *builtin_cell(const char *name)
{
    ecornn_cell *cell = NULL;
    return ecornn_cell_parse(&cell, name) == ECORNN_OK ? cell : NULL;
}

static inline int count_states(const ecornn_cell *cell)
{
    int count = 0;
    return ecornn_cell_states(cell, &count, NULL) == ECORNN_OK ? count : 0;
}

static inline double state_start(const ecornn_cell *cell, int state)
{
    double start[ECORNN_MAX_STATES] = {0};
    int count = 0;
    return ecornn_cell_states(cell, &count, start) == ECORNN_OK ? start[state] : 0;
}

static inline ecornn_status forward_all(const ecornn_plan *plan, const ecornn_io *io)
{
    ecornn_sizes sizes;
    const ecornn_status status = get_sizes(plan, &sizes);
    return status == ECORNN_OK ? ecornn_forward(plan, sizes.steps, sizes.batch, io) : status;
}

static inline ecornn_status backward_all(const ecornn_plan *plan, const ecornn_io *io,
                                         const ecornn_gradient *gradient)
{
    ecornn_sizes sizes;
    const ecornn_status status = get_sizes(plan, &sizes);
    return status == ECORNN_OK ? ecornn_backward(plan, sizes.steps, sizes.batch, io, gradient)
                               : status;
}

/* Compares dparams, as ecornn_unpack wrote them, with dweights where ecornn_param places them.
 * Returns the first parameter that differs, or -1.  element: bytes.  The device has all arrays. */
static inline int first_misplaced(const ecornn_plan *plan, ecornn_device *where,
                                  const void *dweights, void *const *dparams, size_t element)
{
    int found = -1;
    for (int k = count_params(plan) - 1; k >= 0; k--) {
        ecornn_param is;
        param_at(plan, k, &is);
        if (!is.is_dense)
            continue;
        const size_t bytes = (size_t)is.rows * (size_t)is.cols * element;
        char *const host = malloc(2 * bytes);
        const char *const from = (const char *)dweights + is.gradient;
        if (host == NULL || ecornn_download(where, host, dparams[k], bytes) != ECORNN_OK ||
            ecornn_download(where, host + bytes, from, bytes) != ECORNN_OK ||
            memcmp(host, host + bytes, bytes) != 0)
            found = k;
        free(host);
    }
    return found;
}

/* Tunes by these options, NULL: the usual ones, and keeps the results apart from them. */
static inline ecornn_status tune_into(ecornn_device *on, const ecornn_desc *desc,
                                      const ecornn_tuning *options, ecornn_tuning *tuned)
{
    *tuned = options ? *options : (ecornn_tuning){.size = sizeof *tuned};
    return ecornn_tune(on, desc, tuned);
}

/* Packs the parameters first, in the same call. */
static inline ecornn_status forward_params_all(const ecornn_plan *plan, const ecornn_io *io,
                                               const void *const *params, const void *const *added)
{
    ecornn_io with;
    if (!io)
        return forward_all(plan, io);
    with = *io;
    with.params = params;
    with.added = added;
    return forward_all(plan, &with);
}

/* ---- nets ------------------------------------------------------------------------------------ */

struct net_layer {
    const ecornn_plan *plan;
    ecornn_sizes sizes;
};

static inline ecornn_status net_layer_at(const ecornn_plan *plan, int index,
                                         struct net_layer *layer)
{
    const ecornn_status status = ecornn_plan_layer(plan, index, &layer->plan);
    return status == ECORNN_OK ? get_sizes(layer->plan, &layer->sizes) : status;
}

#endif /* ECO_TESTS_CALLS_H */
