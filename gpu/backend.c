/*
 * The CUDA backend: devices, memory, the list of algorithms, and the module's one exported
 * function.
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/wide_step/wide_step.h"
#include "gpu/persistent/persistent.h"
#include "gpu/gemm/emulated_f32/emulated_f32.h"
#include "gpu/algo/algo.h"
#include "gpu/attention/attention.h"
#include "gpu/jit/compile.h"
#include "gpu/jit/jit.h"
#include "gpu/ops/ops.h"
#include "gpu/run/run.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"

/* sm_75: the oldest architecture that our toolkits support. */
enum { OLDEST = 75 };

static int capability(int device)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return 0;
    return 10 * major + minor;
}

/* Counts devices that are new enough; number K in a device's name counts the others, too. */
static int count(void)
{
    int devices = 0, usable = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess)
        devices = 0;
    for (int k = 0; k < devices; k++)
        usable += capability(k) >= OLDEST;
    cudaGetLastError();
    return usable;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static ecornn_status check_device(int number)
{
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return eco_gpu_services->fail(ECORNN_NO_DEVICE, "CUDA: %s (%s)", cudaGetErrorString(error),
                                      cudaGetErrorName(error));
    }
    if (number >= devices)
        return eco_gpu_services->fail(ECORNN_NO_DEVICE, "no device cuda:%d: this machine has %d",
                                      number, devices);
    const int is = capability(number);
    if (is < OLDEST)
        return eco_gpu_services->fail(ECORNN_NO_DEVICE,
                                      "cuda:%d has compute capability %d.%d, needs %d.%d or later",
                                      number, is / 10, is % 10, OLDEST / 10, OLDEST % 10);
    return ECORNN_OK;
}

/* One multiprocessor of an H200: 128 fused multiply-adds in a clock. */
static const double PLAIN_FLOPS = 128 * 2 * 1.5e9;

/* Finds rates for estimates by the device's properties. */
static void find_rates(struct ecornn_device *device, const struct cudaDeviceProp *properties)
{
    struct eco_gpu *gpu = device->context;
    int clock = 0, memory_clock = 0; /* kHz */
    if (cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, gpu->device) != cudaSuccess ||
        cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, gpu->device) !=
            cudaSuccess)
        cudaGetLastError();
    const struct eco_gpu_properties said = {.name = properties->name,
                                            .capability = gpu->capability,
                                            .multiprocessors = properties->multiProcessorCount,
                                            .clock = 1e3 * clock,
                                            .memory_bytes = 2 * 1e3 * memory_clock *
                                                            (properties->memoryBusWidth / 8)};
    double speed[ECO_SPEEDS];
    device->caps.flops = PLAIN_FLOPS * eco_gpu_speeds_of(speed, &said);
    eco_gpu_rates_scale(&gpu->rates, speed);
    device->caps.gpu.rates = &gpu->rates;
}

static ecornn_status fill_info(struct ecornn_device *device, int number)
{
    struct cudaDeviceProp properties;
    const ecornn_status status = ECO_CUDA(cudaGetDeviceProperties(&properties, number));
    if (status != ECORNN_OK)
        return status;
    struct eco_text name = {device->info.name, sizeof device->info.name, 0};
    struct eco_text variant = {device->info.variant, sizeof device->info.variant, 0};
    eco_text_add(&name, "%s", properties.name);
    eco_text_add(&variant, "sm_%d%d", properties.major, properties.minor);
    device->info.threads = properties.multiProcessorCount;
    device->info.memory_bytes = properties.totalGlobalMem;
    device->caps = (struct eco_caps){
        .threads = properties.multiProcessorCount,
        .bytes_per_s = 2e12 / properties.multiProcessorCount,
        .cpu.cache_bytes = (size_t)properties.l2CacheSize,
        .gpu.block_bytes = properties.cooperativeLaunch ? properties.sharedMemPerBlockOptin : 0,
        .gpu.version = ((const struct eco_gpu *)device->context)->capability,
        .own_memory = true};
    find_rates(device, &properties);
    return ECORNN_OK;
}

/* Makes the first set, so that the first run does not have to initialise cuBLAS. */
static ecornn_status prepare(struct ecornn_device *device)
{
    struct eco_gpu *gpu = device->context;
    struct eco_gpu_set *set;
    ecornn_status status = eco_gpu_take_set(gpu, &set);
    if (status != ECORNN_OK)
        return status;
    eco_gpu_return_set(set);
    status = eco_cuda_status(eco_kernels_load(&gpu->overlap), "finding code for this device");
    if (status == ECORNN_OK)
        status = ECO_CUDA(eco_emulated_load(&device->caps.gpu.splits));
    _Static_assert(sizeof device->caps.gpu.clusters / sizeof *device->caps.gpu.clusters ==
                       ECO_EMULATED_SLICES,
                   "clusters of all sizes");
    if (status == ECORNN_OK && device->caps.gpu.version >= ECO_FUSED_VERSION)
        status = eco_fused_load(&device->caps.gpu.fuses);
    if (status == ECORNN_OK && device->caps.gpu.splits) /* so there is code for 9.0a */
        status = eco_wide_load(gpu, &device->caps.gpu.wide);
    if (status == ECORNN_OK && device->caps.gpu.splits)
        eco_emulated_step_count(device->caps.gpu.clusters);
    if (status == ECORNN_OK)
        status = ECO_CUDA(
            cudaHostAlloc((void **)&gpu->failed, sizeof *gpu->failed, cudaHostAllocMapped));
    if (status != ECORNN_OK)
        return status;
    *gpu->failed = 0;
    return eco_persistent_load(device);
}

static void close_device(struct ecornn_device *device)
{
    struct eco_gpu_scope scope;
    struct eco_gpu *gpu = device->context;
    if (eco_gpu_enter(&scope, device) == ECORNN_OK) {
        for (int i = 0; i < ECO_MAX_RUNS; i++) {
            eco_gpu_free_set(&gpu->set[i]);
            eco_gpu_free_lanes(&gpu->lanes[i]);
        }
        eco_own_codes_free(gpu);
        if (gpu->failed != NULL)
            cudaFreeHost(gpu->failed);
        eco_gpu_leave(&scope);
    }
    pthread_mutex_destroy(&gpu->own_codes_lock);
    eco_free(gpu);
}

/* Reads a number of `least` to `most`, `usual` if there is no text; false: it is something else. */
static bool read_number(const char *text, long usual, long least, long most, long *number)
{
    char *end = NULL;
    *number = usual;
    if (text == NULL || *text == '\0')
        return true;
    *number = strtol(text, &end, 10);
    return *end == '\0' && *number >= least && *number <= most;
}

/* Long timeouts are for tools under which kernels take a thousand times as long. */
static ecornn_status read_environment(struct eco_gpu *gpu)
{
    enum { USUAL_S = 2, MOST_S = 3600 };
    char forced[16] = "";
    const char *patience = eco_environment("ECORNN_SPIN_TIMEOUT"),
               *graph = eco_environment("ECORNN_GRAPH"), *source = "ECORNN_GRAPH";
    long graphs;
    if (eco_force_text(eco_environment("ECORNN_FORCE"), "graph", forced, sizeof forced)) {
        graph = forced;
        source = "graph in ECORNN_FORCE";
    }
    if (!read_number(patience, USUAL_S, 1, MOST_S, &gpu->spin_timeout_s))
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT,
                                      "ECORNN_SPIN_TIMEOUT is \"%.40s\", must be 1 to %d (seconds)",
                                      patience, MOST_S);
    if (!read_number(graph, 1, 0, 1, &graphs))
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT, "%s is \"%.40s\", must be 0 or 1",
                                      source, graph);
    gpu->graphs = graphs == 1;
    return ECORNN_OK;
}

static ecornn_status open(struct ecornn_device *device, int argument)
{
    const int number = argument < 0 ? 0 : argument;
    ecornn_status status = check_device(number);
    if (status != ECORNN_OK)
        return status;
    struct eco_gpu *gpu = eco_alloc_zeroed(sizeof *gpu);
    if (gpu == NULL)
        return eco_gpu_services->fail(ECORNN_NO_MEMORY, "no memory for a device of %zu bytes",
                                      sizeof *gpu);
    gpu->device = number;
    gpu->capability = capability(number);
    pthread_mutex_init(&gpu->own_codes_lock, NULL);
    device->context = gpu;
    struct eco_gpu_scope scope;
    status = read_environment(gpu);
    if (status == ECORNN_OK)
        status = eco_gpu_enter(&scope, device);
    if (status == ECORNN_OK) {
        status = fill_info(device, number);
        if (status == ECORNN_OK)
            status = prepare(device);
        eco_gpu_leave(&scope);
    }
    if (status != ECORNN_OK)
        close_device(device);
    return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *alloc(struct ecornn_device *device, size_t bytes)
{
    struct eco_gpu_scope scope;
    void *memory = NULL;
    if (eco_gpu_enter(&scope, device) != ECORNN_OK)
        return NULL;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
        cudaGetLastError();
        memory = NULL;
    }
    eco_gpu_leave(&scope);
    return memory;
}

static void free_memory(struct ecornn_device *device, void *memory)
{
    struct eco_gpu_scope scope;
    if (eco_gpu_enter(&scope, device) != ECORNN_OK)
        return;
    cudaFree(memory);
    eco_gpu_leave(&scope);
}

static ecornn_status copy(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                          bool to_device)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    status = ECO_CUDA(
        cudaMemcpy(to, from, bytes, to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost));
    /* From memory that is not pinned, cudaMemcpy may return while the device still copies.  Streams
     * that do not wait for the legacy one could then run before the copy ends. */
    if (status == ECORNN_OK && to_device)
        status = ECO_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
    eco_gpu_leave(&scope);
    return status;
}

static ecornn_status wait(struct ecornn_device *device, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    status = ECO_CUDA(cudaStreamSynchronize(stream));
    eco_gpu_leave(&scope);
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* The legacy stream reports a capture of any stream that synchronises with it, which stays valid.
 * Captures of other streams do not notice calls in relaxed mode. */
static ecornn_status begin_measuring(struct ecornn_device *device, struct eco_measuring *own)
{
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    struct eco_gpu_scope scope;
    cudaStream_t stream = NULL;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    if (cudaStreamIsCapturing(cudaStreamLegacy, &capturing) != cudaSuccess) {
        cudaGetLastError();
        status = eco_gpu_services->fail(ECORNN_UNSUPPORTED, "a stream is being captured");
    }
    if (status == ECORNN_OK)
        status = ECO_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    if (status == ECORNN_OK) {
        status = ECO_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        if (status != ECORNN_OK)
            cudaThreadExchangeStreamCaptureMode(&mode);
    }
    eco_gpu_leave(&scope);
    *own = (struct eco_measuring){stream, mode};
    return status;
}

static void end_measuring(struct ecornn_device *device, const struct eco_measuring *own)
{
    enum cudaStreamCaptureMode mode = own->mode;
    struct eco_gpu_scope scope;
    if (eco_gpu_enter(&scope, device) == ECORNN_OK) {
        cudaStreamDestroy(own->stream);
        eco_gpu_leave(&scope);
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
}

/* ---- the backend ----------------------------------------------------------------------------- */

/* Clocks and the driver. */
static void identity(const struct ecornn_device *device, struct eco_text *words)
{
    const struct eco_gpu *gpu = device->context;
    int clock = 0, memory_clock = 0, driver = 0;
    if (cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, gpu->device) != cudaSuccess ||
        cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, gpu->device) !=
            cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess)
        cudaGetLastError();
    eco_text_add(words, " kHz=%d memory-kHz=%d l2=%zu driver=%d runtime=%d", clock, memory_clock,
                 device->caps.cpu.cache_bytes, driver, CUDART_VERSION);
}

/* Adds a reason as one line. */
static void add_reason(struct eco_text *text, const char *why)
{
    char line[512] = "";
    eco_text_add_escaped(&(struct eco_text){line, sizeof line, 0}, why);
    eco_text_add(text, "%s\n", line);
}

static void about(struct eco_text *text)
{
    char why[256] = "", available[32] = "available";
    struct eco_text reason = {why, sizeof why, 0}, version = {available, sizeof available, 0};
    struct eco_cache cache;
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        cudaGetLastError();
    eco_text_add(text, "CUDA: driver %d.%d, runtime %d.%d\nNVRTC: ", driver / 1000,
                 driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    const bool compiles = eco_nvrtc_open(&reason);
    if (compiles)
        eco_nvrtc_version(&version);
    add_reason(text, compiles ? available : why);
    why[0] = '\0', reason.length = 0;
    const bool keeps = eco_cache_open(&cache, &reason);
    eco_text_add(text, "code cache: ");
    add_reason(text, keeps ? "available" : why);
    eco_cache_close(&cache);
}

static const struct eco_backend backend = {
    .name = "cuda",
    .count = count,
    .open = open,
    .close = close_device,
    .alloc = alloc,
    .free = free_memory,
    .copy = copy,
    .queue = eco_gpu_queue_calls,
    .fork = eco_gpu_fork,
    .wait = wait,
    .begin_measuring = begin_measuring,
    .end_measuring = end_measuring,
    .packs_in_runs = true,
    .prepare = eco_gpu_prepare,
    .release = eco_gpu_release,
    .share = eco_gpu_share_device,
    .describe = eco_gpu_describe,
    .choices = eco_gpu_choices,
    .identity = identity,
    .about = about,
    .algos = eco_gpu_algos,
    .attention = &eco_gpu_attention,
};

__attribute__((visibility("default"))) const struct eco_module *
eco_module_open(const struct eco_services *services);

const struct eco_module *eco_module_open(const struct eco_services *services)
{
    static struct eco_module module;
    eco_gpu_services = services;
    module = (struct eco_module){ECO_BUILD, &backend};
    return &module;
}
