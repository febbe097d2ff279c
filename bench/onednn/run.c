/*
 * Runs of a net: weights to the layouts of the primitives, forward, backward, gradients back.
 */
#include "net.h"

#include <string.h>

#include "bench/core/stats.h"

/* Their gradients of weights are added to what is there; all threads clear them. */
static void clear(dnnl_memory_t memory, onednn_md md)
{
    char *const data = onednn_data(memory);
    const long piece = 1 << 16, bytes = (long)dnnl_memory_desc_get_size(md);
#pragma omp parallel for
    for (long at = 0; at < bytes; at += piece)
        memset(data + at, 0, (size_t)(bytes - at < piece ? bytes - at : piece));
}

static bool execute(const struct onednn_net *net, const struct onednn_piece *piece, int pass)
{
    return dnnl_primitive_execute(piece->primitive[pass], net->stream, piece->arg_count[pass],
                                  piece->args[pass]) == dnnl_success;
}

/* What a call left is what the next begins with. */
static void swap_states(const struct onednn_piece *piece)
{
    static const enum onednn_array pairs[2][2] = {{ONEDNN_SRC_H, ONEDNN_DST_H},
                                                  {ONEDNN_SRC_C, ONEDNN_DST_C}};
    for (int k = 0; k < 2; k++) {
        const dnnl_memory_t from = piece->state[pairs[k][0]], to = piece->state[pairs[k][1]];
        if (!from)
            continue;
        void *const data = onednn_data(from);
        dnnl_memory_set_data_handle(from, onednn_data(to));
        dnnl_memory_set_data_handle(to, data);
    }
}

void onednn_net_reset(struct onednn_net *net)
{
    for (int k = 0; k < net->piece_count; k++)
        for (enum onednn_array array = 0; array < ONEDNN_ARRAYS; array++)
            if (net->pieces[k].state[array])
                memset(onednn_data(net->pieces[k].state[array]), 0,
                       dnnl_memory_desc_get_size(net->pieces[k].recipe.md[array]));
}

static bool run_backward(const struct onednn_net *net)
{
    for (int k = net->piece_count - 1; k >= 0; k--) {
        const struct onednn_piece *piece = &net->pieces[k];
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            clear(piece->dpacked[m],
                  onednn_argument_md(piece->pd[1], onednn_darguments[onednn_matrices[m]]));
        if (!execute(net, piece, 1))
            return false;
    }
    return true;
}

static bool run_packs(const struct onednn_net *net)
{
    for (int k = 0; k < net->piece_count; k++)
        for (int p = 0; p < net->pieces[k].pack_count; p++)
            if (!onednn_reorder_run(net, &net->pieces[k].packs[p]))
                return false;
    return true;
}

static bool run_unpacks(const struct onednn_net *net)
{
    for (int k = 0; k < net->piece_count; k++)
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            if (!onednn_reorder_run(net, &net->pieces[k].unpacks[m]))
                return false;
    return true;
}

bool onednn_net_run(struct onednn_net *net, struct opponent *opponent, int set)
{
    const struct problem *p = net->problem;
    dnnl_memory_set_data_handle(net->pieces[0].src,
                                (char *)p->x + (size_t)set * p->x_elements * p->element);
    const double start = now();
    if (p->training && !run_packs(net))
        return false;
    const double core = now();
    for (int k = 0; k < net->piece_count; k++)
        if (!execute(net, &net->pieces[k], 0))
            return false;
    if (p->training && !run_backward(net))
        return false;
    dnnl_stream_wait(net->stream);
    for (int k = 0; p->streaming && k < net->piece_count; k++)
        swap_states(&net->pieces[k]);
    opponent->core_seconds = now() - core;
    if (p->training && !run_unpacks(net))
        return false;
    opponent->seconds = now() - start;
    return true;
}

bool onednn_net_fetch(struct onednn_net *net, struct opponent *opponent)
{
    if (!onednn_reorder_run(net, &net->y))
        return false;
    opponent->y = onednn_data(net->y.to);
    if (!net->problem->training)
        return true;
    opponent->dx = onednn_data(net->pieces[0].dsrc);
    for (int k = 0; k < net->piece_count; k++)
        onednn_params_copy(net, &net->pieces[k], net->dparams, true);
    opponent->dparams = net->dparams;
    return net->dparams != NULL;
}
