/*
 * The forward kernel for cells with means over a row: that of other cells, but that the text of a
 * step is stages, between which blocks tell each other sums (means_stages.cuh).
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_MEANS_CUH
#define ECO_GPU_PERSISTENT_FORWARD_MEANS_CUH

#include "gpu/persistent/forward.cuh"
#include "gpu/persistent/means_stages.cuh"

template <class CELL> ECO_DEVICE void store_save(struct normed_element<CELL> *at, int i, vec v)
{
    at->save[i] = v;
    at->stored[i] = true;
}
template <class CELL> ECO_DEVICE bool stores(const struct normed_element<CELL> *at, int i)
{
    return at->stored[i];
}

/* In shared memory, behind biases. */
template <class CELL, class DIVISION> ECO_DEVICE int means_at(const struct memory *memory)
{
    return bias_at<CELL, DIVISION>(memory, CELL::accs, 0);
}

/* An element with what products add; in kernels that read early the rest is there. */
template <class CELL, class DIVISION, class ELEMENT>
ECO_DEVICE void read_whole(const struct eco_persistent_call *call, const struct block *block,
                           const struct memory *memory, const struct thread *thread, int step,
                           int n, int round, ELEMENT *at)
{
    if (!DIVISION::reads_early)
        read_element<CELL, DIVISION>(call, block, memory, thread, step, n, round, at);
    const int sums = sums_at<DIVISION>(memory, thread, step, n);
#pragma unroll
    for (int i = 0; i < CELL::accs; i++)
        if (DIVISION::reads_early && CELL::row(i) >= 0)
            at->acc[i] += sum_of<DIVISION>(memory, sums, CELL::row(i));
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        at->stored[i] = false;
}

/* Saved values of a stage that is not the last. */
template <class CELL, int P, class ELEMENT>
ECO_DEVICE void save_elements(const struct eco_persistent_call *call, ELEMENT at[P])
{
#pragma unroll
    for (int p = 0; p < P; p++) {
        if (call->keeps)
            write_saves(&at[p], CELL::saves);
#pragma unroll
        for (int i = 0; i < CELL::saves; i++)
            at[p].stored[i] = false;
    }
}

/* The step is done. */
template <class CELL, class DIVISION, int P, class ELEMENT>
ECO_DEVICE void end_elements(const struct eco_persistent_call *call, const struct memory *memory,
                             const struct thread *thread, int step, int n, int round, ELEMENT at[P])
{
    const int next = acc_at(memory, CELL::accs + (~step & 1) * CELL::states) + (int)threadIdx.x +
                     round * PERSISTENT_THREADS;
#pragma unroll
    for (int p = 0; p < P; p++) {
        at[p].next[0] = as_kept(at[p].next[0]);
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
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
        for (int s = 0; s < CELL::states; s++)
            *floats(next + s * memory->elements + p * PERSISTENT_THREADS) = then_read(&at[p], s);
        write_element<CELL>(&at[p]);
    }
}

/* All stages of a step, and what goes round between them. */
template <int NUMBER, class DIVISION, bool KEPT>
ECO_DEVICE void finish_step(const struct eco_persistent_call *call, const struct block *block,
                            const struct memory *memory, struct spin_timeout *spin_timeout,
                            const struct thread *thread, int step, bool idle,
                            struct normed_element<cell_traits<NUMBER>> first[1])
{
    typedef cell_traits<NUMBER> cell;
    enum { LAST = means_of::stages - 1 };
    const struct norming norming = {
        call, block, memory, spin_timeout, thread, means_at<cell, DIVISION>(memory), idle};
    run_all_stages<cell, DIVISION, KEPT>(
        &norming, first,
        [&](auto, int n, int round, auto *at) {
            read_whole<cell, DIVISION>(call, block, memory, thread, step, n, round, at);
        },
        [&](auto stage, auto elements, int n, int round, auto *at) {
            enum { P = decltype(elements)::value, ENDS = decltype(stage)::value == LAST };
            if constexpr (ENDS)
                end_elements<cell, DIVISION, P>(call, memory, thread, step, n, round, at);
            else
                save_elements<cell, P>(call, at);
        });
}

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP, bool KEPT>
ECO_DEVICE void all_steps_with_means(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<cell::first, SHIFT, CLUSTER_LOG2, MAINLOOP, 1> divided;
    const struct block block = block_of<divided>(&call);
    const struct scales scales = scales_of_r<divided, divided>(&call, &block, &block);
    struct fragment r[divided::k_blocks][divided::wide];
    read_fragments<divided>(&call, &block, &scales, r);
    const struct memory memory = memory_of<divided>(&call, &block);
    const int steps = call.job[block.job].steps;
    struct thread thread =
        thread_of<divided>(&call, &block, &memory, exchanged_of<divided>(&call, &memory));
    struct address_walker address_walker = address_walker_of(&call, &block);
    struct spin_timeout spin_timeout = {0, 0};
    thread.scales = scales;
    read_biases<cell, divided>(&call, &block, &memory);
    clear_operand(&memory);
    wait_on_dependent_grids(); /* none of which writes weights */
    const struct span span = span_of(&call, &block, &memory);
    struct resets resets = begin_resets(&call, &block, &memory, 1);
    tell_resets(&call, &block, &memory, &resets);
    read_states<cell, divided>(&call, &block, &memory, &thread);
    if (CLUSTER_LOG2 > 0)
        open_cluster();
    else
        __syncthreads();
    load_initial_state<divided>(&call, &block, &memory, &thread.scales);
    struct input_prefetch<cell, divided> inputs(&call, &block, &memory, span.first);
    if (!is_idle(&span, 0))
        inputs.ask(&call, &block, &memory);
    if (divided::direct)
        __syncthreads(); /* the first operands are there */
    for (int step = 0; step < steps; step++) {
        tell_resets(&call, &block, &memory, &resets); /* of the step after the next */
        const bool idle = is_idle(&span, step);
        const auto ask = [&] {
            if (step > 0)
                inputs.ask(&call, &block, &memory);
        };
        struct normed_element<cell> first[1];
        const auto read_first = [&] {
            if (divided::reads_early)
                read_element<cell, divided>(&call, &block, &memory, &thread, step, thread.n, 0,
                                            first);
        };
        if (idle) {
            skip_products<divided>(&address_walker, step, step == steps - 1);
            read_first();
        } else {
            product_of_step<divided>(&call, &block, &memory, &spin_timeout, &thread, r,
                                     &address_walker, step, ask, read_first);
        }
        finish_step<NUMBER, divided, KEPT>(&call, &block, &memory, &spin_timeout, &thread, step,
                                           idle, first);
        advance_with_means<divided>(&call, &memory, &thread, step);
    }
#endif
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_MEANS_CUH */
