/*
 * Times problems on a GPU by events, kernel by kernel and as graphs, next to cuDNN called directly
 * with each of its algorithms, where cuDNN was found.
 *
 *     bench_gpu [--device cuda:K] [--cell FILE] [--shapes FILE] [--quick ours|cudnn|both]
 *               [--print csv] PROBLEM|@LIST[/PARTS]...
 *
 * Each in a process of its own: in one where cuDNN had run before, graphs of ours took up to 13 %
 * longer.  A line for each: microseconds of a step (of a layer; of all models), of a run in all,
 * and theirs over ours; at the end geometric means.  With a cell from a file, the names in the
 * problems stand for it.  Training: forward and backward, weights packed before; pack and unpack
 * are in "with pack".
 * @gpu-grid/bf16/train: the problems of a list in the file of shapes, with parts for each.
 * --quick: few samples, all problems in one process, or in two, one for each side, in turns: for
 * many problems.
 * --print csv: a table with spreads, which bench/claims.py reads.
 */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What to do with each problem. */
struct options {
    const char *device, *shapes;
    ecornn_cell *own;
    bool table;
    bool quick[2]; /* ours, theirs; neither: slowly, both */
};

/* ---- ours ------------------------------------------------------------------------------------ */

/* Graphs are the library's own: ECORNN_GRAPH is read here. */
static ecornn_device *open_device(const char *name, const char *graph)
{
    ecornn_device *device = NULL;
    setenv("ECORNN_GRAPH", graph, 1);
    gpu_check_ours(ecornn_device_open(&device, name), name);
    return device;
}

static struct gpu_seconds time_ours(ecornn_device *device, struct gpu_case *one, double *plan,
                                    bool packs, cudaStream_t stream)
{
    struct gpu_ours ours = {.device = device, .packs = packs};
    gpu_ours_make(&ours, one->problem, &one->desc);
    const struct gpu_seconds seconds = gpu_time(&(struct gpu_work){gpu_ours_queue, &ours}, stream);
    *plan = ours.plan_seconds;
    one->sizes = ours.sizes;
    gpu_ours_free(&ours);
    return seconds;
}

/* On a device opened for it. */
static struct gpu_seconds time_alone(const char *name, struct gpu_case *one, const char *graph,
                                     double *plan, bool packs, cudaStream_t stream)
{
    ecornn_device *device = open_device(name, graph);
    const struct gpu_seconds seconds = time_ours(device, one, plan, packs, stream);
    ecornn_device_close(device);
    return seconds;
}

/* ---- one problem ----------------------------------------------------------------------------- */

static cudaStream_t make_stream(const char *device)
{
    cudaStream_t stream;
    gpu_check(cudaSetDevice(atoi(strchr(device, ':') ? strchr(device, ':') + 1 : "0")), device);
    gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
}

static void measure_times(const struct options *options, struct gpu_case *one, cudaStream_t stream)
{
    const char *device = options->device;
    double again;
    one->eager = time_alone(device, one, "0", &one->plan[0], false, stream);
    one->graph = time_alone(device, one, "1", &one->plan[1], false, stream);
    if (one->desc.flags & ECORNN_TRAINING)
        one->packed = time_alone(device, one, "1", &again, true, stream);
    one->theirs = cudnn_measure(&one->desc, one->cell, stream);
    (options->table ? gpu_print_row : gpu_print_case)(one);
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool ended_well(pid_t child)
{
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool measure_alone(const struct options *options, struct gpu_case *one)
{
    const pid_t child = fork();
    if (child == 0) {
        measure_times(options, one, make_stream(options->device));
        exit(0);
    }
    return ended_well(child);
}

enum { OURS, THEIRS, SIDES };

/* All problems of one side; each waits for a byte, and the other's turn begins with one. */
static void take_turns(const struct options *options, int side, struct gpu_case *cases, int n,
                       int wait, int pass)
{
    cudaStream_t stream = make_stream(options->device);
    ecornn_device *eager = side == OURS ? open_device(options->device, "0") : NULL;
    ecornn_device *graph = side == OURS ? open_device(options->device, "1") : NULL;
    char byte = 0;
    gpu_be_quick();
    for (int k = 0; k < n && read(wait, &byte, 1) == 1; k++) {
        struct gpu_case *one = &cases[k];
        if (side == OURS) {
            one->eager = time_ours(eager, one, &one->plan[0], false, stream);
            one->graph = time_ours(graph, one, &one->plan[1], false, stream);
        } else {
            one->theirs = cudnn_measure(&one->desc, one->cell, stream);
        }
        if (side == THEIRS || !options->quick[THEIRS])
            (options->table ? gpu_print_row : gpu_print_case)(one);
        /* After the last problem the other process may have ended: writing would raise SIGPIPE. */
        const bool last = k + 1 == n && (side == THEIRS || !options->quick[THEIRS]);
        if (!last && write(pass, &byte, 1) != 1)
            break;
    }
    ecornn_device_close(eager);
    ecornn_device_close(graph);
}

/* A process for each side; one alone passes its turns to itself. */
static bool measure_quickly(const struct options *options, struct gpu_case *cases, int n)
{
    const int first = options->quick[OURS] ? OURS : THEIRS,
              last = options->quick[THEIRS] ? THEIRS : OURS;
    int turn[SIDES][2]; /* [side][to be read, to be written]: a byte there is its turn */
    pid_t child[SIDES];
    bool good = true;
    for (int side = 0; side < SIDES; side++)
        if (pipe(turn[side]) != 0)
            return false;
    for (int side = first; side <= last; side++) {
        const int next = side == last ? first : last;
        child[side] = fork();
        if (child[side] == 0) {
            for (int other = 0; other < SIDES; other++) {
                if (other != side)
                    close(turn[other][0]);
                if (other != next)
                    close(turn[other][1]);
            }
            take_turns(options, side, cases, n, turn[side][0], turn[next][1]);
            exit(0);
        }
    }
    good = write(turn[first][1], "", 1) == 1;
    for (int side = 0; side < SIDES; side++) {
        close(turn[side][0]);
        close(turn[side][1]);
    }
    for (int side = first; side <= last; side++)
        good = ended_well(child[side]) && good;
    return good;
}

/* ---- options --------------------------------------------------------------------------------- */

static ecornn_cell *read_cell(const char *path)
{
    static char text[1 << 14];
    ecornn_cell *cell = NULL;
    FILE *file = fopen(path, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    gpu_check_ours(ecornn_cell_parse(&cell, text), path);
    return cell;
}

/* False: there is no such option, or it cannot be that. */
static bool read_option(struct options *options, const char *name, const char *value)
{
    const bool both = strcmp(value, "both") == 0;
    if (strcmp(name, "--device") == 0)
        options->device = value;
    else if (strcmp(name, "--shapes") == 0)
        options->shapes = value;
    else if (strcmp(name, "--cell") == 0 && !options->own)
        options->own = read_cell(value);
    else if (strcmp(name, "--print") == 0 && strcmp(value, "csv") == 0)
        options->table = true;
    else if (strcmp(name, "--quick") == 0) {
        options->quick[OURS] = both || strcmp(value, "ours") == 0;
        options->quick[THEIRS] = both || strcmp(value, "cudnn") == 0;
        return options->quick[OURS] || options->quick[THEIRS];
    } else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.device = "cuda:0", .shapes = BENCH_SHAPES};
    int k = 1, n;
    bool good = true;
    while (k + 1 < argc && strncmp(argv[k], "--", 2) == 0 &&
           read_option(&options, argv[k], argv[k + 1]))
        k += 2;
    if (k >= argc || strncmp(argv[k], "--", 2) == 0) {
        fprintf(stderr, "usage: bench_gpu [--device cuda:K] [--cell FILE] [--shapes FILE] "
                        "[--quick ours|cudnn|both] [--print csv] PROBLEM|@LIST[/PARTS]...\n");
        return 2;
    }
    if (options.table)
        gpu_print_row_head();
    struct gpu_case *cases = gpu_cases(&n, options.shapes, argv + k, argc - k, options.own);
    if (options.quick[OURS] || options.quick[THEIRS])
        good = measure_quickly(&options, cases, n);
    else
        for (int i = 0; i < n; i++)
            good = measure_alone(&options, &cases[i]) && good;
    if (!options.table)
        gpu_print_means(cases, n);
    ecornn_cell_free(options.own);
    return good ? 0 : 1;
}
