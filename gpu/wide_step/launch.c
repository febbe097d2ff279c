/*
 * The launch of a wide step, and the kernels that it uses.
 */
#include "gpu/device/tensor_map.h"
#include "gpu/wide_step/wide_step.h"

#include <string.h>

_Static_assert(sizeof(struct eco_wide_calls) <= ECO_ARGUMENT_BYTES, "our largest arguments");

/* ---- kernels --------------------------------------------------------------------------------- */

static const struct eco_wide_kernel *const *const lists[ECO_TYPES] = {
    [ECORNN_F32] = &eco_wide_f32_fast,
    [ECORNN_BF16] = &eco_wide_bf16,
    [ECORNN_F16] = &eco_wide_f16};

const struct eco_wide_kernel *eco_wide_kernels(const struct eco_problem *problem)
{
    const bool made = lists[problem->type] && (problem->type != ECORNN_F32 || problem->fast);
    const struct eco_wide_kernel *kernel = made ? *lists[problem->type] : NULL;
    for (; kernel != NULL && kernel->cell != ECO_WIDE_END; kernel++)
        if (kernel->cell == problem->cell->builtin)
            return kernel;
    return NULL;
}

static ecornn_status give_shared_memory(const struct eco_wide_kernel *kernel)
{
    ecornn_status status = ECORNN_OK;
    for (int n = 0; n < 2 * ECO_WIDE_SHAPES && status == ECORNN_OK; n++) {
        const int shape = n % ECO_WIDE_SHAPES;
        const void *step = kernel->step[n / ECO_WIDE_SHAPES][shape];
        if (step != NULL)
            status = ECO_CUDA(cudaFuncSetAttribute(
                step, cudaFuncAttributeMaxDynamicSharedMemorySize,
                (int)eco_wide_shared(shape, kernel->accs, eco_wide_shapes[shape].stages)));
    }
    return status;
}

ecornn_status eco_wide_load(struct eco_gpu *gpu, bool *usable)
{
    ecornn_status status = ECORNN_OK;
    gpu->tensor_encoder = eco_tensor_encoder_find();
    *usable = gpu->tensor_encoder != NULL;
    for (int type = 0; type < ECO_TYPES && *usable; type++)
        for (const struct eco_wide_kernel *kernel = lists[type] ? *lists[type] : NULL;
             kernel != NULL && kernel->cell != ECO_WIDE_END && status == ECORNN_OK; kernel++)
            status = give_shared_memory(kernel);
    return status;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Pairs of units are read as one, and chunks of 16 bytes written, with offsets of 32 bits. */
static bool is_aligned(const void *array, size_t row, size_t element, int32_t rows, size_t bytes)
{
    const size_t row_bytes = row * element;
    return array == NULL ||
           (((uintptr_t)array | row_bytes) % bytes == 0 && row <= UINT32_MAX / ((size_t)rows + 1));
}

static bool are_aligned(const struct eco_stage_call *stage, size_t element)
{
    enum { CHUNK = 16 };
    const int32_t rows = stage->rows;
    const size_t whole = (size_t)eco_wide_whole(stage->hidden); /* units are read and written */
    bool good = ((stage->wide_states | stage->wide_next) & 1) == 0 &&
                is_aligned(stage->y, stage->y_row, element, rows, CHUNK) &&
                is_aligned(stage->save, stage->save_row, element, rows, CHUNK) &&
                is_aligned(stage->acc, stage->acc_row, sizeof(float), rows, 2 * sizeof(float)) &&
                stage->column % 2 == 0;
    for (int s = 0; s < stage->n_states; s++) {
        const size_t before = stage->wide_states >> s & 1 ? sizeof(float) : element,
                     next = stage->wide_next >> s & 1 ? sizeof(float) : element;
        const bool fits = stage->state_row[s] >= whole && stage->next_row[s] >= whole;
        good = good && (fits || (s == 0 && stage->projected)) &&
               is_aligned(stage->state[s], stage->state_row[s], before, rows, 2 * before) &&
               is_aligned(stage->next[s], stage->next_row[s], next, rows, CHUNK) &&
               is_aligned(stage->kept[s], stage->kept_row[s], element, rows, CHUNK);
    }
    return good;
}

/* Sets up a source: the layer's matrix, and the accumulators that add it. */
static bool fill_source(const struct eco_gpu_run *run, const struct eco_op *op, int part,
                        const struct eco_wide_rows *given, int shape, struct eco_wide_source *to)
{
    static const double stays = 24e6; /* bytes */
    const struct eco_gpu *gpu = run->plan->device->context;
    const struct eco_lowered *lowered = run->lowered;
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const int32_t k =
        part == ECO_WEIGHT_INPUT ? eco_problem_input(run->problem, op->layer) : run->problem->P;
    for (int a = lowered->n_accs - 1; a >= 0; a--)
        if ((part == ECO_WEIGHT_INPUT ? lowered->acc[a].input : lowered->acc[a].recurrent[0]) >=
            0) {
            to->count++;
            to->first = a;
        }
    to->column = eco_gpu_column(run);
    to->early = given->early;
    to->kept =
        (double)to->count * to->column * k * (double)eco_type_bytes(run->layout->type) > stays
            ? ECO_WIDE_PERIOD * 5 / 8
            : ECO_WIDE_PERIOD;
    if (given->data == NULL)
        return true;
    const int32_t each = ECO_WIDE_LINE / (int32_t)eco_type_bytes(run->layout->type),
                  box_rows = eco_wide_rows(shape) / eco_wide_shapes[shape].cluster;
    to->k_blocks = (k + each - 1) / each;
    const struct eco_matrix_box rows = {run->layout->type, given->data, given->rows, k,
                                        given->row,        box_rows,    each},
                                columns = {run->layout->type,
                                           eco_gpu_weights(run, op, part),
                                           (int64_t)to->count * to->column,
                                           k,
                                           matrix->row,
                                           eco_wide_shapes[shape].units *
                                               ECO_WIDE_MORE(lowered->n_accs),
                                           each};
    return eco_tensor_map(gpu->tensor_encoder, &rows, &to->rows) &&
           eco_tensor_map(gpu->tensor_encoder, &columns, &to->matrix);
}

/* Stages of each block of a launch of n ops: a block that has a multiprocessor alone has more. */
static int stages_of(const struct eco_gpu_run *run, int shape, int32_t batch, int n)
{
    const struct eco_wide_shape *s = &eco_wide_shapes[shape];
    const int64_t units = eco_wide_units(shape, run->lowered->n_accs), rows = eco_wide_rows(shape),
                  blocks =
                      n * ((run->problem->H + units - 1) / units) * ((batch + rows - 1) / rows);
    return s->cluster > 1 && blocks > run->plan->device->caps.threads ? s->stages / 2 : s->stages;
}

static void launch(struct eco_gpu_run *run, const struct eco_wide_calls *calls, int n, int shape,
                   bool alone)
{
    const struct eco_wide_shape *s = &eco_wide_shapes[shape];
    const struct eco_stage_call *stage = &calls->of[0].stage;
    const int32_t accs = run->lowered->n_accs, units = eco_wide_units(shape, accs),
                  rows = eco_wide_rows(shape);
    const int threads = ECO_WIDE_GROUP * s->down * s->across + ECO_WIDE_MORE_THREADS(s->blocks);
    const unsigned cluster = (unsigned)eco_wide_shapes[shape].cluster,
                   across = (unsigned)((stage->hidden + units - 1) / units);
    const bool after = alone ? eco_launch_after(&run->launch) : eco_launch_after_all(&run->launch);
    cudaLaunchAttribute attributes[2];
    unsigned n_attributes = 0;
    if (after) {
        attributes[n_attributes].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[n_attributes++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        attributes[n_attributes].id = cudaLaunchAttributeClusterDimension;
        attributes[n_attributes].val.clusterDim.x = cluster;
        attributes[n_attributes].val.clusterDim.y = attributes[n_attributes].val.clusterDim.z = 1;
        n_attributes++;
    }
    const cudaLaunchConfig_t config = {
        .gridDim = {(across + cluster - 1) / cluster * cluster,
                    (unsigned)((stage->rows + rows - 1) / rows), (unsigned)n},
        .blockDim = {(unsigned)threads, 1, 1},
        .dynamicSmemBytes = eco_wide_shared(shape, accs, calls->of[0].stages),
        .stream = run->stream,
        .attrs = attributes,
        .numAttrs = n_attributes};
    const struct eco_gpu_plan *own = run->plan->context;
    const void *kernel = own->wide->step[stage->save != NULL][shape];
    void *arguments[] = {(void *)(uintptr_t)calls};
    eco_gpu_note_cuda(run, cudaLaunchKernelExC(&config, kernel, arguments), "a wide step");
}

static bool fill_call(const struct eco_gpu_run *run, const struct eco_wide_job *job, int shape,
                      struct eco_wide_call *call)
{
    if (!are_aligned(job->stage, eco_type_bytes(run->layout->type)))
        return false;
    call->stage = *job->stage;
    call->early = job->early;
    for (int a = 0; a < run->lowered->n_accs; a++) /* sums in memory contain it */
        call->bias[a] = (int8_t)(job->stage->acc == NULL ? eco_gpu_bias(run, a) : -1);
    return fill_source(run, job->op, ECO_WEIGHT_INPUT, &job->rows[0], shape, &call->source[0]) &&
           fill_source(run, job->op, ECO_WEIGHT_RECURRENT, &job->rows[1], shape, &call->source[1]);
}

bool eco_wide_step(struct eco_gpu_run *run, const struct eco_wide_job *jobs, int n, int shape,
                   bool alone)
{
    struct eco_wide_calls calls;
    memset(&calls, 0, sizeof calls);
    bool good = run->status == ECORNN_OK;
    for (int k = 0; k < n && good; k++) {
        good = fill_call(run, &jobs[k], shape, &calls.of[k]);
        calls.of[k].stages = (int8_t)stages_of(run, shape, jobs[k].stage->rows, n);
    }
    if (good)
        launch(run, &calls, n, shape, alone);
    return good;
}

/* ---- a step back ----------------------------------------------------------------------------- */

static bool is_quad(const void *array, size_t row, size_t element)
{
    return ((uintptr_t)array | row * element) % (ECO_WIDE_QUAD * element) == 0;
}

static bool are_quads(const struct eco_stage_call *stage, size_t element)
{
    bool good = stage->hidden % ECO_WIDE_QUAD == 0 && stage->column % ECO_WIDE_QUAD == 0 &&
                is_quad(stage->save, stage->save_row, element) &&
                is_quad(stage->dacc, stage->dacc_row, element) &&
                is_quad(stage->dy, stage->dy_row, stage->wide_dy ? sizeof(float) : element);
    for (int s = 0; s < stage->n_states; s++)
        good = good && is_quad(stage->state[s], stage->state_row[s], element) &&
               is_quad(stage->next[s], stage->next_row[s], element) &&
               is_quad(stage->carry[s], stage->carry_row[s], sizeof(float));
    return good;
}

bool eco_wide_takes_back(const struct eco_gpu_run *run, const struct eco_stage_call *stage)
{
    const struct eco_wide_kernel *kernels = ((const struct eco_gpu_plan *)run->plan->context)->wide;
    return kernels != NULL && kernels->back != NULL &&
           eco_gpu_has_wide_back(run->problem, &run->plan->device->caps, stage->rows) &&
           are_quads(stage, eco_type_bytes(run->layout->type));
}

bool eco_wide_step_back(struct eco_gpu_run *run, const struct eco_stage_call *stage, bool overlap)
{
    const struct eco_wide_kernel *kernels = ((const struct eco_gpu_plan *)run->plan->context)->wide;
    struct eco_wide_back *const back = &run->back;
    const int32_t quads = stage->hidden / ECO_WIDE_QUAD,
                  rows = back->scales == NULL ? 0 : ECO_STAGE_THREADS / quads; /* of a block */
    const unsigned threads = (unsigned)(rows > 0 ? rows * quads : ECO_STAGE_THREADS);
    const int64_t all = (int64_t)stage->rows * quads;
    void *arguments[] = {(void *)(uintptr_t)stage, back};
    if (!eco_wide_takes_back(run, stage)) {
        const bool known = back->planes <= 1 && back->scales == NULL; /* to other kernels */
        if (!known && run->status == ECORNN_OK)
            run->status = eco_gpu_services->fail(
                ECORNN_FAILED, "internal error: no kernel for a step back in F16 or slices; please "
                               "report");
        return !known;
    }
    eco_gpu_note_cuda(run,
                      eco_launch(kernels->back,
                                 (dim3){(unsigned)((all + threads - 1) / threads), 1, 1},
                                 (dim3){threads, 1, 1}, arguments, overlap, run->stream),
                      "a step back");
    return true;
}
