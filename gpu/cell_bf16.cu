/*
 * The kernels of cells with rows in BF16.
 */
#define ECO_ROWS_BF16 1
#include "gpu/cell.cuh"

const struct eco_stage_launches eco_stages_bf16 = {launch_compiled, launch_interpreted};
