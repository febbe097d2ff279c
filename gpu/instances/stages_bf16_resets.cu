/*
 * The kernels of cells with rows in BF16, of runs with resets.
 */
#define ECO_ROWS_BF16 1
#define ECO_RESETS    1
#include "gpu/cell/stages.cuh"

const struct eco_stage_kernels eco_stages_bf16_resets = STAGE_KERNELS;
