/*
 * A block of queries of a batch row: scores, softmax, context.
 */
#include "cpu/attention/run.h"

#include <string.h>

struct eco_attention_block eco_attention_block_of(const struct eco_attention_run *run, int id,
                                                  int32_t n, int32_t t0)
{
    const int32_t T = run->args->T;
    char *at = eco_attention_scratch(run, id);
    struct eco_attention_block block = {.run = run,
                                        .n = n,
                                        .t0 = t0,
                                        .queries =
                                            T - t0 < ECO_QUERIES_BLOCK ? T - t0 : ECO_QUERIES_BLOCK,
                                        .length = eco_attention_length(run->args, n)};
    block.query = at;
    block.in_range = at = eco_attention_after(run, at, ECO_QUERIES_BLOCK * ECO_COLUMNS_BLOCK);
    block.out = at = eco_attention_after(run, at, ECO_QUERIES_BLOCK * ECO_COLUMNS_BLOCK);
    block.rows = at = eco_attention_after(run, at, ECO_QUERIES_BLOCK * ECO_COLUMNS_BLOCK);
    block.vector = at = eco_attention_after(run, at, ECO_POSITIONS_BLOCK * ECO_COLUMNS_BLOCK);
    block.score = eco_attention_after(run, at, ECO_COLUMNS_BLOCK);
    return block;
}

/* One block of columns of the scores: additive scores, or dot products of dcontext and values. */
static void add_scores(const struct eco_attention_block *block, struct eco_attention_part query,
                       struct eco_attention_part keys, bool additive)
{
    const struct eco_attention_run *run = block->run;
    const struct eco_attention_kernels *kernels = run->kernels;
    const int32_t padded = (int32_t)eco_attention_padded((size_t)query.some);
    bool in_range = additive;
    eco_attention_load(run, &query, block->query, ECO_COLUMNS_BLOCK);
    for (int32_t i = 0; in_range && i < query.count; i++)
        in_range = kernels->is_in_range(
            eco_attention_after(run, block->query, (size_t)i * ECO_COLUMNS_BLOCK), (size_t)padded);
    for (int32_t i = 0; in_range && i < query.count; i++)
        kernels->exponentials(
            eco_attention_after(run, block->in_range, (size_t)i * ECO_COLUMNS_BLOCK),
            eco_attention_after(run, block->query, (size_t)i * ECO_COLUMNS_BLOCK), (size_t)padded);
    struct eco_attention_scores call = {.keys = block->rows,
                                        .vector = block->vector,
                                        .row = ECO_COLUMNS_BLOCK,
                                        .score_row = run->sizes.source,
                                        .queries = query.count,
                                        .width = padded};
    for (int32_t s = 0; s < block->length; s += ECO_POSITIONS_BLOCK) {
        bool both = in_range;
        keys.first = s;
        keys.count =
            block->length - s < ECO_POSITIONS_BLOCK ? block->length - s : ECO_POSITIONS_BLOCK;
        eco_attention_load(run, &keys, block->rows, ECO_COLUMNS_BLOCK);
        for (int32_t j = 0; both && j < keys.count; j++)
            both = kernels->is_in_range(
                eco_attention_after(run, block->rows, (size_t)j * ECO_COLUMNS_BLOCK),
                (size_t)padded);
        for (int32_t j = 0; both && j < keys.count; j++) {
            void *row = eco_attention_after(run, block->rows, (size_t)j * ECO_COLUMNS_BLOCK);
            kernels->exponentials(row, row, (size_t)padded);
        }
        call.query = both ? block->in_range : block->query;
        call.out_of_range = !both;
        call.positions = keys.count;
        call.score = eco_attention_after(run, block->score, (size_t)s);
        (additive ? kernels->additive : kernels->dots)(&call);
    }
}

void eco_attention_find_scores(const struct eco_attention_block *block, const void *query,
                               const void *keys, int32_t width, bool additive)
{
    const struct eco_attention_run *run = block->run;
    const struct eco_attention_args *args = run->args;
    for (int32_t h = 0; h < width; h += ECO_COLUMNS_BLOCK) {
        const int32_t some = width - h < ECO_COLUMNS_BLOCK ? width - h : ECO_COLUMNS_BLOCK;
        const struct eco_attention_part of_query = {query,     args->T,        width, block->n,
                                                    block->t0, block->queries, h,     some};
        const struct eco_attention_part of_keys = {keys, args->S, width, block->n, 0, 0, h, some};
        if (additive) {
            memset(block->vector, 0, ECO_COLUMNS_BLOCK * run->sizes.number);
            memcpy(block->vector, eco_attention_after(run, args->vector, (size_t)h),
                   (size_t)some * run->sizes.number);
        }
        add_scores(block, of_query, of_keys, additive);
    }
}

void eco_attention_sum_positions(const struct eco_attention_block *block, const void *rows,
                                 void *to, int32_t width)
{
    const struct eco_attention_run *run = block->run;
    const struct eco_attention_args *args = run->args;
    for (int32_t h = 0; to != NULL && h < width; h += ECO_COLUMNS_BLOCK) {
        const int32_t some = width - h < ECO_COLUMNS_BLOCK ? width - h : ECO_COLUMNS_BLOCK;
        const struct eco_attention_part out = {to,        args->T,        width, block->n,
                                               block->t0, block->queries, h,     some};
        struct eco_attention_part in = {rows, args->S, width, block->n, 0, 0, h, some};
        struct eco_attention_sum call = {.from = block->rows,
                                         .to = block->out,
                                         .weight_row = run->sizes.source,
                                         .weight_column = 1,
                                         .row = ECO_COLUMNS_BLOCK,
                                         .rows = block->queries,
                                         .width = (int32_t)eco_attention_padded((size_t)some)};
        memset(block->out, 0, (size_t)block->queries * ECO_COLUMNS_BLOCK * run->sizes.number);
        for (int32_t s = 0; s < block->length; s += ECO_POSITIONS_BLOCK) {
            in.first = s;
            in.count =
                block->length - s < ECO_POSITIONS_BLOCK ? block->length - s : ECO_POSITIONS_BLOCK;
            eco_attention_load(run, &in, block->rows, ECO_COLUMNS_BLOCK);
            call.weight = eco_attention_after(run, block->score, (size_t)s);
            call.count = in.count;
            run->kernels->sum(&call);
        }
        eco_attention_store(run, &out, block->out, ECO_COLUMNS_BLOCK);
    }
}

void eco_attention_clear_scores(const struct eco_attention_block *block)
{
    memset(block->score, 0,
           (size_t)block->queries * block->run->sizes.source * block->run->sizes.number);
}

void *eco_attention_saved_row(const struct eco_attention_block *block, int32_t i)
{
    const struct eco_attention_args *args = block->run->args;
    const size_t row = (size_t)block->n * (size_t)args->T + (size_t)(block->t0 + i);
    return eco_attention_after(block->run, eco_attention_saved(args), row * (size_t)args->S);
}

static void keep_weights(const struct eco_attention_block *block)
{
    const struct eco_attention_run *run = block->run;
    const struct eco_attention_args *args = run->args;
    const size_t S = (size_t)args->S;
    const struct eco_attention_part out = {args->weights, args->T,        args->S, block->n,
                                           block->t0,     block->queries, 0,       args->S};
    if (args->weights != NULL)
        eco_attention_store(run, &out, block->score, run->sizes.source);
    for (int32_t i = 0; args->reserve != NULL && i < block->queries; i++)
        memcpy(eco_attention_saved_row(block, i),
               eco_attention_after(run, block->score, (size_t)i * run->sizes.source),
               S * run->sizes.number);
}

void eco_attention_forward_block(const struct eco_attention_run *run, int id, int32_t n, int32_t t0)
{
    const struct eco_attention *problem = run->problem;
    const struct eco_attention_args *args = run->args;
    const struct eco_attention_block block = eco_attention_block_of(run, id, n, t0);
    eco_attention_clear_scores(&block);
    eco_attention_find_scores(&block, args->query, args->keys, problem->H, true);
    for (int32_t i = 0; i < block.queries; i++)
        run->kernels->softmax(eco_attention_after(run, block.score, (size_t)i * run->sizes.source),
                              block.length);
    keep_weights(&block);
    eco_attention_sum_positions(&block, args->values, args->context, problem->V);
}
