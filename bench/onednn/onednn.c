/*
 * oneDNN as an opponent: which cells it has, and which of its ways is the fastest here.  For
 * inference that may be the primitive for training; for several layers one primitive or one for
 * each.
 */
#include "onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/stats.h"

static const struct onednn_cell cells[] = {
    {"lstm",
     dnnl_vanilla_lstm,
     dnnl_alg_kind_undef,
     4,
     4,
     2,
     {"i", "f", "g", "o"},
     {"i", "f", "g", "o"},
     {"i", "f", "g", "o"}},
    {"gru",
     dnnl_lbr_gru,
     dnnl_alg_kind_undef,
     3,
     4,
     1,
     {"z", "r", "n"},
     {"z", "r", "q"},
     {"z", "r", "n", "q"}},
    {"gru-reset-first",
     dnnl_vanilla_gru,
     dnnl_alg_kind_undef,
     3,
     3,
     1,
     {"z", "r", "n"},
     {"z", "r", "n"},
     {"z", "r", "n"}},
    {"rnn-tanh", dnnl_vanilla_rnn, dnnl_eltwise_tanh, 1, 1, 1, {"h"}, {"h"}, {"h"}},
    {"rnn-relu", dnnl_vanilla_rnn, dnnl_eltwise_relu, 1, 1, 1, {"h"}, {"h"}, {"h"}}};

/* The fastest of several is chosen by the best of a few runs. */
enum { TRIALS_MIN = 3, TRIALS_MAX = 50 };
static const double TRIAL_SECONDS = 0.1;

static const struct onednn_cell *supported(const struct problem *problem)
{
    const ecornn_desc *desc = &problem->desc;
    if (desc->proj || problem->uniform || desc->order != ECORNN_TIME_MAJOR || desc->dropout > 0 ||
        problem->param_type != ECORNN_F32)
        return NULL;
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
        if (desc->cell == ecornn_cell_find(cells[k].name))
            return &cells[k];
    return NULL;
}

/* One primitive for several layers: of equal widths; and its directions do not meet between layers,
 * so both together are another net. */
static bool can_be_whole(const struct problem *problem)
{
    return problem->desc.layers <= 1 ||
           (problem->directions == 1 && problem->desc.input == problem->desc.hidden);
}

/* Seconds of its best run; infinite on failure. */
static double try(struct onednn_net *net, struct opponent *opponent)
{
    double best = 1e30, spent = 0;
    for (int k = 0; k < TRIALS_MAX && (k < TRIALS_MIN || spent < TRIAL_SECONDS); k++) {
        if (!onednn_net_run(net, opponent, 0))
            return 1e30;
        spent += opponent->seconds;
        if (k && opponent->seconds < best)
            best = opponent->seconds;
    }
    return best;
}

static bool create(struct opponent *opponent, const ecornn_plan *plan)
{
    const struct problem *problem = opponent->problem;
    const struct onednn_cell *cell = supported(problem);
    double best = 1e30;
    for (int k = 0; cell && k < 4; k++) {
        const struct onednn_way way = {k & 1 ? dnnl_forward_inference : dnnl_forward_training,
                                       !(k & 2)};
        if ((problem->training && way.kind == dnnl_forward_inference) ||
            (way.whole ? !can_be_whole(problem) : problem->desc.layers <= 1))
            continue;
        struct onednn_net *net = onednn_net_create(problem, plan, cell, way);
        const double seconds = net ? try(net, opponent) : 1e30;
        if (seconds < best) {
            onednn_net_free(opponent->own);
            opponent->own = net;
            best = seconds;
        } else {
            onednn_net_free(net);
        }
    }
    if (!opponent->own) {
        fprintf(stderr,
                "bench: %s: oneDNN does lstm, gru, gru-reset-first, rnn-tanh and rnn-relu, time "
                "major, f32 or bf16, without projection, dropout and lengths\n",
                problem->text);
        return false;
    }
    onednn_net_reset(opponent->own);
    onednn_net_describe(opponent->own, opponent);
    return true;
}

static bool run(struct opponent *opponent, int set)
{
    return onednn_net_run(opponent->own, opponent, set);
}

static bool fetch(struct opponent *opponent)
{
    return onednn_net_fetch(opponent->own, opponent);
}

static void destroy(struct opponent *opponent)
{
    onednn_net_free(opponent->own);
}

const struct opponent_kind opponent_onednn = {
    "onednn", "the fastest of its ways", create, run, fetch, destroy};
