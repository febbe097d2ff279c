/*
 * The call between an algorithm and a pointwise kernel: one stage of one cell over a part of the
 * [N,H] plane of one step. A kernel knows pointers, sizes and strides only.
 */
#ifndef ECO_POINTWISE_H
#define ECO_POINTWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/cell.h"

/*
 * Strides are in elements, from row to row. In a row, the H-wide columns of acc, save, operand,
 * dacc and doperand are H apart. Pointers that a stage does not use may be NULL. Elements have the
 * kernel's type, float or double; a kernel for narrow rows has BF16 in states, save, operand, y, dy
 * and dacc, except as wide_states and wide_dy say.
 *
 * next[s] may equal state[s] (in place).
 */
struct eco_pointwise {
    int32_t row0, row1, unit0, unit1; /* the part; with means whole rows only */
    int32_t hidden;                   /* H */
    int32_t n_states;                 /* of the cell */
    int32_t outputs;                  /* states in y and dy, for the interpreter; else 1 */
    int32_t t;
    const int32_t *order;   /* [N]: the row whose random numbers are used; NULL: the same */
    const int32_t *y_order; /* [N]: the row of y or dy */
    bool training;          /* bernoulli() draws */
    unsigned wide_states;   /* bit s: state s is float; for narrow rows */
    bool wide_dy;           /* dy is float, too */
    uint64_t seed;
    uint32_t layer, direction;      /* coordinates of random numbers, */
    uint32_t first_step, first_row; /* which count from these */

    const void *vector; /* [vectors,H], in the order of the recipe's parameters */
    const void *state[ECO_MAX_STATES];
    size_t state_row[ECO_MAX_STATES];
    void *next[ECO_MAX_STATES]; /* forward: written; backward: as forward left them */
    size_t next_row[ECO_MAX_STATES];
    void *save; /* forward: written, or NULL in inference; backward: read */
    size_t save_row;
    void *operand;
    size_t operand_row;
    void *mean; /* [N,heads,means]; not NULL if the cell has means */
    size_t mean_row;
    int32_t mean_units; /* of a head; 0: means over whole rows, and one head */
    void *carried; /* [row1-row0,columns,H]: sums that stages pass on; NULL: each computes all */
    size_t carried_row, carried_column; /* column: H, padded to whole vectors */

    /* forward */
    const void *acc;
    size_t acc_row;
    int32_t acc_shift; /* units are in blocks of 1 << acc_shift, */
    size_t acc_block;  /* this many elements apart; 31: one block */
    size_t acc_column; /* distance of accumulators in elements */
    void *y;           /* second copies of the first states; NULL if not needed, or projected */
    size_t y_row;

    /* backward */
    void *carry[ECO_MAX_STATES]; /* in: gradient of the next state, out: of the previous one;
                                    carry[0] NULL: projected, and not written */
    size_t carry_row[ECO_MAX_STATES];
    const void *dnext; /* projected: gradient of u, instead of carry[0] */
    size_t dnext_row;
    const void *dy; /* added to the carries of the first states; NULL: 0, or projected */
    size_t dy_row;
    void *dacc;
    size_t dacc_row;
    const void *doperand;
    size_t doperand_row;

    /* a scan's stage: all steps so far as factors and one term for each state; read and written */
    void *factor, *term; /* [rows,n_factors,H], [rows,n_states,H] */
    size_t factor_row, term_row;

    /* for the interpreter only */
    const struct eco_program *program; /* the stage */
    const struct eco_linear *linear;   /* a scan's: groups of states */
    void *dvector; /* [N,extra,H]: gradients of vectors, summed over steps, instead of dacc's
                      columns from first_vector on; NULL: those columns */
    size_t dvector_row;
    int first_vector;
    int32_t summed; /* rows that have a sum already; others begin one */
};

typedef void (*eco_pointwise_kernel)(const struct eco_pointwise *call);

/* The compiled stages of one built-in cell. */
struct eco_cell_kernels {
    eco_pointwise_kernel forward[ECO_MAX_STAGES], backward[ECO_MAX_STAGES];
    eco_pointwise_kernel
        scan[2]; /* [forward, backward]: steps of a linear cell to factors and terms */
};

/* An array over steps: step i begins ((from + i) & mask) * step bytes after first; or from - i. */
struct eco_steps_of {
    char *first; /* NULL: there is no such array */
    size_t step, mask, from;
};

/*
 * Steps of one row in one call, of at most ECO_LINE_UNITS units, for a stage whose only product is
 * R h. A vector of units goes through product and stage in registers, and states stay in the first
 * cache, because with few units the bookkeeping between two calls would take most of the time.
 */
enum { ECO_LINE_UNITS = 48 };
struct eco_line {
    const struct eco_pointwise *call; /* what is the same in all steps */
    int32_t steps;
    bool down; /* from the last step to the first */
    struct eco_steps_of acc, y, state[ECO_MAX_STATES], next[ECO_MAX_STATES];
    const float *panel;               /* [H / lanes, H, sums, lanes] */
    const float *start[ECO_MAX_ACCS]; /* by sum, [H]: what it is added to; NULL: acc */
};
struct eco_line_kernel {
    eco_pointwise_kernel stage; /* NULL ends a list */
    unsigned sums;              /* bit a: accumulator a has a product */
    void (*run)(const struct eco_line *line);
};

/* One instruction set's kernels for one type of rows; cell[] is indexed by eco_cell_builtin. */
struct eco_pointwise_kernels {
    const struct eco_cell_kernels *cell;
    const struct eco_line_kernel *lines; /* F32; else NULL */
    eco_pointwise_kernel interpret;
    /* sum[0 .. n) += x[r*row + 0 .. n) for every row r, ascending, in chains of some rows; lost[0
     * .. n) += the error of adding a chain to a sum, so that sum + lost is near the exact sum of
     * any number of chains. sum and lost have the type of sums, x that of rows */
    void (*add_columns)(void *sum, void *lost, const void *x, size_t row, int32_t rows, int32_t n);
    /* out[0 .. n) = f(in[0 .. n)), f one of ECO_OP_EXP LOG SQRT TANH SIGMOID: for tests */
    void (*activation)(int opcode, void *out, const void *in, int32_t n);
};

struct eco_tile_kernel; /* tile.h */
struct eco_narrow_rows;
struct eco_byte_kernels;
struct eco_pair_rows;
struct eco_lanes_code;        /* common/plan/lanes.h */
struct eco_attention_kernels; /* cpu/attention/attention.h */
struct eco_matrix_kernels;    /* cpu/matrix/matrix.h */

/* An instruction set: isa.h lists them. f64 is the same plain C in all of them. */
struct eco_isa {
    const char *name; /* as in isa.c */
    const struct eco_pointwise_kernels *f32, *f64, *bf16;
    const struct eco_tile_kernel *tile;
    const struct eco_tile_kernel *narrow;     /* for BF16 weights */
    const struct eco_tile_kernel *dot, *amx;  /* for BF16 weights and rows; or NULL */
    const struct eco_split_kernel *split;     /* for BF16 weights and rows of floats; or NULL */
    const struct eco_byte_kernels *bytes;     /* for weights of 8 bits */
    const struct eco_tile_kernel *byte_tiles; /* for those and rows of bytes; or NULL */
    const struct eco_narrow_rows *narrow_rows;
    const struct eco_lanes_code *lanes;
    const struct eco_pair_rows *pair_rows; /* for dot, amx */
    const struct eco_attention_kernels *attention;
    const struct eco_matrix_kernels *matrix;
    bool fused; /* has a fused multiply-add: all sets that have one give the same bits, and so do
                   all sets without */
};

#endif /* ECO_POINTWISE_H */
