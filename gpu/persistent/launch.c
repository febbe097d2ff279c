/*
 * The launches of algorithm persistent: one kernel runs all steps of the ops of a level.
 */
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"

_Static_assert((int)ECO_LEVEL_OPS <= (int)ECO_PERSISTENT_JOBS, "a launch takes all ops of a level");
_Static_assert((int)ECO_MOST_EXCHANGES == (int)ECO_PERSISTENT_JOBS, "and prepares all of them");

/* The arrays that the cell's backward programs read, as bits of the kernel's fields. */
static uint32_t fields_of(const struct eco_gpu_run *run)
{
    const int saves = run->lowered->n_saves, states = run->problem->cell->recipe.n_states;
    uint32_t fields = UINT32_C(1) << (saves + 2 * states);
    for (int k = 0; k < run->lowered->n_backward; k++)
        for (int i = 0; i < run->lowered->backward[k].n; i++) {
            const struct eco_node *code = &run->lowered->backward[k].code[i];
            if (code->op == ECO_OP_SAVED)
                fields |= UINT32_C(1) << code->index;
            else if (code->op == ECO_OP_STATE)
                fields |= UINT32_C(1) << (saves + code->index);
            else if (code->op == ECO_OP_NEXT)
                fields |= UINT32_C(1) << (saves + states + code->index);
        }
    return fields;
}

const struct eco_persistent_choice *
eco_persistent_chosen(const struct eco_persistent_kernels *kernels, int32_t jobs, int32_t rows)
{
    const struct eco_persistent_choices *choices = &kernels->choices[jobs - 1];
    for (int i = 0; i < choices->n; i++)
        if (rows <= choices->of[i].rows)
            return choices->of[i].place >= 0 ? &choices->of[i] : NULL;
    return NULL;
}

/* Ops of one level and rows of the batch that a launch may take together. */
struct part {
    const struct eco_bound *bounds;
    int n;
    int32_t first, rows;
};

static int32_t most_steps(const struct eco_bound *bounds, int n)
{
    int32_t steps = 0;
    for (int i = 0; i < n; i++)
        if (bounds[i].op->t1 - bounds[i].op->t0 > steps)
            steps = bounds[i].op->t1 - bounds[i].op->t0;
    return steps;
}

static struct eco_persistent_need need_of(const struct eco_gpu_run *run, const struct part *part)
{
    const struct eco_gpu_plan *own = run->plan->context;
    struct eco_persistent_need need = own->persistent[run->args->backward].need;
    need.rows = part->rows;
    need.steps = most_steps(part->bounds, part->n);
    need.jobs = part->n;
    return need;
}

static struct eco_persistent_call call_of(const struct eco_gpu_run *run, const struct part *part,
                                          const struct eco_persistent_need *need,
                                          const struct eco_persistent_shape *shape)
{
    const int n = part->n;
    const struct eco_gpu *gpu = run->plan->device->context;
    const bool backward = run->args->backward;
    struct eco_persistent_call call = {
        .shape = *shape,
        .rows = part->rows,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .n_accs = backward ? run->lowered->n_accs + run->lowered->n_extra : run->lowered->n_accs,
        .n_states = run->problem->cell->recipe.n_states,
        .training = run->args->reserve != NULL,
        .fields = backward ? fields_of(run) : 0,
        .words = eco_persistent_words(run),
        .seed = run->args->seed,
        .draw_step = run->args->first_step,
        .draw_row = run->args->first_row + (uint32_t)part->first,
        .keeps = eco_layout_copies_states(run->layout),
        .lengths = run->args->lengths == NULL ? NULL : run->args->lengths + part->first,
        .failed = gpu->failed};
    for (int i = 0; i < n; i++) {
        call.job[i] = eco_persistent_job(run, &part->bounds[i], part->first, &call);
        call.resets.of[i] = eco_persistent_starts(run, &part->bounds[i]);
        if (run->args->resets != NULL)
            call.resets.of[i].words =
                (const uint32_t *)((const char *)call.job[i].exchange + shape->exchange_bytes -
                                   eco_persistent_reset_bytes(need, shape));
    }
    call.beyond_l2 =
        (double)n * need->steps * call.rows * call.acc_row * sizeof(float) > ECO_L2_BYTES;
    call.inputs = backward ? 0 : run->lowered->copies;
    for (int a = 0; a < run->lowered->n_accs && !backward; a++) {
        call.bias[a] = (int8_t)eco_gpu_bias(run, a);
        call.inputs |= (uint32_t)(run->lowered->acc[a].input >= 0) << a;
    }
    for (int o = 0; o < need->products; o++) {
        const struct eco_matrix *matrix =
            eco_layout_matrix(run->layout, part->bounds->op->layer, ECO_WEIGHT_RECURRENT + o);
        call.width[o] = need->width[o];
        call.recurrent_row[o] = backward ? matrix->n * matrix->height : matrix->row;
    }
    call.spin_timeout = UINT64_C(1000000) * (uint64_t)(1000 * gpu->spin_timeout_s + need->steps);
    return call;
}

cudaLaunchConfig_t eco_persistent_config(cudaLaunchAttribute attributes[3],
                                         const struct eco_persistent_launch *launch)
{
    unsigned n = 0;
    if (!launch->cluster_launch) {
        attributes[n] = (cudaLaunchAttribute){.id = cudaLaunchAttributeCooperative};
        attributes[n++].val.cooperative = 1;
    }
    if (launch->cluster > 1) {
        attributes[n] = (cudaLaunchAttribute){.id = cudaLaunchAttributeClusterDimension};
        attributes[n].val.clusterDim.x = (unsigned)launch->cluster;
        attributes[n].val.clusterDim.y = attributes[n].val.clusterDim.z = 1;
        n++;
    }
    if (launch->overlap) {
        attributes[n] =
            (cudaLaunchAttribute){.id = cudaLaunchAttributeProgrammaticStreamSerialization};
        attributes[n++].val.programmaticStreamSerializationAllowed = 1;
    }
    return (cudaLaunchConfig_t){.gridDim = {(unsigned)launch->blocks, 1, 1},
                                .blockDim = {ECO_PERSISTENT_THREADS, 1, 1},
                                .dynamicSmemBytes = launch->bytes,
                                .stream = launch->stream,
                                .attrs = attributes,
                                .numAttrs = n};
}

/* The kernel may become resident while its predecessor still marks the exchange. Only blocks of a
 * group wait for each other, so where other runs share the device, a group is launched as a
 * cluster. */
static cudaError_t launch(const struct eco_gpu_run *run, const void *kernel,
                          const struct eco_persistent_call *call, int jobs)
{
    cudaLaunchAttribute attributes[3];
    const bool cluster_launch = run->plan->device->caps.gpu.cluster_launch > 0;
    const struct eco_persistent_launch launch = {
        .blocks = jobs * call->shape.groups * call->shape.members,
        .cluster = cluster_launch ? call->shape.members : 1 << call->shape.cluster_log2,
        .cluster_launch = cluster_launch,
        .overlap = ((const struct eco_gpu *)run->plan->device->context)->overlap,
        .bytes = call->shape.shared_bytes,
        .stream = run->stream};
    const cudaLaunchConfig_t config = eco_persistent_config(attributes, &launch);
    void *arguments[] = {(void *)(uintptr_t)call};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

/* All jobs of a launch have the same distance between rows of y. The caller's batch-major rows
 * differ from those of a layer below. */
static bool shares_rows(const struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    size_t row = 0;
    bool shared = true;
    for (int i = 0; i < n; i++) {
        const struct eco_view *y = run->args->backward ? &bounds[i].dy : &bounds[i].y;
        shared &= y->first == NULL || row == 0 || y->row == row;
        row = y->first != NULL ? y->row : row;
    }
    return shared;
}

/* Does one of the ops follow products that wrote to the exchange's memory? Forward those of its
 * input, backward those of another chunk or a replay. */
static bool follows_products(const struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    bool follows = !run->args->backward || eco_layout_replays(run->layout);
    for (int i = 0; i < n; i++) {
        const struct eco_op *op = bounds[i].op;
        follows |= op->reversed ? op->t0 > 0 : op->t1 < run->args->T;
    }
    return follows && eco_layout_shares_exchange(run->layout, run->args->backward);
}

/* Was a kernel compiled for the k blocks of this division? With several tiles of rows direct
 * kernels take all that they hold. */
static bool fits(const struct eco_persistent_usual *usual, const struct eco_persistent_need *need,
                 const struct eco_persistent_shape *shape)
{
    bool same = true;
    for (int o = 0; o < need->products; o++)
        same &= usual->k_blocks[o] == 0 || usual->k_blocks[o] == shape->product[o].k_blocks;
    return same ||
           (eco_persistent_is_direct(shape->mainloop) && eco_persistent_row_tiles(shape) > 1);
}

/* Queues as few launches for the part's ops as the plan has chosen. */
static void run_part(struct eco_gpu_run *run, const struct part *part)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const struct eco_persistent_kernels *kernels = &own->persistent[run->args->backward];
    const struct eco_persistent_choice *chosen =
        eco_persistent_chosen(kernels, part->n, part->rows);
    if (part->n > 1 &&
        !(chosen != NULL && chosen->batched && shares_rows(run, part->bounds, part->n))) {
        struct part half = *part;
        half.n = part->n / 2;
        run_part(run, &half);
        half.bounds += half.n;
        half.n = part->n - half.n;
        run_part(run, &half);
        return;
    }
    struct eco_persistent_need need = need_of(run, part);
    struct eco_persistent_shape shape;
    if (chosen == NULL || !eco_persistent_divide(&need, chosen->place, &shape) ||
        !fits(&kernels->usual[chosen->place], &need, &shape)) {
        /* the plan compiled a kernel for every number of rows */
        run->status = eco_gpu_services->fail(
            ECORNN_FAILED, "internal error: no compiled kernel for %d batch rows; please report",
            part->rows);
        return;
    }
    const struct eco_persistent_call call = call_of(run, part, &need, &shape);
    eco_persistent_forget(run, &call, &need);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, launch(run, kernels->by_shape[chosen->place], &call, part->n),
                          "a persistent kernel");
    eco_launch_serialize(&run->launch, ECO_SERIALIZED_EXCHANGE);
}

/* Queues up to ECO_PERSISTENT_JOBS ops of one level, all ECO_STEP or all ECO_D_STEP. */
static void run_ops(struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const int32_t rows = run->args->N, most = own->persistent[run->args->backward].need.rows;
    if (follows_products(run, bounds, n))
        eco_launch_serialize(&run->launch, ECO_SERIALIZED_EXCHANGE);
    for (int i = 0; i < n && run->args->backward; i++) {
        eco_gpu_copy_history(run, &bounds[i]);
        if (run->args->dweights != NULL)
            eco_gpu_patch_states(run, &bounds[i], bounds[i].op->t0, bounds[i].op->t1);
    }
    for (int32_t first = 0; first < rows; first += most) {
        const int32_t left = rows - first;
        run_part(run, &(struct part){bounds, n, first, left < most ? left : most});
    }
}

/* ---- the run of a plan ----------------------------------------------------------------------- */

ecornn_status eco_gpu_run_persistent(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                     const struct eco_layout *layout, const struct eco_args *args)
{
    /* [forward has kernels][backward has kernels] */
    static const eco_gpu_ops ops[2][2][ECO_OP_KINDS] = {
        {{0}, {[ECO_D_STEP] = run_ops}},
        {{[ECO_STEP] = run_ops}, {[ECO_STEP] = run_ops, [ECO_D_STEP] = run_ops}}};
    const struct eco_gpu_plan *own = plan->context;
    const ecornn_status status = eco_gpu_check_waits(plan->device->context);
    if (status != ECORNN_OK)
        return status;
    return eco_gpu_run_plan(plan, tape, layout, args,
                            ops[own->persistent[0].used][own->persistent[1].used]);
}
