/*
 * What blocks of a resident kernel tell each other, before it begins: words that are not yet
 * written, and zeros where nobody will write.
 */
#include "gpu/kernels.h"
#include "gpu/word.cuh"

#include "gpu/ahead.cuh"

enum { THREADS = 256, LANES = 32, TILE_ROWS = 8, BLOCKS = 528 };

/* Does a number of row n and column k belong to a unit of the batch? */
static __device__ bool exists(const struct eco_exchange_call *call, int32_t width, int32_t n,
                              int32_t k)
{
    return n < call->rows && k < width && k % call->column < call->hidden;
}

/* Reads of a group in a step, of the first `blocks` of them. */
static __host__ __device__ int32_t reads_of(const struct eco_exchange_call *call, int32_t blocks)
{
    int32_t reads = 0;
    for (int32_t b = 0; b < blocks; b++)
        reads += LANES * call->reads * call->row_tiles * call->items[b];
    return reads;
}

/* What read i is of: all bits set where there are units, else 0. */
static __device__ void mask_units(const struct eco_exchange_call *call, int32_t i, uint32_t word[4])
{
    const int32_t reads = reads_of(call, call->blocks), of_group = i % reads;
    const int32_t first = reads_of(call, 1), b = of_group >= first;
    const int32_t at = b ? of_group - first : of_group, width = call->width[b];
    const int32_t lane = at % LANES, read = at / LANES % call->reads;
    const int32_t tile = at / LANES / call->reads;
    const int32_t n = tile % call->row_tiles * TILE_ROWS + lane / 4;
    const int32_t of_word = 4 / call->sent;
    const int32_t lanes_k = tile / call->row_tiles * 4 + lane % 4;
    const int32_t k = (lanes_k * call->reads + read) * 4 * of_word;
    const int32_t row = n < call->group_rows ? i / reads * call->group_rows + n : call->rows;
    for (int32_t w = 0; w < 4; w++) {
        const bool there = exists(call, width, row, k + w * of_word);
        const bool last = exists(call, width, row, k + w * of_word + of_word - 1);
        word[w] = (there ? 0x0000FFFF : 0) | (last ? 0xFFFF0000 : 0);
    }
}

/* The same read of all steps to a thread; as resident.cuh lays them out: [groups, blocks,
 * items, rows / 8, reads, lanes]. */
static __global__ void prepare(const __grid_constant__ struct eco_exchange_call call)
{
    const int32_t all = reads_of(&call, call.blocks) * call.groups;
    const int32_t i = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    uint32_t word[4] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    if (i < all) {
        if (!call.whole)
            mask_units(&call, i, word);
        uint4 *to = (uint4 *)call.exchange[blockIdx.z] + i;
        for (int32_t step = (int32_t)blockIdx.y; step < call.steps; step += (int32_t)gridDim.y)
            to[(int64_t)step * all] = make_uint4(word[0], word[1], word[2], word[3]);
    }
    wait_for_kernels_ahead(); /* who comes next waits for this one only */
}

cudaError_t eco_launch_exchange(const struct eco_exchange_call *call, bool overlap,
                                cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const int32_t reads = reads_of(call, call->blocks) * call->groups;
    const int32_t across = (reads + THREADS - 1) / THREADS, most = (BLOCKS + across - 1) / across;
    return eco_launch((const void *)prepare,
                      dim3((unsigned)across, (unsigned)(call->steps < most ? call->steps : most),
                           (unsigned)call->n),
                      dim3(THREADS), argument, overlap, stream);
}
