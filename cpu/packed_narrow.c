/*
 * Products of algorithm packed with weights in BF16: rows of A are first copied to the thread's
 * scratch, as floats or as tiles, then multiplied by all panels.  The same panels serve AMX and the
 * kernels that widen them.
 */
#include "cpu/packed.h"

#include <string.h>

#include "cpu/isa.h"

/* Rows of an input product from which threads may share them out instead of the weights. */
enum { ROWS_TO_SHARE = 32 };
enum { TILE = ECO_NARROW_TALL * ECO_NARROW_GROUP };

/* One product, as this thread does it. */
struct walk {
    const struct eco_cpu_run *run;
    const struct eco_multiply *multiply;
    const struct eco_amx_kernel *amx; /* NULL: rows are multiplied as floats */
    const struct eco_panels *panels;
    const uint16_t *weights;
    size_t column[ECO_MAX_ACCS];     /* of C: where each number's units begin */
    const float *bias[ECO_MAX_ACCS]; /* what they start from, NULL: 0, */
    bool add[ECO_MAX_ACCS];          /* or themselves */
    struct eco_share rows, units, blocks;
    int32_t rows_at_a_time;
    struct eco_span span[ECO_MAX_ACCS]; /* columns of A that are multiplied, in units each */
    int32_t spans;
    size_t unit_columns; /* columns of A of one accumulator of a span */
    void *copy;          /* of rows of A */
    float *rounded;      /* [rows_at_a_time, vectors * lanes] of C before it is rounded, or NULL */
    struct eco_narrow tile;
};

static const float zeros[16];

/* ---- rows of A ------------------------------------------------------------------------------- */

/* n elements of a row to place k on of row r of tiles [groups, 16, 32]. */
static void put_tile_row(uint16_t *tiles, size_t r, size_t k, const uint16_t *from, size_t n)
{
    while (n > 0) {
        const size_t inside = k % ECO_NARROW_GROUP, room = ECO_NARROW_GROUP - inside;
        const size_t some = n < room ? n : room;
        uint16_t *to = tiles + k / ECO_NARROW_GROUP * TILE + r * ECO_NARROW_GROUP + inside;
        if (some == ECO_NARROW_GROUP) /* a constant: one move */
            memcpy(to, from, ECO_NARROW_GROUP * sizeof *to);
        else
            memcpy(to, from, some * sizeof *to);
        k += some, from += some, n -= some;
    }
}

static void copy_tile_row(const struct walk *w, uint16_t *tiles, size_t r, const uint16_t *from)
{
    const size_t groups = (size_t)w->panels->depth / ECO_NARROW_GROUP;
    size_t k = 0;
    for (int32_t i = 0; i < w->spans; i++) {
        const struct eco_span *span = &w->span[i];
        const size_t n = (size_t)(span->end - span->first) * w->unit_columns;
        put_tile_row(tiles, r, k, from + (size_t)span->first * w->unit_columns, n);
        k += n;
    }
    const size_t left = groups * ECO_NARROW_GROUP - k;
    uint16_t *last = tiles + (groups - 1) * TILE + r * ECO_NARROW_GROUP;
    memset(last + ECO_NARROW_GROUP - left, 0, left * sizeof *last);
}

static void copy_tiles(struct walk *w, int32_t row, int32_t rows)
{
    const struct eco_multiply *m = w->multiply;
    const int32_t height = w->tile.height;
    const size_t block = (size_t)w->panels->depth * ECO_NARROW_TALL;
    uint16_t *tiles = w->copy;
    for (int32_t r = 0; r < rows; r++)
        copy_tile_row(w, tiles + (size_t)(r / height) * block, (size_t)(r % height),
                      (const uint16_t *)m->a + (size_t)(row + r) * m->a_row);
    for (int32_t r = rows; r % height != 0; r++) /* multiplied too, and dropped */
        for (size_t g = 0; g < (size_t)w->panels->depth / ECO_NARROW_GROUP; g++)
            memset(tiles + (size_t)(r / height) * block + g * TILE +
                       (size_t)(r % height) * ECO_NARROW_GROUP,
                   0, ECO_NARROW_GROUP * sizeof *tiles);
    w->tile.tile = tiles;
}

static void copy_floats(struct walk *w, int32_t row, int32_t rows)
{
    const struct eco_multiply *m = w->multiply;
    const bool narrow = w->run->layout->type == ECORNN_BF16;
    if (!narrow && w->spans == 1) {
        w->tile.a = (const float *)m->a + (size_t)row * m->a_row +
                    (size_t)w->span[0].first * w->unit_columns;
        w->tile.a_row = m->a_row;
        return;
    }
    float *to = w->copy;
    w->tile.a = to;
    w->tile.a_row = (size_t)w->panels->depth;
    for (int32_t r = 0; r < rows; r++, to += w->panels->depth) {
        size_t k = 0;
        for (int32_t i = 0; i < w->spans; i++) {
            const struct eco_span *span = &w->span[i];
            const size_t n = (size_t)(span->end - span->first) * w->unit_columns;
            const size_t at = (size_t)(row + r) * m->a_row + (size_t)span->first * w->unit_columns;
            if (narrow)
                w->run->cpu->isa->narrow->widen(to + k, (const uint16_t *)m->a + at, (int32_t)n);
            else
                memcpy(to + k, (const float *)m->a + at, n * sizeof *to);
            k += n;
        }
    }
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Number i of the part is which accumulator, and what its row of C starts from. */
static void place_numbers(struct walk *w)
{
    const struct eco_cpu_run *run = w->run;
    const struct eco_multiply *m = w->multiply;
    struct eco_span span;
    int i = 0;
    if (m->part == ECO_PART_PROJECT)
        return;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end)
        for (int k = span.first; k < span.end; k++, i++) {
            w->column[i] = (size_t)k * m->blocks.column;
            w->add[i] = eco_packed_has_earlier(run->lowered, k, m->part);
            w->bias[i] = w->add[i] ? NULL : eco_cpu_bias(run, m->op, k);
        }
}

/* First unit of vector v of a block. */
static int32_t unit_of(const struct walk *w, int32_t block, int32_t v)
{
    return (block * w->panels->spans + v % w->panels->spans) * w->panels->lanes;
}

/* Vectors [first, end) of a block. */
static void place_vectors(struct walk *w, int32_t block, int32_t first, int32_t end)
{
    const struct eco_panels *panels = w->panels;
    const struct eco_multiply *m = w->multiply;
    w->tile.vectors = end - first;
    for (int32_t v = first; v < end; v++) {
        const int32_t number = v / panels->spans, i = v - first, unit = unit_of(w, block, v);
        const int32_t left = panels->units - unit;
        const bool some = left > 0;
        w->tile.count[i] = !some ? 0 : left < panels->lanes ? left : panels->lanes;
        w->tile.c_vector[i] =
            some ? w->column[number] + eco_blocks_at(&m->blocks, (size_t)unit) : 0;
        w->tile.start[i] = !some || w->rounded || !w->add[number] ? zeros : NULL;
        if (some && w->bias[number])
            w->tile.start[i] = w->bias[number] + unit;
        if (w->rounded)
            w->tile.c_vector[i] = (size_t)(i * panels->lanes);
    }
}

static void round_panel(const struct walk *w, int32_t row, int32_t block, int32_t first)
{
    const struct eco_multiply *m = w->multiply;
    for (int32_t r = 0; r < w->tile.rows; r++)
        for (int32_t i = 0; i < w->tile.vectors; i++) {
            uint16_t *to = (uint16_t *)m->c + (size_t)(row + r) * m->c_row +
                           (size_t)unit_of(w, block, first + i);
            if (w->tile.count[i] > 0)
                w->run->cpu->isa->narrow->round(
                    to, w->tile.c + (size_t)r * w->tile.c_row + w->tile.c_vector[i],
                    w->tile.count[i], m->add);
        }
}

/* The vectors of a panel of which this thread has the units: neighbours, since only blocks of one
 * number have units of several threads. */
static void multiply_panel(struct walk *w, int32_t row, int32_t block, int32_t panel)
{
    const struct eco_panels *panels = w->panels;
    const int32_t begin = eco_panels_vector(panels, panel);
    int32_t end = eco_panels_vector(panels, panel + 1), first = begin;
    const size_t vector = (size_t)(ECO_NARROW_GROUP * panels->lanes);
    w->tile.group_step = (size_t)(end - begin) * vector;
    while (first < end && unit_of(w, block, first) < w->units.from)
        first++;
    while (end > first && unit_of(w, block, end - 1) >= w->units.to)
        end--;
    if (first == end)
        return;
    const uint16_t *at = w->weights + eco_panels_offset(panels, block, panel);
    w->tile.panel = at + (size_t)(first - begin) * vector;
    place_vectors(w, block, first, end);
    if (w->amx)
        w->amx->multiply(&w->tile);
    else
        w->run->cpu->isa->narrow->multiply(&w->tile);
    if (w->rounded)
        round_panel(w, row, block, first);
}

/* Odd steps walk backwards: what the last step left in the cache is used first. */
static void multiply_blocks(struct walk *w, int32_t row)
{
    const struct eco_multiply *m = w->multiply;
    const bool backwards = m->t % 2 != 0;
    const int32_t count = w->blocks.to - w->blocks.from, panels = w->panels->panels;
    w->tile.c = w->rounded ? w->rounded : (float *)m->c + (size_t)row * m->c_row;
    for (int32_t i = 0; i < count; i++) {
        const int32_t block = backwards ? w->blocks.to - 1 - i : w->blocks.from + i;
        const int32_t next = backwards ? block - 1 : block + 1;
        for (int32_t panel = 0; panel < panels; panel++) {
            const bool last = panel + 1 == panels;
            w->tile.prefetch = last && i + 1 == count
                                   ? NULL
                                   : w->weights + eco_panels_offset(w->panels, last ? next : block,
                                                                    last ? 0 : panel + 1);
            multiply_panel(w, row, block, panel);
        }
    }
}

static void multiply_rows(struct walk *w)
{
    if (w->amx)
        w->amx->begin(w->tile.height);
    for (int32_t row = w->rows.from; row < w->rows.to; row += w->rows_at_a_time) {
        const int32_t left = w->rows.to - row;
        w->tile.rows = left < w->rows_at_a_time ? left : w->rows_at_a_time;
        (w->amx ? copy_tiles : copy_floats)(w, row, w->tile.rows);
        multiply_blocks(w, row);
    }
    if (w->amx)
        w->amx->end();
}

/* ---- products -------------------------------------------------------------------------------- */

static struct eco_share part_number(int32_t n, int part, int parts)
{
    return (struct eco_share){(int32_t)((int64_t)n * part / parts),
                              (int32_t)((int64_t)n * (part + 1) / parts)};
}

/* Of a large product: rows in `parts` parts, blocks of units in as many as leave a thread least;
 * rather blocks, whose weights then are read once. */
static void share_out_whole(struct walk *w)
{
    const int32_t rows = w->multiply->rows, blocks = w->panels->blocks;
    const int count = w->run->count, id = w->run->id;
    int64_t least = INT64_MAX;
    int parts = 1;
    for (int p = 1; p <= count && (p == 1 || rows >= ROWS_TO_SHARE * p); p++) {
        const int across = count / p;
        const int64_t work = (int64_t)((rows + p - 1) / p) * ((blocks + across - 1) / across);
        if (count % p == 0 && work < least) {
            least = work;
            parts = p;
        }
    }
    const int across = count / parts;
    w->rows = part_number(rows, id / across, parts);
    w->blocks = part_number(blocks, id % across, across);
}

/* In steps: the units that the thread finishes. */
static void share_out(struct walk *w)
{
    const struct eco_cpu_run *run = w->run;
    const struct eco_multiply *m = w->multiply;
    const int32_t group = w->panels->lanes * w->panels->spans;
    w->units = (struct eco_share){0, w->panels->units};
    if (m->part == ECO_PART_INPUT) {
        share_out_whole(w);
        return;
    }
    w->rows = run->rows;
    w->rows.to = w->rows.to < m->rows ? w->rows.to : m->rows;
    if (w->rows.from > w->rows.to)
        w->rows.from = w->rows.to;
    w->units = eco_cpu_part(run, w->panels->units, run->unit_group);
    w->blocks.from = w->units.from / group;
    w->blocks.to = (w->units.to + group - 1) / group;
    if (w->units.from == w->units.to)
        w->blocks.to = w->blocks.from;
}

/* How rows are cut: tiles of equal height; as many rows as the scratch has room for. */
static void cut_rows(struct walk *w)
{
    const struct eco_layout *layout = w->run->layout;
    const int32_t rows = w->rows.to - w->rows.from, wide = ECO_NARROW_VECTORS * w->panels->lanes;
    const size_t depth = (size_t)w->panels->depth;
    char *scratch = eco_cpu_scratch(w->run);
    w->copy = scratch;
    w->tile.height = ECO_NARROW_TALL;
    const int32_t tiles = (rows + ECO_NARROW_TALL - 1) / ECO_NARROW_TALL;
    if (tiles > 0)
        w->tile.height = (rows + tiles - 1) / tiles;
    size_t bytes = layout->thread_bytes;
    size_t row = depth * (w->amx ? sizeof(uint16_t) : sizeof(float));
    if (w->multiply->c_type == ECORNN_BF16)
        row += (size_t)wide * sizeof(float);
    if (w->amx)
        row = (row * ECO_NARROW_TALL + (size_t)w->tile.height - 1) / (size_t)w->tile.height;
    const int32_t pair = 2 * w->tile.height;
    const int32_t room = (int32_t)(bytes / row) - (int32_t)(bytes / row) % pair;
    w->rows_at_a_time = room < pair ? pair : room;
    if (w->multiply->c_type != ECORNN_BF16)
        return;
    w->rounded = (float *)(void *)(scratch + bytes) - (size_t)w->rows_at_a_time * (size_t)wide;
    w->tile.c_row = (size_t)wide;
}

static struct walk begin(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_layout *layout = run->layout;
    const struct eco_op *op = m->op;
    struct walk w = {.run = run, .multiply = m};
    w.panels = eco_layout_panels(layout, op->layer, m->part, m->back);
    w.weights =
        eco_cpu_weights(run, m->back ? eco_layout_weights_back(layout, op->layer, op->d, m->part)
                                     : eco_layout_weights(layout, op->layer, op->d, m->part));
    w.tile = (struct eco_narrow){.k = w.panels->k, .c_row = m->c_row};
    if (layout->type == ECORNN_BF16 && m->rows > ECO_FEW_NARROW_ROWS)
        w.amx = run->cpu->isa->amx;
    share_out(&w);
    cut_rows(&w);
    return w;
}

/* Backward k runs over the numbers of the part; their columns of A are brought together. */
static void multiply(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, m->op->layer, m->part);
    if (matrix->n == 0)
        return;
    struct walk w = begin(run, m);
    w.spans = m->back ? 0 : 1;
    w.span[0] = (struct eco_span){0, 1, 0};
    w.unit_columns = (size_t)(m->back ? matrix->units : w.panels->k);
    if (!m->back)
        place_numbers(&w);
    w.add[0] = m->back ? m->add : w.add[0];
    struct eco_span span;
    for (int a = 0; m->back && eco_span_next(run->lowered, m->part, a, &span); a = span.end)
        w.span[w.spans++] = span;
    multiply_rows(&w);
}

const struct eco_products eco_narrow_products = {multiply, eco_narrow_weights, NULL};
