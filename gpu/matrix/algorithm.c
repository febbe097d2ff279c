/*
 * Algorithm matrix on a GPU: what it supports, its memory and its time.
 */
#include "gpu/algo/algo.h"
#include "gpu/algo/force.h"
#include "gpu/device/rates.h"
#include "gpu/matrix/matrix.h"
#include "gpu/matrix/rooms.h"

/* Rows of S that a block has room for. */
static int32_t most_keys(const struct eco_problem *problem)
{
    return ECO_GPU_MATRIX_WARPS * ECO_GPU_MATRIX_ROW_BYTES /
           (int32_t)eco_type_bytes(eco_type_sum(problem->type));
}

/* Backward computes a chunk again from what forward kept before it, so both have the same. */
static const char *force_refuses(const struct eco_problem *problem)
{
    const int32_t chunk = eco_forced(problem, ECO_FORCE_GPU_CHUNK, 0);
    if (chunk > ECO_GPU_MATRIX_CHUNK)
        return "ECORNN_FORCE: chunk is more than 256";
    return eco_forced(problem, ECO_FORCE_GPU_CHUNK_BACK, chunk) != chunk
               ? "ECORNN_FORCE: chunk-back is not chunk"
               : NULL;
}

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum { USUAL_BYTES = 48 << 10 };
    const struct eco_matrix_rule *rule = &problem->cell->rule;
    const size_t most = caps->gpu.block_bytes > 0 ? caps->gpu.block_bytes : USUAL_BYTES;
    const double columns = (double)problem->N * problem->H +
                           (double)problem->N * problem->heads * ECO_GPU_MATRIX_COLUMNS;
    if (rule->refusal != NULL)
        return rule->refusal;
    if (problem->key > most_keys(problem))
        return problem->type == ECORNN_F64 ? "needs keys of at most 256 numbers on a GPU in F64"
                                           : "needs keys of at most 512 numbers on a GPU";
    if (eco_gpu_matrix_nodes(problem) > ECO_GPU_MATRIX_NODES)
        return "needs a text of at most 80 operations on a GPU";
    if ((size_t)eco_problem_head(problem) > most || eco_gpu_matrix_scratch(problem) > most)
        return "needs keys and values that fit in shared memory with all that the text computes";
    if (columns > INT32_MAX)
        return "needs fewer rows: one launch has no more blocks";
    return problem->saving.every > ECO_GPU_MATRIX_CHUNK && problem->memory_limit == 0
               ? "does not support save:every of more than 256 steps"
               : force_refuses(problem);
}

/* Does the device have the shared memory that training by chunks needs, with keys of x? */
static bool goes_by_chunks(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_matrix_rule *const rule = &problem->cell->rule;
    const bool gated = rule->decay >= 0 && problem->cell->recipe.kind[rule->decay] == ECO_KIND_KEY;
    const struct eco_gpu_matrix_shape shape = {
        .keys = eco_gpu_matrix_padded_key(problem->key),
        .planes = problem->type == ECORNN_BF16 && !gated ? 1 : ECO_GPU_MATRIX_PLANES,
        .reads = true,
        .others = rule->other >= 0,
        .gated = gated};
    return eco_gpu_matrix_chunks(problem) &&
           (!problem->training ||
            (caps->gpu.version >= 80 &&
             eco_gpu_matrix_chunk_room(shape).bytes <= caps->gpu.block_bytes &&
             eco_gpu_matrix_gradients_room(shape).bytes <= caps->gpu.block_bytes));
}

/* S is kept before each chunk: before every K-th step if that is asked for. */
static int32_t chunk_of(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum { STEPS = 32 }; /* where a run goes by steps */
    const struct eco_saving *saving = &problem->saving;
    const int32_t usual = goes_by_chunks(problem, caps) ? ECO_GPU_MATRIX_CHUNK_STEPS : STEPS,
                  every = saving->policy == ECO_SAVE_ALL ? usual : saving->every,
                  most = every < ECO_GPU_MATRIX_CHUNK ? every : ECO_GPU_MATRIX_CHUNK,
                  asked = eco_step_asked(problem, false), chunk = asked > 0 ? asked : most;
    return problem->T < chunk ? problem->T : chunk;
}

static size_t bytes_or_most(struct eco_size bytes)
{
    return bytes.overflow ? SIZE_MAX : bytes.value;
}

/* Whether a run goes by chunks depends on its T, and so do its arrays: the workspace has room for
 * any shorter run, of those that go by steps and of those that go by chunks. */
static void sizes(struct eco_layout *layout)
{
    const int32_t chunk = layout->request.chunk, T = layout->T,
                  most = chunk < ECO_GPU_MATRIX_CHUNK_STEPS ? chunk : ECO_GPU_MATRIX_CHUNK_STEPS,
                  tried[] = {T, ECO_GPU_MATRIX_CHUNK_LEAST - 1, most};
    struct eco_gpu_matrix_call call;
    layout->workspace_bytes = 0;
    for (size_t k = 0; k < sizeof tried / sizeof *tried; k++) {
        struct eco_layout run = *layout;
        run.T = tried[k] < T ? tried[k] : T;
        eco_gpu_matrix_begin(&call, &run);
        const size_t bytes = bytes_or_most(eco_gpu_matrix_workspace(&call, &run, NULL));
        if (bytes > layout->workspace_bytes)
            layout->workspace_bytes = bytes;
    }
    eco_gpu_matrix_begin(&call, layout);
    layout->reserve_bytes =
        layout->training ? bytes_or_most(eco_gpu_matrix_reserve(&call, layout, NULL)) : 0;
}

/* Blocks of backward that are there at once: each has room for S after the steps of a chunk. */
static int32_t resident_of(const struct eco_problem *problem, const struct eco_caps *caps)
{
    enum { OF_A_MULTIPROCESSOR = 4 };
    static const double usual = 256 << 20;
    const double room = eco_gpu_matrix_room(problem, usual);
    const int32_t rows = (problem->key + 31) / 32 * 32;
    const double block = (double)chunk_of(problem, caps) * rows * ECO_GPU_MATRIX_COLUMNS *
                         (double)eco_type_bytes(eco_type_sum(problem->type)),
                 most = (double)caps->threads * OF_A_MULTIPROCESSOR,
                 fit = room / block < 1 ? 1 : room / block,
                 jobs = (double)problem->N * problem->heads *
                        (eco_problem_head(problem) + ECO_GPU_MATRIX_COLUMNS - 1) /
                        ECO_GPU_MATRIX_COLUMNS,
                 least = fit < most ? fit : most;
    return (int32_t)(jobs < least ? jobs : least);
}

static void request(const struct eco_problem *problem, const struct eco_caps *caps,
                    struct eco_layout_request *request)
{
    *request = (struct eco_layout_request){.plain = true,
                                           .sizes = sizes,
                                           .gpu.resident = resident_of(problem, caps),
                                           .chunk = chunk_of(problem, caps),
                                           .chunk_backward = chunk_of(problem, caps)};
}

/* Seconds: a step of all heads is bound by arithmetic, or, with few heads, by its own latency. */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    static const double LATENCY = 0.4e-6, TIMES_BACK = 8;
    const double S = (double)problem->N * problem->key * problem->H,
                 step = 6 * S / (caps->flops * caps->threads),
                 all = problem->T * (step > LATENCY ? step : LATENCY);
    return eco_gpu_rates_of(caps)->launch * 3 + (problem->training ? TIMES_BACK + 1 : 1) * all;
}

static void prepare(const struct ecornn_plan *plan)
{
    (void)plan;
}

static void describe(const struct ecornn_plan *plan, struct eco_text *text)
{
    if (plan->request.chunk == ECO_GPU_MATRIX_CHUNK_STEPS && eco_gpu_matrix_chunks(&plan->problem))
        eco_text_add(text, "S in registers, %d steps at once, by blocks of %d columns\n",
                     ECO_GPU_MATRIX_CHUNK_STEPS, ECO_GPU_MATRIX_CHUNK_COLUMNS);
    else
        eco_text_add(text, "S in registers, by blocks of %d columns; kept before every %d steps\n",
                     ECO_GPU_MATRIX_COLUMNS, (int)plan->request.chunk);
}

const struct eco_gpu_family eco_family_matrix = {{.name = "matrix",
                                                  .refuses = refuses,
                                                  .request = request,
                                                  .estimate = estimate,
                                                  .run = eco_gpu_matrix_run,
                                                  .cells = ECO_CELLS_OF_MATRICES},
                                                 prepare,
                                                 describe,
                                                 NULL};
