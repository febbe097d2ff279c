/*
 * The kernels of cells with rows in double.
 */
#define ECO_ROWS_F64 1
#include "gpu/cell.cuh"

const struct eco_stage_launches eco_stages_f64 = {launch_compiled, launch_interpreted};
