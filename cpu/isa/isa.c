/*
 * Everything that depends on the instruction set, compiled once for each set: -DECO_ISA=NAME
 * chooses the vocabulary vec_NAME.h and the name of the one table that this object exports. All
 * else is static, so that no instruction of the set gets into code that every processor runs.
 */
#include <assert.h>

#include "cpu/isa/isa.h"

#include "cpu/isa/vec.h"
#include "cpu/isa/words.h"

#define CELL(name)        name
#define CELL_KERNEL(name) JOIN(name, _kernel)
#define CELL_FUNCTION     ALWAYS_INLINE
#define CELL_AT           const struct position *
#define CELL_TEMPLATE     "cpu/isa/pointwise.inc"
#define CELL_SCANS
#include "cpu/isa/cells.inc"
#include "cpu/isa/interpret.inc"

/* Vectors that add_columns sums at a time, some cache lines of a row; rows of a chain. */
enum { COLUMN_VECTORS = 4, COLUMN_ROWS = 64 };

/* sum += some; lost += the rounding error of that, exactly (Knuth 1969). */
ALWAYS_INLINE void add_chain(vec *sum, vec *lost, vec some)
{
    const vec all = v_add(*sum, some), added = v_sub(all, *sum);
    const vec kept = v_sub(all, added);
    *lost = v_add(*lost, v_add(v_sub(*sum, kept), v_sub(some, added)));
    *sum = all;
}

static void add_whole_columns(real *sum, real *lost, const elem *from, size_t row, int32_t rows)
{
    vec s[COLUMN_VECTORS], l[COLUMN_VECTORS];
#pragma GCC unroll 4
    for (int k = 0; k < COLUMN_VECTORS; k++) {
        s[k] = v_load(sum + k * VEC_LANES);
        l[k] = v_load(lost + k * VEC_LANES);
    }
    for (int32_t r = 0; r < rows;) {
        const int32_t end = rows - r < COLUMN_ROWS ? rows : r + COLUMN_ROWS;
        vec chain[COLUMN_VECTORS];
#pragma GCC unroll 4
        for (int k = 0; k < COLUMN_VECTORS; k++)
            chain[k] = v_const(0);
        for (; r < end; r++)
#pragma GCC unroll 4
            for (int k = 0; k < COLUMN_VECTORS; k++)
                chain[k] = v_add(chain[k], e_load(from + (size_t)r * row + k * VEC_LANES));
#pragma GCC unroll 4
        for (int k = 0; k < COLUMN_VECTORS; k++)
            add_chain(&s[k], &l[k], chain[k]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < COLUMN_VECTORS; k++) {
        v_store(sum + k * VEC_LANES, s[k]);
        v_store(lost + k * VEC_LANES, l[k]);
    }
}

/* One vector, or the first lanes of one. */
static void add_some_columns(real *sum, real *lost, const elem *from, size_t row, int32_t rows,
                             int32_t count)
{
    const bool part = count < VEC_LANES;
    vec s = part ? v_load_part(sum, count) : v_load(sum);
    vec l = part ? v_load_part(lost, count) : v_load(lost);
    for (int32_t r = 0; r < rows;) {
        const int32_t end = rows - r < COLUMN_ROWS ? rows : r + COLUMN_ROWS;
        vec chain = v_const(0);
        for (; r < end; r++) {
            const elem *at = from + (size_t)r * row;
            chain = v_add(chain, part ? e_load_part(at, count) : e_load(at));
        }
        add_chain(&s, &l, chain);
    }
    if (part) {
        v_store_part(sum, s, count);
        v_store_part(lost, l, count);
    } else {
        v_store(sum, s);
        v_store(lost, l);
    }
}

static void add_columns(void *sum, void *lost, const void *x, size_t row, int32_t rows, int32_t n)
{
    real *s = sum, *l = lost;
    const elem *from = x;
    int32_t j = 0;
    for (; j + COLUMN_VECTORS * VEC_LANES <= n; j += COLUMN_VECTORS * VEC_LANES)
        add_whole_columns(s + j, l + j, from + j, row, rows);
    for (; j < n; j += VEC_LANES)
        add_some_columns(s + j, l + j, from + j, row, rows, n - j < VEC_LANES ? n - j : VEC_LANES);
}

static vec activate(int opcode, vec v)
{
    switch (opcode) {
    /* clang-format off */
    case ECO_OP_EXP: return v_exp(v);
    case ECO_OP_LOG: return v_log(v);
    case ECO_OP_SQRT: return v_sqrt(v);
    case ECO_OP_TANH: return v_tanh(v);
    default: return v_sigmoid(v);
        /* clang-format on */
    }
}

static void activation(int opcode, void *out, const void *in, int32_t n)
{
    const real *from = in;
    real *to = out;
    int32_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        v_store(to + j, activate(opcode, v_load(from + j)));
    if (j < n)
        v_store_part(to + j, activate(opcode, v_load_part(from + j, n - j)), n - j);
}

#ifdef ECO_NARROW
#define KERNELS JOIN(eco_kernels_narrow_, ECO_ISA)
#else
#define KERNELS JOIN(eco_kernels_, ECO_ISA)
#endif

const struct eco_pointwise_kernels KERNELS = {
    .cell = CELL(cells),
    .interpret = interpret,
    .add_columns = add_columns,
    .activation = activation,
};
