/*
 * The calls between a run of a cell with a matrix state and its kernels, which are compiled once
 * for each instruction set.  All numbers have the type of sums: float or double.
 *
 * A head has a state S [K,V].  One step is
 *
 *     u = S^T b    d = v + scale u    S' = (w on the rows of S) + k d^T + a u^T    o = S'^T q
 *
 * Every rule of doc/cells.md, "Matrix states", has this form.  Columns of S never meet, so a kernel
 * takes all steps of a chunk over a block of columns, which stays in the first-level cache; S
 * leaves it once a chunk.
 */
#ifndef ECO_CPU_MATRIX_H
#define ECO_CPU_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of a block; rows of keys and of values are zero-padded to multiples of them. */
enum { ECO_MATRIX_COLUMNS = 32 };

static inline size_t eco_matrix_padded(size_t width)
{
    return (width + ECO_MATRIX_COLUMNS - 1) / ECO_MATRIX_COLUMNS * ECO_MATRIX_COLUMNS;
}

/* What the steps of a head read, by step.  NULL: the rule lacks the term. */
struct eco_matrix_terms {
    int32_t steps, keys;       /* K */
    size_t key_row, value_row; /* numbers from one step's row to the next */
    const void *decay;         /* w: [steps], or if by_row [steps,key_row]; NULL: 1 */
    bool by_row;
    const void *read;  /* b [steps,key_row]; NULL: no u */
    const void *scale; /* [steps]; NULL: d = v */
    const void *other; /* a [steps,key_row] */
    const void *key;   /* k [steps,key_row] */
    const void *value; /* v [steps,value_row], from the block's first column on */
    const void *query; /* q [steps,key_row] */
};

/* Steps forward over one block of columns. */
struct eco_matrix_forward {
    struct eco_matrix_terms terms;
    const void
        *from; /* S before the first step [keys,from_row], from the block's first column on */
    void *to;  /* S after the last [keys,to_row]; may be from's memory */
    size_t from_row, to_row;
    void *states; /* [steps,keys,ECO_MATRIX_COLUMNS]: S after each step; NULL: not kept */
    void *u;      /* [steps,ECO_MATRIX_COLUMNS]; NULL: not kept */
    void *out;    /* o [steps,value_row]; NULL: not needed */
};

/* Steps back over one block.  Gradients of what all blocks share are added to. */
struct eco_matrix_backward {
    struct eco_matrix_terms terms;
    const void *before; /* S before the first step [keys,before_row] */
    size_t before_row;
    const void *states, *u; /* as forward left them */
    const void *dout;       /* [steps,value_row] */
    void *dstate; /* [keys,ECO_MATRIX_COLUMNS]: of S after the last step; then of S before the first
                   */
    void *ddecay, *dread, *dscale, *dother, *dkey, *dquery; /* added to; shaped as the terms */
    void *dvalue;                                           /* [steps,value_row]: written */
};

/* A head of a row through all steps (run.h), or, forward, one of `parts` parts of its columns. */
struct eco_matrix_run;
struct eco_matrix_share {
    int32_t n, h, part, parts;
};
typedef void eco_matrix_job(const struct eco_matrix_run *run, void *scratch,
                            struct eco_matrix_share share);

/* The kernels of an instruction set.  In each, a sum has a fixed order. */
struct eco_matrix_kernels {
    void (*forward)(const struct eco_matrix_forward *call);
    void (*backward)(const struct eco_matrix_backward *call);
    eco_matrix_job *job;
};

/* kernels.c */
extern const struct eco_matrix_kernels eco_matrix_plain, eco_matrix_f64;
extern const struct eco_matrix_kernels eco_matrix_sse2, eco_matrix_neon;
extern const struct eco_matrix_kernels eco_matrix_avx2, eco_matrix_avx512;

#endif /* ECO_CPU_MATRIX_H */
