/*
 * A step of many rows in one launch: the products (mainloop.cuh), then the cell's text for two
 * units of a row at a time, with all values in registers.
 */
#ifndef ECO_GPU_WIDE_STEP_KERNEL_CUH
#define ECO_GPU_WIDE_STEP_KERNEL_CUH

#include "gpu/wide_step/element.cuh"
#include "gpu/wide_step/mainloop.cuh"

extern __shared__ __align__(1024) char wide_shared[];

/* ---- two units of a row ---------------------------------------------------------------------- */

/* A thread's pairs: `of_thread` rows, 8 apart, and units 8 apart. */
template <class BLOCK> struct wide_pairs {
    enum { of_thread = 2 * BLOCK::tiles };
    int row0, unit0;
};

ECO_DEVICE int row_of_pair(int row0, int i)
{
    return row0 + i / 2 * ECO_WIDE_M + i % 2 * 8;
}

template <class BLOCK> ECO_DEVICE struct wide_pairs<BLOCK> pairs_of_thread(int warpgroup) {
    const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
    const int of_rows = warpgroup % BLOCK::down, of_units = warpgroup / BLOCK::down;
    return {(int)blockIdx.y * BLOCK::rows + of_rows * BLOCK::tiles * ECO_WIDE_M + warp * 16 +
                lane / 4,
            ((int)blockIdx.x * BLOCK::across + of_units) * BLOCK::units + lane % 4 * 2};
}

/* A row of a thread's pairs, and the position of its first pair in each array of states, in
 * elements; the host ensures that 32 bits suffice. A missing row is replaced by another. */
template <class BLOCK>
struct wide_row {
    bool there, masked;
    int row;
    uint32_t state[BLOCK::states];
};

template <class BLOCK>
ECO_DEVICE struct wide_row<BLOCK> wide_row_at(const struct eco_stage_call &stage, int row,
                                              int unit) {
    struct wide_row<BLOCK> at;
    at.there = row < stage.rows;
    at.row = min(row, stage.rows - 1);
    at.masked = stage.lengths && stage.t >= stage.lengths[at.row];
#pragma unroll
    for (int s = 0; s < BLOCK::states; s++)
        at.state[s] = (uint32_t)at.row * (uint32_t)stage.state_row[s] + unit;
    return at;
}

/* Rows of state 0, which products read, are never wide. */
template <class BLOCK>
ECO_DEVICE float2 pair_before(const struct eco_stage_call &stage, const struct wide_row<BLOCK> &at,
                              int s, int unit)
{
    if (s == 0 && stage.projected) /* it has fewer units, and the cell does not read it */
        return make_float2(0, 0);
    const float2 state =
        load_pair(stage.state[s], at.state[s] + unit, s > 0 && (stage.wide_states >> s & 1));
    return stage.zero_states >> s & 1 ? make_float2(0, 0) : state;
}

/* Pair number k of a thread: all groups of a row follow each other. As many pairs as a thread has
 * rows are loaded at once. */
template <class BLOCK> struct wide_order {
    enum { rows = 2 * BLOCK::tiles, all = rows * BLOCK::groups, ring = (BLOCK::ahead + 1) * rows };
    static __device__ constexpr int row(int k)
    {
        return k / BLOCK::groups;
    }
    static __device__ constexpr int group(int k)
    {
        return k % BLOCK::groups;
    }
};

/* Loads the states before the step of as many pairs as there are rows, from number k on. */
template <class BLOCK>
ECO_DEVICE void read_states_before(const struct eco_stage_call &stage, int unit0,
                                   const struct wide_row<BLOCK> (&rows)[2 * BLOCK::tiles], int k,
                                   float2 (&states)[wide_order<BLOCK>::ring][BLOCK::states])
{
    typedef wide_order<BLOCK> order;
#pragma unroll
    for (int i = k; i < k + order::rows && i < order::all; i++) {
        const int unit = order::group(i) * ECO_WIDE_UNITS,
                  there = unit0 + unit < stage.hidden ? unit : 0;
#pragma unroll
        for (int s = 0; s < BLOCK::states; s++)
            states[i % order::ring][s] = pair_before<BLOCK>(stage, rows[order::row(i)], s, there);
    }
}

/* Loads the biases of all units of the block: [accs, units]. */
template <class BLOCK>
ECO_DEVICE void read_biases_of_block(const struct eco_wide_call &call, float *biases)
{
    enum { units = BLOCK::units * BLOCK::across };
    for (int i = (int)threadIdx.x; i < BLOCK::accs * units; i += BLOCK::consumers) {
        const int vector = call.bias[i / units], unit = (int)blockIdx.x * units + i % units;
        biases[i] =
            vector >= 0 && unit < call.stage.hidden
                ? ((const real *)call.stage.vector)[(size_t)vector * call.stage.hidden + unit]
                : 0;
    }
}

/* Sums in memory to which products add, of all pairs of a thread: they contain the biases. */
template <class BLOCK> struct wide_sums {
    float2 of[BLOCK::adds ? 2 * BLOCK::tiles : 1][BLOCK::adds ? BLOCK::accs * BLOCK::groups : 1];
};

/* They are loaded before the products, which hide it. A missing row or unit is replaced by another.
 */
template <class BLOCK>
ECO_DEVICE wide_sums<BLOCK> read_sums_of_thread(const struct eco_wide_call &call,
                                                const wide_pairs<BLOCK> &pairs)
{
    wide_sums<BLOCK> sums = {};
    if constexpr (BLOCK::adds) {
        const struct eco_stage_call &stage = call.stage;
        if (!stage.acc)
            return sums;
        if (!call.early)
            wait_on_dependent_grids();
#pragma unroll
        for (int i = 0; i < pairs.of_thread; i++) {
            const uint32_t row = (uint32_t)min(row_of_pair(pairs.row0, i), stage.rows - 1);
#pragma unroll
            for (int k = 0; k < BLOCK::accs * BLOCK::groups; k++) {
                const int unit = pairs.unit0 + k % BLOCK::groups * ECO_WIDE_UNITS,
                          there = unit < stage.hidden ? unit : 0;
                sums.of[i][k] = load_pair(stage.acc,
                                          row * (uint32_t)stage.acc_row +
                                              (uint32_t)(k / BLOCK::groups * stage.column + there),
                                          true);
            }
        }
    }
    return sums;
}

template <int NUMBER, class ELEMENT> ECO_DEVICE void finish_element(ELEMENT *at)
{
#define CELLS_CASE(cell, stage, name)                                                              \
    if constexpr (NUMBER == cell && stage == 0)                                                    \
        name(at);
    CELLS_forward(CELLS_CASE)
#undef CELLS_CASE
}

/* ---- stores ---------------------------------------------------------------------------------- */

/*
 * A warp finishes all units of eight rows, a pair of them in each thread, before it stores these
 * rows. Until then they are in shared memory, where each array has a slot: state 0 and saved values
 * in the type of rows, and states from 1 on in that of sums, which take two slots if that is wider.
 * A row of a slot has room for an odd number of groups, so that all threads reach different banks.
 * Afterwards each thread stores whole chunks of 16 bytes, and neighbouring threads write
 * neighbouring ones. The next eight rows have other slots if there is room.
 */
template <class BLOCK> struct wide_slots {
    enum {
        rows = 8,
        groups = BLOCK::groups | 1,
        bytes = rows * groups * ECO_WIDE_UNITS * (int)sizeof(narrow),
        of_wide = sizeof(real) / sizeof(narrow),
        saved = 1 + of_wide * (BLOCK::states - 1),
        count = saved + BLOCK::saves,
        set = count * bytes * BLOCK::consumers / 32,
        sets = 2 * set > BLOCK::stages *BLOCK::stage_bytes ? 1 : 2
    };
    char *at; /* of the warp: [count, rows, groups, ECO_WIDE_UNITS] */
};

template <class BLOCK> ECO_DEVICE struct wide_slots<BLOCK> slots_of_warp(int i) {
    typedef wide_slots<BLOCK> size;
    static_assert(size::set <= BLOCK::stages * BLOCK::stage_bytes, "too many slots");
    return {wide_shared + i % size::sets * size::set +
            threadIdx.x / 32 * (size::count * size::bytes)};
}

/* Is the state after the step wider than rows? */
ECO_DEVICE bool
is_next_wide(const struct eco_stage_call &stage, int s)
{
    return sizeof(narrow) < sizeof(real) && s > 0 && stage.wide_next >> s & 1;
}

/* Puts the thread's pair of a group into a slot. */
template <class BLOCK, bool WIDE>
ECO_DEVICE void put_pair(const wide_slots<BLOCK> &slots, int slot, int group, float2 v)
{
    typedef wide_slots<BLOCK> size;
    const unsigned lane = threadIdx.x % 32, bytes = WIDE ? 2 * sizeof(real) : 2 * sizeof(narrow);
    void *const at = slots.at + slot * size::bytes +
                     (lane / 4 * size::groups + group) * (4 * bytes) + lane % 4 * bytes;
    store_pair(at, 0, v, WIDE);
}

/* Eight rows of a warp: the first row and unit, the end of units, and a bit for the first thread of
 * each row that is stored. */
struct wide_rows {
    int row0, unit0, hidden;
    unsigned stored;
};

/* FROM, TO: the numbers of the slot and of the array. A chunk has 16 bytes of the array. */
template <class BLOCK, class FROM, class TO>
ECO_DEVICE void store_slot(const wide_slots<BLOCK> &slots, int slot, void *base, size_t row_of_base,
                           const struct wide_rows &to)
{
    typedef wide_slots<BLOCK> size;
    enum {
        units = 16 / sizeof(TO), /* of a chunk */
        each = ECO_WIDE_UNITS / units,
        chunks = each * BLOCK::groups
    };
    struct __align__(16) chunk
    {
        TO of[units];
    };
    struct __align__(16) numbers
    {
        FROM of[units];
    };
#pragma unroll
    for (int k = 0; k < size::rows * chunks; k += 32) {
        const int i = k + (int)threadIdx.x % 32, row = i / chunks, unit = i % chunks * units;
        if (row < size::rows && to.stored >> 4 * row & 1 && to.unit0 + unit < to.hidden) {
            const numbers from = *(const numbers *)(slots.at + slot * size::bytes +
                                                    (row * size::groups * ECO_WIDE_UNITS + unit) *
                                                        (int)sizeof(FROM));
            chunk given;
#pragma unroll
            for (int e = 0; e < units; e++)
                if constexpr (sizeof(FROM) > sizeof(TO))
                    given.of[e] = to_narrow(from.of[e]);
                else
                    given.of[e] = from.of[e];
            *(chunk *)((TO *)base + ((uint32_t)(to.row0 + row) * (uint32_t)row_of_base + to.unit0 +
                                     unit)) = given;
        }
    }
}

/* Stores everything of eight rows. */
template <class BLOCK>
ECO_DEVICE void store_rows(const struct eco_stage_call &stage, const wide_slots<BLOCK> &slots,
                           const struct wide_rows &to)
{
    typedef wide_slots<BLOCK> size;
    __syncwarp();
    if (stage.y)
        store_slot<BLOCK, narrow, narrow>(slots, 0, stage.y, stage.y_row, to);
    if (stage.next[0])
        store_slot<BLOCK, narrow, narrow>(slots, 0, stage.next[0], stage.next_row[0], to);
#pragma unroll
    for (int s = 1; s < BLOCK::states; s++) {
        const int slot = 1 + size::of_wide * (s - 1);
        if (stage.next[s] && is_next_wide(stage, s))
            store_slot<BLOCK, real, real>(slots, slot, stage.next[s], stage.next_row[s], to);
        else if (stage.next[s])
            store_slot<BLOCK, real, narrow>(slots, slot, stage.next[s], stage.next_row[s], to);
        if (stage.kept[s])
            store_slot<BLOCK, real, narrow>(slots, slot, stage.kept[s], stage.kept_row[s], to);
    }
#pragma unroll
    for (int i = 0; i < BLOCK::saves; i++)
        store_slot<BLOCK, narrow, narrow>(
            slots, size::saved + i, (narrow *)stage.save + stage.hidden * i, stage.save_row, to);
    if (size::sets == 1)
        __syncwarp();
}

/* The groups of a row that has ended: states stay, y is 0. */
template <class BLOCK>
ECO_DEVICE void mask_row(const struct eco_stage_call &stage, const struct wide_row<BLOCK> &at,
                         int unit0)
{
    const uint32_t row = (uint32_t)at.row;
#pragma unroll 1
    for (int unit = 0; unit < BLOCK::units && unit0 + unit < stage.hidden; unit += ECO_WIDE_UNITS) {
#pragma unroll
        for (int s = 0; s < BLOCK::states; s++) {
            const float2 state = pair_before<BLOCK>(stage, at, s, unit);
            if (stage.next[s])
                store_pair(stage.next[s], row * (uint32_t)stage.next_row[s] + unit0 + unit, state,
                           is_next_wide(stage, s));
            if (s > 0 && stage.kept[s])
                store_pair(stage.kept[s], row * (uint32_t)stage.kept_row[s] + unit0 + unit, state,
                           false);
        }
        if (stage.y)
            store_pair(stage.y, row * (uint32_t)stage.y_row + unit0 + unit, make_float2(0, 0),
                       false);
    }
}

struct wide_place {
    int row, unit, group;
};

/* Finishes a pair, all of whose values go to slots. */
template <int NUMBER, class BLOCK>
ECO_DEVICE void finish_pair(const struct eco_stage_call &stage, const wide_slots<BLOCK> &slots,
                            const struct wide_place &place, const vec (&acc)[2][BLOCK::accs],
                            const float2 (&before)[BLOCK::states])
{
    typedef wide_slots<BLOCK> size;
    wide_element<BLOCK::accs, BLOCK::states, BLOCK::made> at[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        at[e].call = &stage;
        at[e].row = place.row;
        at[e].unit = place.unit + e;
#pragma unroll
        for (int a = 0; a < BLOCK::accs; a++)
            at[e].acc[a] = acc[e][a];
#pragma unroll
        for (int s = 0; s < BLOCK::states; s++)
            at[e].before[s] = e == 0 ? before[s].x : before[s].y;
        finish_element<NUMBER>(&at[e]);
    }
#pragma unroll
    for (int s = 0; s < BLOCK::states; s++) {
        const float2 next = make_float2(at[0].next[s], at[1].next[s]);
        if (s == 0)
            put_pair<BLOCK, false>(slots, 0, place.group, next);
        else
            put_pair<BLOCK, true>(slots, 1 + size::of_wide * (s - 1), place.group, next);
    }
#pragma unroll
    for (int i = 0; i < BLOCK::saves; i++)
        put_pair<BLOCK, false>(slots, size::saved + i, place.group,
                               make_float2(at[0].saved[i], at[1].saved[i]));
}

/* Waits for the sums and finishes all of a thread's pairs. States are loaded ahead. Nothing is
 * asked about a pair until its rows are stored, so that the cells of many run at a time. */
template <int NUMBER, class BLOCK>
ECO_DEVICE void finish_pairs(const struct eco_wide_call &call, const wide_pairs<BLOCK> &pairs,
                             const struct wide_row<BLOCK> (&rows)[2 * BLOCK::tiles],
                             const float *biases, const wide_sums<BLOCK> &sums,
                             float (&d)[BLOCK::tiles][BLOCK::sums])
{
    typedef wide_order<BLOCK> order;
    enum { groups = BLOCK::groups, units = BLOCK::units * BLOCK::across };
    const struct eco_stage_call &stage = call.stage;
    const float *const bias_of_pair = biases + pairs.unit0 - (int)blockIdx.x * units;
    const int lane = (int)threadIdx.x % 32;
    const bool inside = pairs.unit0 - lane % 4 * 2 < stage.hidden; /* of the whole warp */
    float2 states[order::ring][BLOCK::states];
#pragma unroll
    for (int k = 0; inside && k < BLOCK::ahead * order::rows; k += order::rows)
        read_states_before<BLOCK>(stage, pairs.unit0, rows, k, states);
    wait_for_sums<BLOCK>(d);
    named_barrier_sync(BLOCK::consumers); /* biases have been loaded, and stages are free */
    if (!inside)
        return;
#pragma unroll
    for (int k = 0; k < order::all; k++) {
        const int i = order::row(k), group = order::group(k),
                  unit = pairs.unit0 + group * ECO_WIDE_UNITS;
        const wide_slots<BLOCK> slots = slots_of_warp<BLOCK>(i);
        if (k % order::rows == 0)
            read_states_before<BLOCK>(stage, pairs.unit0, rows, k + BLOCK::ahead * order::rows,
                                      states);
        vec acc[2][BLOCK::accs];
#pragma unroll
        for (int a = 0; a < BLOCK::accs; a++) {
            const float *const sum = &d[i / 2][(a * groups + group) * 4 + i % 2 * 2];
            const float2 bias = *(const float2 *)&bias_of_pair[a * units + group * ECO_WIDE_UNITS];
            acc[0][a] = sum[0] + bias.x;
            acc[1][a] = sum[1] + bias.y;
            if constexpr (BLOCK::adds) {
                acc[0][a] += sums.of[i][a * groups + group].x;
                acc[1][a] += sums.of[i][a * groups + group].y;
            }
        }
        finish_pair<NUMBER, BLOCK>(stage, slots, {rows[i].row, unit, group}, acc,
                                   states[k % order::ring]);
        if (group < groups - 1)
            continue;
        store_rows<BLOCK>(stage, slots,
                          {row_of_pair(pairs.row0, i) - lane / 4, pairs.unit0 - lane % 4 * 2,
                           stage.hidden, __ballot_sync(~0u, rows[i].there && !rows[i].masked)});
        if (rows[i].there && rows[i].masked)
            mask_row<BLOCK>(stage, rows[i], pairs.unit0);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <class BLOCK>
ECO_DEVICE struct wide_stages stages_in_shared(const struct eco_wide_call &call)
{
    const int count = BLOCK::clustered ? call.stages : BLOCK::stages;
    uint64_t *const barriers = (uint64_t *)(wide_shared + count * BLOCK::stage_bytes);
    return {shared_address(wide_shared), count, barriers, barriers + count,
            (float *)(barriers + 2 * count)};
}

template <class BLOCK> ECO_DEVICE void begin_stages(const struct wide_stages *stages)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages->count; i++) {
            mbarrier_init(&stages->came[i], 1);
            mbarrier_init(&stages->read[i], BLOCK::cluster * BLOCK::consumers / 32);
        }
        mbarrier_fence_init();
    }
    if constexpr (BLOCK::clustered)
        cluster_sync();
    else
        __syncthreads();
}

template <int NUMBER, class BLOCK>
ECO_DEVICE void consume(const struct eco_wide_call &call, const struct wide_stages *stages)
{
    const int warpgroup = (int)threadIdx.x / ECO_WIDE_GROUP;
    const struct wide_operands place = operands_of_warpgroup<BLOCK>(warpgroup);
    const wide_pairs<BLOCK> pairs = pairs_of_thread<BLOCK>(warpgroup);
    float d[BLOCK::tiles][BLOCK::sums];
    struct wide_turn from = {0, 0};
    struct wide_row<BLOCK> rows[2 * BLOCK::tiles];
#pragma unroll
    for (int t = 0; t < BLOCK::tiles; t++)
#pragma unroll
        for (int i = 0; i < BLOCK::sums; i++)
            d[t][i] = 0;
    const wide_sums<BLOCK> sums = read_sums_of_thread<BLOCK>(call, pairs);
    read_biases_of_block<BLOCK>(call, stages->biases);
    multiply_source<BLOCK, 0>(call.source[0].k_blocks, stages, place, &from, d);
    wait_for_sums<BLOCK>(d);
    if (call.source[0].k_blocks > 0)
        leave_stage<BLOCK>(stages, (from.stage == 0 ? stages->count : from.stage) - 1);
    multiply_source<BLOCK, 1>(call.source[1].k_blocks, stages, place, &from, d);
    wait_on_dependent_grids(); /* before states are read and written */
#pragma unroll
    for (int i = 0; i < pairs.of_thread; i++)
        rows[i] = wide_row_at<BLOCK>(call.stage, row_of_pair(pairs.row0, i), pairs.unit0);
    finish_pairs<NUMBER, BLOCK>(call, pairs, rows, stages->biases, sums, d);
}

/* SAVES: the step saves values for backward, and a kernel of its own has more registers for that.
 */
template <int NUMBER, int SHAPE, bool SAVES>
ECO_DEVICE void run_wide_step(const struct eco_wide_call &call)
{
#if HAS_WGMMA
    typedef wide_block<NUMBER, SHAPE, SAVES> block;
    const struct wide_stages stages = stages_in_shared<block>(call);
    begin_stages<block>(&stages);
    if (threadIdx.x >= block::consumers) {
        if constexpr (block::alone)
            warpgroup_leave_registers<block::registers_of_copies>();
        if (threadIdx.x == block::consumers)
            copy_sources<block>(call, &stages);
    } else {
        if constexpr (block::alone)
            warpgroup_take_registers<block::registers>();
        consume<NUMBER, block>(call, &stages);
    }
    if constexpr (block::clustered) {
        __syncwarp();
        cluster_sync_to_write(); /* until then others arrive at barriers of this block */
    }
#endif
}

#define WIDE_STEP(linkage, name, number, shape, saves)                                             \
    linkage __global__ void __launch_bounds__(wide_block<number, shape, saves>::threads,           \
                                              wide_shape<shape>::blocks)                           \
        name(const __grid_constant__ struct eco_wide_calls calls)                                  \
    {                                                                                              \
        run_wide_step<number, shape, saves>(calls.of[blockIdx.z]);                                 \
    }

#endif /* ECO_GPU_WIDE_STEP_KERNEL_CUH */
