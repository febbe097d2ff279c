/* A device of CUDA: what it reports, whether it is current, launches, and tensor maps. */
#include "gpu/device/device.h"
#include "common/run_arrays.h"
#include "gpu/kernels.h"
#include "gpu/device/tensor_map.h"
#include "gpu/device/cuda_compat.h"

/* ---- statuses -------------------------------------------------------------------------------- */

/*
 * What CUDA and cuBLAS report, as a status and a text.
 */

const struct eco_services *eco_gpu_services;

ecornn_status eco_cuda_error(cudaError_t error, const char *doing)
{
    if (error == cudaSuccess)
        return ECORNN_OK;
    cudaGetLastError(); /* clears errors that can be cleared, so that the caller's next call does
                           not report them */
    return eco_gpu_services->fail(
        error == cudaErrorMemoryAllocation ? ECORNN_NO_MEMORY : ECORNN_FAILED,
        "CUDA: %s (%s) in %s", cudaGetErrorString(error), cudaGetErrorName(error), doing);
}

ecornn_status eco_cublas_error(cublasStatus_t error, const char *doing)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return ECORNN_OK;
    return eco_gpu_services->fail(error == CUBLAS_STATUS_ALLOC_FAILED ? ECORNN_NO_MEMORY
                                                                      : ECORNN_FAILED,
                                  "cuBLAS: %s in %s", cublasGetStatusString(error), doing);
}

ecornn_status eco_cuda_status(cudaError_t error, const char *doing)
{
    return eco_cuda_error(error == cudaSuccess && ECO_FAILS() ? cudaErrorUnknown : error, doing);
}

ecornn_status eco_cublas_status(cublasStatus_t error, const char *doing)
{
    return eco_cublas_error(
        error == CUBLAS_STATUS_SUCCESS && ECO_FAILS() ? CUBLAS_STATUS_INTERNAL_ERROR : error,
        doing);
}

/* ---- the current device ---------------------------------------------------------------------- */

/*
 * Makes a device current for the calling thread, and checks that it can reach an address.
 */

ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device)
{
    scope->device = ((const struct eco_gpu *)device->context)->device;
    scope->before = scope->device;
    cudaError_t error = cudaGetDevice(&scope->before);
    if (error == cudaSuccess && scope->before != scope->device)
        error = cudaSetDevice(scope->device);
    return eco_cuda_status(error, "cudaSetDevice");
}

void eco_gpu_leave(const struct eco_gpu_scope *scope)
{
    if (scope->before != scope->device)
        cudaSetDevice(scope->before);
}

ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer)
{
    struct cudaPointerAttributes attributes;
    if (pointer == NULL)
        return ECORNN_OK;
    const ecornn_status status = ECO_CUDA(cudaPointerGetAttributes(&attributes, pointer));
    if (status != ECORNN_OK)
        return status;
    if (attributes.type == cudaMemoryTypeUnregistered)
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT,
                                      "%s is %p, which device cuda:%d cannot access", name, pointer,
                                      gpu->device);
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != gpu->device)
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT,
                                      "%s is memory of cuda:%d, must be memory of cuda:%d", name,
                                      attributes.device, gpu->device);
    return ECORNN_OK;
}

ecornn_status eco_gpu_check_args(const struct eco_gpu *gpu, const struct eco_args *args)
{
    ecornn_status status = ECORNN_OK;
    for (int a = 0; a < eco_run_arrays(args); a++)
        for (int s = 0; status == ECORNN_OK && s < eco_run_array[a].count; s++)
            status = eco_gpu_check_pointer(gpu, eco_run_array[a].name,
                                           eco_run_array_get(args, &eco_run_array[a], s));
    return status;
}

/* ---- launches -------------------------------------------------------------------------------- */

/*
 * Launches of kernels that may become resident before their predecessors have ended; the grid of a
 * stage's kernel over rows and units; and the architectures for which there is code.
 */

/* Threads along the units of a row. A row or head with means belongs to one block, which adds its
 * sums in pairs and so has a power of two of threads. */
static void shape_of(const struct eco_stage_call *call, dim3 *blocks, dim3 *block)
{
    const unsigned most = 65535, rows = (unsigned)call->rows, heads = (unsigned)call->heads;
    const int32_t units = call->means ? call->head : call->hidden;
    unsigned threads = 32;
    while (threads < ECO_STAGE_THREADS && (int32_t)threads < units)
        threads *= 2;
    const unsigned across = ((unsigned)units + threads - 1) / threads;
    *block = (dim3){threads, 1, 1};
    *blocks = (dim3){call->means ? 1 : across, rows < most ? rows : most,
                     !call->means   ? 1
                     : heads < most ? heads
                                    : most};
}

cudaError_t eco_kernel_version(const void *kernel, int *version)
{
    struct cudaFuncAttributes code;
    const cudaError_t error = cudaFuncGetAttributes(&code, kernel);
    *version = error == cudaSuccess ? code.ptxVersion : 0;
    if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction)
        return error;
    (void)cudaGetLastError();
    return cudaSuccess;
}

/* With overlap the kernel itself waits for its predecessor (arch/grid_dependency.cuh). */
cudaError_t eco_launch(const void *kernel, dim3 blocks, dim3 threads, void **arguments,
                       bool overlap, cudaStream_t stream)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config = {.gridDim = blocks,
                                       .blockDim = threads,
                                       .stream = stream,
                                       .attrs = &attribute,
                                       .numAttrs = overlap ? 1 : 0};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

cudaError_t eco_launch_stage(const void *kernel, const struct eco_stage_call *shape,
                             const void *argument, bool overlap, cudaStream_t stream)
{
    dim3 blocks, threads;
    void *arguments[] = {(void *)(uintptr_t)argument};
    shape_of(shape, &blocks, &threads);
    return eco_launch(kernel, blocks, threads, arguments, overlap, stream);
}

/* ---- tensor maps ----------------------------------------------------------------------------- */

/*
 * Tensor maps, which describe a matrix to the hardware's copies. The driver's function that makes
 * them is looked up once, so that nothing links to the driver.
 */

typedef CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                           const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                           const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

eco_tensor_encoder eco_tensor_encoder_find(void)
{
    union {
        void *symbol;
        eco_tensor_encoder encoder;
    } found = {NULL};
    if (eco_driver_symbol("cuTensorMapEncodeTiled", 12000, &found.symbol) != cudaSuccess)
        (void)cudaGetLastError();
    return found.encoder;
}

bool eco_tensor_map(eco_tensor_encoder encoder, const struct eco_matrix_box *box, CUtensorMap *map)
{
    union {
        eco_tensor_encoder given;
        encode encode;
    } function = {encoder};
    static const CUtensorMapDataType types[ECO_TYPES] = {
        [ECORNN_F32] = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, /* copies round */
        [ECORNN_BF16] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        [ECORNN_F16] = CU_TENSOR_MAP_DATA_TYPE_FLOAT16};
    const size_t bytes = eco_type_bytes(box->type), row = box->row * bytes;
    const cuuint64_t size[2] = {(cuuint64_t)box->columns, (cuuint64_t)box->rows}, stride[1] = {row};
    const cuuint32_t part[2] = {(cuuint32_t)box->box_columns, (cuuint32_t)box->box_rows},
                     each[2] = {1, 1};
    if (encoder == NULL || ((uintptr_t)box->data | row) % 16 != 0)
        return false;
    return function.encode(map, types[box->type], 2, (void *)(uintptr_t)box->data, size, stride,
                           part, each, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
