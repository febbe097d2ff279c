/*
 * Packs parameters into weights, and unpacks gradients: many moves in one launch, because in small
 * layers a launch takes longer than a move.
 */
#include "gpu/copy/element.cuh"
#include "gpu/copy/param_moves.h"

enum {
    PARAM_THREADS = 128,
    EACH = 8,
    PARAM_PIECE = PARAM_THREADS * EACH
}; /* elements of a block */

template <typename number> /* indexes the move's elements */
ECO_DEVICE void move_piece(const struct eco_param_move *move, bool add, number first)
{
    const number all = (number)move->rows * (number)move->width;
    const number width = (number)move->width;
    const struct eco_plane added = {.data = (void *)move->added, .type = move->from.type};
    double value[EACH];
    size_t to[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) { /* all loads are issued before the first is used */
        const number i = first + (number)(k * PARAM_THREADS) + threadIdx.x;
        const number row = i / width, column = i % width;
        const size_t from = row * move->from.row + column;
        to[k] = row * move->to.row + column;
        if (i < all) {
            value[k] = get(&move->from, from);
            value[k] += move->added ? get(&added, from) : 0;
            value[k] += add ? get(&move->to, to[k]) : 0;
        }
    }
#pragma unroll
    for (int k = 0; k < EACH; k++)
        if (first + (number)(k * PARAM_THREADS) + threadIdx.x < all)
            set(&move->to, to[k], value[k]);
}

ECO_DEVICE size_t bytes_of(ecornn_type type)
{
    return type == ECORNN_F64 ? 8 : type == ECORNN_F32 ? 4 : 2;
}

/* Can the piece be copied in words of 16 bytes: whole, contiguous, and of one type? */
ECO_DEVICE bool is_words(const struct eco_param_move *move, bool add, uint64_t first)
{
    const uint64_t all = (uint64_t)move->rows * (uint64_t)move->width;
    const bool dense = move->rows == 1 || (move->to.row == (size_t)move->width &&
                                           move->from.row == (size_t)move->width);
    return dense && !add && !move->added && move->to.type == move->from.type &&
           first + PARAM_PIECE <= all &&
           ((uintptr_t)move->to.data | (uintptr_t)move->from.data) % sizeof(uint4) == 0;
}

ECO_DEVICE void copy_piece(const struct eco_param_move *move, uint64_t first)
{
    enum { MOST = PARAM_PIECE * sizeof(double) / sizeof(uint4) / PARAM_THREADS };
    const size_t bytes = bytes_of(move->to.type);
    const uint4 *from = (const uint4 *)((const char *)move->from.data + first * bytes);
    uint4 *to = (uint4 *)((char *)move->to.data + first * bytes);
    const int words = (int)(PARAM_PIECE * bytes / sizeof(uint4) / PARAM_THREADS); /* of a thread */
    uint4 word[MOST];
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (k < words)
            word[k] = from[k * PARAM_THREADS + (int)threadIdx.x];
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (k < words)
            to[k * PARAM_THREADS + (int)threadIdx.x] = word[k];
}

static __global__ void move_params(const __grid_constant__ struct eco_param_moves moves)
{
    int k = 0;
    while (blockIdx.x >= moves.end[k])
        k++;
    const struct eco_param_move *move = &moves.move[k];
    const uint32_t block = blockIdx.x - (k > 0 ? moves.end[k - 1] : 0);
    const uint64_t first = (uint64_t)block * PARAM_PIECE;
    if (is_words(move, moves.add, first))
        copy_piece(move, first);
    else if ((uint64_t)move->rows * (uint64_t)move->width <= INT32_MAX)
        move_piece(move, moves.add, (uint32_t)first);
    else
        move_piece(move, moves.add, first);
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
