/*
 * A division of algorithm persistent: how a kernel's blocks share the rows of R and the batch, and
 * the memory that takes.  Follows from sizes and the kernel's index; chooses nothing.
 */
#ifndef ECO_GPU_PERSISTENT_DIVISION_H
#define ECO_GPU_PERSISTENT_DIVISION_H

#include "common/util.h"
#include "gpu/persistent/need.h"

enum { ECO_PERSISTENT_MOST_PARTS = 128 }; /* partial sums of a mean, four for each lane */
enum { ECO_PERSISTENT_PIECE_BYTES = 16 }; /* that a thread exchanges at a time */

static inline int32_t eco_persistent_row_tiles(const struct eco_persistent_shape *shape)
{
    return eco_ceil_div(shape->group_rows, ECO_PERSISTENT_N);
}

static inline int32_t eco_persistent_pairs(const struct eco_persistent_shape *shape)
{
    const int32_t rows = ECO_PERSISTENT_THREADS >> shape->unit_shift; /* batch rows at once */
    return eco_ceil_div(eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N, rows) *
           ECO_PERSISTENT_THREADS;
}

/* Partial sums of a row's sum: one for each block, or for each 32 units of it. */
int32_t eco_persistent_parts(const struct eco_persistent_shape *shape);

/* Numbers in a scale block of product o. */
static inline int32_t eco_persistent_bundle(const struct eco_persistent_need *need, int o,
                                            const struct eco_persistent_shape *shape)
{
    return eco_persistent_scale_block(eco_persistent_runs(need, o), shape->unit_shift,
                                      ECO_PERSISTENT_BYTES / need->operand, need->backward);
}

/* Rows of R for each unit of a block. */
static inline int32_t eco_persistent_row_groups(const struct eco_persistent_need *need, int o)
{
    return need->backward ? 1 : need->recurrent[o];
}

/* Sets shape->members; returns how many groups fit on the device. */
int32_t eco_persistent_most_groups(const struct eco_persistent_need *need,
                                   struct eco_persistent_shape *shape);
/* Divides all products, given the groups and their rows; false if they do not fit. */
bool eco_persistent_divide_groups(const struct eco_persistent_need *need,
                                  struct eco_persistent_shape *shape);
/* Divides need->rows rows for the kernel with that index; false if they do not fit. */
bool eco_persistent_divide(const struct eco_persistent_need *need, int place,
                           struct eco_persistent_shape *shape);
/* Bytes at the end of the exchange for words that say which rows restart: no fewer than [(steps +
 * 2) / 32, rounded up, rows]. */
size_t eco_persistent_reset_bytes(const struct eco_persistent_need *need,
                                  const struct eco_persistent_shape *shape);
/* Vectors of 16 bytes that a group exchanges in a step for means: a sum for each 32 units. */
int32_t eco_persistent_means(const struct eco_persistent_need *need,
                             const struct eco_persistent_shape *shape);

#endif /* ECO_GPU_PERSISTENT_DIVISION_H */
