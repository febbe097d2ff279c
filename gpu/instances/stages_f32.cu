/*
 * The kernels of cells with rows in float.
 */
#define ECO_ROWS_F32 1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_f32 = STAGE_KERNELS;
