/*
 * The kernels of joins (common/join.h). Launches are asynchronous.
 */
#ifndef ECO_GPU_COPY_JOIN_H
#define ECO_GPU_COPY_JOIN_H

#include <cuda_runtime_api.h>

#include "common/join.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t eco_launch_join(const struct eco_join *join, cudaStream_t stream);
cudaError_t eco_launch_join_bytes(const struct eco_join_bytes *join, cudaStream_t stream);
/* Sets to[N] to the number of steps that from[N] steps become when `steps` are joined. */
cudaError_t eco_launch_join_lengths(int32_t *to, const int32_t *from, int32_t N, int32_t steps,
                                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_JOIN_H */
