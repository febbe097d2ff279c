/*
 * A step of many rows in one launch: the products (mainloop.cuh), then the cell's text for two
 * units of a row at a time, with all values in registers.
 */
#ifndef ECO_GPU_WIDE_STEP_KERNEL_CUH
#define ECO_GPU_WIDE_STEP_KERNEL_CUH

#include "gpu/wide_step/element.cuh"
#include "gpu/wide_step/mainloop.cuh"

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

/* Position of the first pair of a row in each array, in elements; the host ensures that 32 bits
 * suffice. A missing row is replaced by another. */
template <class BLOCK>
struct wide_row {
    bool there, masked;
    int row;
    uint32_t state[BLOCK::states], next[BLOCK::states], kept[BLOCK::states], y, save;
};

template <class BLOCK>
ECO_DEVICE struct wide_row<BLOCK> wide_row_at(const struct eco_stage_call &stage, int row,
                                              int unit) {
    struct wide_row<BLOCK> at;
    at.there = row < stage.rows;
    at.row = min(row, stage.rows - 1);
    at.masked = stage.lengths && stage.t >= stage.lengths[at.row];
#pragma unroll
    for (int s = 0; s < BLOCK::states; s++) {
        at.state[s] = (uint32_t)at.row * (uint32_t)stage.state_row[s] + unit;
        at.next[s] = (uint32_t)at.row * (uint32_t)stage.next_row[s] + unit;
        at.kept[s] = (uint32_t)at.row * (uint32_t)stage.kept_row[s] + unit;
    }
    at.y = (uint32_t)at.row * (uint32_t)stage.y_row + unit;
    at.save = (uint32_t)at.row * (uint32_t)stage.save_row + unit;
    return at;
}

/* States before the step, for pairs with the same units. */
template <class BLOCK>
struct wide_states {
    float2 of[2 * BLOCK::tiles][BLOCK::states];
};

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

template <class BLOCK>
ECO_DEVICE void read_states_before(const struct eco_stage_call &stage, int unit0,
                                   const struct wide_row<BLOCK> (&rows)[2 * BLOCK::tiles],
                                   int group, wide_states<BLOCK> *states)
{
    const int unit = unit0 + group * ECO_WIDE_UNITS < stage.hidden ? group * ECO_WIDE_UNITS : 0;
#pragma unroll
    for (int i = 0; i < 2 * BLOCK::tiles; i++)
#pragma unroll
        for (int s = 0; s < BLOCK::states; s++)
            states->of[i][s] = pair_before<BLOCK>(stage, rows[i], s, unit);
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

template <int NUMBER, class ELEMENT> ECO_DEVICE void finish_element(ELEMENT *at)
{
#define CELLS_CASE(cell, stage, name)                                                              \
    if constexpr (NUMBER == cell && stage == 0)                                                    \
        name(at);
    CELLS_forward(CELLS_CASE)
#undef CELLS_CASE
}

/* Stores next states wherever they are needed. */
template <class BLOCK>
ECO_DEVICE void store_next_pair(const struct eco_stage_call &stage,
                                const struct wide_row<BLOCK> &at, int s, int unit, float2 next)
{
    if (stage.next[s])
        store_pair(stage.next[s], at.next[s] + unit, next, s > 0 && (stage.wide_next >> s & 1));
    if (s > 0 && stage.kept[s])
        store_pair(stage.kept[s], at.kept[s] + unit, next, false);
    if (s == 0 && stage.y)
        store_pair(stage.y, at.y + unit, next, false);
}

/* A row that has ended: states stay, y is 0. */
template <class BLOCK>
ECO_DEVICE void mask_pair(const struct eco_stage_call &stage, const struct wide_row<BLOCK> &at,
                          int unit)
{
    const float2 zeros = make_float2(0, 0);
#pragma unroll
    for (int s = 0; s < BLOCK::states; s++) {
        const float2 before = pair_before<BLOCK>(stage, at, s, unit);
        store_next_pair<BLOCK>(stage, at, s, unit, s == 0 && stage.projected ? zeros : before);
    }
    if (stage.y)
        store_pair(stage.y, at.y + unit, zeros, false);
}

template <int NUMBER, class BLOCK>
ECO_DEVICE void finish_pair(const struct eco_stage_call &stage, const struct wide_row<BLOCK> &row,
                            int unit0, int unit, const vec (&acc)[2][BLOCK::accs],
                            const float2 (&before)[BLOCK::states])
{
    wide_element<BLOCK::accs, BLOCK::states, BLOCK::saves> at[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        at[e].call = &stage;
        at[e].row = row.row;
        at[e].unit = unit0 + unit + e;
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
        store_next_pair<BLOCK>(stage, row, s, unit, make_float2(at[0].next[s], at[1].next[s]));
    }
    if (stage.save)
#pragma unroll
        for (int i = 0; i < BLOCK::saves; i++) {
            store_pair(stage.save, row.save + (uint32_t)(stage.hidden * i + unit),
                       make_float2(at[0].saved[i], at[1].saved[i]), false);
        }
}

/* Finishes all of a thread's pairs. States of the next units are loaded ahead. */
template <int NUMBER, class BLOCK>
ECO_DEVICE void finish_pairs(const struct eco_wide_call &call, const wide_pairs<BLOCK> &pairs,
                             const struct wide_row<BLOCK> (&rows)[2 * BLOCK::tiles],
                             wide_states<BLOCK> (&states)[BLOCK::ahead + 1], const float *biases,
                             const float (&d)[BLOCK::tiles][BLOCK::sums])
{
    enum { groups = BLOCK::groups, ahead = BLOCK::ahead, units = BLOCK::units * BLOCK::across };
    const struct eco_stage_call &stage = call.stage;
    const float *const bias_of_pair = biases + pairs.unit0 - (int)blockIdx.x * units;
#pragma unroll
    for (int j = 0; j < groups; j++) {
        const int unit = j * ECO_WIDE_UNITS;
        if (pairs.unit0 + unit >= stage.hidden)
            break;
        if (j + ahead < groups)
            read_states_before<BLOCK>(stage, pairs.unit0, rows, j + ahead,
                                      &states[(j + ahead) % (ahead + 1)]);
#pragma unroll
        for (int i = 0; i < pairs.of_thread; i++) {
            vec acc[2][BLOCK::accs];
#pragma unroll
            for (int a = 0; a < BLOCK::accs; a++) {
                const float *const sum = &d[i / 2][(a * groups + j) * 4 + i % 2 * 2];
                const float2 bias = *(const float2 *)&bias_of_pair[a * units + unit];
                acc[0][a] = sum[0] + bias.x;
                acc[1][a] = sum[1] + bias.y;
            }
            if (!rows[i].there)
                continue;
            if (rows[i].masked)
                mask_pair<BLOCK>(stage, rows[i], unit);
            else
                finish_pair<NUMBER, BLOCK>(stage, rows[i], pairs.unit0, unit, acc,
                                           states[j % (ahead + 1)].of[i]);
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

extern __shared__ __align__(1024) char wide_shared[];

template <class BLOCK> ECO_DEVICE struct wide_stages stages_in_shared(void)
{
    uint64_t *const barriers = (uint64_t *)(wide_shared + BLOCK::stages * BLOCK::stage_bytes);
    return {shared_address(wide_shared), barriers, barriers + BLOCK::stages,
            (float *)(barriers + 2 * BLOCK::stages)};
}

template <class BLOCK> ECO_DEVICE void begin_stages(const struct wide_stages *stages)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < BLOCK::stages; i++) {
            mbarrier_init(&stages->came[i], 1);
            mbarrier_init(&stages->read[i], BLOCK::consumers / 32);
        }
        mbarrier_fence_init();
    }
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
    wide_states<BLOCK> states[BLOCK::ahead + 1];
    struct wide_row<BLOCK> rows[2 * BLOCK::tiles];
#pragma unroll
    for (int t = 0; t < BLOCK::tiles; t++)
#pragma unroll
        for (int i = 0; i < BLOCK::sums; i++)
            d[t][i] = 0;
    read_biases_of_block<BLOCK>(call, stages->biases);
    multiply_source<BLOCK, 0>(call.source[0].k_blocks, stages, place, &from, d);
    wait_for_sums<BLOCK>(d);
    if (call.source[0].k_blocks > 0)
        leave_stage(stages, from.stage == 0 ? BLOCK::stages - 1 : from.stage - 1);
    multiply_source<BLOCK, 1>(call.source[1].k_blocks, stages, place, &from, d);
    wait_on_dependent_grids(); /* before states are read and written */
#pragma unroll
    for (int i = 0; i < pairs.of_thread; i++)
        rows[i] = wide_row_at<BLOCK>(call.stage, row_of_pair(pairs.row0, i), pairs.unit0);
#pragma unroll
    for (int j = 0; pairs.unit0 < call.stage.hidden && j < BLOCK::ahead; j++)
        read_states_before<BLOCK>(call.stage, pairs.unit0, rows, j, &states[j]);
    wait_for_sums<BLOCK>(d);
    named_barrier_sync(BLOCK::consumers); /* biases have been loaded */
    finish_pairs<NUMBER, BLOCK>(call, pairs, rows, states, stages->biases, d);
}

template <int NUMBER, int SHAPE> ECO_DEVICE void run_wide_step(const struct eco_wide_call &call)
{
#if HAS_WGMMA
    typedef wide_block<NUMBER, SHAPE> block;
    const struct wide_stages stages = stages_in_shared<block>();
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
#endif
}

#define WIDE_STEP(linkage, name, number, shape)                                                    \
    linkage __global__ void __launch_bounds__(wide_block<number, shape>::threads,                  \
                                              wide_shape<shape>::blocks)                           \
        name(const __grid_constant__ struct eco_wide_call call)                                    \
    {                                                                                              \
        run_wide_step<number, shape>(call);                                                        \
    }

#endif /* ECO_GPU_WIDE_STEP_KERNEL_CUH */
