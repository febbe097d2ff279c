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
#include "gpu/persistent/forward_stores.cuh"
#include "gpu/persistent/initial_state.cuh"
#include "gpu/persistent/input_prefetch.cuh"
#include "gpu/persistent/mainloop_direct.cuh"
#include "gpu/persistent/stages.cuh"

/* ---- the words of a cell --------------------------------------------------------------------- */

/* One unit of one batch row, all in registers, so that elements are independent. */
struct element {
    const struct eco_persistent_call *call;
    const struct eco_persistent_job *job;
    int row, unit; /* in the whole layer */
    int step, parity;
    bool there, masked;
    bool restarts; /* the next step does, from `start` */
};

template <class CELL> struct element_of : element, row_means {
    float acc[CELL::accs], state[CELL::states], next[CELL::states], start[CELL::states],
        save[CELL::saves > 0 ? CELL::saves : 1];
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* which of `save` this stage has stored */
    float operand;                                  /* of the second product */
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
    at->stored[i] = true;
}
template <class ELEMENT> ECO_DEVICE void store_operand(ELEMENT *at, int slot, vec v)
{
    at->operand = v;
}
template <class ELEMENT> ECO_DEVICE void store_next(ELEMENT *at, int s, vec v)
{
    at->next[s] = v;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Sends what product `o` gathers of batch row n. */
template <class SCALE_BLOCK>
ECO_DEVICE void send(const struct block_context *block, int o, int n, bool there, float value)
{
#if defined(ECO_SCALED)
    const float scale = publish_scale<SCALE_BLOCK>(block, o, n, there, larger_size(0, value));
    const operand_bits bits = to_operand(scale * value);
#else
    const operand_bits bits = to_operand(scale_state(&block->scales, value));
#endif
    store_relaxed_if(there, block->thread.sent + block->thread.sent_unit + row_at(n), bits);
}

/* Does batch row n restart in the next step, and from which states? */
template <class CELL>
ECO_DEVICE void find_start(const struct block_context *block, int n, struct element_of<CELL> *at)
{
    at->restarts = at->there && is_reset(block, at->step + 1, n, 0);
#pragma unroll
    for (int s = 0; s < CELL::states && HAS_RESETS; s++)
        at->start[s] = at->restarts ? start_at(at, s) : 0;
}

/* Begins an element: all but the sums of products. */
template <class DIVISION, class CELL>
ECO_DEVICE void begin_element(const struct block_context *block, int n, int round,
                              struct element_of<CELL> *at)
{
    const int acc = acc_at(block, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS;
    const int state =
        acc + (CELL::accs + (block->step & 1) * CELL::states) * block->memory.elements;
    at->call = block->call;
    at->job = job_of(block);
    at->step = block->step;
    at->parity = DIVISION::direct ? block->step & 1 : 0;
    at->unit = block->thread.unit;
    at->row = block->row0 + n;
    at->there = n < block->thread.rows;
    at->masked = at->there && is_masked(block, n);
    find_start(block, n, at);
#pragma unroll
    for (int i = 0; i < CELL::accs; i++) {
        const float there = *floats(acc + i * block->memory.elements);
        if (DIVISION::product > 0) /* an earlier stage has left it there */
            at->acc[i] = there;
        else
            at->acc[i] = *floats(bias_at<CELL, DIVISION>(block, i, at->unit - block->unit0)) +
                         (block->call->inputs >> i & 1 ? there : 0);
    }
#pragma unroll
    for (int s = 0; s < CELL::states; s++)
        at->state[s] = *floats(state + s * block->memory.elements);
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        at->stored[i] = false;
}

/* Reads an element; all but the sums may have been read early. */
template <class DIVISION, class CELL>
ECO_DEVICE void read_element(const struct block_context *block, int n, int round,
                             struct element_of<CELL> *at)
{
    const int sums = sums_at<DIVISION>(block, n);
    if (!DIVISION::reads_early)
        begin_element<DIVISION>(block, n, round, at);
#pragma unroll
    for (int i = 0; i < CELL::accs; i++)
        if (CELL::row(i, DIVISION::product) >= 0)
            at->acc[i] += sum_of<DIVISION>(block, sums, CELL::row(i, DIVISION::product));
}

/* After a stage that is not the last: sends the second product's operand, and keeps accumulators
 * for that. */
template <class KERNEL, int STAGE, int P>
ECO_DEVICE void end_stage(const struct block_context *block, int n, int round,
                          struct element_of<typename KERNEL::cell> at[P])
{
    typedef typename KERNEL::cell cell;
    typedef typename KERNEL::template division_of<STAGE> divided;
    const int acc = acc_at(block, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS;
    if constexpr (KERNEL::products > 1)
#pragma unroll
        for (int p = 0; p < P; p++)
            send<typename divided::scale_block>(block, STAGE + 1, n + p * divided::element_rows,
                                                at[p].there, at[p].operand);
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int i = 0; i < cell::accs && KERNEL::products > 1; i++)
            *floats(acc + i * block->memory.elements + p * PERSISTENT_THREADS) = at[p].acc[i];
        if (block->call->keeps)
            write_saves(&at[p]);
    }
}

/* After the last stage. Elements outside the batch are not stored. */
template <class KERNEL, int P>
ECO_DEVICE void end_step(const struct block_context *block, int n, int round,
                         struct element_of<typename KERNEL::cell> at[P])
{
    typedef typename KERNEL::cell cell;
    typedef typename KERNEL::second divided;
    const int next = acc_at(block, cell::accs + (~block->step & 1) * cell::states) +
                     (int)threadIdx.x + round * PERSISTENT_THREADS;
#pragma unroll
    for (int p = 0; p < P; p++) {
        /* The output state is an operand, so it is rounded to the type of rows; other states stay
         * F32. */
        at[p].next[0] = as_kept(at[p].next[0]);
#pragma unroll
        for (int s = 0; s < cell::states; s++)
            at[p].next[s] = at[p].masked ? at[p].state[s] : at[p].next[s];
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename divided::scale_block>(block, 0, n + p * divided::element_rows, at[p].there,
                                            then_read(&at[p], 0));
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int s = 0; s < cell::states; s++)
            *floats(next + s * block->memory.elements + p * PERSISTENT_THREADS) =
                then_read(&at[p], s);
        write_element(&at[p]);
    }
}

template <class KERNEL, int STAGE, int P>
ECO_DEVICE void run_elements(const struct block_context *block, int n, int round,
                             struct element_of<typename KERNEL::cell> at[P])
{
    typedef typename KERNEL::template division_of<STAGE> divided;
    if constexpr (reads_elements<KERNEL, STAGE>())
#pragma unroll
        for (int p = 0; p < P; p++)
            read_element<divided>(block, n + p * divided::element_rows, round + p, &at[p]);
    run_texts<KERNEL, STAGE, P>(block, n, at);
    if constexpr (STAGE < KERNEL::last)
        end_stage<KERNEL, STAGE, P>(block, n, round, at);
    else
        end_step<KERNEL, P>(block, n, round, at);
}

template <class CELL, class DIVISION> ECO_DEVICE void read_biases(const struct block_context *block)
{
    for (int i = (int)threadIdx.x; i < CELL::accs << DIVISION::shift; i += PERSISTENT_THREADS) {
        const int a = i >> DIVISION::shift, u = i & ((1 << DIVISION::shift) - 1),
                  unit = block->unit0 + u;
        const real *const vectors = (const real *)job_of(block)->vector;
        *floats(bias_at<CELL, DIVISION>(block, a, u)) =
            block->call->bias[a] >= 0 && unit < block->call->hidden
                ? vectors[(int64_t)block->call->bias[a] * block->call->hidden + unit]
                : 0;
    }
}

template <class CELL, class DIVISION> ECO_DEVICE void read_states(const struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    int to = acc_at(block, CELL::accs) + (int)threadIdx.x;
    for (int n = block->thread.n; n < block->thread.rows;
         n += DIVISION::element_rows, to += PERSISTENT_THREADS) {
        float state[CELL::states]; /* all loads are issued before the first is used */
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            const uint32_t where =
                offset_at(block->row0 + n, block->call->state_row[s], block->thread.unit);
            state[s] = job->starts ? caller_state_at(block, s, block->row0 + n, block->thread.unit)
                       : s > 0     ? ((const real *)job->state[s])[where]
                                   : to_real(((const narrow *)job->state[0])[where]);
        }
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * block->memory.elements) = state[s];
    }
}

/* The products of a step. ask() is called while operands arrive, read() when the accumulators have
 * arrived. On return all threads may read the sums. */
template <class DIVISION, class ASK, class READ>
ECO_DEVICE void product_of_step(struct block_context *block,
                                const struct fragment r[DIVISION::k_blocks][DIVISION::wide],
                                struct address_walker *address_walker, ASK ask, READ read)
{
    const bool last = block->step == job_of(block)->steps - 1;
    if constexpr (DIVISION::direct) {
        publish_addresses(address_walker, block->step & 1, last);
        gather_and_multiply<DIVISION>(block, r, ask, read);
    } else {
        /* Accumulators are loaded while the block waits for operands, or, where products take long,
         * while these run. What is requested first arrives first. */
        if (block->step > 0)
            gather<DIVISION>(block, [&] {
                if (block->memory.row_tiles == 1)
                    ask();
            });
        fence_pieces<DIVISION>();
        __syncthreads();
        if (block->memory.row_tiles > 1)
            ask();
        publish_addresses(address_walker, 0, last);
        multiply_gathered<DIVISION>(block, r);
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

/* All steps of a block. */
template <class KERNEL> ECO_DEVICE void walk_steps(const struct eco_persistent_call &call)
{
    typedef typename KERNEL::cell cell;
    typedef typename KERNEL::first divided;
    typedef typename KERNEL::second second_cut;
    struct block_context block = block_of(&call);
    struct fragment r[divided::k_blocks][divided::wide],
        second_r[second_cut::k_blocks][second_cut::wide];
    begin_block<KERNEL>(&block, r, second_r);
    struct address_walker address_walker = address_walker_of(&block);
    block.memory.means = bias_at<cell, divided>(&block, cell::accs, 0);
    read_biases<cell, divided>(&block);
    clear_operand(&block);
    wait_on_dependent_grids(); /* preceding kernels do not write weights */
    const struct span span = span_of(&block);
    read_states<cell, divided>(&block);
    if (divided::blocks > 1)
        open_cluster();
    else
        __syncthreads();
    load_initial_state<divided>(&block);
    struct input_prefetch<cell, divided> inputs(&block, span.first);
    if (!is_idle(&span, 0))
        inputs.ask(&block);
    if (divided::direct)
        __syncthreads(); /* the operands of the first step are in place */
    for (block.step = 0; block.step < job_of(&block)->steps; block.step++) {
        ask_resets(&block, block.step + 1);
        const auto ask = [&] {
            if (block.step > 0)
                inputs.ask(&block);
        };
        struct element_of<cell> first[1];
        const auto read_early = [&] {
            if (divided::reads_early)
                begin_element<divided>(&block, block.thread.n, 0, first);
        };
        block.idle = is_idle(&span, block.step);
        if (block.idle) {
            skip_products<divided>(&address_walker, block.step,
                                   block.step == job_of(&block)->steps - 1);
            read_early();
        } else {
            product_of_step<divided>(&block, r, &address_walker, ask, read_early);
        }
        run_stages<KERNEL, 0>(&block, second_r, first);
        advance<KERNEL, KERNEL::products - 1>(&block);
    }
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_CUH */
