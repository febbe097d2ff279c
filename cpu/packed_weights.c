/*
 * Weight gradients of algorithm packed: dM += dacc^T e of all parts over all rows of an op, with
 * the product kernel of the steps.  Both sides are first copied into panels, some rows at a time,
 * so that the kernel reads neighbours; sums stay one chain in the order of rows.
 *
 * C is larger than a private cache and is read and written once for every `pack_rows` rows, so
 * those should be many.  Of dacc a thread copies as many units as fill half its second-level cache,
 * and multiplies them with the panels of every part before it copies the next.
 */
#include "cpu/packed.h"

#include <string.h>

#include "common/util.h"
#include "cpu/isa.h"

/* Row blocks copied together, so that every cache line of dacc is read once. */
enum { BLOCKS_AT_A_TIME = 8 };
/* Rows ahead of those being copied: each begins in a page of its own, where nobody fetches it. */
enum { ROWS_AHEAD = 6 };
enum { MAX_PARTS = 1 + ECO_MAX_OPERANDS };

/* A row among those of an op's steps [steps,N]; those that have ended are left out. */
struct row {
    int32_t step, n;
};

/* C[numbers * units, columns] += A[rows, numbers * units]^T E[rows, columns] for some numbers. */
struct part {
    const void *e; /* of the op's first row */
    size_t e_row;
    float *c;                     /* [m, columns] */
    int32_t number[ECO_MAX_ACCS]; /* which rows of C the units of A's number i are, -1: none */
    int32_t columns;
    float *e_pack; /* [panels, rows, wide] */
};

struct gradient {
    const struct eco_cpu_run *run;
    const void *a;    /* of the op's first row, [rows, numbers * units] */
    ecornn_type type; /* of a and e: F32, or BF16, which becomes F32 in the copies */
    size_t a_row;
    int32_t t0;
    struct row first; /* of those at hand */
    int32_t numbers, units, rows;
    int32_t blocks; /* near-equal ones of the units of a number */
    int32_t wide;   /* columns in a panel */
    float *a_pack;  /* of units at hand: [numbers, units, rows], in a block [rows, its units] */
    struct eco_share units_at_hand;
    bool add;
    int parts;
    struct part part[MAX_PARTS];
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

static void skip_rows(const struct gradient *g, struct row *row, int32_t rows)
{
    for (int32_t k = 0; k < rows; k++)
        next_row(g, row);
}

/* The first unit of a block. */
static int32_t block_unit(const struct gradient *g, int32_t block)
{
    return (int32_t)((int64_t)g->units * block / g->blocks);
}

static float *block_pack(const struct gradient *g, int32_t number, int32_t unit)
{
    const int32_t units = g->units_at_hand.to - g->units_at_hand.from;
    const int32_t before = number * units + unit - g->units_at_hand.from;
    return g->a_pack + (size_t)before * (size_t)g->rows;
}

static void copy(const struct gradient *g, float *out, const void *from, int32_t n)
{
    const float *floats = from;
    if (g->type == ECORNN_BF16) {
        g->run->cpu->isa->narrow->widen(out, from, n);
        return;
    }
    for (; n >= 4; n -= 4, out += 4, floats += 4)
        memcpy(out, floats, 4 * sizeof *out);
    for (int32_t i = 0; i < n; i++)
        out[i] = floats[i];
}

/* a_pack of neighbouring blocks: of a block, element (k, i) is A[k, its unit i]. */
static void pack_blocks(const struct gradient *g, int32_t number, struct eco_share blocks)
{
    float *out[BLOCKS_AT_A_TIME];
    int32_t first[BLOCKS_AT_A_TIME + 1];
    const int32_t n = blocks.to - blocks.from;
    for (int32_t b = 0; b <= n; b++)
        first[b] = block_unit(g, blocks.from + b);
    for (int32_t b = 0; b < n; b++)
        out[b] = block_pack(g, number, first[b]);
    const void *a = eco_cpu_after(g->type, g->a, (size_t)number * (size_t)g->units);
    struct row at = g->first, ahead = g->first;
    skip_rows(g, &ahead, least(ROWS_AHEAD, g->rows - 1));
    for (int32_t k = 0; k < g->rows; k++, next_row(g, &at)) {
        const void *row = eco_cpu_after(g->type, a, row_number(g, at) * g->a_row);
        const void *later = eco_cpu_after(g->type, a, row_number(g, ahead) * g->a_row);
        for (int32_t b = 0; b < n; b++) {
            const int32_t tall = first[b + 1] - first[b];
            ECO_FETCH(eco_cpu_after(g->type, later, (size_t)first[b]));
            copy(g, out[b], eco_cpu_after(g->type, row, (size_t)first[b]), tall);
            out[b] += tall;
        }
        if (k + 1 + ROWS_AHEAD < g->rows)
            next_row(g, &ahead);
    }
}

static bool has_part(const struct gradient *g, int32_t number)
{
    for (int i = 0; i < g->parts; i++)
        if (g->part[i].number[number] >= 0)
            return true;
    return false;
}

static void pack_units(const struct gradient *g, struct eco_share blocks)
{
    for (int32_t number = 0; number < g->numbers; number++)
        for (int32_t b = blocks.from; b < blocks.to && has_part(g, number); b += BLOCKS_AT_A_TIME)
            pack_blocks(g, number, (struct eco_share){b, least(b + BLOCKS_AT_A_TIME, blocks.to)});
}

static int32_t panels_of(const struct gradient *g, const struct part *part)
{
    return (part->columns + g->wide - 1) / g->wide;
}

/* Columns of a panel as whole vectors: what the last panel has fewer of. */
static int32_t panel_width(const struct gradient *g, const struct part *part, int32_t panel)
{
    const int32_t lanes = g->run->tile->lanes;
    const int32_t left = least(part->columns - panel * g->wide, g->wide);
    return (left + lanes - 1) / lanes * lanes;
}

static float *panel_pack(const struct gradient *g, const struct part *part, int32_t panel)
{
    return part->e_pack + (size_t)panel * (size_t)g->wide * (size_t)g->rows;
}

static void pack_panel(const struct gradient *g, const struct part *part, int32_t panel)
{
    const size_t width = (size_t)panel_width(g, part, panel);
    const size_t first = (size_t)panel * (size_t)g->wide;
    const size_t some = (size_t)least(part->columns - (int32_t)first, (int32_t)width);
    float *out = panel_pack(g, part, panel);
    struct row at = g->first;
    for (int32_t k = 0; k < g->rows; k++, out += width, next_row(g, &at)) {
        const size_t from = row_number(g, at) * part->e_row + first;
        copy(g, out, eco_cpu_after(g->type, part->e, from), (int32_t)some);
        memset(out + some, 0, (width - some) * sizeof *out);
    }
}

static float *place_in_c(const struct gradient *g, const struct part *part, int32_t number,
                         int32_t block)
{
    const size_t row = (size_t)part->number[number] * (size_t)g->units;
    return part->c + (row + (size_t)block_unit(g, block)) * (size_t)part->columns;
}

static void fetch_rows(const float *c, size_t row, int32_t rows, int32_t columns)
{
    for (int32_t r = 0; r < rows; r++, c += row)
        for (int32_t j = 0; j < columns; j += ECO_ALIGNMENT / (int32_t)sizeof *c)
            ECO_FETCH(c + j);
}

/* The blocks of one number; next: the panel after this one, NULL: none. */
static void multiply_blocks(const struct gradient *g, const struct part *part, int32_t number,
                            struct eco_share blocks, struct eco_tile *tile, const float *next)
{
    const size_t first = (size_t)(tile->c - part->c);
    for (int32_t block = blocks.from; block < blocks.to; block++) {
        const int32_t unit = block_unit(g, block), left = blocks.to - block;
        struct eco_tile one = *tile;
        one.rows = block_unit(g, block + 1) - unit;
        one.pair[0].a_k = (size_t)one.rows;
        one.pair[0].a = block_pack(g, number, unit);
        one.c = place_in_c(g, part, number, block) + first;
        if (left > 1)
            fetch_rows(place_in_c(g, part, number, block + 1) + first, one.c_row, one.rows,
                       (int32_t)one.pair[0].panel_k);
        if (left <= 2 && next != NULL)
            one.pair[0].prefetch = next + (left == 1 ? (size_t)g->rows * ECO_TILE_LANES : 0);
        g->run->tile->multiply(&one);
    }
}

static void multiply_panel(const struct gradient *g, const struct part *part, int32_t panel,
                           struct eco_share blocks)
{
    static const float zeros[ECO_TILE_LANES];
    const int32_t lanes = g->run->tile->lanes, first = panel * g->wide;
    const int32_t width = panel_width(g, part, panel);
    struct eco_tile tile = {.pairs = 1,
                            .vectors = width / lanes,
                            .pair = {{.k = g->rows,
                                      .panel_k = (size_t)width,
                                      .a_row = 1,
                                      .panel = panel_pack(g, part, panel)}},
                            .c = part->c + first,
                            .c_row = (size_t)part->columns};
    for (int32_t v = 0; v < tile.vectors; v++) {
        tile.count[v] = least(part->columns - first - v * lanes, lanes);
        tile.c_vector[v] = (size_t)(v * lanes);
        tile.start[v] = g->add ? NULL : zeros;
    }
    for (int32_t number = 0, last = g->numbers - 1; number <= last; number++) {
        const bool again = number == last && panel + 1 < panels_of(g, part);
        if (part->number[number] >= 0)
            multiply_blocks(g, part, number, blocks, &tile,
                            again ? panel_pack(g, part, panel + 1) : NULL);
    }
}

/* This thread's blocks, as many at a time as stay in its cache. */
static void multiply_units(struct gradient *g, struct eco_share mine)
{
    const size_t bytes = (size_t)g->numbers * (size_t)g->rows * sizeof(float);
    const size_t near = g->run->caps->cache_bytes / 2 / (bytes + 1); /* units */
    const int32_t most = (int32_t)near / g->run->tile->rows + 1;
    const int32_t n = mine.to - mine.from, times = (n + most - 1) / most;
    float *const area = g->a_pack;
    g->a_pack += (size_t)block_unit(g, mine.from) * bytes / sizeof(float);
    for (int32_t i = 0; i < times; i++) {
        const struct eco_share blocks = {mine.from + n * i / times,
                                         mine.from + n * (i + 1) / times};
        g->units_at_hand = (struct eco_share){block_unit(g, blocks.from), block_unit(g, blocks.to)};
        pack_units(g, blocks);
        for (int k = 0; k < g->parts; k++)
            for (int32_t panel = 0; panel < panels_of(g, &g->part[k]); panel++)
                multiply_panel(g, &g->part[k], panel, blocks);
    }
    g->a_pack = area;
}

/* All threads: copy what all read, wait, multiply, wait. */
static void multiply_rows(struct gradient *g)
{
    for (int k = 0; k < g->parts; k++) {
        const struct eco_share panels = eco_cpu_part(g->run, panels_of(g, &g->part[k]), 1);
        for (int32_t panel = panels.from; panel < panels.to; panel++)
            pack_panel(g, &g->part[k], panel);
    }
    eco_cpu_wait(g->run);
    multiply_units(g, eco_cpu_part(g->run, g->blocks, 1));
    eco_cpu_wait(g->run);
}

/* false: no accumulator has this part. */
static bool describe(const struct gradient *g, const struct eco_multiply *m, struct part *part)
{
    const struct eco_layout *layout = g->run->layout;
    const struct eco_op *op = m->op;
    char *dweights = g->run->args->dweights;
    struct eco_span span;
    *part = (struct part){
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

/* Where rows are copied to: panels of every part, then units. */
static void place_packs(struct gradient *g, float *pack)
{
    for (int k = 0; k < g->parts; k++) {
        struct part *part = &g->part[k];
        part->e_pack = pack;
        pack += (size_t)panels_of(g, part) * (size_t)g->wide * (size_t)g->rows;
    }
    g->a_pack = pack;
}

void eco_packed_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n)
{
    const struct eco_op *op = multiply->op;
    const struct eco_array pack =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_PACK);
    struct gradient g = {.run = run,
                         .type = run->layout->type,
                         .a = multiply->a,
                         .a_row = multiply->a_row,
                         .t0 = op->t0,
                         .numbers = multiply->part == ECO_PART_PROJECT ? 1 : run->lowered->n_accs,
                         .units = eco_layout_matrix(run->layout, op->layer, multiply->part)->units,
                         .wide = run->tile->vectors * run->tile->lanes,
                         .add = multiply->add};
    for (int i = 0; i < n; i++)
        g.parts += describe(&g, &multiply[i], &g.part[g.parts]);
    const int32_t blocks = (g.units + run->tile->rows - 1) / run->tile->rows;
    g.blocks = least((blocks + run->count - 1) / run->count * run->count, g.units);
    const int32_t rows = multiply->rows, most = run->layout->wishes.pack_rows;
    const int32_t times = rows > 0 ? (rows + most - 1) / most : 1; /* without rows it clears */
    for (int32_t i = 0; i < times; i++, g.add = true) {
        g.rows = (int32_t)((int64_t)rows * (i + 1) / times - (int64_t)rows * i / times);
        place_packs(&g, eco_cpu_at(run, &pack, 0));
        multiply_rows(&g);
        skip_rows(&g, &g.first, g.rows);
    }
}
