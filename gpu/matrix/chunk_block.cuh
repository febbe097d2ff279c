/*
 * A block that goes through the chunks of a head with 64 columns of S, or of its gradient, in
 * registers: the places of its warps, and its rows in memory.
 */
#ifndef ECO_GPU_MATRIX_CHUNK_BLOCK_CUH
#define ECO_GPU_MATRIX_CHUNK_BLOCK_CUH

#include "gpu/matrix/pairs.cuh"

/* A block's 64 columns of a head.  Warps have 16 or 32 rows of S and 32 columns each. */
template <int KEYS> struct chunk_block {
    enum { TALL = KEYS / 4 / FRAGMENT, WIDE = 4 };
    typedef planes_sums<TALL, WIDE> state;
    int32_t n, h, b;
    int row[TALL], column; /* of S, of the warp */
    warp_tiles tiles;      /* of products of steps */
    planes S, query, read, key, other, d, u;
    float *number[CHUNK_NUMBERS]; /* [STEPS] */
};

template <int KEYS> ECO_DEVICE void place_state_warp(chunk_block<KEYS> &own)
{
    const int warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int i = 0; i < chunk_block<KEYS>::TALL; i++)
        own.row[i] = (warp & 3) * KEYS / 4 + i * FRAGMENT;
    own.column = (warp >> 2) * BLOCK / 2;
    own.tiles = tiles_of_warp();
}

template <int KEYS, int COUNT> ECO_DEVICE chunk_block<KEYS> chunk_block_of(const call_t &call)
{
    const struct eco_gpu_matrix_chunk_room room =
        eco_gpu_matrix_chunk_room(shape_of<KEYS, COUNT>(call));
    const unsigned blocks = (unsigned)(call.V + BLOCK - 1) / BLOCK, heads = (unsigned)call.heads;
    chunk_block<KEYS> own;
    own.b = (int32_t)(blockIdx.x % blocks);
    own.h = (int32_t)(blockIdx.x / blocks % heads);
    own.n = (int32_t)(blockIdx.x / blocks / heads);
    place_state_warp(own);
    own.S = planes_of(room.S, KEYS, BLOCK);
    own.d = planes_of(room.d, STEPS, BLOCK);
    own.u = planes_of(room.u, STEPS, BLOCK);
    own.query = planes_of(room.query, STEPS, KEYS);
    own.key = planes_of(room.key, STEPS, KEYS);
    own.read = planes_of(room.read, STEPS, KEYS);
    own.other = planes_of(room.other, STEPS, KEYS);
    for (int k = 0; k < CHUNK_NUMBERS; k++)
        own.number[k] = floats_at(room.number) + k * STEPS;
    return own;
}

/* Calls f(row, column, a pair of neighbours) for a warp's sums; rows and columns are the block's.
 */
template <int TALL, int WIDE, typename F>
ECO_DEVICE void each_pair(planes_sums<TALL, WIDE> &d, const int (&row)[TALL], int column,
                          const F &f)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                f(row[i] + lane / 4 + half * 8, column + j * GROUP_SIZE + lane % 4 * 2,
                  d.at[i][j][half * 2], d.at[i][j][half * 2 + 1]);
}

/* Two neighbours of a row; `left` columns are there, the others are 0 and not stored. */
template <typename type> struct alignas(2 * sizeof(type)) neighbours {
    type at[2];
};

template <typename type> ECO_DEVICE void load_two(const type *from, int32_t left, float x[2])
{
    if (left >= 2 && (uintptr_t)from % sizeof(neighbours<type>) == 0) {
        const neighbours<type> two = *(const neighbours<type> *)from;
        x[0] = float_of(two.at[0]), x[1] = float_of(two.at[1]);
        return;
    }
    x[0] = left > 0 ? float_of(from[0]) : 0;
    x[1] = left > 1 ? float_of(from[1]) : 0;
}

template <typename type> ECO_DEVICE void store_two(type *to, int32_t left, float x, float y)
{
    const neighbours<type> two = {{narrow_of(x, to), narrow_of(y, to)}};
    if (left >= 2 && (uintptr_t)to % sizeof two == 0) {
        *(neighbours<type> *)to = two;
        return;
    }
    if (left > 0)
        to[0] = two.at[0];
    if (left > 1)
        to[1] = two.at[1];
}

/* A warp's sums in memory: numbers of rows, of which all are there. */
template <typename type, int TALL, int WIDE>
ECO_DEVICE void load_whole(planes_sums<TALL, WIDE> &d, const row_cursor &rows,
                           const int (&row)[TALL], int column)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const type *from =
                (const type *)(rows.at + (row[i] + lane / 4 + half * 8) * rows.step) + column +
                lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                const neighbours<type> two = *(const neighbours<type> *)(from + j * GROUP_SIZE);
                d.at[i][j][half * 2] = float_of(two.at[0]);
                d.at[i][j][half * 2 + 1] = float_of(two.at[1]);
            }
        }
}

template <typename type, int TALL, int WIDE>
ECO_DEVICE void store_whole(const planes_sums<TALL, WIDE> &d, const row_cursor &rows,
                            const int (&row)[TALL], int column)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            type *to = (type *)(rows.at + (row[i] + lane / 4 + half * 8) * rows.step) + column +
                       lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                *(neighbours<type> *)(to + j * GROUP_SIZE) = {
                    {narrow_of(d.at[i][j][half * 2], to), narrow_of(d.at[i][j][half * 2 + 1], to)}};
        }
}

/* The rows of a matrix [K,V] in memory. */
ECO_DEVICE row_cursor rows_of_state(const call_t &call, const real *matrix)
{
    return {(unsigned char *)matrix, call.V * (int64_t)sizeof(real)};
}

/* Columns of S of a matrix [K,V] in memory; NULL: of `missing`. */
template <int KEYS>
ECO_DEVICE void load_state_columns(const call_t &call, const chunk_block<KEYS> &own,
                                   typename chunk_block<KEYS>::state &S, const real *from,
                                   float missing)
{
    if (call.whole && from != nullptr) {
        load_whole<real>(S, rows_of_state(call, from), own.row, own.b * BLOCK + own.column);
        return;
    }
    each_pair(S, own.row, own.column, [&](int i, int c, float &x, float &y) {
        const int32_t column = own.b * BLOCK + c, there = i < call.K ? call.V - column : 0;
        float two[2] = {there > 0 ? missing : 0, there > 1 ? missing : 0};
        if (from != nullptr)
            load_two(from + (size_t)i * call.V + column, there, two);
        x = two[0];
        y = two[1];
    });
}

template <int KEYS>
ECO_DEVICE void store_state_columns(const call_t &call, const chunk_block<KEYS> &own,
                                    typename chunk_block<KEYS>::state &S, real *to)
{
    if (call.whole && to != nullptr) {
        store_whole<real>(S, rows_of_state(call, to), own.row, own.b * BLOCK + own.column);
        return;
    }
    each_pair(S, own.row, own.column, [&](int i, int c, float &x, float &y) {
        const int32_t column = own.b * BLOCK + c;
        if (to != nullptr && i < call.K)
            store_two(to + (size_t)i * call.V + column, call.V - column, x, y);
    });
}

/* Calls f(step, four numbers) for the rows of a warp's sums of steps: the columns of its lane, the
 * next, and both 8 further. */
template <int KEYS, typename F>
ECO_DEVICE void each_row(const chunk_block<KEYS> &own, planes_sums<2, 2> &d, const F &f)
{
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float x[4] = {d.at[i][0][2 * half], d.at[i][0][2 * half + 1], d.at[i][1][2 * half],
                          d.at[i][1][2 * half + 1]};
            f(own.tiles.row[i] + own.tiles.lane_row + half * 8, x);
#pragma unroll
            for (int e = 0; e < 4; e++)
                d.at[i][e / 2][2 * half + e % 2] = x[e];
        }
}

/* The first column of a lane, in [V]. */
template <int KEYS> ECO_DEVICE int32_t first_column(const chunk_block<KEYS> &own)
{
    return own.b * BLOCK + own.tiles.column + own.tiles.lane_column;
}

/* Four numbers of a row as each_row() has them; `left` columns are there. */
template <typename type> ECO_DEVICE void load_row_four(const type *from, int32_t left, float x[4])
{
    load_two(from, left, x);
    load_two(from + GROUP_SIZE, left - GROUP_SIZE, x + 2);
}

template <typename type> ECO_DEVICE void store_row_four(type *to, int32_t left, const float x[4])
{
    store_two(to, left, x[0], x[1]);
    store_two(to + GROUP_SIZE, left - GROUP_SIZE, x[2], x[3]);
}

/* The block's columns of rows of steps; 0 for steps that take no part, and past V. */
template <typename type, int KEYS>
ECO_DEVICE void load_step_columns(const call_t &call, const chunk_block<KEYS> &own,
                                  const chunk_place &chunk, const row_cursor &rows,
                                  planes_sums<2, 2> &x)
{
    if (chunk.whole) {
        load_whole<type>(x, rows, own.tiles.row, own.b * BLOCK + own.tiles.column);
        return;
    }
    const int32_t column = first_column(own);
    each_row(own, x, [&](int t, float four[4]) {
        load_row_four((const type *)row_of_step(rows, t) + column,
                      takes_part(call, chunk, t) ? call.V - column : 0, four);
    });
}

template <typename type, int KEYS>
ECO_DEVICE void store_step_columns(const call_t &call, const chunk_block<KEYS> &own,
                                   const chunk_place &chunk, const row_cursor &rows,
                                   planes_sums<2, 2> &x)
{
    if (chunk.whole) {
        store_whole<type>(x, rows, own.tiles.row, own.b * BLOCK + own.tiles.column);
        return;
    }
    const int32_t column = first_column(own);
    each_row(own, x, [&](int t, float four[4]) {
        if (takes_part(call, chunk, t))
            store_row_four((type *)row_of_step(rows, t) + column, call.V - column, four);
    });
}

/* Values of steps. */
template <int KEYS>
ECO_DEVICE void load_values(const call_t &call, const chunk_block<KEYS> &own,
                            const chunk_place &chunk, planes_sums<2, 2> &v)
{
    const struct eco_gpu_matrix_source &term = call.term[ECO_GPU_MATRIX_VALUE];
    const row_cursor rows = rows_of_term(call, term, chunk, 0),
                     times = rows_from(call, term.times, term.rows, 1, chunk, 0);
    if (term.slots != nullptr)
        load_step_columns<float>(call, own, chunk, rows, v);
    else
        load_step_columns<narrow>(call, own, chunk, rows, v);
    if (term.times == nullptr)
        return;
    each_row(own, v, [&](int t, float x[4]) {
        const float by =
            chunk.whole || takes_part(call, chunk, t) ? *(const float *)row_of_step(times, t) : 0;
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] *= by;
    });
}

/* Stores a warp's sums in planes, times by of their row unless it is NULL. */
template <int TALL, int WIDE>
ECO_DEVICE bool store_planes(const planes &to, const planes_sums<TALL, WIDE> &d,
                             const int (&row)[TALL], int column, const float *by)
{
    const int lane = (int)threadIdx.x % WARP;
    bool large = false;
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        const unsigned first =
            group_of(to, 0, row[i] + lane / 4, column / GROUP_SIZE) + lane % 4 * sizeof(unsigned);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float times = by != nullptr ? by[row[i] + lane / 4 + half * 8] : 1;
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                const float x = d.at[i][j][half * 2], y = d.at[i][j][half * 2 + 1];
                const split_pair pair = split(times * x, times * y);
                large = large || is_large(x) || is_large(y);
#pragma unroll
                for (int p = 0; p < PLANES; p++)
                    *(unsigned *)(shared_bytes + groups_on(first, j) + half * 8 * to.row_bytes +
                                  p * to.plane_bytes) = pair.plane[p];
            }
        }
    }
    return large;
}

/* x = by_t x, of rows of steps. */
template <int TALL, int WIDE>
ECO_DEVICE void scale_steps(planes_sums<TALL, WIDE> &x, const int (&row)[TALL], const float *by)
{
    each_pair(x, row, 0, [&](int t, int, float &a, float &b) { a *= by[t], b *= by[t]; });
}

/* x += lower, or its transpose, times planes of steps; `from_0`: without what x was. */
template <bool TURNED = false, int KEYS>
ECO_DEVICE void add_lower(const chunk_block<KEYS> &own, const void *lower, const planes &from,
                          planes_sums<2, 2> &x, bool from_0)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int tile = own.tiles.tile[i];
        planes_sums<1, 2> sum;
        clear_sums(sum);
        if (!from_0)
            copy_sums(sum, 0, x, i);
        multiply_lower<PLANES, TURNED>(sum, lower, tile, from, own.tiles.column,
                                       {TURNED ? tile : 0, TURNED ? STEPS / FRAGMENT : tile + 1});
        copy_sums(x, i, sum, 0);
    }
}

template <int KEYS>
ECO_DEVICE bool store_steps(const chunk_block<KEYS> &own, const planes &to, planes_sums<2, 2> &x)
{
    const bool large = store_planes(to, x, own.tiles.row, own.tiles.column, nullptr);
    __syncthreads();
    return large;
}

/* S += sum of rows_t^T d_t, of planes; 16 rows at a time, for which there are registers. */
template <int COUNT, int KEYS>
ECO_DEVICE void add_to_state(const chunk_block<KEYS> &own, typename chunk_block<KEYS>::state &S,
                             const planes &rows, const planes &d)
{
#pragma unroll
    for (int i = 0; i < chunk_block<KEYS>::TALL; i++) {
        const int row[1] = {own.row[i]};
        planes_sums<1, chunk_block<KEYS>::WIDE> sum;
        copy_sums(sum, 0, S, i);
        add_product<COUNT, PLANES, true, false>(sum, rows, row, d, own.column, {0, STEPS});
        copy_sums(S, i, sum, 0);
    }
}

/* Does the block give up: has its state, or one of its chunks, a large number?  Leaves the mark. */
template <int TALL, int WIDE>
ECO_DEVICE bool gives_up(const call_t &call, const planes_sums<TALL, WIDE> &state, bool large)
{
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                large = large || is_large(state.at[i][j][e]);
    large = __syncthreads_or(large) != 0;
    if (threadIdx.x == 0)
        call.retries[blockIdx.x] = large;
    return large;
}

#endif /* ECO_GPU_MATRIX_CHUNK_BLOCK_CUH */
