/*
 * Weight gradients of algorithm packed: dM += dacc^T e over all rows of an op, with the product
 * kernel of the steps.  Both sides are first copied into panels, some rows at a time, so that the
 * kernel reads neighbours; sums stay one chain in the order of rows.
 */
#include "cpu/packed.h"

#include <string.h>

/* Row blocks copied together, so that every cache line of dacc is read once. */
enum { BLOCKS_AT_A_TIME = 8 };

/* A row among those of an op's steps [steps,N]; those that have ended are left out. */
struct row {
    int32_t step, n;
};

/* One run of neighbouring accumulators: C[m, columns] += A[rows, m]^T E[rows, columns]. */
struct gradient {
    const struct eco_cpu_run *run;
    const float *a, *e; /* of the op's first row */
    size_t a_row, e_row;
    int32_t t0;
    struct row first; /* of those at hand */
    float *c;         /* [m, columns] */
    int32_t m, columns, rows;
    int32_t tall, wide; /* rows of C in a block, columns in a panel */
    float *a_pack;      /* [blocks, rows, tall] */
    float *e_pack;      /* [panels, rows, wide] */
    bool add;
};

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static size_t row_number(const struct gradient *g, struct row row)
{
    return (size_t)row.step * (size_t)g->run->args->N + (size_t)row.n;
}

static void next_row(const struct gradient *g, struct row *row)
{
    if (++row->n < eco_cpu_active(g->run, g->t0 + row->step))
        return;
    row->step++;
    row->n = 0;
}

/* a_pack of blocks [from, to): element (k, i) of a block is A[k, block * tall + i], or 0. */
static void pack_blocks(const struct gradient *g, int32_t from, int32_t to)
{
    const size_t tall = (size_t)g->tall, rows = (size_t)g->rows;
    struct row at = g->first;
    for (size_t k = 0; k < rows; k++, next_row(g, &at)) {
        const float *row = g->a + row_number(g, at) * g->a_row;
        for (int32_t block = from; block < to; block++) {
            float *out = g->a_pack + ((size_t)block * rows + k) * tall;
            const int32_t left = least(g->m - block * g->tall, g->tall);
            for (int32_t i = 0; i < left; i++)
                out[i] = row[block * g->tall + i];
            for (int32_t i = left; i < g->tall; i++)
                out[i] = 0;
        }
    }
}

/* Columns of a panel as whole vectors: what the last panel has fewer of. */
static int32_t panel_width(const struct gradient *g, int32_t panel)
{
    const int32_t lanes = g->run->tile->lanes;
    const int32_t left = least(g->columns - panel * g->wide, g->wide);
    return (left + lanes - 1) / lanes * lanes;
}

static void pack_panel(const struct gradient *g, int32_t panel)
{
    const size_t width = (size_t)panel_width(g, panel);
    const size_t first = (size_t)panel * (size_t)g->wide;
    const size_t some = (size_t)least(g->columns - (int32_t)first, (int32_t)width);
    float *out = g->e_pack + first * (size_t)g->rows;
    struct row at = g->first;
    for (int32_t k = 0; k < g->rows; k++, out += width, next_row(g, &at)) {
        memcpy(out, g->e + row_number(g, at) * g->e_row + first, some * sizeof *out);
        memset(out + some, 0, (width - some) * sizeof *out);
    }
}

static void multiply_panel(const struct gradient *g, int32_t panel, struct eco_share blocks)
{
    static const float zeros[ECO_TILE_LANES];
    const int32_t lanes = g->run->tile->lanes, first = panel * g->wide;
    struct eco_tile tile = {.pairs = 1,
                            .vectors = panel_width(g, panel) / lanes,
                            .pair = {{.k = g->rows,
                                      .panel_k = (size_t)panel_width(g, panel),
                                      .a_row = 1,
                                      .a_k = (size_t)g->tall,
                                      .panel = g->e_pack + (size_t)first * (size_t)g->rows}},
                            .c_row = (size_t)g->columns};
    for (int32_t v = 0; v < tile.vectors; v++) {
        tile.count[v] = least(g->columns - first - v * lanes, lanes);
        tile.c_vector[v] = (size_t)(v * lanes);
        tile.start[v] = g->add ? NULL : zeros;
    }
    for (int32_t block = blocks.from; block < blocks.to; block++) {
        const size_t row = (size_t)block * (size_t)g->tall;
        tile.rows = least(g->m - (int32_t)row, g->tall);
        tile.pair[0].a = g->a_pack + row * (size_t)g->rows;
        tile.c = g->c + row * (size_t)g->columns + first;
        g->run->tile->multiply(&tile);
    }
}

/* All threads: copy, wait, multiply, wait. */
static void multiply_rows(const struct gradient *g)
{
    const struct eco_cpu_run *run = g->run;
    const int32_t blocks = (g->m + g->tall - 1) / g->tall;
    const int32_t panels = (g->columns + g->wide - 1) / g->wide;
    const struct eco_share mine = eco_cpu_part(run, blocks, 1);
    const struct eco_share my_panels = eco_cpu_part(run, panels, 1);
    for (int32_t block = mine.from; block < mine.to; block += BLOCKS_AT_A_TIME)
        pack_blocks(g, block, least(block + BLOCKS_AT_A_TIME, mine.to));
    for (int32_t panel = my_panels.from; panel < my_panels.to; panel++)
        pack_panel(g, panel);
    eco_cpu_wait(run);
    for (int32_t panel = 0; panel < panels; panel++)
        multiply_panel(g, panel, mine);
    eco_cpu_wait(run);
}

void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_layout *layout = run->layout;
    const struct eco_op *op = m->op;
    const struct eco_matrix *matrix = eco_layout_matrix(layout, op->layer, m->part);
    const size_t units = (size_t)matrix->units, columns = (size_t)matrix->columns;
    char *gradient =
        (char *)run->args->dweights + eco_layout_gradient(layout, op->layer, op->d, m->part);
    const struct eco_array pack =
        eco_layout_scratch(layout, true, op->layer, op->d, ECO_SCRATCH_PACK);
    struct gradient g = {.run = run,
                         .t0 = op->t0,
                         .a_row = m->a_row,
                         .e_row = m->c_row,
                         .columns = matrix->columns,
                         .tall = run->tile->rows,
                         .wide = run->tile->vectors * run->tile->lanes,
                         .e_pack = eco_cpu_at(run, &pack, 0)};
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end) {
        g.m = (span.end - span.first) * matrix->units;
        g.c = (float *)(void *)gradient + (size_t)span.before * units * columns;
        g.a = (const float *)m->a + (size_t)span.first * units;
        g.e = m->c;
        g.add = m->add;
        g.first = (struct row){0, 0};
        int32_t done = 0;
        do { /* once without rows too: it clears */
            g.rows = least(m->rows - done, layout->wishes.pack_rows);
            /* Room for a last panel's whole vectors; layout.c has the sum. */
            g.a_pack = g.e_pack + (columns + (size_t)g.wide) * (size_t)g.rows;
            multiply_rows(&g);
            for (int32_t k = 0; k < g.rows; k++)
                next_row(&g, &g.first);
            done += g.rows;
            g.add = true;
        } while (done < m->rows);
    }
}
