/*
 * Weight gradients in AMX: dM += dacc^T e over all rows of an op, some rows at a time.  Both sides
 * are first copied, dacc transposed to tiles and e to panels, so that the kernel of the steps does
 * the rest; sums are float, in an order that depends on the number of rows alone.
 */
#include "cpu/packed.h"

#include <string.h>

#include "cpu/isa.h"

enum { GROUP = ECO_NARROW_GROUP, TALL = ECO_NARROW_TALL, TILE = TALL * GROUP };
enum { LANES = 16, WIDE = ECO_NARROW_VECTORS * LANES };

/* One run of neighbouring accumulators: C[m, columns] += A[rows, m]^T E[rows, columns]. */
struct gradient {
    const struct eco_cpu_run *run;
    const uint16_t *a, *e; /* of the rows at hand */
    size_t a_row, e_row;
    size_t first; /* column of A */
    float *c;     /* [m, columns] */
    int32_t m, columns, rows, groups;
    uint16_t *e_pack; /* [panels, groups, 4, 16, 16, 2] */
    uint16_t *a_pack; /* [blocks of 16 of m, groups, 16, 32] */
    bool add;
};

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t parts(int32_t n, int32_t each)
{
    return (n + each - 1) / each;
}

static void pack_tiles(const struct gradient *g, struct eco_share blocks)
{
    const struct eco_amx_kernel *amx = g->run->cpu->isa->amx;
    for (int32_t group = 0; group < g->groups; group++) {
        const uint16_t *from = g->a + (size_t)(group * GROUP) * g->a_row;
        for (int32_t block = blocks.from; block < blocks.to; block++)
            amx->transpose(g->a_pack + ((size_t)block * (size_t)g->groups + (size_t)group) * TILE,
                           from + (size_t)block * TALL, g->a_row,
                           least(g->rows - group * GROUP, GROUP), least(g->m - block * TALL, TALL));
    }
}

static void pack_panels(const struct gradient *g, struct eco_share panels)
{
    const struct eco_amx_kernel *amx = g->run->cpu->isa->amx;
    for (int32_t panel = panels.from; panel < panels.to; panel++)
        for (int32_t group = 0; group < g->groups; group++) {
            uint16_t *to =
                g->e_pack + ((size_t)panel * (size_t)g->groups + (size_t)group) * 4 * TILE;
            for (int32_t v = 0; v < ECO_NARROW_VECTORS; v++) {
                const int32_t column = panel * WIDE + v * LANES;
                if (column < g->columns)
                    amx->pair(to + (size_t)v * TILE,
                              g->e + (size_t)(group * GROUP) * g->e_row + (size_t)column, g->e_row,
                              least(g->rows - group * GROUP, GROUP),
                              least(g->columns - column, LANES));
            }
        }
}

static void multiply_panel(const struct gradient *g, int32_t panel, struct eco_share blocks)
{
    static const float zeros[LANES];
    const int32_t first = panel * WIDE, row = blocks.from * TALL;
    struct eco_narrow tile = {.rows = least(g->m, blocks.to * TALL) - row,
                              .k = g->rows,
                              .vectors = parts(least(g->columns - first, WIDE), LANES),
                              .panel = g->e_pack + (size_t)panel * (size_t)g->groups * 4 * TILE,
                              .group_step = 4 * TILE,
                              .tile = g->a_pack + (size_t)blocks.from * (size_t)g->groups * TILE,
                              .height = TALL,
                              .c = g->c + (size_t)row * (size_t)g->columns + (size_t)first,
                              .c_row = (size_t)g->columns};
    for (int32_t v = 0; v < tile.vectors; v++) {
        tile.count[v] = least(g->columns - first - v * LANES, LANES);
        tile.c_vector[v] = (size_t)(v * LANES);
        tile.start[v] = g->add ? NULL : zeros;
    }
    if (tile.rows > 0)
        g->run->cpu->isa->amx->multiply(&tile);
}

/* All threads: copy, wait, multiply, wait. */
static void multiply_rows(const struct gradient *g)
{
    const struct eco_cpu_run *run = g->run;
    const int32_t panels = parts(g->columns, WIDE);
    const struct eco_share mine = eco_cpu_part(run, parts(g->m, TALL), 1);
    pack_tiles(g, mine);
    pack_panels(g, eco_cpu_part(run, panels, 1));
    eco_cpu_wait(run);
    run->cpu->isa->amx->begin(TALL);
    for (int32_t panel = 0; panel < panels; panel++)
        multiply_panel(g, panel, mine);
    run->cpu->isa->amx->end();
    eco_cpu_wait(run);
}

/* Rows [from, from + rows) of those of the op, some at a time. */
static void add_stretch(struct gradient *g, const struct eco_multiply *m, size_t from, int32_t rows)
{
    const int32_t most = 2 * g->run->layout->wishes.pack_rows; /* room is for half of them in F32 */
    for (int32_t row = 0; row < rows; row += g->rows, g->add = true) {
        g->rows = least(rows - row, most);
        g->groups = parts(g->rows, GROUP);
        g->a_pack = g->e_pack + (size_t)parts(g->columns, WIDE) * (size_t)g->groups * 4 * TILE;
        g->a = (const uint16_t *)m->a + (from + (size_t)row) * g->a_row + g->first;
        g->e = (const uint16_t *)m->c + (from + (size_t)row) * g->e_row;
        multiply_rows(g);
    }
}

static void add_part(const struct eco_cpu_run *run, const struct eco_multiply *m)
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
                         .a_row = m->a_row,
                         .e_row = m->c_row,
                         .columns = matrix->columns,
                         .e_pack = eco_cpu_at(run, &pack, 0)};
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end) {
        g.m = (span.end - span.first) * matrix->units;
        g.c = (float *)(void *)gradient + (size_t)span.before * units * columns;
        g.first = (size_t)span.first * units;
        g.add = m->add;
        if (m->rows == 0 && !m->add && run->id == 0)
            memset(g.c, 0, (size_t)g.m * columns * sizeof *g.c);
        for (struct eco_stretch some = {0}; eco_cpu_stretch(run, op, &some);)
            add_stretch(&g, m, (size_t)some.step * (size_t)run->args->N, some.rows);
    }
}

void eco_narrow_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n)
{
    if (run->layout->type != ECORNN_BF16 || run->cpu->isa->amx == NULL) {
        eco_packed_weights(run, multiply, n);
        return;
    }
    for (int i = 0; i < n; i++)
        add_part(run, &multiply[i]);
}
