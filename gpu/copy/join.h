/*
 * The kernels of joins (common/join.h).  Every launch only queues.
 */
#ifndef ECO_GPU_COPY_JOIN_H
#define ECO_GPU_COPY_JOIN_H

#include <cuda_runtime_api.h>

#include "common/join.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing is added. */
cudaError_t eco_launch_join(const struct eco_join *join, cudaStream_t stream);
/* to[N] = what from[N] steps become when so many are joined. */
cudaError_t eco_launch_join_lengths(int32_t *to, const int32_t *from, int32_t N, int32_t steps,
                                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_JOIN_H */
