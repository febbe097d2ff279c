/*
 * Memory for one call of a pointwise kernel: every array a stage of any cell may use, filled with
 * the same numbers each time it is made, NaN between the rows.  For test_kernels.c.
 */
#ifndef ECO_STAGE_H
#define ECO_STAGE_H

#include "cpu/isa/isa.h"

enum { STAGE_ROWS = 3, STAGE_PAD = 5, STAGE_BYTES = 1 << 20 };

/* A stage, and the options of a call. */
struct stage {
    const struct ecornn_cell *cell;
    bool backward;
    int index;
    int32_t hidden;
    size_t element; /* sizeof(float) or sizeof(double) */
    bool projected, training, with_y, in_place;
    const int32_t *order; /* [STAGE_ROWS] */
};

struct stage_memory {
    struct eco_pointwise call;
    size_t used; /* bytes of data */
    size_t element;
    _Alignas(64) unsigned char data[STAGE_BYTES];
};

/* Allocated by malloc. Its call is complete; the step is 3. */
struct stage_memory *stage_memory_new(const struct stage *stage);
/* Element j of a row of an array; row_stride: elements from row to row. */
double stage_get(const struct stage *stage, const void *base, size_t row_stride, int row, size_t j);
/* The kernel of the stage: compiled in, or the interpreter. */
eco_pointwise_kernel stage_kernel(const struct stage *stage, const struct eco_isa *isa,
                                  bool interpreted);
/* The number of forward or of backward stages. */
int stage_count(const struct ecornn_cell *cell, bool backward);
/* The same bits in both memories, but any NaN for any other?  Else prints where they differ first.
 */
bool stage_same(const struct stage_memory *a, const struct stage_memory *b);

#endif /* ECO_STAGE_H */
