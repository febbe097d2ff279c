/*
 * The end of a large product's tile: a warp moves its sums through shared memory to lines of C, of
 * which it reads and writes 16 bytes at a time. It waits neither for other warps nor for device
 * memory, because matrix instructions of the next tile are in flight.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_EPILOGUE_CUH
#define ECO_GPU_GEMM_EMULATED_F32_EPILOGUE_CUH

#include "gpu/arch/memory.cuh"
#include "gpu/gemm/emulated_f32/nonfinite.cuh"

enum { WARP_ROWS = 16, EIGHT = 8 /* rows, or columns, of a matrix instruction */ };

/* Eight rows of some columns of a warp, without bank conflicts by eights or by rows. */
template <int columns> struct lines {
    enum {
        LINE = columns + 8,
        FLOATS = EIGHT * LINE, /* of a warp */
        QUADS = columns / 4,   /* of a row */
        AT_ONCE = WARP / QUADS /* rows that a warp takes at once */
    };
};

/* A warp's rows, and columns of C from one on. */
struct warp_tile {
    const float *of_rows, *of_columns; /* scales; whole tiles have them */
    float *room;                       /* the warp's own lines */
    int32_t row, column;
};

ECO_DEVICE int32_t lane_of_thread(void)
{
    return (int32_t)threadIdx.x % WARP;
}

/* ---- operands that are not finite ------------------------------------------------------------ */

/* Is any of the warp's rows, or of these columns, not finite? */
ECO_DEVICE bool any_nonfinite(const warp_tile &t, int columns)
{
    const int32_t lane = lane_of_thread();
    bool nonfinite = is_nonfinite(t.of_rows[lane % WARP_ROWS]);
    for (int32_t j = lane; j < columns; j += WARP)
        nonfinite |= is_nonfinite(t.of_columns[j]);
    return __any_sync(~0u, nonfinite);
}

/* Writes all sums that are not finite, each added by all threads of the warp. Without calls,
 * because a function would save registers that matrix instructions in flight write. */
ECO_DEVICE void write_nonfinite(const eco_emulated_call &call, const warp_tile &t, int columns)
{
    for (int32_t i = 0; i < WARP_ROWS * columns; i++) {
        const int32_t r = i / columns, j = i - r * columns, row = t.row + r, column = t.column + j;
        if (row >= call.a.rows || column >= call.b.rows ||
            !(is_nonfinite(t.of_rows[r]) || is_nonfinite(t.of_columns[j])))
            continue;
        const float sum = recompute_emulated(call, row, column),
                    bias = call.bias == nullptr ? 0 : call.bias[column];
        float *const to = call.c + (size_t)row * call.c_row + column;
        if (lane_of_thread() == 0)
            *to = (call.add ? *to : 0) + (sum + bias);
    }
}

/* ---- lines of any length --------------------------------------------------------------------- */

/* Writes eight rows from the warp's row r on, columns from j on: all that exist and are finite. */
template <int columns>
ECO_DEVICE void write_some(const eco_emulated_call &call, const warp_tile &t, int32_t r, int32_t j)
{
    enum { AT_ONCE = columns / WARP * 2 };
#pragma unroll 1
    for (int32_t line = 0; line < EIGHT; line += 2) {
        float old[AT_ONCE];
        bool there[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int32_t row = line + i % 2, column = i / 2 * WARP + lane_of_thread();
            there[i] = t.row + r + row < call.a.rows && t.column + j + column < call.b.rows &&
                       !is_nonfinite(t.of_rows[r + row]) && !is_nonfinite(t.of_columns[j + column]);
            old[i] = 0;
            if (there[i] && call.add)
                old[i] = call.c[(size_t)(t.row + r + row) * call.c_row + t.column + j + column];
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int32_t row = line + i % 2, column = i / 2 * WARP + lane_of_thread();
            const float sum = divided(t.room[row * lines<columns>::LINE + column],
                                      t.of_rows[r + row], t.of_columns[j + column]);
            const int32_t n = t.column + j + column;
            if (there[i])
                call.c[(size_t)(t.row + r + row) * call.c_row + n] =
                    old[i] + (sum + (call.bias == nullptr ? 0 : __ldg(call.bias + n)));
        }
    }
}

/* ---- whole lines ----------------------------------------------------------------------------- */

/* Four columns of C. */
struct quad {
    int32_t column;
    float4 scale, bias; /* bias: or zeros */
};

ECO_DEVICE quad quad_of(const eco_emulated_call &call, const warp_tile &t, int32_t j)
{
    quad q = {t.column + j, *(const float4 *)(t.of_columns + j), {0, 0, 0, 0}};
    if (call.bias != nullptr)
#pragma unroll
        for (int i = 0; i < 4; i++)
            (&q.bias.x)[i] = __ldg(call.bias + q.column + i);
    return q;
}

/* Writes eight rows from the warp's row r on. */
template <int columns>
ECO_DEVICE void write_quads(const eco_emulated_call &call, const warp_tile &t, const quad &q,
                            int32_t r)
{
    typedef lines<columns> layout;
    enum { TAKEN = EIGHT / layout::AT_ONCE };
    const int32_t lane = lane_of_thread(), line = lane / layout::QUADS, row = t.row + r + line;
    float *const to = call.c + (size_t)row * call.c_row + q.column;
    float4 old[TAKEN]; /* all loads before the first store, which they would wait for */
#pragma unroll
    for (int i = 0; i < TAKEN; i++) {
        const float *const from = to + i * layout::AT_ONCE * call.c_row;
        *(uint4 *)&old[i] = load_16_if(call.add && row + i * layout::AT_ONCE < call.a.rows, from);
    }
#pragma unroll
    for (int i = 0; i < TAKEN; i++) {
        const int32_t at = line + i * layout::AT_ONCE;
        const float scale = t.of_rows[r + at];
        float4 x = *(const float4 *)(t.room + at * layout::LINE + lane % layout::QUADS * 4);
#pragma unroll
        for (int j = 0; j < 4; j++)
            (&x.x)[j] =
                (&old[i].x)[j] + (divided((&x.x)[j], scale, (&q.scale.x)[j]) + (&q.bias.x)[j]);
        float *const there = to + i * layout::AT_ONCE * call.c_row;
        store_16_if(row + i * layout::AT_ONCE < call.a.rows, there, x);
    }
}

/* ---- either ---------------------------------------------------------------------------------- */

/* Stores two of eight rows of each eight columns, from `first` on. */
template <int columns, int n>
ECO_DEVICE void put_lines(const warp_tile &t, const float (&sum)[n], int first)
{
    const int32_t lane = lane_of_thread();
    float *const to = t.room + lane / 4 * lines<columns>::LINE + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < columns / EIGHT; j++)
        *(float2 *)(to + EIGHT * j) = make_float2(sum[first + 4 * j], sum[first + 4 * j + 1]);
}

/* Writes a warp's 16 rows, `columns` columns at a time. */
template <int columns, int n>
ECO_DEVICE void write_whole(const eco_emulated_call &call, const warp_tile &t,
                            const float (&sum)[n])
{
#pragma unroll
    for (int j = 0; j < 2 * n; j += columns) {
        const quad q = quad_of(call, t, j + lane_of_thread() % lines<columns>::QUADS * 4);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            put_lines<columns>(t, sum, j / 2 + 2 * h);
            __syncwarp();
            write_quads<columns>(call, t, q, h * EIGHT);
            __syncwarp();
        }
    }
}

/* The same with less code. */
template <int columns, int n>
ECO_DEVICE void write_others(const eco_emulated_call &call, const warp_tile &t,
                             const float (&sum)[n])
{
#pragma unroll 1
    for (int work = 0; work < 4 * n / columns; work++) {
#pragma unroll
        for (int i = 0; i < 4 * n / columns; i++)
            if (i == work)
                put_lines<columns>(t, sum, i / 2 * (columns / 2) + i % 2 * 2);
        __syncwarp();
        write_some<columns>(call, t, work % 2 * EIGHT, work / 2 * columns);
        __syncwarp();
    }
}

template <int columns, int n>
ECO_DEVICE void write_tile(const eco_emulated_call &call, const warp_tile &t, const float (&sum)[n])
{
    if (t.row >= call.a.rows)
        return;
    const bool nonfinite = any_nonfinite(t, 2 * n);
    if (!nonfinite && t.column + 2 * n <= call.b.rows &&
        ((uintptr_t)call.c | call.c_row * sizeof(float)) % 16 == 0)
        write_whole<columns>(call, t, sum);
    else
        write_others<columns>(call, t, sum);
    if (nonfinite)
        write_nonfinite(call, t, 2 * n);
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_EPILOGUE_CUH */
