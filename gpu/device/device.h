/*
 * A CUDA device: the backend's data for it, its pools of handles and streams, and how errors of
 * CUDA and cuBLAS are reported.
 */
#ifndef ECO_GPU_DEVICE_DEVICE_H
#define ECO_GPU_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "common/module.h"
#include "common/plan.h"
#include "common/util.h"
#include "gpu/device/rates.h"
#include "gpu/device/cuda_compat.h"
#include "gpu/device/tensor_map.h"

/* ---- errors, device/device.c ----------------------------------------------------------------- */

extern const struct eco_services *eco_gpu_services; /* set once, by eco_module_open */

/* Converts an error of CUDA to a status (ECORNN_NO_MEMORY or ECORNN_FAILED) and a text. */
ecornn_status eco_cuda_error(cudaError_t error, const char *doing);
ecornn_status eco_cublas_error(cublasStatus_t error, const char *doing);
/* The same, for a call that a test may fail on purpose. */
ecornn_status eco_cuda_status(cudaError_t error, const char *doing);
ecornn_status eco_cublas_status(cublasStatus_t error, const char *doing);
/* Checks a call. A test may skip the call and report it as failed. */
#define ECO_FAILS()    eco_gpu_services->call_fails()
#define ECO_CUDA(call) eco_cuda_error(ECO_FAILS() ? cudaErrorUnknown : (call), #call)
#define ECO_CUBLAS(call)                                                                           \
    eco_cublas_error(ECO_FAILS() ? CUBLAS_STATUS_INTERNAL_ERROR : (call), #call)

/* ---- device, device/device.c and device/handle_pool.c ---------------------------------------- */

/* Most streams of a run; further lanes of the tape share them. */
enum { ECO_MAX_STREAMS = 8 };
/* Most ops of a level that are queued together. */
enum { ECO_LEVEL_OPS = 4 };

/* What a run needs besides memory; it returns the set once everything is queued. */
struct eco_gpu_set {
    _Atomic bool taken;
    _Atomic bool made;
    cublasHandle_t blas;
    cudaStream_t stream[ECO_MAX_STREAMS];
    cudaEvent_t event[ECO_MAX_STREAMS + 1];
};

/* Lanes of concurrent runs: a stream each, and an event by which it joins. Each run also takes a
 * set. */
enum { ECO_GPU_LANES = 16 };
struct eco_gpu_lanes {
    _Atomic bool taken;
    int made; /* lanes made; lanes of the run that took them */
    cudaStream_t stream[ECO_GPU_LANES];
    cudaEvent_t event[ECO_GPU_LANES];
};

/* Most runs that are being queued at the same time. */
enum { ECO_MAX_RUNS = 128 };

struct eco_gpu {
    int device;
    int capability; /* for example 90: compute capability 9.0 */
    bool overlap;   /* kernels may become resident before their predecessors have ended */
    eco_tensor_encoder tensor_encoder; /* NULL: the driver has none */
    bool graphs;                       /* false with ECORNN_FORCE=graph=0 */
    long spin_timeout_s; /* how long blocks of a kernel wait for each other: ECORNN_SPIN_TIMEOUT */
    uint32_t *failed;    /* host memory that kernels can access: set when a block waited too long */
    struct eco_gpu_set
        set[ECO_MAX_RUNS]; /* made: as many as runs were ever queued at the same time */
    struct eco_gpu_lanes lanes[ECO_MAX_RUNS]; /* also made on demand */
    struct eco_own_code *own_codes;           /* jit/user_cells.c; used at plan creation only */
    pthread_mutex_t own_codes_lock;
    struct eco_gpu_rates rates;
};

/* Makes the device current for the calling thread; eco_gpu_leave restores the previous one. */
struct eco_gpu_scope {
    int before, device;
};
ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device);
void eco_gpu_leave(const struct eco_gpu_scope *scope);

/* ECORNN_UNSUPPORTED if ECO_MAX_RUNS sets are taken. */
ecornn_status eco_gpu_take_set(struct eco_gpu *gpu, struct eco_gpu_set **set);
void eco_gpu_return_set(struct eco_gpu_set *set);
void eco_gpu_free_set(struct eco_gpu_set *set);
/* Takes lanes with at least `count` streams, 1 to ECO_GPU_LANES. */
ecornn_status eco_gpu_take_lanes(struct eco_gpu *gpu, int count, struct eco_gpu_lanes **lanes);
void eco_gpu_return_lanes(struct eco_gpu_lanes *lanes);
void eco_gpu_free_lanes(struct eco_gpu_lanes *lanes);

/* ECORNN_BAD_ARGUMENT if the device cannot access the pointer: a kernel that tried would destroy
 * the context of the process. NULL is allowed. */
ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer);
/* The same for all pointers of a run. */
ecornn_status eco_gpu_check_args(const struct eco_gpu *gpu, const struct eco_args *args);

#endif /* ECO_GPU_DEVICE_DEVICE_H */
