/*
 * LSTM, GRU, RNN and DynamicQuantizeLSTM.  Parameters are read where ONNX Runtime has them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ort/recurrent.h"

const struct kind kinds[] = {{"LSTM", "iofg", 2}, {"GRU", "zrn", 1}, {"RNN", "h", 1}};

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
    return (equations->clip >= 0 && isfinite(equations->clip)) ||
           refuse(reason, "clip is %g", (double)equations->clip);
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
    given_end(&given);
    return begun && compute(run, &given, y, final);
}
