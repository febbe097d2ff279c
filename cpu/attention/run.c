/*
 * A run of attention on the CPU: passes whose jobs the threads share out.  What a job is follows
 * from the sizes alone, so results do not depend on the number of threads.
 *
 * forward   a block of queries of a row of the batch: scores, softmax, context
 * back      the same block: gradient of the scores, from the weights that forward kept
 *           a block of positions: dvalues; of dot products dkeys
 *           additive: a block of columns of a row of the batch: dquery, dkeys, its part of dvector
 *           additive: a block of columns: dvector, over the batch in order
 */
#include <string.h>

#include "common/backend.h"
#include "cpu/attention/attention.h"
#include "cpu/cpu.h"

/* Of blocks: queries and positions, and columns at a time, whose rows stay in a second-level
 * cache. */
enum { QUERIES = 32, POSITIONS = 64, COLUMNS = 256 };
/* Columns of a gradient's job: as many as leave its rows in about so many bytes. */
enum { GRADIENT_COLUMNS = 64, GRADIENT_BYTES = 256 << 10 };

/* ---- sizes ----------------------------------------------------------------------------------- */

struct sizes {
    size_t number;  /* bytes of a number of sums */
    size_t source;  /* numbers of a row of scores */
    size_t scratch; /* bytes of a thread */
    int32_t gradient_columns;
};

static int32_t blocks_of(int32_t count, int32_t block)
{
    return (count + block - 1) / block;
}

/* By the plan's sizes, so that a smaller run does not take wider blocks. */
static int32_t gradient_columns(const struct eco_attention *problem, size_t number)
{
    const size_t rows = 2 * ((size_t)problem->T + (size_t)problem->S + ECO_ATTENTION_POSITIONS);
    int32_t columns = GRADIENT_COLUMNS;
    while (columns > ECO_ATTENTION_GROUP && rows * (size_t)columns * number > GRADIENT_BYTES)
        columns /= 2;
    return columns;
}

static struct eco_size numbers(size_t rows, size_t columns, size_t number)
{
    return eco_size_align(eco_size_mul(eco_size_mul(eco_size_of(rows), columns), number));
}

static struct eco_size scratch_of(const struct eco_attention *problem,
                                  const struct eco_attention_args *args, struct sizes *sizes)
{
    const size_t number = sizes->number;
    struct eco_size block = numbers(3 * QUERIES + POSITIONS + 1, COLUMNS, number);
    block = eco_size_add(block, numbers(QUERIES, sizes->source, number));
    if (!args->backward || problem->score == ECORNN_DOT)
        return block;
    const size_t rows = 2 * ((size_t)args->T + (size_t)args->S + ECO_ATTENTION_POSITIONS) + 2;
    const struct eco_size columns = numbers(rows, (size_t)sizes->gradient_columns, number);
    return columns.overflow || columns.value > block.value ? columns : block;
}

static struct eco_size dscores_of(const struct eco_attention_args *args, const struct sizes *sizes)
{
    const struct eco_size row = numbers(1, sizes->source, sizes->number);
    return eco_size_mul(eco_size_mul(row, (size_t)args->T), (size_t)args->N);
}

static struct eco_size find_sizes(const struct eco_attention *problem, const struct eco_caps *caps,
                                  const struct eco_attention_args *args, struct sizes *sizes)
{
    const size_t number = eco_type_bytes(eco_type_sum(problem->type));
    *sizes = (struct sizes){.number = number,
                            .source = eco_attention_padded((size_t)args->S),
                            .gradient_columns = gradient_columns(problem, number)};
    struct eco_size bytes = scratch_of(problem, args, sizes);
    sizes->scratch = bytes.value;
    bytes = eco_size_mul(bytes, (size_t)caps->threads);
    if (!args->backward)
        return bytes;
    bytes = eco_size_add(bytes, dscores_of(args, sizes));
    if (problem->score == ECORNN_DOT)
        return bytes;
    return eco_size_add(bytes,
                        numbers((size_t)args->N, eco_attention_padded((size_t)problem->H), number));
}

static struct eco_size workspace(const struct eco_attention *problem, const struct eco_caps *caps,
                                 const struct eco_attention_args *args)
{
    struct sizes sizes;
    return find_sizes(problem, caps, args, &sizes);
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct run {
    const struct eco_attention *problem;
    const struct eco_attention_args *args;
    const struct eco_attention_kernels *kernels;
    struct sizes sizes;
    ecornn_type sum;
    char *dscores; /* [N,T,source], of dot products times their scale */
    char *dvector; /* [N,H filled up]: of each row of the batch */
};

static void *after(const struct run *run, const void *p, size_t elements)
{
    return (char *)(uintptr_t)p + elements * run->sizes.number;
}

static char *scratch_of_thread(const struct run *run, int id)
{
    return (char *)run->args->workspace + (size_t)id * run->sizes.scratch;
}

/* Rows [first, first + count) of n of an array [steps,N,width] of the caller's, `some` columns from
 * `column` on. */
struct part {
    const void *array;
    int32_t steps, width, n, first, count, column, some;
};

static size_t place_of(const struct run *run, const struct part *part, int32_t i)
{
    const size_t row =
        eco_attention_row(run->problem, run->args, part->steps, part->first + i, part->n);
    return (row * (size_t)part->width + (size_t)part->column) * eco_type_bytes(run->problem->type);
}

/* To [count,row] numbers of sums, filled up with zeros to whole groups. */
static void load(const struct run *run, const struct part *part, void *to, size_t row)
{
    const size_t rest = eco_attention_padded((size_t)part->some) - (size_t)part->some;
    for (int32_t i = 0; i < part->count; i++) {
        char *at = after(run, to, (size_t)i * row);
        eco_type_move(at, run->sum, (const char *)part->array + place_of(run, part, i),
                      run->problem->type, (size_t)part->some);
        memset(after(run, at, (size_t)part->some), 0, rest * run->sizes.number);
    }
}

static void store(const struct run *run, const struct part *part, const void *from, size_t row)
{
    for (int32_t i = 0; i < part->count; i++)
        eco_type_move((char *)(uintptr_t)part->array + place_of(run, part, i), run->problem->type,
                      after(run, from, (size_t)i * row), run->sum, (size_t)part->some);
}

/* ---- a block of queries ---------------------------------------------------------------------- */

/* What a thread has at hand: queries [t0, t0 + queries) of row n. */
struct block {
    const struct run *run;
    int32_t n, t0, queries, length;
    void *query, *near, *out; /* [QUERIES,COLUMNS] */
    void *rows;               /* [POSITIONS,COLUMNS] */
    void *vector;             /* [COLUMNS] */
    void *score;              /* [QUERIES,source] */
};

static struct block block_of(const struct run *run, int id, int32_t n, int32_t t0)
{
    const int32_t T = run->args->T;
    char *at = scratch_of_thread(run, id);
    struct block block = {.run = run,
                          .n = n,
                          .t0 = t0,
                          .queries = T - t0 < QUERIES ? T - t0 : QUERIES,
                          .length = eco_attention_length(run->args, n)};
    block.query = at;
    block.near = at = after(run, at, QUERIES * COLUMNS);
    block.out = at = after(run, at, QUERIES * COLUMNS);
    block.rows = at = after(run, at, QUERIES * COLUMNS);
    block.vector = at = after(run, at, POSITIONS * COLUMNS);
    block.score = after(run, at, COLUMNS);
    return block;
}

/* One block of columns of the scores: of additive ones tanh, else dot products. */
static void add_scores(const struct block *block, struct part query, struct part keys,
                       bool additive, double scale)
{
    const struct run *run = block->run;
    const struct eco_attention_kernels *kernels = run->kernels;
    const int32_t padded = (int32_t)eco_attention_padded((size_t)query.some);
    bool near = additive;
    load(run, &query, block->query, COLUMNS);
    for (int32_t i = 0; near && i < query.count; i++)
        near = kernels->is_near(after(run, block->query, (size_t)i * COLUMNS), (size_t)padded);
    for (int32_t i = 0; near && i < query.count; i++)
        kernels->exponentials(after(run, block->near, (size_t)i * COLUMNS),
                              after(run, block->query, (size_t)i * COLUMNS), (size_t)padded);
    struct eco_attention_scores call = {.keys = block->rows,
                                        .vector = block->vector,
                                        .row = COLUMNS,
                                        .score_row = run->sizes.source,
                                        .queries = query.count,
                                        .width = padded,
                                        .scale = scale};
    for (int32_t s = 0; s < block->length; s += POSITIONS) {
        bool both = near;
        keys.first = s;
        keys.count = block->length - s < POSITIONS ? block->length - s : POSITIONS;
        load(run, &keys, block->rows, COLUMNS);
        for (int32_t j = 0; both && j < keys.count; j++)
            both = kernels->is_near(after(run, block->rows, (size_t)j * COLUMNS), (size_t)padded);
        for (int32_t j = 0; both && j < keys.count; j++) {
            void *row = after(run, block->rows, (size_t)j * COLUMNS);
            kernels->exponentials(row, row, (size_t)padded);
        }
        call.query = both ? block->near : block->query;
        call.far = !both;
        call.positions = keys.count;
        call.score = after(run, block->score, (size_t)s);
        (additive ? kernels->additive : kernels->dots)(&call);
    }
}

/* score += of all columns; of rows [T,N,width] and [S,N,width]. */
static void find_scores(const struct block *block, const void *query, const void *keys,
                        int32_t width, bool additive, double scale)
{
    const struct run *run = block->run;
    const struct eco_attention_args *args = run->args;
    for (int32_t h = 0; h < width; h += COLUMNS) {
        const int32_t some = width - h < COLUMNS ? width - h : COLUMNS;
        const struct part of_query = {query,     args->T,        width, block->n,
                                      block->t0, block->queries, h,     some};
        const struct part of_keys = {keys, args->S, width, block->n, 0, 0, h, some};
        if (additive) {
            memset(block->vector, 0, COLUMNS * run->sizes.number);
            memcpy(block->vector, after(run, args->vector, (size_t)h),
                   (size_t)some * run->sizes.number);
        }
        add_scores(block, of_query, of_keys, additive, scale);
    }
}

/* to [T,N,width] = sum over positions of score times rows [S,N,width]. */
static void sum_positions(const struct block *block, const void *rows, void *to, int32_t width)
{
    const struct run *run = block->run;
    const struct eco_attention_args *args = run->args;
    for (int32_t h = 0; to != NULL && h < width; h += COLUMNS) {
        const int32_t some = width - h < COLUMNS ? width - h : COLUMNS;
        const struct part out = {to, args->T, width, block->n, block->t0, block->queries, h, some};
        struct part in = {rows, args->S, width, block->n, 0, 0, h, some};
        struct eco_attention_sum call = {.from = block->rows,
                                         .to = block->out,
                                         .weight_row = run->sizes.source,
                                         .weight_column = 1,
                                         .row = COLUMNS,
                                         .rows = block->queries,
                                         .width = (int32_t)eco_attention_padded((size_t)some)};
        memset(block->out, 0, (size_t)block->queries * COLUMNS * run->sizes.number);
        for (int32_t s = 0; s < block->length; s += POSITIONS) {
            in.first = s;
            in.count = block->length - s < POSITIONS ? block->length - s : POSITIONS;
            load(run, &in, block->rows, COLUMNS);
            call.weight = after(run, block->score, (size_t)s);
            call.count = in.count;
            run->kernels->sum(&call);
        }
        store(run, &out, block->out, COLUMNS);
    }
}

static void clear_scores(const struct block *block)
{
    memset(block->score, 0,
           (size_t)block->queries * block->run->sizes.source * block->run->sizes.number);
}

/* The weights of a query, in the reserve. */
static void *saved_row(const struct block *block, int32_t i)
{
    const struct eco_attention_args *args = block->run->args;
    const size_t row = (size_t)block->n * (size_t)args->T + (size_t)(block->t0 + i);
    return after(block->run, eco_attention_saved(args), row * (size_t)args->S);
}

static void keep_weights(const struct block *block)
{
    const struct run *run = block->run;
    const struct eco_attention_args *args = run->args;
    const size_t S = (size_t)args->S;
    const struct part out = {args->weights, args->T,        args->S, block->n,
                             block->t0,     block->queries, 0,       args->S};
    if (args->weights != NULL)
        store(run, &out, block->score, run->sizes.source);
    for (int32_t i = 0; args->reserve != NULL && i < block->queries; i++)
        memcpy(saved_row(block, i), after(run, block->score, (size_t)i * run->sizes.source),
               S * run->sizes.number);
}

static void forward_block(const struct run *run, int id, int32_t n, int32_t t0)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct block block = block_of(run, id, n, t0);
    clear_scores(&block);
    find_scores(&block, args->query, args->keys, problem->H, problem->score == ECORNN_ADDITIVE,
                (double)problem->scale);
    for (int32_t i = 0; i < block.queries; i++)
        run->kernels->softmax(after(run, block.score, (size_t)i * run->sizes.source), block.length);
    keep_weights(&block);
    sum_positions(&block, args->values, args->context, problem->V);
}

/* ---- back ------------------------------------------------------------------------------------ */

static char *dscore_row(const struct run *run, int32_t n, int32_t t)
{
    const size_t row = (size_t)n * (size_t)run->args->T + (size_t)t;
    return run->dscores + row * run->sizes.source * run->sizes.number;
}

static void scale_row(const struct run *run, void *row, size_t n)
{
    const double scale = (double)run->problem->scale;
    for (size_t j = 0; scale != 1 && j < n; j++)
        eco_type_set(row, j, run->sum, scale * eco_type_get(row, j, run->sum));
}

/* The gradient of the scores of a block of queries, from that of the weights. */
static void dscore_block(const struct run *run, int id, int32_t n, int32_t t0)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct block block = block_of(run, id, n, t0);
    const struct part of_weights = {args->dweights, args->T, args->S,     n, t0,
                                    block.queries,  0,       block.length};
    const size_t source = run->sizes.source;
    clear_scores(&block);
    if (args->dweights != NULL)
        load(run, &of_weights, block.score, source);
    if (args->dcontext != NULL)
        find_scores(&block, args->dcontext, args->values, problem->V, false, 1);
    for (int32_t i = 0; i < block.queries; i++) {
        char *to = dscore_row(run, n, t0 + i);
        memset(to, 0, source * run->sizes.number);
        memcpy(to, saved_row(&block, i), (size_t)block.length * run->sizes.number);
        char *row = after(run, block.score, (size_t)i * source);
        run->kernels->softmax_gradient(row, to, block.length);
        scale_row(run, row, (size_t)block.length);
        memcpy(to, row, source * run->sizes.number);
    }
    if (problem->score == ECORNN_DOT)
        sum_positions(&block, args->keys, args->dquery, problem->H);
}

/* to [S,N,width] of a block of positions = sum over queries of weight times rows [T,N,width]. */
struct across {
    const void *weight; /* of query 0, position 0 of the row of the batch */
    size_t weight_row;  /* from one query to the next */
    const void *rows;
    void *to;
    int32_t width;
};

static void sum_queries(const struct block *block, const struct across *across, int32_t s0,
                        int32_t positions)
{
    const struct run *run = block->run;
    const struct eco_attention_args *args = run->args;
    const int32_t live = block->length - s0 < positions ? block->length - s0 : positions;
    for (int32_t h = 0; across->to != NULL && h < across->width; h += COLUMNS) {
        const int32_t some = across->width - h < COLUMNS ? across->width - h : COLUMNS;
        const struct part out = {across->to, args->S, across->width, block->n, s0,
                                 positions,  h,       some};
        struct part in = {across->rows, args->T, across->width, block->n, 0, 0, h, some};
        struct eco_attention_sum call = {.from = block->query,
                                         .to = block->rows,
                                         .weight_row = 1,
                                         .weight_column = across->weight_row,
                                         .row = COLUMNS,
                                         .rows = live > 0 ? live : 0,
                                         .width = (int32_t)eco_attention_padded((size_t)some)};
        memset(block->rows, 0, (size_t)positions * COLUMNS * run->sizes.number);
        for (int32_t t = 0; across->rows != NULL && live > 0 && t < args->T; t += QUERIES) {
            in.first = t;
            in.count = args->T - t < QUERIES ? args->T - t : QUERIES;
            load(run, &in, block->query, COLUMNS);
            call.weight = after(run, across->weight, (size_t)t * across->weight_row + (size_t)s0);
            call.count = in.count;
            run->kernels->sum(&call);
        }
        store(run, &out, block->rows, COLUMNS);
    }
}

static void source_block(const struct run *run, int id, int32_t n, int32_t s0)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct block block = block_of(run, id, n, 0);
    const int32_t positions = args->S - s0 < POSITIONS ? args->S - s0 : POSITIONS;
    const struct across values = {saved_row(&block, 0), (size_t)args->S, args->dcontext,
                                  args->dvalues, problem->V};
    const struct across keys = {dscore_row(run, n, 0), run->sizes.source, args->query, args->dkeys,
                                problem->H};
    sum_queries(&block, &values, s0, positions);
    if (problem->score == ECORNN_DOT)
        sum_queries(&block, &keys, s0, positions);
}

/* ---- back, additive scores ------------------------------------------------------------------- */

/* rows[i,h] *= 4 vector[h] */
static void scale_rows(const struct run *run, void *rows, int32_t count, const struct part *columns)
{
    const size_t row = (size_t)run->sizes.gradient_columns;
    const char *vector = after(run, run->args->vector, (size_t)columns->column);
    for (int32_t i = 0; i < count; i++)
        run->kernels->scale(after(run, rows, (size_t)i * row), vector, columns->some, 4);
}

static void columns_block(const struct run *run, int id, int32_t n, int32_t h)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_kernels *kernels = run->kernels;
    const int32_t columns = run->sizes.gradient_columns, H = problem->H;
    const int32_t some = H - h < columns ? H - h : columns, length = eco_attention_length(args, n);
    const int32_t positions =
        (length + ECO_ATTENTION_POSITIONS - 1) / ECO_ATTENTION_POSITIONS * ECO_ATTENTION_POSITIONS;
    const size_t width = (size_t)columns, all = ((size_t)args->T + (size_t)positions) * width;
    char *rows = scratch_of_thread(run, id), *keys = after(run, rows, (size_t)args->T * width);
    char *drows = after(run, rows, all), *dkeys = after(run, drows, (size_t)args->T * width);
    char *dvector = after(run, drows, all);
    const struct part query = {args->query, args->T, H, n, 0, args->T, h, some};
    const struct part key = {args->keys, args->S, H, n, 0, length, h, some};
    memset(rows, 0, (2 * all + width) * run->sizes.number);
    load(run, &query, rows, width);
    load(run, &key, keys, width);
    const bool near = kernels->is_near(rows, all);
    if (near)
        kernels->exponentials(rows, rows, all);
    kernels->gradient(&(const struct eco_attention_gradient){.query = rows,
                                                             .keys = keys,
                                                             .dscore = dscore_row(run, n, 0),
                                                             .dquery = drows,
                                                             .dkeys = dkeys,
                                                             .dvector = dvector,
                                                             .dscore_row = run->sizes.source,
                                                             .queries = args->T,
                                                             .positions = positions,
                                                             .width = columns,
                                                             .far = !near});
    const size_t padded = eco_attention_padded((size_t)H);
    memcpy(after(run, run->dvector, (size_t)n * padded + (size_t)h), dvector,
           (size_t)some * run->sizes.number);
    scale_rows(run, drows, args->T, &query);
    scale_rows(run, dkeys, length, &query);
    struct part out = query;
    out.array = args->dquery;
    if (args->dquery != NULL)
        store(run, &out, drows, width);
    out = key;
    out.array = args->dkeys;
    if (args->dkeys != NULL)
        store(run, &out, dkeys, width);
    out.first = length;
    out.count = args->S - length;
    for (int32_t i = 0; args->dkeys != NULL && i < out.count; i++)
        memset((char *)(uintptr_t)out.array + place_of(run, &out, i), 0,
               (size_t)some * eco_type_bytes(problem->type));
}

/* A block of columns of dvector: the sum over the batch, in double. */
static void vector_block(const struct run *run, int id, int32_t n, int32_t h)
{
    const struct eco_attention_args *args = run->args;
    const int32_t H = run->problem->H, end = H - h < COLUMNS ? H : h + COLUMNS;
    const size_t padded = eco_attention_padded((size_t)H);
    (void)id;
    (void)n;
    for (size_t i = (size_t)h; i < (size_t)end; i++) {
        double sum = 0;
        for (size_t row = 0; row < (size_t)args->N; row++)
            sum += eco_type_get(run->dvector, row * padded + i, run->sum);
        if (args->accumulate)
            sum += eco_type_get(args->dvector, i, run->sum);
        eco_type_set(args->dvector, i, run->sum, sum);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Jobs: for each of `rows` of the batch blocks of so many of `count`. */
struct pass {
    const struct run *run;
    void (*job)(const struct run *run, int id, int32_t n, int32_t first);
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

/* Below so many elements for each, threads are not awoken. */
enum { ELEMENTS_OF_A_THREAD = 1 << 17 };

static int threads_for(const struct run *run, int threads)
{
    const struct eco_attention_args *args = run->args;
    const double width = (double)run->problem->H + (double)run->problem->V;
    const double elements = (double)args->T * (double)args->S * (double)args->N * width;
    const double worth = 1 + elements / ELEMENTS_OF_A_THREAD;
    return worth < threads ? (int)worth : threads;
}

static ecornn_status run_attention(const struct ecornn_attention_plan *plan,
                                   const struct eco_attention_args *args)
{
    const struct eco_attention *problem = &plan->problem;
    const struct eco_cpu *cpu = plan->device->own;
    const bool additive = problem->score == ECORNN_ADDITIVE;
    struct run run = {.problem = problem,
                      .args = args,
                      .kernels =
                          problem->type == ECORNN_F64 ? &eco_attention_f64 : cpu->isa->attention,
                      .sum = eco_type_sum(problem->type)};
    find_sizes(problem, &plan->device->caps, args, &run.sizes);
    run.dscores = (char *)args->workspace + (size_t)plan->device->caps.threads * run.sizes.scratch;
    if (args->backward)
        run.dvector = run.dscores + dscores_of(args, &run.sizes).value;
    const int threads = threads_for(&run, cpu->threads);
    struct pass queries = {&run, args->backward ? dscore_block : forward_block, args->N, args->T,
                           QUERIES};
    eco_cpu_together(threads, do_jobs, &queries);
    if (!args->backward)
        return ECORNN_OK;
    struct pass source = {&run, source_block, args->N, args->S, POSITIONS};
    struct pass columns = {&run, columns_block, args->N, problem->H, run.sizes.gradient_columns};
    struct pass vector = {&run, vector_block, 1, problem->H, COLUMNS};
    eco_cpu_together(threads, do_jobs, &source);
    if (additive && (args->dquery != NULL || args->dkeys != NULL || args->dvector != NULL))
        eco_cpu_together(threads, do_jobs, &columns);
    if (args->dvector != NULL)
        eco_cpu_together(threads, do_jobs, &vector);
    return ECORNN_OK;
}

static const char *refuses(const struct eco_attention *problem, const struct eco_caps *caps)
{
    (void)problem;
    (void)caps;
    return NULL;
}

static void describe(const struct ecornn_attention_plan *plan, struct eco_text *text)
{
    struct sizes sizes;
    const struct eco_attention *problem = &plan->problem;
    const struct eco_attention_args args = {
        .T = problem->T, .S = problem->S, .N = problem->N, .backward = problem->training};
    find_sizes(problem, &plan->device->caps, &args, &sizes);
    eco_text_add(text, "blocks of %d queries and %d positions, %zu bytes for each thread\n",
                 QUERIES, POSITIONS, sizes.scratch);
    if (problem->training && problem->score == ECORNN_ADDITIVE)
        eco_text_add(text, "backward by blocks of %d columns\n", sizes.gradient_columns);
}

const struct eco_attention_backend eco_cpu_attention = {
    .refuses = refuses, .workspace = workspace, .run = run_attention, .describe = describe};
