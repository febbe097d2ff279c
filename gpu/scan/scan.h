/* One launch runs all steps of a chunk: of cells that are linear, or whose units never meet. */
#ifndef ECO_GPU_SCAN_SCAN_H
#define ECO_GPU_SCAN_SCAN_H

#include "gpu/scan/args.h"
#include "gpu/view/run.h"

/* What a kernel is compiled for. */
struct eco_scan_source {
    const struct eco_problem *problem;
    bool backward;
};
/* A kernel's tiles: steps of a thread, warps of a block, blocks of a multiprocessor. */
struct eco_scan_tiles {
    int steps, warps, blocks;
};
/* source_text.c. Is the cell nonlinear, with units that never meet?  Then each thread has one. */
bool eco_scan_is_apart(const struct ecornn_cell *cell);
struct eco_scan_tiles eco_scan_tiles(const struct eco_scan_source *source);
/* Prints kernel scan_forward or scan_backward for NVRTC. The caller releases the
 * text by eco_free. NULL: no memory. */
char *eco_scan_text(const struct eco_scan_source *source);

/* launch.c: compiles the kernels of a plan, or stores the reason why not in the plan. */
void eco_scan_prepare(const struct ecornn_plan *plan);
void eco_scan_describe(const struct ecornn_plan *plan, struct eco_text *text);
/* Steps of a tile; of units that never meet, those that a thread reads ahead. */
int32_t eco_scan_steps(const struct eco_problem *problem, bool backward);
/* Bytes of ECO_INNER_EXCHANGE for a run of the problem. */
size_t eco_scan_bytes(const struct eco_problem *problem);
ecornn_status eco_gpu_run_scan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args);

#endif /* ECO_GPU_SCAN_SCAN_H */
