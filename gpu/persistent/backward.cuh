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
#include "gpu/persistent/mainloop_direct.cuh"
#include "gpu/persistent/stages.cuh"

/* ---- a step ---------------------------------------------------------------------------------- */

/* After the last step: gradients of the initial states. */
template <class CELL> ECO_DEVICE void end(const struct element_of<CELL> *at)
{
    const struct eco_persistent_call *call = at->call;
    for (int s = 0; s < CELL::states && at->there; s++)
        ((real *)at->job->carry[s])[offset_at(at->row, call->carry_row[s], at->unit)] =
            at->carried[s * at->elements] + (s == 0 ? at->dstate : 0);
}

template <class CELL, class DIVISION> ECO_DEVICE void begin(const struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    int to = carry_at(block, 0) + (int)threadIdx.x;
    for (int n = block->thread.n; n < block->thread.rows;
         n += DIVISION::element_rows, to += PERSISTENT_THREADS)
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * block->memory.elements) =
                job->starts ? caller_state_at(block, s, block->row0 + n, block->thread.unit)
                            : ((const real *)job->carry[s])[offset_at(
                                  block->row0 + n, block->call->carry_row[s], block->thread.unit)];
}

/* ---- beyond the end of a stage with means -----------------------------------------------------
 */

template <class CELL, int STAGE>
ECO_DEVICE vec load_saved(struct element_ahead<CELL, STAGE> *a, int i)
{
    return load_saved(a->at, i);
}
template <class CELL, int STAGE>
ECO_DEVICE vec load_next(struct element_ahead<CELL, STAGE> *a, int s)
{
    return load_next(a->at, s);
}
template <class CELL, int STAGE>
ECO_DEVICE vec load_dnext(struct element_ahead<CELL, STAGE> *a, int s)
{
    return load_dnext(a->at, s);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Begins an element: all but the sums of products. */
template <class CELL>
ECO_DEVICE void begin_element(const struct block_context *block, int n, int round,
                              struct element_of<CELL> *at)
{
    at->call = block->call;
    at->job = job_of(block);
    at->step = block->step;
    at->elements = block->memory.elements;
    at->unit = block->thread.unit;
    at->row = block->row0 + n;
    at->there = n < block->thread.rows;
    at->sent_row = n;
    at->dacc = bases_of(block->step)[AT_DACC];
    at->operand = bases_of(block->step)[AT_OPERAND];
    at->carried = floats(carry_at(block, 0) + (int)threadIdx.x + round * PERSISTENT_THREADS);
    at->masked = at->there && block->step < at->job->steps && is_masked(block, n);
#pragma unroll
    for (int a = 0; a < CELL::accs; a++)
        at->stored[a] = false;
}

/* Reads the sums of products, which arrive last; all else may have been read early. */
template <class DIVISION, class CELL>
ECO_DEVICE void read_sums(const struct block_context *block, int n, int round,
                          struct element_of<CELL> *at)
{
    const int sums = sums_at<DIVISION>(block, n);
    if (!DIVISION::reads_early)
        begin_element(block, n, round, at);
    at->doperand = block->idle ? 0 : sum_of<DIVISION>(block, sums, 0);
    at->dstate = DIVISION::product == 0 ? at->doperand : 0;
}

/* Reads what a text reads. Later stages do not add to starts again. */
template <class KERNEL, int STAGE>
ECO_DEVICE void begin_text(const struct block_context *block, int round,
                           struct element_of<typename KERNEL::cell> *at)
{
    if (!KERNEL::first::reads_early)
        read_fields(block, at, (int)threadIdx.x + round * PERSISTENT_THREADS);
    if (STAGE > 0 && at->cut)
        at->dstate = 0;
    add_dstate(at);
    write_dvectors(at, false);
}

/* Sends and stores what a stage has computed. */
template <class KERNEL, int STAGE, int P>
ECO_DEVICE void end_stage(const struct block_context *block,
                          struct element_of<typename KERNEL::cell> at[P])
{
    enum { PRODUCT = KERNEL::products > 1 ? 1 - STAGE : 0 }; /* the one that gathers it */
    typedef typename KERNEL::template division_of<PRODUCT> next;
    if constexpr (KERNEL::products > 1 || STAGE == KERNEL::last) {
#pragma unroll
        for (int p = 0; p < P; p++)
            send_dacc<PRODUCT, typename next::scale_block>(block, &at[p]);
#pragma unroll
        for (int p = 0; p < P; p++)
#pragma unroll
            for (int a = 0; a < KERNEL::cell::accs; a++)
                if (at[p].stored[a])
                    write_dacc(&at[p], a, at[p].dacc_of[a]);
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        write_dvectors(&at[p], true);
}

template <class KERNEL, int STAGE, int P>
ECO_DEVICE void run_elements(const struct block_context *block, int n, int round,
                             struct element_of<typename KERNEL::cell> at[P])
{
    typedef typename KERNEL::template division_of<STAGE> divided;
    if constexpr (reads_elements<KERNEL, STAGE>()) {
#pragma unroll
        for (int p = 0; p < P; p++)
            read_sums<divided>(block, n + p * divided::element_rows, round + p, &at[p]);
        if (STAGE == 0 && block->step == at[0].job->steps) {
            for (int p = 0; p < P; p++)
                end(&at[p]);
            return;
        }
#pragma unroll
        for (int p = 0; p < P; p++)
            begin_text<KERNEL, STAGE>(block, round + p, &at[p]);
    }
#pragma unroll
    for (int p = 0; p < P && KERNEL::products > 1 && STAGE == 0; p++)
        *at[p].carried = at[p].carry[0] + at[p].dstate;
    run_texts<KERNEL, STAGE, P>(block, n, at);
    end_stage<KERNEL, STAGE, P>(block, at);
}

/* Prefetches saved values of a later step into the L2; memory would be slower than an exchange. */
template <class CELL, class DIVISION>
ECO_DEVICE void prefetch_saved(const struct block_context *block)
{
    enum {
        STEPS_AHEAD = 2,
        UNITS = 1 << DIVISION::shift,
        SECTOR = 32 / sizeof(narrow),
        SECTORS = (UNITS + SECTOR - 1) / SECTOR, /* sectors of a value, in a row */
        ALL = CELL::saves * SECTORS
    };
    const struct eco_persistent_job *job = job_of(block);
    const bool there = block->step + STEPS_AHEAD < job->steps && block->thread.n < block->rows;
    const narrow *const row =
        (const narrow *)bases_of(block->step)[AT_SAVE] + STEPS_AHEAD * job->save_step +
        offset_at(block->row0 + block->thread.n, block->call->save_row, block->unit0);
    const int own = (int)threadIdx.x & (UNITS - 1);
#pragma unroll
    for (int first = 0; first < ALL; first += UNITS) {
        const int i = first + own, unit = i % SECTORS * SECTOR;
        prefetch_l2_if(there && i < ALL && block->unit0 + unit < block->call->hidden,
                       row + (int64_t)(i / SECTORS) * block->call->hidden + unit);
    }
}

/* The products of a step. read_ahead() is called while operands arrive, read() after that. On
 * return all threads may read the sums. */
template <class DIVISION, class AHEAD, class READ>
ECO_DEVICE void product_of_step(struct block_context *block,
                                const struct fragment r[DIVISION::k_blocks][DIVISION::wide],
                                AHEAD read_ahead, READ read)
{
    if constexpr (DIVISION::direct) {
        publish_addresses(block->step + 1);
        gather_and_multiply<DIVISION>(block, r, read_ahead, read);
    } else {
        if (block->step > 0)
            gather<DIVISION>(block, read_ahead);
        else
            read_ahead();
        fence_pieces<DIVISION>();
        __syncthreads();
        publish_addresses(block->step + 1);
        multiply_gathered<DIVISION>(block, r);
    }
}

/* All steps of a block, and the gradients of the initial states. */
template <class KERNEL> ECO_DEVICE void walk_steps(const struct eco_persistent_call &call)
{
    typedef typename KERNEL::cell cell;
    typedef typename KERNEL::first divided;
    typedef typename KERNEL::second second_cut;
    struct block_context block = block_of(&call);
    struct fragment r[divided::k_blocks][divided::wide],
        second_r[second_cut::k_blocks][second_cut::wide];
    wait_on_dependent_grids(); /* a preceding kernel may transpose R */
    begin_block<KERNEL>(&block, r, second_r);
    block.memory.means = field_at<cell>(&block, field<cell>::dy + 1, 0);
    begin_walk(&block);
    clear_operand(&block); /* the gradients of the initial states */
    const struct span span = span_of(&block);
    if (divided::blocks > 1)
        open_cluster();
    begin<cell, divided>(&block);
    publish_addresses(0);
    __syncthreads();
    for (block.step = 0; block.step <= job_of(&block)->steps; block.step++) {
        ask_resets(&block, block.step);
        struct element_of<cell> first[1];
        const auto read_ahead = [&] { fetch<cell, divided>(&block); };
        const auto read_early = [&] {
            if (!divided::reads_early)
                return;
            begin_element(&block, block.thread.n, 0, first);
            if (block.step < job_of(&block)->steps)
                read_fields(&block, first, (int)threadIdx.x);
        };
        block.idle = is_idle(&span, block.step);
        if (block.idle) {
            publish_addresses(block.step + 1);
            __syncthreads();
            read_early();
        } else {
            product_of_step<divided>(&block, r, read_ahead, read_early);
        }
        run_stages<KERNEL, 0>(&block, second_r, first);
        if constexpr (KERNEL::one_element && cell::saves > 0)
            prefetch_saved<cell, divided>(&block);
        advance<KERNEL, KERNEL::products - 1>(&block);
    }
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_CUH */
