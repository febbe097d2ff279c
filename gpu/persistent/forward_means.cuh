/*
 * The forward kernel for cells with means over a row. It is the forward kernel, except that the
 * text of a step has stages, between which blocks exchange sums (means_stages.cuh).
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_MEANS_CUH
#define ECO_GPU_PERSISTENT_FORWARD_MEANS_CUH

#include "gpu/persistent/forward.cuh"
#include "gpu/persistent/means_stages.cuh"

template <class CELL> ECO_DEVICE void store_save(struct mean_element<CELL> *at, int i, vec v)
{
    at->save[i] = v;
    at->stored[i] = true;
}
template <class CELL> ECO_DEVICE bool stores(const struct mean_element<CELL> *at, int i)
{
    return at->stored[i];
}

/* In shared memory, after biases. */
template <class CELL, class DIVISION> ECO_DEVICE int means_at(const struct memory *memory)
{
    return bias_at<CELL, DIVISION>(memory, CELL::accs, 0);
}

/* An element with the sums of products; if DIVISION::reads_early the rest is loaded already. */
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

/* Saved values of a stage other than the last. */
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

/* Ends the step. */
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

/* What walk_steps() calls. */
template <class CELL, class DIVISION, bool KEPT>
struct text_in_stages : text_of_stages<CELL, DIVISION> {
    /* All stages of a step, and the exchanges between them. */
    ECO_DEVICE void finish(const struct eco_persistent_call *call, const struct block *block,
                           const struct memory *memory, struct spin_timeout *spin_timeout,
                           const struct thread *thread, int step, bool idle,
                           struct mean_element<CELL> first[1])
    {
        enum { LAST = means_of::stages - 1 };
        const struct mean_stage mean_stage = {
            call, block, memory, spin_timeout, thread, means_at<CELL, DIVISION>(memory), idle};
        run_all_stages<CELL, DIVISION, KEPT>(
            &mean_stage, first,
            [&](auto, int n, int round, auto *at) {
                read_whole<CELL, DIVISION>(call, block, memory, thread, step, n, round, at);
            },
            [&](auto stage, auto elements, int n, int round, auto *at) {
                enum { P = decltype(elements)::value, ENDS = decltype(stage)::value == LAST };
                if constexpr (ENDS)
                    end_elements<CELL, DIVISION, P>(call, memory, thread, step, n, round, at);
                else
                    save_elements<CELL, P>(call, at);
            });
    }
};

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP, bool KEPT>
ECO_DEVICE void all_steps_with_means(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<cell::first, SHIFT, CLUSTER_LOG2, MAINLOOP, 1> divided;
    walk_steps<cell, divided, struct text_in_stages<cell, divided, KEPT>>(call);
#endif
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_MEANS_CUH */
