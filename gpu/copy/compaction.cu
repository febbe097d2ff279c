/*
 * Compaction: a warp counts the steps of a row, and one thread moves a piece of it, up to 16 bytes.
 */
#include "common/type.h"
#include "gpu/arch/device.cuh"
#include "gpu/copy/element.cuh"
#include "gpu/tile/random.cuh" /* device functions of common headers */
#include "gpu/copy/compaction.h"

enum { SQUEEZE_THREADS = 128, SQUEEZE_BLOCKS = 8192 };

/* ---- numbers --------------------------------------------------------------------------------- */

static __global__ void count_steps(const __grid_constant__ struct eco_compact_run run)
{
    const int32_t n = (int32_t)(blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP),
                  lane = (int32_t)(threadIdx.x % WARP);
    int32_t before = 0;
    if (n >= run.N)
        return;
    for (int32_t t0 = 0; t0 < run.T; t0 += WARP) {
        const int32_t t = t0 + lane;
        const bool counts = t < run.T && eco_compact_is_counted(&run, t, n);
        const unsigned all = __ballot_sync(~0u, counts);
        const int32_t counted = before + __popc(all & (~0u >> (WARP - 1 - lane)));
        if (t < run.T)
            run.counted[(int64_t)t * run.N + n] = counted;
        before += __popc(all);
    }
    if (lane == 0)
        run.lengths[n] = before;
}

cudaError_t eco_launch_count(const struct eco_compact_run *run, cudaStream_t stream)
{
    void *argument[] = {(void *)run};
    const unsigned rows = SQUEEZE_THREADS / WARP, blocks = ((unsigned)run->N + rows - 1) / rows;
    return cudaLaunchKernel((const void *)count_steps, dim3(blocks), dim3(SQUEEZE_THREADS),
                            argument, 0, stream);
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Widths and strides in pieces. */
struct call {
    struct eco_compact_run run;
    struct eco_compact_move move;
};

/* A piece of a step. */
struct at {
    int32_t lane, t, n;
    int64_t i;
};

ECO_DEVICE struct at at_of(const struct call *call, int64_t index)
{
    const int64_t row = index / call->move.width, step = row / call->run.N;
    return {(int32_t)(step / call->run.T), (int32_t)(step % call->run.T),
            (int32_t)(row % call->run.N), index % call->move.width};
}

ECO_DEVICE int64_t all_of(const struct call *call)
{
    return (int64_t)call->move.lanes * call->run.T * call->run.N * call->move.width;
}

ECO_DEVICE size_t element_of_step(const struct eco_compact_move *move, const struct at *at,
                                  int32_t t)
{
    return (size_t)at->lane * move->lane + (size_t)t * move->step + (size_t)at->n * move->row +
           (size_t)at->i;
}

template <typename piece>
static __global__ void move_pieces(const __grid_constant__ struct call call)
{
    const struct eco_compact_run *const run = &call.run;
    const struct eco_compact_move *const move = &call.move;
    const int64_t all = all_of(&call);
    for (int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; index < all;
         index += (int64_t)gridDim.x * blockDim.x) {
        const struct at at = at_of(&call, index);
        const bool counts = eco_compact_is_counted(run, at.t, at.n),
                   repeats = move->kind == ECO_COMPACT_REPEATS;
        const int32_t k =
            counts || repeats ? eco_compact_source(run, at.lane % run->directions, at.t, at.n) : -1;
        piece *const to = (piece *)move->to;
        const piece *const from = (const piece *)move->from;
        if (move->kind != ECO_COMPACT_GATHER)
            to[element_of_step(move, &at, at.t)] =
                k < 0 ? piece() : from[element_of_step(move, &at, k)];
        else if (counts)
            to[element_of_step(move, &at, k)] = from[element_of_step(move, &at, at.t)];
        else
            to[element_of_step(move, &at, eco_compact_past_end(run, at.t, at.n))] = piece();
    }
}

/* Adds the steps that repeat a step, which follow it in the direction's order. */
static __global__ void move_sums(const __grid_constant__ struct call call)
{
    const struct eco_compact_run *const run = &call.run;
    const struct eco_compact_move *const move = &call.move;
    const struct eco_plane to = {move->to, 0, 0, move->type},
                           from = {(void *)move->from, 0, 0, move->type};
    const int64_t all = all_of(&call);
    for (int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; index < all;
         index += (int64_t)gridDim.x * blockDim.x) {
        const struct at at = at_of(&call, index);
        const int32_t direction = at.lane % run->directions, by = run->reversed[direction] ? -1 : 1;
        if (!eco_compact_is_counted(run, at.t, at.n))
            continue;
        const int32_t k = eco_compact_source(run, direction, at.t, at.n);
        double sum = get(&from, element_of_step(move, &at, at.t));
        for (int32_t t = at.t + by; t >= 0 && t < run->T && !eco_compact_is_counted(run, t, at.n) &&
                                    eco_compact_source(run, direction, t, at.n) == k;
             t += by)
            sum += get(&from, element_of_step(move, &at, t));
        set(&to, element_of_step(move, &at, k), sum);
    }
}

/* Sets pieces of `bytes` bytes: an element has whole pieces or a piece whole elements. */
static void take_pieces(struct eco_compact_move *move, size_t bytes)
{
    const size_t element = eco_type_bytes(move->type);
    move->step = move->step * element / bytes;
    move->row = move->row * element / bytes;
    move->lane = move->lane * element / bytes;
    move->width = (int32_t)((size_t)move->width * element / bytes);
}

/* Are all sizes of a move multiples of 16 bytes? */
static bool is_in_pieces(const struct eco_compact_move *move)
{
    const size_t elements = move->step | move->row | move->lane | (size_t)move->width;
    return (((size_t)move->from | (size_t)move->to | elements * eco_type_bytes(move->type)) %
            sizeof(uint4)) == 0;
}

static const void *compact_kernel(struct eco_compact_move *move)
{
    const size_t element = eco_type_bytes(move->type);
    if (move->kind == ECO_COMPACT_SUMS)
        return (const void *)move_sums;
    if (is_in_pieces(move)) {
        take_pieces(move, sizeof(uint4));
        return (const void *)move_pieces<uint4>;
    }
    return element == 1   ? (const void *)move_pieces<uint8_t>
           : element == 2 ? (const void *)move_pieces<uint16_t>
           : element == 4 ? (const void *)move_pieces<uint32_t>
                          : (const void *)move_pieces<uint64_t>;
}

cudaError_t eco_launch_compact(const struct eco_compact_run *run,
                               const struct eco_compact_move *move, cudaStream_t stream)
{
    struct call call = {*run, *move};
    void *argument[] = {&call};
    const void *const kernel = compact_kernel(&call.move);
    const int64_t all = (int64_t)call.move.lanes * run->T * run->N * call.move.width,
                  blocks = (all + SQUEEZE_THREADS - 1) / SQUEEZE_THREADS;
    return cudaLaunchKernel(kernel,
                            dim3(blocks < SQUEEZE_BLOCKS ? (unsigned)blocks : SQUEEZE_BLOCKS),
                            dim3(SQUEEZE_THREADS), argument, 0, stream);
}
