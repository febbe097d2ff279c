/*
 * A step of a cell of two products, the second of a value that the first stage of its text
 * computes. The step is two phases, and each is what the step of other cells is: gather an operand,
 * multiply it by this block's rows of an R, finish the units in a stage of the text, send what the
 * other phase gathers.  Blocks wait for each other twice a step.
 *
 * Both phases gather into the same place.  Where one gathers less than the other, what is left
 * there meets zeros of R, and is of the same row of the batch.
 */
#ifndef ECO_GPU_PERSISTENT_TWO_STAGE_CUH
#define ECO_GPU_PERSISTENT_TWO_STAGE_CUH

#include "gpu/persistent/elements.cuh"
#include "gpu/persistent/weights.cuh"

/* This block's part of each R; what both are scaled by. */
template <class FIRST, class SECOND>
ECO_DEVICE struct scales read_both(const struct eco_persistent_call *call,
                                   struct fragment first[FIRST::k_blocks][TILES],
                                   struct fragment second[SECOND::k_blocks][TILES])
{
    const struct block block_of_first = block_of<FIRST>(call),
                       block_of_second = block_of<SECOND>(call);
    const struct scales scales =
        scales_of_r<FIRST, SECOND>(call, &block_of_first, &block_of_second);
    read_weights_in_registers<FIRST>(call, &block_of_first, &scales, first);
    read_weights_in_registers<SECOND>(call, &block_of_second, &scales, second);
    __syncthreads();
    read_weights_in_shared<FIRST>(call, &block_of_first, &scales);
    read_weights_in_shared<SECOND>(call, &block_of_second, &scales);
    __syncthreads();
    return scales;
}

/* The places of a product; of the rest both have the same. */
struct phase {
    struct block block;
    struct memory memory;
    struct thread thread;
};

/* OTHER: the other phase's. */
template <class DIVISION, class OTHER>
ECO_DEVICE struct phase phase_of(const struct eco_persistent_call *call)
{
    struct phase phase;
    phase.block = block_of<DIVISION>(call);
    phase.memory = memory_of<DIVISION>(call, &phase.block);
    phase.thread = thread_of<DIVISION>(call, &phase.block, &phase.memory,
                                       sent_of<DIVISION>(call, &phase.memory) +
                                           sent_of<OTHER>(call, &phase.memory));
    return phase;
}

/* After a phase: the other one's part of the exchange.  [steps, groups, sent in phase 0, in 1]. */
template <class DIVISION, class OTHER>
ECO_DEVICE void advance_phase(const struct eco_persistent_call *call, const struct memory *memory,
                              struct thread *thread, int step)
{
    enum { PHASE = DIVISION::product };
    const int64_t gathered = sent_of<DIVISION>(call, memory), sent = sent_of<OTHER>(call, memory);
    const int64_t others = (call->shape.groups - 1) * (gathered + sent);
    thread->sent += (sent + (PHASE == 1 ? others : 0)) * PIECE;
    if (PHASE == 1 || step > 0)
        thread->received += gathered + (PHASE == 0 ? others : 0);
}

#endif /* ECO_GPU_PERSISTENT_TWO_STAGE_CUH */
