/*
 * The kernels of compaction (compose/compaction.h). Launches are asynchronous.
 */
#ifndef ECO_GPU_COPY_COMPACTION_H
#define ECO_GPU_COPY_COMPACTION_H

#include <cuda_runtime_api.h>

#include "common/compact_run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* counted and lengths of a run. */
cudaError_t eco_launch_count(const struct eco_compact_run *run, cudaStream_t stream);
cudaError_t eco_launch_compact(const struct eco_compact_run *run,
                               const struct eco_compact_move *move, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_COMPACTION_H */
