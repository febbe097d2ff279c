/*
 * The text of cells, as persistent kernels call it: functions of any type of place, whose words
 * (load_acc and so on) are found by that type.
 */
#ifndef ECO_GPU_PERSISTENT_CELL_CUH
#define ECO_GPU_PERSISTENT_CELL_CUH

#include "gpu/cell/math.cuh"
#include "gpu/cell/numbers.cuh"

#define CELL(name)    name
#define CELL_FUNCTION template <class PLACE> ECO_DEVICE
#define CELL_AT       PLACE *
#include "gpu/cell/cells.inc"
CELLS_RESIDENT(CELLS_STRUCT)

#endif /* ECO_GPU_PERSISTENT_CELL_CUH */
