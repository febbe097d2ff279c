/*
 * The kernels of cells with rows in BF16.
 */
#define ECO_ROWS_BF16 1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_bf16 = STAGE_KERNELS;
