/*
 * The text of cells as function templates. The type of element selects the words.
 */
#ifndef ECO_GPU_CELL_TEMPLATES_CUH
#define ECO_GPU_CELL_TEMPLATES_CUH

#include "gpu/cell/math.cuh"
#include "gpu/cell/numbers.cuh"

#define CELL(name)    name
#define CELL_FUNCTION template <class ELEMENT> ECO_DEVICE
#define CELL_AT       ELEMENT *
#include "gpu/cell/cells.inc"
CELLS_PERSISTENT(CELLS_STRUCT)

#endif /* ECO_GPU_CELL_TEMPLATES_CUH */
