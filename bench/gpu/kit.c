/*
 * Random data on a GPU, and time by events, see gpu.h.
 */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void gpu_check(cudaError_t error, const char *doing)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", doing, cudaGetErrorString(error));
    exit(1);
}

void gpu_check_ours(ecornn_status status, const char *problem)
{
    if (status == ECORNN_OK)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", problem, ecornn_error_detail());
    exit(1);
}

/* ---- data ------------------------------------------------------------------------------------ */

size_t gpu_element(ecornn_type type)
{
    return type == ECORNN_F64 ? 8 : type == ECORNN_F32 ? 4 : 2;
}

/* To 16 bits, cut off: these are only numbers to calculate with. */
static void put(void *array, size_t i, ecornn_type type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == ECORNN_F64)
        ((double *)array)[i] = (double)value;
    else if (type == ECORNN_F32)
        ((float *)array)[i] = value;
    else if (type == ECORNN_BF16)
        ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
    else
        ((uint16_t *)array)[i] = fabsf(value) < 0x1p-14f
                                     ? 0
                                     : (uint16_t)((bits >> 16 & 0x8000u) |
                                                  (((bits & 0x7fffffffu) - (112u << 23)) >> 13));
}

/* They come again after so many, at other places in the rows of a matrix. */
enum { PERIOD = (1 << 20) + 7 };

void *gpu_draw(ecornn_type type, size_t elements, double bound, unsigned seed)
{
    uint64_t state = 1 + (seed - 1) * UINT64_C(0x9E3779B97F4A7C15);
    const size_t element = gpu_element(type), drawn = elements < PERIOD ? elements : PERIOD;
    char *host = malloc(drawn * element), *device = NULL;
    for (size_t i = 0; host && i < drawn; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        put(host, i, type, (float)(bound * ((double)(state >> 11) * 0x1p-52 - 1)));
    }
    gpu_check(cudaMalloc((void **)&device, elements > 0 ? elements * element : 1), "memory");
    gpu_check(cudaMemcpy(device, host, drawn * element, cudaMemcpyHostToDevice), "upload");
    for (size_t have = drawn; have < elements; have += drawn) {
        const size_t more = elements - have < drawn ? elements - have : drawn;
        gpu_check(
            cudaMemcpy(device + have * element, device, more * element, cudaMemcpyDeviceToDevice),
            "copy");
    }
    free(host);
    return device;
}

void *gpu_random(ecornn_type type, size_t elements, double bound)
{
    return gpu_draw(type, elements, bound, 1);
}

/* ---- time ------------------------------------------------------------------------------------ */

double gpu_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool quick;

void gpu_be_quick(void)
{
    quick = true;
}

struct gpu_seconds gpu_time(const struct gpu_work *work, cudaStream_t stream)
{
    enum { SAMPLES = 9, QUICK_SAMPLES = 5, WARM_UP = 3 };
    const int samples = quick ? QUICK_SAMPLES : SAMPLES;
    const double least = quick ? 1e-3 : 3e-3; /* seconds of a sample */
    cudaEvent_t from, to;
    double sample[SAMPLES];
    float ms = 0;
    int repeats = 1;
    for (int k = 0; k < WARM_UP; k++)
        if (!work->queue(work->self, stream))
            return (struct gpu_seconds){-1, 0};
    gpu_check(cudaEventCreate(&from), "event");
    gpu_check(cudaEventCreate(&to), "event");
    for (int k = -1; k < samples; k++) { /* number -1 finds out how many make a sample */
        gpu_check(cudaEventRecord(from, stream), "event");
        for (int i = 0; i < repeats; i++)
            work->queue(work->self, stream);
        gpu_check(cudaEventRecord(to, stream), "event");
        gpu_check(cudaStreamSynchronize(stream), "a run");
        gpu_check(cudaEventElapsedTime(&ms, from, to), "event");
        if (k >= 0)
            sample[k] = (double)ms * 1e-3 / repeats;
        else if ((double)ms * 1e-3 < least)
            repeats = 1 + (int)(least / fmax((double)ms * 1e-3, 1e-6));
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    qsort(sample, (size_t)samples, sizeof *sample, by_size);
    return (struct gpu_seconds){sample[samples / 2],
                                (sample[3 * samples / 4] - sample[samples / 4]) / 2};
}

static bool launch(void *self, cudaStream_t stream)
{
    return cudaGraphLaunch(*(cudaGraphExec_t *)self, stream) == cudaSuccess;
}

struct gpu_seconds gpu_time_graph(const struct gpu_work *work, cudaStream_t stream)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (!work->queue(work->self, stream) || cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess)
        return (struct gpu_seconds){-1, 0};
    const bool queued = work->queue(work->self, stream);
    const bool ended = cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    struct gpu_seconds seconds = {-1, 0};
    if (queued && ended && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess)
        seconds = gpu_time(&(struct gpu_work){launch, &exec}, stream);
    if (exec)
        cudaGraphExecDestroy(exec);
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError();
    return seconds;
}
