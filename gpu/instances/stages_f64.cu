/*
 * The kernels of cells with rows in double.
 */
#define ECO_ROWS_F64 1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_f64 = STAGE_KERNELS;
