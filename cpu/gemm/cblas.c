/* Large products by CBLAS, or row-invariant. */
#include "cpu/cpu.h"

#include <cblas.h>

/* ---- in pieces by CBLAS ---------------------------------------------------------------------- */

/*
 * Large products through CBLAS, divided into pieces of fixed shape. CBLAS runs each piece on the
 * calling thread; the assignment of pieces to threads does not affect the result.
 */

/* OpenBLAS multiplies without packing up to m n k = 1e6 where its core has small-matrix kernels:
 * 20 x 3200 x 800 runs at 85 instead of 45 GF/s when cut so on a Zen 4. */
enum {
    SMALL_WORK = 500000,  /* m n k of a piece in that case                                       */
    SKINNY_ROWS = 96,     /* rows up to which packing B costs more than it saves */
    LARGE_WORK = 1 << 22, /* least m n k of a piece otherwise */
    MOST_PIECES = 16,
    GROUP = 8 /* columns of a piece are a multiple */
};

/* How a product is divided: rows or columns of C, and sums over parts of k in order. */
struct cut {
    int32_t rows, columns, sums;
};

static int32_t clamp(int64_t value, int64_t least, int64_t most)
{
    const int64_t clamped = value < least ? least : value > most ? most : value;
    return (int32_t)clamped;
}

static int32_t round_up(int32_t value, int32_t group)
{
    return (value + group - 1) / group * group;
}

static struct cut cut_small(const struct eco_dense_product *p)
{
    const int64_t m = p->m;
    if (p->kind == ECO_PRODUCT_NT) {
        const int32_t sums = clamp(SMALL_WORK / (m * GROUP), 64, p->k);
        const int32_t columns = clamp(SMALL_WORK / (m * sums) / GROUP * GROUP, GROUP, 96);
        return (struct cut){p->m, columns, sums};
    }
    return (struct cut){p->m, 64, clamp(SMALL_WORK / (m * 64), 64, 256)};
}

static struct cut cut_large(const struct eco_dense_product *p)
{
    const int64_t work = (int64_t)p->m * p->n * p->k;
    const int32_t pieces = clamp(work / LARGE_WORK, 1, MOST_PIECES);
    struct cut cut = {p->m, p->n, p->k};
    if (p->m > p->n)
        cut.rows = round_up((p->m + pieces - 1) / pieces, GROUP);
    else
        cut.columns = round_up((p->n + pieces - 1) / pieces, GROUP);
    return cut;
}

static void multiply(const struct eco_dense_product *p, ecornn_type type)
{
    const CBLAS_TRANSPOSE ta = p->kind == ECO_PRODUCT_TN ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE tb = p->kind == ECO_PRODUCT_NT ? CblasTrans : CblasNoTrans;
    const int lda = (int)p->a_row, ldb = (int)p->b_row, ldc = (int)p->c_row;
    if (type == ECORNN_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, p->m, p->n, p->k, 1.0, p->a, lda, p->b, ldb,
                    p->add ? 1.0 : 0.0, p->c, ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, p->m, p->n, p->k, 1.0f, p->a, lda, p->b, ldb,
                    p->add ? 1.0f : 0.0f, p->c, ldc);
}

/* The piece of C from (row, column) on, with all of its sums. */
static void multiply_piece(const struct eco_cpu_run *run, const struct eco_dense_product *whole,
                           const struct cut *cut, int32_t row, int32_t column)
{
    struct eco_dense_product p = *whole;
    p.m = whole->m - row < cut->rows ? whole->m - row : cut->rows;
    p.n = whole->n - column < cut->columns ? whole->n - column : cut->columns;
    p.c = eco_cpu_after_mutable(run->layout->type, whole->c,
                                (size_t)row * whole->c_row + (size_t)column);
    const bool a_transposed = p.kind == ECO_PRODUCT_TN, b_transposed = p.kind == ECO_PRODUCT_NT;
    for (int32_t k = 0; k < whole->k; k += cut->sums) {
        const size_t i = (size_t)row, j = (size_t)column, s = (size_t)k;
        p.k = whole->k - k < cut->sums ? whole->k - k : cut->sums;
        p.a = eco_cpu_after(run->layout->type, whole->a,
                            a_transposed ? s * p.a_row + i : i * p.a_row + s);
        p.b = eco_cpu_after(run->layout->type, whole->b,
                            b_transposed ? j * p.b_row + s : s * p.b_row + j);
        multiply(&p, run->problem->type);
        p.add = true;
    }
}

void eco_cpu_product(const struct eco_cpu_run *run, const struct eco_dense_product *product)
{
    if (product->m == 0 || product->n == 0)
        return;
    if (run->problem->row_invariant && product->kind != ECO_PRODUCT_TN) {
        eco_cpu_product_row_invariant(run, product);
        return;
    }
    const bool skinny = product->m <= SKINNY_ROWS && product->kind != ECO_PRODUCT_TN;
    const struct cut cut =
        skinny && run->cpu->small_products ? cut_small(product) : cut_large(product);
    const int32_t down = (product->m + cut.rows - 1) / cut.rows;
    const int32_t across = (product->n + cut.columns - 1) / cut.columns;
    const struct eco_range part = eco_cpu_part(run, down * across, 1);
    for (int32_t i = part.from; i < part.to; i++)
        multiply_piece(run, product, &cut, i / across * cut.rows, i % across * cut.columns);
}

/* ---- row-invariant --------------------------------------------------------------------------- */

/*
 * Products of F64 in which no row of C depends on the other rows. (The order of a CBLAS depends on
 * the number of rows.) Every element is one chain from the value of C, in ascending k, each product
 * rounded: the same bits with any library, on any processor.
 */

enum { ROWS = 4, WIDE = 4 };             /* of C in registers */
enum { COLUMNS = 8 * WIDE, DEPTH = 64 }; /* of a panel, which stays in the first-level cache */

/* B[k0 .. k0 + depth, current columns], WIDE neighbours of a k together. */
struct panel {
    int32_t column, columns, k, depth;
    double at[COLUMNS / WIDE][DEPTH][WIDE];
};

static void bring(const struct eco_dense_product *p, struct panel *panel)
{
    const bool transposed = p->kind == ECO_PRODUCT_NT;
    const size_t across = transposed ? p->b_row : 1, down = transposed ? 1 : p->b_row;
    const double *b =
        (const double *)p->b + (size_t)panel->column * across + (size_t)panel->k * down;
    for (int32_t j = 0; j < COLUMNS; j++)
        for (int32_t k = 0; k < panel->depth; k++)
            panel->at[j / WIDE][k][j % WIDE] =
                j < panel->columns ? b[(size_t)j * across + (size_t)k * down] : 0;
}

/* R rows from `row` on by the WIDE columns of number i.  R is a constant. */
static inline void block(const struct eco_dense_product *p, const struct panel *panel, int32_t row,
                         int32_t i, const int R)
{
    double sum[ROWS][WIDE] = {{0}};
    const int32_t left = panel->columns - i * WIDE, wide = left < WIDE ? left : WIDE;
    const double *a = (const double *)p->a + (size_t)row * p->a_row + (size_t)panel->k;
    double *c = (double *)p->c + (size_t)row * p->c_row + (size_t)(panel->column + i * WIDE);
    for (int r = 0; (p->add || panel->k > 0) && r < R; r++)
        for (int j = 0; j < wide; j++)
            sum[r][j] = c[(size_t)r * p->c_row + (size_t)j];
    for (int32_t k = 0; k < panel->depth; k++)
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int j = 0; j < WIDE; j++)
                sum[r][j] += a[(size_t)r * p->a_row + (size_t)k] * panel->at[i][k][j];
    for (int r = 0; r < R; r++)
        for (int j = 0; j < wide; j++)
            c[(size_t)r * p->c_row + (size_t)j] = sum[r][j];
}

static void multiply_panel(const struct eco_dense_product *p, const struct panel *panel)
{
    const int32_t groups = (panel->columns + WIDE - 1) / WIDE;
    int32_t row = 0;
    for (; row + ROWS <= p->m; row += ROWS)
        for (int32_t i = 0; i < groups; i++)
            block(p, panel, row, i, ROWS);
    for (; row < p->m; row++)
        for (int32_t i = 0; i < groups; i++)
            block(p, panel, row, i, 1);
}

void eco_cpu_product_row_invariant(const struct eco_cpu_run *run,
                                   const struct eco_dense_product *product)
{
    const struct eco_range mine = eco_cpu_part(run, product->n, WIDE);
    struct panel panel;
    for (panel.column = mine.from; panel.column < mine.to; panel.column += COLUMNS) {
        const int32_t left = mine.to - panel.column;
        panel.columns = left < COLUMNS ? left : COLUMNS;
        for (panel.k = 0; panel.k < product->k; panel.k += DEPTH) {
            const int32_t rest = product->k - panel.k;
            panel.depth = rest < DEPTH ? rest : DEPTH;
            bring(product, &panel);
            multiply_panel(product, &panel);
        }
    }
}
