/*
 * A run of attention on the CPU, as the files of this folder see it: what it needs of memory, rows
 * of the caller's arrays as numbers of sums, and the jobs that its passes are made of.
 */
#ifndef ECO_CPU_ATTENTION_RUN_H
#define ECO_CPU_ATTENTION_RUN_H

#include "common/backend.h"
#include "cpu/attention/attention.h"

/* Of blocks: queries and positions, and columns at a time, whose rows stay in a second-level
 * cache. */
enum { ECO_QUERIES_BLOCK = 32, ECO_POSITIONS_BLOCK = 64, ECO_COLUMNS_BLOCK = 256 };

struct eco_attention_sizes {
    size_t number;  /* bytes of a number of sums */
    size_t source;  /* numbers of a row of scores */
    size_t scratch; /* bytes of a thread */
    int32_t gradient_columns;
};

struct eco_attention_run {
    const struct eco_attention *problem;
    const struct eco_attention_args *args;
    const struct eco_attention_kernels *kernels;
    struct eco_attention_sizes sizes;
    ecornn_type sum;
    char *dscores; /* [N,T,source], of dot products times their scale */
    char *dvector; /* [N,H filled up]: of each row of the batch */
};

static inline void *eco_attention_after(const struct eco_attention_run *run, const void *p,
                                        size_t elements)
{
    return (char *)(uintptr_t)p + elements * run->sizes.number;
}

static inline char *eco_attention_scratch(const struct eco_attention_run *run, int id)
{
    return (char *)run->args->workspace + (size_t)id * run->sizes.scratch;
}

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Bytes of a run's workspace, and what they are made of; those of dscores. */
struct eco_size eco_attention_find_sizes(const struct eco_attention *problem,
                                         const struct eco_caps *caps,
                                         const struct eco_attention_args *args,
                                         struct eco_attention_sizes *sizes);
struct eco_size eco_attention_dscores(const struct eco_attention_args *args,
                                      const struct eco_attention_sizes *sizes);

/* Rows [first, first + count) of n of an array [steps,N,width] of the caller's, `some` columns from
 * `column` on. */
struct eco_attention_part {
    const void *array;
    int32_t steps, width, n, first, count, column, some;
};

/* Bytes before row i of a part. */
size_t eco_attention_place(const struct eco_attention_run *run,
                           const struct eco_attention_part *part, int32_t i);
/* To [count,row] numbers of sums, filled up with zeros to whole groups; and back. */
void eco_attention_load(const struct eco_attention_run *run, const struct eco_attention_part *part,
                        void *to, size_t row);
void eco_attention_store(const struct eco_attention_run *run, const struct eco_attention_part *part,
                         const void *from, size_t row);

/* ---- queries.c ------------------------------------------------------------------------------- */

/* What a thread has at hand: queries [t0, t0 + queries) of row n. */
struct eco_attention_block {
    const struct eco_attention_run *run;
    int32_t n, t0, queries, length;
    void *query, *near, *out; /* [ECO_QUERIES_BLOCK,ECO_COLUMNS_BLOCK] */
    void *rows;               /* [ECO_POSITIONS_BLOCK,ECO_COLUMNS_BLOCK] */
    void *vector;             /* [ECO_COLUMNS_BLOCK] */
    void *score;              /* [ECO_QUERIES_BLOCK,source] */
};

struct eco_attention_block eco_attention_block_of(const struct eco_attention_run *run, int id,
                                                  int32_t n, int32_t t0);
void eco_attention_clear_scores(const struct eco_attention_block *block);
/* score += of all columns; of rows [T,N,width] and [S,N,width]. */
void eco_attention_find_scores(const struct eco_attention_block *block, const void *query,
                               const void *keys, int32_t width, bool additive, double scale);
/* to [T,N,width] = sum over positions of score times rows [S,N,width]. */
void eco_attention_sum_positions(const struct eco_attention_block *block, const void *rows,
                                 void *to, int32_t width);
/* The weights of a query, in the reserve. */
void *eco_attention_saved_row(const struct eco_attention_block *block, int32_t i);

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Of thread `id`, for row n of the batch, from query, position or column `first` on.
 * queries.c: a block of queries: scores, softmax, context */
void eco_attention_forward_block(const struct eco_attention_run *run, int id, int32_t n,
                                 int32_t first);
/* gradient.c, back: the same block: gradient of the scores, from the weights that forward kept */
void eco_attention_dscore_block(const struct eco_attention_run *run, int id, int32_t n,
                                int32_t first);
/* a block of positions: dvalues; of dot products dkeys */
void eco_attention_source_block(const struct eco_attention_run *run, int id, int32_t n,
                                int32_t first);
/* additive: a block of columns of a row of the batch: dquery, dkeys, its part of dvector */
void eco_attention_columns_block(const struct eco_attention_run *run, int id, int32_t n,
                                 int32_t first);
/* additive: a block of columns: dvector, over the batch in order */
void eco_attention_vector_block(const struct eco_attention_run *run, int id, int32_t n,
                                int32_t first);

#endif /* ECO_CPU_ATTENTION_RUN_H */
