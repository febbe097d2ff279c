/*
 * LinearAttention: cells with a matrix state, whose parts are ONNX's inputs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ort/layer.h"

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, INPUTS };

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

static const struct rule *read_rule(struct layer *layer, float *scale, struct reason *reason)
{
    char text[MOST_TEXT] = "gated_delta";
    size_t bytes = sizeof text - 1;
    int64_t queries = 0, window = 0;
    const struct node *const node = layer->node;
    if (!node_list(node, "update_rule", ORT_STRING, text, &bytes, reason) ||
        !node_int(node, "q_num_heads", &queries, reason) ||
        !node_int(node, "kv_num_heads", &layer->heads, reason) ||
        !node_int(node, "state_window", &window, reason) ||
        !node_float(node, "scale", scale, reason))
        return NULL;
    if (window)
        refuse(reason, "state_window is %lld, must be 0", (long long)window);
    if (queries <= 0 || layer->heads <= 0 || layer->heads % queries || layer->heads > INT32_MAX)
        refuse(reason, "%lld query heads share %lld heads of keys", (long long)queries,
               (long long)layer->heads);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !reason->text[0]; i++)
        if (strcmp(rules[i].name, text) == 0) {
            layer->shared = layer->heads / queries;
            return &rules[i];
        }
    refuse(reason, "update_rule is '%.40s'", text);
    return NULL;
}

/* The widths of a step's parts must be known: heads times K, V or 1. */
static bool read_widths(struct layer *layer, const struct rule *rule, struct reason *reason)
{
    struct tensor is[INPUTS];
    const int64_t A = layer->heads, *const part = layer->part;
    for (size_t i = 0; i < INPUTS; i++) {
        if (!node_input(layer->node, i, &is[i], reason))
            return false;
        if (is[i].element && is[i].element != ORT_F32)
            return refuse(reason, "%s is of ONNX's type %d, must be %d", layer->op->inputs[i],
                          is[i].element, ORT_F32);
        layer->part[i] = is[i].rank == 3 ? is[i].size[2] : 0;
    }
    const int64_t K = layer->key = part[KEY] / A, V = layer->value = part[VALUE] / A;
    if (rule->decays != (is[DECAY].element != 0) || rule->corrects != (is[BETA].element != 0))
        return refuse(reason, "%s needs %s decay and %s beta", rule->name,
                      rule->decays ? "a" : "no", rule->corrects ? "a" : "no");
    if (K <= 0 || V <= 0 || K * A != part[KEY] || V * A != part[VALUE] ||
        part[QUERY] * layer->shared != K * A || part[KEY] > INT32_MAX / 8 ||
        part[VALUE] > INT32_MAX / 8)
        return refuse(reason, "the widths of query, key and value are not known or do not fit");
    return ((!rule->decays || part[DECAY] == A || part[DECAY] == A * K) &&
            (!rule->corrects || part[BETA] == A || part[BETA] == 1)) ||
           refuse(reason, "the widths of decay and beta are not known or do not fit");
}

bool attention_describe(struct layer *layer, struct reason *reason)
{
    char text[512];
    float scale = 0;
    const struct rule *const rule = read_rule(layer, &scale, reason);
    if (!rule || !read_widths(layer, rule, reason))
        return false;
    const int64_t A = layer->heads, K = layer->key, V = layer->value, g = layer->part[DECAY];
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
    return true;
}

/* Each of rows [parts,width] becomes [parts,times,width]. */
static void repeat(float *to, const float *from, int64_t parts, int64_t times, int64_t width)
{
    for (int64_t i = 0; i < parts; i++, from += width)
        for (int64_t k = 0; k < times; k++, to += width)
            memcpy(to, from, (size_t)width * sizeof *to);
}

/* An array that several heads share is repeated. */
static const void *part_of(struct run *run, int i, const struct tensor *is)
{
    const struct layer *const layer = run->layer;
    const int64_t width = i == BETA ? 1 : layer->key;
    const int64_t times = i == QUERY  ? layer->shared
                          : i == BETA ? layer->heads / layer->part[BETA]
                                      : 1;
    const int64_t parts = run->steps * run->batch * layer->part[i] / width;
    if (times == 1)
        return is->data;
    float *const memory = run_memory(run, (size_t)(parts * times * width) * sizeof *memory);
    repeat(memory, is->data, parts, times, width);
    return memory;
}

bool attention_run(struct run *run)
{
    const struct layer *const layer = run->layer;
    struct tensor is[INPUTS];
    const void *parts[INPUTS];
    int count = 0;
    if (!run_input(run, QUERY, &is[QUERY], 0, NULL, 0))
        return false;
    if (is[QUERY].rank != 3)
        return refuse(&run->reason, "query must have three dimensions");
    const int64_t N = run->batch = is[QUERY].size[0], T = run->steps = is[QUERY].size[1];
    const int64_t y[] = {N, T, layer->heads * layer->value};
    const int64_t state[] = {N, layer->heads, layer->key, layer->value};
    for (int i = 0; i < INPUTS; i++) {
        const int64_t row[] = {N, T, layer->part[i]};
        if (!run_input(run, i, &is[i], ORT_F32, i == PAST ? state : row, i == PAST ? 4 : 3))
            return false;
        if (i <= VALUE && !is[i].element)
            return refuse(&run->reason, "it is not given %s", layer->op->inputs[i]);
    }
    if (!run_output(run, 0, &run->io.y, y, 3) || !run_output(run, 1, &run->io.final[1], state, 4))
        return false;
    const size_t more = (size_t)(N * T * layer->heads * (layer->key + 1)) * sizeof(float);
    if (!run_begin(run, NULL, NULL, more))
        return false;
    for (int i = 0; i < INPUTS; i++)
        if (i != PAST && is[i].element)
            parts[count++] = part_of(run, i, &is[i]);
    run->io.inputs = parts;
    run->io.initial[1] = is[PAST].data;
    return run_forward(run);
}
