/*
 * Parameters to packed weights, and gradients back: many moves in one launch, since a small layer's
 * launches take longer than what they do.
 */
#include "gpu/copy/element.cuh"
#include "gpu/kernels.h"

enum {
    PARAM_THREADS = 128,
    EACH = 8,
    PARAM_PIECE = PARAM_THREADS * EACH
}; /* elements of a block */

template <typename number> /* that counts the move's elements */
ECO_DEVICE void move_piece(const struct eco_param_move *move, bool add, number first)
{
    const number all = (number)move->rows * (number)move->width;
    const number width = (number)move->width;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const number i = first + (number)(k * PARAM_THREADS) + threadIdx.x;
        if (i >= all)
            return;
        const number row = i / width, column = i % width;
        const size_t to = row * move->to.row + column;
        const double value = get(&move->from, row * move->from.row + column);
        set(&move->to, to, add ? get(&move->to, to) + value : value);
    }
}

static __global__ void move_params(const __grid_constant__ struct eco_param_moves moves)
{
    int k = 0;
    while (blockIdx.x >= moves.end[k])
        k++;
    const struct eco_param_move *move = &moves.move[k];
    const uint32_t block = blockIdx.x - (k > 0 ? moves.end[k - 1] : 0);
    if ((uint64_t)move->rows * (uint64_t)move->width <= INT32_MAX)
        move_piece(move, moves.add, block * (uint32_t)PARAM_PIECE);
    else
        move_piece(move, moves.add, (uint64_t)block * PARAM_PIECE);
}

cudaError_t eco_launch_params(struct eco_param_moves *moves, int count, cudaStream_t stream)
{
    uint64_t blocks = 0;
    void *argument[] = {moves};
    for (int k = 0; k < count; k++) {
        const struct eco_param_move *move = &moves->move[k];
        blocks += ((uint64_t)move->rows * (uint64_t)move->width + PARAM_PIECE - 1) / PARAM_PIECE;
        if (blocks > INT32_MAX)
            return cudaErrorInvalidConfiguration;
        moves->end[k] = (uint32_t)blocks;
    }
    if (blocks == 0)
        return cudaSuccess;
    return cudaLaunchKernel((const void *)move_params, dim3((unsigned)blocks), dim3(PARAM_THREADS),
                            argument, 0, stream);
}
