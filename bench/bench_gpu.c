/*
 * Times problems on a GPU by events, kernel by kernel and as graphs, next to cuDNN called directly
 * with each of its algorithms, where cuDNN was found.
 *
 *     bench_gpu [--device cuda:K] [--cell FILE] [--versus unfused] PROBLEM...
 *
 * Each in a process of its own: in one where cuDNN had run before, graphs of ours took up to 13 %
 * longer.  A line for each: microseconds of a step (of a layer), of a run in all, and theirs over
 * ours.  With a cell from a file, the names in the problems stand for it.  Training: forward and
 * backward, weights packed before; pack and unpack are in "with pack".  --versus: an LSTM in
 * inference also as a loop of small kernels (bench_unfused.cu).
 */
#include "bench_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void gpu_check(cudaError_t error, const char *doing)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", doing, cudaGetErrorString(error));
    exit(1);
}

static void check(ecornn_status status, const char *problem)
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

void *gpu_random(ecornn_type type, size_t elements, double bound)
{
    uint64_t state = 1;
    const size_t bytes = elements * gpu_element(type);
    void *host = malloc(bytes), *device = NULL;
    for (size_t i = 0; host && i < elements; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        put(host, i, type, (float)(bound * ((double)(state >> 11) * 0x1p-52 - 1)));
    }
    gpu_check(cudaMalloc(&device, bytes > 0 ? bytes : 1), "memory");
    gpu_check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "upload");
    free(host);
    return device;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double now(void)
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

double gpu_time(const struct gpu_work *work, cudaStream_t stream)
{
    enum { SAMPLES = 9, WARM_UP = 3 };
    static const double least = 3e-3; /* seconds of a sample */
    cudaEvent_t from, to;
    double sample[SAMPLES];
    float ms = 0;
    int repeats = 1;
    for (int k = 0; k < WARM_UP; k++)
        if (!work->queue(work->self, stream))
            return -1;
    gpu_check(cudaEventCreate(&from), "event");
    gpu_check(cudaEventCreate(&to), "event");
    for (int k = -1; k < SAMPLES; k++) { /* number -1 finds out how many make a sample */
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
    qsort(sample, SAMPLES, sizeof *sample, by_size);
    return sample[SAMPLES / 2];
}

static bool launch(void *self, cudaStream_t stream)
{
    return cudaGraphLaunch(*(cudaGraphExec_t *)self, stream) == cudaSuccess;
}

double gpu_time_graph(const struct gpu_work *work, cudaStream_t stream)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (!work->queue(work->self, stream) || cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess)
        return -1;
    const bool queued = work->queue(work->self, stream);
    const bool ended = cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    double seconds = -1;
    if (queued && ended && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess)
        seconds = gpu_time(&(struct gpu_work){launch, &exec}, stream);
    if (exec)
        cudaGraphExecDestroy(exec);
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError();
    return seconds;
}

/* ---- ours ------------------------------------------------------------------------------------ */

struct ours {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ecornn_io io;
    ecornn_gradient gradient;
    const void **params;
    void **dparams;
    bool training, packs;
    double plan_seconds; /* that creating the plan took */
};

static bool queue_ours(void *self, cudaStream_t stream)
{
    struct ours *ours = self;
    ours->io.stream = stream;
    ecornn_status status = ECORNN_OK;
    if (ours->packs)
        status = ecornn_pack(ours->plan, ours->params, (void *)(uintptr_t)ours->io.weights, stream);
    if (status == ECORNN_OK)
        status = ecornn_forward(ours->plan, &ours->io);
    if (status == ECORNN_OK && ours->training)
        status = ecornn_backward(ours->plan, &ours->io, &ours->gradient);
    if (status == ECORNN_OK && ours->packs)
        status = ecornn_unpack(ours->plan, ours->gradient.dweights, ours->dparams, 0, stream);
    if (status != ECORNN_OK)
        fprintf(stderr, "bench_gpu: %s\n", ecornn_error_detail());
    return status == ECORNN_OK;
}

static void make(struct ours *ours, const char *device, const char *problem,
                 const ecornn_desc *desc)
{
    const size_t rows = (size_t)desc->steps * (size_t)desc->batch;
    const size_t width = (size_t)(desc->proj ? desc->proj : desc->hidden) *
                         (desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1);
    const ecornn_type param = desc->type == ECORNN_F64 ? ECORNN_F64 : desc->param_type;
    check(ecornn_device_open(&ours->device, device), problem);
    const double from = now();
    check(ecornn_plan_create(&ours->plan, ours->device, desc), problem);
    ours->plan_seconds = now() - from;
    ecornn_plan_sizes(ours->plan, &ours->sizes);
    const int count = ecornn_param_count(ours->plan);
    char *block = gpu_random(param, ours->sizes.params, 1 / sqrt(desc->hidden));
    char *dblock = gpu_random(param, ours->sizes.params, 1);
    ours->params = calloc((size_t)count, sizeof *ours->params);
    ours->dparams = calloc((size_t)count, sizeof *ours->dparams);
    for (int k = 0; ours->params && ours->dparams && k < count; k++) {
        ecornn_param at;
        check(ecornn_param_get(ours->plan, k, &at), problem);
        ours->params[k] = block + at.offset * gpu_element(param);
        ours->dparams[k] = dblock + at.offset * gpu_element(param);
    }
    ours->training = (desc->flags & ECORNN_TRAINING) != 0;
    void *weights = ecornn_alloc(ours->device, ours->sizes.weights);
    ours->io = (ecornn_io){.size = sizeof ours->io,
                           .x = gpu_random(desc->type, rows * (size_t)desc->input, 1),
                           .y = gpu_random(desc->type, rows * width, 1),
                           .weights = weights,
                           .workspace = ecornn_alloc(ours->device, ours->sizes.workspace),
                           .seed = 1};
    ours->gradient = (ecornn_gradient){.size = sizeof ours->gradient};
    if (ours->training) {
        ours->io.reserve = ecornn_alloc(ours->device, ours->sizes.reserve);
        ours->gradient.dy = gpu_random(desc->type, rows * width, 1);
        ours->gradient.dx = gpu_random(desc->type, rows * (size_t)desc->input, 1);
        ours->gradient.dweights = ecornn_alloc(ours->device, ours->sizes.dweights);
    }
    check(ecornn_pack(ours->plan, ours->params, weights, NULL), problem);
    check(ecornn_wait(ours->device, NULL), problem);
}

static void destroy(struct ours *ours)
{
    void *const blocks[] = {(void *)(uintptr_t)ours->io.x,
                            ours->io.y,
                            (void *)(uintptr_t)ours->io.weights,
                            ours->io.workspace,
                            ours->io.reserve,
                            (void *)(uintptr_t)ours->gradient.dy,
                            ours->gradient.dx,
                            ours->gradient.dweights,
                            (void *)(uintptr_t)ours->params[0],
                            ours->dparams[0]};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        cudaFree(blocks[i]);
    free(ours->params);
    free(ours->dparams);
    ecornn_plan_free(ours->plan);
    ecornn_device_close(ours->device);
}

/* What was measured. */
struct timed {
    double seconds, plan_seconds;
    ecornn_sizes sizes;
};

/* Graphs are the library's own: ECORNN_GRAPH is read when the device is opened. */
static struct timed time_ours(const char *device, const char *problem, const ecornn_desc *desc,
                              const char *graph, bool packs, cudaStream_t stream)
{
    struct ours ours = {.packs = packs};
    setenv("ECORNN_GRAPH", graph, 1);
    make(&ours, device, problem, desc);
    const double seconds = gpu_time(&(struct gpu_work){queue_ours, &ours}, stream);
    const struct timed timed = {seconds, ours.plan_seconds, ours.sizes};
    destroy(&ours);
    return timed;
}

/* ---- one problem ----------------------------------------------------------------------------- */

static ecornn_cell *read_cell(const char *path)
{
    static char text[1 << 14];
    ecornn_cell *cell = NULL;
    FILE *file = fopen(path, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    check(ecornn_cell_parse(&cell, text), path);
    return cell;
}

/* Theirs eager and from a graph, and both over our graph. */
static void measure_loops(const char *problem, const ecornn_desc *desc, double ours,
                          cudaStream_t stream)
{
    static const char *const name[] = {"unfused", "naive"};
    const double steps = (double)desc->steps;
    double eager, graph;
    if (strncmp(problem, "lstm/", 5) != 0 || desc->flags & ECORNN_TRAINING || desc->layers > 1 ||
        desc->proj > 0 || desc->direction != ECORNN_FORWARD)
        return;
    for (int naive = 0; naive < 2; naive++)
        if (unfused_measure(desc, naive, stream, &eager, &graph))
            printf("%-44s %s eager %6.2f graph %6.2f | ratio eager %.2f graph %.2f\n", problem,
                   name[naive], 1e6 * eager / steps, 1e6 * graph / steps, eager / ours,
                   graph / ours);
}

static void measure(const char *device, const char *problem, const ecornn_cell *own, bool loops)
{
    ecornn_desc desc;
    cudaStream_t stream;
    char cell[32];
    gpu_check(cudaSetDevice(atoi(strchr(device, ':') ? strchr(device, ':') + 1 : "0")), device);
    gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check(ecornn_desc_parse(&desc, problem, own), problem);
    snprintf(cell, sizeof cell, "%.*s", (int)strcspn(problem, "/"), problem);
    const bool training = (desc.flags & ECORNN_TRAINING) != 0;
    const struct timed eager = time_ours(device, problem, &desc, "0", false, stream);
    const struct timed graph = time_ours(device, problem, &desc, "1", false, stream);
    const struct timed packed =
        training ? time_ours(device, problem, &desc, "1", true, stream) : graph;
    const struct cudnn_best best = cudnn_measure(&desc, cell, stream);
    const double steps = (double)desc.steps * (desc.layers ? desc.layers : 1);
    printf("%-44s us/step eager %6.2f graph %6.2f", problem, 1e6 * eager.seconds / steps,
           1e6 * graph.seconds / steps);
    if (training)
        printf(" with pack %6.2f", 1e6 * packed.seconds / steps);
    if (best.eager > 0)
        printf(" | cuDNN eager %6.2f (%s) graph %6.2f (%s) | ratio %.2f eager %.2f",
               1e6 * best.eager / steps, best.eager_how, 1e6 * best.graph / steps, best.graph_how,
               best.graph / graph.seconds, best.eager / eager.seconds);
    printf(" | plan ms first %.2f again %.2f", 1e3 * eager.plan_seconds, 1e3 * graph.plan_seconds);
    printf(" | MiB workspace %.1f reserve %.1f", (double)graph.sizes.workspace / 0x1p20,
           (double)graph.sizes.reserve / 0x1p20);
    if (best.eager > 0)
        printf(", theirs %.1f %.1f", (double)best.workspace / 0x1p20,
               (double)best.reserve / 0x1p20);
    printf("\n");
    if (loops)
        measure_loops(problem, &desc, graph.seconds, stream);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *device = "cuda:0";
    bool loops = false;
    ecornn_cell *cell = NULL;
    int k = 1, failed = 0;
    for (; k + 1 < argc && strncmp(argv[k], "--", 2) == 0; k += 2) {
        if (strcmp(argv[k], "--device") == 0)
            device = argv[k + 1];
        else if (strcmp(argv[k], "--cell") == 0 && !cell)
            cell = read_cell(argv[k + 1]);
        else if (strcmp(argv[k], "--versus") == 0 && strcmp(argv[k + 1], "unfused") == 0)
            loops = true;
        else
            break;
    }
    if (k >= argc || strncmp(argv[k], "--", 2) == 0) {
        fprintf(stderr, "usage: bench_gpu [--device cuda:K] [--cell FILE] [--versus unfused] "
                        "PROBLEM...\n");
        return 2;
    }
    for (; k < argc; k++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            measure(device, argv[k], cell, loops);
            exit(0);
        }
        failed |= child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    ecornn_cell_free(cell);
    return failed;
}
