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

#if !defined ECO_NARROW && defined VEC_SHIFT
/* ---- lines ----------------------------------------------------------------------------------- */

ALWAYS_INLINE void *line_step(const struct eco_line *line, const struct eco_steps_of *array,
                              int32_t i)
{
    const size_t step = (line->down ? array->from - (size_t)i : array->from + (size_t)i);
    return array->first ? array->first + (step & array->mask) * array->step : NULL;
}

ALWAYS_INLINE void point_at_line(const struct eco_line *line, int32_t i, struct eco_pointwise *call)
{
    call->acc = line_step(line, &line->acc, i);
    call->y = line_step(line, &line->y, i);
    for (int s = 0; s < call->n_states; s++)
        call->next[s] = line_step(line, &line->next[s], i);
}

/* What sum number v, of accumulator a, is added to. */
ALWAYS_INLINE vec line_start(const struct eco_line *line, int v, int a, const struct position *at)
{
    struct position memory = *at;
    memory.summed = 0;
    return line->start[v] ? load_column(at, line->start[v], 0) : load_acc(&memory, a);
}

enum { LINE_BLOCKS = 3 }; /* whose sums are in registers */
static_assert(ECO_LINE_UNITS % VEC_LANES == 0, "states are whole vectors");

#define CELL_LINE(name)   JOIN(name, _line)
#define CELL_BLOCKS(name) JOIN(name, _blocks)
#define CELL_STAGE        lstm_forward_0
#define CELL_SUMS         0xf
#include "cpu/isa/line.inc"
#undef CELL_STAGE
#undef CELL_SUMS
#define CELL_STAGE gru_forward_0
#define CELL_SUMS  0xe
#include "cpu/isa/line.inc"
#undef CELL_STAGE
#undef CELL_SUMS
#define CELL_STAGE rnn_tanh_forward_0
#define CELL_SUMS  0x1
#include "cpu/isa/line.inc"
#undef CELL_STAGE
#undef CELL_SUMS

static const struct eco_line_kernel lines[] = {
    {lstm_forward_0_kernel, 0xf, lstm_forward_0_line},
    {gru_forward_0_kernel, 0xe, gru_forward_0_line},
    {rnn_tanh_forward_0_kernel, 0x1, rnn_tanh_forward_0_line},
    {NULL, 0, NULL}};
#define LINES lines
#else
#define LINES NULL
#endif

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
    .lines = LINES,
    .interpret = interpret,
    .add_columns = add_columns,
    .activation = activation,
};
