/*
 * One row times several adjacent panels (a strip). A panel alone has too few independent sums, and
 * the bookkeeping of a walk would take longer, so strips are found once for all steps of an op.
 */
#include "cpu/gemm/packed/packed.h"

/* Approximate number of sums of a block of units. If weights just exceed a first-level cache
 * (bytes, measured with 48 KB), blocks are smaller, so that steps that alternate direction find one
 * in the cache. */
enum { SUMS = 16, FEW_SUMS = 8, JUST_MISS = 48 << 10, MISS = 104 << 10 };

/* Panels [from, to), counted over all blocks, of `vectors` vectors each. */
struct run {
    int32_t from, to, vectors;
};

/* ---- finding --------------------------------------------------------------------------------- */

static void put_strip(struct eco_packed_product *p, struct run run, struct eco_packed_strip *strip)
{
    const struct eco_panels *panels = p->panels;
    struct eco_vector *vector = strip->row.vector;
    const bool alone = panels->panels == 1; /* no divisions, which a short run would notice */
    int32_t block = alone ? run.from : run.from / panels->panels;
    int32_t panel = alone ? 0 : run.from - block * panels->panels;
    strip->product = p;
    strip->row.k = p->k;
    strip->row.panels = run.to - run.from;
    strip->row.vectors = run.vectors;
    strip->row.panel = eco_packed_panel(p, block, panel);
    strip->row.scales = eco_packed_scales(p, block, eco_panels_vector(panels, panel));
    strip->row.panel_k = (size_t)run.vectors * eco_packed_step(p);
    strip->row.panel_step = (size_t)(run.vectors * panels->lanes) * (size_t)panels->depth;
    for (int32_t i = run.from; i < run.to; i++) {
        const int32_t first = eco_panels_vector(panels, panel);
        for (int32_t v = 0; v < run.vectors; v++)
            *vector++ = eco_packed_vector(p, block, first + v);
        if (++panel == panels->panels) {
            panel = 0;
            block++;
        }
    }
}

/* Panels of a strip. Weights outside of the cache are not loaded faster with more chains of sums
 * than the widest panel has, or in more streams. */
static int32_t most_panels(const struct eco_packed_product *p, int32_t vectors)
{
    return p->cached ? p->kernel->row_panels[vectors - 1] : ECO_TILE_VECTORS / vectors;
}

/* Divides a run into near-equal strips; false if there is no room. */
static bool put_run(struct eco_packed_product *p, struct run run, struct eco_packed_strips *strips)
{
    if (run.to == run.from)
        return true;
    const int32_t n = run.to - run.from, most = most_panels(p, run.vectors);
    const int32_t times = n <= most ? 1 : (n + most - 1) / most;
    if (times > ECO_MOST_STRIPS - strips->strips)
        return false;
    if (times == 1) {
        put_strip(p, run, &strips->strip[strips->strips++]);
        return true;
    }
    for (int32_t i = 0; i < times; i++) {
        const struct run part = {run.from + n * i / times, run.from + n * (i + 1) / times,
                                 run.vectors};
        put_strip(p, part, &strips->strip[strips->strips++]);
    }
    return true;
}

/* Panels of equal width are neighbours: those of all blocks, or of one. */
static bool put_product(struct eco_packed_product *p, struct eco_range units,
                        struct eco_packed_strips *strips)
{
    const struct eco_panels *panels = p->panels;
    const int32_t first = units.from >> panels->units_shift, all = panels->panels;
    const int32_t last = (units.to - 1) >> panels->units_shift;
    if (panels->wider == 0)
        return put_run(p, (struct run){first * all, (last + 1) * all, panels->vectors}, strips);
    for (int32_t block = first; block <= last; block++) {
        const int32_t from = block * all, middle = from + panels->wider, end = from + all;
        if (!put_run(p, (struct run){from, middle, panels->vectors + 1}, strips) ||
            !put_run(p, (struct run){middle, end, panels->vectors}, strips))
            return false;
    }
    return true;
}

static bool put_block(struct eco_packed_work *w, struct eco_range units,
                      struct eco_packed_strips *strips)
{
    if (strips->blocks == ECO_MOST_STRIPS)
        return false;
    struct eco_packed_block *block = &strips->block[strips->blocks++];
    block->units = units;
    block->first = &strips->strip[strips->strips];
    for (int i = 0; i < w->products; i++)
        if (!put_product(&w->product[i], units, strips))
            return false;
    block->end = &strips->strip[strips->strips];
    return true;
}

/* Are strips possible? A panel must not include units of other threads; and a panel with enough
 * vectors that is not in the cache may as well be alone. */
static bool can_have_strips(const struct eco_packed_work *w)
{
    for (int i = 0; i < w->products; i++) {
        const struct eco_packed_product *p = &w->product[i];
        const int32_t inside = p->group - 1, from = w->units.from, to = w->units.to;
        const bool alone = !p->cached && 2 * p->panels->vectors > ECO_TILE_VECTORS;
        if (alone || p->head > 0 || p->rounds || p->kernel->row == NULL || (from & inside) != 0 ||
            ((to & inside) != 0 && to != p->panels->units))
            return false;
    }
    return w->products > 0 && w->rows.to - w->rows.from == 1 && w->units.from < w->units.to;
}

/* Units of a block. */
static int32_t block_units(const struct eco_packed_work *w)
{
    const int32_t lanes = w->product->panels->lanes;
    size_t bytes = 0;
    int32_t group = 0, numbers = 1;
    for (int i = 0; i < w->products; i++) {
        const struct eco_packed_product *p = &w->product[i];
        bytes += (size_t)(p->panels->n * p->panels->blocks * p->group) * p->element *
                 (size_t)p->panels->depth;
        group = group > p->group ? group : p->group;
        numbers = numbers > p->panels->n ? numbers : p->panels->n;
    }
    const int32_t sums = bytes > JUST_MISS && bytes < MISS ? FEW_SUMS : SUMS;
    const int32_t units = (sums + numbers - 1) / numbers * lanes;
    return (units + group - 1) & -group; /* a power of two */
}

/* Is there room for the least possible number of strips? */
static bool has_room(const struct eco_packed_work *w, const struct eco_packed_strips *strips)
{
    const int32_t room = ECO_MOST_STRIPS - strips->strips;
    int32_t needed = 0;
    for (int i = 0; i < w->products; i++) {
        const struct eco_packed_product *p = &w->product[i];
        const int32_t blocks = (w->units.to - w->units.from) >> p->panels->units_shift;
        const int32_t n = blocks * p->panels->panels;
        needed += n <= room ? 1 : n / most_panels(p, p->panels->vectors);
    }
    return needed <= room;
}

void eco_packed_find_strips(struct eco_packed_work *w, struct eco_packed_strips *strips)
{
    w->blocks = 0;
    if (w->run->layout->request.cpu.strips == ECO_ASKED_NO || !can_have_strips(w) ||
        !has_room(w, strips))
        return;
    const int before = strips->blocks;
    const int32_t width = block_units(w);
    w->block = &strips->block[before];
    for (int32_t from = w->units.from, to; from < w->units.to; from = to) {
        to = (from > 0 ? from - from % width : 0) + width;
        if (to > w->units.to)
            to = w->units.to;
        if (!put_block(w, (struct eco_range){from, to}, strips))
            return;
    }
    w->blocks = strips->blocks - before;
}

/* ---- following ------------------------------------------------------------------------------- */

static void follow_block(const struct eco_packed_work *w, const struct eco_packed_block *block)
{
    for (struct eco_packed_strip *strip = block->first; strip < block->end; strip++) {
        const struct eco_packed_product *p = strip->product;
        strip->row.a = p->a;
        strip->row.rows = p->scaled;
        strip->row.c = (float *)p->multiply->c + (size_t)w->rows.from * p->multiply->c_row;
        p->kernel->row(&strip->row);
    }
    if (w->call != NULL && !w->pass_after)
        eco_packed_pass(w, w->rows, block->units);
}

void eco_packed_follow(struct eco_packed_work *w)
{
    eco_packed_bring(w, w->rows);
    for (int i = 0; i < w->blocks; i++)
        follow_block(w, &w->block[w->backwards ? w->blocks - 1 - i : i]);
    if (w->call != NULL && w->pass_after)
        eco_packed_pass(w, w->rows, w->units);
}
