/*
 * Queues a whole tape. Lanes of the tape that are independent of each other use streams of their
 * own, which fork from the caller's stream and join it again. Knows levels, but no operation.
 *
 * Example: two directions of a layer. Stream 1 waits for the start of the run on stream 0 (mark 1);
 * then each stream takes the steps of one direction; at the end stream 0 waits for the event of
 * stream 1.
 */
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/ops/ops.h"
#include "gpu/run/run.h"

static const eco_gpu_op ops[ECO_OP_KINDS] = {
    [ECO_BEGIN] = eco_gpu_expand,     [ECO_GATHER] = eco_gpu_expand,
    [ECO_INPUT] = eco_gpu_expand,     [ECO_STEP] = eco_gpu_step,
    [ECO_KEEP] = eco_gpu_expand,      [ECO_END] = eco_gpu_expand,
    [ECO_D_BEGIN] = eco_gpu_expand,   [ECO_REPLAY] = eco_gpu_replay,
    [ECO_D_STEP] = eco_gpu_d_step,    [ECO_D_INPUT] = eco_gpu_expand,
    [ECO_D_SCATTER] = eco_gpu_expand, [ECO_D_WEIGHTS] = eco_gpu_expand,
    [ECO_D_END] = eco_gpu_expand,
};

/*
 * Which stream has waited for which mark. At the end of each level a stream with work records its
 * event, which is its next mark. Stream 0 is the caller's; its mark 1 is the start of the run.
 */
struct forks {
    struct eco_gpu_run *run;
    int streams;
    cudaStream_t stream[ECO_MAX_STREAMS];
    int64_t batched[ECO_OP_KINDS];              /* last level whose ops were queued together */
    int mark[ECO_MAX_STREAMS];                  /* how often its event was recorded */
    bool busy[ECO_MAX_STREAMS];                 /* has work since the last mark */
    int seen[ECO_MAX_STREAMS][ECO_MAX_STREAMS]; /* [waiting stream][stream]: mark */
};

static void mark(struct forks *forks, int s)
{
    eco_gpu_note_cuda(forks->run, cudaEventRecord(forks->run->set->event[s], forks->stream[s]),
                      "cudaEventRecord");
    forks->mark[s]++;
    forks->busy[s] = false;
}

static void mark_all(struct forks *forks)
{
    for (int s = 0; s < forks->streams && forks->streams > 1; s++)
        if (forks->busy[s])
            mark(forks, s);
}

/* Orders later work of the stream after the last mark of stream s. */
static void wait_for_mark(struct forks *forks, int waiting, int s)
{
    if (s == waiting || forks->seen[waiting][s] == forks->mark[s])
        return;
    eco_gpu_note_cuda(forks->run,
                      cudaStreamWaitEvent(forks->stream[waiting], forks->run->set->event[s], 0),
                      "cudaStreamWaitEvent");
    forks->seen[waiting][s] = forks->mark[s];
}

static void wait_for_marks(struct forks *forks, int waiting)
{
    for (int s = 0; s < forks->streams; s++)
        wait_for_mark(forks, waiting, s);
}

/* Concurrent lanes: the layers of a wavefront, or the directions of a layer. */
static int stream_of(const struct forks *forks, int layer, int d)
{
    const struct eco_gpu_run *run = forks->run;
    const int lane = run->layout->request.wavefront ? layer * run->problem->D + d : d;
    return lane % forks->streams;
}

/*
 * Without a wavefront every level waits for the previous one. In a wavefront, levels of different
 * layers overlap (a step may run with another layer's dx), so an op waits for the layers whose
 * results it needs.
 */
static void wait_for_op(struct forks *forks, const struct eco_tape *tape, const struct eco_op *op,
                        int s)
{
    const struct eco_gpu_run *run = forks->run;
    if (!tape->wavefront)
        wait_for_marks(forks, s);
    else if (eco_tape_is_behind(tape, op))
        wait_for_mark(forks, s,
                      stream_of(forks, op->layer + (run->args->backward ? 1 : -1), op->d));
}

static void begin(struct forks *forks, cudaStream_t caller)
{
    const struct eco_gpu_run *run = forks->run;
    const int lanes =
        run->layout->request.wavefront ? run->problem->L * run->problem->D : run->problem->D;
    /* steps that multiply their input, too, leave other streams nothing worth a fork */
    const bool one = !run->args->backward && eco_gpu_is_batched(run, ECO_INPUT);
    forks->streams = one ? 1 : lanes < ECO_MAX_STREAMS ? lanes : ECO_MAX_STREAMS;
    forks->run->launch.lanes = forks->streams;
    eco_launch_serialize(&forks->run->launch, ECO_SERIALIZED_RUN);
    forks->run->collects = false;
    forks->run->grouped.n = 0;
    forks->stream[0] = caller;
    for (int s = 1; s < forks->streams; s++)
        forks->stream[s] = run->set->stream[s];
    for (int kind = 0; kind < ECO_OP_KINDS; kind++)
        forks->batched[kind] = -1;
    if (forks->streams > 1)
        mark(forks, 0);
    for (int s = 1; s < forks->streams; s++)
        wait_for_mark(forks, s, 0);
}

static void queue(struct eco_gpu_run *run, const struct eco_op *op)
{
    struct eco_bound bound;
    eco_bind(&bound, run->layout, run->args, op);
    ops[op->kind](run, &bound);
}

/* Queues all ops of one kind in a level when the walk reaches the first of them. */
static void queue_level(struct forks *forks, const struct eco_walk *walk,
                        const struct eco_op *first)
{
    struct eco_gpu_run *run = forks->run;
    struct eco_walk ahead = *walk;
    struct eco_op level[ECO_MAX_STREAMS];
    struct eco_bound bound[ECO_MAX_STREAMS];
    const int most = forks->streams == 1 ? ECO_MAX_STREAMS : ECO_LEVEL_OPS;
    int n = 0;
    for (const struct eco_op *op = first; op != NULL && ahead.level == walk->level;
         op = eco_walk_next(&ahead)) {
        if (op->kind != first->kind)
            continue;
        level[n] = *op;
        eco_bind(&bound[n], run->layout, run->args, &level[n]);
        if (++n < most)
            continue;
        run->level_ops[op->kind](run, bound, n);
        n = 0;
    }
    if (n > 0)
        run->level_ops[first->kind](run, bound, n);
    forks->batched[first->kind] = walk->level;
}

/* Orders later work of all lanes after what stream s has done for them. */
static void hold_all(struct forks *forks, int s)
{
    if (forks->streams > 1)
        mark(forks, s);
    for (int other = 0; other < forks->streams; other++)
        wait_for_mark(forks, other, s);
}

ecornn_status eco_gpu_queue(struct eco_gpu_run *run, const struct eco_tape *tape,
                            cudaStream_t stream)
{
    struct forks forks = {.run = run};
    struct eco_walk walk;
    const struct eco_op *op;
    int64_t level = -1;
    begin(&forks, stream);
    eco_walk_begin(&walk, tape);
    while (run->status == ECORNN_OK && (op = eco_walk_next(&walk)) != NULL) {
        if (forks.batched[op->kind] == walk.level)
            continue;
        if (walk.level != level)
            mark_all(&forks);
        level = walk.level;
        const int s = stream_of(&forks, op->layer, op->d);
        const bool batched = eco_gpu_is_batched(run, (enum eco_op_kind)op->kind);
        run->wide_before = batched ? run->wide_before : 0;
        if (batched)
            wait_for_marks(&forks, s);
        else
            wait_for_op(&forks, tape, op, s);
        eco_gpu_grouped_begin(run, (enum eco_op_kind)op->kind);
        eco_gpu_point_at_stream(run, op, forks.stream[s]);
        if (batched)
            queue_level(&forks, &walk, op);
        else
            queue(run, op);
        eco_gpu_grouped_end(run);
        forks.busy[s] = true;
        if (batched)
            hold_all(&forks, s);
    }
    eco_gpu_grouped_begin(run, ECO_D_END);
    /* join even after a failure, because an open fork would spoil the caller's capture */
    const ecornn_status status = run->status;
    run->status = ECORNN_OK;
    run->stream = stream;
    eco_gpu_join(run);
    mark_all(&forks);
    wait_for_marks(&forks, 0);
    return status != ECORNN_OK ? status : run->status;
}
