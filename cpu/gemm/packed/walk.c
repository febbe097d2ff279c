/*
 * One thread's walk over panels: rows of A times panels of the weights, one block of units after
 * the other. In a step the cell's pointwise pass finishes a block while its sums are in the cache.
 */
#include "cpu/gemm/packed/packed.h"

#include "cpu/isa/isa.h"

/* Rows of C from which it pays to prefetch those of the next panel. */
enum { ROWS_TO_FETCH = 6 };

const float eco_packed_zeros[ECO_TILE_LANES];

/* The current rows and units. */
struct part {
    struct eco_range rows, units;
    int32_t next; /* first unit of the next part; -1: none */
};

/* ---- a block of units ------------------------------------------------------------------------ */

/* The tile's columns of C for vectors [first, end) of a block. */
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

/* Moves to the next panel in walking order; false if there is none. */
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

/* The start of C of a panel, if the kernel adds to it. */
static const float *starts_at(const struct eco_packed_product *p, const struct eco_tile *tile,
                              int32_t block, int32_t panel)
{
    const struct eco_panels *panels = p->panels;
    const int32_t first = eco_panels_vector(panels, panel);
    const struct eco_packed_number *number = &p->number[first >> panels->shift];
    const int32_t unit = block * p->group + (first & (panels->lane_groups - 1)) * panels->lanes;
    return number->add
               ? tile->c + number->column + eco_blocks_at(&p->multiply->blocks, (size_t)unit)
               : NULL;
}

/* A part of what is prefetched instead of a panel: the kernel takes at least a line at each k. */
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

/* The k that a block of units is multiplied with, in whole groups; with heads those of its own. */
static struct eco_range block_k(const struct eco_packed_product *p, int32_t block)
{
    if (p->head == 0)
        return (struct eco_range){0, p->k};
    const int32_t units = p->panels->units, group = p->panels->group;
    const int32_t unit = block * p->group, end = unit + p->group < units ? unit + p->group : units;
    const int32_t from = p->number_k + unit / p->head * p->head;
    const int32_t to = p->number_k + ((end - 1) / p->head + 1) * p->head;
    const int32_t whole = (to + group - 1) / group * group;
    return (struct eco_range){from / group * group, whole < p->k ? whole : p->k};
}

/* Adds a panel to what a tile multiplies. */
static void add_panel(struct eco_packed_product *p, struct eco_tile *tile, const struct part *part,
                      int32_t block, int32_t panel)
{
    int32_t next_block = block, next = panel;
    const bool more = go_on(p, part, &next_block, &next);
    const bool fetch = more && tile->rows >= ROWS_TO_FETCH;
    const struct eco_range k = block_k(p, block);
    const size_t step = (size_t)panel_vectors(p, panel) * (size_t)p->panels->lanes * p->element;
    tile->next = fetch ? starts_at(p, tile, next_block, next) : NULL;
    tile->pair[tile->pairs++] = (struct eco_tile_pair){
        .k = k.to - k.from,
        .a = (const char *)p->a + (size_t)k.from * p->a_element,
        .a_row = p->a_row,
        .a_k = 1,
        .panel = eco_packed_panel(p, block, panel) + (size_t)k.from * step,
        .panel_k = (size_t)panel_vectors(p, panel) * eco_packed_step(p),
        .scales = eco_packed_scales(p, block, eco_panels_vector(p->panels, panel)),
        .rows = p->scaled,
        .prefetch = p->cached ? some_later(p)
                    : more    ? eco_packed_panel(p, next_block, next)
                              : NULL};
}

/* Rounds the tile's floats to C, from a row and a unit on. */
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

/* Some vectors of a block; p: the product whose panel gives their positions. */
static void multiply_vectors(const struct eco_packed_work *w, const struct eco_packed_product *p,
                             struct eco_tile *tile, int32_t row, int32_t block,
                             struct eco_range vectors)
{
    const int32_t lanes = p->panels->lanes;
    place_vectors(p, tile, block, vectors.from, vectors.to);
    for (int32_t i = 0; p->rounded && i < vectors.to - vectors.from; i++) {
        tile->c_vector[i] = (size_t)(i * lanes);
        tile->start[i] = eco_packed_zeros;
    }
    p->kernel->multiply(tile);
    if (p->rounded)
        round_panel(w, p, tile, row, block * p->group + vectors.from * lanes);
}

/* A panel of which other threads have units too, or with more units than there are: multiplies
 * adjacent vectors of ours together. */
static void multiply_panel(const struct eco_packed_work *w, const struct eco_packed_product *p,
                           struct eco_tile *tile, const struct part *part, int32_t block,
                           int32_t panel)
{
    const struct eco_range units = part->units;
    const int32_t unit = block * p->group, row = part->rows.from;
    const int32_t begin = eco_panels_vector(p->panels, panel);
    const int32_t end = eco_panels_vector(p->panels, panel + 1);
    if (unit >= units.from && unit + p->group <= units.to) {
        multiply_vectors(w, p, tile, row, block, (struct eco_range){begin, end});
        return;
    }
    struct eco_tile some = *tile;
    for (int32_t v = begin, first = begin; v < end; first = ++v) {
        for (; v < end; v++) {
            const int32_t at = unit + (v & (p->panels->lane_groups - 1)) * p->panels->lanes;
            if (at < units.from || at >= units.to)
                break;
        }
        if (v == first)
            continue;
        for (int32_t i = 0; i < tile->pairs; i++) {
            const size_t before = (size_t)(first - begin) * eco_packed_step(p) * p->element;
            some.pair[i].panel = (const char *)tile->pair[i].panel + before;
            some.pair[i].prefetch = NULL;
            if (tile->pair[i].scales != NULL)
                some.pair[i].scales =
                    tile->pair[i].scales + (eco_panels_scales(p->panels, 0, first) -
                                            eco_panels_scales(p->panels, 0, begin));
        }
        multiply_vectors(w, p, &some, row, block, (struct eco_range){first, v});
    }
}

static struct eco_tile tile_of(const struct eco_packed_work *w, const struct eco_packed_product *p,
                               const struct part *part)
{
    const struct eco_multiply *m = p->multiply;
    struct eco_tile tile;
    tile.rows = part->rows.to - part->rows.from;
    tile.height = w->height;
    tile.first_bytes = w->run->caps->cpu.first_bytes;
    tile.pairs = 0;
    tile.c = (float *)m->c + (size_t)part->rows.from * m->c_row;
    tile.c_row = m->c_row;
    if (p->rounded) {
        tile.c = p->rounded;
        tile.c_row = (size_t)(ECO_TILE_VECTORS * p->panels->lanes);
    }
    return tile;
}

/* A panel; backward with heads the k of each number by itself. */
static void multiply_numbers(const struct eco_packed_work *w, struct eco_packed_product *p,
                             struct eco_tile *tile, const struct part *part, int32_t block,
                             int32_t panel)
{
    const bool by_number = p->multiply->back && p->head > 0, add = p->number[0].add;
    const int32_t each = by_number ? p->panels->units : p->k;
    for (p->number_k = 0; p->number_k < p->k; p->number_k += each) {
        tile->pairs = 0;
        add_panel(p, tile, part, block, panel);
        multiply_panel(w, p, tile, part, block, panel);
        p->number[0].add = by_number || add;
    }
    p->number[0].add = add;
    p->number_k = 0;
}

static void multiply_units(const struct eco_packed_work *w, struct eco_packed_product *p,
                           const struct part *part)
{
    struct eco_tile tile = tile_of(w, p, part);
    for (int32_t block = part->units.from >> p->panels->units_shift;
         block * p->group < part->units.to; block++)
        for (int32_t panel = 0; panel < p->panels->panels; panel++)
            multiply_numbers(w, p, &tile, part, block, panel);
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

static struct eco_range block_units(const struct eco_packed_work *w, struct eco_range units,
                                    int32_t block)
{
    const int32_t from = block * w->width, to = from + w->width;
    return (struct eco_range){from > units.from ? from : units.from, to < units.to ? to : units.to};
}

void eco_packed_pass(const struct eco_packed_work *w, struct eco_range rows, struct eco_range units)
{
    const struct eco_pointwise *const all = w->call;
    if (rows.from == all->row0 && rows.to == all->row1 && units.from == all->unit0 &&
        units.to == all->unit1) {
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

/* Number i of `blocks` blocks of some units, in walking order. */
static void work_on_block(const struct eco_packed_work *w, struct eco_range rows,
                          struct eco_range units, int32_t i, int32_t blocks)
{
    const int32_t step = w->backwards ? -1 : 1;
    const int32_t block = eco_packed_first_block(w, units) + (w->backwards ? blocks - 1 - i : i);
    const struct part part = {.rows = rows,
                              .units = block_units(w, units, block),
                              .next =
                                  i + 1 < blocks ? block_units(w, units, block + step).from : -1};
    if (w->pairs > 0)
        multiply_pairs(w, &part);
    for (int k = w->pairs > 0 ? ECO_TILE_PAIRS : 0; k < w->products; k++)
        multiply_units(w, &w->product[k], &part);
    if (w->call != NULL && !w->pass_after)
        eco_packed_pass(w, rows, part.units);
}

/* ---- some rows ------------------------------------------------------------------------------- */

static void begin_rows(struct eco_packed_work *w, struct eco_range rows)
{
    const struct eco_tile_kernel *kernel = w->products > 0 ? w->product->kernel : NULL;
    eco_packed_bring(w, rows);
    if (kernel != NULL && kernel->begin != NULL)
        kernel->begin(w->height = eco_packed_height(rows.to - rows.from));
}

static void end_rows(const struct eco_packed_work *w)
{
    const struct eco_tile_kernel *kernel = w->products > 0 ? w->product->kernel : NULL;
    if (kernel != NULL && kernel->end != NULL)
        kernel->end();
}

/* Rows that pass through all panels together. */
static int32_t piece_of(const struct eco_packed_work *w, int32_t rows)
{
    const int32_t fitting = eco_packed_piece(w, rows), block = w->run->layout->request.cpu.block;
    return block > 0 && block < fitting ? block : fitting;
}

static struct eco_range some_rows(struct eco_range rows, int32_t from, int32_t piece)
{
    const int32_t left = rows.to - from;
    return (struct eco_range){from, from + (left < piece ? left : piece)};
}

/* ---- parts of other threads ------------------------------------------------------------------ */

/* The current rows of a product in which threads help each other. */
struct at_hand {
    uint32_t product;
    struct eco_range rows;
};

static void take_rows(struct eco_packed_work *w, struct at_hand *at, struct eco_range rows)
{
    if (rows.from == at->rows.from && rows.to == at->rows.to)
        return;
    if (at->rows.to > at->rows.from)
        end_rows(w);
    at->rows = rows;
    if (rows.to > rows.from)
        begin_rows(w, rows);
}

/* Takes remaining tasks of a thread's part: a task is a block of units of some rows. */
static void help(struct eco_packed_work *w, struct at_hand *at, int id)
{
    const struct eco_packed_part part = eco_packed_part_of(w, id);
    const int32_t rows = part.rows.to - part.rows.from, blocks = eco_packed_blocks(w, part.units);
    if (rows <= 0 || blocks == 0)
        return;
    const int32_t piece = piece_of(w, rows), tasks = (rows + piece - 1) / piece * blocks;
    for (int32_t i; (i = eco_team_take(w->run->team, id, at->product, tasks)) >= 0;) {
        take_rows(w, at, some_rows(part.rows, part.rows.from + i / blocks * piece, piece));
        work_on_block(w, at->rows, part.units, i % blocks, blocks);
    }
}

/* First the thread's own tasks; then those of some others, at small and large distances, because
 * slow threads may be neighbours. Looking at all threads would take long when none is late. The
 * others are the same in every product, because a counter advances to the next product only when
 * its tasks are taken. */
static void work_with_help(struct eco_packed_work *w)
{
    const struct eco_cpu_run *run = w->run;
    struct at_hand at = {++*run->product, {0, 0}};
    help(w, &at, run->id);
    for (int away = 1; away < run->count; away *= 2)
        help(w, &at, (run->id + away) % run->count);
    take_rows(w, &at, (struct eco_range){0, 0});
}

/* All threads of the team decide the same. A single row may have strips instead. */
static bool may_help(const struct eco_packed_work *w)
{
    const struct eco_pointwise *call = w->call;
    if (!w->run->helps || w->run->count == 1 || w->products == 0)
        return false;
    return call != NULL ? !w->pass_after && call->row1 - call->row0 > 1
                        : w->product->multiply->alone;
}

void eco_packed_walk(struct eco_packed_work *w)
{
    const int32_t rows = w->rows.to - w->rows.from, blocks = eco_packed_blocks(w, w->units);
    if (may_help(w)) {
        work_with_help(w);
        return;
    }
    if (blocks == 0 || rows <= 0)
        return;
    const int32_t piece = piece_of(w, rows);
    for (int32_t from = w->rows.from; from < w->rows.to; from += piece) {
        const struct eco_range some = some_rows(w->rows, from, piece);
        begin_rows(w, some);
        for (int32_t i = 0; i < blocks; i++)
            work_on_block(w, some, w->units, i, blocks);
        if (w->call != NULL && w->pass_after)
            eco_packed_pass(w, some, w->units);
        end_rows(w);
    }
}
