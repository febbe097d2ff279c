/*
 * Places, numbers and rows of the steps of a chunk (chunk.cuh).
 */
#ifndef ECO_GPU_MATRIX_CHUNK_ROWS_CUH
#define ECO_GPU_MATRIX_CHUNK_ROWS_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/matrix/forward.cuh"
#include "gpu/matrix/planes.cuh"
#include "gpu/matrix/rooms.h"

enum {
    STEPS = ECO_GPU_MATRIX_CHUNK_STEPS,
    PAIR_ROW = ECO_GPU_MATRIX_PAIR_ROW,
    BLOCK = ECO_GPU_MATRIX_CHUNK_COLUMNS, /* columns of S of a block of threads */
    CHUNK_THREADS = ECO_GPU_MATRIX_CHUNK_THREADS
};

/* Numbers of each step of a chunk; AFTER and BEFORE are G_t and, without a reset, G_(t-1). */
enum chunk_number { AFTER, BEFORE, TO_END, SCALE, CHUNK_NUMBERS };
static_assert(int(CHUNK_NUMBERS) == int(ECO_GPU_MATRIX_CHUNK_NUMBERS), "args.h has as many");

/* A chunk's place in the arrays of the slab. */
struct chunk_place {
    int32_t n, h, first; /* its first place */
    bool whole;          /* all steps take part, and no row or column of a block is padding */
    size_t at;
};

ECO_DEVICE int32_t slab_chunks(const call_t &call)
{
    return (call.steps + STEPS - 1) / STEPS;
}

ECO_DEVICE chunk_place chunk_at(const call_t &call, int32_t n, int32_t h, int32_t chunk)
{
    const int32_t first = call.first + chunk * STEPS, last = first + STEPS - 1;
    const bool whole = call.whole && last < call.first + call.steps && call.args.mask == nullptr &&
                       !is_padding(call, n, call.reverse ? first : last);
    return {n, h, first, whole, head_of(call, n, h) * slab_chunks(call) + (size_t)chunk};
}

ECO_DEVICE float *numbers_at(const call_t &call, const chunk_place &chunk, int which)
{
    return (float *)call.chunk_numbers + (chunk.at * CHUNK_NUMBERS + which) * STEPS;
}

ECO_DEVICE void *lower_of(const call_t &call, const void *all, const chunk_place &chunk)
{
    return (unsigned char *)all + chunk.at * LOWER_BYTES;
}

template <int KEYS, int COUNT> ECO_DEVICE struct eco_gpu_matrix_shape shape_of(const call_t &call)
{
    return {KEYS, COUNT, has_term(call, ECO_GPU_MATRIX_READ), call.same_key,
            has_term(call, ECO_GPU_MATRIX_OTHER)};
}

/* Numbers in shared memory. */
ECO_DEVICE float *floats_at(unsigned at)
{
    return (float *)(shared_bytes + at);
}

/* Is the step there, and does it count? */
ECO_DEVICE bool takes_part(const call_t &call, const chunk_place &chunk, int32_t t)
{
    const int32_t place = chunk.first + t;
    return place < call.first + call.steps && is_counted(call, chunk.n, place);
}

/* Is x so large that its products may overflow, or not finite itself? */
ECO_DEVICE bool is_large(float x)
{
    return !(fabsf(x) < 0x1p64f);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Numbers and elements of memory. */
ECO_DEVICE float float_of(float x)
{
    return x;
}

ECO_DEVICE float narrow_of(float x, const float *)
{
    return x;
}

#if !defined(ECO_ROWS_F32)
ECO_DEVICE float float_of(narrow x)
{
    return to_real(x);
}

ECO_DEVICE narrow narrow_of(float x, const narrow *)
{
    return to_narrow(x);
}
#endif

/* Rows: the first, and the bytes from one to the next. */
struct row_cursor {
    unsigned char *at;
    int64_t step;
};

ECO_DEVICE unsigned char *row_of_step(const row_cursor &rows, int t)
{
    return rows.at + t * rows.step;
}

/* A head's rows of steps in an array of slots, or, if that is NULL, in the caller's, from step t
 * on. */
ECO_DEVICE row_cursor rows_from(const call_t &call, const void *slots,
                                const struct eco_gpu_matrix_rows &rows, int32_t width,
                                const chunk_place &chunk, int32_t t)
{
    const int32_t place = chunk.first + t, head = call.args.N * call.heads;
    const int64_t step = (call.batch_major ? 1 : call.args.N) * (int64_t)rows.row;
    if (slots != nullptr)
        return {(unsigned char *)real_at(slots, slot_of(call, chunk.n, chunk.h, place), width),
                (int64_t)head * width * (int64_t)sizeof(real)};
    return {(unsigned char *)head_row(rows, caller_row(call, chunk.n, place), chunk.h, width),
            (call.reverse ? -step : step) * (int64_t)sizeof(narrow)};
}

ECO_DEVICE row_cursor rows_of_term(const call_t &call, const struct eco_gpu_matrix_source &term,
                                   const chunk_place &chunk, int32_t t)
{
    return rows_from(call, term.slots, term.rows, term.width, chunk, t);
}

/* Eight numbers of a row. */
template <typename type> ECO_DEVICE void load_whole_group(const void *from, float x[GROUP_SIZE])
{
    struct alignas(16) group {
        type at[GROUP_SIZE];
    };
    const group all = *(const group *)from;
#pragma unroll
    for (int i = 0; i < GROUP_SIZE; i++)
        x[i] = float_of(all.at[i]);
}

/* Eight numbers of a row that has `left` of them; the others are 0. */
template <typename type>
ECO_DEVICE void load_group(const void *from, int32_t left, float x[GROUP_SIZE])
{
    const type *at = (const type *)from;
    if (left >= GROUP_SIZE && (uintptr_t)from % 16 == 0) {
        load_whole_group<type>(from, x);
        return;
    }
#pragma unroll
    for (int i = 0; i < GROUP_SIZE; i++)
        x[i] = i < left ? float_of(at[i]) : 0;
}

/* A thread's groups of the rows of a key [STEPS,KEYS]: one of every STRIDE-th row. */
template <int KEYS> struct key_groups {
    enum { GROUPS = KEYS / GROUP_SIZE, STRIDE = CHUNK_THREADS / GROUPS, COUNT = STEPS / STRIDE };
    row_cursor rows;
    int32_t t, group, left; /* numbers of the row from the group on */
    bool floats, wide;
};

template <int KEYS>
ECO_DEVICE key_groups<KEYS> groups_of_thread(const call_t &call,
                                             const struct eco_gpu_matrix_source &term,
                                             const chunk_place &chunk)
{
    key_groups<KEYS> own;
    own.t = (int32_t)threadIdx.x / key_groups<KEYS>::GROUPS;
    own.group = (int32_t)threadIdx.x % key_groups<KEYS>::GROUPS;
    own.left = call.K - own.group * GROUP_SIZE;
    own.floats = term.slots != nullptr || sizeof(narrow) == sizeof(float);
    own.wide = term.width > 1 || call.K == 1;
    own.rows = rows_of_term(call, term, chunk, own.t);
    own.rows.at +=
        own.wide ? own.group * GROUP_SIZE * (own.floats ? sizeof(float) : sizeof(narrow)) : 0;
    return own;
}

/* Loads a group of the thread's; a number is repeated. */
template <int KEYS>
ECO_DEVICE void load_key_group(const key_groups<KEYS> &own, const unsigned char *from,
                               float x[GROUP_SIZE])
{
    const int32_t left = own.wide ? own.left : 1;
    if (own.floats)
        load_group<float>(from, left, x);
    else
        load_group<narrow>(from, left, x);
#pragma unroll
    for (int i = 0; i < GROUP_SIZE; i++)
        x[i] = own.wide ? x[i] : i < own.left ? x[0] : 0;
}

/* The rows of a key [STEPS,KEYS] if there are all. */
template <int COUNT, int KEYS>
ECO_DEVICE void load_whole_keys(const key_groups<KEYS> &own, const planes &to)
{
    enum { STRIDE = key_groups<KEYS>::STRIDE };
#pragma unroll
    for (int i = 0; i < key_groups<KEYS>::COUNT; i++) {
        const unsigned char *from = own.rows.at + i * STRIDE * own.rows.step;
        const int32_t t = own.t + i * STRIDE;
        float x[GROUP_SIZE];
        if (COUNT == 1) {
            cp_async_16_or_zeros(true, group_at(to, 0, t, own.group), from);
            continue;
        }
        if (own.floats)
            load_whole_group<float>(from, x);
        else
            load_whole_group<narrow>(from, x);
        store_group<COUNT>(to, t, own.group, x);
    }
}

/* The rows of a key [STEPS,KEYS]; steps that take no part are 0.  Rows of BF16 are their own plane
 * and copied, if they are aligned. */
template <int COUNT, int KEYS>
ECO_DEVICE void load_key_planes(const call_t &call, int k, bool gated, const chunk_place &chunk,
                                const planes &to)
{
    enum { STRIDE = key_groups<KEYS>::STRIDE };
    const key_groups<KEYS> own =
        groups_of_thread<KEYS>(call, gated ? call.gated[k] : call.term[k], chunk);
    if (chunk.whole && own.wide) {
        load_whole_keys<COUNT>(own, to);
        return;
    }
    const bool copies = COUNT == 1 && own.wide && (own.left <= 0 || own.left >= GROUP_SIZE) &&
                        ((uintptr_t)own.rows.at | (uintptr_t)own.rows.step) % 16 == 0;
#pragma unroll
    for (int i = 0; i < key_groups<KEYS>::COUNT; i++) {
        const unsigned char *from = own.rows.at + i * STRIDE * own.rows.step;
        const int32_t t = own.t + i * STRIDE;
        const bool part = takes_part(call, chunk, t);
        float x[GROUP_SIZE] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (copies) {
            const bool there = part && own.left > 0;
            cp_async_16_or_zeros(there, group_at(to, 0, t, own.group),
                                 there ? (const void *)from : call.chunk_numbers);
            continue;
        }
        if (part)
            load_key_group(own, from, x);
        store_group<COUNT>(to, t, own.group, x);
    }
}

/* ---- the rows and columns of a warp ---------------------------------------------------------- */

/* What a warp has of a product [64,64]: two times 16 rows, as far from the ends as those of any
 * warp, so that all have as much of a triangle, and 16 columns. */
struct warp_tiles {
    int tile[2], row[2], column;
    int lane_row, lane_column; /* in fragments of sums: and 8 rows, or 1 column, further */
};

ECO_DEVICE warp_tiles tiles_of_warp()
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, pair = warp & 1;
    return {{pair, 3 - pair},
            {pair * FRAGMENT, (3 - pair) * FRAGMENT},
            (warp >> 1) * FRAGMENT,
            lane / 4,
            lane % 4 * 2};
}

#endif /* ECO_GPU_MATRIX_CHUNK_ROWS_CUH */
