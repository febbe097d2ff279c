/*
 * The kernels of cells with rows in double, of runs with resets.
 */
#define ECO_ROWS_F64 1
#define ECO_RESETS   1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_f64_resets = STAGE_KERNELS;
