/*
 * Measures rates of a GPU on request: launches, copies, matrix units.
 */
#include "gpu/run/measure.h"

#include "common/util.h"
#include "gpu/device/device.h"

enum { ROUNDS = 9 };

/* What is queued `times` times, and the memory it uses. */
struct work {
    struct eco_gpu_set *set;
    cudaStream_t stream;
    char *memory;
    size_t bytes;
    cudaError_t (*queue)(const struct work *work);
    int times; /* of a round */
};

/* Milliseconds of a round, by events; negative if it failed. */
static float time_round(const struct work *work, cudaEvent_t begin, cudaEvent_t end)
{
    float time = -1;
    cudaError_t error = cudaEventRecord(begin, work->stream);
    for (int k = 0; error == cudaSuccess && k < work->times; k++)
        error = work->queue(work);
    if (error == cudaSuccess)
        error = cudaEventRecord(end, work->stream);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(end);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(&time, begin, end);
    if (error == cudaSuccess)
        return time;
    cudaGetLastError();
    return -1;
}

/* Seconds of one, the least of several rounds, as disturbances only add time; 0 if it failed. */
static double time_of(const struct work *work)
{
    cudaEvent_t begin = NULL, end = NULL;
    float least = 0;
    if (cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess)
        for (int round = 0; round < ROUNDS && least >= 0; round++) {
            const float time = time_round(work, begin, end);
            least = time < 0 || round == 0 || time < least ? time : least;
        }
    if (begin != NULL)
        cudaEventDestroy(begin);
    if (end != NULL)
        cudaEventDestroy(end);
    cudaGetLastError();
    return least > 0 ? 1e-3 * (double)least / work->times : 0;
}

static double measure(struct ecornn_device *device, struct work work)
{
    struct eco_gpu_scope scope;
    double time = 0;
    if (eco_gpu_enter(&scope, device) != ECORNN_OK)
        return 0;
    if (eco_gpu_take_set(device->context, &work.set) == ECORNN_OK) {
        work.stream = work.set->stream[0];
        void *memory = NULL;
        if (cudaMalloc(&memory, work.bytes) == cudaSuccess &&
            cudaMemset(memory, 0, work.bytes) == cudaSuccess &&
            cublasSetStream(work.set->blas, work.stream) == CUBLAS_STATUS_SUCCESS &&
            cublasSetPointerMode(work.set->blas, CUBLAS_POINTER_MODE_HOST) ==
                CUBLAS_STATUS_SUCCESS &&
            cublasSetMathMode(work.set->blas, CUBLAS_DEFAULT_MATH) == CUBLAS_STATUS_SUCCESS) {
            work.memory = memory;
            time = time_of(&work);
        }
        cudaFree(memory);
        cudaGetLastError();
        eco_gpu_return_set(work.set);
    }
    eco_gpu_leave(&scope);
    return time;
}

/* ---- what is queued -------------------------------------------------------------------------- */

/* The smallest possible kernel. */
static cudaError_t queue_least(const struct work *work)
{
    return cudaMemsetAsync(work->memory, 0, work->bytes, work->stream);
}

static double measure_launch(struct ecornn_device *device)
{
    return measure(device, (struct work){.queue = queue_least, .bytes = 256, .times = 1000});
}

static cudaError_t queue_copy(const struct work *work)
{
    const size_t half = work->bytes / 2;
    return cudaMemcpyAsync(work->memory, work->memory + half, half, cudaMemcpyDeviceToDevice,
                           work->stream);
}

static double measure_copy(struct ecornn_device *device)
{
    const struct work work = {.queue = queue_copy, .bytes = (size_t)1 << 29, .times = 8};
    const double time = measure(device, work);
    return time > 0 ? (double)work.bytes / time : 0;
}

enum { M = 4096 }; /* rows, columns and terms */

static cudaError_t queue_product(const struct work *work)
{
    const float one = 1, zero = 0;
    const size_t matrix = (size_t)M * M * 2;
    const char *a = work->memory, *b = a + matrix;
    return cublasGemmEx(work->set->blas, CUBLAS_OP_T, CUBLAS_OP_N, M, M, M, &one, a, CUDA_R_16BF, M,
                        b, CUDA_R_16BF, M, &zero, work->memory + 2 * matrix, CUDA_R_16BF, M,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS
               ? cudaSuccess
               : cudaErrorUnknown;
}

static double measure_matrix(struct ecornn_device *device)
{
    const struct work work = {.queue = queue_product, .bytes = (size_t)3 * M * M * 2, .times = 16};
    const double time = measure(device, work);
    return time > 0 ? 2. * M * M * M / time : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

const struct eco_measure eco_gpu_measures[] = {
    [ECO_MEASURED_LAUNCH] = {"launch-ps", 1e-12, 1e-7, 1e-3, measure_launch, NULL, NULL, 0},
    [ECO_MEASURED_COPY] = {"copy-mbps", 1e6, 1e9, 1e15, measure_copy, NULL, NULL, 0},
    [ECO_MEASURED_MATRIX] = {"matrix-mflops", 1e6, 1e10, 1e17, measure_matrix, NULL, NULL, 0},
    [ECO_MEASURED_STEP] = {"step-ps", 1e-12, 1e-8, 1e-3, NULL, "lstm/bf16/infer/T100/N1/I512/H512",
                           "algorithm=persistent", 0},
    {.key = NULL},
};

void eco_gpu_set_rates(struct ecornn_device *device, const double value[ECO_MAX_MEASURES])
{
    struct eco_gpu *gpu = device->context;
    double speed[ECO_SPEEDS];
    for (int k = 0; k < ECO_SPEEDS; k++)
        speed[k] = gpu->speed[k];
    eco_gpu_speeds_measured(speed, value);
    eco_gpu_rates_scale(&gpu->rates, speed);
}
