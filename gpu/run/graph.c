/*
 * CUDA graphs of repeated runs. The first run with some arguments is queued kernel by kernel, the
 * second is captured, and later ones launch the graph. A run of the same sizes with other pointers
 * updates a graph that is no longer used. A run inside the caller's own capture becomes one node of
 * the caller's graph.
 */
#include "gpu/ops/ops.h"
#include "gpu/run/run.h"

#include <string.h>

enum { ENTRIES = 4 }; /* forward and backward, each with two sets of buffers */

/* A run that was seen before. One thread uses an entry at a time; others queue kernel by kernel. */
struct entry {
    _Atomic bool taken;
    bool used, captured; /* exec is up to date with args */
    bool refused;        /* could not be captured: runs are queued kernel by kernel */
    struct eco_args args;
    struct eco_gpu_given given; /* with args.params */
    cudaGraphExec_t exec;       /* NULL: none yet */
    struct eco_args made;       /* the arguments of exec */
    struct eco_gpu_given made_given;
};

struct eco_graphs {
    bool seed_matters;     /* some numbers are drawn */
    _Atomic unsigned next; /* next entry to replace */
    struct entry entry[ENTRIES];
};

ecornn_status eco_gpu_make_graphs(const struct ecornn_plan *plan, struct eco_graphs **made)
{
    struct eco_graphs *graphs = eco_alloc_zeroed(sizeof *graphs);
    if (graphs == NULL)
        return eco_gpu_services->fail(ECORNN_NO_MEMORY, "no memory for graphs of %zu bytes",
                                      sizeof *graphs);
    graphs->seed_matters = eco_problem_draws(&plan->problem);
    *made = graphs;
    return ECORNN_OK;
}

void eco_gpu_free_graphs(struct eco_graphs *graphs)
{
    for (int i = 0; graphs != NULL && i < ENTRIES; i++)
        if (graphs->entry[i].exec != NULL)
            cudaGraphExecDestroy(graphs->entry[i].exec);
    eco_free(graphs);
}

/* ---- capture --------------------------------------------------------------------------------- */

/* Captures the run on a spare stream. Nothing runs, and no memory of the caller is accessed. */
static ecornn_status capture(const struct eco_gpu_queue *queue, cudaGraph_t *graph)
{
    const cudaStream_t stream = queue->spare;
    *graph = NULL;
    ecornn_status status = ECO_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    if (status != ECORNN_OK)
        return status;
    status = queue->queue(queue->own, stream);
    const ecornn_status ended =
        eco_cuda_status(cudaStreamEndCapture(stream, graph), "cudaStreamEndCapture");
    if (status == ECORNN_OK)
        status = ended;
    if (status != ECORNN_OK && *graph != NULL)
        cudaGraphDestroy(*graph);
    return status;
}

/* Adds a node to the graph that the caller is capturing, after all others. */
static ecornn_status add_to_capture(cudaStream_t stream, cudaGraph_t graph)
{
    enum cudaStreamCaptureStatus capturing;
    cudaGraph_t callers;
    const cudaGraphNode_t *after;
    cudaGraphNode_t node;
    size_t count;
    ecornn_status status = ECO_CUDA(eco_capture_info(stream, &capturing, &callers, &after, &count));
    if (status == ECORNN_OK)
        status = ECO_CUDA(cudaGraphAddChildGraphNode(&node, callers, after, count, graph));
    if (status == ECORNN_OK)
        status = ECO_CUDA(eco_capture_continue(stream, &node));
    return status;
}

static ecornn_status run_captured(const struct eco_gpu_queue *queue)
{
    cudaGraph_t graph;
    ecornn_status status = capture(queue, &graph);
    if (status != ECORNN_OK)
        return status;
    status = add_to_capture(queue->args->stream, graph);
    cudaGraphDestroy(graph); /* the node has a copy */
    return status;
}

/* ---- repeated runs --------------------------------------------------------------------------- */

static bool same_draws(const struct eco_args *a, const struct eco_args *b)
{
    return a->seed == b->seed && a->first_step == b->first_step && a->first_row == b->first_row;
}

static bool same_args(const struct eco_graphs *graphs, const struct eco_args *a,
                      const struct eco_args *b)
{
    return a->T == b->T && a->N == b->N && a->lengths == b->lengths && a->resets == b->resets &&
           a->mask == b->mask && a->x == b->x && a->y == b->y && a->weights == b->weights &&
           a->workspace == b->workspace && a->reserve == b->reserve &&
           (same_draws(a, b) || !graphs->seed_matters) && a->backward == b->backward &&
           a->dy == b->dy && a->dx == b->dx && a->dweights == b->dweights &&
           a->accumulate == b->accumulate &&
           memcmp(a->initial, b->initial, sizeof a->initial) == 0 &&
           memcmp(a->final, b->final, sizeof a->final) == 0 &&
           memcmp(a->dfinal, b->dfinal, sizeof a->dfinal) == 0 &&
           memcmp(a->dinitial, b->dinitial, sizeof a->dinitial) == 0 &&
           memcmp(a->reset_state, b->reset_state, sizeof a->reset_state) == 0 &&
           memcmp(a->dreset_state, b->dreset_state, sizeof a->dreset_state) == 0 &&
           memcmp(a->states, b->states, sizeof a->states) == 0 &&
           memcmp(a->dstates, b->dstates, sizeof a->dstates) == 0;
}

static bool same_moves(const struct eco_gpu_given *a, const struct eco_gpu_given *b)
{
    bool same = a->count == b->count;
    for (int k = 0; same && k < a->count; k++)
        same = a->move[k].from.data == b->move[k].from.data &&
               a->move[k].to.data == b->move[k].to.data && a->move[k].added == b->move[k].added &&
               a->move[k].rows == b->move[k].rows && a->move[k].width == b->move[k].width;
    return same;
}

/* Are the parameters the same, or none? */
static bool same_given(const struct entry *entry, const struct eco_gpu_queue *queue)
{
    if (queue->given == NULL || entry->args.matrices == NULL)
        return queue->given == NULL && entry->args.matrices == NULL;
    return memcmp(entry->given.matrix, queue->given->matrix, sizeof entry->given.matrix) == 0 &&
           same_moves(&entry->given, queue->given);
}

static bool take(struct entry *entry)
{
    return !atomic_exchange_explicit(&entry->taken, true, memory_order_acquire);
}

static void give_back(struct entry *entry)
{
    atomic_store_explicit(&entry->taken, false, memory_order_release);
}

/* Takes the entry of these arguments; NULL if there is none or another thread has it. */
static struct entry *find(const struct eco_gpu_queue *queue)
{
    struct eco_graphs *graphs = queue->graphs;
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &graphs->entry[i];
        if (!take(entry))
            continue;
        if (entry->used && same_args(graphs, &entry->args, queue->args) && same_given(entry, queue))
            return entry;
        give_back(entry);
    }
    return NULL;
}

/* For the next time. */
static void remember(const struct eco_gpu_queue *queue)
{
    struct eco_graphs *graphs = queue->graphs;
    struct entry *entry = &graphs->entry[atomic_fetch_add(&graphs->next, 1) % ENTRIES];
    if (!take(entry))
        return;
    entry->args = *queue->args;
    if (queue->given != NULL)
        entry->given = *queue->given;
    entry->used = true;
    entry->captured = entry->refused = false;
    give_back(entry);
}

/* The choice of kernels depends on sizes and on the alignment of addresses. */
static bool is_like(const void *a, const void *b)
{
    enum { MULTIPLE = 256 };
    return (a == NULL) == (b == NULL) && ((uintptr_t)a - (uintptr_t)b) % MULTIPLE == 0;
}

/* Do two runs use the same kernels? */
static bool are_alike(const struct eco_args *a, const struct eco_args *b)
{
    bool alike = a->T == b->T && a->N == b->N && a->backward == b->backward &&
                 a->accumulate == b->accumulate && is_like(a->lengths, b->lengths) &&
                 is_like(a->x, b->x) && is_like(a->y, b->y) && is_like(a->weights, b->weights) &&
                 is_like(a->workspace, b->workspace) && is_like(a->reserve, b->reserve) &&
                 is_like(a->dy, b->dy) && is_like(a->dx, b->dx) &&
                 is_like(a->dweights, b->dweights) && is_like(a->resets, b->resets) &&
                 is_like(a->mask, b->mask);
    for (int s = 0; s < ECO_MAX_STATES; s++)
        alike = alike && is_like(a->initial[s], b->initial[s]) &&
                is_like(a->final[s], b->final[s]) && is_like(a->dfinal[s], b->dfinal[s]) &&
                is_like(a->dinitial[s], b->dinitial[s]) &&
                is_like(a->reset_state[s], b->reset_state[s]) &&
                is_like(a->dreset_state[s], b->dreset_state[s]) &&
                is_like(a->states[s], b->states[s]) && is_like(a->dstates[s], b->dstates[s]);
    return alike;
}

/* Does the entry's graph have the same moves and matrices as the run, but for addresses? */
static bool given_are_alike(const struct entry *entry)
{
    const struct eco_gpu_given *a = &entry->made_given, *b = &entry->given;
    if (entry->made.matrices == NULL || entry->args.matrices == NULL)
        return entry->made.matrices == NULL && entry->args.matrices == NULL;
    bool alike = a->count == b->count;
    for (size_t k = 0; alike && k < sizeof a->matrix / sizeof *a->matrix; k++)
        alike = is_like(a->matrix[k], b->matrix[k]);
    return alike;
}

/* Gives the entry's graph the pointers and numbers of another graph with the same kernels, or
 * returns false. Running launches are not affected. The kernels must be the same:
 * cudaGraphExecUpdate would accept others, but cuBLAS products for compute capability 9.0 then fail
 * with an illegal instruction. */
static bool update(struct entry *entry, cudaGraph_t graph)
{
    cudaGraphExecUpdateResultInfo result;
    if (entry->exec == NULL)
        return false;
    if (are_alike(&entry->made, &entry->args) && given_are_alike(entry) &&
        cudaGraphExecUpdate(entry->exec, graph, &result) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    cudaGraphExecDestroy(entry->exec);
    entry->exec = NULL;
    return false;
}

static ecornn_status make(const struct eco_gpu_queue *queue, struct entry *entry)
{
    cudaGraph_t graph;
    ecornn_status status = capture(queue, &graph);
    if (status != ECORNN_OK)
        return status;
    if (!update(entry, graph))
        status = ECO_CUDA(cudaGraphInstantiate(&entry->exec, graph, 0));
    entry->made = entry->args;
    entry->made_given = entry->given;
    cudaGraphDestroy(graph);
    return status;
}

/* A graph needs memory, of the device too; without it runs are queued as before. */
static ecornn_status launch(const struct eco_gpu_queue *queue, struct entry *entry)
{
    if (!entry->captured && !entry->refused) {
        entry->captured = make(queue, entry) == ECORNN_OK;
        entry->refused = !entry->captured;
    }
    if (entry->captured)
        return ECO_CUDA(cudaGraphLaunch(entry->exec, queue->args->stream));
    (void)cudaGetLastError();
    return queue->queue(queue->own, queue->args->stream);
}

ecornn_status eco_gpu_run_queue(const struct eco_gpu_queue *queue)
{
    const cudaStream_t stream = queue->args->stream;
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    if (stream != NULL) { /* the default stream is never captured */
        const ecornn_status status = ECO_CUDA(cudaStreamIsCapturing(stream, &capturing));
        if (status != ECORNN_OK)
            return status;
    }
    if (capturing != cudaStreamCaptureStatusNone)
        return run_captured(queue);
    struct entry *entry = queue->keeps ? find(queue) : NULL;
    if (entry != NULL) {
        const ecornn_status status = launch(queue, entry);
        give_back(entry);
        return status;
    }
    if (queue->keeps)
        remember(queue);
    return queue->queue(queue->own, stream);
}

/* ---- tapes ----------------------------------------------------------------------------------- */

struct tape_of_run {
    struct eco_gpu_run *run;
    const struct eco_tape *tape;
};

static ecornn_status queue_tape(void *own, cudaStream_t stream)
{
    const struct tape_of_run *of = own;
    of->run->status = ECORNN_OK;
    of->run->blas.share = -1;
    const ecornn_status status =
        of->run->given ? eco_gpu_queue_params(of->run->plan, of->run->given, stream) : ECORNN_OK;
    return status == ECORNN_OK ? eco_gpu_queue(of->run, of->tape, stream) : status;
}

bool eco_gpu_keeps_graph(const struct ecornn_plan *plan, double steps)
{
    enum { MOST_STEPS = 1 << 17 };
    return ((const struct eco_gpu *)plan->device->context)->graphs && steps <= MOST_STEPS;
}

ecornn_status eco_gpu_run_tape(struct eco_gpu_run *run, const struct eco_tape *tape)
{
    const struct eco_problem *problem = run->problem;
    const struct eco_gpu_plan *own = run->plan->context;
    const bool at_once = !own->fused.used && /* fused steps are one node each */
                         eco_gpu_is_batched(run, run->args->backward ? ECO_D_STEP : ECO_STEP);
    struct tape_of_run of = {run, tape};
    const struct eco_gpu_queue queue = {
        .queue = queue_tape,
        .own = &of,
        .args = run->args,
        .given = run->given,
        .graphs = own->graphs,
        .spare = run->set->stream[0],
        .keeps = eco_gpu_keeps_graph(run->plan,
                                     at_once ? 0 : (double)run->args->T * problem->L * problem->D)};
    return eco_gpu_run_queue(&queue);
}
