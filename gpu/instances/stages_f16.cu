/*
 * The kernels of cells with rows in F16.
 */
#define ECO_ROWS_F16 1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_f16 = STAGE_KERNELS;
