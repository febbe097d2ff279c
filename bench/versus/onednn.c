/*
 * The opponent "onednn": the fastest of its ways to compute a problem.  Inference may take the
 * primitive for training, and several layers one primitive or one for each.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "versus.h"
#include "bench/core/named.h"

/* clang-format off */
static const struct onednn_cell cells[] = {
    {"lstm", dnnl_vanilla_lstm, dnnl_alg_kind_undef, 4, 4, 2,
     {"i", "f", "g", "o"}, {"i", "f", "g", "o"}, {"i", "f", "g", "o"}},
    {"gru", dnnl_lbr_gru, dnnl_alg_kind_undef, 3, 4, 1,
     {"z", "r", "n"}, {"z", "r", "q"}, {"z", "r", "n", "q"}},
    {"gru-reset-first", dnnl_vanilla_gru, dnnl_alg_kind_undef, 3, 3, 1,
     {"z", "r", "n"}, {"z", "r", "n"}, {"z", "r", "n"}},
    {"rnn-tanh", dnnl_vanilla_rnn, dnnl_eltwise_tanh, 1, 1, 1, {"h"}, {"h"}, {"h"}},
    {"rnn-relu", dnnl_vanilla_rnn, dnnl_eltwise_relu, 1, 1, 1, {"h"}, {"h"}, {"h"}}};
/* clang-format on */

static const struct onednn_cell *find_cell(const struct problem *problem)
{
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
        if (problem->desc.cell == cell_named(cells[k].name))
            return &cells[k];
    return NULL;
}

static const char *refuses(const struct problem *problem)
{
    const ecornn_desc *desc = &problem->desc;
    const bool plain = !desc->proj && !problem->uniform && problem->resets < 0 &&
                       desc->models <= 1 && !(desc->flags & ECORNN_BATCH_MAJOR) &&
                       !(desc->dropout > 0) && problem->param_type == ECORNN_F32 &&
                       (problem->type == ECORNN_F32 || problem->type == ECORNN_BF16);
    return plain && find_cell(problem)
               ? NULL
               : "supports lstm, gru, gru-reset-first, rnn-tanh and rnn-relu, time major, f32 or "
                 "bf16, without projection, dropout and lengths";
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* oneDNN adds gradients of weights to what is there, so all threads clear them first. */
static void clear(dnnl_memory_t memory)
{
    const_dnnl_memory_desc_t md = NULL;
    dnnl_memory_get_memory_desc(memory, &md);
    char *const data = onednn_data(memory);
    const long chunk = 1 << 16, bytes = (long)dnnl_memory_desc_get_size(md);
#pragma omp parallel for
    for (long at = 0; at < bytes; at += chunk)
        memset(data + at, 0, (size_t)(bytes - at < chunk ? bytes - at : chunk));
}

static bool execute(const struct onednn_net *net, const struct onednn_layer *layer, int pass)
{
    return dnnl_primitive_execute(layer->primitive[pass], net->stream, layer->n_arguments[pass],
                                  layer->arguments[pass]) == dnnl_success;
}

static bool run_backward(const struct onednn_net *net)
{
    for (int k = net->n_layers - 1; k >= 0; k--) {
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            clear(net->layers[k].dpacked[m]);
        if (!execute(net, &net->layers[k], 1))
            return false;
    }
    return true;
}

static bool pack(const struct onednn_net *net)
{
    for (int k = 0; k < net->n_layers; k++)
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            for (int pass = 0; pass < net->passes; pass++)
                if (!onednn_reorder_run(net, &net->layers[k].packs[pass][m]))
                    return false;
    return true;
}

static bool unpack(const struct onednn_net *net)
{
    for (int k = 0; k < net->n_layers; k++)
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            if (!onednn_reorder_run(net, &net->layers[k].unpacks[m]))
                return false;
    return true;
}

/* The final states of a call become the initial states of the next. */
static void swap_states(const struct onednn_layer *layer)
{
    static const enum onednn_array pairs[2][2] = {{ONEDNN_SRC_H, ONEDNN_DST_H},
                                                  {ONEDNN_SRC_C, ONEDNN_DST_C}};
    for (int k = 0; k < 2; k++) {
        const dnnl_memory_t from = layer->memory[pairs[k][0]], to = layer->memory[pairs[k][1]];
        if (!from)
            continue;
        void *const data = onednn_data(from);
        dnnl_memory_set_data_handle(from, onednn_data(to));
        dnnl_memory_set_data_handle(to, data);
    }
}

static bool run_once(struct side *side, int set)
{
    struct onednn_net *net = side->context;
    const struct problem *p = net->problem;
    dnnl_memory_set_data_handle(net->layers[0].memory[ONEDNN_SRC],
                                (char *)p->x + (size_t)set * p->x_elements * p->element);
    const double start = now();
    if (p->training && !pack(net))
        return false;
    const double core = now();
    for (int k = 0; k < net->n_layers; k++)
        if (!execute(net, &net->layers[k], 0))
            return false;
    if (p->training && !run_backward(net))
        return false;
    dnnl_stream_wait(net->stream);
    for (int k = 0; p->streaming && k < net->n_layers; k++)
        swap_states(&net->layers[k]);
    side->core_seconds = now() - core;
    if (p->training && !unpack(net))
        return false;
    side->seconds = now() - start;
    return true;
}

static bool run(struct side *side, int repeats)
{
    return side_repeat(side, repeats, run_once);
}

/* ---- the fastest way ------------------------------------------------------------------------- */

/* One primitive for several layers needs equal widths.  In it the directions do not meet between
 * layers, so two directions in several layers are another net. */
static bool can_be_whole(const struct problem *problem)
{
    return problem->desc.layers <= 1 ||
           (problem->directions == 1 && problem->desc.input == problem->desc.hidden);
}

/* Seconds of the best of some runs; infinite on failure. */
static double best_run(struct side *side, struct onednn_net *net)
{
    enum { TRIALS_MIN = 3, TRIALS_MAX = 50 };
    const double trial_seconds = 0.1;
    struct side trial = *side;
    double best = 1e30, spent = 0;
    trial.context = net;
    for (int k = 0; k < TRIALS_MAX && (k < TRIALS_MIN || spent < trial_seconds); k++) {
        if (!run_once(&trial, 0))
            return 1e30;
        spent += trial.seconds;
        if (k && trial.seconds < best)
            best = trial.seconds;
    }
    return best;
}

/* States are zero again before the measurement. */
static void clear_states(const struct onednn_net *net)
{
    static const enum onednn_array states[] = {ONEDNN_SRC_H, ONEDNN_SRC_C, ONEDNN_DST_H,
                                               ONEDNN_DST_C};
    for (int k = 0; k < net->n_layers; k++)
        for (int s = 0; s < 4; s++)
            if (net->layers[k].memory[states[s]])
                clear(net->layers[k].memory[states[s]]);
}

static void describe(const struct onednn_net *net, struct side *side)
{
    const dnnl_version_t *version = dnnl_version();
    const char *name[2] = {"", ""};
    for (int pass = 0; pass < net->passes; pass++)
        dnnl_primitive_desc_query(net->layers[0].pd[pass], dnnl_query_impl_info_str, 0,
                                  (void *)&name[pass]);
    snprintf(side->detail, sizeof side->detail, "%d.%d.%d %s %s%s%s%s", version->major,
             version->minor, version->patch,
             net->kind == dnnl_forward_inference ? "FWD_I" : "FWD_D", name[0],
             name[1][0] ? " BWD " : "", name[1], net->n_layers > 1 ? " by layer" : "");
    side->weights = net->weights_bytes;
    side->workspace = net->workspace_bytes;
    side->reserve = net->reserve_bytes;
    if (!net->problem->training) { /* a run needs it, nothing keeps it */
        side->workspace += net->reserve_bytes;
        side->reserve = 0;
    }
}

/* ECORNN_ISA limits oneDNN as it limits ecornn; oneDNN reads its variable once. */
static void limit_isa(void)
{
    static const char *const names[][2] = {{"amx", "AVX512_CORE_AMX"},
                                           {"avx512bf16", "AVX512_CORE_BF16"},
                                           {"avx512vnni", "AVX512_CORE_VNNI"},
                                           {"avx512", "AVX512_CORE"},
                                           {"avxvnni", "AVX2_VNNI"},
                                           {"avx2", "AVX2"},
                                           {"sse2", "SSE41"}};
    const char *set = getenv("ECORNN_ISA");
    for (size_t k = 0; set && k < sizeof names / sizeof *names; k++)
        if (!strcmp(set, names[k][0]))
            setenv("ONEDNN_MAX_CPU_ISA", names[k][1], 1);
}

static bool prepare(struct side *side)
{
    const struct problem *problem = side->problem;
    double best = 1e30;
    limit_isa();
    for (int k = 0; k < 4; k++) {
        const bool inference = k & 1, whole = !(k & 2);
        if ((problem->training && inference) ||
            (whole ? !can_be_whole(problem) : problem->desc.layers <= 1))
            continue;
        struct onednn_net *net =
            onednn_net_create(side, find_cell(problem),
                              inference ? dnnl_forward_inference : dnnl_forward_training, whole);
        const double seconds = net ? best_run(side, net) : 1e30;
        if (seconds < best) {
            onednn_net_free(side->context);
            side->context = net;
            best = seconds;
        } else {
            onednn_net_free(net);
        }
    }
    if (!side->context)
        return say("%s: oneDNN has no primitive for it", problem->text);
    clear_states(side->context);
    describe(side->context, side);
    return true;
}

static bool results(struct side *side)
{
    struct onednn_net *net = side->context;
    if (!run_once(side, 0) || !onednn_reorder_run(net, &net->y))
        return false;
    side->y = onednn_data(net->y.to);
    if (!net->problem->training)
        return true;
    side->dx = onednn_data(net->layers[0].dmemory[ONEDNN_SRC]);
    for (int k = 0; k < net->n_layers; k++)
        onednn_copy_params(net, &net->layers[k], net->dparams, true);
    side->dparams = net->dparams;
    return net->dparams != NULL;
}

static void destroy(struct side *side)
{
    onednn_net_free(side->context);
}

const struct opponent opponent_onednn = {
    .name = "onednn",
    .about = "oneDNN, the fastest of its ways",
    .refuses = refuses,
    .prepare = prepare,
    .run = run,
    .results = results,
    .free = destroy,
};
