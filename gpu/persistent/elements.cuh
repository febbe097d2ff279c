/*
 * What a thread of a persistent kernel keeps for all steps: its elements (a unit of a batch row
 * each), and the addresses that it and its warp read and write. A block's elements, units fastest,
 * are dealt to its threads in turn, so a thread always has the same unit. With 32 units, thread 33
 * has unit 1 of batch rows 1, 9, 17, ...
 */
#ifndef ECO_GPU_PERSISTENT_ELEMENTS_CUH
#define ECO_GPU_PERSISTENT_ELEMENTS_CUH

#include "gpu/arch/memory.cuh"
#include "gpu/cell/math.cuh"
#include "gpu/persistent/block.cuh"
#include "gpu/persistent/means_of_cell.cuh"

template <class DIVISION>
ECO_DEVICE struct thread thread_of(const struct block_context *block, int64_t of_group)
{
    const int u = (int)threadIdx.x & ((1 << DIVISION::shift) - 1);
    struct thread thread;
    thread.n = pinned((int)threadIdx.x >> DIVISION::shift);
    thread.unit = pinned(block->unit0 + u);
    thread.rows = pinned(thread.unit < block->call->hidden ? block->rows : 0);
    thread.element_sums =
        pinned((DIVISION::blocks > 1 ? block->memory.parts : block->memory.sums) + u);
    thread.sent_unit = pinned(number_at<typename DIVISION::scale_block>(
        block, number_of<typename DIVISION::scale_block>(block, 0, thread.unit)));
    thread.sent = (operand_bits *)job_of(block)->exchange + block->group * of_group * PIECE;
    thread.received = (const uint4 *)thread.sent + first_piece<DIVISION>(block);
    thread.came = pinned(block->memory.operand + block->warp * WARP + block->lane);
    return thread;
}

/* ---- steps in which all rows of a group have ended ------------------------------------------- */

/* The steps that are not idle: `first` up to `end`. Backward includes the step after them, which
 * gathers what the last of them sent. `first` is a multiple of four, because the barriers of a
 * cluster count steps. */
struct span {
    int first, end;
};
enum { FOURS = 4 };

ECO_DEVICE int32_t *lengths_in(const struct block_context *block)
{
    return (int32_t *)floats(block->memory.lengths);
}

/* Called when preceding kernels have ended; also loads lengths, which need a barrier. */
ECO_DEVICE struct span span_of(const struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    if (!block->call->lengths)
        return {0, job->steps + PERSISTENT_BACKWARD};
    int longest = 0;
    for (int n = block->lane; n < block->rows; n += WARP) {
        const int length = block->call->lengths[block->row0 + n];
        longest = max(longest, length);
        if (block->warp == 0)
            lengths_in(block)[n] = length;
    }
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    longest = __reduce_max_sync(0xffffffffu, longest);
#endif
    const int ended = min(max(job->t + 1 - longest, 0), job->steps);
    if (job->t_step < 0)
        return {ended / FOURS * FOURS, job->steps + PERSISTENT_BACKWARD};
    return {0, min(max(longest - job->t, 0), job->steps) + PERSISTENT_BACKWARD};
}

/* In idle steps nothing is gathered or multiplied. */
ECO_DEVICE bool is_idle(const struct span *span, int step)
{
    return step < span->first || step >= span->end;
}

/* Has batch row n of the group ended in this step? */
ECO_DEVICE bool is_masked(const struct block_context *block, int n)
{
    const struct eco_persistent_job *job = job_of(block);
    return block->call->lengths && job->t + block->step * job->t_step >= lengths_in(block)[n];
}

/* Offset of an element from the first row of a step. */
ECO_DEVICE uint32_t offset_at(int row, uint32_t row_step, int column)
{
    return (uint32_t)row * row_step + (uint32_t)column;
}

/* ---- resets ---------------------------------------------------------------------------------- */

/* What a row restarts from. */
ECO_DEVICE const struct eco_persistent_starts *starts_of(const struct eco_persistent_call *call,
                                                         const struct eco_persistent_job *job)
{
    return &call->resets.of[job - call->job];
}

template <class ELEMENT> ECO_DEVICE real start_at(const ELEMENT *at, int s)
{
    const narrow *const start = (const narrow *)starts_of(at->call, at->job)->start[s];
    return start ? to_real(start[offset_at(at->row, (uint32_t)at->call->hidden, at->unit)]) : 0;
}

#if defined(ECO_RESETS)
/* The bits of batch row n, of which one is of step `step`. */
ECO_DEVICE uint32_t reset_word(const struct block_context *block, int step, int n)
{
    const uint32_t *const words = starts_of(block->call, job_of(block))->words;
    return words ? words[(int64_t)((step + 1) / 32) * block->call->rows + block->row0 + n] : 0;
}

/* Asks for the bits of a thread's first row, once in 32 steps and long before they are used.
 * `step`: the last one that is_reset() is asked for in this step. */
ECO_DEVICE void ask_resets(struct block_context *block, int step)
{
    if ((block->step == 0 || (step + 1) % 32 == 0) && block->thread.n < block->thread.rows)
        block->thread.restarts = reset_word(block, step, block->thread.n);
}

/* Does batch row n of the group restart in a step? `ahead`: steps before that of ask_resets(). */
ECO_DEVICE bool is_reset(const struct block_context *block, int step, int n, int ahead)
{
    const bool asked = n == block->thread.n && (step + 1) % 32 + ahead < 32;
    const uint32_t word = asked ? block->thread.restarts : reset_word(block, step, n);
    return word >> ((step + 1) % 32) & 1;
}
#else
ECO_DEVICE void ask_resets(struct block_context *, int)
{
}
ECO_DEVICE bool is_reset(const struct block_context *, int, int, int)
{
    return false;
}
#endif

/* Calls finish(count, n, round) for all elements of this thread, two at a time: batch rows from n
 * on, after `round` passes of all threads. */
template <class DIVISION, class FINISH>
ECO_DEVICE void for_elements(const struct block_context *block, FINISH finish)
{
    const int rows = block->memory.row_tiles * ECO_PERSISTENT_N;
    int n = block->thread.n, round = 0;
    enum { AT_ONCE = usual.rounds == 1 ? 1 : 2 };
#pragma unroll 1
    for (; (round + AT_ONCE - 1) * DIVISION::element_rows < rows;
         round += AT_ONCE, n += AT_ONCE * DIVISION::element_rows)
        finish(count<AT_ONCE>(), n, round);
    if (AT_ONCE > 1 && round * DIVISION::element_rows < rows)
        finish(count<1>(), n, round);
}

/* One element of the caller's state s. */
ECO_DEVICE real caller_state_at(const struct block_context *block, int s, int row, int unit)
{
    const narrow *const given = (const narrow *)job_of(block)->caller_state[s];
    return given ? to_real(given[offset_at(row, (uint32_t)block->call->hidden, unit)]) : 0;
}

/* Stores a value of a row, without a branch. */
ECO_DEVICE void write_row(bool wanted, narrow *at, narrow v)
{
#if defined(ECO_ROWS_F32)
    store_4_if(wanted, at, __float_as_uint(to_real(v)));
#else
    store_2_if(wanted, at, v.bits);
#endif
}

/* One unit of one row; forward.cuh and backward_loads.cuh define it. */
template <class CELL> struct element_of;

/* ---- the words of a cell that forward and backward share ------------------------------------- */

/* With means vectors stay in registers, because an exchange would make the compiler load them
 * again. */
template <class ELEMENT> ECO_DEVICE vec load_vector(ELEMENT *at, int k)
{
    const real *const vector = (const real *)at->job->vector;
    if (means_of::means == 0)
        return vector[(int64_t)k * at->call->hidden + at->unit];
    const uint64_t bytes = (uint64_t)(uint32_t)at->call->hidden * (uint32_t)(k * sizeof *vector);
    return load_constant((const float *)((const char *)(vector + at->unit) + bytes));
}

template <class ELEMENT> ECO_DEVICE vec v_bernoulli(ELEMENT *at, int which, double probability)
{
    const struct eco_persistent_call *call = at->call;
    if (!call->training)
        return (real)probability;
    const uint32_t t = (uint32_t)(at->job->t + at->step * at->job->t_step);
    const struct eco_coordinates where = {call->seed,
                                          at->job->layer,
                                          at->job->direction,
                                          eco_draw_purpose(which),
                                          eco_draw_step(which, call->draw_step + t),
                                          call->draw_row + (uint32_t)at->row};
    return draw(&where, (uint32_t)at->unit, probability);
}

#endif /* ECO_GPU_PERSISTENT_ELEMENTS_CUH */
