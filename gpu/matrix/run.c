/*
 * A run of a cell with a matrix state on a GPU: kernels on the caller's stream, slab by slab.
 *
 *    forward   values -> S over the steps -> what follows S, if y is more than what is read of it
 *    backward  slabs from the last to the first: values, and, for such a y, S again -> the gradient
 *              of what is read -> S back -> dx
 */
#include "common/run_arrays.h"
#include "gpu/algo/algo.h"
#include "gpu/device/device.h"
#include "gpu/matrix/matrix.h"
#include "gpu/matrix/rooms.h"

/* Shared memory of a block that no device lacks. */
enum { USUAL_BYTES = 48 << 10 };

struct run {
    struct eco_gpu_matrix_call call;
    const struct eco_gpu_matrix_kernels *kernels;
    const struct eco_problem *problem;
    const struct eco_args *args;
    size_t real;        /* bytes of a number of sums */
    size_t block_bytes; /* of shared memory, at most */
    int version;        /* ten times the compute capability */
    int32_t slab;
};

/* ---- the caller's arrays --------------------------------------------------------------------- */

/* A part of x, in x or in an array of its own. */
static struct eco_gpu_matrix_rows part_of(const struct run *run, int k, bool gradient)
{
    const struct eco_args *args = run->args;
    const struct eco_problem *problem = run->problem;
    const size_t width = (size_t)eco_problem_part(problem, k);
    const size_t *const rows = gradient ? args->dinput_rows : args->input_rows;
    const void *const *const inputs = gradient ? (const void *const *)args->dinputs : args->inputs;
    if (args->inputs != NULL)
        return (struct eco_gpu_matrix_rows){(void *)(uintptr_t)(inputs != NULL ? inputs[k] : NULL),
                                            rows != NULL && rows[k] != 0 ? rows[k] : width};
    const char *const x = gradient ? args->dx : args->x;
    const size_t column = (size_t)eco_problem_column(problem, k + 1);
    return (struct eco_gpu_matrix_rows){
        x == NULL ? NULL : (void *)(uintptr_t)(x + column * eco_type_bytes(problem->type)),
        (size_t)problem->I};
}

static ecornn_status take_parts(struct run *run, const struct eco_gpu *gpu)
{
    struct eco_gpu_matrix_call *const call = &run->call;
    ecornn_status status = ECORNN_OK;
    for (int k = 0; k < call->parts; k++) {
        call->part[k] = part_of(run, k, false);
        if (run->args->backward)
            call->dpart[k] = part_of(run, k, true);
        if (status == ECORNN_OK && run->args->inputs != NULL)
            status = eco_gpu_check_pointer(gpu, "io.inputs", call->part[k].data);
        if (status == ECORNN_OK && run->args->inputs != NULL)
            status = eco_gpu_check_pointer(gpu, "gradient.dinputs", call->dpart[k].data);
    }
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++) {
        struct eco_gpu_matrix_source *const term = &call->term[k];
        for (int p = 0; p < call->parts && term->node >= 0 && term->slots == NULL; p++)
            if (call->part_node[p] == term->part)
                term->rows = call->part[p];
    }
    return status;
}

/* ---- launches -------------------------------------------------------------------------------- */

static ecornn_status launch(const struct run *run, const void *kernel, int64_t blocks, dim3 threads,
                            size_t shared)
{
    void *argument[] = {(void *)(uintptr_t)&run->call};
    ecornn_status status = ECORNN_OK;
    if (blocks == 0)
        return ECORNN_OK;
    if (shared > USUAL_BYTES) /* a limit of the kernel's, so it is the same in all threads */
        status = ECO_CUDA(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)(shared > run->block_bytes ? shared : run->block_bytes)));
    return status != ECORNN_OK
               ? status
               : ECO_CUDA(cudaLaunchKernel(kernel, (dim3){(unsigned)blocks, 1, 1}, threads,
                                           argument, shared, run->args->stream));
}

/* Launches a kernel whose warps take one job each; the scratch of a warp has `bytes`. */
static ecornn_status launch_jobs(const struct run *run, const void *kernel, int64_t jobs,
                                 size_t bytes)
{
    enum { WARPS = 4, ROOM = 48 << 10 };
    const unsigned fit = bytes == 0 ? WARPS : (unsigned)(ROOM / bytes), warps = fit > WARPS ? WARPS
                                                                                : fit < 1   ? 1
                                                                                            : fit;
    return launch(run, kernel, (jobs + warps - 1) / warps, (dim3){32, warps, 1}, bytes * warps);
}

/* Likewise, a warp for each head of a row (`whole`) or of a step; its scratch is `times` the values
 * of the text. */
static ecornn_status launch_warps(const struct run *run, const void *kernel, bool whole, int times)
{
    const struct eco_gpu_matrix_call *call = &run->call;
    const int64_t heads = (int64_t)call->args.N * call->heads;
    return launch_jobs(run, kernel, whole ? heads : heads * call->steps,
                       (size_t)call->values * (size_t)times * run->real);
}

static bool has_term(const struct run *run, int k)
{
    return run->call.term[k].node >= 0;
}

/* Index in the tables of kernels. */
static int reads(const struct run *run)
{
    return !has_term(run, ECO_GPU_MATRIX_READ) ? 0 : !has_term(run, ECO_GPU_MATRIX_OTHER) ? 1 : 2;
}

static bool by_row(const struct run *run)
{
    const int16_t node = run->call.term[ECO_GPU_MATRIX_DECAY].node;
    return node >= 0 && run->call.node[node].kind == ECO_KIND_KEY;
}

static int64_t state_blocks(const struct run *run)
{
    return (int64_t)run->call.args.N * run->call.heads * run->call.blocks;
}

static size_t row_warps(const struct run *run)
{
    const size_t of_warp = ECO_GPU_MATRIX_ROW_BYTES / run->real;
    return ((size_t)run->call.K + of_warp - 1) / of_warp;
}

/* Bytes of shared memory for the values of some steps, and for sums. */
static size_t tile_bytes(const struct run *run, int32_t steps)
{
    const size_t keys = 2 + (size_t)has_term(run, ECO_GPU_MATRIX_READ) +
                        (size_t)has_term(run, ECO_GPU_MATRIX_OTHER) +
                        (size_t)has_term(run, ECO_GPU_MATRIX_DECAY);
    const size_t step = keys * row_warps(run) * ECO_GPU_MATRIX_ROW_BYTES +
                        (ECO_GPU_MATRIX_COLUMNS + 1) * run->real + 2;
    return (size_t)steps * step + 3 * row_warps(run) * ECO_GPU_MATRIX_COLUMNS * run->real;
}

static ecornn_status launch_forward(struct run *run)
{
    enum { ROOM = 48 << 10 };
    struct eco_gpu_matrix_call *const call = &run->call;
    call->tile = ECO_GPU_MATRIX_TILE;
    while (call->tile > 1 && tile_bytes(run, call->tile) > ROOM)
        call->tile /= 2;
    return launch(run, run->kernels->forward[by_row(run)][reads(run)], state_blocks(run),
                  (dim3){(unsigned)row_warps(run) * 32, 1, 1}, tile_bytes(run, call->tile));
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Planes of a key: those that are rows of BF16 have one. */
static int planes_of(const struct run *run)
{
    static const int keys[] = {ECO_GPU_MATRIX_QUERY, ECO_GPU_MATRIX_KEY, ECO_GPU_MATRIX_READ};
    bool exact = run->problem->type == ECORNN_BF16 && !run->call.gates_keys;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        exact = exact && (!has_term(run, keys[i]) || run->call.term[keys[i]].slots == NULL);
    return exact ? 1 : ECO_GPU_MATRIX_PLANES;
}

static unsigned keys_of(const struct run *run)
{
    return eco_gpu_matrix_padded_key(run->call.K);
}

static struct eco_gpu_matrix_shape shape_of(const struct run *run)
{
    return (struct eco_gpu_matrix_shape){.keys = keys_of(run),
                                         .planes = (unsigned)planes_of(run),
                                         .reads = has_term(run, ECO_GPU_MATRIX_READ),
                                         .same = run->call.same_key,
                                         .others = has_term(run, ECO_GPU_MATRIX_OTHER),
                                         .gated = run->call.gates_keys};
}

/* Shared memory of kernels. */
static size_t pairs_bytes(const struct run *run)
{
    return run->call.gates_keys ? eco_gpu_matrix_gates_room(shape_of(run)).bytes
                                : eco_gpu_matrix_pairs_room(shape_of(run)).bytes;
}

static size_t chunk_bytes(const struct run *run)
{
    return eco_gpu_matrix_chunk_room(shape_of(run)).bytes;
}

static size_t gradient_bytes(const struct run *run)
{
    return eco_gpu_matrix_gradients_room(shape_of(run)).bytes;
}

/* Are K and V multiples of what a block holds, and y, wide parts of x and the caller's states
 * aligned to 16 bytes?  Workspace and reserve always are. */
static bool is_whole(const struct run *run)
{
    enum { COLUMNS = ECO_GPU_MATRIX_CHUNK_COLUMNS, ALIGNED = 16 };
    const struct eco_gpu_matrix_call *call = &run->call;
    size_t all = (size_t)(uintptr_t)run->args->y;
    for (int a = 0; a < eco_run_arrays(run->args); a++)
        if (call->matrix < eco_run_array[a].count)
            all |= (size_t)(uintptr_t)eco_run_array_get(run->args, &eco_run_array[a], call->matrix);
    for (int k = 0; k < call->parts; k++)
        if (call->part_width[k] > 1)
            all |= (size_t)(uintptr_t)call->part[k].data |
                   call->part[k].row * eco_type_bytes(run->problem->type);
    return all % ALIGNED == 0 && (unsigned)call->K == keys_of(run) && call->V % COLUMNS == 0;
}

/* Chunks do not support what few ask for: states of every step, and rows that begin
 * again with other than 0. */
static bool by_chunks(const struct run *run)
{
    const struct eco_gpu_matrix_call *call = &run->call;
    const int s = call->matrix;
    return call->by_chunks && run->version >= 80 && call->args.states[s] == NULL &&
           !eco_args_begin_elsewhere(run->args, s, call->start[s]) &&
           pairs_bytes(run) <= run->block_bytes && chunk_bytes(run) <= run->block_bytes;
}

/* Back, they do not support gradients of those. */
static bool back_by_chunks(const struct run *run)
{
    const struct eco_gpu_matrix_call *call = &run->call;
    const int s = call->matrix;
    return by_chunks(run) && call->chunk_gradients != NULL && call->args.dstates[s] == NULL &&
           call->args.dreset_state[s] == NULL && gradient_bytes(run) <= run->block_bytes;
}

/* Kernels of chunks: blocks have 64 columns of a head each, or a chunk of a slab. */
static ecornn_status launch_columns(const struct run *run, const void *const kernels[2][2])
{
    enum { COLUMNS = ECO_GPU_MATRIX_CHUNK_COLUMNS };
    const struct eco_gpu_matrix_call *call = &run->call;
    const int wide = keys_of(run) == ECO_GPU_MATRIX_CHUNK_KEYS, exact = planes_of(run) == 1;
    const int64_t heads = (int64_t)call->args.N * call->heads;
    return launch(run, kernels[wide][!exact], heads * ((call->V + COLUMNS - 1) / COLUMNS),
                  (dim3){ECO_GPU_MATRIX_CHUNK_THREADS, 1, 1}, chunk_bytes(run));
}

static ecornn_status launch_each(const struct run *run, const void *kernel, size_t shared)
{
    enum { STEPS = ECO_GPU_MATRIX_CHUNK_STEPS };
    const struct eco_gpu_matrix_call *call = &run->call;
    const int64_t heads = (int64_t)call->args.N * call->heads;
    return launch(run, kernel, heads * ((call->steps + STEPS - 1) / STEPS),
                  (dim3){ECO_GPU_MATRIX_CHUNK_THREADS, 1, 1}, shared);
}

static ecornn_status launch_pairs(const struct run *run)
{
    const int wide = keys_of(run) == ECO_GPU_MATRIX_CHUNK_KEYS, exact = planes_of(run) == 1;
    return launch_each(run,
                       run->call.gates_keys ? run->kernels->gated_pairs[wide]
                                            : run->kernels->pairs[wide][!exact],
                       pairs_bytes(run));
}

/* S over the steps of the slab, and what is read of it: by chunks, whose pairs are there, and by
 * steps where there are none, or numbers too large for products. */
static ecornn_status launch_states(struct run *run)
{
    ecornn_status status = ECORNN_OK;
    run->call.retry = by_chunks(run);
    if (run->call.retry)
        status = launch_columns(run, run->kernels->chunks);
    return status != ECORNN_OK ? status : launch_forward(run);
}

static ecornn_status launch_steps_back(const struct run *run)
{
    const struct eco_gpu_matrix_call *call = &run->call;
    const size_t warps = ((size_t)call->K + 31) / 32;
    const size_t bytes =
        (3 * warps * ECO_GPU_MATRIX_COLUMNS + 3 * ECO_GPU_MATRIX_COLUMNS + warps) * run->real;
    const int64_t jobs = (int64_t)call->args.N * call->heads * call->partials;
    return launch(run, run->kernels->backward[by_row(run)][reads(run)],
                  jobs < call->resident ? jobs : call->resident, (dim3){(unsigned)warps * 32, 1, 1},
                  bytes);
}

/* The gradients of S and of what its steps read: likewise. */
static ecornn_status launch_backward(struct run *run)
{
    const int wide = keys_of(run) == ECO_GPU_MATRIX_CHUNK_KEYS, exact = planes_of(run) == 1;
    const void *const gradients = run->call.gates_keys ? run->kernels->gated_gradients[wide]
                                                       : run->kernels->gradients[wide][!exact];
    ecornn_status status = ECORNN_OK;
    run->call.retry = back_by_chunks(run);
    if (run->call.retry)
        status = launch_columns(run, run->kernels->chunks_back);
    for (int k = 0; run->call.retry && k <= has_term(run, ECO_GPU_MATRIX_OTHER); k++) {
        run->call.of_other = k > 0;
        if (status == ECORNN_OK)
            status = launch_each(run, gradients, gradient_bytes(run));
    }
    return status != ECORNN_OK ? status : launch_steps_back(run);
}

/* ---- runs of one step ------------------------------------------------------------------------ */

/* Has the text a sum or mean over what was read of S'? */
static bool sums_after(const struct eco_gpu_matrix_call *call)
{
    const struct eco_gpu_matrix_nodes *after = &call->order[ECO_GPU_MATRIX_AFTER];
    bool any = false;
    for (int i = 0; i < after->count; i++)
        any = any || call->node[after->at[i]].op == ECO_OP_DOT ||
              call->node[after->at[i]].op == ECO_OP_MEAN;
    return any;
}

static size_t decode_bytes(const struct run *run)
{
    return (size_t)run->call.values_bytes + (size_t)run->call.teams * (size_t)run->call.team_bytes;
}

/* Does one kernel do this run? */
static bool decodes(struct run *run)
{
    enum { ALIGNED = 16 };
    struct eco_gpu_matrix_call *const call = &run->call;
    const int32_t most = ECO_GPU_MATRIX_WARPS / (int32_t)row_warps(run);
    const size_t values = (size_t)call->values * run->real, team = tile_bytes(run, 1);
    call->one_block = call->remembers || sums_after(call);
    call->teams = !call->one_block ? 1 : most < call->blocks ? most : call->blocks;
    call->values_bytes = (int32_t)((values + ALIGNED - 1) / ALIGNED * ALIGNED);
    call->team_bytes = (int32_t)((team + ALIGNED - 1) / ALIGNED * ALIGNED);
    return call->args.T == 1 && !call->training && decode_bytes(run) <= (size_t)run->block_bytes;
}

static ecornn_status decode(struct run *run)
{
    struct eco_gpu_matrix_call *const call = &run->call;
    const int64_t blocks =
        call->one_block ? (int64_t)call->args.N * call->heads : state_blocks(run);
    call->tile = 1;
    for (int s = 0; s < call->states; s++)
        call->before[s] = NULL; /* nothing reads them */
    return launch(run, run->kernels->decode[by_row(run)][reads(run)], blocks,
                  (dim3){(unsigned)call->teams * (unsigned)row_warps(run) * 32, 1, 1},
                  decode_bytes(run));
}

/* ---- slabs ----------------------------------------------------------------------------------- */

static bool has_values(const struct run *run)
{
    bool any = run->call.remembers;
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++)
        any = any || run->call.term[k].slots != NULL || run->call.term[k].times != NULL;
    return any;
}

/* Are there states of every step that the kernel of S does not store? */
static bool shows_small(const struct run *run)
{
    bool any = false;
    for (int s = 1; s < run->call.states; s++)
        any = any || (s != run->call.matrix && run->call.args.states[s] != NULL);
    return any;
}

static ecornn_status slab_values(const struct run *run)
{
    enum { LANES = 32 };
    const struct eco_gpu_matrix_call *call = &run->call;
    if (!has_values(run))
        return ECORNN_OK;
    if (!call->numbers)
        return launch_warps(run, run->kernels->values, call->remembers, 1);
    const int64_t heads = (int64_t)call->args.N * call->heads * call->steps;
    return launch_jobs(run, run->kernels->numbers, (heads + LANES - 1) / LANES,
                       (size_t)call->nodes * LANES * run->real);
}

static ecornn_status slab_forward(struct run *run)
{
    ecornn_status status = slab_values(run);
    if (status == ECORNN_OK && by_chunks(run))
        status = launch_pairs(run);
    if (status == ECORNN_OK)
        status = launch_states(run);
    if (status == ECORNN_OK && (!run->call.direct || shows_small(run)))
        status = launch_warps(run, run->kernels->after, false, 1);
    return status;
}

static ecornn_status slab_backward(struct run *run)
{
    ecornn_status status = slab_values(run);
    run->call.again = true;
    if (status == ECORNN_OK && (back_by_chunks(run) || (by_chunks(run) && !run->call.direct)))
        status = launch_pairs(run);
    if (status == ECORNN_OK && !run->call.direct)
        status = launch_states(run);
    if (status == ECORNN_OK)
        status = launch_warps(run, run->kernels->seed, false, 2);
    if (status == ECORNN_OK)
        status = launch_backward(run);
    if (status == ECORNN_OK)
        status = launch_warps(run, run->kernels->sweep, run->call.remembers, 2);
    return status;
}

static ecornn_status forward(struct run *run)
{
    ecornn_status status = ECORNN_OK;
    for (int32_t first = 0; status == ECORNN_OK && first < run->call.args.T; first += run->slab) {
        run->call.first = first;
        run->call.steps =
            run->call.args.T - first < run->slab ? run->call.args.T - first : run->slab;
        status = decodes(run) ? decode(run) : slab_forward(run);
    }
    if (status == ECORNN_OK && (run->args->lengths != NULL || run->args->mask != NULL))
        status = launch_warps(run, run->kernels->finish, true, 0);
    return status;
}

static ecornn_status backward(struct run *run)
{
    ecornn_status status = launch_warps(run, run->kernels->begin, true, 0);
    for (int32_t first = (run->call.args.T - 1) / run->slab * run->slab;
         status == ECORNN_OK && first >= 0; first -= run->slab) {
        run->call.first = first;
        run->call.steps =
            run->call.args.T - first < run->slab ? run->call.args.T - first : run->slab;
        status = slab_backward(run);
    }
    return status;
}

ecornn_status eco_gpu_matrix_run(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                 const struct eco_layout *layout, const struct eco_args *args)
{
    static const struct eco_gpu_matrix_kernels *const kernels[ECO_TYPES] = {
        [ECORNN_F32] = &eco_gpu_matrix_f32,
        [ECORNN_F64] = &eco_gpu_matrix_f64,
        [ECORNN_BF16] = &eco_gpu_matrix_bf16,
        [ECORNN_F16] = &eco_gpu_matrix_f16};
    const struct eco_gpu *gpu = plan->device->context;
    struct eco_gpu_scope scope;
    struct run run = {.kernels = kernels[plan->problem.type],
                      .problem = &plan->problem,
                      .args = args,
                      .real = eco_type_bytes(layout->sum),
                      .block_bytes = plan->device->caps.gpu.block_bytes > 0
                                         ? plan->device->caps.gpu.block_bytes
                                         : USUAL_BYTES,
                      .version = plan->device->caps.gpu.version};
    (void)tape;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    eco_gpu_matrix_begin(&run.call, layout);
    run.slab = run.call.steps;
    eco_gpu_matrix_workspace(&run.call, layout, args->workspace);
    if (args->reserve != NULL)
        eco_gpu_matrix_reserve(&run.call, layout, args->reserve);
    run.call.args = *args;
    run.call.training = args->reserve != NULL;
    status = eco_gpu_check_args(gpu, args);
    if (status == ECORNN_OK)
        status = take_parts(&run, gpu);
    run.call.whole = is_whole(&run);
    if (status == ECORNN_OK)
        status = args->backward ? backward(&run) : forward(&run);
    eco_gpu_leave(&scope);
    return status;
}
