/*
 * The backward persistent kernel. In each step, back in time, a block gathers dacc of all units
 * from the blocks of its group, multiplies it by the rows of R^T of its units, computes the cell's
 * gradient for its units, and sends their dacc to the group. The exchange works as in the forward
 * kernel; dacc has one number for each accumulator, so a block of LSTM gathers four times as much.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/persistent/backward_loads.cuh"
#include "gpu/persistent/gather.cuh"
#include "gpu/persistent/mainloop_direct.cuh"
#include "gpu/persistent/product.cuh"

/* Publishes the resets of the first step and of the step before it; all threads read them. */
ECO_DEVICE void publish_first_resets(const struct eco_persistent_call *call,
                                     const struct block *block, const struct memory *memory,
                                     struct resets *resets)
{
    if (!PUBLISHES_RESETS)
        return;
    publish_resets(call, block, memory, resets);
    publish_resets(call, block, memory, resets);
    __syncthreads();
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* After the last step: gradients of the initial states. */
template <class CELL> ECO_DEVICE void end(const struct element_of<CELL> *at)
{
    const struct eco_persistent_call *call = at->call;
    for (int s = 0; s < CELL::states && at->there; s++)
        ((real *)at->job->carry[s])[offset_at(at->row, call->carry_row[s], at->unit)] =
            at->carried[s * at->memory->elements] + (s == 0 ? at->dstate : 0);
}

template <class CELL, class DIVISION>
ECO_DEVICE void begin(const struct eco_persistent_call *call, const struct block *block,
                      const struct memory *memory, const struct thread *thread)
{
    const struct eco_persistent_job *job = &call->job[block->job];
    int to = carry_at(memory, 0) + (int)threadIdx.x;
    for (int n = thread->n; n < thread->rows; n += DIVISION::element_rows, to += PERSISTENT_THREADS)
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * memory->elements) =
                job->starts ? caller_state_at(call, job, s, block->row0 + n, thread->unit)
                            : ((const real *)job->carry[s])[offset_at(
                                  block->row0 + n, call->carry_row[s], thread->unit)];
}

/* Begins an element of this thread in batch row n; `round` counts passes over the rows. */
template <class CELL, class DIVISION>
ECO_DEVICE void begin_element(const struct eco_persistent_call *call, const struct block *block,
                              const struct memory *memory, const struct thread *thread, int step,
                              int n, int round, struct element_of<CELL> *at)
{
    at->call = call;
    at->job = &call->job[block->job];
    at->memory = memory;
    at->step = step;
    at->unit = thread->unit;
    at->row = block->row0 + n;
    at->there = n < thread->rows;
    at->sent = thread->sent;
    at->sent_row = n;
    at->dacc = bases_of(step)[AT_DACC];
    at->carried = floats(carry_at(memory, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS);
    at->masked = at->there && step < at->job->steps && is_masked(call, memory, at->job, step, n);
}

/* Finishes `P` elements, from batch row n on; DIVISION::reads_early: fields are loaded already. */
template <class CELL, class DIVISION, int P>
ECO_DEVICE void finish_elements(const struct memory *memory, const struct thread *thread, int step,
                                bool idle, int n, int round, struct element_of<CELL> at[P])
{
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int sums = sums_at<DIVISION>(memory, thread, step, n + p * DIVISION::element_rows);
        at[p].dstate = idle ? 0 : sum_of<DIVISION>(memory, sums, 0);
    }
    if (step == at[0].job->steps) {
        for (int p = 0; p < P; p++)
            end(&at[p]);
        return;
    }
#pragma unroll
    for (int p = 0; p < P; p++) {
        if (!DIVISION::reads_early)
            read_fields(memory, &at[p], (int)threadIdx.x + (round + p) * PERSISTENT_THREADS);
        add_dstate(&at[p]);
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        finish_unit(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
        send_dacc<0, typename DIVISION::scale_block>(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int a = 0; a < CELL::accs; a++)
            write_dacc(&at[p], a, at[p].dacc_of[a]);
}

/* The products of a step. read_ahead() is called while operands arrive, read() after that. On
 * return all threads may read the sums. */
template <class DIVISION, class AHEAD, class READ>
ECO_DEVICE void product_of_step(const struct eco_persistent_call *call, const struct block *block,
                                const struct memory *memory, struct spin_timeout *spin_timeout,
                                const struct thread *thread,
                                const struct fragment r[DIVISION::k_blocks][DIVISION::wide],
                                int step, AHEAD read_ahead, READ read)
{
    if constexpr (DIVISION::direct) {
        publish_addresses(step + 1);
        gather_and_multiply<DIVISION>(call, block, memory, spin_timeout, thread, r, step,
                                      read_ahead, read);
    } else {
        if (step > 0)
            gather<DIVISION>(call, block, memory, spin_timeout, thread, read_ahead);
        else
            read_ahead();
        fence_pieces<DIVISION>();
        __syncthreads();
        publish_addresses(step + 1);
        multiply_gathered<DIVISION>(call, block, memory, thread, r, step);
    }
}

/* All steps of a block, and the gradients of the initial states. TEXT: text_at_once (elements.cuh)
 * or text_in_stages (backward_means.cuh). */
template <class CELL, class DIVISION, class TEXT>
ECO_DEVICE void walk_steps(const struct eco_persistent_call &call)
{
    const struct block block = block_of<DIVISION>(&call);
    wait_on_dependent_grids(); /* a preceding kernel may transpose R */
    const struct scales scales = scales_of_r<DIVISION, DIVISION>(&call, &block, &block);
    struct fragment r[DIVISION::k_blocks][DIVISION::wide];
    read_fragments<DIVISION>(&call, &block, &scales, r);
    const struct memory memory = memory_of<DIVISION>(&call, &block);
    const struct eco_persistent_job *job = &call.job[block.job];
    struct thread thread =
        thread_of<DIVISION>(&call, &block, &memory, TEXT::exchanged(&call, &memory));
    begin_walk(&call, &block);
    struct spin_timeout spin_timeout = {0, 0};
    thread.scales = scales;
    clear_operand(&memory); /* the gradients of the initial states */
    const struct span span = span_of(&call, &block, &memory);
    struct resets resets = begin_resets(&call, &block, &memory, -1);
    if (DIVISION::blocks > 1)
        open_cluster();
    begin<CELL, DIVISION>(&call, &block, &memory, &thread);
    publish_addresses(0);
    __syncthreads();
    publish_first_resets(&call, &block, &memory, &resets);
    for (int step = 0; TEXT::in_stages || step <= job->steps; step++) {
        publish_resets(&call, &block, &memory, &resets); /* of the step after this one */
        const auto read_ahead = [&] {
            fetch<CELL, DIVISION>(&call, &block, &memory, &thread, step);
        };
        const auto begin = [&](int n, int round, struct element_of<CELL> *at) {
            begin_element<CELL, DIVISION>(&call, &block, &memory, &thread, step, n, round, at);
        };
        typename TEXT::element first[1];
        const auto read_first = [&] {
            if (!DIVISION::reads_early)
                return;
            if constexpr (TEXT::in_stages) {
                TEXT::read_first(&call, &block, &memory, &thread, step, first);
            } else {
                begin(thread.n, 0, first);
                if (step < job->steps)
                    read_fields(&memory, first, (int)threadIdx.x);
            }
        };
        const bool idle = is_idle(&span, step);
        if (idle) {
            publish_addresses(step + 1);
            __syncthreads();
            read_first();
        } else {
            product_of_step<DIVISION>(&call, &block, &memory, &spin_timeout, &thread, r, step,
                                      read_ahead, read_first);
        }
        if constexpr (TEXT::in_stages) {
            if (step == job->steps) {
                TEXT::end_all(&call, &block, &memory, &thread, step, idle);
                break;
            }
            TEXT::finish(&call, &block, &memory, &spin_timeout, &thread, step, idle, first);
            TEXT::prefetch(&call, &block, &thread, step);
        } else {
            finish_all<CELL, DIVISION>(
                &memory, &thread, first, begin,
                [&](auto elements, int n, int round, struct element_of<CELL> *at) {
                    finish_elements<CELL, DIVISION, decltype(elements)::value>(
                        &memory, &thread, step, idle, n, round, at);
                });
        }
        advance<TEXT>(&call, &memory, &thread, step);
    }
}

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP>
ECO_DEVICE void all_steps(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<1, SHIFT, CLUSTER_LOG2, MAINLOOP, cell::first> divided;
    walk_steps<cell, divided, struct text_at_once<cell, divided>>(call);
#endif
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_CUH */
