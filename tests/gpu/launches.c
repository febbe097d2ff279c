/*
 * Reads the names of kernels out of captured graphs, see launches.h.  The CUDA runtime knows only
 * the kernels of its own copy, which does not have the module's; the driver knows all kernels.
 */
#include "tests/gpu/launches.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUresult (*kernel_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
static CUresult (*function_name)(const char **, CUfunction);
static CUresult (*kernel_name)(const char **, CUkernel);

static bool note(cudaError_t error, const char *doing)
{
    if (error != cudaSuccess)
        fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(error));
    return error == cudaSuccess;
}

static bool find(const char *symbol, unsigned version, void *function)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion(symbol, &found, version, cudaEnableDefault, &result) !=
            cudaSuccess ||
        found == NULL) {
        fprintf(stderr, "the driver has no %s\n", symbol);
        return false;
    }
    memcpy(function, &found, sizeof found);
    return true;
}

static void add(struct launched *launched, const char *name)
{
    for (int i = 0; i < launched->n; i++)
        if (strcmp(launched->name[i], name) == 0)
            return;
    if (launched->n < MOST_LAUNCHED)
        snprintf(launched->name[launched->n++], LAUNCH_NAME, "%s", name);
}

static bool read_node(cudaGraphNode_t node, struct launched *launched)
{
    CUDA_KERNEL_NODE_PARAMS params;
    const char *name = NULL;
    if (kernel_params((CUgraphNode)node, &params) != CUDA_SUCCESS)
        return false;
    if (params.func != NULL ? function_name(&name, params.func) != CUDA_SUCCESS
                            : kernel_name(&name, params.kern) != CUDA_SUCCESS)
        return false;
    add(launched, name);
    return true;
}

static bool read_graph(cudaGraph_t graph, struct launched *launched)
{
    size_t n = 0;
    if (!note(cudaGraphGetNodes(graph, NULL, &n), "nodes"))
        return false;
    cudaGraphNode_t *nodes = calloc(n + 1, sizeof *nodes);
    bool ok = nodes != NULL && note(cudaGraphGetNodes(graph, nodes, &n), "nodes");
    for (size_t i = 0; ok && i < n; i++) {
        enum cudaGraphNodeType type;
        cudaGraph_t child;
        ok = note(cudaGraphNodeGetType(nodes[i], &type), "type of a node");
        if (ok && type == cudaGraphNodeTypeKernel && !read_node(nodes[i], launched)) {
            fprintf(stderr, "a kernel without a name\n");
            ok = false;
        }
        if (ok && type == cudaGraphNodeTypeGraph)
            ok = note(cudaGraphChildGraphNodeGetGraph(nodes[i], &child), "a graph in a graph") &&
                 read_graph(child, launched);
    }
    free(nodes);
    return ok;
}

static bool begin(struct watch *watch)
{
    return note(cudaStreamBeginCapture(watch->stream, cudaStreamCaptureModeRelaxed), "capture");
}

static bool end(struct watch *watch, bool backward)
{
    struct launches *launches = (struct launches *)watch;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    bool ok = note(cudaStreamEndCapture(watch->stream, &graph), "end of a capture") &&
              read_graph(graph, &launches->of[backward]) &&
              note(cudaGraphInstantiate(&run, graph, 0), "a graph") &&
              note(cudaGraphLaunch(run, watch->stream), "launch") &&
              note(cudaStreamSynchronize(watch->stream), "a run");
    if (run != NULL)
        cudaGraphExecDestroy(run);
    if (graph != NULL)
        cudaGraphDestroy(graph);
    return ok;
}

bool launches_open(struct launches *launches)
{
    cudaStream_t stream;
    *launches = (struct launches){.watch = {.begin = begin, .end = end}};
    if (!find("cuGraphKernelNodeGetParams", 12000, &kernel_params) ||
        !find("cuFuncGetName", 12030, &function_name) ||
        !find("cuKernelGetName", 12030, &kernel_name) ||
        !note(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"))
        return false;
    launches->watch.stream = stream;
    return true;
}

void launches_close(struct launches *launches)
{
    cudaStreamDestroy(launches->watch.stream);
}
