/*
 * The forward kernel for cells of two products. Phase 0 gathers the output state; phase 1 gathers
 * the value that phase 0 computes of it.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_TWO_STAGE_CUH
#define ECO_GPU_PERSISTENT_FORWARD_TWO_STAGE_CUH

#include "gpu/persistent/forward.cuh"
#include "gpu/persistent/two_stage.cuh"

/* One unit of one row in one stage. */
template <class CELL> struct staged_element : element_of<CELL> {
    float operand;
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* saved values stored by this stage */
};

template <class CELL>
ECO_DEVICE void store_operand(struct staged_element<CELL> *at, int slot, vec v)
{
    at->operand = v;
}
template <class CELL> ECO_DEVICE void store_save(struct staged_element<CELL> *at, int i, vec v)
{
    at->save[i] = v;
    at->stored[i] = true;
}
template <class CELL> ECO_DEVICE bool stores(const struct staged_element<CELL> *at, int i)
{
    return at->stored[i];
}

template <int NUMBER, int PHASE>
ECO_DEVICE void finish_stage(struct staged_element<cell_traits<NUMBER>> *at)
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

/* An accumulator: in phase 0 all but the second product, in phase 1 with it. */
template <class CELL, class DIVISION>
ECO_DEVICE float acc_of(const struct eco_persistent_call *call, const struct memory *memory, int i,
                        int acc, int sums, float bias)
{
    const float there = *floats(acc + i * memory->elements);
    const int row = CELL::row(i, DIVISION::product);
    const float x = DIVISION::product == 1 ? there : bias + (call->inputs >> i & 1 ? there : 0);
    return row < 0 ? x : x + sum_of<DIVISION>(memory, sums, row);
}

/* Reads what both phases need of `P` elements of this thread, from batch row n on. */
template <class CELL, class DIVISION, int P>
ECO_DEVICE void read_elements(const struct eco_persistent_call *call, const struct phase *phase,
                              const struct thread *thread, int step, int n, int round,
                              struct staged_element<CELL> at[P])
{
    const struct memory *memory = &phase->memory;
    const struct eco_persistent_job *job = &call->job[phase->block.job];
    const int acc = acc_at(memory, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS;
    const int state = acc + (CELL::accs + (step & 1) * CELL::states) * memory->elements;
    const int u = thread->unit - phase->block.unit0;
#pragma unroll
    for (int p = 0; p < P; p++) {
        at[p].call = call;
        at[p].job = job;
        at[p].step = step;
        at[p].parity = 0;
        at[p].unit = thread->unit;
        at[p].row = phase->block.row0 + n + p * DIVISION::element_rows;
        at[p].there = n + p * DIVISION::element_rows < thread->rows;
        at[p].masked =
            at[p].there && is_masked(call, memory, job, step, n + p * DIVISION::element_rows);
        const int sums = sums_at<DIVISION>(memory, thread, step, n + p * DIVISION::element_rows);
#pragma unroll
        for (int i = 0; i < CELL::accs; i++)
            at[p].acc[i] = acc_of<CELL, DIVISION>(
                call, memory, i, acc + p * PERSISTENT_THREADS, sums,
                DIVISION::product == 1 ? 0 : *floats(bias_at<CELL, DIVISION>(memory, i, u)));
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            at[p].state[s] = *floats(state + s * memory->elements + p * PERSISTENT_THREADS);
#pragma unroll
        for (int i = 0; i < CELL::saves; i++)
            at[p].stored[i] = false;
    }
}

/* Phase 0: sends the operand and keeps accumulators for phase 1. */
template <int NUMBER, class DIVISION, int P>
ECO_DEVICE void finish_first(const struct eco_persistent_call *call, const struct phase *phase,
                             const struct thread *thread, int step, int n, int round)
{
    typedef cell_traits<NUMBER> cell;
    const int acc = acc_at(&phase->memory, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS;
    struct staged_element<cell> at[P];
    read_elements<cell, DIVISION, P>(call, phase, thread, step, n, round, at);
#pragma unroll
    for (int p = 0; p < P; p++)
        finish_stage<NUMBER, 0>(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename DIVISION::scale_block>(call, &phase->memory, thread, 1,
                                             n + p * DIVISION::element_rows, at[p].there,
                                             at[p].operand);
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int i = 0; i < cell::accs; i++)
            *floats(acc + i * phase->memory.elements + p * PERSISTENT_THREADS) = at[p].acc[i];
        if (call->training)
            write_saves(&at[p], cell::saves);
    }
}

/* Phase 1: ends the step. */
template <int NUMBER, class DIVISION, int P>
ECO_DEVICE void finish_second(const struct eco_persistent_call *call, const struct phase *phase,
                              const struct thread *thread, int step, int n, int round)
{
    typedef cell_traits<NUMBER> cell;
    const struct memory *memory = &phase->memory;
    const int next = acc_at(memory, cell::accs + (~step & 1) * cell::states) + (int)threadIdx.x +
                     round * PERSISTENT_THREADS;
    struct staged_element<cell> at[P];
    read_elements<cell, DIVISION, P>(call, phase, thread, step, n, round, at);
#pragma unroll
    for (int p = 0; p < P; p++) {
        finish_stage<NUMBER, 1>(&at[p]);
        find_start<cell>(memory, n + p * DIVISION::element_rows, &at[p]);
        at[p].next[0] = as_kept(at[p].next[0]);
#pragma unroll
        for (int s = 0; s < cell::states; s++)
            at[p].next[s] = at[p].masked ? at[p].state[s] : at[p].next[s];
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename DIVISION::scale_block>(call, memory, thread, 0,
                                             n + p * DIVISION::element_rows, at[p].there,
                                             then_read(&at[p], 0));
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int s = 0; s < cell::states; s++)
            *floats(next + s * memory->elements + p * PERSISTENT_THREADS) = then_read(&at[p], s);
        write_element<cell>(&at[p]);
    }
}

template <int NUMBER, int SHIFT>
ECO_DEVICE void all_steps_of_two(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<cell::first, SHIFT, 0, 0, 1, 0, 2> divided;
    typedef division<cell::second, SHIFT, 0, 0, 1, 1, 2> second_cut;
    struct fragment r[divided::k_blocks][TILES], second_r[second_cut::k_blocks][TILES];
    const struct scales scales = read_both<divided, second_cut>(&call, r, second_r);
    struct phase phase = phase_of<divided, second_cut>(&call),
                 second = phase_of<second_cut, divided>(&call);
    const struct block *block = &phase.block;
    const struct eco_persistent_job *job = &call.job[block->job];
    struct thread thread = phase.thread; /* positions in the exchange are the same in both phases */
    struct address_walker address_walker = address_walker_of(&call, block);
    struct spin_timeout spin_timeout = {0, 0};
    thread.scales = scales;
    read_biases<cell, divided>(&call, block, &phase.memory);
    clear_operand(&phase.memory);
    wait_on_dependent_grids();
    const struct span span = span_of(&call, block, &phase.memory);
    struct resets resets = begin_resets(&call, block, &phase.memory, 1);
    read_states<cell, divided>(&call, block, &phase.memory, &thread);
    __syncthreads();
    load_initial_state<divided>(&call, block, &phase.memory, &thread.scales);
    phase.thread.scales = second.thread.scales = thread.scales;
    struct input_prefetch<cell, divided> inputs(&call, block, &phase.memory, span.first);
    if (!is_idle(&span, 0))
        inputs.ask(&call, block, &phase.memory);
    for (int step = 0; step < job->steps; step++) {
        publish_resets(&call, block, &phase.memory, &resets);
        const bool idle = is_idle(&span, step);
        if (step > 0 && !idle)
            gather<divided>(&call, block, &phase.memory, &spin_timeout, &thread,
                            [&] { inputs.ask(&call, block, &phase.memory); });
        __syncthreads();
        publish_addresses(&address_walker, 0, step == job->steps - 1);
        if (idle)
            __syncthreads();
        else
            multiply_gathered<divided>(&call, block, &phase.memory, &phase.thread, r, step);
        for_elements<divided>(&phase.memory, &thread, [&](auto elements, int n, int round) {
            finish_first<NUMBER, divided, decltype(elements)::value>(&call, &phase, &thread, step,
                                                                     n, round);
        });
        advance_phase<divided, second_cut>(&call, &phase.memory, &thread, step);
        if (!idle) {
            gather<second_cut>(&call, block, &second.memory, &spin_timeout, &thread, [] {});
            __syncthreads();
            multiply_gathered<second_cut>(&call, &second.block, &second.memory, &second.thread,
                                          second_r, step);
        }
        for_elements<second_cut>(&second.memory, &thread, [&](auto elements, int n, int round) {
            finish_second<NUMBER, second_cut, decltype(elements)::value>(&call, &second, &thread,
                                                                         step, n, round);
        });
        advance_phase<second_cut, divided>(&call, &second.memory, &thread, step);
    }
#endif
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_TWO_STAGE_CUH */
