/*
 * The backward kernel for cells of two products. Phase 0 gathers dacc of the first product, from
 * the step after; phase 1 gathers dacc of the second product, which phase 0 computed.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_TWO_STAGE_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_TWO_STAGE_CUH

#include "gpu/persistent/backward.cuh"
#include "gpu/persistent/two_stage.cuh"

/* One unit of one row in one stage. */
template <class CELL> struct staged_element : element_of<CELL> {
    float doperand;          /* of the second product */
    char *operand;           /* of the gradient of its R */
    bool stored[CELL::accs]; /* dacc stored by this stage */
};

template <class CELL> ECO_DEVICE vec load_doperand(struct staged_element<CELL> *at, int slot)
{
    return at->doperand;
}
template <class CELL> ECO_DEVICE void store_dacc(struct staged_element<CELL> *at, int a, vec v)
{
    store_dacc((struct element_of<CELL> *)at, a, v);
    if (a < CELL::accs)
        at->stored[a] = true;
}
template <class CELL>
ECO_DEVICE void store_operand(struct staged_element<CELL> *at, int slot, vec v)
{
    write_row(at->there,
              (narrow *)at->operand + offset_at(at->row, at->call->operand_row, at->unit),
              to_narrow(at->masked ? 0 : v));
}

template <int NUMBER, int PHASE>
ECO_DEVICE void finish_stage(struct staged_element<cell_traits<NUMBER>> *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k && PHASE == STAGE)                                                   \
        name(at);
#define STAGE 0
    CELLS_backward_0(CELLS_CASE)
#undef STAGE
#define STAGE 1
        CELLS_backward_1(CELLS_CASE)
#undef STAGE
#undef CELLS_CASE
}

/* Finishes `P` elements of this thread, from batch row n on. */
template <int NUMBER, class DIVISION, int P>
ECO_DEVICE void finish_phase(const struct eco_persistent_call *call, const struct phase *phase,
                             const struct thread *thread, int step, bool idle, int n, int round)
{
    enum { PHASE = DIVISION::product };
    typedef cell_traits<NUMBER> cell;
    const struct memory *memory = &phase->memory;
    const struct eco_persistent_job *job = &call->job[phase->block.job];
    const int element = (int)threadIdx.x + round * PERSISTENT_THREADS;
    struct staged_element<cell> at[P];
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int row = n + p * DIVISION::element_rows;
        const int sums = sums_at<DIVISION>(memory, thread, step, row);
        const float sum = idle ? 0 : sum_of<DIVISION>(memory, sums, 0);
        at[p].call = call;
        at[p].job = job;
        at[p].memory = memory;
        at[p].step = step;
        at[p].unit = thread->unit;
        at[p].row = phase->block.row0 + row;
        at[p].there = row < thread->rows;
        at[p].sent = thread->sent;
        at[p].sent_row = row;
        at[p].dacc = bases_of(step)[AT_DACC];
        at[p].operand = bases_of(step)[AT_OPERAND];
        at[p].carried = floats(carry_at(memory, 0) + element + p * PERSISTENT_THREADS);
        at[p].dstate = PHASE == 0 ? sum : 0; /* phase 1 adds no product to the state's gradient */
        at[p].doperand = sum;
        at[p].masked = at[p].there && step < job->steps && is_masked(call, memory, job, step, row);
#pragma unroll
        for (int a = 0; a < cell::accs; a++)
            at[p].stored[a] = false;
    }
    if (PHASE == 0 && step == job->steps) {
        for (int p = 0; p < P; p++)
            end(&at[p]);
        return;
    }
#pragma unroll
    for (int p = 0; p < P; p++) {
        read_fields<cell>(memory, &at[p], element + p * PERSISTENT_THREADS);
        add_dstate(&at[p]);
    }
#pragma unroll
    for (int p = 0; p < P; p++) {
        if (PHASE == 0)
            *at[p].carried = at[p].carry[0] + at[p].dstate;
        finish_stage<NUMBER, PHASE>(&at[p]);
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        send_dacc<1 - PHASE,
                  scale_block_of<PHASE == 0 ? cell::second : cell::first, DIVISION::shift>>(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int a = 0; a < cell::accs; a++)
            if (at[p].stored[a])
                write_dacc(&at[p], a, at[p].dacc_of[a]);
}

template <int NUMBER, int SHIFT>
ECO_DEVICE void all_steps_of_two(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<1, SHIFT, 0, 0, cell::first, 0, 2> divided;
    typedef division<1, SHIFT, 0, 0, cell::second, 1, 2> second_cut;
    struct fragment r[divided::k_blocks][TILES], second_r[second_cut::k_blocks][TILES];
    wait_on_dependent_grids();
    const struct scales scales = read_both<divided, second_cut>(&call, r, second_r);
    struct phase phase = phase_of<divided, second_cut>(&call),
                 second = phase_of<second_cut, divided>(&call);
    const struct block *block = &phase.block;
    const struct eco_persistent_job *job = &call.job[block->job];
    struct thread thread = phase.thread; /* positions in the exchange are the same in both phases */
    begin_walk(&call, block);
    struct spin_timeout spin_timeout = {0, 0};
    phase.thread.scales = second.thread.scales = scales;
    clear_operand(&phase.memory); /* the gradients of the initial states */
    begin<cell, divided>(&call, block, &phase.memory, &thread);
    const struct span span = span_of(&call, block, &phase.memory);
    struct resets resets = begin_resets(&call, block, &phase.memory, -1);
    publish_addresses(0);
    __syncthreads();
    publish_first_resets(&call, block, &phase.memory, &resets);
    for (int step = 0;; step++) {
        publish_resets(&call, block, &phase.memory, &resets); /* of the step after this one */
        const auto read_ahead = [&] {
            fetch<cell, divided>(&call, block, &phase.memory, &thread, step);
        };
        const bool idle = is_idle(&span, step);
        if (step > 0 && !idle)
            gather<divided>(&call, block, &phase.memory, &spin_timeout, &thread, read_ahead);
        else if (!idle)
            read_ahead();
        __syncthreads();
        publish_addresses(step + 1);
        if (idle)
            __syncthreads();
        else
            multiply_gathered<divided>(&call, block, &phase.memory, &phase.thread, r, step);
        for_elements<divided>(&phase.memory, &thread, [&](auto elements, int n, int round) {
            finish_phase<NUMBER, divided, decltype(elements)::value>(&call, &phase, &thread, step,
                                                                     idle, n, round);
        });
        if (step == job->steps)
            break;
        advance_phase<divided, second_cut>(&call, &phase.memory, &thread, step);
        if (!idle) {
            gather<second_cut>(&call, block, &second.memory, &spin_timeout, &thread, [] {});
            __syncthreads();
            multiply_gathered<second_cut>(&call, &second.block, &second.memory, &second.thread,
                                          second_r, step);
        }
        for_elements<second_cut>(&second.memory, &thread, [&](auto elements, int n, int round) {
            finish_phase<NUMBER, second_cut, decltype(elements)::value>(&call, &second, &thread,
                                                                        step, idle, n, round);
        });
        advance_phase<second_cut, divided>(&call, &second.memory, &thread, step);
    }
#endif
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_TWO_STAGE_CUH */
