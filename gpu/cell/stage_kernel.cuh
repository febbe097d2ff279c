/*
 * The kernel around one printed stage: included by the printed text once for every stage, with its
 * name in CELL_STAGE.
 */
CELL_LINKAGE __global__ void __launch_bounds__(ECO_STAGE_THREADS, STAGE_BLOCKS(CELL_BACKWARD))
    CELL_KERNEL(CELL_STAGE)(const __grid_constant__ struct eco_stage_call call)
{
#if CELL_BACKWARD
    STAGE_LOOP(at, &call, CELL_STAGE, mask_backward, CELL_MEANS)
#else
    STAGE_LOOP(at, &call, CELL_STAGE, mask_forward, CELL_MEANS)
#endif
}
