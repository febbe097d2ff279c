/*
 * The launches of algorithm resident: all steps of an op, and all such ops of a level, in one
 * kernel.
 */
#include "gpu/resident.h"

_Static_assert((int)ECO_TOGETHER <= (int)ECO_RESIDENT_JOBS, "a launch takes all ops of a level");
_Static_assert((int)ECO_MOST_EXCHANGES == (int)ECO_RESIDENT_JOBS, "and prepares all of them");

enum {
    PATIENCE_S = 2,
    STATIC_BYTES = 1024, /* of shared memory that a kernel has anyway */
    CLUSTER_VERSION = 90 /* compute capability that clusters need, times ten */
};

/* ---- kernels --------------------------------------------------------------------------------- */

/* Of the cells with kernels, those without relu() keep their state in [-1, 1]. */
static bool is_bounded(const struct ecornn_cell *cell)
{
    const struct eco_program *program = &cell->lowered.forward[0];
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_RELU)
            return false;
    return true;
}

/* Where the state is bounded F16 has all of what ECORNN_FAST_MATH asks for, at half the bytes. */
static bool in_f16(const struct eco_problem *problem, bool backward)
{
    return problem->type == ECORNN_F32 && problem->fast && !backward && is_bounded(problem->cell);
}

/* A list of kernels, and what its products work on. */
struct kind {
    const struct eco_resident_kernel *kernels;
    int32_t operand; /* bytes */
    bool split;
};

static struct kind kind_of(const struct eco_problem *problem, bool backward)
{
    switch (problem->type) {
    case ECORNN_BF16:
        return (struct kind){backward ? eco_resident_backward_bf16 : eco_resident_forward_bf16, 2,
                             false};
    case ECORNN_F16:
        return (struct kind){backward ? eco_resident_backward_f16 : eco_resident_forward_f16, 2,
                             false};
    case ECORNN_F32:
        if (in_f16(problem, backward))
            return (struct kind){eco_resident_forward_f32, 2, false};
        if (backward && problem->fast)
            return (struct kind){eco_resident_backward_f32, 4, false};
        return (struct kind){
            backward ? eco_resident_backward_f32_full : eco_resident_forward_f32_full, 4, true};
    default:
        return (struct kind){NULL, 4, false};
    }
}

static const struct eco_resident_kernel *kernels_of(const struct eco_problem *problem,
                                                    bool backward)
{
    const struct eco_resident_kernel *kernel = kind_of(problem, backward).kernels;
    while (kernel != NULL && kernel->cell >= 0 && kernel->cell != problem->cell->builtin)
        kernel++;
    return kernel != NULL && kernel->cell >= 0 ? kernel : NULL;
}

bool eco_resident_has(const struct eco_problem *problem, bool backward)
{
    return kernels_of(problem, backward) != NULL;
}

/* Of cooperative launches, and in clusters where they are of more than one block. */
static cudaLaunchConfig_t config_of(cudaLaunchAttribute attributes[2], int blocks, int spread,
                                    size_t bytes, cudaStream_t stream)
{
    attributes[0] = (cudaLaunchAttribute){.id = cudaLaunchAttributeCooperative};
    attributes[0].val.cooperative = 1;
    attributes[1] = (cudaLaunchAttribute){.id = cudaLaunchAttributeClusterDimension};
    attributes[1].val.clusterDim.x = 1u << spread;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    return (cudaLaunchConfig_t){.gridDim = {(unsigned)blocks, 1, 1},
                                .blockDim = {ECO_RESIDENT_THREADS, 1, 1},
                                .dynamicSmemBytes = bytes,
                                .stream = stream,
                                .attrs = attributes,
                                .numAttrs = spread > 0 ? 2 : 1};
}

/* How many blocks run at once in clusters of each size: some multiprocessors are left over. */
static ecornn_status count_clusters(struct ecornn_device *device)
{
    device->caps.blocks[0] = device->caps.threads;
    for (int spread = 1; spread < ECO_RESIDENT_SPREADS; spread++) {
        device->caps.blocks[spread] = 0;
        if (device->caps.version < CLUSTER_VERSION)
            continue;
        cudaLaunchAttribute attributes[2];
        const cudaLaunchConfig_t config = config_of(attributes, 1 << spread, spread,
                                                    device->caps.block_bytes - STATIC_BYTES, NULL);
        int clusters = 0;
        const ecornn_status status = ECO_CUDA(cudaOccupancyMaxActiveClusters(
            &clusters, eco_resident_backward_bf16->by_shape[spread][4 - ECO_RESIDENT_SHIFT],
            &config));
        if (status != ECORNN_OK)
            return status;
        device->caps.blocks[spread] = clusters << spread;
    }
    return ECORNN_OK;
}

ecornn_status eco_resident_load(struct ecornn_device *device)
{
    static const struct eco_resident_kernel *const *const every[] = {
        &eco_resident_forward_bf16,     &eco_resident_backward_bf16,    &eco_resident_forward_f16,
        &eco_resident_backward_f16,     &eco_resident_forward_f32,      &eco_resident_backward_f32,
        &eco_resident_forward_f32_full, &eco_resident_backward_f32_full};
    struct cudaFuncAttributes code = {0};
    ecornn_status status = ECORNN_OK;
    if (device->caps.version >= ECO_RESIDENT_VERSION)
        status = ECO_CUDA(cudaFuncGetAttributes(&code, eco_resident_forward_bf16->by_shape[0][0]));
    /* What was compiled for older devices only runs here too, but has none of the instructions. */
    if (status != ECORNN_OK || code.ptxVersion < ECO_RESIDENT_VERSION) {
        device->caps.block_bytes = 0;
        return status;
    }
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        for (const struct eco_resident_kernel *kernel = *every[i]; kernel->cell >= 0; kernel++) {
            const void *const *const shapes = kernel->by_shape[0];
            for (int k = 0; k < ECO_RESIDENT_SPREADS * ECO_RESIDENT_SHIFTS; k++)
                if (status == ECORNN_OK && shapes[k] != NULL)
                    status = ECO_CUDA(
                        cudaFuncSetAttribute(shapes[k], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             (int)device->caps.block_bytes - STATIC_BYTES));
        }
    return status == ECORNN_OK ? count_clusters(device) : status;
}

/* As algo_resident.c wishes it. */
static int32_t column_of(const struct eco_problem *problem)
{
    return (int32_t)eco_wishes_row(&(struct eco_wishes){.aligned = true}, (size_t)problem->H);
}

struct eco_resident_need eco_resident_need(const struct eco_problem *problem,
                                           const struct eco_caps *caps, bool backward, int32_t rows,
                                           int32_t steps, int32_t jobs)
{
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const int32_t states = problem->cell->recipe.n_states;
    const struct kind kind = kind_of(problem, backward);
    struct eco_resident_need need = {.backward = backward,
                                     .hidden = problem->H,
                                     .rows = rows,
                                     .steps = steps,
                                     .jobs = jobs,
                                     .accs = lowered->n_accs,
                                     .states = states,
                                     .fields = lowered->n_saves + 2 * states + 1,
                                     .operand = kind.operand,
                                     .split = kind.split,
                                     .block_bytes = caps->block_bytes - STATIC_BYTES};
    memcpy(need.blocks, caps->blocks, sizeof need.blocks);
    for (int a = 0; a < lowered->n_accs; a++)
        need.recurrent += lowered->acc[a].recurrent[0] >= 0;
    need.width = backward ? need.recurrent * column_of(problem) : problem->H;
    return need;
}

/* A full run's, one job in a launch. */
void eco_resident_describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    for (int backward = 0; backward <= (int)plan->problem.training; backward++) {
        struct eco_resident_shape shape;
        const struct eco_resident_need need = eco_resident_need(
            &plan->problem, &plan->device->caps, backward, plan->problem.N, plan->problem.T, 1);
        const double us = eco_resident_shape(&need, &shape);
        if (us > 0 && eco_resident_has(&plan->problem, backward))
            eco_text_add(
                text,
                "resident %s: %d groups of %d blocks in clusters of %d, %d rows and %d units each, "
                "%zu KB shared, %.2f us a step by prediction\n",
                backward ? "backward" : "forward", shape.groups, shape.members, 1 << shape.spread,
                shape.group_rows, 1 << shape.unit_shift, shape.shared_bytes >> 10, us);
        else
            eco_text_add(text, "resident %s: as algorithm step\n",
                         backward ? "backward" : "forward");
    }
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* What the program of a step back reads: bits in the order of the kernel's fields. */
static uint32_t fields_of(const struct eco_gpu_run *run)
{
    const struct eco_program *program = &run->lowered->backward[0];
    const int saves = run->lowered->n_saves, states = run->problem->cell->recipe.n_states;
    uint32_t fields = UINT32_C(1) << (saves + 2 * states);
    for (int i = 0; i < program->n; i++) {
        const struct eco_node *code = &program->code[i];
        if (code->op == ECO_OP_SAVED)
            fields |= UINT32_C(1) << code->index;
        else if (code->op == ECO_OP_STATE)
            fields |= UINT32_C(1) << (saves + code->index);
        else if (code->op == ECO_OP_NEXT)
            fields |= UINT32_C(1) << (saves + states + code->index);
    }
    return fields;
}

static struct eco_resident_need need_of(const struct eco_gpu_run *run, const struct eco_op *ops,
                                        int n)
{
    int32_t steps = 0;
    for (int i = 0; i < n; i++)
        if (ops[i].t1 - ops[i].t0 > steps)
            steps = ops[i].t1 - ops[i].t0;
    return eco_resident_need(run->problem, &run->plan->device->caps, run->args->backward,
                             run->args->N, steps, n);
}

static struct eco_resident_call call_of(const struct eco_gpu_run *run, const struct eco_op *ops,
                                        int n)
{
    const struct eco_gpu *gpu = run->plan->device->own;
    const bool backward = run->args->backward;
    struct eco_resident_call call = {
        .rows = run->args->N,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .n_accs = backward ? run->lowered->n_accs + run->lowered->n_extra : run->lowered->n_accs,
        .n_states = run->problem->cell->recipe.n_states,
        .training = run->args->reserve != NULL,
        .fields = backward ? fields_of(run) : 0,
        .words = eco_resident_words(run),
        .seed = run->args->seed,
        .lengths = run->args->lengths,
        .failed = gpu->failed};
    const struct eco_resident_need need = need_of(run, ops, n);
    eco_resident_shape(&need, &call.shape);
    for (int i = 0; i < n; i++)
        call.job[i] = eco_resident_job(run, &ops[i], &call);
    for (int a = 0; a < run->lowered->n_accs && !backward; a++) {
        const int param = run->lowered->acc[a].vector;
        call.bias[a] =
            (int8_t)(param < 0 ? -1 : eco_vector_number(&run->problem->cell->recipe, param));
        call.inputs |= (uint32_t)(run->lowered->acc[a].input >= 0) << a;
    }
    call.width = need.width;
    call.row_groups = backward ? 1 : need.recurrent;
    call.patience = UINT64_C(1000000) * (uint64_t)(1000 * PATIENCE_S + need.steps);
    const struct eco_matrix *matrix =
        eco_layout_matrix(run->layout, ops->layer, ECO_PART_RECURRENT);
    call.recurrent_row = backward ? matrix->n * matrix->height : matrix->row;
    return call;
}

static cudaError_t launch(const void *kernel, const struct eco_resident_call *call, int jobs,
                          cudaStream_t stream)
{
    cudaLaunchAttribute attributes[2];
    const cudaLaunchConfig_t config =
        config_of(attributes, jobs * call->shape.groups * call->shape.members, call->shape.spread,
                  call->shape.shared_bytes, stream);
    void *arguments[] = {(void *)(uintptr_t)call};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

/* Is one launch of all of them as fast as two, one after the other? */
static bool fits(const struct eco_gpu_run *run, const struct eco_op *ops, int n)
{
    struct eco_resident_shape shape;
    const struct eco_resident_need all = need_of(run, ops, n),
                                   half = need_of(run, ops, (n + 1) / 2);
    const double together = eco_resident_shape(&all, &shape);
    return together > 0 && together <= 2 * eco_resident_shape(&half, &shape);
}

void eco_resident_run(struct eco_gpu_run *run, const struct eco_op *ops, int n)
{
    if (n > 1 && !fits(run, ops, n)) {
        eco_resident_run(run, ops, n / 2);
        eco_resident_run(run, ops + n / 2, n - n / 2);
        return;
    }
    for (int i = 0; i < n && run->args->backward; i++)
        eco_gpu_copy_history(run, &ops[i]);
    const struct eco_resident_call call = call_of(run, ops, n);
    const struct eco_resident_kernel *kernels = kernels_of(run->problem, run->args->backward);
    const void *kernel =
        kernels->by_shape[call.shape.spread][call.shape.unit_shift - ECO_RESIDENT_SHIFT];
    eco_resident_forget(run, &call, need_of(run, ops, n), n);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, launch(kernel, &call, n, run->stream), "a resident kernel");
}
