/*
 * Parameters of the recurrent nodes, where ONNX Runtime has them: W, R, B and P have all gates of
 * each direction.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort/recurrent.h"

/* Integers [D,columns,4*H] with scales and zeros [D] or [D,4*H]. */
static float *make_real(const struct tensor *integers, const struct tensor *scale,
                        const struct tensor *zero)
{
    const int64_t D = integers->size[0], columns = integers->size[1], rows = integers->size[2];
    float *const real = malloc((size_t)(D * columns * rows) * sizeof *real);
    const bool is_signed = integers->element == ORT_S8;
    for (int64_t d = 0; real && d < D; d++)
        for (int64_t r = 0; r < rows; r++) {
            const int64_t of_scale = scale->rank == 2 ? d * rows + r : d;
            const int64_t of_zero = zero->rank == 2 ? d * rows + r : d;
            const float by = ((const float *)scale->data)[of_scale];
            const int less = !zero->data ? 0
                             : is_signed ? ((const int8_t *)zero->data)[of_zero]
                                         : ((const uint8_t *)zero->data)[of_zero];
            for (int64_t c = 0; c < columns; c++) {
                const int64_t at = (d * columns + c) * rows + r;
                const int value = is_signed ? ((const int8_t *)integers->data)[at]
                                            : ((const uint8_t *)integers->data)[at];
                real[(d * rows + r) * columns + c] = by * (float)(value - less);
            }
        }
    return real;
}

static bool find_param(const struct given *given, const char *name, const void **at,
                       const void **added)
{
    static const char order[] = "WRbp";
    static const int inputs[] = {W, R, B, P};
    const struct layer *const layer = given->layer;
    const char *const gates = kinds[layer->kind].gates;
    const int64_t H = layer->hidden, G = (int64_t)strlen(gates);
    char direction[4] = "", kind = 0, line = 0;
    size_t bytes;
    words_of_element(layer->element, &bytes);
    if (sscanf(name, "0.%3[a-z].%c.%c", direction, &kind, &line) != 3 || !strchr(order, kind))
        return false;
    const bool is_q = line == 'q'; /* GRU: what the reset gate scales, with a bias of its own */
    const char *const gate = strchr(gates, is_q ? 'n' : line == 'u' ? 'h' : line);
    if (!gate)
        return false;
    const int64_t d = layer->directions == 2 && strcmp(direction, "fwd") != 0, g = gate - gates;
    const int which = (int)(strchr(order, kind) - order);
    const char *base = given->is[inputs[which]].data;
    if (layer->quantised && which < 2)
        base = (const char *)given->real[which];
    if (kind == 'p')
        *at = base + (size_t)((d * 3 + g) * H) * bytes;
    else if (kind != 'b')
        *at = base + (size_t)((d * G + g) * H * (kind == 'W' ? layer->width : H)) * bytes;
    else if (!base)
        *at = layer->zeros;
    else {
        const char *const of_r = base + (size_t)((d * 2 * G + G + g) * H) * bytes;
        *at = is_q ? of_r : base + (size_t)((d * 2 * G + g) * H) * bytes;
        *added = layer->reset_after && g == 2 ? NULL : of_r;
    }
    return true;
}

/* The type and sizes that a weight must have. */
static bool check_weight(const struct layer *layer, int input, const struct tensor *is,
                         struct reason *reason)
{
    const int64_t D = layer->directions, H = layer->hidden;
    const int64_t rows = (int64_t)strlen(kinds[layer->kind].gates) * H;
    const int64_t columns = input == W ? layer->width : H;
    const bool turned = layer->quantised, small = is->rank == 1;
    int64_t size[3] = {D, turned ? columns : rows, turned ? rows : columns};
    size_t rank = 3;
    int element = layer->element;
    if (turned && (input == W || input == R))
        element = is->element == ORT_U8 ? ORT_U8 : ORT_S8;
    if (input == B || input == P || input >= W_SCALE) {
        size[1] = input == B ? 2 * rows : input == P ? 3 * H : rows;
        rank = input >= W_SCALE && small ? 1 : 2;
    }
    if (input == W_ZERO || input == R_ZERO)
        element = is->element == ORT_U8 ? ORT_U8 : ORT_S8;
    if (!is->element && (input == B || input == P || input == W_ZERO || input == R_ZERO))
        return true;
    return tensor_check(is, layer->op->inputs[input], element, size, rank, reason);
}

static const int weights[] = {W, R, B, P, W_SCALE, W_ZERO, R_SCALE, R_ZERO};

static int count_weights(const struct layer *layer)
{
    return layer->quantised ? 8 : layer->kind == KIND_LSTM ? 4 : 3;
}

static bool read_weights(struct given *given)
{
    const struct layer *const layer = given->layer;
    if (given->run && layer->packs)
        return refuse(given->reason, "the graph says %lld steps of %lld rows",
                      (long long)layer->steps, (long long)layer->batch);
    for (int k = 0; k < count_weights(layer); k++) {
        const int i = weights[k];
        struct tensor *const is = &given->is[i];
        if (!(given->run ? run_input(given->run, i, is, 0, NULL, 0)
                         : node_input(layer->node, (size_t)i, is, given->reason)) ||
            !check_weight(layer, i, is, given->reason))
            return false;
    }
    const struct tensor *const is = given->is;
    if (layer->quantised) {
        given->real[0] = make_real(&is[W], &is[W_SCALE], &is[W_ZERO]);
        given->real[1] = make_real(&is[R], &is[R_SCALE], &is[R_ZERO]);
    }
    return !layer->quantised || (given->real[0] && given->real[1]) ||
           refuse(given->reason, "no memory");
}

/* Each parameter "0.fwd.W.i" is a part of W, R, B or P, which have all gates of each direction. */
bool find_params(void *owner, const ecornn_plan *plan, int count, struct params *params)
{
    struct given *const given = owner;
    if (!given->is[W].element && !read_weights(given))
        return false;
    for (int i = 0; i < count; i++) {
        ecornn_param param = {.size = sizeof param};
        if (ecornn_param_get(plan, i, &param) != ECORNN_OK ||
            !find_param(given, param.name, &params->at[i], &params->added[i]))
            return false;
    }
    return true;
}

void given_end(struct given *given)
{
    free(given->real[0]);
    free(given->real[1]);
}

bool recurrent_prepare(struct layer *layer, struct reason *reason)
{
    struct given given = {.layer = layer, .reason = reason};
    struct planned *planned = NULL;
    const ecornn_status status =
        plans_take(&layer->plans, layer->problem, layer->cell, layer->steps, layer->batch,
                   find_params, &given, &planned);
    given_end(&given);
    if (status != ECORNN_OK)
        return refuse_status(reason, status);
    plans_return(&layer->plans, planned);
    return true;
}
