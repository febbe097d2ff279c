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
ECO_DEVICE struct scales read_both(const struct eco_resident_call *call,
                                   struct fragment first[FIRST::items][TILES],
                                   struct fragment second[SECOND::items][TILES])
{
    const struct share share_of_first = share_of<FIRST>(call),
                       share_of_second = share_of<SECOND>(call);
    const struct scales scales =
        scales_of_r<FIRST, SECOND>(call, &share_of_first, &share_of_second);
    read_held<FIRST>(call, &share_of_first, &scales, first);
    read_held<SECOND>(call, &share_of_second, &scales, second);
    __syncthreads();
    read_kept<FIRST>(call, &share_of_first, &scales);
    read_kept<SECOND>(call, &share_of_second, &scales);
    __syncthreads();
    return scales;
}

/* The places of a product; of the rest both have the same. */
struct phase {
    struct share share;
    struct memory memory;
    struct mine mine;
};

/* OTHER: the other phase's. */
template <class CUT, class OTHER>
ECO_DEVICE struct phase phase_of(const struct eco_resident_call *call)
{
    struct phase phase;
    phase.share = share_of<CUT>(call);
    phase.memory = memory_of<CUT>(call, &phase.share);
    phase.mine =
        mine_of<CUT>(call, &phase.share, &phase.memory,
                     sent_of<CUT>(call, &phase.memory) + sent_of<OTHER>(call, &phase.memory));
    return phase;
}

/* After a phase: the other one's part of the exchange.  [steps, groups, sent in phase 0, in 1]. */
template <class CUT, class OTHER>
ECO_DEVICE void advance_phase(const struct eco_resident_call *call, const struct memory *memory,
                              struct mine *mine, int step)
{
    enum { PHASE = CUT::product };
    const int64_t gathered = sent_of<CUT>(call, memory), sent = sent_of<OTHER>(call, memory);
    const int64_t others = (call->shape.groups - 1) * (gathered + sent);
    mine->sent += (sent + (PHASE == 1 ? others : 0)) * PIECE;
    if (PHASE == 1 || step > 0)
        mine->received += gathered + (PHASE == 0 ? others : 0);
}

#endif /* ECO_GPU_PERSISTENT_TWO_STAGE_CUH */
