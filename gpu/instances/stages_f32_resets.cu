/*
 * The kernels of cells with rows in float, of runs with resets.
 */
#define ECO_ROWS_F32 1
#define ECO_RESETS   1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_f32_resets = STAGE_KERNELS;
