/*
 * The places of parameters in the arrays of a binding.
 */
#include "python/native/layout.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/locks.h"

int64_t shape_bytes(const struct shape *shape, int64_t type)
{
    static const int64_t bytes[] = {
        [ECORNN_F32] = 4, [ECORNN_F64] = 8, [ECORNN_BF16] = 2, [ECORNN_F16] = 2};
    int64_t product = bytes[type];
    for (int64_t i = 0; i < shape->rank; i++)
        product *= shape->size[i];
    return product;
}

static struct layout *new_layout(int64_t arrays, int64_t count, size_t zeros)
{
    const size_t of_array = sizeof(struct shape) + sizeof(int64_t) + sizeof(enum array_kind);
    struct layout *const layout =
        new_zeros(1, sizeof *layout + (size_t)arrays * of_array +
                         2 * (size_t)count * sizeof(struct place) + zeros);
    if (!layout)
        return NULL;
    layout->count = count;
    layout->from = (struct place *)(void *)(layout->array + arrays);
    layout->more = layout->from + count;
    layout->gradient = (int64_t *)(void *)(layout->more + count);
    layout->zeros = zeros ? layout->gradient + arrays : NULL;
    layout->kind = (enum array_kind *)(void *)((char *)(layout->gradient + arrays) + zeros);
    for (int64_t i = 0; i < arrays; i++)
        layout->gradient[i] = -1;
    return layout;
}

/* ---- torch's arrays -------------------------------------------------------------------------- */

/* torch's cells have two biases for a gate, the library one, their sum, except gru's n; gate of
 * each of the library's vectors, 's' sum, 'h' of weight_hh's bias, 'i' of weight_ih's. */
static const struct twin {
    const char *cell;
    int64_t gates;
    const char *kind, *gate;
} twins[] = {{"lstm", 4, "ssss", "\0\1\2\3"},
             {"gru", 3, "sshi", "\0\1\2\2"},
             {"rnn-tanh", 1, "s", "\0"},
             {"rnn-relu", 1, "s", "\0"}};
enum { TWINS = sizeof twins / sizeof *twins };

int plan_kind(const char *cell, bool bias)
{
    int twin = 0;
    while (twin < TWINS && strcmp(cell, twins[twin].cell) != 0)
        twin++;
    return 2 * twin + bias;
}

static enum array_kind kind_of(const struct param *param)
{
    static const char kinds[] = "WRbp";
    const char *const found = param->kind ? strchr(kinds, param->kind) : NULL;
    return found ? (enum array_kind)(found - kinds) : WEIGHT_HR;
}

/* Rows of the arrays of a pair; 0: it has none. */
static void count_rows(const struct plan *plan, int64_t *rows)
{
    const bool bias = plan->kind % 2;
    const int twin = plan->kind / 2;
    for (int i = 0; i < plan->count && plan->param[i].pair == 0; i++)
        rows[kind_of(&plan->param[i])] += plan->param[i].rows;
    if (!bias)
        rows[BIAS_IH] = 0;
    if (twin < TWINS)
        rows[BIAS_IH] = rows[BIAS_HH] = bias ? twins[twin].gates * plan->desc.hidden : 0;
}

/* The places of a parameter, which is number `turn` of its kind in its pair. */
static void place(struct layout *layout, const struct plan *plan, int i, int64_t turn,
                  const int64_t *array)
{
    const struct twin *const twin = plan->kind / 2 < TWINS ? &twins[plan->kind / 2] : NULL;
    enum array_kind kind = kind_of(&plan->param[i]);
    struct place *const from = &layout->from[i], *const more = &layout->more[i];
    const struct shape one = {2, {plan->param[i].rows, plan->param[i].cols}, {0}};
    const int64_t bytes = shape_bytes(&one, plan->desc.param_type);
    *from = *more = (struct place){-1, 0};
    if (kind == BIAS_IH && plan->kind % 2 == 0)
        return;
    if (kind == BIAS_IH && twin) {
        const char source = twin->kind[turn];
        turn = twin->gate[turn];
        kind = source == 'h' ? BIAS_HH : BIAS_IH;
        if (source == 's')
            *more = (struct place){array[BIAS_HH], turn * bytes};
        layout->adds |= source == 's';
    }
    *from = (struct place){array[kind], turn * bytes};
}

/* The matrices of an array follow each other in packed gradients, too, or the array is not there.
 */
static void place_gradient(struct layout *layout, const struct param *param,
                           const struct place *place)
{
    int64_t *const at = &layout->gradient[place->array];
    if (place->offset == 0)
        *at = param->gradient;
    else if (*at >= 0 && param->gradient != *at + place->offset)
        *at = -1;
}

/* All of one pair follow each other in the library's parameters. */
static void fill_layout(struct layout *layout, const struct plan *plan, const int64_t *rows)
{
    int64_t turns[ARRAYS] = {0}, array[ARRAYS];
    for (int i = 0; i < plan->count; i++) {
        const struct param *const param = &plan->param[i];
        const bool is_first = i == 0 || param->pair != plan->param[i - 1].pair;
        for (int kind = 0; is_first && kind < ARRAYS; kind++) {
            turns[kind] = 0;
            array[kind] = rows[kind] ? layout->arrays++ : -1;
            if (rows[kind]) {
                layout->array[array[kind]] = (struct shape){1, {rows[kind], 1}, {1, 1}};
                layout->kind[array[kind]] = (enum array_kind)kind;
            }
        }
        const enum array_kind kind = kind_of(param);
        if (!param->is_vector) {
            struct shape *const matrix = &layout->array[array[kind]];
            layout->uneven |= matrix->rank == 2 && matrix->size[1] != param->cols;
            matrix->rank = 2;
            matrix->size[1] = matrix->stride[0] = param->cols;
        }
        place(layout, plan, i, turns[kind]++, array);
        if (!param->is_vector)
            place_gradient(layout, param, &layout->from[i]);
    }
}

static struct layout *torch_layout(const struct plan *plan)
{
    int64_t rows[ARRAYS] = {0}, arrays = 0;
    count_rows(plan, rows);
    for (int kind = 0; kind < ARRAYS; kind++)
        arrays += rows[kind] > 0;
    const int64_t directions = plan->desc.flags & ECORNN_BIDIRECTIONAL ? 2 : 1;
    const size_t zeros = plan->kind % 2 ? 0 : (size_t)plan->desc.hidden * sizeof(double);
    struct layout *const layout =
        new_layout(arrays * plan->desc.layers * directions, plan->count, zeros);
    if (layout)
        fill_layout(layout, plan, rows);
    return layout;
}

/* ---- one block ------------------------------------------------------------------------------- */

static struct layout *block_layout(const struct plan *plan)
{
    struct layout *const layout = new_layout(1, plan->sizes.param_count, 0);
    const int64_t elements = (int64_t)plan->sizes.param_elements;
    if (!layout)
        return NULL;
    layout->arrays = 1;
    layout->array[0] = (struct shape){1, {elements}, {1}};
    const int64_t bytes = shape_bytes(&(struct shape){.rank = 0}, plan->desc.param_type);
    for (int i = 0; i < layout->count; i++) {
        ecornn_param is = {.size = sizeof is};
        if (library.param_get(plan->plan, i, &is) != ECORNN_OK) {
            free(layout);
            return NULL;
        }
        layout->from[i] = (struct place){0, (int64_t)is.offset * bytes};
        layout->more[i] = (struct place){-1, 0};
    }
    return layout;
}

const struct layout *layout_of(struct plan *plan)
{
    lock_take(LOCK_LAYOUTS);
    struct layout *layout = plan->more;
    if (!layout) {
        layout = plan->kind == KIND_BLOCK ? block_layout(plan) : torch_layout(plan);
        for (int64_t k = 0; layout && k < layout->arrays; k++)
            layout->bytes += shape_bytes(&layout->array[k], plan->desc.param_type);
        plan->more = layout;
    }
    lock_release(LOCK_LAYOUTS);
    return layout;
}

/* ---- packing --------------------------------------------------------------------------------- */

static int64_t bytes_of(const struct plan *plan, int64_t array)
{
    const struct layout *const layout = plan->more;
    return shape_bytes(&layout->array[array], plan->desc.param_type);
}

void layout_copy(const struct plan *plan, char **start, char *copy)
{
    const struct layout *const layout = plan->more;
    for (int64_t i = 0; i < layout->arrays; i++) {
        const int64_t bytes = bytes_of(plan, i);
        start[i] = memcpy(copy, start[i], (size_t)bytes);
        copy += bytes;
    }
}

bool layout_same(const struct plan *plan, char *const *start, const char *copy)
{
    const struct layout *const layout = plan->more;
    int same = 1;
    for (int64_t i = 0; i < layout->arrays; i++) {
        const size_t bytes = (size_t)bytes_of(plan, i);
        if (library.same(plan->plan, copy, start[i], bytes, &same) != ECORNN_OK || !same)
            return false;
        copy += bytes;
    }
    return true;
}

/* The addresses of those places; none: of those in no array; NULL in an array without a start. */
static void point_at(const struct layout *layout, char *const *start, const struct place *places,
                     const void *none, const void **params)
{
    for (int64_t i = 0; i < layout->count; i++)
        params[i] = places[i].array < 0      ? none
                    : start[places[i].array] ? start[places[i].array] + places[i].offset
                                             : NULL;
}

const void **layout_sources(const struct plan *plan, char *const *start, const void *zeros)
{
    const struct layout *const layout = plan->more;
    const void **const params = new_zeros(2 * (size_t)layout->count + 1, sizeof *params);
    if (params) {
        point_at(layout, start, layout->from, zeros, params);
        point_at(layout, start, layout->more, NULL, params + layout->count);
    }
    return params;
}

ecornn_status layout_pack(const struct plan *plan, char *const *start, const void *zeros,
                          void *packed, void *stream)
{
    const struct layout *const layout = plan->more;
    const void **const params = layout_sources(plan, start, zeros);
    const ecornn_status status =
        params ? library.pack(plan->plan, params, params + layout->count, packed, stream)
               : ECORNN_NO_MEMORY;
    free(params);
    return status;
}

ecornn_status layout_unpack(const struct plan *plan, char *const *start, const void *packed,
                            bool add, void *stream)
{
    const struct layout *const layout = plan->more;
    const void **const params = layout_sources(plan, start, NULL);
    void *const *const to = (void *const *)(uintptr_t)params;
    ecornn_status status =
        params ? library.unpack(plan->plan, packed, to, add, stream) : ECORNN_NO_MEMORY;
    if (status == ECORNN_OK && layout->adds)
        status = library.unpack(plan->plan, packed, to + layout->count, add, stream);
    free(params);
    return status;
}
