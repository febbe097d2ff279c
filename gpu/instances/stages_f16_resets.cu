/*
 * The kernels of cells with rows in F16, of runs with resets.
 */
#define ECO_ROWS_F16 1
#define ECO_RESETS   1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_f16_resets = STAGE_KERNELS;
