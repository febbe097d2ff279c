/*
 * The kernels of cells with rows in F16.
 */
#define ECO_ROWS_F16 1
#include "gpu/cell.cuh"

const struct eco_stage_launches eco_stages_f16 = {launch_compiled, launch_interpreted};
