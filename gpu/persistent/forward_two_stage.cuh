/*
 * The forward kernel for cells of two products: phase 0 gathers the output state, phase 1 the value
 * that phase 0 computes of it.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_TWO_STAGE_CUH
#define ECO_GPU_PERSISTENT_FORWARD_TWO_STAGE_CUH

#include "gpu/persistent/forward.cuh"
#include "gpu/persistent/two_stage.cuh"

/* One unit of one row in one stage. */
template <class CELL> struct staged_place : place_of<CELL> {
    float operand;
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* saved values, by this stage */
};

template <class CELL> ECO_DEVICE void store_operand(struct staged_place<CELL> *at, int slot, vec v)
{
    at->operand = v;
}
template <class CELL> ECO_DEVICE void store_save(struct staged_place<CELL> *at, int i, vec v)
{
    at->save[i] = v;
    at->stored[i] = true;
}
template <class CELL> ECO_DEVICE bool stores(const struct staged_place<CELL> *at, int i)
{
    return at->stored[i];
}

template <int NUMBER, int PHASE>
ECO_DEVICE void finish_stage(struct staged_place<numbers<NUMBER>> *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k && PHASE == STAGE)                                                   \
        name(at);
#define STAGE 0
    CELLS_forward_0(CELLS_CASE)
#undef STAGE
#define STAGE 1
        CELLS_forward_1(CELLS_CASE)
#undef STAGE
#undef CELLS_CASE
}

/* An accumulator: in phase 0 all that it has by then, in phase 1 that and the second product. */
template <class CELL, class CUT>
ECO_DEVICE float acc_of(const struct eco_resident_call *call, const struct memory *memory, int i,
                        int acc, int sums, float bias)
{
    const float there = *floats(acc + i * memory->pairs);
    const int row = CELL::row(i, CUT::product);
    const float x = CUT::product == 1 ? there : bias + (call->inputs >> i & 1 ? there : 0);
    return row < 0 ? x : x + sum_of<CUT>(memory, sums, row);
}

/* What both phases read: `P` pairs of this thread, from batch row n on. */
template <class CELL, class CUT, int P>
ECO_DEVICE void read_pairs(const struct eco_resident_call *call, const struct phase *phase,
                           const struct mine *mine, int step, int n, int round,
                           struct staged_place<CELL> at[P])
{
    const struct memory *memory = &phase->memory;
    const struct eco_resident_job *job = &call->job[phase->share.job];
    const int acc = acc_at(memory, 0) + (int)threadIdx.x + round * THREADS;
    const int state = acc + (CELL::accs + (step & 1) * CELL::states) * memory->pairs;
    const int u = mine->unit - phase->share.unit0;
#pragma unroll
    for (int p = 0; p < P; p++) {
        at[p].call = call;
        at[p].job = job;
        at[p].step = step;
        at[p].turn = 0;
        at[p].unit = mine->unit;
        at[p].row = phase->share.row0 + n + p * CUT::pair_rows;
        at[p].there = n + p * CUT::pair_rows < mine->rows;
        at[p].masked = at[p].there && is_masked(call, memory, job, step, n + p * CUT::pair_rows);
        const int sums = sums_at<CUT>(memory, mine, step, n + p * CUT::pair_rows);
#pragma unroll
        for (int i = 0; i < CELL::accs; i++)
            at[p].acc[i] = acc_of<CELL, CUT>(
                call, memory, i, acc + p * THREADS, sums,
                CUT::product == 1 ? 0 : *floats(bias_at<CELL, CUT>(memory, i, u)));
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            at[p].state[s] = *floats(state + s * memory->pairs + p * THREADS);
#pragma unroll
        for (int i = 0; i < CELL::saves; i++)
            at[p].stored[i] = false;
    }
}

/* Phase 0: the operand goes out, accumulators wait for phase 1. */
template <int NUMBER, class CUT, int P>
ECO_DEVICE void finish_first(const struct eco_resident_call *call, const struct phase *phase,
                             const struct mine *mine, int step, int n, int round)
{
    typedef numbers<NUMBER> cell;
    const int acc = acc_at(&phase->memory, 0) + (int)threadIdx.x + round * THREADS;
    struct staged_place<cell> at[P];
    read_pairs<cell, CUT, P>(call, phase, mine, step, n, round, at);
#pragma unroll
    for (int p = 0; p < P; p++)
        finish_stage<NUMBER, 0>(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename CUT::bundle>(call, &phase->memory, mine, 1, n + p * CUT::pair_rows,
                                   at[p].there, at[p].operand);
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int i = 0; i < cell::accs; i++)
            *floats(acc + i * phase->memory.pairs + p * THREADS) = at[p].acc[i];
        if (call->training)
            write_saves(&at[p], cell::saves);
    }
}

/* Phase 1: the step is done. */
template <int NUMBER, class CUT, int P>
ECO_DEVICE void finish_second(const struct eco_resident_call *call, const struct phase *phase,
                              const struct mine *mine, int step, int n, int round)
{
    typedef numbers<NUMBER> cell;
    const struct memory *memory = &phase->memory;
    const int next = acc_at(memory, cell::accs + (~step & 1) * cell::states) + (int)threadIdx.x +
                     round * THREADS;
    struct staged_place<cell> at[P];
    read_pairs<cell, CUT, P>(call, phase, mine, step, n, round, at);
#pragma unroll
    for (int p = 0; p < P; p++) {
        finish_stage<NUMBER, 1>(&at[p]);
        at[p].next[0] = as_kept(at[p].next[0]);
#pragma unroll
        for (int s = 0; s < cell::states; s++)
            at[p].next[s] = at[p].masked ? at[p].state[s] : at[p].next[s];
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename CUT::bundle>(call, memory, mine, 0, n + p * CUT::pair_rows, at[p].there,
                                   at[p].next[0]);
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int s = 0; s < cell::states; s++)
            *floats(next + s * memory->pairs + p * THREADS) = at[p].next[s];
        write_pair<cell>(&at[p]);
    }
}

template <int NUMBER, int SHIFT>
ECO_DEVICE void all_steps_of_two(const struct eco_resident_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    typedef numbers<NUMBER> cell;
    typedef division<cell::first, SHIFT, 0, 0, 1, 0, 2> cut;
    typedef division<cell::second, SHIFT, 0, 0, 1, 1, 2> second_cut;
    struct fragment r[cut::items][TILES], second_r[second_cut::items][TILES];
    const struct scales scales = read_both<cut, second_cut>(&call, r, second_r);
    struct phase phase = phase_of<cut, second_cut>(&call),
                 second = phase_of<second_cut, cut>(&call);
    const struct share *share = &phase.share;
    const struct eco_resident_job *job = &call.job[share->job];
    struct mine mine = phase.mine; /* places in the exchange are those of both phases */
    struct writer writer = writer_of(&call, share);
    struct patience patience = {0, 0};
    mine.scales = scales;
    read_biases<cell, cut>(&call, share, &phase.memory);
    clear_operand(&phase.memory);
    wait_on_dependent_grids();
    const struct span span = span_of(&call, share, &phase.memory);
    read_states<cell, cut>(&call, share, &phase.memory, &mine);
    __syncthreads();
    begin_operands<cut>(&call, share, &phase.memory, &mine.scales);
    phase.mine.scales = second.mine.scales = mine.scales;
    struct accs<cell, cut> accs(&call, share, &phase.memory, span.first);
    if (!is_idle(&span, 0))
        accs.ask(&call, share, &phase.memory);
    for (int step = 0; step < job->steps; step++) {
        const bool idle = is_idle(&span, step);
        if (step > 0 && !idle)
            gather<cut>(&call, share, &phase.memory, &patience, &mine,
                        [&] { accs.ask(&call, share, &phase.memory); });
        __syncthreads();
        tell(&writer, 0, step == job->steps - 1);
        if (idle)
            __syncthreads();
        else
            multiply<cut>(&call, share, &phase.memory, &phase.mine, r, step);
        for_pairs<cut>(&phase.memory, &mine, [&](auto pairs, int n, int round) {
            finish_first<NUMBER, cut, decltype(pairs)::value>(&call, &phase, &mine, step, n, round);
        });
        advance_phase<cut, second_cut>(&call, &phase.memory, &mine, step);
        if (!idle) {
            gather<second_cut>(&call, share, &second.memory, &patience, &mine, [] {});
            __syncthreads();
            multiply<second_cut>(&call, &second.share, &second.memory, &second.mine, second_r,
                                 step);
        }
        for_pairs<second_cut>(&second.memory, &mine, [&](auto pairs, int n, int round) {
            finish_second<NUMBER, second_cut, decltype(pairs)::value>(&call, &second, &mine, step,
                                                                      n, round);
        });
        advance_phase<second_cut, cut>(&call, &second.memory, &mine, step);
    }
#endif
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_TWO_STAGE_CUH */
