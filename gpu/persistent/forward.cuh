/*
 * The forward persistent kernel. In each step a block gathers the output states of all units from
 * the blocks of its group, multiplies them by its rows of R, computes the cell's equations for its
 * own units, and sends the new output states to the group. There is no barrier between blocks: each
 * exchanged word is written once and shows that it has been written.
 *
 * Example: LSTM, H=512, 8 batch rows for a group of 16 blocks with 32 units each. A block gathers 8
 * * 512 numbers, multiplies them by 128 rows of R, and its 256 threads finish one of the 8 * 32
 * elements each.
 *
 * Computing addresses takes a warp longer than multiplying, so they are computed before the first
 * step and kept in `thread` and `written`.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_CUH
#define ECO_GPU_PERSISTENT_FORWARD_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/cell/templates.cuh"
#include "gpu/persistent/forward_stores.cuh"
#include "gpu/persistent/initial_state.cuh"
#include "gpu/persistent/input_prefetch.cuh"
#include "gpu/persistent/mainloop_direct.cuh"
#include "gpu/persistent/product.cuh"

/* ---- the words of a cell --------------------------------------------------------------------- */

/* One unit of one batch row, all in registers, so that elements are independent. */
struct element {
    const struct eco_persistent_call *call;
    const struct eco_persistent_job *job;
    int row, unit; /* in the whole layer */
    int step, parity;
    bool there, masked;
    bool resets; /* the next step restarts, from `start` */
};

template <class CELL> struct element_of : element {
    float acc[CELL::accs], state[CELL::states], next[CELL::states], start[CELL::states],
        save[CELL::saves > 0 ? CELL::saves : 1];
};

template <class ELEMENT> ECO_DEVICE vec load_acc(ELEMENT *at, int i)
{
    return at->acc[i];
}
template <class ELEMENT> ECO_DEVICE vec load_state(ELEMENT *at, int s)
{
    return at->state[s];
}
template <class ELEMENT> ECO_DEVICE void store_save(ELEMENT *at, int i, vec v)
{
    at->save[i] = v;
}
template <class ELEMENT> ECO_DEVICE void store_next(ELEMENT *at, int s, vec v)
{
    at->next[s] = v;
}

template <int NUMBER> ECO_DEVICE void finish_unit(struct element_of<cell_traits<NUMBER>> *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k)                                                                     \
        name(at);
    CELLS_forward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* Does the text of this step or stage store saved value i? */
template <class CELL> ECO_DEVICE bool stores(const struct element_of<CELL> *at, int i)
{
    return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Sends what product `o` gathers of batch row n. */
template <class SCALE_BLOCK>
ECO_DEVICE void send(const struct eco_persistent_call *call, const struct memory *memory,
                     const struct thread *thread, int o, int n, bool there, float value)
{
#if defined(ECO_SCALED)
    const float scale = publish_scale<SCALE_BLOCK>(call, memory, o, thread->sent, n, thread->unit,
                                                   there, larger_size(0, value));
    const operand_bits bits = to_operand(scale * value);
#else
    const operand_bits bits = to_operand(scale_state(&thread->scales, value));
#endif
    store_relaxed_if(there, thread->sent + thread->sent_unit + row_at(n), bits);
}

/* Does batch row n restart in the next step, and from which states? */
template <class CELL>
ECO_DEVICE void find_start(const struct memory *memory, int n, struct element_of<CELL> *at)
{
    at->resets = at->there && is_reset(memory, at->step + 1, n);
#pragma unroll
    for (int s = 0; s < CELL::states && PUBLISHES_RESETS; s++)
        at->start[s] = at->resets ? start_at(at->call, at->job, s, at->row, at->unit) : 0;
}

/* Loads one (row, unit) element: accumulators, states, flags. `round` counts passes of the thread
 * block over the rows. Sums of products are added here, or in finish_elements() if
 * DIVISION::reads_early. */
template <class CELL, class DIVISION>
ECO_DEVICE void read_element(const struct eco_persistent_call *call, const struct block *block,
                             const struct memory *memory, const struct thread *thread, int step,
                             int n, int round, struct element_of<CELL> *at)
{
    const int acc = acc_at(memory, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS;
    const int state = acc + (CELL::accs + (step & 1) * CELL::states) * memory->elements;
    const int sums = sums_at<DIVISION>(memory, thread, step, n);
    at->call = call;
    at->job = &call->job[block->job];
    at->step = step;
    at->parity = DIVISION::direct ? step & 1 : 0;
    at->unit = thread->unit;
    at->row = block->row0 + n;
    at->there = n < thread->rows;
    at->masked = at->there && is_masked(call, memory, at->job, step, n);
    find_start(memory, n, at);
#pragma unroll
    for (int i = 0; i < CELL::accs; i++) {
        const float wx = *floats(acc + i * memory->elements);
        at->acc[i] = *floats(bias_at<CELL, DIVISION>(memory, i, thread->unit - block->unit0)) +
                     (call->inputs >> i & 1 ? wx : 0);
        if (!DIVISION::reads_early && CELL::row(i) >= 0)
            at->acc[i] += sum_of<DIVISION>(memory, sums, CELL::row(i));
    }
#pragma unroll
    for (int s = 0; s < CELL::states; s++)
        at->state[s] = *floats(state + s * memory->elements);
}

/* Finishes `P` elements, from batch row n on. Those outside the batch are not stored. */
template <class CELL, class DIVISION, int P>
ECO_DEVICE void finish_elements(const struct eco_persistent_call *call, const struct memory *memory,
                                const struct thread *thread, int step, int n, int round,
                                struct element_of<CELL> at[P])
{
    const int next = acc_at(memory, CELL::accs + (~step & 1) * CELL::states) + (int)threadIdx.x +
                     round * PERSISTENT_THREADS;
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int sums = sums_at<DIVISION>(memory, thread, step, n + p * DIVISION::element_rows);
#pragma unroll
        for (int i = 0; i < CELL::accs; i++)
            if (DIVISION::reads_early && CELL::row(i) >= 0)
                at[p].acc[i] += sum_of<DIVISION>(memory, sums, CELL::row(i));
    }
#pragma unroll
    for (int p = 0; p < P; p++) {
        finish_unit(&at[p]);
        /* The output state is an operand, so it is rounded to the type of rows; other states stay
         * F32. */
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

template <class CELL, class DIVISION>
ECO_DEVICE void read_biases(const struct eco_persistent_call *call, const struct block *block,
                            const struct memory *memory)
{
    for (int i = (int)threadIdx.x; i < CELL::accs << DIVISION::shift; i += PERSISTENT_THREADS) {
        const int a = i >> DIVISION::shift, u = i & ((1 << DIVISION::shift) - 1),
                  unit = block->unit0 + u;
        const real *const vectors = (const real *)call->job[block->job].vector;
        *floats(bias_at<CELL, DIVISION>(memory, a, u)) =
            call->bias[a] >= 0 && unit < call->hidden
                ? vectors[(int64_t)call->bias[a] * call->hidden + unit]
                : 0;
    }
}

template <class CELL, class DIVISION>
ECO_DEVICE void read_states(const struct eco_persistent_call *call, const struct block *block,
                            const struct memory *memory, const struct thread *thread)
{
    const struct eco_persistent_job *job = &call->job[block->job];
    int to = acc_at(memory, CELL::accs) + (int)threadIdx.x;
    for (int n = thread->n; n < thread->rows;
         n += DIVISION::element_rows, to += PERSISTENT_THREADS) {
        float state[CELL::states]; /* all loads are issued before the first is used */
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            const uint32_t where = offset_at(block->row0 + n, call->state_row[s], thread->unit);
            state[s] = job->starts ? caller_state_at(call, job, s, block->row0 + n, thread->unit)
                       : s > 0     ? ((const real *)job->state[s])[where]
                                   : to_real(((const narrow *)job->state[0])[where]);
        }
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * memory->elements) = state[s];
    }
}

/* The products of a step. ask() is called while operands arrive, read() when the accumulators have
 * arrived. On return all threads may read the sums. */
template <class DIVISION, class ASK, class READ>
ECO_DEVICE void product_of_step(const struct eco_persistent_call *call, const struct block *block,
                                const struct memory *memory, struct spin_timeout *spin_timeout,
                                const struct thread *thread,
                                const struct fragment r[DIVISION::k_blocks][DIVISION::wide],
                                struct address_walker *address_walker, int step, ASK ask, READ read)
{
    const bool last = step == call->job[block->job].steps - 1;
    if constexpr (DIVISION::direct) {
        publish_addresses(address_walker, step & 1, last);
        gather_and_multiply<DIVISION>(call, block, memory, spin_timeout, thread, r, step, ask,
                                      read);
    } else {
        /* Accumulators are loaded while the block waits for operands, or, where products take long,
         * while these run. What is requested first arrives first. */
        if (step > 0)
            gather<DIVISION>(call, block, memory, spin_timeout, thread, [&] {
                if (memory->row_tiles == 1)
                    ask();
            });
        fence_pieces<DIVISION>();
        __syncthreads();
        if (memory->row_tiles > 1)
            ask();
        publish_addresses(address_walker, 0, last);
        multiply_gathered<DIVISION>(call, block, memory, thread, r, step);
    }
}

/* A step in which all rows have ended. */
template <class DIVISION>
ECO_DEVICE void skip_products(struct address_walker *address_walker, int step, bool last)
{
    __syncthreads(); /* other threads have read `written` */
    publish_addresses(address_walker, DIVISION::direct ? step & 1 : 0, last);
    __syncthreads();
}

/* All steps of a block. TEXT: text_at_once (elements.cuh) or text_in_stages (forward_means.cuh). */
template <class CELL, class DIVISION, class TEXT>
ECO_DEVICE void walk_steps(const struct eco_persistent_call &call)
{
    const struct block block = block_of<DIVISION>(&call);
    const struct scales scales = scales_of_r<DIVISION, DIVISION>(&call, &block, &block);
    struct fragment r[DIVISION::k_blocks][DIVISION::wide];
    read_fragments<DIVISION>(&call, &block, &scales, r);
    const struct memory memory = memory_of<DIVISION>(&call, &block);
    const int steps = call.job[block.job].steps;
    struct thread thread =
        thread_of<DIVISION>(&call, &block, &memory, TEXT::exchanged(&call, &memory));
    struct address_walker address_walker = address_walker_of(&call, &block);
    struct spin_timeout spin_timeout = {0, 0};
    thread.scales = scales;
    read_biases<CELL, DIVISION>(&call, &block, &memory);
    clear_operand(&memory);
    wait_on_dependent_grids(); /* preceding kernels do not write weights */
    const struct span span = span_of(&call, &block, &memory);
    struct resets resets = begin_resets(&call, &block, &memory, 1);
    publish_resets(&call, &block, &memory, &resets);
    read_states<CELL, DIVISION>(&call, &block, &memory, &thread);
    if (DIVISION::blocks > 1)
        open_cluster();
    else
        __syncthreads();
    load_initial_state<DIVISION>(&call, &block, &memory, &thread.scales);
    struct input_prefetch<CELL, DIVISION> inputs(&call, &block, &memory, span.first);
    if (!is_idle(&span, 0))
        inputs.ask(&call, &block, &memory);
    if (DIVISION::direct)
        __syncthreads(); /* the operands of the first step are in place */
    for (int step = 0; step < steps; step++) {
        publish_resets(&call, &block, &memory, &resets); /* of the step after the next */
        const auto ask = [&] {
            if (step > 0)
                inputs.ask(&call, &block, &memory);
        };
        const auto read = [&](int n, int round, struct element_of<CELL> *at) {
            read_element<CELL, DIVISION>(&call, &block, &memory, &thread, step, n, round, at);
        };
        typename TEXT::element first[1];
        const auto read_first = [&] {
            if (DIVISION::reads_early)
                read(thread.n, 0, first);
        };
        const bool idle = is_idle(&span, step);
        if (idle) {
            skip_products<DIVISION>(&address_walker, step, step == steps - 1);
            read_first();
        } else {
            product_of_step<DIVISION>(&call, &block, &memory, &spin_timeout, &thread, r,
                                      &address_walker, step, ask, read_first);
        }
        if constexpr (TEXT::in_stages)
            TEXT::finish(&call, &block, &memory, &spin_timeout, &thread, step, idle, first);
        else
            finish_all<CELL, DIVISION>(
                &memory, &thread, first, read,
                [&](auto elements, int n, int round, struct element_of<CELL> *at) {
                    finish_elements<CELL, DIVISION, decltype(elements)::value>(
                        &call, &memory, &thread, step, n, round, at);
                });
        advance<TEXT>(&call, &memory, &thread, step);
    }
}

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP>
ECO_DEVICE void all_steps(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<cell::first, SHIFT, CLUSTER_LOG2, MAINLOOP, 1> divided;
    walk_steps<cell, divided, struct text_at_once<cell, divided>>(call);
#endif
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_CUH */
