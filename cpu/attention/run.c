/*
 * A run of attention on the CPU: passes whose jobs the threads divide. The jobs depend on sizes
 * alone, so results do not depend on the number of threads.
 *
 *    forward   a block of queries of a batch row: scores, softmax, context
 *    backward  the same block: gradient of the scores, from the weights that forward stored
 *              a block of positions: dvalues
 *              a block of columns of a batch row: dquery, dkeys, its part of dvector
 *              a block of columns: dvector, over the batch in order
 */
#include "cpu/attention/run.h"
#include "cpu/cpu.h"

static struct eco_size workspace(const struct eco_attention *problem, const struct eco_caps *caps,
                                 const struct eco_attention_args *args)
{
    struct eco_attention_sizes sizes;
    return eco_attention_find_sizes(problem, caps, args, &sizes);
}

static int32_t blocks_of(int32_t count, int32_t block)
{
    return (count + block - 1) / block;
}

/* Jobs: for each of `rows` batch rows, blocks of `count` in steps of `block`. */
struct pass {
    const struct eco_attention_run *run;
    void (*job)(const struct eco_attention_run *run, int id, int32_t n, int32_t first);
    int32_t rows, count, block;
};

static void do_jobs(void *own, int id, int count)
{
    const struct pass *pass = own;
    const int64_t blocks = blocks_of(pass->count, pass->block), jobs = blocks * pass->rows;
    const int64_t end = jobs * (id + 1) / count;
    for (int64_t j = jobs * id / count; j < end; j++)
        pass->job(pass->run, id, (int32_t)(j / blocks), (int32_t)(j % blocks) * pass->block);
}

/* With fewer elements for each, threads are not woken. */
enum { ELEMENTS_OF_A_THREAD = 1 << 17 };

static int threads_for(const struct eco_attention_run *run, int threads)
{
    const struct eco_attention_args *args = run->args;
    const double width = (double)run->problem->H + (double)run->problem->V;
    const double elements = (double)args->T * (double)args->S * (double)args->N * width;
    const double worth = 1 + elements / ELEMENTS_OF_A_THREAD;
    return worth < threads ? (int)worth : threads;
}

static ecornn_status run_attention(const struct eco_attention_plan *plan,
                                   const struct eco_attention_args *args)
{
    const struct eco_attention *problem = &plan->problem;
    const struct eco_cpu *cpu = plan->device->context;
    struct eco_attention_run run = {.problem = problem,
                                    .args = args,
                                    .kernels = problem->type == ECORNN_F64 ? &eco_attention_f64
                                                                           : cpu->isa->attention,
                                    .sum = eco_type_sum(problem->type)};
    eco_attention_find_sizes(problem, &plan->device->caps, args, &run.sizes);
    run.dscores = (char *)args->workspace + (size_t)plan->device->caps.threads * run.sizes.scratch;
    if (args->backward)
        run.dvector = run.dscores + eco_attention_dscores(args, &run.sizes).value;
    const int threads = threads_for(&run, cpu->threads);
    struct pass queries = {
        &run, args->backward ? eco_attention_dscore_block : eco_attention_forward_block, args->N,
        args->T, ECO_QUERIES_BLOCK};
    eco_cpu_run_on_threads(cpu, threads, do_jobs, &queries);
    if (!args->backward)
        return ECORNN_OK;
    struct pass source = {&run, eco_attention_source_block, args->N, args->S, ECO_POSITIONS_BLOCK};
    struct pass columns = {&run, eco_attention_columns_block, args->N, problem->H,
                           run.sizes.gradient_columns};
    struct pass vector = {&run, eco_attention_vector_block, 1, problem->H, ECO_COLUMNS_BLOCK};
    eco_cpu_run_on_threads(cpu, threads, do_jobs, &source);
    if (args->dquery != NULL || args->dkeys != NULL || args->dvector != NULL)
        eco_cpu_run_on_threads(cpu, threads, do_jobs, &columns);
    if (args->dvector != NULL)
        eco_cpu_run_on_threads(cpu, threads, do_jobs, &vector);
    return ECORNN_OK;
}

static void describe(const struct eco_attention_plan *plan, struct eco_text *text)
{
    struct eco_attention_sizes sizes;
    const struct eco_attention *problem = &plan->problem;
    const struct eco_attention_args args = {
        .T = problem->T, .S = problem->S, .N = problem->N, .backward = problem->training};
    eco_attention_find_sizes(problem, &plan->device->caps, &args, &sizes);
    eco_text_add(text, "blocks of %d queries and %d positions, %zu bytes for each thread\n",
                 ECO_QUERIES_BLOCK, ECO_POSITIONS_BLOCK, sizes.scratch);
    if (problem->training)
        eco_text_add(text, "backward by blocks of %d columns\n", sizes.gradient_columns);
}

const struct eco_attention_backend eco_cpu_attention = {
    .workspace = workspace, .run = run_attention, .describe = describe};
