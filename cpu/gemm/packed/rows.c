/*
 * Rows of A as the product kernels of algorithm packed read them: in place; or, for weights in
 * BF16, copied to the thread's scratch as floats, in whole pairs, or as AMX's tiles, floats in
 * three parts; or as bytes.
 */
#include "cpu/gemm/packed/packed.h"

#include <assert.h>
#include <string.h>

#include "common/quantise.h"
#include "cpu/isa/isa.h"

enum { TILE = ECO_NARROW_TILE };
/* Part of the second-level cache that the rows of A fill that pass through all panels together:
 * where pages lie at random, more of them would displace each other. */
static const double ROWS_PART = 5. / 16;
/* Two tiles of rows: copies of rows are multiplied in such groups. */
enum { ROWS_OF_TILES = 2 * ECO_NARROW_TALL };
/* Elements between copied rows: rows at a distance of 4 KB would use the same sets of every
 * cache. */
enum { APART = ECO_ALIGNMENT / sizeof(float) };

int32_t eco_packed_height(int32_t rows)
{
    const int32_t tiles = (rows + ECO_NARROW_TALL - 1) / ECO_NARROW_TALL;
    return tiles > 0 ? (rows + tiles - 1) / tiles : ECO_NARROW_TALL;
}

/* Columns of A of a product; backward those of the part's accumulators, with gaps. */
struct columns {
    struct eco_acc_range span[ECO_MAX_ACCS];
    int spans;
    size_t unit; /* columns of one accumulator of a span */
};

static struct columns columns_of(const struct eco_cpu_run *run, const struct eco_packed_product *p)
{
    const struct eco_multiply *m = p->multiply;
    struct columns columns = {.span = {{0, 1, 0}}, .spans = 1, .unit = (size_t)p->panels->k};
    if (!m->back)
        return columns;
    columns.unit = (size_t)eco_layout_matrix(run->layout, m->op->layer, m->part)->units;
    columns.spans = 0;
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(run->lowered, m->part, a, &span); a = span.end)
        columns.span[columns.spans++] = span;
    return columns;
}

static void bring_nothing(const struct eco_cpu_run *run, struct eco_packed_product *p,
                          struct eco_range rows, void *room)
{
    const struct eco_multiply *m = p->multiply;
    (void)room;
    p->a = eco_cpu_after(run->layout->type, m->a, (size_t)rows.from * m->a_row + p->first);
    p->a_row = m->a_row;
}

/* Do rows of A compete for the same sets of the first-level cache, and is there room for a copy? */
static bool is_aliased(const struct eco_cpu_run *run, const struct eco_packed_product *p)
{
    const struct eco_multiply *m = p->multiply;
    return run->layout->request.cpu.threads > 0 && m->rows > ECO_FEW_ROWS &&
           p->panels->n * p->panels->units >= ECO_ALIAS_COLUMNS && m->a_row % ECO_ALIAS == 0;
}

/* ---- as floats ------------------------------------------------------------------------------- */

static void copy_floats(const struct eco_cpu_run *run, float *to, const void *row, size_t n)
{
    if (run->layout->type == ECORNN_BF16)
        run->isa->narrow_rows->widen(to, row, (int32_t)n);
    else
        memcpy(to, row, n * sizeof *to);
}

static void bring_floats(const struct eco_cpu_run *run, struct eco_packed_product *p,
                         struct eco_range rows, void *room)
{
    const struct eco_multiply *m = p->multiply;
    const bool floats = run->layout->type == ECORNN_F32 && !is_aliased(run, p);
    if (floats && !m->back) {
        bring_nothing(run, p, rows, room);
        return;
    }
    const struct columns columns = columns_of(run, p);
    if (floats && columns.spans == 1) {
        p->first = (size_t)columns.span[0].first * columns.unit;
        bring_nothing(run, p, rows, room);
        return;
    }
    float *to = room;
    p->a = to;
    p->a_row = (size_t)p->panels->depth + APART;
    for (int32_t r = rows.from; r < rows.to; r++, to += p->a_row) {
        float *out = to;
        for (int i = 0; i < columns.spans; i++) {
            const struct eco_acc_range *span = &columns.span[i];
            const size_t n = (size_t)(span->end - span->first) * columns.unit;
            const size_t at = (size_t)r * m->a_row + (size_t)span->first * columns.unit;
            copy_floats(run, out, eco_cpu_after(run->layout->type, m->a, at), n);
            out += n;
        }
    }
}

/* ---- as pairs -------------------------------------------------------------------------------- */

static void bring_pairs(const struct eco_cpu_run *run, struct eco_packed_product *p,
                        struct eco_range rows, void *room)
{
    const struct eco_multiply *m = p->multiply;
    const size_t k = (size_t)p->panels->k;
    if (!m->back && k % 2 == 0) {
        bring_nothing(run, p, rows, room);
        return;
    }
    const struct columns columns = columns_of(run, p);
    if (columns.spans == 1 && k % 2 == 0) {
        p->first = (size_t)columns.span[0].first * columns.unit;
        bring_nothing(run, p, rows, room);
        return;
    }
    uint16_t *to = room;
    p->a = to;
    p->a_row = (size_t)p->panels->depth + APART;
    for (int32_t r = rows.from; r < rows.to; r++, to += p->a_row) {
        const uint16_t *const row = (const uint16_t *)m->a + (size_t)r * m->a_row;
        uint16_t *out = to;
        for (int i = 0; i < columns.spans; i++) {
            const struct eco_acc_range *span = &columns.span[i];
            const size_t n = (size_t)(span->end - span->first) * columns.unit;
            memcpy(out, row + (size_t)span->first * columns.unit, n * sizeof *out);
            out += n;
        }
        to[k] = 0;
    }
}

/* ---- as tiles -------------------------------------------------------------------------------- */

/* Part of the columns of a row: they follow each other in spans. */
struct place {
    const struct columns *columns;
    int span;
    size_t at;
};

/* The next elements of a row, a whole group, zero-padded; `room` if they are not adjacent. */
static const void *next_group(struct place *place, const char *row, char *room, size_t element)
{
    const struct columns *c = place->columns;
    size_t n = 0;
    for (; n < ECO_NARROW_GROUP && place->span < c->spans; place->span++, place->at = 0) {
        const struct eco_acc_range *span = &c->span[place->span];
        const size_t left = (size_t)(span->end - span->first) * c->unit - place->at;
        const size_t some = left < ECO_NARROW_GROUP - n ? left : ECO_NARROW_GROUP - n;
        const char *from = row + ((size_t)span->first * c->unit + place->at) * element;
        place->at += some;
        if (some == ECO_NARROW_GROUP)
            return from;
        memcpy(room + n * element, from, some * element);
        n += some;
        if (some < left)
            break;
    }
    memset(room + n * element, 0, (ECO_NARROW_GROUP - n) * element);
    return room;
}

/* Tiles of BF16 [groups, 16, 32], of floats in parts [groups, 3, 16, 32], for each `height` rows,
 * whose last rows are multiplied and ignored. */
static void bring_tiles(const struct eco_cpu_run *run, struct eco_packed_product *p,
                        struct eco_range rows, void *room)
{
    const struct eco_multiply *m = p->multiply;
    const struct columns columns = columns_of(run, p);
    const ecornn_type type = run->layout->type;
    const int32_t n = rows.to - rows.from, height = eco_packed_height(n);
    const size_t groups = (size_t)p->panels->depth / ECO_NARROW_GROUP;
    const size_t tile = (type == ECORNN_F32 ? ECO_SPLIT_PARTS : 1) * TILE;
    p->a = room;
    for (int32_t i = 0; i < n || i % height != 0; i++) {
        const size_t at = (size_t)(rows.from + (i < n ? i : 0)) * m->a_row;
        struct place place = {&columns, 0, 0};
        float some[ECO_NARROW_GROUP];
        uint16_t *to =
            (uint16_t *)room + (size_t)(i / height) * groups * tile + i % height * ECO_NARROW_GROUP;
        for (size_t g = 0; g < groups; g++, to += tile) {
            const void *group = next_group(&place, eco_cpu_after(type, m->a, at), (char *)some,
                                           eco_type_bytes(type));
            if (type == ECORNN_F32)
                run->isa->split->split(to, group);
            else
                memcpy(to, group, ECO_NARROW_GROUP * sizeof *to);
        }
    }
}

/* ---- as bytes -------------------------------------------------------------------------------- */

/* How they are made comes first, then rows of whole groups; or tiles [groups, 16, 64], whose last
 * rows are multiplied and ignored. */
static void bring_bytes(const struct eco_cpu_run *run, struct eco_packed_product *p,
                        struct eco_range rows, void *room)
{
    const struct eco_multiply *m = p->multiply;
    const bool tiles = p->kernel->begin != NULL;
    const int32_t n = rows.to - rows.from, height = tiles ? eco_packed_height(n) : 1;
    const int32_t all = (n + height - 1) / height * height;
    const size_t depth = (size_t)p->panels->depth;
    struct eco_row_scale *const scaled = room;
    uint8_t *const to = (uint8_t *)room + ((size_t)all * sizeof *scaled + ECO_ALIGNMENT - 1) /
                                              ECO_ALIGNMENT * ECO_ALIGNMENT;
    p->scaled = scaled;
    p->a = to;
    p->a_row = depth + ECO_ALIGNMENT;
    for (int32_t r = 0; r < all; r++) {
        const float *from = (const float *)m->a + (size_t)(rows.from + (r < n ? r : 0)) * m->a_row;
        uint8_t *const tile = to + (size_t)(r / height) * depth * ECO_NARROW_TALL +
                              (size_t)(r % height) * ECO_BYTE_GROUP;
        run->isa->bytes->quantise(tiles ? tile : to + (size_t)r * p->a_row,
                                  tiles ? ECO_BYTE_GROUP * ECO_NARROW_TALL : ECO_BYTE_GROUP, from,
                                  p->panels->k, &scaled[r]);
    }
}

/* ---- the form of a product ------------------------------------------------------------------- */

void eco_packed_choose(const struct eco_cpu_run *run, struct eco_packed_product *p)
{
    static const struct eco_packed_form in_place = {bring_nothing, 0, 0, false};
    static const struct eco_packed_form floats = {bring_floats, sizeof(float),
                                                  APART * sizeof(float), true};
    static const struct eco_packed_form pairs = {bring_pairs, sizeof(uint16_t),
                                                 APART * sizeof(uint16_t), true};
    static const struct eco_packed_form tiles = {bring_tiles, sizeof(uint16_t),
                                                 APART * sizeof(uint16_t), true};
    static const struct eco_packed_form split = {bring_tiles, ECO_SPLIT_PARTS * sizeof(uint16_t), 0,
                                                 true};
    static const struct eco_packed_form bytes = {
        bring_bytes, sizeof(uint8_t), ECO_ALIGNMENT + sizeof(struct eco_row_scale), true};
    const struct eco_isa *isa = run->isa;
    p->form = &in_place;
    p->kernel = isa->tile;
    if (run->layout->weight == ECORNN_F32) {
        if (is_aliased(run, p))
            p->form = &floats;
        return;
    }
    const bool amx = eco_cpu_has_tiles(run, p->multiply->part, p->multiply->rows);
    if (run->layout->weight == ECORNN_S8) {
        p->form = run->problem->int8 ? &bytes : &floats;
        p->kernel = amx                  ? isa->byte_tiles
                    : run->problem->int8 ? &isa->bytes->bytes
                                         : &isa->bytes->floats;
        return;
    }
    if (amx && run->layout->type == ECORNN_F32) {
        p->form = &split;
        p->kernel = &run->isa->split->tile;
        return;
    }
    const bool dot = !amx && isa->dot != NULL && run->layout->type == ECORNN_BF16;
    p->form = amx ? &tiles : dot ? &pairs : &floats;
    p->kernel = amx ? isa->amx : dot ? isa->dot : isa->narrow;
}

/* ---- all products of a thread ---------------------------------------------------------------- */

/* Bytes of scratch for a row of A and what is made of it. */
static size_t scratch_row(const struct eco_packed_product *p)
{
    const size_t rounded = p->rounds ? sizeof(float) * ECO_TILE_VECTORS * ECO_TILE_LANES : 0;
    return (size_t)p->panels->depth * p->form->copied + p->form->apart + rounded;
}

void eco_packed_bring(struct eco_packed_work *w, struct eco_range rows)
{
    const int32_t n = rows.to - rows.from;
    const size_t groups = (size_t)((n + ROWS_OF_TILES - 1) / ROWS_OF_TILES);
    char *room = eco_cpu_scratch(w->run);
    for (int i = 0; i < w->products; i++) {
        struct eco_packed_product *p = &w->product[i];
        p->form->bring(w->run, p, rows, room);
        if (p->form->copied == 0 && !p->rounds)
            continue;
        const size_t all = groups * ROWS_OF_TILES,
                     copy = all * ((size_t)p->panels->depth * p->form->copied + p->form->apart);
        p->rounded = p->rounds ? (float *)(void *)(room + copy) : NULL;
        room += all * scratch_row(p);
    }
}

int32_t eco_packed_piece(const struct eco_packed_work *w, int32_t rows)
{
    size_t row = 0;
    for (int i = 0; i < w->products; i++)
        row += scratch_row(&w->product[i]);
    if (row == 0 && w->products > 0) {
        row = (size_t)w->product->k * sizeof(float);
        const double fitting =
            ROWS_PART * (double)w->run->caps->cpu.cache_bytes / (double)row; /* rows */
        const int32_t most = fitting < rows ? (int32_t)fitting + 1 : rows;
        const int32_t pieces = (rows + most - 1) / most;
        return (rows + pieces - 1) / pieces;
    }
    if (row == 0)
        return rows;
    const int32_t most = (int32_t)(w->run->layout->thread_bytes / row) / ROWS_OF_TILES;
    assert(most > 0);
    const int32_t groups = (rows + ROWS_OF_TILES - 1) / ROWS_OF_TILES;
    const int32_t pieces = (groups + most - 1) / most;
    return (groups + pieces - 1) / pieces * ROWS_OF_TILES;
}
