/*
 * CUDA graphs of repeated runs. The first run of its kind is queued kernel by kernel, the second is
 * captured, and later ones launch the graph, which first gets their addresses. A run inside the
 * caller's own capture becomes one node of the caller's graph.
 */
#include "gpu/run/patch.h"
#include "gpu/run/run.h"

enum { ENTRIES = 24 }; /* forward and backward of twelve sizes */

/* A run that was seen before. One thread uses an entry at a time; others queue kernel by kernel. */
struct entry {
    _Atomic bool taken;
    _Atomic uint64_t used;       /* when last; 0: never */
    bool refused;                /* could not be captured: runs are queued kernel by kernel */
    struct eco_run_key key;      /* of the graph, or of the run that was seen */
    cudaGraph_t graph;           /* NULL: none, or keeps its words */
    cudaGraphExec_t exec;        /* NULL: none yet */
    struct eco_patches *patches; /* NULL: not known yet */
};

struct eco_graphs {
    bool draws;             /* some numbers are drawn */
    _Atomic bool fixed[2];  /* [forward, backward] graphs keep their addresses */
    _Atomic uint64_t clock; /* runs so far */
    struct entry entry[ENTRIES];
};

ecornn_status eco_gpu_make_graphs(const struct ecornn_plan *plan, struct eco_graphs **made)
{
    struct eco_graphs *graphs = eco_alloc_zeroed(sizeof *graphs);
    if (graphs == NULL)
        return eco_gpu_services->fail(ECORNN_NO_MEMORY, "no memory for graphs of %zu bytes",
                                      sizeof *graphs);
    graphs->draws = eco_problem_draws(&plan->problem);
    *made = graphs;
    return ECORNN_OK;
}

static void drop(struct entry *entry)
{
    if (entry->exec != NULL)
        cudaGraphExecDestroy(entry->exec);
    if (entry->graph != NULL)
        cudaGraphDestroy(entry->graph);
    eco_gpu_free_patches(entry->patches);
    entry->exec = NULL;
    entry->graph = NULL;
    entry->patches = NULL;
}

void eco_gpu_free_graphs(struct eco_graphs *graphs)
{
    for (int i = 0; graphs != NULL && i < ENTRIES; i++)
        drop(&graphs->entry[i]);
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
    if (status != ECORNN_OK && *graph != NULL) {
        cudaGraphDestroy(*graph);
        *graph = NULL;
    }
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

static bool take(struct entry *entry)
{
    return !atomic_exchange_explicit(&entry->taken, true, memory_order_acquire);
}

static void give_back(struct entry *entry)
{
    atomic_store_explicit(&entry->taken, false, memory_order_release);
}

/* Takes the entry of a run, or of one that is alike; NULL if there is none or another thread has
 * it. */
static struct entry *find(struct eco_graphs *graphs, const struct eco_run_key *key, bool alike)
{
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &graphs->entry[i];
        if (entry->used == 0 || !take(entry))
            continue;
        if (alike ? eco_gpu_alike_runs(&entry->key, key) : eco_gpu_same_run(&entry->key, key)) {
            entry->used = ++graphs->clock;
            return entry;
        }
        give_back(entry);
    }
    return NULL;
}

/* For the next time, in place of the run that was seen longest ago. */
static void remember(struct eco_graphs *graphs, const struct eco_run_key *key)
{
    struct entry *oldest = graphs->entry;
    for (int i = 1; i < ENTRIES; i++)
        if (graphs->entry[i].used < oldest->used)
            oldest = &graphs->entry[i];
    if (!take(oldest))
        return;
    drop(oldest);
    oldest->key = *key;
    oldest->refused = false;
    oldest->used = ++graphs->clock;
    give_back(oldest);
}

static ecornn_status make(const struct eco_gpu_queue *queue, struct entry *entry)
{
    ecornn_status status = capture(queue, &entry->graph);
    if (status == ECORNN_OK)
        status = ECO_CUDA(cudaGraphInstantiate(&entry->exec, entry->graph, 0));
    if (status != ECORNN_OK)
        drop(entry);
    if (status == ECORNN_OK && !queue->patches) {
        cudaGraphDestroy(entry->graph);
        entry->graph = NULL;
    }
    return status;
}

/* ---- other addresses ------------------------------------------------------------------------- */

/* Captures the run of the entry again with other words, for comparison. */
static void find_patches(const struct eco_gpu_queue *queue, const struct eco_run_words *words,
                         struct entry *entry)
{
    const struct eco_run_words *made = &entry->key.words;
    uint64_t shift[ECO_RUN_WORDS], add[ECO_RUN_WORDS];
    cudaGraph_t shifted;
    for (int i = 0; i < words->n; i++) {
        /* no shift is twice another */
        shift[i] =
            (uint64_t)ECO_WORD_ALIGNMENT * (uint64_t)(words->n + eco_gpu_first_equal(words, i) + 1);
        add[i] = made->value[i] + shift[i] - words->value[i];
    }
    eco_gpu_shift_words(words, add);
    const ecornn_status status = capture(queue, &shifted);
    eco_gpu_shift_words(words, NULL);
    if (status != ECORNN_OK)
        return;
    entry->patches = eco_gpu_find_patches(entry->graph, shifted, made, shift);
    cudaGraphDestroy(shifted);
}

/* Gives the entry's graph the words of this run. False: it has kept its own, or is dropped. */
static bool patch(const struct eco_gpu_queue *queue, const struct eco_run_key *key,
                  struct entry *entry)
{
    uint64_t add[ECO_RUN_WORDS];
    if (entry->patches == NULL)
        find_patches(queue, &key->words, entry);
    if (entry->patches == NULL) {
        queue->graphs->fixed[key->backward] = true;
        return false;
    }
    for (int i = 0; i < key->words.n; i++)
        add[i] = key->words.value[i] - entry->key.words.value[i];
    if (eco_gpu_set_words(entry->patches, entry->exec, add) != ECORNN_OK) {
        drop(entry);
        return false;
    }
    entry->key = *key;
    return true;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A graph needs memory, of the device too; without it runs are queued as before. */
static ecornn_status launch(const struct eco_gpu_queue *queue, const struct eco_run_key *key,
                            struct entry *entry)
{
    bool ready = !entry->refused;
    if (ready && entry->exec == NULL) {
        entry->key = *key;
        ready = make(queue, entry) == ECORNN_OK;
        entry->refused = !ready;
    } else if (ready && !eco_gpu_same_run(&entry->key, key)) {
        ready = patch(queue, key, entry);
    }
    if (ready)
        return ECO_CUDA(cudaGraphLaunch(entry->exec, queue->args->stream));
    (void)cudaGetLastError();
    return queue->queue(queue->own, queue->args->stream);
}

/* Can the device reach the parameters? Other arguments have been checked. */
static ecornn_status check(const struct eco_gpu_queue *queue)
{
    return queue->given != NULL ? eco_gpu_check_params(queue->gpu, queue->given) : ECORNN_OK;
}

static ecornn_status queue_or_launch(const struct eco_gpu_queue *queue)
{
    struct eco_graphs *graphs = queue->graphs;
    struct eco_run_key key;
    ecornn_status status = ECORNN_OK;
    eco_gpu_key(&key, queue->args, queue->given, graphs->draws);
    struct entry *entry = find(graphs, &key, false);
    if (entry == NULL) {
        status = check(queue);
        if (status == ECORNN_OK && queue->patches && !graphs->fixed[key.backward])
            entry = find(graphs, &key, true);
    }
    if (entry != NULL) {
        status = launch(queue, &key, entry);
        give_back(entry);
        return status;
    }
    if (status != ECORNN_OK)
        return status;
    remember(graphs, &key);
    return queue->queue(queue->own, queue->args->stream);
}

ecornn_status eco_gpu_run_queue(const struct eco_gpu_queue *queue)
{
    const cudaStream_t stream = queue->args->stream;
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    ecornn_status status = ECORNN_OK;
    if (stream != NULL) /* the default stream is never captured */
        status = ECO_CUDA(cudaStreamIsCapturing(stream, &capturing));
    const bool captured = capturing != cudaStreamCaptureStatusNone;
    if (status == ECORNN_OK && !captured && queue->keeps)
        return queue_or_launch(queue);
    if (status == ECORNN_OK)
        status = check(queue);
    if (status != ECORNN_OK)
        return status;
    return captured ? run_captured(queue) : queue->queue(queue->own, stream);
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

ecornn_status eco_gpu_run_tape(struct eco_gpu_run *run, const struct eco_tape *tape,
                               struct eco_args *args, struct eco_gpu_given *given)
{
    enum { MOST_PATCHED = 1 << 13 };
    const struct eco_problem *problem = run->problem;
    const struct eco_gpu_plan *own = run->plan->context;
    const bool at_once = !own->fused.used && /* fused steps are one node each */
                         eco_gpu_is_batched(run, run->args->backward ? ECO_D_STEP : ECO_STEP);
    const double steps = at_once ? 0 : (double)args->T * problem->L * problem->D;
    struct tape_of_run of = {run, tape};
    const struct eco_gpu_queue queue = {.queue = queue_tape,
                                        .own = &of,
                                        .args = args,
                                        .given = given,
                                        .gpu = run->plan->device->context,
                                        .graphs = own->graphs,
                                        .spare = run->set->stream[0],
                                        .keeps = eco_gpu_keeps_graph(run->plan, steps),
                                        .patches = steps <= MOST_PATCHED};
    return eco_gpu_run_queue(&queue);
}
