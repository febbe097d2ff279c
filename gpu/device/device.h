/*
 * A CUDA device: what the backend keeps of it, its sets of handles and streams, and what errors of
 * CUDA and cuBLAS become.
 */
#ifndef ECO_GPU_DEVICE_DEVICE_H
#define ECO_GPU_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "common/module.h"
#include "common/util.h"
#include "gpu/device/rates.h"
#include "gpu/device/cuda_compat.h"
#include "gpu/device/tensor_map.h"

/* ---- errors, device/status.c ----------------------------------------------------------------- */

extern const struct eco_services *eco_gpu_services; /* set once, by eco_module_open */

/* What CUDA and cuBLAS said, in words; NO_MEMORY where that was it, else FAILED. */
ecornn_status eco_cuda_error(cudaError_t error, const char *doing);
ecornn_status eco_cublas_error(cublasStatus_t error, const char *doing);
/* The same of a call that may be made to seem to have failed. */
ecornn_status eco_cuda_status(cudaError_t error, const char *doing);
ecornn_status eco_cublas_status(cublasStatus_t error, const char *doing);
/* A call that may be left out, as if it had failed: for tests. */
#define ECO_FAILS()    eco_gpu_services->call_fails()
#define ECO_CUDA(call) eco_cuda_error(ECO_FAILS() ? cudaErrorUnknown : (call), #call)
#define ECO_CUBLAS(call)                                                                           \
    eco_cublas_error(ECO_FAILS() ? CUBLAS_STATUS_INTERNAL_ERROR : (call), #call)

/* ---- device, backend.c and device/handle_pool.c ---------------------------------------------- */

/* Streams of one run at most: lanes of the tape beyond share them. */
enum { ECO_MAX_STREAMS = 8 };
/* Ops of a level that are queued at once, at most. */
enum { ECO_TOGETHER = 4 };

/* What a run needs besides memory; a run takes a free set and gives it back once all is queued. */
struct eco_gpu_set {
    _Atomic bool taken;
    _Atomic bool made;
    cublasHandle_t blas;
    cudaStream_t stream[ECO_MAX_STREAMS];
    cudaEvent_t event[ECO_MAX_STREAMS + 1];
};

/* What runs side by side fork to: a stream each, and an event that it is joined by.  A set has what
 * each of them queues with. */
enum { ECO_GPU_LANES = 16 };
struct eco_gpu_lanes {
    _Atomic bool taken;
    int made; /* so many of them; of the run that took them */
    cudaStream_t stream[ECO_GPU_LANES];
    cudaEvent_t event[ECO_GPU_LANES];
};

/* That are queued at once: a run by itself takes a set, one of runs side by side lanes and a set.
 */
enum { ECO_MAX_RUNS = 128 };

struct eco_gpu {
    int device;
    int capability; /* 90: compute capability 9.0 */
    bool overlap;   /* kernels may be put in place before those ahead have ended */
    eco_tensor_encoder tensor_encoder; /* NULL: the driver has none */
    bool graphs;                       /* not forced to be without: graph=0 */
    long spin_timeout_s; /* how long blocks of a kernel wait for each other: ECORNN_SPIN_TIMEOUT */
    uint32_t *failed;    /* host's memory that kernels reach: set when one waited too long */
    struct eco_gpu_set set[ECO_MAX_RUNS];     /* made: as many as runs were ever queued at once */
    struct eco_gpu_lanes lanes[ECO_MAX_RUNS]; /* likewise */
    struct eco_own_code *own_codes;           /* jit/user_cells.c; at creation of plans only */
    pthread_mutex_t own_codes_lock;
    double speed[ECO_SPEEDS]; /* what the device says of itself */
    struct eco_gpu_rates rates;
};

/* Makes the device current for the calling thread; eco_gpu_leave gives back the one before. */
struct eco_gpu_scope {
    int before, device;
};
ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device);
void eco_gpu_leave(const struct eco_gpu_scope *scope);

/* UNSUPPORTED where ECO_MAX_RUNS are taken. */
ecornn_status eco_gpu_take_set(struct eco_gpu *gpu, struct eco_gpu_set **set);
void eco_gpu_return_set(struct eco_gpu_set *set);
void eco_gpu_free_set(struct eco_gpu_set *set);
/* With so many streams, 1 to ECO_GPU_LANES, or more. */
ecornn_status eco_gpu_take_lanes(struct eco_gpu *gpu, int count, struct eco_gpu_lanes **lanes);
void eco_gpu_return_lanes(struct eco_gpu_lanes *lanes);
void eco_gpu_free_lanes(struct eco_gpu_lanes *lanes);

/* BAD_ARGUMENT where the device cannot reach it: a kernel that tried would end the context, for
 * everybody.  NULL is allowed. */
ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer);

#endif /* ECO_GPU_DEVICE_DEVICE_H */
