/*
 * The kernels of cells for one type of rows: every stage of the built-in cells, and the interpreter
 * of what was not compiled.  Included once per type.
 */
#include "gpu/kernels.h"

#include <math.h>

#include "gpu/cell/words.cuh"
#include "gpu/cell/cells.inc"
#include "gpu/cell/interpret.cuh"

#define STAGE_KERNELS                                                                              \
    {                                                                                              \
        cells,                                                                                     \
        {                                                                                          \
            interpret_forward, interpret_backward                                                  \
        }                                                                                          \
    }
