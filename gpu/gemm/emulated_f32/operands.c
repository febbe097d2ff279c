/*
 * Split operands in memory, and the blocks of a large product; see tiling.h.
 */
#include "gpu/gemm/emulated_f32/tiling.h"

size_t eco_emulated_scale_bytes(int32_t rows)
{
    return (size_t)eco_emulated_tiles(rows) * ECO_EMULATED_TILE * sizeof(float);
}

size_t eco_emulated_piece_bytes(enum eco_emulated_form form, int32_t rows, int32_t k)
{
    const size_t planes = form == ECO_EMULATED_PAIRS ? 2 : 1;
    return (size_t)eco_emulated_tiles(rows) * (size_t)eco_emulated_stages(k) * planes *
           ECO_EMULATED_PLANE_BYTES;
}

size_t eco_emulated_bytes(enum eco_emulated_form form, int32_t rows, int32_t k)
{
    return eco_emulated_scale_bytes(rows) + eco_emulated_piece_bytes(form, rows, k);
}

void eco_emulated_place(struct eco_emulated_operand *operand, void *at)
{
    operand->scales = at;
    operand->k_tiles = (char *)at + eco_emulated_scale_bytes(operand->rows);
}

int32_t eco_emulated_clusters(const struct eco_emulated_plan *plan, struct eco_emulated_size size,
                              int32_t k, int32_t processors)
{
    const int64_t busy = eco_emulated_pairs(size) * (plan->shared ? eco_emulated_stages(k) : 1);
    const int32_t most = processors / ECO_EMULATED_PAIR;
    return busy < most ? (int32_t)busy : most;
}

/* The largest part of k for which there is room, in even pieces; 0: none. */
static int32_t length(struct eco_emulated_size size, size_t room)
{
    const size_t scales = eco_emulated_scale_bytes(size.m) + eco_emulated_scale_bytes(size.n),
                 step = eco_emulated_piece_bytes(ECO_EMULATED_PAIRS, size.m, 1) +
                        eco_emulated_piece_bytes(ECO_EMULATED_PAIRS, size.n, 1);
    if (room < scales + step)
        return 0;
    const size_t steps = (room - scales) / step,
                 most_steps = ECO_EMULATED_MOST_K / ECO_EMULATED_DEPTH;
    const int32_t most = (int32_t)(steps < most_steps ? steps : most_steps) * ECO_EMULATED_DEPTH;
    return eco_emulated_stages(eco_ceil_div(size.k, eco_ceil_div(size.k, most))) *
           ECO_EMULATED_DEPTH;
}

int32_t eco_emulated_length(struct eco_emulated_size size, int32_t processors, size_t room,
                            bool shared)
{
    const size_t aside = shared ? (size_t)processors * ECO_EMULATED_PART_BYTES : 0;
    return room > aside ? length(size, room - aside) : 0;
}
