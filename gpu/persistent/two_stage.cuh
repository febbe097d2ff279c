/*
 * A step of a cell with two products, the second of a value that the first stage of its text
 * computes. The step has two phases. Each phase works like a step of other cells: gather an
 * operand, multiply it by this block's rows of an R, run a stage of the text for the block's units,
 * send what the other phase gathers. So blocks wait for each other twice in a step.
 *
 * Both phases gather into the same memory. Where one gathers less, the rest is left over from the
 * same batch row and is multiplied by zeros of R.
 */
#ifndef ECO_GPU_PERSISTENT_TWO_STAGE_CUH
#define ECO_GPU_PERSISTENT_TWO_STAGE_CUH

#include "gpu/persistent/elements.cuh"
#include "gpu/persistent/weights.cuh"

/* This block's rows of each R; both use the same scales. */
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

/* The positions of one product; both phases share the rest. */
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

/* After a phase: the other phase's part of the exchange, [steps, groups, phase 0, phase 1]. */
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
