/*
 * A run of attention on the GPU: checks pointers and queues kernels on the caller's stream.
 *
 *    forward   scores -> softmax in place -> context
 *    backward  the gradient of the weights, where scores were -> that of the scores, in place ->
 *              dvalues; dquery, dkeys and parts of dvector by one kernel, then the sum of these
 */
#include "gpu/attention/args.h"
#include "gpu/attention/attention.h"
#include "gpu/device/device.h"

struct run {
    const struct eco_attention *problem;
    const struct eco_attention_args *args;
    const struct eco_gpu_attention_kernels *kernels;
    size_t number; /* bytes of a number of sums */
    void *score;   /* [N,T,S]: scores, then weights; backward: their gradients */
    char *dvector; /* [N,H] */
    char *sums;    /* [N,T,H] */
};

/* ---- sizes ----------------------------------------------------------------------------------- */

static struct eco_size numbers(const struct eco_attention *problem, int32_t n, int32_t rows,
                               int32_t width)
{
    struct eco_size bytes = eco_size_of(eco_type_bytes(eco_type_sum(problem->type)));
    bytes = eco_size_mul(eco_size_mul(bytes, (size_t)n), (size_t)rows);
    return eco_size_align(eco_size_mul(bytes, (size_t)width));
}

/* Positions of a source that fit in shared memory for the gradient. More positions come in parts,
 * and dquery is kept in memory between these. */
static int32_t positions_of_part(const struct eco_attention *problem)
{
    return ECO_ATTENTION_POSITION_BYTES / (int32_t)eco_type_bytes(eco_type_sum(problem->type));
}

static struct eco_size workspace(const struct eco_attention *problem, const struct eco_caps *caps,
                                 const struct eco_attention_args *args)
{
    (void)caps;
    struct eco_size bytes = numbers(problem, args->N, args->T, args->S);
    if (!args->backward)
        return args->reserve != NULL ? eco_size_of(0) : bytes;
    bytes = eco_size_add(bytes, numbers(problem, args->N, 1, problem->H));
    if (args->S <= positions_of_part(problem))
        return bytes;
    return eco_size_add(bytes, numbers(problem, args->N, args->T, problem->H));
}

/* The numbers of blocks of a launch, and of rows of scores, are int32_t. */
static const char *refuses(const struct eco_attention *problem, const struct eco_caps *caps)
{
    const double rows = problem->T > problem->S ? problem->T : problem->S;
    const double wide = problem->V > problem->H ? problem->V : problem->H;
    const double width = wide > problem->S ? wide : problem->S;
    const double down = rows / ECO_ATTENTION_PRODUCT_TILE + 1;
    const double across = width / ECO_ATTENTION_PRODUCT_TILE + 1;
    (void)caps;
    if (rows * problem->N > INT32_MAX || down * across * problem->N > INT32_MAX)
        return "needs more blocks than a launch can have";
    return NULL;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Every kernel has one argument. */
static ecornn_status launch(const struct run *run, const void *kernel, const void *call,
                            int64_t blocks, int threads, size_t shared)
{
    void *argument[] = {(void *)(uintptr_t)call};
    return ECO_CUDA(cudaLaunchKernel(kernel, (dim3){(unsigned)blocks, 1, 1},
                                     (dim3){(unsigned)threads, 1, 1}, argument, shared,
                                     run->args->stream));
}

static int64_t tiles(int64_t count, int64_t tile)
{
    return (count + tile - 1) / tile;
}

/* The caller's [steps,N,width]. */
static struct eco_attention_rows rows_of(const struct run *run, const void *data, int32_t steps,
                                         int32_t width)
{
    const size_t row = (size_t)width;
    const bool time_major = !run->problem->batch_major;
    return (struct eco_attention_rows){.data = (void *)(uintptr_t)data,
                                       .step = time_major ? (size_t)run->args->N * row : row,
                                       .row = time_major ? row : (size_t)steps * row};
}

/* [N,T,S] of sums. */
static struct eco_attention_rows scores_of(const struct run *run, const void *data)
{
    const size_t S = (size_t)run->args->S;
    return (struct eco_attention_rows){
        .data = (void *)(uintptr_t)data, .step = S, .row = (size_t)run->args->T * S};
}

/* Can rows be read four elements at a time? */
static bool is_whole(const struct run *run, int32_t width, const void *first, const void *second)
{
    const uintptr_t four = 4 * eco_type_bytes(run->problem->type);
    return width % 4 == 0 && ((uintptr_t)first | (uintptr_t)second) % four == 0;
}

static ecornn_status add_product(const struct run *run, enum eco_attention_product_kind kind,
                                 struct eco_attention_product call)
{
    const int64_t blocks = tiles(call.I, ECO_ATTENTION_PRODUCT_TILE) *
                           tiles(call.J, ECO_ATTENTION_PRODUCT_TILE) * run->args->N;
    call.lengths = run->args->lengths;
    call.source = run->args->S;
    return launch(run, run->kernels->product[kind], &call, blocks, ECO_ATTENTION_PRODUCT_THREADS,
                  0);
}

/* score = rows [T,N,width] by rows [S,N,width]. */
static ecornn_status rows_by_rows(const struct run *run, const void *a, const void *b,
                                  int32_t width)
{
    const struct eco_attention_args *args = run->args;
    return add_product(run, ECO_ATTENTION_ROWS_BY_ROWS,
                       (struct eco_attention_product){.a = rows_of(run, a, args->T, width),
                                                      .b = rows_of(run, b, args->S, width),
                                                      .c = scores_of(run, run->score),
                                                      .I = args->T,
                                                      .J = args->S,
                                                      .K = width,
                                                      .scale = 1,
                                                      .whole = is_whole(run, width, a, b)});
}

/* A product of a weight [N,T,S], or its transpose, and rows [S,N,width] or [T,N,width]; rows NULL:
 * 0. to NULL: not wanted. */
struct weighted {
    const void *weight, *rows;
    void *to;
    int32_t width;
};

static ecornn_status add_weighted(const struct run *run, bool transposed, struct weighted of)
{
    const int32_t T = run->args->T, S = run->args->S, I = transposed ? S : T, K = T + S - I;
    if (of.to == NULL)
        return ECORNN_OK;
    return add_product(
        run, transposed ? ECO_ATTENTION_WEIGHTS_TRANSPOSED : ECO_ATTENTION_WEIGHTS_BY_ROWS,
        (struct eco_attention_product){.a = scores_of(run, of.weight),
                                       .b = rows_of(run, of.rows, K, of.width),
                                       .c = rows_of(run, of.to, I, of.width),
                                       .I = I,
                                       .J = of.width,
                                       .K = of.rows != NULL ? K : 0,
                                       .scale = 1,
                                       .whole = is_whole(run, of.width, of.rows, NULL)});
}

/* ---- forward --------------------------------------------------------------------------------- */

static ecornn_status additive_scores(const struct run *run)
{
    const struct eco_attention_args *args = run->args;
    const int32_t H = run->problem->H;
    const int pairs = args->T > 8 ? 8 : args->T > 4 ? 4 : args->T > 2 ? 2 : 1;
    const struct eco_attention_additive call = {.query = rows_of(run, args->query, args->T, H),
                                                .keys = rows_of(run, args->keys, args->S, H),
                                                .vector = args->vector,
                                                .score = run->score,
                                                .lengths = args->lengths,
                                                .T = args->T,
                                                .S = args->S,
                                                .H = H,
                                                .pairs = pairs,
                                                .whole = is_whole(run, H, args->query, args->keys)};
    return launch(run, run->kernels->additive[H > run->kernels->few], &call,
                  tiles(args->T, 2 * pairs) * args->N, ECO_ATTENTION_THREADS, 0);
}

static ecornn_status softmax(const struct run *run, bool back)
{
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_softmax call = {
        .score = run->score,
        .weight = eco_attention_saved(args),
        .weights = rows_of(run, args->weights, args->T, args->S),
        .dweights = rows_of(run, args->dweights, args->T, args->S),
        .lengths = args->lengths,
        .T = args->T,
        .S = args->S,
        .N = args->N,
        .holds = args->dcontext != NULL,
        .scale = 1};
    return launch(run, back ? run->kernels->softmax_gradient : run->kernels->softmax, &call,
                  tiles((int64_t)args->N * args->T, ECO_ATTENTION_ROWS), ECO_ATTENTION_ROWS * 32,
                  0);
}

static ecornn_status forward(const struct run *run)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    ecornn_status status = additive_scores(run);
    if (status == ECORNN_OK)
        status = softmax(run, false);
    if (status == ECORNN_OK)
        status = add_weighted(
            run, false, (struct weighted){run->score, args->values, args->context, problem->V});
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

static ecornn_status additive_gradient(const struct run *run)
{
    const struct eco_attention_args *args = run->args;
    const int32_t H = run->problem->H;
    const int64_t wanted = tiles(args->T, ECO_ATTENTION_QUERIES);
    const int warps = wanted < ECO_ATTENTION_WARPS ? (int)wanted : ECO_ATTENTION_WARPS;
    const int32_t most = positions_of_part(run->problem);
    const int32_t positions = args->S < most ? args->S : most;
    const struct eco_attention_gradient_call call = {.query = rows_of(run, args->query, args->T, H),
                                                     .keys = rows_of(run, args->keys, args->S, H),
                                                     .dquery =
                                                         rows_of(run, args->dquery, args->T, H),
                                                     .dkeys = rows_of(run, args->dkeys, args->S, H),
                                                     .vector = args->vector,
                                                     .dscore = run->score,
                                                     .dvector = run->dvector,
                                                     .sums = run->sums,
                                                     .lengths = args->lengths,
                                                     .T = args->T,
                                                     .S = args->S,
                                                     .H = H};
    return launch(run, run->kernels->gradient, &call, tiles(H, ECO_ATTENTION_COLUMNS) * args->N,
                  warps * 32, eco_attention_gradient_bytes(positions, warps, run->number));
}

static ecornn_status sum_vectors(const struct run *run)
{
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_vector call = {.part = run->dvector,
                                              .dvector = args->dvector,
                                              .N = args->N,
                                              .H = run->problem->H,
                                              .add = args->accumulate};
    return launch(run, run->kernels->vector, &call,
                  tiles(run->problem->H, ECO_ATTENTION_VECTOR_ACROSS),
                  ECO_ATTENTION_VECTOR_ACROSS * ECO_ATTENTION_VECTOR_DOWN, 0);
}

static ecornn_status backward(const struct run *run)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    ecornn_status status = ECORNN_OK;
    if (args->dcontext != NULL)
        status = rows_by_rows(run, args->dcontext, args->values, problem->V);
    if (status == ECORNN_OK)
        status = softmax(run, true);
    if (status == ECORNN_OK)
        status = add_weighted(run, true,
                              (struct weighted){eco_attention_saved(args), args->dcontext,
                                                args->dvalues, problem->V});
    if (status == ECORNN_OK &&
        (args->dquery != NULL || args->dkeys != NULL || args->dvector != NULL))
        status = additive_gradient(run);
    if (status == ECORNN_OK && args->dvector != NULL)
        status = sum_vectors(run);
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static ecornn_status check_pointers(const struct eco_gpu *gpu,
                                    const struct eco_attention_args *args)
{
    const struct {
        const char *name;
        const void *pointer;
    } all[] = {{"io.lengths", args->lengths},
               {"io.query", args->query},
               {"io.keys", args->keys},
               {"io.values", args->values},
               {"io.vector", args->vector},
               {"io.context", args->context},
               {"io.weights", args->weights},
               {"io.workspace", args->workspace},
               {"io.reserve", args->reserve},
               {"gradient.dcontext", args->dcontext},
               {"gradient.dweights", args->dweights},
               {"gradient.dquery", args->dquery},
               {"gradient.dkeys", args->dkeys},
               {"gradient.dvalues", args->dvalues},
               {"gradient.dvector", args->dvector}};
    ecornn_status status = ECORNN_OK;
    for (size_t i = 0; status == ECORNN_OK && i < sizeof all / sizeof *all; i++)
        status = eco_gpu_check_pointer(gpu, all[i].name, all[i].pointer);
    return status;
}

static ecornn_status run_attention(const struct eco_attention_plan *plan,
                                   const struct eco_attention_args *args)
{
    static const struct eco_gpu_attention_kernels *const kernels[ECO_TYPES] = {
        [ECORNN_F32] = &eco_gpu_attention_f32,
        [ECORNN_F64] = &eco_gpu_attention_f64,
        [ECORNN_BF16] = &eco_gpu_attention_bf16,
        [ECORNN_F16] = &eco_gpu_attention_f16};
    const struct eco_attention *problem = &plan->problem;
    struct eco_gpu_scope scope;
    struct run run = {.problem = problem,
                      .args = args,
                      .kernels = kernels[problem->type],
                      .number = eco_type_bytes(eco_type_sum(problem->type)),
                      .score = args->backward || args->reserve == NULL ? args->workspace
                                                                       : eco_attention_saved(args)};
    if (args->backward) {
        run.dvector = (char *)args->workspace + numbers(problem, args->N, args->T, args->S).value;
        run.sums = run.dvector + numbers(problem, args->N, 1, problem->H).value;
    }
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = check_pointers(plan->device->context, args);
    if (status == ECORNN_OK)
        status = args->backward ? backward(&run) : forward(&run);
    eco_gpu_leave(&scope);
    return status;
}

static void describe(const struct eco_attention_plan *plan, struct eco_text *text)
{
    (void)plan;
    eco_text_add(text, "scores by warps of two queries; gradients by blocks of %d columns\n",
                 ECO_ATTENTION_COLUMNS);
}

const struct eco_attention_backend eco_gpu_attention = {
    .refuses = refuses, .workspace = workspace, .run = run_attention, .describe = describe};
