/* Kernels that count, see counting.h. Each table entry has its own function, because a call does
 * not tell which entry it came from. */
#include "tests/kit/counting.h"

#include <check.h>

#include "common/cell/cell.h"
#include "cpu/cpu.h"

static struct kernel_table *ran; /* of the present set */
static const struct eco_isa *real;

const struct eco_tile_kernel *product_of(const struct eco_isa *isa, enum product which)
{
    const struct eco_tile_kernel *const kernel[PRODUCTS] = {
        isa->tile, isa->narrow, isa->dot, isa->amx, isa->split ? &isa->split->tile : NULL};
    return kernel[which];
}

const struct eco_pointwise_kernels *passes_of(const struct eco_isa *isa, enum passes which)
{
    const struct eco_pointwise_kernels *const kernels[PASSES] = {isa->f32, isa->f64, isa->bf16};
    return kernels[which];
}

/* ---- kernels that count ---------------------------------------------------------------------- */

/* Calls with more rows than a block has consist of several blocks and are not counted. */
static void multiply(enum product which, const struct eco_tile *tile)
{
    const struct eco_tile_kernel *kernel = product_of(real, which);
    if (tile->rows <= kernel->most[tile->vectors - 1])
        ran->product[which][tile->vectors - 1][tile->rows - 1] = true;
    kernel->multiply(tile);
}

static void multiply_row(enum product which, const struct eco_row *row)
{
    ran->strip[which][row->vectors - 1][row->panels - 1] = true;
    product_of(real, which)->row(row);
}

static void pass(enum passes which, const struct eco_pointwise *call)
{
    const struct eco_pointwise_kernels *kernels = passes_of(real, which);
    const struct ecornn_cell *cell;
    for (int c = 0; (cell = eco_cell_builtin(c)); c++) {
        for (int way = 0; way < 2; way++)
            if (call->program == &cell->lowered.linear.program[way]) {
                ran->stage[which][c][2 * ECO_MAX_STAGES + way] = true;
                kernels->cell[c].scan[way](call);
                return;
            }
        for (int k = 0; k < ECO_MAX_STAGES; k++) {
            if (call->program == &cell->lowered.forward[k]) {
                ran->stage[which][c][k] = true;
                kernels->cell[c].forward[k](call);
                return;
            }
            if (call->program == &cell->lowered.backward[k]) {
                ran->stage[which][c][ECO_MAX_STAGES + k] = true;
                kernels->cell[c].backward[k](call);
                return;
            }
        }
    }
    ck_abort_msg("a stage of no built-in cell");
}

static void interpret(enum passes which, const struct eco_pointwise *call)
{
    ran->interpreted[which][call->dacc != NULL] = true;
    passes_of(real, which)->interpret(call);
}

static void add_columns(enum passes which, void *sum, void *lost, const void *x, size_t row,
                        int32_t rows, int32_t n)
{
    ran->columns[which] = true;
    passes_of(real, which)->add_columns(sum, lost, x, row, rows, n);
}

/* The functions, one for each table entry. */
/* clang-format off */
#define PRODUCT(which) \
    static void multiply_##which(const struct eco_tile *tile) { multiply(which, tile); } \
    static void row_##which(const struct eco_row *row) { multiply_row(which, row); }
PRODUCT(TILE) PRODUCT(NARROW) PRODUCT(DOT) PRODUCT(AMX) PRODUCT(SPLIT)
#define PASS(which) \
    static void pass_##which(const struct eco_pointwise *call) { pass(which, call); } \
    static void interpret_##which(const struct eco_pointwise *call) { interpret(which, call); } \
    static void columns_##which(void *sum, void *lost, const void *x, size_t row, int32_t rows, int32_t n) \
    { add_columns(which, sum, lost, x, row, rows, n); }
PASS(F32) PASS(F64) PASS(BF16)
    /* clang-format on */

    static void copy(struct eco_tile_copy *to, const float *from, size_t row, int32_t rows)
{
    ran->row[TILE_COPY] = true;
    real->tile->copy(to, from, row, rows);
}

static void widen(float *to, const uint16_t *from, int32_t n)
{
    ran->row[WIDEN] = true;
    real->narrow_rows->widen(to, from, n);
}

static void round_rows(uint16_t *to, const float *from, int32_t n, bool add)
{
    ran->row[add ? ROUND_ADDED : ROUND] = true;
    real->narrow_rows->round(to, from, n, add);
}

static void split(uint16_t *to, const float *from)
{
    ran->row[PARTS] = true;
    real->split->split(to, from);
}

static void pair_vector(uint16_t *to, const uint16_t *from, size_t row, int32_t rows,
                        int32_t columns)
{
    ran->row[PAIR_VECTOR] = true;
    real->pair_rows->vector(to, from, row, rows, columns);
}

static void pair_block(uint16_t *to, const uint16_t *from, size_t row, int32_t rows,
                       int32_t columns)
{
    ran->row[PAIR_BLOCK] = true;
    real->pair_rows->block(to, from, row, rows, columns);
}

const struct eco_isa *counting_set(const struct eco_isa *of, struct kernel_table *counts)
{
    real = of;
    ran = counts;
    static void (*const by_product[PRODUCTS])(const struct eco_tile *) = {
        multiply_TILE, multiply_NARROW, multiply_DOT, multiply_AMX, multiply_SPLIT};
    static void (*const by_row[PRODUCTS])(const struct eco_row *) = {row_TILE, row_NARROW, row_DOT,
                                                                     row_AMX, row_SPLIT};
    static const eco_pointwise_kernel by_pass[PASSES] = {pass_F32, pass_F64, pass_BF16};
    static struct eco_tile_kernel product[PRODUCTS];
    static struct eco_cell_kernels cell[PASSES][COUNTED_CELLS];
    static struct eco_pointwise_kernels passes[PASSES];
    static const struct eco_narrow_rows rows = {widen, round_rows};
    static const struct eco_pair_rows pairs = {pair_vector, pair_block};
    static struct eco_split_kernel parts;
    static struct eco_isa isa;
    for (int k = 0; k < PRODUCTS; k++)
        if ((ran->has[k] = product_of(real, k) != NULL)) {
            product[k] = *product_of(real, k);
            product[k].multiply = by_product[k];
            if (product[k].row != NULL)
                product[k].row = by_row[k];
        }
    product[TILE].copy = copy;
    for (int k = 0; k < PASSES; k++) {
        passes[k] = *passes_of(real, k);
        for (int c = 0; eco_cell_builtin(c); c++) {
            for (int stage = 0; stage < ECO_MAX_STAGES; stage++)
                cell[k][c].forward[stage] = cell[k][c].backward[stage] = by_pass[k];
            cell[k][c].scan[0] = cell[k][c].scan[1] = by_pass[k];
        }
        passes[k].cell = cell[k];
    }
    passes[F32].interpret = interpret_F32, passes[F32].add_columns = columns_F32;
    passes[F64].interpret = interpret_F64, passes[F64].add_columns = columns_F64;
    passes[BF16].interpret = interpret_BF16, passes[BF16].add_columns = columns_BF16;
    ran->has_pairs = real->pair_rows != NULL;
    isa = *real;
    isa.f32 = &passes[F32], isa.f64 = &passes[F64], isa.bf16 = &passes[BF16];
    isa.tile = &product[TILE], isa.narrow = &product[NARROW];
    isa.dot = real->dot ? &product[DOT] : NULL;
    isa.amx = real->amx ? &product[AMX] : NULL;
    parts = (struct eco_split_kernel){product[SPLIT], split};
    isa.split = real->split ? &parts : NULL;
    isa.narrow_rows = &rows;
    isa.pair_rows = real->pair_rows ? &pairs : NULL;
    return &isa;
}

/* ---- n of all -------------------------------------------------------------------------------- */

void count_one(struct count *c, bool one)
{
    c->n += one;
    c->all++;
}

struct count products_counted(const struct kernel_table *t, const struct eco_isa *isa,
                              enum product k)
{
    struct count c = {0};
    const int few = k == SPLIT ? ECO_FEW_ROWS : 0;
    for (int v = 0; t->has[k] && v < ECO_TILE_VECTORS; v++)
        for (int r = few; r < product_of(isa, k)->most[v]; r++)
            count_one(&c, t->product[k][v][r]);
    for (int v = 0; t->has[k] && v < ECO_TILE_VECTORS; v++)
        for (int p = 0; p < product_of(isa, k)->row_panels[v]; p++)
            count_one(&c, t->strip[k][v][p]);
    return c;
}

struct count passes_counted(const struct kernel_table *t, enum passes k)
{
    struct count c = {0};
    const struct ecornn_cell *cell;
    for (int i = 0; (cell = eco_cell_builtin(i)); i++) {
        for (int stage = 0; stage < cell->lowered.n_forward; stage++)
            count_one(&c, t->stage[k][i][stage]);
        for (int stage = 0; stage < cell->lowered.n_backward; stage++)
            count_one(&c, t->stage[k][i][ECO_MAX_STAGES + stage]);
        for (int way = 0; cell->lowered.linear.scans && way < 2; way++)
            count_one(&c, t->stage[k][i][2 * ECO_MAX_STAGES + way]);
    }
    count_one(&c, t->interpreted[k][0]);
    count_one(&c, t->interpreted[k][1]);
    count_one(&c, t->columns[k]);
    return c;
}

struct count rows_counted(const struct kernel_table *t)
{
    struct count c = {0};
    for (int k = 0; k < ROW_KERNELS; k++)
        if (k == WIDEN   ? !t->has[DOT] /* dot products take BF16 as it is */
            : k == PARTS ? t->has[SPLIT]
                         : k < PAIR_VECTOR || t->has_pairs)
            count_one(&c, t->row[k]);
    return c;
}
