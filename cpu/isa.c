/*
 * Everything that depends on the instruction set, compiled once per set: -DECO_ISA=NAME picks the
 * vocabulary vec_NAME.h and the name of the one table this object exports.  All else is static, so
 * that no instruction of the set can reach code that every processor runs.
 */
#include <assert.h>

#include "cpu/isa.h"

#include "cpu/vec.h"
#include "cpu/words.h"

#define CELL(name)        name
#define CELL_KERNEL(name) JOIN(name, _kernel)
#define CELL_FUNCTION     ALWAYS_INLINE
#define CELL_AT           const struct place *
#define CELL_TEMPLATE     "cpu/pointwise.inc"
#include "cpu/cells.inc"
#include "cpu/interpret.inc"

/* Vectors that add_columns does at a time, so that a row's part is some cache lines. */
enum { COLUMN_VECTORS = 4 };

static void add_columns(void *y, const void *x, size_t row, int32_t rows, int32_t n)
{
    real *sum = y;
    const elem *from = x;
    int32_t j = 0;
    for (; j + COLUMN_VECTORS * VEC_LANES <= n; j += COLUMN_VECTORS * VEC_LANES) {
        vec s[COLUMN_VECTORS];
        for (int k = 0; k < COLUMN_VECTORS; k++)
            s[k] = v_load(sum + j + k * VEC_LANES);
        for (int32_t r = 0; r < rows; r++)
            for (int k = 0; k < COLUMN_VECTORS; k++)
                s[k] = v_add(s[k], e_load(from + (size_t)r * row + j + k * VEC_LANES));
        for (int k = 0; k < COLUMN_VECTORS; k++)
            v_store(sum + j + k * VEC_LANES, s[k]);
    }
    for (; j < n; j += VEC_LANES) {
        const int32_t left = n - j, count = left < VEC_LANES ? left : VEC_LANES;
        vec s = count < VEC_LANES ? v_load_part(sum + j, count) : v_load(sum + j);
        for (int32_t r = 0; r < rows; r++) {
            const elem *at = from + (size_t)r * row + j;
            s = v_add(s, count < VEC_LANES ? e_load_part(at, count) : e_load(at));
        }
        if (count < VEC_LANES)
            v_store_part(sum + j, s, count);
        else
            v_store(sum + j, s);
    }
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
