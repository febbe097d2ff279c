/*
 * Differences between versions of CUDA; no other file asks for the version.
 */
#ifndef ECO_GPU_DEVICE_CUDA_COMPAT_H
#define ECO_GPU_DEVICE_CUDA_COMPAT_H

#include <cuda_runtime_api.h>

/* The graph into which a stream captures, and the nodes on which its next node will depend. */
static inline cudaError_t eco_capture_info(cudaStream_t stream,
                                           enum cudaStreamCaptureStatus *status, cudaGraph_t *graph,
                                           const cudaGraphNode_t **after, size_t *count)
{
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, status, NULL, graph, after, NULL, count);
#else
    return cudaStreamGetCaptureInfo_v2(stream, status, NULL, graph, after, count);
#endif
}

/* Makes the stream's next node depend on this node only. */
static inline cudaError_t eco_capture_continue(cudaStream_t stream, cudaGraphNode_t *node)
{
#if CUDART_VERSION >= 13000
    return cudaStreamUpdateCaptureDependencies(stream, node, NULL, 1,
                                               cudaStreamSetCaptureDependencies);
#else
    return cudaStreamUpdateCaptureDependencies(stream, node, 1, cudaStreamSetCaptureDependencies);
#endif
}

/* A function of the driver, as it is since this version of CUDA, such as 12000. */
static inline cudaError_t eco_driver_symbol(const char *name, unsigned version, void **symbol)
{
    enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    return cudaGetDriverEntryPointByVersion(name, symbol, version, cudaEnableDefault, &result);
#else
    (void)version;
    return cudaGetDriverEntryPoint(name, symbol, cudaEnableDefault, &result);
#endif
}

/* Loads code that was compiled at run time. */
#if CUDART_VERSION >= 12080
static inline cudaError_t eco_library_load(cudaLibrary_t *library, const void *data)
{
    return cudaLibraryLoadData(library, data, NULL, NULL, 0, NULL, NULL, 0);
}

static inline cudaError_t eco_library_kernel(cudaLibrary_t library, const char *name,
                                             const void **kernel)
{
    cudaKernel_t found = NULL;
    const cudaError_t error = cudaLibraryGetKernel(&found, library, name);
    *kernel = (const void *)found;
    return error;
}

static inline cudaError_t eco_library_unload(cudaLibrary_t library)
{
    return cudaLibraryUnload(library);
}
#else /* not with this toolkit: cells are interpreted */
typedef void *cudaLibrary_t;

static inline cudaError_t eco_library_load(cudaLibrary_t *library, const void *data)
{
    (void)library;
    (void)data;
    return cudaErrorNotSupported;
}

static inline cudaError_t eco_library_kernel(cudaLibrary_t library, const char *name,
                                             const void **kernel)
{
    (void)library;
    (void)name;
    (void)kernel;
    return cudaErrorNotSupported;
}

static inline cudaError_t eco_library_unload(cudaLibrary_t library)
{
    (void)library;
    return cudaErrorNotSupported;
}
#endif

#endif /* ECO_GPU_DEVICE_CUDA_COMPAT_H */
