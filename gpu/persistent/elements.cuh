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

/* Positions of a thread's first element, and of its warp's products. */
struct thread {
    int unit, n;
    int rows; /* batch rows in which the unit exists */
    /* in shared memory; element_sums: of batch row 0; came: the first piece that it gathers */
    int element_sums, operand, scale, sums, came;
    int k_block;   /* the first k block that it multiplies, among the gathered ones */
    int sent_unit; /* position of its unit in the exchange */
    struct scales scales;
    operand_bits *sent;    /* the group's exchange of the current step */
    const uint4 *received; /* the first piece that this lane reads of the previous step */
};

template <class DIVISION>
ECO_DEVICE struct thread thread_of(const struct eco_persistent_call *call,
                                   const struct block *block, const struct memory *memory,
                                   int64_t of_group)
{
    const int u = (int)threadIdx.x & ((1 << DIVISION::shift) - 1);
    struct thread thread;
    thread.n = pinned((int)threadIdx.x >> DIVISION::shift);
    thread.unit = pinned(block->unit0 + u);
    thread.rows = pinned(thread.unit < call->hidden ? block->rows : 0);
    thread.element_sums = pinned((DIVISION::blocks > 1 ? memory->parts : memory->sums) + u);
    const int pieces = first_k_block<DIVISION>(call, block) * memory->row_tiles;
    thread.operand = pinned(memory->operand + pieces * WARP + (DIVISION::wgmma ? 0 : block->lane));
    thread.scale = memory->scales + block->lane % 4 * 2;
    thread.k_block = first_k_block<DIVISION>(call, block);
    const int part = across_of<DIVISION>(block, 0) / (DIVISION::across / DIVISION::parts);
    thread.sums = pinned(memory->sums + part * DIVISION::sum_part +
                         ECO_PERSISTENT_SUM_AT(block->lane % 4 * 2, DIVISION::sum_row) +
                         down_of<DIVISION>(block, 0) * ECO_PERSISTENT_M + block->lane / 4);
    thread.sent_unit = pinned(number_at<typename DIVISION::scale_block>(
        memory, number_of<typename DIVISION::scale_block>(call, 0, thread.unit)));
    thread.sent = (operand_bits *)call->job[block->job].exchange + block->group * of_group * PIECE;
    thread.received =
        (const uint4 *)thread.sent + first_piece<DIVISION>(call, block, memory->row_tiles);
    thread.came = pinned(memory->operand + block->warp * WARP + block->lane);
    return thread;
}

/* Advances to the next step's part of the exchange. TEXT: see text_at_once. */
template <class TEXT>
ECO_DEVICE void advance(const struct eco_persistent_call *call, const struct memory *memory,
                        struct thread *thread, int step)
{
    const int64_t sent = call->shape.groups * TEXT::exchanged(call, memory);
    thread->sent += sent * PIECE;
    if (step > 0)
        thread->received += sent;
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

ECO_DEVICE int32_t *lengths_in(const struct memory *memory)
{
    return (int32_t *)floats(memory->lengths);
}

/* Called when preceding kernels have ended; also loads lengths, which need a barrier. */
ECO_DEVICE struct span span_of(const struct eco_persistent_call *call, const struct block *block,
                               const struct memory *memory)
{
    const struct eco_persistent_job *job = &call->job[block->job];
    if (!call->lengths)
        return {0, job->steps + PERSISTENT_BACKWARD};
    int longest = 0;
    for (int n = block->lane; n < block->rows; n += WARP) {
        const int length = call->lengths[block->row0 + n];
        longest = max(longest, length);
        if (block->warp == 0)
            lengths_in(memory)[n] = length;
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
ECO_DEVICE bool is_masked(const struct eco_persistent_call *call, const struct memory *memory,
                          const struct eco_persistent_job *job, int step, int n)
{
    return call->lengths && job->t + step * job->t_step >= (lengths_in(memory)[n] & LENGTH);
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

ECO_DEVICE void publish_resets(const struct eco_persistent_call *call, const struct block *block,
                               const struct memory *memory, struct resets *resets)
{
    const struct eco_persistent_job *job = &call->job[block->job];
    const int bit = LENGTH_BITS + (resets->step & 3);
    if (!PUBLISHES_RESETS || !resets->at)
        return;
    for (int n = (int)threadIdx.x; n < block->rows; n += PERSISTENT_THREADS) {
        int32_t *const word = &lengths_in(memory)[n];
        const unsigned byte =
            n < PERSISTENT_THREADS ? resets->byte : reset_byte(resets, n - (int)threadIdx.x);
        const int t = published_from(job) + resets->step * job->t_step;
        const bool ended = call->lengths && t >= (*word & LENGTH);
        *word = (*word & ~(1 << bit)) | (int32_t)(byte != 0 && !ended) << bit;
    }
    resets->step++;
    if ((int)threadIdx.x < block->rows)
        resets->byte = reset_byte(resets, 0);
}

/* From a step on, once lengths are in shared memory for all threads. */
ECO_DEVICE struct resets begin_resets(const struct eco_persistent_call *call,
                                      const struct block *block, const struct memory *memory,
                                      int step)
{
    struct resets resets = {NULL, 0, 0, 0, 0, step};
    if (!PUBLISHES_RESETS)
        return resets;
    const struct eco_persistent_job *job = &call->job[block->job];
    for (int n = (int)threadIdx.x; n < block->rows && !call->lengths; n += PERSISTENT_THREADS)
        lengths_in(memory)[n] = 0;
    if (!call->resets.bytes)
        return resets;
    const int published = published_from(job);
    resets.at =
        &call->resets.bytes[(int64_t)published * call->rows + block->row0 + (int)threadIdx.x];
    resets.along = job->t_step * call->rows;
    resets.steps = call->resets.steps - (published - job->t);
    resets.first = job->t_step > 0 ? -job->t : job->t - resets.steps + 1;
    if ((int)threadIdx.x < block->rows)
        resets.byte = reset_byte(&resets, 0);
    return resets;
}

/* Does batch row n of the group restart in a published step? */
ECO_DEVICE bool is_reset(const struct memory *memory, int step, int n)
{
    return PUBLISHES_RESETS && lengths_in(memory)[n] >> (LENGTH_BITS + (step & 3)) & 1;
}

/* What a row restarts from. */
ECO_DEVICE const struct eco_persistent_starts *starts_of(const struct eco_persistent_call *call,
                                                         const struct eco_persistent_job *job)
{
    return &call->resets.of[job - call->job];
}

ECO_DEVICE real start_at(const struct eco_persistent_call *call,
                         const struct eco_persistent_job *job, int s, int row, int unit)
{
    const narrow *const start = (const narrow *)starts_of(call, job)->start[s];
    return start ? to_real(start[offset_at(row, (uint32_t)call->hidden, unit)]) : 0;
}

/* A number of elements as a type. */
template <int N> struct count {
    enum { value = N };
};

/* Calls finish(count, n, round) for all elements of this thread, two at a time: batch rows from n
 * on, after `round` passes of all threads. */
template <class DIVISION, class FINISH>
ECO_DEVICE void for_elements(const struct memory *memory, const struct thread *thread,
                             FINISH finish)
{
    const int rows = memory->row_tiles * ECO_PERSISTENT_N;
    int n = thread->n, round = 0;
#pragma unroll 1
    for (; (round + 1) * DIVISION::element_rows < rows; round += 2, n += 2 * DIVISION::element_rows)
        finish(count<2>(), n, round);
    if (round * DIVISION::element_rows < rows)
        finish(count<1>(), n, round);
}

/* What walk_steps() knows of the text of cells without means: its elements, and the pieces that a
 * group exchanges in a step. Cells with means use text_of_stages (means_stages.cuh). */
template <class CELL> struct element_of;
template <class CELL, class DIVISION> struct text_at_once {
    typedef struct element_of<CELL> element;
    enum { in_stages = false };
    ECO_DEVICE int64_t exchanged(const struct eco_persistent_call *call,
                                 const struct memory *memory)
    {
        return sent_of<DIVISION>(call, memory);
    }
};

/* Reads all elements of this thread by read(n, round, element) and finishes them by finish(count,
 * n, round, elements). If DIVISION::reads_early the only one is loaded already. */
template <class CELL, class DIVISION, class READ, class FINISH>
ECO_DEVICE void finish_all(const struct memory *memory, const struct thread *thread,
                           struct element_of<CELL> *first, READ read, FINISH finish)
{
    if constexpr (DIVISION::reads_early)
        finish(count<1>(), thread->n, 0, first);
    else
        for_elements<DIVISION>(memory, thread, [&](auto elements, int n, int round) {
            enum { P = decltype(elements)::value };
            struct element_of<CELL> at[P];
#pragma unroll
            for (int p = 0; p < P; p++)
                read(n + p * DIVISION::element_rows, round + p, &at[p]);
            finish(elements, n, round, at);
        });
}

/* One element of the caller's state s. */
ECO_DEVICE real caller_state_at(const struct eco_persistent_call *call,
                                const struct eco_persistent_job *job, int s, int row, int unit)
{
    const narrow *const given = (const narrow *)job->caller_state[s];
    return given ? to_real(given[offset_at(row, (uint32_t)call->hidden, unit)]) : 0;
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

/* ---- the words of a cell that forward and backward share ------------------------------------- */

template <class ELEMENT> ECO_DEVICE vec load_vector(ELEMENT *at, int k)
{
    return ((const real *)at->job->vector)[(int64_t)k * at->call->hidden + at->unit];
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
