/*
 * LinearAttention: cells with a matrix state, whose parts are ONNX's inputs.
 */
#include "ort/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, INPUTS }; /* inputs */

static const char *const names[] = {"query", "key", "value", "past_state", "decay", "beta"};

static const struct rule {
    const char *name;
    bool decays, corrects;
    const char *text; /* of S' */
} rules[] = {
    {"linear", false, false, "S' = S + outer(k, v)\n"},
    {"gated", true, false, "S' = exp(g) * S + outer(k, v)\n"},
    {"delta", false, true, "S' = S + outer(k, beta * (v - S^T k))\n"},
    {"gated_delta", true, true, "A = exp(g) * S\nS' = A + outer(k, beta * (v - A^T k))\n"},
};

static bool read_rule(struct layer *layer, float *scale, const struct rule **rule,
                      struct reason *reason)
{
    char text[MOST_TEXT] = "gated_delta";
    size_t bytes = 0;
    int64_t queries = 0, window = 0;
    const struct node *const node = layer->node;
    if (!node_text(node, "update_rule", ORT_STRING, text, &bytes, reason) ||
        !node_int(node, "q_num_heads", &queries, reason) ||
        !node_int(node, "kv_num_heads", &layer->heads, reason) ||
        !node_int(node, "state_window", &window, reason) ||
        !node_float(node, "scale", scale, reason))
        return false;
    if (window)
        return refuse(reason, "state_window is %lld, must be 0", (long long)window);
    if (queries <= 0 || layer->heads % queries || layer->heads > INT32_MAX)
        return refuse(reason, "%lld query heads share %lld heads of keys", (long long)queries,
                      (long long)layer->heads);
    layer->shared = layer->heads / queries;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, text) == 0) {
            *rule = &rules[i];
            return true;
        }
    return refuse(reason, "update_rule is '%.40s'", text);
}

/* The widths of a step's parts must be known: heads times K, V or 1. */
static bool read_widths(struct layer *layer, const struct rule *rule, struct reason *reason)
{
    struct tensor tensor[INPUTS];
    bool constant;
    const int64_t A = layer->heads;
    for (size_t i = 0; i < INPUTS; i++) {
        if (!node_input(layer->node, i, &tensor[i], &constant, reason))
            return false;
        if (tensor[i].element && tensor[i].element != ORT_F32)
            return refuse(reason, "%s is of ONNX's type %d, must be F32", names[i],
                          tensor[i].element);
        layer->part[i] = tensor[i].rank == 3 ? tensor[i].size[2] : 0;
    }
    const int64_t K = layer->part[KEY] / A, V = layer->part[VALUE] / A, g = layer->part[DECAY];
    if (!tensor[DECAY].element == rule->decays || !tensor[BETA].element == rule->corrects)
        return refuse(reason, "%s does not go with decay%s and beta%s", rule->name,
                      tensor[DECAY].element ? "" : " missing",
                      tensor[BETA].element ? "" : " missing");
    if (K <= 0 || V <= 0 || K * A != layer->part[KEY] || V * A != layer->part[VALUE] ||
        layer->part[QUERY] * layer->shared != K * A || layer->part[KEY] > INT32_MAX / 8 ||
        layer->part[VALUE] > INT32_MAX / 8)
        return refuse(reason, "the widths of query, key and value are not known or do not fit");
    if ((rule->decays && g != A && g != A * K) ||
        (rule->corrects && layer->part[BETA] != A && layer->part[BETA] != 1))
        return refuse(reason, "the widths of decay and beta are not known or do not fit");
    layer->width = K;
    layer->hidden = V;
    return true;
}

bool attention_describe(struct layer *layer, struct reason *reason)
{
    char text[512];
    float scale = 0;
    const struct rule *rule = NULL;
    if (!read_rule(layer, &scale, &rule, reason) || !read_widths(layer, rule, reason))
        return false;
    const int64_t A = layer->heads, K = layer->width, V = layer->hidden, g = layer->part[DECAY];
    const double by = scale == 0 ? 1 / sqrt((double)K) : (double)scale;
    if (!isfinite(by))
        return refuse(reason, "scale is %g", by);
    snprintf(text, sizeof text,
             "cell onnx-attention(y, S[K,V]; q[K], k[K], v[V]%s%s)\n%sy' = (%.9g) * (S'^T q)\n",
             !rule->decays ? ""
             : g == A      ? ", g[1]"
                           : ", g[K]",
             rule->corrects ? ", beta[1]" : "", rule->text, by);
    const ecornn_status status = ecornn_cell_parse(&layer->cell, text);
    if (status != ECORNN_OK)
        return refuse_status(reason, status);
    const int64_t inputs = A * (2 * K + V + rule->corrects) + (rule->decays ? g : 0);
    snprintf(layer->problem, sizeof layer->problem,
             "onnx-attention/heads:%lld/key:%lld/batch-major/I%lld/H%lld", (long long)A,
             (long long)K, (long long)inputs, (long long)(A * V));
    layer->element = ORT_F32;
    layer->constant = true; /* it has no weights */
    return true;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Each of rows [parts,width] becomes [parts,times,width]. */
static void repeat(float *to, const float *from, int64_t parts, int64_t times, int64_t width)
{
    for (int64_t i = 0; i < parts; i++, from += width)
        for (int64_t k = 0; k < times; k++, to += width)
            memcpy(to, from, (size_t)width * sizeof *to);
}

struct run {
    struct layer *layer;
    struct tensor input[INPUTS];
    int64_t steps, batch;
};

static bool read_inputs(struct run *run, ort_context *context, struct reason *reason)
{
    const struct layer *const layer = run->layer;
    const int64_t *const size = run->input[QUERY].size;
    for (int i = 0; i < INPUTS; i++) {
        struct tensor *const tensor = &run->input[i];
        if (!layer_input(layer, context, i, tensor, reason))
            return false;
        const int64_t want[] = {size[0], size[1], layer->part[i]};
        const int64_t state[] = {size[0], layer->heads, layer->width, layer->hidden};
        if (i <= VALUE && (!tensor->element || tensor->rank != 3))
            return refuse(reason, "%s must have three dimensions", names[i]);
        if (!check_tensor(tensor, names[i], ORT_F32, i == PAST ? state : want, i == PAST ? 4 : 3,
                          reason))
            return false;
    }
    run->batch = size[0];
    run->steps = size[1];
    if (run->steps > INT32_MAX / 2 || run->batch > INT32_MAX / 2)
        return refuse(reason, "query has %lld rows of %lld steps", (long long)size[0],
                      (long long)size[1]);
    return true;
}

/* What is one array for several heads is repeated, in memory of which the first part is free. */
static void set_parts(struct run *run, const void **parts, float *memory)
{
    const struct layer *const layer = run->layer;
    const int64_t rows = run->steps * run->batch;
    int count = 0;
    for (int i = 0; i < INPUTS; i++) {
        const bool shared =
            (i == QUERY && layer->shared > 1) || (i == BETA && layer->part[BETA] < layer->heads);
        if (i == PAST || !run->input[i].element)
            continue;
        parts[count] = run->input[i].data;
        if (shared) {
            const int64_t width = i == BETA ? 1 : layer->width;
            const int64_t times = i == BETA ? layer->heads : layer->shared;
            const int64_t all = rows * layer->part[i] / width;
            repeat(memory, run->input[i].data, all, times, width);
            parts[count] = memory;
            memory += all * times * width;
        }
        count++;
    }
}

static bool compute(struct run *run, struct planned *planned, ecornn_io *io, struct reason *reason)
{
    const struct layer *const layer = run->layer;
    const void *parts[INPUTS];
    const size_t row = (size_t)(layer->heads * (layer->width + 1)) * sizeof(float);
    const size_t workspace = (planned->sizes.workspace_bytes + 63) / 64 * 64;
    const struct scratch scratch =
        scratch_take(&run->layer->plans, workspace + row * (size_t)run->steps * (size_t)run->batch);
    if (!scratch.memory)
        return refuse(reason, "no memory");
    set_parts(run, parts, (float *)(void *)(scratch.memory + workspace));
    io->workspace = scratch.memory;
    io->workspace_bytes = planned->sizes.workspace_bytes;
    io->inputs = parts;
    const ecornn_status status =
        ecornn_forward(planned->plan, (int32_t)run->steps, (int32_t)run->batch, io);
    scratch_return(&run->layer->plans, scratch);
    return status == ECORNN_OK || refuse_status(reason, status);
}

bool attention_run(struct layer *layer, ort_context *context, struct reason *reason)
{
    struct run run = {.layer = layer};
    struct planned *planned = NULL;
    ecornn_io io = {.size = sizeof io};
    if (!read_inputs(&run, context, reason))
        return false;
    const int64_t y[] = {run.batch, run.steps, layer->heads * layer->hidden};
    const int64_t state[] = {run.batch, layer->heads, layer->width, layer->hidden};
    if (!layer_output(layer, context, 0, y, 3, &io.y, reason) ||
        !layer_output(layer, context, 1, state, 4, &io.final[1], reason))
        return false;
    io.initial[1] = run.input[PAST].data;
    const struct problem problem = {layer->problem,
                                    (const ecornn_cell *const[]){layer->cell, NULL}};
    const ecornn_status status =
        plans_take(&layer->plans, &problem, run.steps, run.batch, NULL, NULL, &planned);
    if (status != ECORNN_OK)
        return refuse_status(reason, status);
    const bool done = compute(&run, planned, &io, reason);
    plans_return(&layer->plans, planned);
    return done;
}
