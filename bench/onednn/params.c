/*
 * Our parameters and theirs.
 */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t offset_of(const ecornn_plan *plan, const char *name)
{
    for (int k = 0; k < ecornn_param_count(plan); k++) {
        ecornn_param param;
        if (ecornn_param_get(plan, k, &param) == ECORNN_OK && !strcmp(param.name, name))
            return param.offset;
    }
    return SIZE_MAX;
}

/* Of all layers and directions: where our parameters lie that theirs are made of. */
bool onednn_params_find(struct onednn_net *net, const ecornn_plan *plan)
{
    const struct onednn_cell *cell = net->cell;
    const int D = net->problem->directions;
    const int L = net->problem->desc.layers ? net->problem->desc.layers : 1;
    const int each = 2 * cell->gates + cell->biases;
    net->offsets = calloc((size_t)(L * D * each), sizeof *net->offsets);
    for (int k = 0; net->offsets && k < L * D * each; k++) {
        const int place = k / each, g = k % each, r = g - cell->gates, b = r - cell->gates;
        const bool back = place % D || net->problem->desc.direction == ECORNN_REVERSE;
        char name[64];
        snprintf(name, sizeof name, "%d.%s.%s.%s", place / D, back ? "rev" : "fwd",
                 r < 0   ? "W"
                 : b < 0 ? "R"
                         : "b",
                 r < 0   ? cell->W[g]
                 : b < 0 ? cell->R[r]
                         : cell->bias[b]);
        net->offsets[k] = offset_of(plan, name);
        if (net->offsets[k] == SIZE_MAX) {
            fprintf(stderr, "bench: %s: no parameter %s\n", net->problem->text, name);
            return false;
        }
    }
    return net->offsets != NULL;
}

/* Copies the parameters of a piece between our block and its plain arrays. */
void onednn_params_copy(struct onednn_net *net, const struct onednn_piece *piece, float *block,
                        bool to_block)
{
    const struct onednn_cell *cell = net->cell;
    const dnnl_memory_t *const memory = to_block ? piece->dplain : piece->plain;
    const size_t H = (size_t)net->problem->desc.hidden;
    const int counts[ONEDNN_MATRICES] = {cell->gates, cell->gates, cell->biases};
    const size_t elements[ONEDNN_MATRICES] = {H * (size_t)piece->width, H * H, H};
    const int D = net->problem->directions;
    float *at[ONEDNN_MATRICES];
    for (int m = 0; m < ONEDNN_MATRICES; m++)
        at[m] = onednn_data(memory[m]);
    const size_t *offset =
        net->offsets + (size_t)(piece->first * D * (2 * cell->gates + cell->biases));
    for (int place = 0; place < piece->layers * D; place++)
        for (int m = 0; m < ONEDNN_MATRICES; m++)
            for (int g = 0; g < counts[m]; g++, offset++, at[m] += elements[m]) {
                float *const ours = block + *offset;
                memcpy(to_block ? ours : at[m], to_block ? at[m] : ours,
                       elements[m] * sizeof(float));
            }
}
