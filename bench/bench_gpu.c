/*
 * Times problems on a GPU by events, kernel by kernel and as graphs, next to cuDNN called directly
 * with each of its algorithms, where cuDNN was found.
 *
 *     bench_gpu [--device cuda:K] [--cell FILE] [--versus unfused|layouts] [--quick ours|cudnn]
 *               PROBLEM...
 *
 * Each in a process of its own: in one where cuDNN had run before, graphs of ours took up to 13 %
 * longer.  A line for each: microseconds of a step (of a layer), of a run in all, and theirs over
 * ours.  With a cell from a file, the names in the problems stand for it.  Training: forward and
 * backward, weights packed before; pack and unpack are in "with pack".  --versus unfused: an LSTM
 * in inference also as a loop of small kernels (bench_unfused.cu); layouts: instead of all this, a
 * recurrent step in several layouts (bench_layouts.cu).  --quick: few samples, one side, all
 * problems in one process, for curves of many points (plot_gpu.py).
 */
#include "bench_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(ecornn_status status, const char *problem)
{
    if (status == ECORNN_OK)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", problem, ecornn_error_detail());
    exit(1);
}

/* ---- ours ------------------------------------------------------------------------------------ */

struct ours {
    ecornn_device *device; /* not its own */
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

static void make(struct ours *ours, const char *problem, const ecornn_desc *desc)
{
    const size_t rows = (size_t)desc->steps * (size_t)desc->batch;
    const size_t width = (size_t)(desc->proj ? desc->proj : desc->hidden) *
                         (desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1);
    const ecornn_type param = desc->type == ECORNN_F64 ? ECORNN_F64 : desc->param_type;
    const double from = gpu_now();
    check(ecornn_plan_create(&ours->plan, ours->device, desc), problem);
    ours->plan_seconds = gpu_now() - from;
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
}

/* What was measured. */
struct timed {
    double seconds, plan_seconds;
    ecornn_sizes sizes;
};

/* Graphs are the library's own: ECORNN_GRAPH is read here. */
static ecornn_device *open_device(const char *name, const char *graph)
{
    ecornn_device *device = NULL;
    setenv("ECORNN_GRAPH", graph, 1);
    check(ecornn_device_open(&device, name), name);
    return device;
}

static struct timed time_ours(ecornn_device *device, const char *problem, const ecornn_desc *desc,
                              bool packs, cudaStream_t stream)
{
    struct ours ours = {.device = device, .packs = packs};
    make(&ours, problem, desc);
    const double seconds = gpu_time(&(struct gpu_work){queue_ours, &ours}, stream);
    const struct timed timed = {seconds, ours.plan_seconds, ours.sizes};
    destroy(&ours);
    return timed;
}

/* On a device opened for it. */
static struct timed time_alone(const char *name, const char *problem, const ecornn_desc *desc,
                               const char *graph, bool packs, cudaStream_t stream)
{
    ecornn_device *device = open_device(name, graph);
    const struct timed timed = time_ours(device, problem, desc, packs, stream);
    ecornn_device_close(device);
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

static void measure_layouts(const char *problem, const ecornn_desc *desc, const char *cell,
                            cudaStream_t stream)
{
    static const char *const name[LAYOUTS] = {"rows", "rows R^T", "minor", "minor R^T"};
    layout_time time[LAYOUTS];
    if (!layouts_measure(desc, cell, stream, time))
        return;
    printf("%-44s us of a recurrent step", problem);
    for (int k = 0; k < LAYOUTS; k++)
        printf(" | %s %.2f best %.2f", name[k], 1e6 * time[k].own, 1e6 * time[k].best);
    printf("\n");
}

/* What to do with each problem. */
struct options {
    const char *device, *quick; /* NULL, "ours", "cudnn" */
    const ecornn_cell *own;
    bool loops, layouts;
};

/* The problem and the name of its cell. */
static void read_problem(const struct options *options, const char *problem, ecornn_desc *desc,
                         char cell[32])
{
    check(ecornn_desc_parse(desc, problem, options->own), problem);
    snprintf(cell, 32, "%.*s", (int)strcspn(problem, "/"), problem);
}

static cudaStream_t make_stream(const char *device)
{
    cudaStream_t stream;
    gpu_check(cudaSetDevice(atoi(strchr(device, ':') ? strchr(device, ':') + 1 : "0")), device);
    gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
}

static void measure(const struct options *options, const char *problem)
{
    ecornn_desc desc;
    char cell[32];
    const char *device = options->device;
    cudaStream_t stream = make_stream(device);
    read_problem(options, problem, &desc, cell);
    if (options->layouts) {
        measure_layouts(problem, &desc, cell, stream);
        return;
    }
    const bool training = (desc.flags & ECORNN_TRAINING) != 0;
    const struct timed eager = time_alone(device, problem, &desc, "0", false, stream);
    const struct timed graph = time_alone(device, problem, &desc, "1", false, stream);
    const struct timed packed =
        training ? time_alone(device, problem, &desc, "1", true, stream) : graph;
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
    if (options->loops)
        measure_loops(problem, &desc, graph.seconds, stream);
    fflush(stdout);
}

/* All in one process: only ours, eager and from a graph, or only cuDNN. */
static void measure_quickly(const struct options *options, char **problem, int n)
{
    cudaStream_t stream = make_stream(options->device);
    const bool ours = strcmp(options->quick, "ours") == 0;
    ecornn_device *eager = ours ? open_device(options->device, "0") : NULL;
    ecornn_device *graph = ours ? open_device(options->device, "1") : NULL;
    gpu_be_quick();
    for (int k = 0; k < n; k++) {
        ecornn_desc desc;
        char cell[32];
        read_problem(options, problem[k], &desc, cell);
        const double us = 1e6 / desc.steps / (desc.layers ? desc.layers : 1);
        if (ours) {
            const double queued = time_ours(eager, problem[k], &desc, false, stream).seconds;
            const double kept = time_ours(graph, problem[k], &desc, false, stream).seconds;
            printf("%-44s us/step eager %6.2f graph %6.2f\n", problem[k], us * queued, us * kept);
        } else {
            const struct cudnn_best best = cudnn_measure(&desc, cell, stream);
            printf("%-44s us/step cuDNN eager %6.2f (%s) graph %6.2f (%s)\n", problem[k],
                   us * best.eager, best.eager_how, us * best.graph, best.graph_how);
        }
        fflush(stdout);
    }
    ecornn_device_close(eager);
    ecornn_device_close(graph);
}

static bool read_option(struct options *options, ecornn_cell **cell, const char *name,
                        const char *value)
{
    if (strcmp(name, "--device") == 0)
        options->device = value;
    else if (strcmp(name, "--cell") == 0 && !*cell)
        options->own = *cell = read_cell(value);
    else if (strcmp(name, "--versus") == 0 && strcmp(value, "unfused") == 0)
        options->loops = true;
    else if (strcmp(name, "--versus") == 0 && strcmp(value, "layouts") == 0)
        options->layouts = true;
    else if (strcmp(name, "--quick") == 0 &&
             (strcmp(value, "ours") == 0 || strcmp(value, "cudnn") == 0))
        options->quick = value;
    else
        return false;
    return true;
}

/* In a process of its own. */
static bool measure_alone(const struct options *options, const char *problem)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        measure(options, problem);
        exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    struct options options = {.device = "cuda:0"};
    ecornn_cell *cell = NULL;
    int k = 1, failed = 0;
    while (k + 1 < argc && strncmp(argv[k], "--", 2) == 0 &&
           read_option(&options, &cell, argv[k], argv[k + 1]))
        k += 2;
    if (k >= argc || strncmp(argv[k], "--", 2) == 0) {
        fprintf(stderr,
                "usage: bench_gpu [--device cuda:K] [--cell FILE] [--versus unfused|layouts] "
                "[--quick ours|cudnn] PROBLEM...\n");
        return 2;
    }
    if (options.quick)
        measure_quickly(&options, argv + k, argc - k);
    for (; !options.quick && k < argc; k++)
        failed |= !measure_alone(&options, argv[k]);
    ecornn_cell_free(cell);
    return failed;
}
