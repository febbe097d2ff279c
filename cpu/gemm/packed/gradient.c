/*
 * Weight gradients of algorithm packed: dM += dacc^T e for all parts over all rows of an op, with
 * the product kernels of the steps. Both operands are first copied into panels, some rows at a
 * time, so that the kernel reads contiguous memory; sums stay in the order of rows.
 *
 * C is larger than a private cache and is read and written once for every `pack_rows` rows, so
 * those should be many. A thread copies as many units of dacc as fill half its second-level cache,
 * and multiplies them with the panels of every part before it copies the next.
 */
#include "common/util.h"
#include "cpu/gemm/packed/gradient.h"

static bool has_part(const struct eco_gradient *g, int32_t number)
{
    for (int i = 0; i < g->parts; i++)
        if (g->part[i].number[number] >= 0)
            return true;
    return false;
}

static int32_t panels_of(const struct eco_gradient *g, const struct eco_gradient_part *part)
{
    return eco_pieces(part->columns, g->form.wide);
}

static float *place_in_c(const struct eco_gradient *g, const struct eco_gradient_part *part,
                         int32_t number, int32_t block)
{
    const size_t row = (size_t)part->number[number] * (size_t)g->units;
    return part->c + (row + (size_t)eco_gradient_unit(g, block)) * (size_t)part->columns;
}

static void fetch_rows(const float *c, size_t row, int32_t rows, int32_t columns)
{
    for (int32_t r = 0; r < rows; r++, c += row)
        for (int32_t j = 0; j < columns; j += ECO_ALIGNMENT / (int32_t)sizeof *c)
            ECO_FETCH(c + j);
}

/* Panels that a block of units is multiplied with before the next block. The rows of C of a block
 * begin in pages of their own, which should not be looked up for every panel. */
enum { PANELS = 4 };

/* Neighbouring panels of a part, and the blocks that they are multiplied with. */
struct piece {
    const struct eco_gradient *g;
    const struct eco_gradient_part *part;
    struct eco_range panels, blocks;
    struct eco_tile tile[PANELS];
};

static struct eco_tile tile_of(const struct piece *p, int32_t panel)
{
    static const float zeros[ECO_TILE_LANES];
    const struct eco_gradient *g = p->g;
    const int32_t lanes = g->form.kernel->lanes, first = panel * g->form.wide;
    const int32_t width = eco_gradient_width(g, p->part, panel);
    struct eco_tile tile = {.pairs = 1,
                            .height = g->form.tall,
                            .first_bytes = g->run->caps->cpu.first_bytes,
                            .vectors = width / lanes,
                            .pair = {{.k = g->rows,
                                      .panel_k = (size_t)(width * g->form.group),
                                      .a_row = (size_t)g->form.a_row,
                                      .panel = eco_gradient_panel(g, p->part, panel)}},
                            .c_row = (size_t)p->part->columns};
    for (int32_t v = 0; v < tile.vectors; v++) {
        tile.count[v] = eco_least(p->part->columns - first - v * lanes, lanes);
        tile.c_vector[v] = (size_t)(first + v * lanes);
        tile.start[v] = g->add ? NULL : zeros;
    }
    return tile;
}

/* Prefetches C of a block's next panel, or of the next block's first. */
static void fetch_next(const struct piece *p, int32_t number, int32_t block, int32_t panel)
{
    const struct eco_gradient *g = p->g;
    const int32_t end = block + g->form.calls_blocks;
    const bool last = ++panel == p->panels.to;
    if (last && end >= p->blocks.to)
        return;
    const int32_t column = (last ? p->panels.from : panel) * g->form.wide;
    const int32_t from = last ? end : block;
    const int32_t to = eco_least(from + g->form.calls_blocks, p->blocks.to);
    fetch_rows(place_in_c(g, p->part, number, from) + column, (size_t)p->part->columns,
               eco_gradient_unit(g, to) - eco_gradient_unit(g, from),
               eco_least(g->form.wide, p->part->columns - column));
}

/* Have the units of the blocks and the columns of a panel no head in common? */
static bool is_zero(const struct piece *p, int32_t block, int32_t end, int32_t panel)
{
    const int32_t head = p->part->head, wide = p->g->form.wide;
    if (head == 0)
        return false;
    const int32_t first = eco_gradient_unit(p->g, block) / head,
                  last = (eco_gradient_unit(p->g, end) - 1) / head;
    const int32_t column = panel * wide, most = eco_least(column + wide, p->part->columns) - 1;
    return column / head > last || most / head < first;
}

static void multiply_block(struct piece *p, int32_t number, int32_t block)
{
    const struct eco_gradient *g = p->g;
    const int32_t end = eco_least(block + g->form.calls_blocks, p->blocks.to);
    const int32_t rows = eco_gradient_unit(g, end) - eco_gradient_unit(g, block);
    for (int32_t panel = p->panels.from; panel < p->panels.to; panel++) {
        struct eco_tile *tile = &p->tile[panel - p->panels.from];
        tile->rows = rows;
        tile->c = place_in_c(g, p->part, number, block);
        tile->pair[0].a = eco_gradient_block(g, number, block);
        tile->pair[0].a_k = (size_t)(g->form.a_k > 0 ? g->form.a_k : rows);
        fetch_next(p, number, block, panel);
        const bool zero = is_zero(p, block, end, panel);
        tile->pair[0].k = zero ? 0 : g->rows;
        if (!zero || !g->add)
            g->form.kernel->multiply(tile);
    }
}

static void multiply_panels(const struct eco_gradient *g, const struct eco_gradient_part *part,
                            int32_t first, struct eco_range blocks)
{
    struct piece p = {.g = g, .part = part, .blocks = blocks};
    p.panels = (struct eco_range){first, eco_least(first + PANELS, panels_of(g, part))};
    for (int32_t panel = p.panels.from; panel < p.panels.to; panel++)
        p.tile[panel - p.panels.from] = tile_of(&p, panel);
    for (int32_t number = 0; number < g->numbers; number++)
        for (int32_t block = blocks.from; block < blocks.to && part->number[number] >= 0;
             block += g->form.calls_blocks)
            multiply_block(&p, number, block);
}

/* This thread's blocks, as many at a time as stay in its cache. */
static void multiply_units(struct eco_gradient *g, struct eco_range mine)
{
    const size_t bytes = (size_t)g->numbers * (size_t)g->depth * g->form.element;
    const size_t fitting = g->run->caps->cpu.cache_bytes / 2 / (bytes + 1); /* units */
    const int32_t most = (int32_t)fitting / g->form.tall + 1;
    const int32_t n = mine.to - mine.from, times = eco_pieces(n, most);
    char *const area = g->a_pack;
    g->a_pack += (size_t)eco_gradient_unit(g, mine.from) * bytes;
    for (int32_t i = 0; i < times; i++) {
        const struct eco_range blocks = {mine.from + (int32_t)((int64_t)n * i / times),
                                         mine.from + (int32_t)((int64_t)n * (i + 1) / times)};
        g->units_at_hand =
            (struct eco_range){eco_gradient_unit(g, blocks.from), eco_gradient_unit(g, blocks.to)};
        for (int32_t number = 0; number < g->numbers; number++)
            if (has_part(g, number))
                g->form.pack_blocks(g, number, blocks);
        for (int k = 0; k < g->parts; k++)
            for (int32_t panel = 0; panel < panels_of(g, &g->part[k]); panel += PANELS)
                multiply_panels(g, &g->part[k], panel, blocks);
    }
    g->a_pack = area;
}

/* All threads: copy what all read, wait, multiply, wait. */
static void multiply_rows(struct eco_gradient *g)
{
    for (int k = 0; k < g->parts; k++) {
        const struct eco_range panels = eco_cpu_part(g->run, panels_of(g, &g->part[k]), 1);
        for (int32_t panel = panels.from; panel < panels.to; panel++)
            g->form.pack_panel(g, &g->part[k], panel);
    }
    eco_cpu_wait(g->run);
    if (g->form.kernel->begin != NULL)
        g->form.kernel->begin(g->form.tall);
    multiply_units(g, eco_cpu_part(g->run, g->blocks, 1));
    if (g->form.kernel->end != NULL)
        g->form.kernel->end();
    eco_cpu_wait(g->run);
}

/* False if no accumulator has this part. */
static bool describe(const struct eco_gradient *g, const struct eco_multiply *m,
                     struct eco_gradient_part *part)
{
    const struct eco_layout *layout = g->run->layout;
    const struct eco_op *op = m->op;
    struct eco_acc_range span;
    *part = (struct eco_gradient_part){.e = m->c,
                                       .e_row = m->c_row,
                                       .c = eco_cpu_gradient(g->run, op, m->part),
                                       .columns =
                                           eco_layout_matrix(layout, op->layer, m->part)->columns};
    if (g->run->problem->heads > 1 && m->part >= ECO_WEIGHT_RECURRENT)
        part->head = eco_problem_head(g->run->problem);
    for (int32_t i = 0; i < g->numbers; i++)
        part->number[i] = -1;
    bool any = false;
    for (int a = 0; eco_acc_range_next(g->run->lowered, m->part, a, &span);
         a = span.end, any = true)
        for (int i = span.first; i < span.end; i++)
            part->number[i] = span.before + i - span.first;
    return any;
}

/* Takes the next `rows` rows: sets where they are copied to, panels of every part, then units. */
static void take_rows(struct eco_gradient *g, int32_t rows, char *pack)
{
    g->rows = rows;
    g->depth = eco_pieces(rows, g->form.group) * g->form.group;
    for (int k = 0; k < g->parts; k++) {
        struct eco_gradient_part *part = &g->part[k];
        part->e_pack = pack;
        pack = eco_gradient_panel(g, part, panels_of(g, part));
    }
    g->a_pack = pack;
}

/* Divides into blocks of whole grains, or near-equal blocks, as many for each thread. */
static void cut_units(struct eco_gradient *g)
{
    const int threads = g->run->count;
    g->blocks = eco_pieces(g->units, g->form.tall);
    g->tall = g->form.tall;
    g->taller = 0;
    if (g->form.grain > 1)
        return;
    g->blocks = eco_least(eco_pieces(g->blocks, threads) * threads, g->units);
    g->tall = g->units / g->blocks;
    g->taller = g->units % g->blocks;
}

void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n)
{
    const struct eco_op *op = multiply->op;
    struct eco_gradient g = {
        .run = run,
        .form = eco_gradient_form(run),
        .type = run->layout->type,
        .a = multiply->a,
        .a_row = multiply->a_row,
        .t0 = op->t0,
        .numbers = multiply->part == ECO_WEIGHT_PROJECT ? 1 : run->lowered->n_accs,
        .units = eco_layout_matrix(run->layout, op->layer, multiply->part)->units,
        .add = multiply->add};
    for (int i = 0; i < n; i++)
        g.parts += describe(&g, &multiply[i], &g.part[g.parts]);
    cut_units(&g);
    /* room is for this number of rows of floats */
    const int32_t most =
        run->layout->request.cpu.pack_rows * (int32_t)(sizeof(float) / g.form.element);
    const int32_t rows = multiply->rows, times = rows > 0 ? eco_pieces(rows, most) : 1;
    const int32_t group = eco_cpu_gradient_rows(run) / most, often = group > 0 ? group : 1;
    for (int32_t i = 0; i < times; i++, g.add = true) { /* without rows it clears */
        take_rows(&g, (int32_t)((int64_t)rows * (i + 1) / times - (int64_t)rows * i / times),
                  eco_bind_array(run->layout, run->args, op, ECO_INNER_PACK, 0).first);
        multiply_rows(&g);
        eco_gradient_skip(&g, &g.first, g.rows);
        if ((i + 1) % often == 0 && i + 1 < times)
            eco_cpu_gradient_join(run, op);
    }
}
