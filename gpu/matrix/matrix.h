/*
 * Family matrix: cells with a matrix state on a GPU.
 */
#ifndef ECO_GPU_MATRIX_MATRIX_H
#define ECO_GPU_MATRIX_MATRIX_H

#include "common/backend.h"
#include "common/plan.h"
#include "gpu/matrix/args.h"

/* What runs of a layout have, but for addresses: sizes, the text and its terms. */
void eco_gpu_matrix_begin(struct eco_gpu_matrix_call *call, const struct eco_layout *layout);
/* Nodes of the text that are used, and the bytes of a warp's scratch with gradients. */
int eco_gpu_matrix_nodes(const struct eco_problem *problem);
size_t eco_gpu_matrix_scratch(const struct eco_problem *problem);
/* Can a long run go by chunks? */
bool eco_gpu_matrix_chunks(const struct eco_problem *problem);
/* At most this many bytes, and a sixteenth of the problem's limit of memory. */
double eco_gpu_matrix_room(const struct eco_problem *problem, double most);
/* Points the call at its arrays, from these addresses on; returns the bytes of the workspace. */
struct eco_size eco_gpu_matrix_workspace(struct eco_gpu_matrix_call *call,
                                         const struct eco_layout *layout, void *first);
struct eco_size eco_gpu_matrix_reserve(struct eco_gpu_matrix_call *call,
                                       const struct eco_layout *layout, void *first);

/* run.c: eco_algo.run */
ecornn_status eco_gpu_matrix_run(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                 const struct eco_layout *layout, const struct eco_args *args);

#endif /* ECO_GPU_MATRIX_MATRIX_H */
