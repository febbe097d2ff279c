/*
 * Moves rows: order, padding, dropout, types, projections. One thread for each element.
 */
#include "common/type.h"
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/copy/element.cuh"
#include "gpu/kernels.h"
#include "gpu/tile/random.cuh"

ECO_DEVICE size_t element_index(const struct eco_plane *plane, int32_t t, int32_t n, int32_t i)
{
    return (size_t)t * plane->step + (size_t)n * plane->row + (size_t)i;
}

/* ---- launches: x along a row, y over rows (and steps) ---------------------------------------- */

enum { MOVE_THREADS = 128, MOVE_BLOCKS = 65535 };

static cudaError_t launch(bool overlap, const void *kernel, const void *call, int32_t width,
                          int64_t rows, cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    unsigned threads = MOVE_THREADS;
    while (threads > 32 && (int32_t)threads / 2 >= width)
        threads /= 2;
    if (width <= 0 || rows <= 0)
        return cudaSuccess;
    const dim3 grid(((unsigned)width + threads - 1) / threads,
                    rows < MOVE_BLOCKS ? (unsigned)rows : MOVE_BLOCKS);
    return eco_launch(kernel, grid, dim3(threads), argument, overlap, stream);
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Each block waits for the kernels before, then lets the next become resident; or pays a branch. */
ECO_DEVICE void order_grids(bool orders)
{
    if (orders) {
        wait_on_dependent_grids();
        launch_dependent_grids();
    }
}

/* Selects instead of multiplying, because a dropped value may be infinite. */
static __device__ double dropped(const struct eco_move_call *call, int32_t t, int32_t n, int32_t i,
                                 double value)
{
    const struct eco_coordinates at = {call->seed,
                                       call->layer,
                                       0,
                                       0,
                                       call->draw_step + (uint32_t)(call->t0 + t),
                                       call->draw_row + (uint32_t)n};
    uint32_t word[4];
    eco_random_quad(&at, (uint32_t)i / 4, word);
    return word[i % 4] < call->threshold ? 0 : value * call->scale;
}

static __global__ void move_rows(const __grid_constant__ struct eco_move_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int64_t rows = (int64_t)call.steps * call.rows;
    const bool fills = i >= call.width;
    order_grids(call.orders);
    if (i >= call.width + call.zeros)
        return;
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
        const int32_t t = (int32_t)(r / call.rows), n = (int32_t)(r % call.rows);
        const bool masked = fills || (call.lengths && call.t0 + t >= call.lengths[n]);
        const size_t to = element_index(&call.to, t, n, i);
        double value = 0;
        if (!masked && call.from.data)
            value = get(&call.from, element_index(&call.from, t, n, call.spreads ? 0 : i));
        if (masked && !fills && call.padding.data)
            value = get(&call.padding, element_index(&call.padding, 0, n, i));
        if (!masked && call.drop)
            value = dropped(&call, t, n, i, value);
        set(&call.to, to, call.add ? get(&call.to, to) + value : value);
    }
}

/* One warp sums a row, in an order that depends on its width alone. */
static __global__ void sum_rows(const __grid_constant__ struct eco_move_call call)
{
    enum { WARP = 32 };
    const int32_t lane = (int32_t)threadIdx.x;
    const int64_t rows = (int64_t)call.steps * call.rows;
    order_grids(call.orders);
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
        const int32_t t = (int32_t)(r / call.rows), n = (int32_t)(r % call.rows);
        const size_t to = element_index(&call.to, t, n, 0);
        const bool masked = call.lengths && call.t0 + t >= call.lengths[n];
        double sum = 0;
        for (int32_t i = lane; i < call.width && !masked; i += WARP)
            sum += get(&call.from, element_index(&call.from, t, n, i));
        for (int32_t half = WARP / 2; half > 0; half /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, half);
        if (call.to.type != ECORNN_F64)
            sum = (float)sum; /* as a sum that waits in memory is */
        if (lane == 0)
            set(&call.to, to, call.add ? get(&call.to, to) + sum : sum);
    }
}

/* Rows that are copied unchanged, in pieces of 16 bytes, with contiguous steps. */
struct copy {
    uint4 *to;
    const uint4 *from;
    size_t to_step, to_row, from_step, from_row;
    uint32_t all, rows, wide, zeros; /* pieces; rows of a step; pieces of a row: copied, zeros */
    int32_t t0;
    const int32_t *lengths;
    bool orders;
};

static __global__ void copy_rows(const __grid_constant__ struct copy copy)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, row = copy.wide + copy.zeros;
    order_grids(copy.orders);
    if (i >= copy.all)
        return;
    const uint32_t r = i / row, k = i % row, t = r / copy.rows, n = r % copy.rows;
    const bool masked = k >= copy.wide || (copy.lengths && copy.t0 + (int32_t)t >= copy.lengths[n]);
    copy.to[t * copy.to_step + n * copy.to_row + k] =
        masked ? make_uint4(0, 0, 0, 0) : copy.from[t * copy.from_step + n * copy.from_row + k];
}

/* False if the move is not a plain copy. */
static bool describe_copy(const struct eco_move_call *call, struct copy *copy)
{
    const size_t piece = sizeof(uint4), bytes = eco_type_bytes(call->to.type),
                 places = (size_t)call->to.data | (size_t)call->from.data |
                          (call->to.step | call->to.row | call->from.step | call->from.row |
                           (size_t)call->width | (size_t)call->zeros) *
                              bytes;
    const uint64_t all = (uint64_t)call->steps * (uint64_t)call->rows *
                         (((uint64_t)call->width + (uint64_t)call->zeros) * bytes / piece);
    *copy = (struct copy){(uint4 *)call->to.data,
                          (const uint4 *)call->from.data,
                          call->to.step * bytes / piece,
                          call->to.row * bytes / piece,
                          call->from.step * bytes / piece,
                          call->from.row * bytes / piece,
                          (uint32_t)all,
                          (uint32_t)call->rows,
                          (uint32_t)((size_t)call->width * bytes / piece),
                          (uint32_t)((size_t)call->zeros * bytes / piece),
                          call->t0,
                          call->lengths,
                          call->orders};
    return call->from.data && call->from.type == call->to.type && !call->padding.data &&
           !call->add && !call->drop && !call->spreads && places % piece == 0 && 0 < all &&
           all <= INT32_MAX;
}

cudaError_t eco_launch_move(const struct eco_move_call *call, cudaStream_t stream)
{
    struct copy copy;
    void *argument[] = {&copy};
    const int64_t rows = (int64_t)call->steps * call->rows;
    if (call->sums)
        return launch(call->overlap, (const void *)sum_rows, call, 1, rows, stream);
    if (describe_copy(call, &copy))
        return eco_launch((const void *)copy_rows,
                          dim3((copy.all + MOVE_THREADS - 1) / MOVE_THREADS), dim3(MOVE_THREADS),
                          argument, call->overlap, stream);
    return launch(call->overlap, (const void *)move_rows, call, call->width + call->zeros, rows,
                  stream);
}

/* ---- resets ---------------------------------------------------------------------------------- */

/* Does the byte of step t reset row n, within its length? */
ECO_DEVICE bool resets_row(uint8_t byte, const int32_t *lengths, int32_t t, int32_t n)
{
    return byte != 0 && !(lengths && t >= lengths[n]);
}

static __global__ void patch_rows(const __grid_constant__ struct eco_patch_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int64_t rows = (int64_t)call.steps * call.rows;
    if (i >= call.width + call.zeros)
        return;
    for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
        const int32_t t = (int32_t)(r / call.rows), n = (int32_t)(r % call.rows);
        const bool reset =
            call.t0 + t < call.end && resets_row(call.resets[r], call.lengths, call.t0 + t, n);
        const struct eco_plane *const from = reset ? &call.start : &call.from;
        double value = 0;
        if (i < call.width && from->data)
            value = get(from, element_index(from, reset ? 0 : t, n, i));
        set(&call.to, element_index(&call.to, t, n, i), value);
    }
}

/* The same in pieces of 16 bytes. */
struct patch {
    struct copy copy;
    const uint4 *start; /* NULL: zeros */
    size_t start_row;
    const uint8_t *resets;
    uint32_t end;
};

static __global__ void patch_pieces(const __grid_constant__ struct patch patch)
{
    const struct copy *const copy = &patch.copy;
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, row = copy->wide + copy->zeros;
    if (i >= copy->all)
        return;
    const uint32_t r = i / row, k = i % row, t = r / copy->rows, n = r % copy->rows;
    uint4 piece = make_uint4(0, 0, 0, 0);
    if (k >= copy->wide)
        (void)0;
    else if (copy->t0 + t >= patch.end ||
             !resets_row(patch.resets[r], copy->lengths, copy->t0 + (int32_t)t, (int32_t)n))
        piece = copy->from[t * copy->from_step + n * copy->from_row + k];
    else if (patch.start)
        piece = patch.start[n * patch.start_row + k];
    copy->to[t * copy->to_step + n * copy->to_row + k] = piece;
}

cudaError_t eco_launch_patch(const struct eco_patch_call *call, cudaStream_t stream)
{
    const struct eco_move_call move = {.to = call->to,
                                       .from = call->from,
                                       .steps = call->steps,
                                       .rows = call->rows,
                                       .width = call->width,
                                       .t0 = call->t0,
                                       .zeros = call->zeros,
                                       .lengths = call->lengths};
    const size_t piece = sizeof(uint4), bytes = eco_type_bytes(call->to.type);
    struct patch patch = {.start = (const uint4 *)call->start.data,
                          .start_row = call->start.row * bytes / piece,
                          .resets = call->resets,
                          .end = (uint32_t)call->end};
    const bool starts = call->start.data == NULL ||
                        (call->start.type == call->to.type &&
                         ((size_t)call->start.data | call->start.row * bytes) % piece == 0);
    void *argument[] = {&patch};
    if (describe_copy(&move, &patch.copy) && starts)
        return cudaLaunchKernel((const void *)patch_pieces,
                                dim3((patch.copy.all + MOVE_THREADS - 1) / MOVE_THREADS),
                                dim3(MOVE_THREADS), argument, 0, stream);
    return launch(false, (const void *)patch_rows, call, call->width + call->zeros,
                  (int64_t)call->steps * call->rows, stream);
}

/* One element. */
ECO_DEVICE void cut_element(const struct eco_cut_call *call, int32_t n, int32_t i)
{
    const size_t sum = element_index(&call->sum, 0, n, i),
                 carry = element_index(&call->carry, 0, n, i);
    if (!call->resets || !resets_row(call->resets[n], call->lengths, call->t, n))
        return;
    if (call->sum.data)
        set(&call->sum, sum, get(&call->sum, sum) + get(&call->carry, carry));
    set(&call->carry, carry, 0);
}

static __global__ void cut_rows(const __grid_constant__ struct eco_cut_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    for (int32_t n = (int32_t)blockIdx.y; i < call.width && n < call.rows; n += (int32_t)gridDim.y)
        cut_element(&call, n, i);
}

cudaError_t eco_launch_cut(const struct eco_cut_call *call, cudaStream_t stream)
{
    return launch(false, (const void *)cut_rows, call, call->width, call->rows, stream);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

template <typename element>
static __global__ void clear_gaps(const __grid_constant__ struct eco_gaps_call call)
{
    const int64_t all = call.times * call.width;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t at = all <= INT32_MAX ? (int32_t)i / call.width : i / call.width;
        ((element *)call.data)[(size_t)at * call.row + (size_t)(i - at * call.width)] = 0;
    }
}

cudaError_t eco_launch_gaps(const struct eco_gaps_call *call, cudaStream_t stream)
{
    enum { MOST = 1024 };
    void *argument[] = {(void *)call};
    const int64_t blocks = (call->times * call->width + MOVE_THREADS - 1) / MOVE_THREADS;
    const void *kernel = call->bytes == 2   ? (const void *)clear_gaps<uint16_t>
                         : call->bytes == 4 ? (const void *)clear_gaps<uint32_t>
                                            : (const void *)clear_gaps<uint64_t>;
    if (blocks == 0)
        return cudaSuccess;
    return cudaLaunchKernel(kernel, dim3(blocks < MOST ? (unsigned)blocks : MOST),
                            dim3(MOVE_THREADS), argument, 0, stream);
}

/* ---- transposition: a block transposes a tile in shared memory ------------------------------- */

enum { TRANSPOSE_TILE = 32, TILE_THREADS = 8 };

template <typename element>
static __global__ void transpose(const __grid_constant__ struct eco_transpose_call call)
{
    __shared__ element tile[TRANSPOSE_TILE][TRANSPOSE_TILE + 1];
    launch_dependent_grids();
    const int32_t x = (int32_t)(blockIdx.x * TRANSPOSE_TILE),
                  y = (int32_t)(blockIdx.y * TRANSPOSE_TILE);
    const int32_t across = (int32_t)threadIdx.x;
    for (int32_t i = (int32_t)threadIdx.y; i < TRANSPOSE_TILE; i += TILE_THREADS)
        if (y + i < call.rows && x + across < call.columns)
            tile[i][across] =
                ((const element *)call.from)[(size_t)(y + i) * call.columns + (size_t)(x + across)];
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.y; i < TRANSPOSE_TILE; i += TILE_THREADS)
        if (x + i < call.columns && y + across < call.rows)
            ((element *)call.to)[(size_t)(x + i) * call.rows + (size_t)(y + across)] =
                tile[across][i];
}

cudaError_t eco_launch_transpose(const struct eco_transpose_call *call, cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const dim3 grid(((unsigned)call->columns + TRANSPOSE_TILE - 1) / TRANSPOSE_TILE,
                    ((unsigned)call->rows + TRANSPOSE_TILE - 1) / TRANSPOSE_TILE);
    if (call->rows == 0 || call->columns == 0)
        return cudaSuccess;
    const void *kernel = call->bytes == 2   ? (const void *)transpose<uint16_t>
                         : call->bytes == 4 ? (const void *)transpose<uint32_t>
                                            : (const void *)transpose<uint64_t>;
    return cudaLaunchKernel(kernel, grid, dim3(TRANSPOSE_TILE, TILE_THREADS), argument, 0, stream);
}

/* ---- projection ------------------------------------------------------------------------------ */

static __global__ void project(const __grid_constant__ struct eco_project_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= call.width)
        return;
    for (int32_t n = (int32_t)blockIdx.y; n < call.rows; n += (int32_t)gridDim.y) {
        const bool masked = call.lengths && call.t >= call.lengths[n];
        const double h = get(masked ? &call.before : &call.h,
                             element_index(masked ? &call.before : &call.h, 0, n, i));
        const bool reset = call.resets && resets_row(call.resets[n], call.lengths, call.then, n);
        const double start =
            reset && call.start.data ? get(&call.start, element_index(&call.start, 0, n, i)) : 0;
        set(&call.next, element_index(&call.next, 0, n, i), reset ? start : h);
        if (call.y.data)
            set(&call.y, element_index(&call.y, 0, n, i), masked ? 0 : h);
    }
}

cudaError_t eco_launch_project(const struct eco_project_call *call, cudaStream_t stream)
{
    return launch(false, (const void *)project, call, call->width, call->rows, stream);
}

static __global__ void project_back(const __grid_constant__ struct eco_project_back_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= call.width)
        return;
    for (int32_t n = (int32_t)blockIdx.y; n < call.rows; n += (int32_t)gridDim.y) {
        const size_t carry = element_index(&call.carry, 0, n, i);
        const bool masked = call.lengths && call.t >= call.lengths[n];
        double dh = 0;
        cut_element(&call.cut, n, i);
        if (!masked) {
            dh = get(&call.carry, carry);
            if (call.dy.data)
                dh += get(&call.dy, element_index(&call.dy, 0, n, i));
            set(&call.carry, carry, 0);
        }
        set(&call.dh, element_index(&call.dh, 0, n, i), dh);
    }
}

cudaError_t eco_launch_project_back(const struct eco_project_back_call *call, cudaStream_t stream)
{
    return launch(false, (const void *)project_back, call, call->width, call->rows, stream);
}

/* The architecture of the code, not of the device: a newer device may have translated the code. */
cudaError_t eco_kernels_load(bool *overlap)
{
    struct cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, (const void *)move_rows);
    *overlap = error == cudaSuccess && attributes.ptxVersion >= 90;
    return error;
}
