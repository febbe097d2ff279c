/*
 * Products of algorithm packed: rows of A times panels of the weights, one block of units after the
 * other; of a step, the cell's pointwise pass finishes a block while its sums are near.
 */
#include "cpu/packed.h"

/* Bytes of the rows of A that go through all panels together: their part of the second-level cache.
 */
enum { ROWS_BYTES = 640 << 10 };
/* Rows of an input product below which threads share out its weights instead. */
enum { ROWS_TO_SHARE = 32 };
/* Runs of neighbouring accumulators of all operands of a stage. */
enum { MAX_PRODUCTS = ECO_MAX_OPERANDS + ECO_MAX_ACCS };

/* What C starts from, and where: number i of a part is one of its matrices. */
struct number {
    size_t column; /* of C, for unit 0 */
    const float *bias;
    bool add; /* to C; else bias, or 0 */
};

/* One product in panels. */
struct product {
    const struct eco_multiply *multiply;
    const struct eco_panels *panels;
    const struct eco_tile_kernel *kernel;
    const float *weights;
    const float *a;
    size_t block;       /* elements of a block of the panels */
    int32_t group;      /* units of a block */
    int32_t k, skipped; /* columns of A; k of the panels before them */
    bool near;          /* the weights stay in the thread's cache: nothing to fetch */
    struct number number[ECO_MAX_ACCS];
};

static const float zeros[ECO_TILE_LANES];

/* ---- a block of units ------------------------------------------------------------------------ */

/* The tile's columns of C: where vectors [first, end) of a block go. */
static void place_vectors(const struct product *p, struct eco_tile *tile, int32_t block,
                          int32_t first, int32_t end)
{
    const struct eco_panels *panels = p->panels;
    const struct eco_blocks *blocks = &p->multiply->blocks;
    const struct number *number = &p->number[first / panels->spans];
    int32_t span = first % panels->spans;
    tile->vectors = end - first;
    for (int32_t i = 0; i < end - first; i++, span++) {
        if (span == panels->spans) {
            span = 0;
            number++;
        }
        const int32_t unit = block * p->group + span * panels->lanes;
        const int32_t left = panels->units - unit;
        tile->count[i] = left < 0 ? 0 : left < panels->lanes ? left : panels->lanes;
        tile->c_vector[i] = number->column + eco_blocks_at(blocks, (size_t)unit);
        tile->start[i] = number->add                ? NULL
                         : number->bias && left > 0 ? number->bias + unit
                                                    : zeros;
    }
}

static int32_t panel_vectors(const struct product *p, int32_t panel)
{
    return eco_panels_vector(p->panels, panel + 1) - eco_panels_vector(p->panels, panel);
}

static const float *panel_at(const struct product *p, int32_t block, int32_t panel)
{
    return p->weights + eco_panels_offset(p->panels, block, panel) +
           (size_t)(p->skipped * panel_vectors(p, panel) * p->panels->lanes);
}

/* The first panel of the block that has this unit. */
static const float *panel_of(const struct product *p, int32_t unit)
{
    return panel_at(p, unit / p->group, 0);
}

/* A panel of which other threads have units too: our vectors, one by one. */
static void multiply_vectors(const struct product *p, struct eco_tile *tile, int32_t block,
                             int32_t panel, struct eco_share units)
{
    const int32_t first = eco_panels_vector(p->panels, panel), spans = p->panels->spans;
    const float *const weights = tile->panel;
    tile->prefetch = NULL;
    for (int32_t i = 0; i < panel_vectors(p, panel); i++) {
        const int32_t unit = block * p->group + (first + i) % spans * p->panels->lanes;
        if (unit < units.from || unit >= units.to)
            continue;
        place_vectors(p, tile, block, first + i, first + i + 1);
        tile->panel = weights + i * p->panels->lanes;
        p->kernel->multiply(tile);
    }
}

/* Rows and units of one product; next: the panel after the last one. */
static void multiply_units(const struct product *p, struct eco_share rows, struct eco_share units,
                           const float *next)
{
    const struct eco_multiply *m = p->multiply;
    struct eco_tile tile = {.rows = rows.to - rows.from, .k = p->k, .a_k = 1};
    tile.a = p->a + (size_t)rows.from * m->a_row;
    tile.a_row = m->a_row;
    tile.c = (float *)m->c + (size_t)rows.from * m->c_row;
    tile.c_row = m->c_row;
    for (int32_t block = units.from / p->group; block * p->group < units.to; block++) {
        const int32_t unit = block * p->group, end = unit + p->group;
        const bool whole = unit >= units.from && (end <= units.to || units.to == p->panels->units);
        for (int32_t panel = 0; panel < p->panels->panels; panel++) {
            const int32_t vectors = panel_vectors(p, panel);
            tile.panel = panel_at(p, block, panel);
            tile.panel_k = (size_t)(vectors * p->panels->lanes);
            if (!whole) {
                multiply_vectors(p, &tile, block, panel, units);
                continue;
            }
            const int32_t first = eco_panels_vector(p->panels, panel);
            place_vectors(p, &tile, block, first, first + vectors);
            if (p->near)
                tile.prefetch = NULL;
            else if (panel + 1 < p->panels->panels)
                tile.prefetch = panel_at(p, block, panel + 1);
            else
                tile.prefetch = end < units.to ? panel_at(p, block + 1, 0) : next;
            p->kernel->multiply(&tile);
        }
    }
}

/* ---- all blocks ------------------------------------------------------------------------------ */

/* What one thread does: products of the same C, then perhaps a pointwise pass, of each block. */
struct work {
    const struct product *product;
    int products;
    struct eco_share rows, units;
    int32_t width;                    /* units of a block */
    bool backwards;                   /* from the last block to the first */
    const struct eco_pointwise *call; /* NULL: none */
    eco_pointwise_kernel kernel;
};

static struct eco_share block_units(const struct work *w, int32_t block)
{
    const int32_t from = block * w->width, to = from + w->width;
    return (struct eco_share){from > w->units.from ? from : w->units.from,
                              to < w->units.to ? to : w->units.to};
}

static void work_on_rows(const struct work *w, struct eco_share rows)
{
    const int32_t first = w->units.from / w->width;
    const int32_t last = (w->units.to + w->width - 1) / w->width - 1;
    const int32_t step = w->backwards ? -1 : 1;
    int32_t block = w->backwards ? last : first;
    for (int32_t i = first; i <= last; i++, block += step) {
        const struct eco_share units = block_units(w, block);
        for (int k = 0; k < w->products; k++) {
            const float *next = NULL;
            if (k + 1 < w->products)
                next = panel_of(&w->product[k + 1], units.from);
            else if (i < last)
                next = panel_of(w->product, block_units(w, block + step).from);
            multiply_units(&w->product[k], rows, units, next);
        }
        if (w->call == NULL)
            continue;
        struct eco_pointwise call = *w->call;
        call.row0 = rows.from;
        call.row1 = rows.to;
        call.unit0 = units.from;
        call.unit1 = units.to;
        w->kernel(&call);
    }
}

/* Near-equal pieces of the rows: a short last one would read all weights for little. */
static void do_work(const struct work *w)
{
    const size_t row = w->products > 0 ? (size_t)w->product->k * sizeof(float) : 1;
    const int64_t rows = w->rows.to - w->rows.from;
    const int64_t most = (int64_t)(ROWS_BYTES / row) + 1, pieces = (rows + most - 1) / most;
    if (w->units.from >= w->units.to)
        return;
    for (int64_t i = 0; i < pieces; i++)
        work_on_rows(w, (struct eco_share){w->rows.from + (int32_t)(rows * i / pieces),
                                           w->rows.from + (int32_t)(rows * (i + 1) / pieces)});
}

static struct eco_share part_number(int32_t n, int part, int parts)
{
    return (struct eco_share){(int32_t)((int64_t)n * part / parts),
                              (int32_t)((int64_t)n * (part + 1) / parts)};
}

/* Of a large product: rows in `parts` parts, blocks of units in as many as leave a thread least. */
static void share_out_whole(const struct eco_cpu_run *run, int32_t rows, int32_t units,
                            struct work *w)
{
    const int32_t blocks = (units + w->width - 1) / w->width;
    int64_t least = INT64_MAX;
    int parts = 1;
    for (int p = 1; p <= run->count && (p == 1 || rows >= ROWS_TO_SHARE * p); p++) {
        const int across = run->count / p;
        const int64_t work = (int64_t)((rows + p - 1) / p) * ((blocks + across - 1) / across);
        if (run->count % p == 0 && work <= least) {
            least = work;
            parts = p;
        }
    }
    const int across = run->count / parts;
    const struct eco_share mine = part_number(blocks, run->id % across, across);
    const int32_t end = mine.to * w->width;
    w->rows = part_number(rows, run->id / across, parts);
    w->units = (struct eco_share){mine.from * w->width, end < units ? end : units};
}

/* In steps: the units that the thread finishes. */
static void share_out(const struct eco_cpu_run *run, const struct eco_multiply *m, int32_t units,
                      struct work *w)
{
    if (m->part == ECO_PART_INPUT) {
        share_out_whole(run, m->rows, units, w);
        return;
    }
    w->rows = run->rows;
    w->units = eco_cpu_part(run, units, run->unit_group);
}

/* ---- products -------------------------------------------------------------------------------- */

static struct product product_of(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_layout *layout = run->layout;
    const struct eco_op *op = m->op;
    const struct eco_panels *panels = eco_layout_panels(layout, op->layer, m->part, m->back);
    const size_t offset = m->back ? eco_layout_weights_back(layout, op->layer, op->d, m->part)
                                  : eco_layout_weights(layout, op->layer, op->d, m->part);
    return (struct product){.multiply = m,
                            .panels = panels,
                            .kernel = run->tile,
                            .weights = eco_cpu_weights(run, offset),
                            .a = m->a,
                            .group = panels->lanes * panels->spans,
                            .k = panels->k,
                            .near = run->count >= run->near &&
                                    (m->part != ECO_PART_INPUT || m->rows == 1)};
}

/* Has an accumulator a product that is done before this part's? */
static bool has_earlier(const struct eco_lowered *lowered, int acc, int part)
{
    const struct eco_accumulator *of = &lowered->acc[acc];
    const int o = part - ECO_PART_RECURRENT;
    if (part == ECO_PART_INPUT || of->input >= 0)
        return part != ECO_PART_INPUT;
    for (int k = 0; k < lowered->n_operands; k++) {
        const int before = lowered->operand[k].forward - lowered->operand[o].forward;
        if (of->recurrent[k] >= 0 && (before < 0 || (before == 0 && k < o)))
            return true;
    }
    return false;
}

/* C accs += A M^T: the first product of an accumulator starts from its bias. */
static int put_forward(const struct eco_cpu_run *run, const struct eco_multiply *m,
                       struct product *p)
{
    struct eco_span span;
    struct number *number = p->number;
    *p = product_of(run, m);
    if (m->part == ECO_PART_PROJECT)
        return 1;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end)
        for (int k = span.first; k < span.end; k++, number++) {
            number->column = (size_t)k * m->blocks.column;
            number->add = has_earlier(run->lowered, k, m->part);
            number->bias = number->add ? NULL : eco_cpu_bias(run, m->op, k);
        }
    return 1;
}

/* C += A accs M: k runs over the numbers of the part; where their columns of A are not neighbours,
 * run by run. */
static int put_back(const struct eco_cpu_run *run, const struct eco_multiply *m, struct product *p)
{
    const size_t units = (size_t)eco_layout_matrix(run->layout, m->op->layer, m->part)->units;
    struct eco_span span;
    int n = 0;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end, n++) {
        p[n] = product_of(run, m);
        p[n].a += (size_t)span.first * units;
        p[n].k = (int32_t)(units * (size_t)(span.end - span.first));
        p[n].skipped = (int32_t)(units * (size_t)span.before);
        p[n].number[0].add = m->add || n > 0;
    }
    return n;
}

void eco_packed_stage(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n,
                      const struct eco_pointwise *call, eco_pointwise_kernel kernel)
{
    struct product product[MAX_PRODUCTS];
    struct work w = {.product = product, .call = call, .kernel = kernel};
    for (int i = 0; i < n; i++)
        w.products +=
            (multiply[i].back ? put_back : put_forward)(run, &multiply[i], &product[w.products]);
    w.width = run->layout->wishes.acc_units;
    if (call != NULL) {
        w.rows = (struct eco_share){call->row0, call->row1};
        w.units = (struct eco_share){call->unit0, call->unit1};
    } else if (w.products > 0) {
        share_out(run, multiply, product->panels->units, &w);
    }
    /* Odd steps walk backwards: what the last step left in the cache is used first. */
    w.backwards = n > 0 && multiply->t % 2 != 0;
    do_work(&w);
}

void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply)
{
    eco_packed_stage(run, multiply, 1, NULL, NULL);
}
