/*
 * A run of attention on the CPU, for the files of this folder: its memory, the caller's rows in the
 * type of sums, and the jobs of its passes.
 */
#ifndef ECO_CPU_ATTENTION_RUN_H
#define ECO_CPU_ATTENTION_RUN_H

#include "common/backend.h"
#include "cpu/attention/attention.h"

/* Queries, positions and columns of a block, whose rows stay in a second-level cache. */
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
    char *dscores; /* [N,T,source] */
    char *dvector; /* [N,padded H]: of each batch row */
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

/* Bytes of a run's workspace and of its parts; bytes of dscores. */
struct eco_size eco_attention_find_sizes(const struct eco_attention *problem,
                                         const struct eco_caps *caps,
                                         const struct eco_attention_args *args,
                                         struct eco_attention_sizes *sizes);
struct eco_size eco_attention_dscores(const struct eco_attention_args *args,
                                      const struct eco_attention_sizes *sizes);

/* Rows [first, first + count) of n in [steps,N,width], `some` columns from `column` on. */
struct eco_attention_part {
    const void *array;
    int32_t steps, width, n, first, count, column, some;
};

/* Bytes before row i of a part. */
size_t eco_attention_place(const struct eco_attention_run *run,
                           const struct eco_attention_part *part, int32_t i);
/* Converts to [count,row] numbers of sums, zero-padded to whole groups; and back. */
void eco_attention_load(const struct eco_attention_run *run, const struct eco_attention_part *part,
                        void *to, size_t row);
void eco_attention_store(const struct eco_attention_run *run, const struct eco_attention_part *part,
                         const void *from, size_t row);

/* ---- queries.c ------------------------------------------------------------------------------- */

/* The data of a thread: queries [t0, t0 + queries) of row n. */
struct eco_attention_block {
    const struct eco_attention_run *run;
    int32_t n, t0, queries, length;
    void *query, *in_range, *out; /* [ECO_QUERIES_BLOCK,ECO_COLUMNS_BLOCK] */
    void *rows;                   /* [ECO_POSITIONS_BLOCK,ECO_COLUMNS_BLOCK] */
    void *vector;                 /* [ECO_COLUMNS_BLOCK] */
    void *score;                  /* [ECO_QUERIES_BLOCK,source] */
};

struct eco_attention_block eco_attention_block_of(const struct eco_attention_run *run, int id,
                                                  int32_t n, int32_t t0);
void eco_attention_clear_scores(const struct eco_attention_block *block);
/* Adds to score over all columns, for rows [T,N,width] and [S,N,width]. */
void eco_attention_find_scores(const struct eco_attention_block *block, const void *query,
                               const void *keys, int32_t width, bool additive);
/* to [T,N,width] = sum over positions of score times rows [S,N,width]. */
void eco_attention_sum_positions(const struct eco_attention_block *block, const void *rows,
                                 void *to, int32_t width);
/* The weights of a query, in the reserve. */
void *eco_attention_saved_row(const struct eco_attention_block *block, int32_t i);

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Jobs of thread `id`, for batch row n, from query, position or column `first` on. queries.c: a
 * block of queries: scores, softmax, context */
void eco_attention_forward_block(const struct eco_attention_run *run, int id, int32_t n,
                                 int32_t first);
/* gradient.c, backward: the same block: gradient of the scores, from forward's weights */
void eco_attention_dscore_block(const struct eco_attention_run *run, int id, int32_t n,
                                int32_t first);
/* a block of positions: dvalues */
void eco_attention_source_block(const struct eco_attention_run *run, int id, int32_t n,
                                int32_t first);
/* a block of columns of a batch row: dquery, dkeys, its part of dvector */
void eco_attention_columns_block(const struct eco_attention_run *run, int id, int32_t n,
                                 int32_t first);
/* a block of columns: dvector, over the batch in order */
void eco_attention_vector_block(const struct eco_attention_run *run, int id, int32_t n,
                                int32_t first);

#endif /* ECO_CPU_ATTENTION_RUN_H */
