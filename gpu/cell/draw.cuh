/*
 * A mask of a cell: a number drawn for a unit of a row and step. CALL gives seed, layer, direction,
 * and the first row and step.
 */
#ifndef ECO_GPU_CELL_DRAW_CUH
#define ECO_GPU_CELL_DRAW_CUH

#include "gpu/cell/math.cuh"

/* Row and step of a number within the call. */
struct drawn_for {
    uint32_t step, row, unit;
};

/* 1 or 0 in training, else the probability of 1. */
template <class CALL>
ECO_DEVICE vec draw_mask(const CALL *call, int which, double probability, struct drawn_for at)
{
    if (!call->training)
        return (real)probability;
    const struct eco_coordinates where = {call->seed,
                                          call->layer,
                                          call->direction,
                                          eco_draw_purpose(which),
                                          eco_draw_step(which, call->draw_step + at.step),
                                          call->draw_row + at.row};
    return draw(&where, at.unit, probability);
}

#endif /* ECO_GPU_CELL_DRAW_CUH */
