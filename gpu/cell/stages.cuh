/*
 * The kernels of cells for one type of rows: every stage of the built-in cells, and the interpreter
 * for others. Included once for each type.
 */
#ifndef ECO_GPU_CELL_STAGES_CUH
#define ECO_GPU_CELL_STAGES_CUH

#include <math.h>

#include "gpu/cell/interpret.cuh"
#include "gpu/kernels.h"

#include "gpu/cell/cells.inc"

#define STAGE_KERNELS                                                                              \
    {                                                                                              \
        cells,                                                                                     \
        {                                                                                          \
            interpret_forward, interpret_backward                                                  \
        }                                                                                          \
    }

#endif /* ECO_GPU_CELL_STAGES_CUH */
