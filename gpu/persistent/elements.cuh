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

/* A row's word in shared memory: its length, and above it the resets of four steps in turn. */
#if defined(ECO_RESETS)
enum { PUBLISHES_RESETS = 1, LENGTH_BITS = 26, LENGTH = (1 << LENGTH_BITS) - 1 };
#else
enum { PUBLISHES_RESETS = 0, LENGTH_BITS = 0, LENGTH = -1 };
#endif

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
    return block->call->lengths &&
           job->t + block->step * job->t_step >= (lengths_in(block)[n] & LENGTH);
}

/* Offset of an element from the first row of a step. */
ECO_DEVICE uint32_t offset_at(int row, uint32_t row_step, int column)
{
    return (uint32_t)row * row_step + (uint32_t)column;
}

/* ---- resets ---------------------------------------------------------------------------------- */

/* Resets: one thread for each row publishes its resets, and loads the next one while a step runs.
 * Threads are at most a step apart, and a step also looks at the previous one, so four steps are
 * kept. */
struct resets {
    const uint8_t *at; /* of the thread's first row in step 0; NULL: this run has none */
    int along;         /* bytes from a step to the next */
    int first, steps;  /* first step, number of steps */
    unsigned byte;     /* of the step that is published next */
    int step;
};

/* The byte of the thread's row plus `on` rows; 0 if there is no such step. */
ECO_DEVICE unsigned reset_byte(const struct resets *resets, int on)
{
    const bool there = (unsigned)(resets->step - resets->first) < (unsigned)resets->steps;
    return there ? resets->at[(int64_t)resets->step * resets->along + on] : 0;
}

/* Position of the byte of a job's first step. In the reverse direction, which backward takes
 * forward in time, it is at the next time step. */
ECO_DEVICE int published_from(const struct eco_persistent_job *job)
{
    return job->t + ((job->t_step < 0) != PERSISTENT_BACKWARD);
}

ECO_DEVICE void publish_resets(const struct block_context *block, struct resets *resets)
{
    const struct eco_persistent_job *job = job_of(block);
    const int bit = LENGTH_BITS + (resets->step & 3);
    if (!PUBLISHES_RESETS || !resets->at)
        return;
    for (int n = (int)threadIdx.x; n < block->rows; n += PERSISTENT_THREADS) {
        int32_t *const word = &lengths_in(block)[n];
        const unsigned byte =
            n < PERSISTENT_THREADS ? resets->byte : reset_byte(resets, n - (int)threadIdx.x);
        const int t = published_from(job) + resets->step * job->t_step;
        const bool ended = block->call->lengths && t >= (*word & LENGTH);
        *word = (*word & ~(1 << bit)) | (int32_t)(byte != 0 && !ended) << bit;
    }
    resets->step++;
    if ((int)threadIdx.x < block->rows)
        resets->byte = reset_byte(resets, 0);
}

/* From a step on, once lengths are in shared memory for all threads. */
ECO_DEVICE struct resets begin_resets(const struct block_context *block, int step)
{
    struct resets resets = {NULL, 0, 0, 0, 0, step};
    if (!PUBLISHES_RESETS)
        return resets;
    const struct eco_persistent_job *job = job_of(block);
    for (int n = (int)threadIdx.x; n < block->rows && !block->call->lengths;
         n += PERSISTENT_THREADS)
        lengths_in(block)[n] = 0;
    if (!block->call->resets.bytes)
        return resets;
    const int published = published_from(job);
    resets.at =
        &block->call->resets
             .bytes[(int64_t)published * block->call->rows + block->row0 + (int)threadIdx.x];
    resets.along = job->t_step * block->call->rows;
    resets.steps = block->call->resets.steps - (published - job->t);
    resets.first = job->t_step > 0 ? -job->t : job->t - resets.steps + 1;
    if ((int)threadIdx.x < block->rows)
        resets.byte = reset_byte(&resets, 0);
    return resets;
}

/* Does batch row n of the group restart in a published step? */
ECO_DEVICE bool is_reset(const struct block_context *block, int step, int n)
{
    return PUBLISHES_RESETS && lengths_in(block)[n] >> (LENGTH_BITS + (step & 3)) & 1;
}

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

/* Calls finish(count, n, round) for all elements of this thread, two at a time: batch rows from n
 * on, after `round` passes of all threads. */
template <class DIVISION, class FINISH>
ECO_DEVICE void for_elements(const struct block_context *block, FINISH finish)
{
    const int rows = block->memory.row_tiles * ECO_PERSISTENT_N;
    int n = block->thread.n, round = 0;
#pragma unroll 1
    for (; (round + 1) * DIVISION::element_rows < rows; round += 2, n += 2 * DIVISION::element_rows)
        finish(count<2>(), n, round);
    if (round * DIVISION::element_rows < rows)
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
