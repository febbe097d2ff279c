/*
 * Products of F64 in which no row of C depends on the other rows. (The order of a CBLAS depends on
 * the number of rows.) Every element is one chain from the value of C, in ascending k, each product
 * rounded: the same bits with any library, on any processor.
 */
#include "cpu/cpu.h"

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

static void multiply(const struct eco_dense_product *p, const struct panel *panel)
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
            multiply(product, &panel);
        }
    }
}
