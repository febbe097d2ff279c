/*
 * The kernels of compaction (common/squeeze.h). Launches are asynchronous.
 */
#ifndef ECO_GPU_COPY_SQUEEZE_H
#define ECO_GPU_COPY_SQUEEZE_H

#include <cuda_runtime_api.h>

#include "common/squeezed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* counted, lengths and own_resets of a run. */
cudaError_t eco_launch_count(const struct eco_squeezed *run, cudaStream_t stream);
cudaError_t eco_launch_squeeze(const struct eco_squeezed *run, const struct eco_squeeze_move *move,
                               cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_SQUEEZE_H */
