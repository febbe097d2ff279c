/*
 * The stages of a step for cells with means over the units of a row. A stage stores values, and
 * later stages read their means. Between two stages each block adds up the values of its units,
 * sends the sum to the group (means_sums.cuh), and adds up the sums of all blocks in a fixed order
 * (means_gather.cuh).
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_STAGES_CUH
#define ECO_GPU_PERSISTENT_MEANS_STAGES_CUH

#include "gpu/persistent/means_gather.cuh"

/* The current step, for all of its stages. */
struct mean_stage {
    const struct eco_persistent_call *call;
    const struct block *block;
    const struct memory *memory;
    struct spin_timeout *spin_timeout;
    const struct thread *thread;
    int means; /* in shared memory */
    bool idle; /* no row reads what other blocks send */
};

/* Runs one stage of `P` elements of this thread, from batch row n on: text, sums, finish. */
template <class CELL, class DIVISION, int STAGE, int P, class FINISH>
ECO_DEVICE void run_elements(const struct mean_stage *mean_stage, int n, int round,
                             struct mean_element<CELL> at[P], FINISH finish)
{
#pragma unroll
    for (int p = 0; p < P; p++) {
        read_means<STAGE>(mean_stage->memory, mean_stage->means, n + p * DIVISION::element_rows,
                          &at[p]);
        run_text<STAGE>(&at[p]);
    }
    if constexpr (STAGE + 1 < means_of::stages)
#pragma unroll
        for (int p = 0; p < P; p++)
            send_sums<STAGE, DIVISION>(mean_stage->call, mean_stage->block, mean_stage->memory,
                                       mean_stage->thread, n + p * DIVISION::element_rows, &at[p]);
    finish(count<STAGE>(), count<P>(), n, round, at);
}

template <int STAGE, class DIVISION> ECO_DEVICE void end_stage(const struct mean_stage *mean_stage)
{
    if (!mean_stage->idle)
        gather_means<STAGE, DIVISION>(mean_stage->call, mean_stage->memory,
                                      mean_stage->spin_timeout, mean_stage->thread,
                                      mean_stage->means);
}

/* Runs the stages from STAGE on, each for all elements, which are read again for each stage. */
template <class CELL, class DIVISION, int STAGE, class READ, class FINISH>
ECO_DEVICE void run_stages(const struct mean_stage *mean_stage, READ read, FINISH finish)
{
    for_elements<DIVISION>(
        mean_stage->memory, mean_stage->thread, [&](auto elements, int n, int round) {
            enum { P = decltype(elements)::value };
            struct mean_element<CELL> at[P];
#pragma unroll
            for (int p = 0; p < P; p++)
                read(count<STAGE>(), n + p * DIVISION::element_rows, round + p, &at[p]);
            run_elements<CELL, DIVISION, STAGE, P>(mean_stage, n, round, at, finish);
        });
    if constexpr (STAGE + 1 < means_of::stages) {
        end_stage<STAGE, DIVISION>(mean_stage);
        run_stages<CELL, DIVISION, STAGE + 1>(mean_stage, read, finish);
    }
}

/* The same for a thread's only element, which stays in registers. */
template <class CELL, class DIVISION, int STAGE, class FINISH>
ECO_DEVICE void run_kept(const struct mean_stage *mean_stage, struct mean_element<CELL> at[1],
                         FINISH finish)
{
    run_elements<CELL, DIVISION, STAGE, 1>(mean_stage, mean_stage->thread->n, 0, at, finish);
    if constexpr (STAGE + 1 < means_of::stages) {
        end_stage<STAGE, DIVISION>(mean_stage);
        run_kept<CELL, DIVISION, STAGE + 1>(mean_stage, at, finish);
    }
}

/* Runs all stages of a step. KEPT: a thread has at most one element, `first`, which is partly
 * loaded if DIVISION::reads_early. Calls read(stage, n, round, element) before the text of a stage
 * and finish(stage, count, n, round, elements) after it, for the elements of batch row n after
 * `round` passes. */
template <class CELL, class DIVISION, bool KEPT, class READ, class FINISH>
ECO_DEVICE void run_all_stages(const struct mean_stage *mean_stage,
                               struct mean_element<CELL> first[1], READ read, FINISH finish)
{
    if constexpr (KEPT || DIVISION::reads_early) {
        read(count<0>(), mean_stage->thread->n, 0, first);
        run_kept<CELL, DIVISION, 0>(mean_stage, first, finish);
    } else {
        run_stages<CELL, DIVISION, 0>(mean_stage, read, finish);
    }
}

/* The counterpart of text_at_once (elements.cuh) for cells with means. */
template <class CELL, class DIVISION> struct text_of_stages {
    typedef struct mean_element<CELL> element;
    enum { in_stages = true };
    ECO_DEVICE int64_t exchanged(const struct eco_persistent_call *call,
                                 const struct memory *memory)
    {
        return exchanged_of<DIVISION>(call, memory);
    }
};

#endif /* ECO_GPU_PERSISTENT_MEANS_STAGES_CUH */
