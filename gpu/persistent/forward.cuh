/*
 * The forward persistent kernel.  A step: gather the output state of all units from the
 * other blocks of the group; multiply it by this block's rows of R; finish its units in the cell's
 * own text; send them to the others.  Blocks meet nowhere: every word that is exchanged is written
 * once and says itself that it is there.
 *
 * A warp spends more time on finding out where things are than on multiplying, unless that is known
 * before the first step: hence `thread` and `written`.
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

/* One unit of one row: all that its text reads and writes is in registers, so that units do not
 * wait for each other. */
struct element {
    const struct eco_persistent_call *call;
    const struct eco_persistent_job *job;
    int row, unit; /* in all */
    int step, parity;
    bool there, masked;
    bool resets; /* the step that comes begins anew, from start */
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

/* Does the text of the step, or the stage of it, store a saved value? */
template <class CELL> ECO_DEVICE bool stores(const struct element_of<CELL> *at, int i)
{
    return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Of row n, what product `o` gathers. */
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

/* Of batch row n: does the step that comes begin anew, and from what? */
template <class CELL>
ECO_DEVICE void find_start(const struct memory *memory, int n, struct element_of<CELL> *at)
{
    at->resets = at->there && is_reset(memory, at->step + 1, n);
#pragma unroll
    for (int s = 0; s < CELL::states && TELLS_RESETS; s++)
        at->start[s] = at->resets ? start_at(at->call, at->job, s, at->row, at->unit) : 0;
}

/* What an element of this thread in batch row n, some rounds of all threads on, has; with what
 * products add, or before. */
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

/* `P` of them, from batch row n on, side by side; what does not exist is calculated like the
 * others, and written nowhere. */
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
        /* The output state is an operand, hence of the type of rows; others are kept as sums. */
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
        float state[CELL::states]; /* all asked for before one is waited for */
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            const uint32_t where = offset_at(block->row0 + n, call->state_row[s], thread->unit);
            state[s] = job->starts ? given_at(call, job, s, block->row0 + n, thread->unit)
                       : s > 0     ? ((const real *)job->state[s])[where]
                                   : to_real(((const narrow *)job->state[0])[where]);
        }
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * memory->elements) = state[s];
    }
}

/* A step's products, of what others sent; ask() is done while that is on its way, read() when
 * accumulators are there.  Its sums are there for all threads when it returns. */
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
        /* Accumulators come while the exchange is waited for; where products take long, while
         * these run: what is asked for first comes first. */
        if (step > 0)
            gather<DIVISION>(call, block, memory, spin_timeout, thread, [&] {
                if (memory->row_tiles == 1)
                    ask();
            });
        show_pieces<DIVISION>();
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
    __syncthreads(); /* what others read of `written` is read */
    publish_addresses(address_walker, DIVISION::direct ? step & 1 : 0, last);
    __syncthreads();
}

/* All steps of a block.  TEXT: text_at_once (elements.cuh) or text_in_stages (forward_means.cuh).
 */
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
    wait_on_dependent_grids(); /* none of which writes weights */
    const struct span span = span_of(&call, &block, &memory);
    struct resets resets = begin_resets(&call, &block, &memory, 1);
    tell_resets(&call, &block, &memory, &resets);
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
        __syncthreads(); /* the first operands are there */
    for (int step = 0; step < steps; step++) {
        tell_resets(&call, &block, &memory, &resets); /* of the step after the next */
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
