/*
 * A step of a cell of two products, the second of a value that the first stage of its text
 * computes. The step is two phases, and each is what the step of other cells is: gather an operand,
 * multiply it by this block's rows of an R, finish the units in a stage of the text, send what the
 * other phase gathers.  Blocks wait for each other twice a step.
 *
 * Both phases gather into the same place.  Where one gathers less than the other, what is left
 * there meets zeros of R, and is of the same row of the batch.
 */

/* This block's part of each R; what both are scaled by. */
template <class FIRST, class SECOND>
CELL_WORD struct scales read_both(const struct eco_resident_call *call,
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

template <class CUT> CELL_WORD struct phase phase_of(const struct eco_resident_call *call)
{
    struct phase phase;
    phase.share = share_of<CUT>(call);
    phase.memory = memory_of<CUT>(call, &phase.share);
    phase.mine = mine_of<CUT>(call, &phase.share, &phase.memory);
    return phase;
}

/* Of a group in the exchange: what the phase gathers. */
WORD int64_t reads_of(const struct eco_resident_call *call, const struct memory *memory, int phase)
{
    return (int64_t)memory->row_tiles * (call->shape.part[phase].k / ITEM) * (READS * LANES);
}

/* After a phase: the other one's part of the exchange.  [steps, groups, sent in phase 0, in 1]. */
template <int PHASE>
CELL_WORD void advance_phase(const struct eco_resident_call *call, const struct memory *memory,
                             struct mine *mine, int step)
{
    const int64_t first = reads_of(call, memory, 1), second = reads_of(call, memory, 0);
    const int64_t over_second = second + (call->shape.groups - 1) * (first + second);
    mine->sent += (PHASE == 0 ? first : over_second) * SENT;
    if (PHASE == 1)
        mine->received += first;
    else if (step > 0)
        mine->received += over_second;
}
