/*
 * The kernel of streams (common/stream_rows.h). The launch is asynchronous.
 */
#ifndef ECO_GPU_COPY_STREAMS_H
#define ECO_GPU_COPY_STREAMS_H

#include <cuda_runtime_api.h>

#include "common/stream_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All states in one launch. */
cudaError_t eco_launch_streams(const struct eco_stream_rows *streams, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_COPY_STREAMS_H */
