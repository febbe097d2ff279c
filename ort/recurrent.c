/*
 * LSTM, GRU and RNN of ONNX.  Parameters are read where ONNX Runtime has them.
 */
#include "ort/recurrent.h"

#include <stdio.h>
#include <string.h>

#include "ort/text.h"

enum { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, P }; /* inputs */

static const struct {
    const char *name;
    const char *gates; /* in ONNX's order, by our letters */
    int states;
} kinds[] = {{"LSTM", "iofg", 2}, {"GRU", "zrn", 1}, {"RNN", "h", 1}};

static int64_t gates_of(const struct layer *layer)
{
    return (int64_t)strlen(kinds[layer->kind].gates);
}

/* ---- description ----------------------------------------------------------------------------- */

static bool read_direction(struct layer *layer, const char **word, struct reason *reason)
{
    char text[MOST_TEXT] = "forward";
    size_t bytes = 0;
    if (!node_text(layer->node, "direction", ORT_STRING, text, &bytes, reason))
        return false;
    layer->directions = strcmp(text, "bidirectional") == 0 ? 2 : 1;
    *word = layer->directions == 2 ? "/bi" : strcmp(text, "reverse") == 0 ? "/rev" : "";
    if (!**word && strcmp(text, "forward") != 0)
        return refuse(reason, "direction is '%.40s'", text);
    return true;
}

/* The sizes I and H must be known: from attributes, or from what the graph says of the inputs. */
static bool read_sizes(struct layer *layer, struct reason *reason)
{
    struct tensor x, w, r, b, p;
    bool constant[4];
    int64_t hidden = 0;
    const struct node *const node = layer->node;
    if (!node_input(node, X, &x, constant, reason) ||
        !node_input(node, W, &w, &constant[0], reason) ||
        !node_input(node, R, &r, &constant[1], reason) ||
        !node_input(node, B, &b, &constant[2], reason) ||
        !node_input(node, P, &p, &constant[3], reason) ||
        !node_int(node, "hidden_size", &hidden, reason))
        return false;
    layer->constant = constant[0] && constant[1] && (constant[2] || !b.element) &&
                      (constant[3] || !p.element || layer->kind != KIND_LSTM);
    layer->element = x.element;
    layer->has_peepholes = layer->kind == KIND_LSTM && p.element;
    layer->width = w.rank == 3 && w.size[2] > 0 ? w.size[2] : x.rank == 3 ? x.size[2] : -1;
    layer->hidden = r.rank == 3 && r.size[2] > 0 ? r.size[2] : hidden > 0 ? hidden : -1;
    if (layer->width <= 0 || layer->hidden <= 0)
        return refuse(reason, "%s is not known before it runs",
                      layer->width <= 0 ? "the width of its input" : "its hidden size");
    if (layer->width > INT32_MAX || layer->hidden > INT32_MAX / 8)
        return refuse(reason, "it is too wide");
    if (hidden && hidden != layer->hidden)
        return refuse(reason, "hidden_size is %lld, R has %lld columns", (long long)hidden,
                      (long long)layer->hidden);
    if (!words_of_element(layer->element))
        return refuse(reason, "X is of ONNX's type %d", layer->element);
    return true;
}

static bool read_equations(struct layer *layer, struct equations *equations, struct reason *reason)
{
    int64_t after = 0, coupled = 0, batch_first = 0;
    const struct node *const node = layer->node;
    equations->kind = (enum kind)layer->kind;
    equations->peepholes = layer->has_peepholes;
    if (!read_activations(node, layer->directions, equations, reason) ||
        !node_float(node, "clip", &equations->clip, reason) ||
        !node_int(node, "linear_before_reset", &after, reason) ||
        !node_int(node, "input_forget", &coupled, reason) ||
        !node_int(node, "layout", &batch_first, reason))
        return false;
    if (!(equations->clip >= 0))
        return refuse(reason, "clip is %g", (double)equations->clip);
    if (batch_first != 0 && batch_first != 1)
        return refuse(reason, "layout is %lld", (long long)batch_first);
    equations->coupled = layer->kind == KIND_LSTM && coupled;
    equations->reset_after = layer->reset_after = layer->kind == KIND_GRU && after;
    layer->batch_first = batch_first;
    return true;
}

bool recurrent_describe(struct layer *layer, struct reason *reason)
{
    struct equations equations = {0};
    char text[2048];
    const char *direction = "";
    while (strcmp(kinds[layer->kind].name, layer->op->name) != 0)
        layer->kind++;
    if (!read_direction(layer, &direction, reason) || !read_sizes(layer, reason) ||
        !read_equations(layer, &equations, reason))
        return false;
    const char *const cell = cell_of(&equations, text, sizeof text);
    if (text[0]) {
        const ecornn_status status = ecornn_cell_parse(&layer->cell, text);
        if (status != ECORNN_OK)
            return refuse_status(reason, status);
    }
    snprintf(layer->problem, sizeof layer->problem, "%s/%s%s%s%s/I%lld/H%lld", cell,
             words_of_element(layer->element),
             layer->element == ORT_F32 ? layer->provider->options.precision : "", direction,
             layer->batch_first ? "/batch-major" : "", (long long)layer->width,
             (long long)layer->hidden);
    layer->zeros = ecornn_alloc(layer->provider->device, (size_t)layer->hidden * 8);
    if (!layer->zeros)
        return refuse(reason, "no memory");
    memset(layer->zeros, 0, (size_t)layer->hidden * 8);
    return true;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* What a run is given. */
struct given {
    const struct layer *layer;
    struct tensor x, lengths, weight[4], initial[2]; /* weight: W R B P */
    int64_t steps, batch;
};

static const void *part(const struct tensor *tensor, int64_t elements, const struct layer *layer)
{
    return (const char *)tensor->data + (size_t)elements * bytes_of_element(layer->element);
}

/* Finds parameter "0.fwd.W.i" in W, R, B and P, which have all gates of each direction. */
static bool find_param(const struct given *given, const char *name, const void **at,
                       const void **added)
{
    static const char order[] = "WRbp";
    const struct layer *const layer = given->layer;
    const char *const gates = kinds[layer->kind].gates;
    const int64_t H = layer->hidden, I = layer->width, G = gates_of(layer);
    char direction[4] = "", kind = 0, line = 0;
    if (sscanf(name, "0.%3[a-z].%c.%c", direction, &kind, &line) != 3 || !strchr(order, kind))
        return false;
    const bool is_q = line == 'q'; /* GRU: what the reset gate scales, with a bias of its own */
    const char *const gate = strchr(gates, is_q ? 'n' : line == 'u' ? 'h' : line);
    if (!gate)
        return false;
    const int64_t d = layer->directions == 2 && strcmp(direction, "fwd") != 0;
    const int64_t g = gate - gates;
    const struct tensor *const tensor = &given->weight[strchr(order, kind) - order];
    *added = NULL;
    if (kind == 'p') {
        *at = part(tensor, (d * 3 + g) * H, layer);
    } else if (kind != 'b') {
        *at = part(tensor, (d * G + g) * H * (kind == 'W' ? I : H), layer);
    } else if (!tensor->data) {
        *at = layer->zeros;
    } else {
        const void *const of_w = part(tensor, (d * 2 * G + g) * H, layer);
        const void *const of_r = part(tensor, (d * 2 * G + G + g) * H, layer);
        *at = is_q ? of_r : of_w;
        *added = layer->reset_after && g == 2 ? NULL : of_r;
    }
    return true;
}

static bool find_params(const void *owner, const ecornn_plan *plan, int count,
                        struct params *params)
{
    for (int i = 0; i < count; i++) {
        ecornn_param param = {.size = sizeof param};
        if (ecornn_param_get(plan, i, &param) != ECORNN_OK ||
            !find_param(owner, param.name, &params->at[i], &params->added[i]))
            return false;
    }
    return true;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool read_weights(struct given *given, ort_context *context, struct reason *reason)
{
    const struct layer *const layer = given->layer;
    const int64_t D = layer->directions, G = gates_of(layer), H = layer->hidden;
    static const struct {
        const char *name;
        int input;
        bool required;
    } is[] = {{"W", W, true}, {"R", R, true}, {"B", B, false}, {"P", P, false}};
    const int64_t size[][3] = {{D, G * H, layer->width}, {D, G * H, H}, {D, 2 * G * H}, {D, 3 * H}};
    for (int k = 0; k < 4; k++) {
        if (!layer_input(layer, context, is[k].input, &given->weight[k], reason) ||
            !check_tensor(&given->weight[k], is[k].name, layer->element, size[k], k < 2 ? 3 : 2,
                          reason))
            return false;
        if (is[k].required && !given->weight[k].element)
            return refuse(reason, "it is not given %s", is[k].name);
    }
    return true;
}

static bool read_inputs(struct given *given, ort_context *context, struct reason *reason)
{
    const struct layer *const layer = given->layer;
    const bool first = layer->batch_first;
    struct tensor *const x = &given->x;
    if (!layer_input(layer, context, X, x, reason))
        return false;
    if (x->element != layer->element || x->rank != 3 || x->size[2] != layer->width)
        return refuse(reason, "X must have three dimensions, the last of %lld",
                      (long long)layer->width);
    const int64_t T = given->steps = x->size[first], N = given->batch = x->size[!first];
    if (T < 0 || N < 0 || T > INT32_MAX / 2 || N > INT32_MAX / 2)
        return refuse(reason, "X has %lld steps of %lld rows", (long long)T, (long long)N);
    const int64_t D = layer->directions;
    const int64_t state[] = {first ? N : D, first ? D : N, layer->hidden};
    if (!layer_input(layer, context, LENGTHS, &given->lengths, reason) ||
        !check_tensor(&given->lengths, "sequence_lens", ORT_S32, &N, 1, reason))
        return false;
    for (int k = 0; k < kinds[layer->kind].states; k++)
        if (!layer_input(layer, context, INITIAL_H + k, &given->initial[k], reason) ||
            !check_tensor(&given->initial[k], k ? "initial_c" : "initial_h", layer->element, state,
                          3, reason))
            return false;
    return read_weights(given, context, reason);
}

/* Memory of a run, cut into aligned pieces; counts first, with memory NULL. */
struct cutter {
    char *memory;
    size_t used, alignment;
};

static void *cut(struct cutter *cutter, size_t bytes)
{
    const size_t begin =
        (cutter->used + cutter->alignment - 1) / cutter->alignment * cutter->alignment;
    cutter->used = begin + bytes;
    return cutter->memory ? cutter->memory + begin : NULL;
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

/* Arrays of a run whose order is not ONNX's. */
struct turned {
    void *y, *initial[2], *final[2];
};

struct run {
    struct given given;
    struct planned *planned;
    struct params params;
    ecornn_io io;
    struct turned turned;
    void *y, *final[2]; /* ONNX Runtime's */
};

/* With two directions, y is [T,N,D,H] here and [T,D,N,H] there, except batch-major; states are
 * [D,N,H] here and with layout 1 [N,D,H] there. */
static void place(struct run *run, struct cutter *cutter)
{
    const struct layer *const layer = run->given.layer;
    const ecornn_sizes *const sizes = &run->planned->sizes;
    const int64_t N = run->given.batch, D = layer->directions;
    const bool turns = D == 2 && N > 1;
    const size_t state = (size_t)(D * N * layer->hidden) * bytes_of_element(layer->element);
    run->io.workspace = cut(cutter, sizes->workspace_bytes);
    run->io.workspace_bytes = sizes->workspace_bytes;
    if (!run->planned->weights && sizes->weight_bytes > 0)
        run->io.weights = cut(cutter, sizes->weight_bytes);
    if (turns && !layer->batch_first && run->y)
        run->turned.y = cut(cutter, state * (size_t)run->given.steps);
    for (int k = 0; k < kinds[layer->kind].states; k++) {
        const bool both = turns && layer->batch_first;
        if (both && run->given.initial[k].element)
            run->turned.initial[k] = cut(cutter, state);
        if (both && run->final[k])
            run->turned.final[k] = cut(cutter, state);
    }
}

static bool compute(struct run *run, struct reason *reason)
{
    const struct layer *const layer = run->given.layer;
    const int64_t T = run->given.steps, N = run->given.batch, D = layer->directions;
    const size_t bytes = (size_t)layer->hidden * bytes_of_element(layer->element);
    const struct turned *const turned = &run->turned;
    ecornn_io *const io = &run->io;
    io->size = sizeof *io;
    io->x = run->given.x.data;
    io->lengths = run->given.lengths.data;
    io->y = turned->y ? turned->y : run->y;
    for (int k = 0; k < kinds[layer->kind].states; k++) {
        io->initial[k] = run->given.initial[k].data;
        if (turned->initial[k]) {
            swap(turned->initial[k], io->initial[k], 1, N, D, bytes);
            io->initial[k] = turned->initial[k];
        }
        io->final[k] = turned->final[k] ? turned->final[k] : run->final[k];
    }
    const ecornn_status status = ecornn_forward(run->planned->plan, (int32_t)T, (int32_t)N, io);
    if (status != ECORNN_OK)
        return refuse_status(reason, status);
    if (turned->y)
        swap(run->y, turned->y, T, N, D, bytes);
    for (int k = 0; k < kinds[layer->kind].states; k++)
        if (turned->final[k])
            swap(run->final[k], turned->final[k], 1, D, N, bytes);
    return true;
}

static bool take_outputs(struct run *run, ort_context *context, struct reason *reason)
{
    const struct layer *const layer = run->given.layer;
    const int64_t T = run->given.steps, N = run->given.batch;
    const int64_t D = layer->directions, H = layer->hidden;
    const bool first = layer->batch_first;
    const int64_t y[] = {first ? N : T, first ? T : D, first ? D : N, H};
    const int64_t state[] = {first ? N : D, first ? D : N, H};
    if (!layer_output(layer, context, 0, y, 4, &run->y, reason))
        return false;
    for (int k = 0; k < kinds[layer->kind].states; k++)
        if (!layer_output(layer, context, 1 + k, state, 3, &run->final[k], reason))
            return false;
    return true;
}

static bool run_planned(struct layer *layer, struct run *run, struct reason *reason)
{
    const struct planned *const planned = run->planned;
    struct cutter cutter = {.alignment = planned->sizes.alignment};
    run->io.weights = planned->weights;
    if (!planned->weights) {
        if (!find_params(&run->given, planned->plan, planned->sizes.param_count, &run->params))
            return refuse(reason, "its parameters are not known");
        run->io.params = run->params.at;
        run->io.added = run->params.added;
    }
    place(run, &cutter);
    const struct scratch scratch = scratch_take(&layer->plans, cutter.used);
    if (!scratch.memory)
        return refuse(reason, "no memory");
    cutter = (struct cutter){.memory = scratch.memory, .alignment = cutter.alignment};
    place(run, &cutter);
    const bool done = compute(run, reason);
    scratch_return(&layer->plans, scratch);
    return done;
}

bool recurrent_run(struct layer *layer, ort_context *context, struct reason *reason)
{
    struct run run = {.given = {.layer = layer}};
    if (!read_inputs(&run.given, context, reason) || !take_outputs(&run, context, reason))
        return false;
    const struct problem problem = {layer->problem,
                                    (const ecornn_cell *const[]){layer->cell, NULL}};
    const ecornn_status status =
        plans_take(&layer->plans, &problem, run.given.steps, run.given.batch,
                   layer->constant ? find_params : NULL, &run.given, &run.planned);
    if (status != ECORNN_OK)
        return refuse_status(reason, status);
    const bool done = run_planned(layer, &run, reason);
    plans_return(&layer->plans, run.planned);
    return done;
}
