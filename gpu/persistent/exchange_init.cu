/*
 * Prepares the exchange of a persistent kernel: marks words as not yet written, and zeroes padding.
 */
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/kernels.h"

enum {
    INIT_THREADS = 256,
    TILE_ROWS = 8,
    SCALE_READS = TILE_ROWS / 4, /* of a scale block and a tile */
    BLOCKS = 528,
    LEAST_STEPS = 4 /* of a thread */
};

/* What product b gathers in a step of a group, in 16 bytes: numbers, then scales. */
static __host__ __device__ int32_t numbers_of_job(const struct eco_exchange_call *call, int32_t b)
{
    return WARP * call->row_tiles * call->k_blocks[b];
}
static __host__ __device__ int32_t reads_of(const struct eco_exchange_call *call, int32_t blocks)
{
    int32_t reads = 0;
    for (int32_t b = 0; b < blocks; b++)
        reads += numbers_of_job(call, b) + call->scale_blocks * call->row_tiles * SCALE_READS;
    return reads;
}

/* Consecutive existing numbers of a row, from the kth on. */
static __device__ int32_t there_from(const struct eco_exchange_call *call, int32_t b, int32_t k)
{
    if (call->scale_block[b] == 0) { /* accumulators begin at whole reads */
        const int32_t unit = k < call->column ? k : (int32_t)((uint32_t)k % (uint32_t)call->column);
        return min(call->hidden - unit, call->width[b] - k);
    }
    const int32_t scale_block = k / call->scale_block[b],
                  in_scale_block = k - scale_block * call->scale_block[b];
    return in_scale_block < call->runs[b] * call->run
               ? call->hidden - scale_block * call->run - in_scale_block % call->run
               : 0;
}

/* Read i of a group: all bits set where there are units, 0 elsewhere. */
static __device__ void mask_units(const struct eco_exchange_call *call, int32_t group, int32_t i,
                                  uint32_t word[4])
{
    const int32_t first = reads_of(call, 1), b = i >= first;
    const int32_t at = b ? i - first : i, lane = at % WARP, numbers = numbers_of_job(call, b);
    const int32_t piece = (int32_t)((uint32_t)at / WARP / (uint32_t)call->row_tiles);
    const int32_t tile = at / WARP - piece * call->row_tiles;
    const int32_t of_word = 4 / call->operand, rows = call->rows - group * call->group_rows;
    if (at >= numbers) {
        const int32_t n = (at - numbers) * 4 % (call->row_tiles * TILE_ROWS);
#pragma unroll
        for (int32_t w = 0; w < 4; w++)
            word[w] = n + w < min(call->group_rows, rows) ? UINT32_MAX : 0;
        return;
    }
    const bool row = tile * TILE_ROWS + lane / 4 < min(call->group_rows, rows);
    /* Two or four words have consecutive units. */
    const int32_t k_block = ECO_PERSISTENT_BYTES / call->operand;
    const bool halves = call->scale_block[b] * 2 == k_block;
    const int32_t k = piece * k_block + lane % 4 * (halves ? k_block / 8 : k_block / 4),
                  next = halves ? k_block / 2 : 2 * of_word;
#pragma unroll
    for (int32_t w = 0; w < 4; w++) {
        const int32_t of = w % 2 * of_word, there = row ? there_from(call, b, k + w / 2 * next) : 0;
        word[w] = (of < there ? 0x0000FFFF : 0) | (of + of_word - 1 < there ? 0xFFFF0000 : 0);
    }
}

/* Word i of the resets of a job, [words, rows]. */
static __device__ uint32_t word_of_resets(const struct eco_exchange_call *call, int32_t job,
                                          int32_t i)
{
    const struct eco_reset_words *resets = &call->resets;
    const int32_t n = i % call->rows, first = i / call->rows * 32 - 1;
    const int32_t end = resets->lengths ? min(resets->lengths[n], resets->steps) : resets->steps;
    uint32_t word = 0;
#pragma unroll
    for (int32_t bit = 0; bit < 32; bit++) {
        const int32_t t = resets->t[job] + (first + bit) * resets->t_step[job];
        if (t >= resets->first[job] && t < end && resets->bytes[(int64_t)t * call->rows + n] != 0)
            word |= UINT32_C(1) << bit;
    }
    return word;
}

/* The blocks of the first reads write the words of resets, each a part. */
static __device__ void write_resets(const struct eco_exchange_call *call)
{
    const int32_t job = (int32_t)blockIdx.z, words = (call->steps + 2 + 31) / 32 * call->rows;
    for (int32_t i = (int32_t)(blockIdx.y * INIT_THREADS + threadIdx.x); i < words;
         i += (int32_t)gridDim.y * INIT_THREADS)
        call->resets.words[job][i] = word_of_resets(call, job, i);
}

/* A thread writes the same read of several steps; the layout is that of block.cuh. Grid: reads of a
 * group, groups and then steps, jobs. */
static __global__ void mark_exchange(const __grid_constant__ struct eco_exchange_call call)
{
    launch_dependent_grids();
    const int32_t masked = reads_of(&call, call.blocks), reads = masked + call.means;
    const int32_t i = (int32_t)(blockIdx.x * INIT_THREADS + threadIdx.x);
    const int32_t step = (int32_t)blockIdx.y / call.groups,
                  group = (int32_t)blockIdx.y - step * call.groups;
    const int32_t all = reads * call.groups, apart = (int32_t)gridDim.y / call.groups;
    uint32_t word[4] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    if (i < reads) {
        if (!call.whole && i < masked)
            mask_units(&call, group, i, word);
        uint4 *to = (uint4 *)call.exchange[blockIdx.z] + group * reads + i;
        for (int32_t at = step; at < call.steps; at += apart)
            to[(int64_t)at * all] = make_uint4(word[0], word[1], word[2], word[3]);
    }
    /* The first block waits for the preceding kernels, and so do those that read the caller's
     * resets; the next kernel waits for all blocks. */
    const bool resets = blockIdx.x == 0 && call.resets.bytes;
    if (resets || (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0))
        wait_on_dependent_grids();
    if (resets)
        write_resets(&call);
}

cudaError_t eco_launch_exchange(const struct eco_exchange_call *call, bool overlap,
                                cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const int32_t across =
        (reads_of(call, call->blocks) + call->means + INIT_THREADS - 1) / INIT_THREADS;
    const int32_t wanted = (BLOCKS + across * call->groups - 1) / (across * call->groups),
                  most = (call->steps + LEAST_STEPS - 1) / LEAST_STEPS;
    return eco_launch((const void *)mark_exchange,
                      dim3((unsigned)across,
                           (unsigned)(call->groups * (wanted < most ? wanted : most)),
                           (unsigned)call->n),
                      dim3(INIT_THREADS), argument, overlap, stream);
}
