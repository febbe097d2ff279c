/*
 * The kernels of cells with rows in float.
 */
#define ECO_ROWS_F32 1
#include "gpu/cell.cuh"

const struct eco_stage_launches eco_stages_f32 = {launch_compiled, launch_interpreted};
