/*
 * The backward kernel for cells with means over a row. It is the backward kernel, except that the
 * text of a step has stages, between which blocks exchange sums (means_stages.cuh).
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_MEANS_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_MEANS_CUH

#include "gpu/persistent/backward.cuh"
#include "gpu/persistent/means_stages.cuh"

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

/* Other blocks wait for gradients of accumulators, so those of vectors are stored later. */
template <class CELL> ECO_DEVICE void store_dacc(struct mean_element<CELL> *at, int a, vec v)
{
    const narrow rounded = to_narrow(at->masked ? 0 : v);
    if (a < CELL::accs) {
        at->dacc_of[a] = rounded;
    } else {
        at->dvector[a - CELL::accs] = rounded;
        at->has_dvector[a - CELL::accs] = true;
    }
}

template <class CELL> ECO_DEVICE void begin_stage(struct mean_element<CELL> *at)
{
#pragma unroll
    for (int i = 0; i < ECO_MAX_WRITTEN; i++)
        at->has_dvector[i] = false;
}

template <class CELL> ECO_DEVICE void write_dvectors(const struct mean_element<CELL> *at)
{
#pragma unroll
    for (int i = 0; i < ECO_MAX_WRITTEN; i++)
        if (at->has_dvector[i])
            write_dacc(at, CELL::accs + i, at->dvector[i]);
}

/* In shared memory, after the fields of a step. */
template <class CELL> ECO_DEVICE int means_at(const struct memory *memory)
{
    return field_at<CELL>(memory, field<CELL>::dy + 1, 0);
}

/* Reads all of an element but the sums of products. */
template <class CELL, class DIVISION>
ECO_DEVICE void read_alone(const struct eco_persistent_call *call, const struct block *block,
                           const struct memory *memory, const struct thread *thread, int step,
                           int n, int round, struct element_of<CELL> *at)
{
    begin_element<CELL, DIVISION>(call, block, memory, thread, step, n, round, at);
    if (step < at->job->steps)
        read_fields(memory, at, (int)threadIdx.x + round * PERSISTENT_THREADS);
}

/* Reads all of an element; if DIVISION::reads_early only the sums are left to read. Later stages
 * read it again, without adding to starts twice. */
template <class CELL, class DIVISION, int STAGE>
ECO_DEVICE void read_whole(const struct eco_persistent_call *call, const struct block *block,
                           const struct memory *memory, const struct thread *thread, int step,
                           bool idle, int n, int round, struct mean_element<CELL> *at)
{
    if (!DIVISION::reads_early)
        read_alone<CELL, DIVISION>(call, block, memory, thread, step, n, round, at);
    const int sums = sums_at<DIVISION>(memory, thread, step, n);
    at->dstate = idle ? 0 : sum_of<DIVISION>(memory, sums, 0);
    if (STAGE > 0 && at->cut)
        at->dstate = 0;
    add_dstate(at);
    begin_stage(at);
}

/* Prefetches saved values of a later step into the L2; memory would be slower than an exchange. */
template <class CELL, class DIVISION>
ECO_DEVICE void prefetch_saved(const struct eco_persistent_call *call, const struct block *block,
                               const struct thread *thread, int step)
{
    enum {
        STEPS_AHEAD = 2,
        UNITS = 1 << DIVISION::shift,
        SECTOR = 32 / sizeof(narrow),
        SECTORS = (UNITS + SECTOR - 1) / SECTOR, /* sectors of a value, in a row */
        ALL = CELL::saves * SECTORS
    };
    const struct eco_persistent_job *job = &call->job[block->job];
    const bool there = step + STEPS_AHEAD < job->steps && thread->n < block->rows;
    const narrow *const row = (const narrow *)bases_of(step)[AT_SAVE] +
                              STEPS_AHEAD * job->save_step +
                              offset_at(block->row0 + thread->n, call->save_row, block->unit0);
    const int own = (int)threadIdx.x & (UNITS - 1);
#pragma unroll
    for (int first = 0; first < ALL; first += UNITS) {
        const int i = first + own, unit = i % SECTORS * SECTOR;
        prefetch_l2_if(there && i < ALL && block->unit0 + unit < call->hidden,
                       row + (int64_t)(i / SECTORS) * call->hidden + unit);
    }
}

/* What walk_steps() calls. */
template <class CELL, class DIVISION, bool KEPT>
struct text_in_stages : text_of_stages<CELL, DIVISION> {
    /* If DIVISION::reads_early. */
    ECO_DEVICE void read_first(const struct eco_persistent_call *call, const struct block *block,
                               const struct memory *memory, const struct thread *thread, int step,
                               struct mean_element<CELL> first[1])
    {
        read_alone<CELL, DIVISION>(call, block, memory, thread, step, thread->n, 0, first);
    }
    /* All stages of a step, and the exchanges between them. */
    ECO_DEVICE void finish(const struct eco_persistent_call *call, const struct block *block,
                           const struct memory *memory, struct spin_timeout *spin_timeout,
                           const struct thread *thread, int step, bool idle,
                           struct mean_element<CELL> first[1])
    {
        enum { LAST = means_of::stages - 1 };
        const struct mean_stage mean_stage = {
            call, block, memory, spin_timeout, thread, means_at<CELL>(memory), idle};
        run_all_stages<CELL, DIVISION, KEPT>(
            &mean_stage, first,
            [&](auto stage, int n, int round, auto *at) {
                read_whole<CELL, DIVISION, decltype(stage)::value>(call, block, memory, thread,
                                                                   step, idle, n, round, at);
            },
            [&](auto stage, auto elements, int n, int round, auto *at) {
                enum { P = decltype(elements)::value, ENDS = decltype(stage)::value == LAST };
                if constexpr (ENDS) {
#pragma unroll
                    for (int p = 0; p < P; p++)
                        send_dacc<0, typename DIVISION::scale_block>(&at[p]);
#pragma unroll
                    for (int p = 0; p < P; p++)
#pragma unroll
                        for (int a = 0; a < CELL::accs; a++)
                            write_dacc(&at[p], a, at[p].dacc_of[a]);
                }
#pragma unroll
                for (int p = 0; p < P; p++) {
                    write_dvectors(&at[p]);
                    begin_stage(&at[p]);
                }
            });
    }
    /* After the step. */
    ECO_DEVICE void prefetch(const struct eco_persistent_call *call, const struct block *block,
                             const struct thread *thread, int step)
    {
        if (KEPT && CELL::saves > 0)
            prefetch_saved<CELL, DIVISION>(call, block, thread, step);
    }
    /* After the last step. */
    ECO_DEVICE void end_all(const struct eco_persistent_call *call, const struct block *block,
                            const struct memory *memory, const struct thread *thread, int step,
                            bool idle)
    {
        for_elements<DIVISION>(memory, thread, [&](auto elements, int n, int round) {
#pragma unroll
            for (int p = 0; p < decltype(elements)::value; p++) {
                const int row = n + p * DIVISION::element_rows;
                const int sums = sums_at<DIVISION>(memory, thread, step, row);
                struct element_of<CELL> at;
                begin_element<CELL, DIVISION>(call, block, memory, thread, step, row, round + p,
                                              &at);
                at.dstate = idle ? 0 : sum_of<DIVISION>(memory, sums, 0);
                end(&at);
            }
        });
    }
};

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP, bool KEPT>
ECO_DEVICE void all_steps_with_means(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    typedef cell_traits<NUMBER> cell;
    typedef division<1, SHIFT, CLUSTER_LOG2, MAINLOOP, cell::first> divided;
    walk_steps<cell, divided, struct text_in_stages<cell, divided, KEPT>>(call);
#endif
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_MEANS_CUH */
