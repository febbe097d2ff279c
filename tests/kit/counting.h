/*
 * An instruction set whose kernels note that they ran and then call the real ones. It shows which
 * kernels of every table are used by runs.
 */
#ifndef ECO_TESTS_COUNTING_H
#define ECO_TESTS_COUNTING_H

#include "cpu/isa/isa.h"

/* Sizes of tables. */
enum {
    COUNTED_ROWS = 2 * ECO_NARROW_TALL,
    COUNTED_CELLS = 16,
    COUNTED_STAGES = 2 * ECO_MAX_STAGES + 2 /* of scans, forward and back */
};
enum product { TILE, NARROW, DOT, AMX, SPLIT, PRODUCTS };
enum passes { F32, F64, BF16, PASSES };
enum row_kernel {
    TILE_COPY,
    WIDEN,
    ROUND,
    ROUND_ADDED,
    PARTS,
    PAIR_VECTOR,
    PAIR_BLOCK,
    ROW_KERNELS
};

/* The kernels of a set that ran. */
struct kernel_table {
    bool has[PRODUCTS], has_pairs;
    bool product[PRODUCTS][ECO_TILE_VECTORS][COUNTED_ROWS];  /* by vectors, rows less one */
    bool strip[PRODUCTS][ECO_TILE_VECTORS][ECO_ROW_VECTORS]; /* by vectors, panels less one */
    bool stage[PASSES][COUNTED_CELLS][COUNTED_STAGES]; /* built-in cells, forward and backward */
    bool interpreted[PASSES][2], columns[PASSES];
    bool row[ROW_KERNELS];
};

/* A set like isa that counts in a table; valid until the next call. */
const struct eco_isa *counting_set(const struct eco_isa *isa, struct kernel_table *table);
/* A kernel of a set, or NULL; the passes for a type. */
const struct eco_tile_kernel *product_of(const struct eco_isa *isa, enum product which);
const struct eco_pointwise_kernels *passes_of(const struct eco_isa *isa, enum passes which);

struct count {
    int n, all;
};
/* How many kernels of a table ran, and how many there are. */
struct count products_counted(const struct kernel_table *t, const struct eco_isa *isa,
                              enum product which);
struct count passes_counted(const struct kernel_table *t, enum passes which);
struct count rows_counted(const struct kernel_table *t);
void count_one(struct count *c, bool one);

#endif /* ECO_TESTS_COUNTING_H */
