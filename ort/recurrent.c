/*
 * LSTM, GRU, RNN and DynamicQuantizeLSTM.  Parameters are read where ONNX Runtime has them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort/layer.h"

enum { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, P, W_SCALE, W_ZERO, R_SCALE, R_ZERO, INPUTS };

static const struct {
    const char *name;
    const char *gates; /* in ONNX's order, by our letters */
    int states;
} kinds[] = {{"LSTM", "iofg", 2}, {"GRU", "zrn", 1}, {"RNN", "h", 1}};

/* ---- description ----------------------------------------------------------------------------- */

static bool read_direction(struct layer *layer, const char **word, struct reason *reason)
{
    char text[MOST_TEXT] = "forward";
    size_t bytes = sizeof text - 1;
    if (!node_list(layer->node, "direction", ORT_STRING, text, &bytes, reason))
        return false;
    layer->directions = strcmp(text, "bidirectional") == 0 ? 2 : 1;
    *word = layer->directions == 2 ? "/bi" : strcmp(text, "reverse") == 0 ? "/rev" : "";
    return **word || strcmp(text, "forward") == 0 || refuse(reason, "direction is '%.40s'", text);
}

/* What the graph says of the inputs.  The sizes I and H must be known. */
static bool read_sizes(struct layer *layer, struct reason *reason)
{
    struct tensor is[INPUTS];
    int64_t hidden = 0;
    size_t bytes;
    layer->constant = true;
    bool others = false;
    for (size_t i = 0; i < INPUTS; i++) {
        if (!node_input(layer->node, i, &is[i], reason))
            return false;
        if (i == W || i == R || i == B || i >= P)
            layer->constant &= !is[i].element || is[i].data;
        else
            others |= is[i].data != NULL;
    }
    if (!node_int(layer->node, "hidden_size", &hidden, reason))
        return false;
    layer->element = is[X].element;
    layer->has_peepholes = layer->kind == KIND_LSTM && is[P].element;
    const struct tensor *const w = &is[W], *const r = &is[R], *const x = &is[X];
    const int columns = layer->quantised ? 1 : 2; /* where W has I, and R H */
    layer->width = w->rank == 3 && w->size[columns] > 0 ? w->size[columns]
                   : x->rank == 3                       ? x->size[2]
                                                        : -1;
    layer->hidden = r->rank == 3 && r->size[columns] > 0 ? r->size[columns] : hidden;
    layer->batch = x->rank == 3 ? x->size[!layer->batch_first] : -1;
    layer->steps = x->rank == 3 ? x->size[layer->batch_first] : -1;
    layer->packs = layer->constant && !others && layer->batch > 0 && layer->steps > 0;
    if (layer->width <= 0 || layer->hidden <= 0)
        return refuse(reason, "%s is not known before it runs",
                      layer->width <= 0 ? "the width of its input" : "its hidden size");
    if (layer->width > INT32_MAX || layer->hidden > INT32_MAX / 8)
        return refuse(reason, "it is too wide");
    if (hidden && hidden != layer->hidden)
        return refuse(reason, "hidden_size is %lld, R has %lld columns", (long long)hidden,
                      (long long)layer->hidden);
    if (layer->quantised && !layer->constant)
        return refuse(reason, "its weights are not constant");
    return words_of_element(layer->element, &bytes) != NULL ||
           refuse(reason, "X is of ONNX's type %d", layer->element);
}

static bool read_equations(struct layer *layer, struct equations *equations, struct reason *reason)
{
    int64_t after = 0, coupled = 0;
    const struct node *const node = layer->node;
    equations->kind = layer->kind;
    equations->peepholes = layer->has_peepholes;
    if (!read_activations(node, layer->directions, equations, reason) ||
        !node_float(node, "clip", &equations->clip, reason) ||
        !node_int(node, "linear_before_reset", &after, reason) ||
        !node_int(node, "input_forget", &coupled, reason))
        return false;
    equations->coupled = layer->kind == KIND_LSTM && coupled;
    equations->reset_after = layer->reset_after = layer->kind == KIND_GRU && after;
    return equations->clip >= 0 || refuse(reason, "clip is %g", (double)equations->clip);
}

bool recurrent_describe(struct layer *layer, struct reason *reason)
{
    struct equations equations = {0};
    char text[2048];
    size_t bytes;
    int64_t batch_first = 0;
    const char *direction = "";
    layer->quantised = strcmp(layer->op->name, "DynamicQuantizeLSTM") == 0;
    while (!layer->quantised && strcmp(kinds[layer->kind].name, layer->op->name) != 0)
        layer->kind++;
    if (!node_int(layer->node, "layout", &batch_first, reason))
        return false;
    if (batch_first != 0 && batch_first != 1)
        return refuse(reason, "layout is %lld", (long long)batch_first);
    layer->batch_first = batch_first;
    if (!read_direction(layer, &direction, reason) || !read_sizes(layer, reason) ||
        !read_equations(layer, &equations, reason))
        return false;
    const char *const cell = cell_of(&equations, text, sizeof text);
    if (text[0]) {
        const ecornn_status status = ecornn_cell_parse(&layer->cell, text);
        if (status != ECORNN_OK)
            return refuse_status(reason, status);
    }
    const char *const precision = layer->element != ORT_F32 ? ""
                                  : layer->precision        ? layer->precision
                                  : layer->quantised        ? "/int8"
                                                            : "";
    snprintf(layer->problem, sizeof layer->problem, "%s/%s%s%s%s/I%lld/H%lld", cell,
             words_of_element(layer->element, &bytes), precision, direction,
             batch_first ? "/batch-major" : "", (long long)layer->width, (long long)layer->hidden);
    layer->zeros = ecornn_alloc(layer->device, (size_t)layer->hidden * bytes);
    if (!layer->zeros)
        return refuse(reason, "no memory");
    memset(layer->zeros, 0, (size_t)layer->hidden * bytes);
    return true;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* What weights are given. */
struct given {
    const struct layer *layer;
    struct run *run; /* NULL: before the first run, when the graph has the weights */
    struct reason *reason;
    struct tensor is[INPUTS]; /* weights are read when they are packed */
    float *real[2];           /* of integers: W and R [D,4*H,columns], made when they are packed */
};

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
static bool find_params(void *owner, const ecornn_plan *plan, int count, struct params *params)
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

bool recurrent_prepare(struct layer *layer, struct reason *reason)
{
    struct given given = {.layer = layer, .reason = reason};
    struct planned *planned = NULL;
    const ecornn_status status =
        plans_take(&layer->plans, layer->problem, layer->cell, layer->steps, layer->batch,
                   find_params, &given, &planned);
    free(given.real[0]);
    free(given.real[1]);
    if (status != ECORNN_OK)
        return refuse_status(reason, status);
    plans_return(&layer->plans, planned);
    return true;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool read_inputs(struct run *run, struct given *given)
{
    const struct layer *const layer = run->layer;
    const bool first = layer->batch_first;
    struct tensor *const x = &given->is[X];
    if (!run_input(run, X, x, 0, NULL, 0))
        return false;
    if (x->element != layer->element || x->rank != 3 || x->size[2] != layer->width)
        return refuse(&run->reason, "X must have three dimensions, the last of %lld",
                      (long long)layer->width);
    run->steps = x->size[first];
    run->batch = x->size[!first];
    const int64_t D = layer->directions, N = run->batch;
    const int64_t state[] = {first ? N : D, first ? D : N, layer->hidden};
    if (!run_input(run, LENGTHS, &given->is[LENGTHS], ORT_S32, &N, 1))
        return false;
    for (int i = INITIAL_H; i < INITIAL_H + kinds[layer->kind].states; i++)
        if (!run_input(run, i, &given->is[i], layer->element, state, 3))
            return false;
    return true;
}

/* Copies [outer,a,b] blocks to [outer,b,a]. */
static void swap(void *to, const void *from, int64_t outer, int64_t a, int64_t b, size_t bytes)
{
    const char *in = from;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++, in += bytes)
                memcpy((char *)to + (size_t)((o * b + j) * a + i) * bytes, in, bytes);
}

/* With two directions, y is [T,N,D,H] here and [T,D,N,H] there, except batch-major; states are
 * [D,N,H] here and with layout 1 [N,D,H] there. */
static bool compute(struct run *run, const struct given *given, void *y, void *const *final)
{
    const struct layer *const layer = run->layer;
    const int64_t T = run->steps, N = run->batch, D = layer->directions;
    const bool turns = D == 2 && N > 1, turns_states = turns && layer->batch_first;
    size_t bytes;
    words_of_element(layer->element, &bytes);
    const size_t row = (size_t)layer->hidden * bytes, state = (size_t)(D * N) * row;
    ecornn_io *const io = &run->io;
    io->x = given->is[X].data;
    io->lengths = given->is[LENGTHS].data;
    io->y = y && turns && !layer->batch_first ? run_memory(run, state * (size_t)T) : y;
    for (int k = 0; k < kinds[layer->kind].states; k++) {
        const void *const initial = given->is[INITIAL_H + k].data;
        void *const turned = turns_states && initial ? run_memory(run, state) : NULL;
        if (turned)
            swap(turned, initial, 1, N, D, row);
        io->initial[k] = turned ? turned : initial;
        io->final[k] = turns_states && final[k] ? run_memory(run, state) : final[k];
    }
    if (!run_forward(run))
        return false;
    if (io->y != y)
        swap(y, io->y, T, N, D, row);
    for (int k = 0; k < kinds[layer->kind].states; k++)
        if (io->final[k] != final[k])
            swap(final[k], io->final[k], 1, D, N, row);
    return true;
}

bool recurrent_run(struct run *run)
{
    struct layer *const layer = run->layer;
    struct given given = {.layer = layer, .run = run, .reason = &run->reason};
    void *y = NULL, *final[2] = {NULL};
    size_t bytes;
    words_of_element(layer->element, &bytes);
    if (!read_inputs(run, &given))
        return false;
    const bool first = layer->batch_first;
    const int64_t T = run->steps, N = run->batch, D = layer->directions, H = layer->hidden;
    const int64_t out[] = {first ? N : T, first ? T : D, first ? D : N, H};
    const int64_t state[] = {first ? N : D, first ? D : N, H};
    if (!run_output(run, 0, &y, out, 4))
        return false;
    for (int k = 0; k < kinds[layer->kind].states; k++)
        if (!run_output(run, 1 + k, &final[k], state, 3))
            return false;
    const size_t turned = D == 2 ? (size_t)((T + 4) * D * N * H) * bytes : 0;
    const bool begun = run_begin(run, find_params, &given, turned);
    free(given.real[0]);
    free(given.real[1]);
    return begun && compute(run, &given, y, final);
}
