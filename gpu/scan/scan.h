/*
 * Scans: all steps of a chunk of a cell that is linear in its states in one launch.
 */
#ifndef ECO_GPU_SCAN_SCAN_H
#define ECO_GPU_SCAN_SCAN_H

#include "gpu/scan/args.h"
#include "gpu/view/run.h"

/* source_text.c: kernels scan_forward and scan_backward of a cell for a type of rows, as NVRTC
 * takes them.  The caller: eco_free.  NULL: no memory. */
char *eco_scan_text(const struct ecornn_cell *cell, ecornn_type rows);

/* launch.c: compiles the kernels of a plan, or says in plan->own why not. */
void eco_scan_prepare(const struct ecornn_plan *plan);
void eco_scan_describe(const struct ecornn_plan *plan, struct eco_text *text);
/* Bytes of ECO_SCRATCH_EXCHANGE for a run of so many rows. */
size_t eco_scan_bytes(const struct eco_problem *problem);
/* Queues STEP or D_STEP of all ops of a level. */
void eco_scan_run(struct eco_gpu_run *run, const struct eco_bound *bounds, int n);

#endif /* ECO_GPU_SCAN_SCAN_H */
