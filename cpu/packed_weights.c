/*
 * Weight gradients of algorithm packed: dM += dacc^T e of all parts over all rows of an op, with
 * the product kernels of the steps.  Both sides are first copied into panels, some rows at a time,
 * so that the kernel reads neighbours; sums stay in the order of rows.
 *
 * C is larger than a private cache and is read and written once for every `pack_rows` rows, so
 * those should be many.  Of dacc a thread copies as many units as fill half its second-level cache,
 * and multiplies them with the panels of every part before it copies the next.
 */
#include "common/util.h"
#include "cpu/packed_gradient.h"

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

/* The blocks of one number; next: the panel after this one, NULL: none. */
static void multiply_blocks(const struct eco_gradient *g, const struct eco_gradient_part *part,
                            int32_t number, struct eco_share blocks, const struct eco_tile *tile,
                            const char *next)
{
    const size_t first = (size_t)(tile->c - part->c);
    const int32_t step = g->form.calls_blocks;
    struct eco_tile one = *tile;
    for (int32_t block = blocks.from; block < blocks.to; block += step) {
        const int32_t left = blocks.to - block, end = block + eco_least(step, left);
        one.rows = eco_gradient_unit(g, end) - eco_gradient_unit(g, block);
        one.pair[0].a_k = (size_t)one.rows;
        one.pair[0].a = eco_gradient_block(g, number, block);
        one.pair[0].prefetch = NULL;
        one.c = place_in_c(g, part, number, block) + first;
        if (left > step)
            fetch_rows(place_in_c(g, part, number, end) + first, one.c_row, one.rows,
                       tile->vectors * g->form.kernel->lanes);
        if (left <= 2 && next != NULL)
            one.pair[0].prefetch =
                next + (left == 1 ? (size_t)g->rows * ECO_TILE_LANES * sizeof(float) : 0);
        g->form.kernel->multiply(&one);
    }
}

static void multiply_panel(const struct eco_gradient *g, const struct eco_gradient_part *part,
                           int32_t panel, struct eco_share blocks)
{
    static const float zeros[ECO_TILE_LANES];
    const int32_t lanes = g->form.kernel->lanes, first = panel * g->form.wide;
    const int32_t width = eco_gradient_width(g, part, panel);
    struct eco_tile tile = {.pairs = 1,
                            .height = g->form.tall,
                            .vectors = width / lanes,
                            .pair = {{.k = g->rows,
                                      .panel_k = (size_t)(width * g->form.group),
                                      .a_row = 1,
                                      .panel = eco_gradient_panel(g, part, panel)}},
                            .c = part->c + first,
                            .c_row = (size_t)part->columns};
    for (int32_t v = 0; v < tile.vectors; v++) {
        tile.count[v] = eco_least(part->columns - first - v * lanes, lanes);
        tile.c_vector[v] = (size_t)(v * lanes);
        tile.start[v] = g->add ? NULL : zeros;
    }
    for (int32_t number = 0, last = g->numbers - 1; number <= last; number++) {
        const bool again = number == last && panel + 1 < panels_of(g, part);
        if (part->number[number] >= 0)
            multiply_blocks(g, part, number, blocks, &tile,
                            again ? eco_gradient_panel(g, part, panel + 1) : NULL);
    }
}

/* This thread's blocks, as many at a time as stay in its cache. */
static void multiply_units(struct eco_gradient *g, struct eco_share mine)
{
    const size_t bytes = (size_t)g->numbers * (size_t)g->depth * g->form.element;
    const size_t near = g->run->caps->cache_bytes / 2 / (bytes + 1); /* units */
    const int32_t most = (int32_t)near / g->form.tall + 1;
    const int32_t n = mine.to - mine.from, times = eco_pieces(n, most);
    char *const area = g->a_pack;
    g->a_pack += (size_t)eco_gradient_unit(g, mine.from) * bytes;
    for (int32_t i = 0; i < times; i++) {
        const struct eco_share blocks = {mine.from + n * i / times,
                                         mine.from + n * (i + 1) / times};
        g->units_at_hand =
            (struct eco_share){eco_gradient_unit(g, blocks.from), eco_gradient_unit(g, blocks.to)};
        for (int32_t number = 0; number < g->numbers; number++)
            if (has_part(g, number))
                g->form.pack_blocks(g, number, blocks);
        for (int k = 0; k < g->parts; k++)
            for (int32_t panel = 0; panel < panels_of(g, &g->part[k]); panel++)
                multiply_panel(g, &g->part[k], panel, blocks);
    }
    g->a_pack = area;
}

/* All threads: copy what all read, wait, multiply, wait. */
static void multiply_rows(struct eco_gradient *g)
{
    for (int k = 0; k < g->parts; k++) {
        const struct eco_share panels = eco_cpu_part(g->run, panels_of(g, &g->part[k]), 1);
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

/* false: no accumulator has this part. */
static bool describe(const struct eco_gradient *g, const struct eco_multiply *m,
                     struct eco_gradient_part *part)
{
    const struct eco_layout *layout = g->run->layout;
    const struct eco_op *op = m->op;
    char *dweights = g->run->args->dweights;
    struct eco_span span;
    *part = (struct eco_gradient_part){
        .e = m->c,
        .e_row = m->c_row,
        .c = (void *)(dweights + eco_layout_gradient(layout, op->layer, op->d, m->part)),
        .columns = eco_layout_matrix(layout, op->layer, m->part)->columns};
    for (int32_t i = 0; i < g->numbers; i++)
        part->number[i] = -1;
    bool any = false;
    for (int a = 0; eco_span_next(g->run->lowered, m->part, a, &span); a = span.end, any = true)
        for (int i = span.first; i < span.end; i++)
            part->number[i] = span.before + i - span.first;
    return any;
}

/* The next `rows` rows are at hand: where they are copied to, panels of every part, then units. */
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

/* Blocks of whole grains; or else near-equal ones, as many for each thread. */
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
    const struct eco_array pack =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_PACK);
    struct eco_gradient g = {
        .run = run,
        .form = eco_gradient_form(run),
        .type = run->layout->type,
        .a = multiply->a,
        .a_row = multiply->a_row,
        .t0 = op->t0,
        .numbers = multiply->part == ECO_PART_PROJECT ? 1 : run->lowered->n_accs,
        .units = eco_layout_matrix(run->layout, op->layer, multiply->part)->units,
        .add = multiply->add};
    for (int i = 0; i < n; i++)
        g.parts += describe(&g, &multiply[i], &g.part[g.parts]);
    cut_units(&g);
    /* room is for so many rows of floats */
    const int32_t most = run->layout->wishes.pack_rows * (int32_t)(sizeof(float) / g.form.element);
    const int32_t rows = multiply->rows, times = rows > 0 ? eco_pieces(rows, most) : 1;
    for (int32_t i = 0; i < times; i++, g.add = true) { /* without rows it clears */
        take_rows(&g, (int32_t)((int64_t)rows * (i + 1) / times - (int64_t)rows * i / times),
                  eco_cpu_at(run, &pack, 0));
        multiply_rows(&g);
        eco_gradient_skip(&g, &g.first, g.rows);
    }
}
