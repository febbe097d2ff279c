/*
 * Joins: one thread moves a piece of a step, up to 16 bytes.
 */
#include "common/type.h"
#include "gpu/arch/device.cuh"
#include "gpu/copy/join.h"

enum { JOIN_THREADS = 128, JOIN_BLOCKS = 8192 };

ECO_DEVICE size_t join_position(const struct eco_join *join, int32_t t, int32_t n, int32_t T,
                                int32_t width)
{
    const size_t row = join->batch_major ? (size_t)n * (size_t)T + (size_t)t
                                         : (size_t)t * (size_t)join->N + (size_t)n;
    return row * (size_t)width;
}

/* Has row n the step t, and does it count? */
ECO_DEVICE bool join_counts(const int32_t *lengths, const uint8_t *mask, int32_t T, int32_t N,
                            int32_t t, int32_t n)
{
    return t < (lengths ? lengths[n] : T) && (!mask || mask[(size_t)t * (size_t)N + (size_t)n]);
}

/* Widths and columns are in pieces. number: indexes pieces; 32 bits divide faster. */
template <typename piece, typename number>
static __global__ void join_pieces(const __grid_constant__ struct eco_join join)
{
    const number steps = join.back ? join.T : join.U * join.steps,
                 all = steps * (number)join.N * (number)join.width;
    for (number index = (number)blockIdx.x * blockDim.x + threadIdx.x; index < all;
         index += (number)gridDim.x * blockDim.x) {
        const number row = index / (number)join.width;
        const int32_t i = (int32_t)(index % (number)join.width),
                      t = (int32_t)(row / (number)join.N), n = (int32_t)(row % (number)join.N);
        const size_t narrow = join_position(&join, t, n, join.T, join.width) + (size_t)i,
                     wide = join_position(&join, t / join.steps, n, join.U, join.row) +
                            (size_t)join.at + (size_t)(t % join.steps) * (size_t)join.width +
                            (size_t)i;
        const piece *const from = (const piece *)(join.back ? join.wide : join.narrow);
        const bool there = from && join_counts(join.lengths, join.mask, join.T, join.N, t, n);
        piece *const to = (piece *)(join.back ? join.narrow : join.wide);
        to[join.back ? narrow : wide] = there ? from[join.back ? wide : narrow] : piece();
    }
}

/* Sets pieces of `bytes` bytes: an element has whole pieces or a piece whole elements. */
static void cut_into_pieces(struct eco_join *join, size_t bytes)
{
    const size_t element = eco_type_bytes(join->type);
    join->width = (int32_t)((size_t)join->width * element / bytes);
    join->row = (int32_t)((size_t)join->row * element / bytes);
    join->at = (int32_t)((size_t)join->at * element / bytes);
}

template <typename piece> static cudaError_t launch_join(struct eco_join *join, cudaStream_t stream)
{
    void *argument[] = {join};
    cut_into_pieces(join, sizeof(piece));
    const int64_t steps = join->back ? join->T : (int64_t)join->U * join->steps,
                  all = steps * join->N * join->width,
                  blocks = (all + JOIN_THREADS - 1) / JOIN_THREADS;
    const void *const kernel = all <= INT32_MAX ? (const void *)join_pieces<piece, uint32_t>
                                                : (const void *)join_pieces<piece, int64_t>;
    if (all == 0)
        return cudaSuccess;
    return cudaLaunchKernel(kernel, dim3(blocks < JOIN_BLOCKS ? (unsigned)blocks : JOIN_BLOCKS),
                            dim3(JOIN_THREADS), argument, 0, stream);
}

cudaError_t eco_launch_join(const struct eco_join *join, cudaStream_t stream)
{
    struct eco_join own = *join;
    const size_t element = eco_type_bytes(join->type),
                 elements = (size_t)join->width | (size_t)join->row | (size_t)join->at,
                 places = (size_t)join->narrow | (size_t)join->wide | elements * element;
    if (places % sizeof(uint4) == 0)
        return launch_join<uint4>(&own, stream);
    return element == 2   ? launch_join<uint16_t>(&own, stream)
           : element == 4 ? launch_join<uint32_t>(&own, stream)
                          : launch_join<uint64_t>(&own, stream);
}

static __global__ void join_row_lengths(int32_t *to, const int32_t *from, int32_t N, int32_t steps)
{
    const int32_t n = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (n < N)
        to[n] = from[n] / steps + (from[n] % steps != 0);
}

cudaError_t eco_launch_join_lengths(int32_t *to, const int32_t *from, int32_t N, int32_t steps,
                                    cudaStream_t stream)
{
    void *argument[] = {&to, &from, &N, &steps};
    return cudaLaunchKernel((const void *)join_row_lengths,
                            dim3((unsigned)(N + JOIN_THREADS - 1) / JOIN_THREADS),
                            dim3(JOIN_THREADS), argument, 0, stream);
}

static __global__ void join_row_bytes(const __grid_constant__ struct eco_join_bytes join)
{
    const int64_t all = (int64_t)join.U * join.N;
    for (int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; r < all;
         r += (int64_t)gridDim.x * blockDim.x) {
        const int64_t first = r / join.N * join.steps;
        const int32_t n = (int32_t)(r % join.N);
        bool any = false;
        for (int64_t t = first; t < first + join.steps && t < join.T; t++)
            any |= join_counts(join.lengths, join.mask, join.T, join.N, (int32_t)t, n) &&
                   join.from[t * join.N + n];
        join.to[r] = any;
    }
}

cudaError_t eco_launch_join_bytes(const struct eco_join_bytes *join, cudaStream_t stream)
{
    void *argument[] = {(void *)join};
    const int64_t blocks = ((int64_t)join->U * join->N + JOIN_THREADS - 1) / JOIN_THREADS;
    return cudaLaunchKernel((const void *)join_row_bytes,
                            dim3(blocks < JOIN_BLOCKS ? (unsigned)blocks : JOIN_BLOCKS),
                            dim3(JOIN_THREADS), argument, 0, stream);
}
