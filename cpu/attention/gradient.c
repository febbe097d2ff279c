/*
 * The backward jobs: of queries, of positions and of columns.
 */
#include "cpu/attention/run.h"

#include <string.h>

static char *dscore_row(const struct eco_attention_run *run, int32_t n, int32_t t)
{
    const size_t row = (size_t)n * (size_t)run->args->T + (size_t)t;
    return run->dscores + row * run->sizes.source * run->sizes.number;
}

void eco_attention_dscore_block(const struct eco_attention_run *run, int id, int32_t n, int32_t t0)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_block block = eco_attention_block_of(run, id, n, t0);
    const struct eco_attention_part of_weights = {args->dweights, args->T, args->S,     n, t0,
                                                  block.queries,  0,       block.length};
    const size_t source = run->sizes.source;
    eco_attention_clear_scores(&block);
    if (args->dweights != NULL)
        eco_attention_load(run, &of_weights, block.score, source);
    if (args->dcontext != NULL)
        eco_attention_find_scores(&block, args->dcontext, args->values, problem->V, false);
    for (int32_t i = 0; i < block.queries; i++) {
        char *to = dscore_row(run, n, t0 + i);
        memset(to, 0, source * run->sizes.number);
        memcpy(to, eco_attention_saved_row(&block, i), (size_t)block.length * run->sizes.number);
        char *row = eco_attention_after(run, block.score, (size_t)i * source);
        run->kernels->softmax_gradient(row, to, block.length);
        memcpy(to, row, source * run->sizes.number);
    }
}

/* to [S,N,width] for a block of positions = sum over queries of weight times rows [T,N,width]. */
struct across {
    const void *weight; /* of query 0, position 0 of the batch row */
    size_t weight_row;  /* from one query to the next */
    const void *rows;
    void *to;
    int32_t width;
};

static void sum_queries(const struct eco_attention_block *block, const struct across *across,
                        int32_t s0, int32_t positions)
{
    const struct eco_attention_run *run = block->run;
    const struct eco_attention_args *args = run->args;
    const int32_t live = block->length - s0 < positions ? block->length - s0 : positions;
    for (int32_t h = 0; across->to != NULL && h < across->width; h += ECO_COLUMNS_BLOCK) {
        const int32_t some =
            across->width - h < ECO_COLUMNS_BLOCK ? across->width - h : ECO_COLUMNS_BLOCK;
        const struct eco_attention_part out = {across->to, args->S, across->width, block->n, s0,
                                               positions,  h,       some};
        struct eco_attention_part in = {across->rows, args->T, across->width, block->n, 0, 0, h,
                                        some};
        struct eco_attention_sum call = {.from = block->query,
                                         .to = block->rows,
                                         .weight_row = 1,
                                         .weight_column = across->weight_row,
                                         .row = ECO_COLUMNS_BLOCK,
                                         .rows = live > 0 ? live : 0,
                                         .width = (int32_t)eco_attention_padded((size_t)some)};
        memset(block->rows, 0, (size_t)positions * ECO_COLUMNS_BLOCK * run->sizes.number);
        for (int32_t t = 0; across->rows != NULL && live > 0 && t < args->T;
             t += ECO_QUERIES_BLOCK) {
            in.first = t;
            in.count = args->T - t < ECO_QUERIES_BLOCK ? args->T - t : ECO_QUERIES_BLOCK;
            eco_attention_load(run, &in, block->query, ECO_COLUMNS_BLOCK);
            call.weight = eco_attention_after(run, across->weight,
                                              (size_t)t * across->weight_row + (size_t)s0);
            call.count = in.count;
            run->kernels->sum(&call);
        }
        eco_attention_store(run, &out, block->rows, ECO_COLUMNS_BLOCK);
    }
}

void eco_attention_source_block(const struct eco_attention_run *run, int id, int32_t n, int32_t s0)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_block block = eco_attention_block_of(run, id, n, 0);
    const int32_t positions =
        args->S - s0 < ECO_POSITIONS_BLOCK ? args->S - s0 : ECO_POSITIONS_BLOCK;
    const struct across values = {eco_attention_saved_row(&block, 0), (size_t)args->S,
                                  args->dcontext, args->dvalues, problem->V};
    sum_queries(&block, &values, s0, positions);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* rows[i,h] *= 4 vector[h] */
static void scale_rows(const struct eco_attention_run *run, void *rows, int32_t count,
                       const struct eco_attention_part *columns)
{
    const size_t row = (size_t)run->sizes.gradient_columns;
    const char *vector = eco_attention_after(run, run->args->vector, (size_t)columns->column);
    for (int32_t i = 0; i < count; i++)
        run->kernels->scale(eco_attention_after(run, rows, (size_t)i * row), vector, columns->some,
                            4);
}

void eco_attention_columns_block(const struct eco_attention_run *run, int id, int32_t n, int32_t h)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_kernels *kernels = run->kernels;
    const int32_t columns = run->sizes.gradient_columns, H = problem->H;
    const int32_t some = H - h < columns ? H - h : columns, length = eco_attention_length(args, n);
    const int32_t positions =
        (length + ECO_ATTENTION_POSITIONS - 1) / ECO_ATTENTION_POSITIONS * ECO_ATTENTION_POSITIONS;
    const size_t width = (size_t)columns, all = ((size_t)args->T + (size_t)positions) * width;
    char *rows = eco_attention_scratch(run, id),
         *keys = eco_attention_after(run, rows, (size_t)args->T * width);
    char *drows = eco_attention_after(run, rows, all),
         *dkeys = eco_attention_after(run, drows, (size_t)args->T * width);
    char *dvector = eco_attention_after(run, drows, all);
    const struct eco_attention_part query = {args->query, args->T, H, n, 0, args->T, h, some};
    const struct eco_attention_part key = {args->keys, args->S, H, n, 0, length, h, some};
    memset(rows, 0, (2 * all + width) * run->sizes.number);
    eco_attention_load(run, &query, rows, width);
    eco_attention_load(run, &key, keys, width);
    const bool in_range = kernels->is_in_range(rows, all);
    if (in_range)
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
                                                             .out_of_range = !in_range});
    const size_t padded = eco_attention_padded((size_t)H);
    memcpy(eco_attention_after(run, run->dvector, (size_t)n * padded + (size_t)h), dvector,
           (size_t)some * run->sizes.number);
    scale_rows(run, drows, args->T, &query);
    scale_rows(run, dkeys, length, &query);
    struct eco_attention_part out = query;
    out.array = args->dquery;
    if (args->dquery != NULL)
        eco_attention_store(run, &out, drows, width);
    out = key;
    out.array = args->dkeys;
    if (args->dkeys != NULL)
        eco_attention_store(run, &out, dkeys, width);
    out.first = length;
    out.count = args->S - length;
    for (int32_t i = 0; args->dkeys != NULL && i < out.count; i++)
        memset((char *)(uintptr_t)out.array + eco_attention_place(run, &out, i), 0,
               (size_t)some * eco_type_bytes(problem->type));
}

/* A block of columns of dvector: the sum over the batch, in double. */
void eco_attention_vector_block(const struct eco_attention_run *run, int id, int32_t n, int32_t h)
{
    const struct eco_attention_args *args = run->args;
    const int32_t H = run->problem->H, end = H - h < ECO_COLUMNS_BLOCK ? H : h + ECO_COLUMNS_BLOCK;
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
