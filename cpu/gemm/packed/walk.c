/*
 * One thread's walk over panels: rows of A times panels of the weights, one block of units after
 * the other; of a step, the cell's pointwise pass finishes a block while its sums are near.
 */
#include "cpu/gemm/packed/packed.h"

#include "cpu/isa/isa.h"

/* Rows of C from which it pays to fetch those of the next panel. */
enum { ROWS_TO_FETCH = 6 };

const float eco_packed_zeros[ECO_TILE_LANES];

/* Rows and units at hand. */
struct part {
    struct eco_share rows, units;
    int32_t next; /* first unit of the part after this one, -1: none */
};

/* ---- a block of units ------------------------------------------------------------------------ */

/* The tile's columns of C: where vectors [first, end) of a block go. */
static void place_vectors(const struct eco_packed_product *p, struct eco_tile *tile, int32_t block,
                          int32_t first, int32_t end)
{
    tile->vectors = end - first;
    for (int32_t i = 0; i < end - first; i++) {
        const struct eco_vector vector = eco_packed_vector(p, block, first + i);
        tile->count[i] = vector.count;
        tile->c_vector[i] = vector.c_vector;
        tile->start[i] = vector.start;
    }
}

static int32_t panel_vectors(const struct eco_packed_product *p, int32_t panel)
{
    return eco_panels_vector(p->panels, panel + 1) - eco_panels_vector(p->panels, panel);
}

const char *eco_packed_panel(const struct eco_packed_product *p, int32_t block, int32_t panel)
{
    const size_t vector = (size_t)panel_vectors(p, panel) * (size_t)p->panels->lanes;
    const size_t skipped = (size_t)p->skipped * vector;
    return p->weights + (eco_panels_offset(p->panels, block, panel) + skipped) * p->element;
}

/* Moves to the panel that is next in walking order; false: there is none. */
static bool go_on(const struct eco_packed_product *p, const struct part *part, int32_t *block,
                  int32_t *panel)
{
    if (++*panel < p->panels->panels)
        return true;
    *panel = 0;
    if (++*block * p->group < part->units.to)
        return true;
    *block = part->next >> p->panels->units_shift;
    return part->next >= 0;
}

/* Where C of a panel begins, if the kernel adds to it. */
static const float *starts_at(const struct eco_packed_product *p, const struct eco_tile *tile,
                              int32_t block, int32_t panel)
{
    const struct eco_panels *panels = p->panels;
    const int32_t first = eco_panels_vector(panels, panel);
    const struct eco_packed_number *number = &p->number[first >> panels->shift];
    const int32_t unit = block * p->group + (first & (panels->spans - 1)) * panels->lanes;
    return number->add
               ? tile->c + number->column + eco_blocks_at(&p->multiply->blocks, (size_t)unit)
               : NULL;
}

/* Some of what is fetched instead of a panel: the kernel takes a line at each k at least. */
static const void *some_later(struct eco_packed_product *p)
{
    enum { LINE = 64 };
    const char *const from = p->later;
    if (from == p->later_end)
        return NULL;
    const size_t left = (size_t)(p->later_end - from), some = (size_t)p->k * LINE;
    p->later += some < left ? some : left;
    return from;
}

/* Adds a panel to what a tile multiplies. */
static void add_panel(struct eco_packed_product *p, struct eco_tile *tile, const struct part *part,
                      int32_t block, int32_t panel)
{
    int32_t next_block = block, next = panel;
    const bool more = go_on(p, part, &next_block, &next);
    const bool fetch = more && tile->rows >= ROWS_TO_FETCH;
    tile->next = fetch ? starts_at(p, tile, next_block, next) : NULL;
    tile->pair[tile->pairs++] =
        (struct eco_tile_pair){.k = p->k,
                               .a = p->a,
                               .a_row = p->a_row,
                               .a_k = 1,
                               .panel = eco_packed_panel(p, block, panel),
                               .panel_k = (size_t)panel_vectors(p, panel) * eco_packed_step(p),
                               .prefetch = p->near ? some_later(p)
                                           : more  ? eco_packed_panel(p, next_block, next)
                                                   : NULL};
}

/* C from a row and a unit on: what the tile has of it as floats. */
static void round_panel(const struct eco_packed_work *w, const struct eco_packed_product *p,
                        const struct eco_tile *tile, int32_t row, int32_t unit)
{
    const struct eco_multiply *m = p->multiply;
    for (int32_t r = 0; r < tile->rows; r++)
        for (int32_t i = 0; i < tile->vectors; i++) {
            uint16_t *to = (uint16_t *)m->c + (size_t)(row + r) * m->c_row +
                           (size_t)(unit + i * p->panels->lanes);
            const float *from = tile->c + (size_t)r * tile->c_row + tile->c_vector[i];
            if (tile->count[i] > 0)
                w->run->isa->narrow_rows->round(to, from, tile->count[i], m->add);
        }
}

/* Vectors [first, end) of a block; p: the product whose panel says where they go. */
static void multiply_vectors(const struct eco_packed_work *w, const struct eco_packed_product *p,
                             struct eco_tile *tile, int32_t row, int32_t block, int32_t first,
                             int32_t end)
{
    const int32_t lanes = p->panels->lanes;
    place_vectors(p, tile, block, first, end);
    for (int32_t i = 0; p->rounded && i < end - first; i++) {
        tile->c_vector[i] = (size_t)(i * lanes);
        tile->start[i] = eco_packed_zeros;
    }
    p->kernel->multiply(tile);
    if (p->rounded)
        round_panel(w, p, tile, row, block * p->group + first * lanes);
}

/* Of a panel of which other threads have units too, or which has more units than there are: our
 * vectors, neighbours together. */
static void multiply_panel(const struct eco_packed_work *w, const struct eco_packed_product *p,
                           struct eco_tile *tile, const struct part *part, int32_t block,
                           int32_t panel)
{
    const struct eco_share units = part->units;
    const int32_t unit = block * p->group, row = part->rows.from;
    const int32_t begin = eco_panels_vector(p->panels, panel);
    const int32_t end = eco_panels_vector(p->panels, panel + 1);
    if (unit >= units.from && unit + p->group <= units.to) {
        multiply_vectors(w, p, tile, row, block, begin, end);
        return;
    }
    struct eco_tile some = *tile;
    for (int32_t v = begin, first = begin; v < end; first = ++v) {
        for (; v < end; v++) {
            const int32_t at = unit + (v & (p->panels->spans - 1)) * p->panels->lanes;
            if (at < units.from || at >= units.to)
                break;
        }
        if (v == first)
            continue;
        for (int32_t i = 0; i < tile->pairs; i++) {
            const size_t before = (size_t)(first - begin) * eco_packed_step(p) * p->element;
            some.pair[i].panel = (const char *)tile->pair[i].panel + before;
            some.pair[i].prefetch = NULL;
        }
        multiply_vectors(w, p, &some, row, block, first, v);
    }
}

static struct eco_tile tile_of(const struct eco_packed_work *w, const struct eco_packed_product *p,
                               const struct part *part)
{
    const struct eco_multiply *m = p->multiply;
    struct eco_tile tile;
    tile.rows = part->rows.to - part->rows.from;
    tile.height = w->height;
    tile.pairs = 0;
    tile.c = (float *)m->c + (size_t)part->rows.from * m->c_row;
    tile.c_row = m->c_row;
    if (p->rounded) {
        tile.c = p->rounded;
        tile.c_row = (size_t)(ECO_TILE_VECTORS * p->panels->lanes);
    }
    return tile;
}

static void multiply_units(const struct eco_packed_work *w, struct eco_packed_product *p,
                           const struct part *part)
{
    struct eco_tile tile = tile_of(w, p, part);
    for (int32_t block = part->units.from >> p->panels->units_shift;
         block * p->group < part->units.to; block++)
        for (int32_t panel = 0; panel < p->panels->panels; panel++) {
            tile.pairs = 0;
            add_panel(p, &tile, part, block, panel);
            multiply_panel(w, p, &tile, part, block, panel);
        }
}

static void multiply_pairs(const struct eco_packed_work *w, const struct part *part)
{
    struct eco_packed_product *p = w->product;
    struct eco_tile tile = tile_of(w, p, part);
    for (int32_t block = part->units.from >> p->panels->units_shift;
         block * p->group < part->units.to; block++)
        for (int k = 0; k < w->pairs; k++) {
            const int8_t *panel = w->pair[k].panel;
            const int first = panel[0] >= 0 ? 0 : 1;
            tile.pairs = 0;
            for (int i = 0; i < ECO_TILE_PAIRS; i++)
                if (panel[i] >= 0)
                    add_panel(&p[i], &tile, part, block, panel[i]);
            tile.next = NULL; /* sums of pairs begin with biases */
            multiply_panel(w, &p[first], &tile, part, block, panel[first]);
        }
}

/* ---- all blocks ------------------------------------------------------------------------------ */

static struct eco_share block_units(const struct eco_packed_work *w, int32_t block)
{
    const int32_t from = block * w->width, to = from + w->width;
    return (struct eco_share){from > w->units.from ? from : w->units.from,
                              to < w->units.to ? to : w->units.to};
}

void eco_packed_pass(const struct eco_packed_work *w, struct eco_share rows, struct eco_share units)
{
    const struct eco_pointwise *const all = w->call;
    if (rows.to - rows.from == all->row1 - all->row0 &&
        units.to - units.from == all->unit1 - all->unit0) {
        w->kernel(all);
        return;
    }
    struct eco_pointwise call = *all;
    call.row0 = rows.from;
    call.row1 = rows.to;
    call.unit0 = units.from;
    call.unit1 = units.to;
    w->kernel(&call);
}

static void work_on_blocks(const struct eco_packed_work *w, struct eco_share rows)
{
    const int32_t first = w->units.from / w->width;
    const int32_t last = (w->units.to + w->width - 1) / w->width - 1;
    const int32_t step = w->backwards ? -1 : 1;
    int32_t block = w->backwards ? last : first;
    for (int32_t i = first; i <= last; i++, block += step) {
        const struct part part = {.rows = rows,
                                  .units = block_units(w, block),
                                  .next = i < last ? block_units(w, block + step).from : -1};
        if (w->pairs > 0)
            multiply_pairs(w, &part);
        for (int k = w->pairs > 0 ? ECO_TILE_PAIRS : 0; k < w->products; k++)
            multiply_units(w, &w->product[k], &part);
        if (w->call != NULL && !w->pass_after)
            eco_packed_pass(w, rows, part.units);
    }
    if (w->call != NULL && w->pass_after)
        eco_packed_pass(w, rows, w->units);
}

/* ---- all rows -------------------------------------------------------------------------------- */

void eco_packed_walk(struct eco_packed_work *w)
{
    const struct eco_tile_kernel *kernel = w->products > 0 ? w->product->kernel : NULL;
    const int32_t rows = w->rows.to - w->rows.from;
    if (w->units.from >= w->units.to || rows <= 0)
        return;
    const int32_t near = eco_packed_piece(w, rows), block = w->run->layout->wishes.cpu.block;
    const int32_t piece = block > 0 && block < near ? block : near;
    for (int32_t from = w->rows.from; from < w->rows.to; from += piece) {
        const int32_t left = w->rows.to - from;
        const struct eco_share some = {from, from + (left < piece ? left : piece)};
        eco_packed_bring(w, some);
        if (kernel != NULL && kernel->begin != NULL)
            kernel->begin(w->height = eco_packed_height(some.to - some.from));
        work_on_blocks(w, some);
        if (kernel != NULL && kernel->end != NULL)
            kernel->end();
    }
}
