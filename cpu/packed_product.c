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
    int acc;
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
    /* no divisions where rows are few and a panel is soon done */
    const struct number *number = &p->number[panels->spans == 1 ? first : first / panels->spans];
    int32_t span = panels->spans == 1 ? 0 : first % panels->spans;
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

/* ---- a panel, or those of two products that add to the same numbers ----------------------------
 */

/* What one thread does: products of the same C, then perhaps a pointwise pass, of each block. */
struct work {
    const struct product *product;
    int products;
    /* The first two products go together: panels of number i of C's numbers, -1: it has none. */
    int pairs;
    struct pair {
        int8_t panel[ECO_TILE_PAIRS];
    } pair[ECO_MAX_ACCS];
    struct eco_share rows, units;
    int32_t width;                    /* units of a block */
    bool backwards;                   /* from the last block to the first */
    bool pass_after;                  /* the pass comes after all blocks */
    const struct eco_pointwise *call; /* NULL: none */
    eco_pointwise_kernel kernel;
};

/* Rows and units at hand. */
struct part {
    struct eco_share rows, units;
    int32_t next; /* first unit of the part after this one, -1: none */
};

/* Adds a panel to what a tile multiplies. */
static void add_panel(const struct product *p, struct eco_tile *tile, const struct part *part,
                      int32_t block, int32_t panel)
{
    const size_t a_row = p->multiply->a_row;
    const float *next = NULL;
    if (p->near)
        ;
    else if (panel + 1 < p->panels->panels)
        next = panel_at(p, block, panel + 1);
    else if ((block + 1) * p->group < part->units.to)
        next = panel_at(p, block + 1, 0);
    else if (part->next >= 0)
        next = panel_at(p, part->next / p->group, 0);
    tile->pair[tile->pairs++] =
        (struct eco_tile_pair){.k = p->k,
                               .a = p->a + (size_t)part->rows.from * a_row,
                               .a_row = a_row,
                               .a_k = 1,
                               .panel = panel_at(p, block, panel),
                               .panel_k = (size_t)(panel_vectors(p, panel) * p->panels->lanes),
                               .prefetch = next};
}

/* A panel of which other threads have units too: our vectors, one by one. */
static void multiply_vectors(const struct product *p, struct eco_tile *tile, int32_t block,
                             int32_t panel, struct eco_share units)
{
    const int32_t first = eco_panels_vector(p->panels, panel), lanes = p->panels->lanes;
    int32_t before = 0; /* vectors passed */
    for (int32_t v = first; v < eco_panels_vector(p->panels, panel + 1); v++) {
        const int32_t unit = block * p->group + v % p->panels->spans * lanes;
        if (unit < units.from || unit >= units.to)
            continue;
        for (int32_t i = 0; i < tile->pairs; i++) {
            tile->pair[i].panel += (v - first - before) * lanes;
            tile->pair[i].prefetch = NULL;
        }
        before = v - first;
        place_vectors(p, tile, block, v, v + 1);
        p->kernel->multiply(tile);
    }
}

/* p: the product whose panel says where the tile's vectors go. */
static void multiply_panel(const struct product *p, struct eco_tile *tile, const struct part *part,
                           int32_t block, int32_t panel)
{
    const int32_t unit = block * p->group, first = eco_panels_vector(p->panels, panel);
    const struct eco_share units = part->units;
    if (unit < units.from || (unit + p->group > units.to && units.to != p->panels->units)) {
        multiply_vectors(p, tile, block, panel, units);
        return;
    }
    place_vectors(p, tile, block, first, eco_panels_vector(p->panels, panel + 1));
    p->kernel->multiply(tile);
}

static struct eco_tile tile_of(const struct product *p, const struct part *part)
{
    const struct eco_multiply *m = p->multiply;
    struct eco_tile tile;
    tile.rows = part->rows.to - part->rows.from;
    tile.pairs = 0;
    tile.c = (float *)m->c + (size_t)part->rows.from * m->c_row;
    tile.c_row = m->c_row;
    return tile;
}

static void multiply_units(const struct product *p, const struct part *part)
{
    struct eco_tile tile = tile_of(p, part);
    for (int32_t block = part->units.from / p->group; block * p->group < part->units.to; block++)
        for (int32_t panel = 0; panel < p->panels->panels; panel++) {
            tile.pairs = 0;
            add_panel(p, &tile, part, block, panel);
            multiply_panel(p, &tile, part, block, panel);
        }
}

static void multiply_pairs(const struct work *w, const struct part *part)
{
    const struct product *p = w->product;
    struct eco_tile tile = tile_of(p, part);
    for (int32_t block = part->units.from / p->group; block * p->group < part->units.to; block++)
        for (int k = 0; k < w->pairs; k++) {
            const int8_t *panel = w->pair[k].panel;
            const int first = panel[0] >= 0 ? 0 : 1;
            tile.pairs = 0;
            for (int i = 0; i < ECO_TILE_PAIRS; i++)
                if (panel[i] >= 0)
                    add_panel(&p[i], &tile, part, block, panel[i]);
            multiply_panel(&p[first], &tile, part, block, panel[first]);
        }
}

/* ---- all blocks ------------------------------------------------------------------------------ */

static struct eco_share block_units(const struct work *w, int32_t block)
{
    const int32_t from = block * w->width, to = from + w->width;
    return (struct eco_share){from > w->units.from ? from : w->units.from,
                              to < w->units.to ? to : w->units.to};
}

static void pass(const struct work *w, struct eco_share rows, struct eco_share units)
{
    struct eco_pointwise call = *w->call;
    call.row0 = rows.from;
    call.row1 = rows.to;
    call.unit0 = units.from;
    call.unit1 = units.to;
    w->kernel(&call);
}

static void work_on_rows(const struct work *w, struct eco_share rows)
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
            multiply_units(&w->product[k], &part);
        if (w->call != NULL && !w->pass_after)
            pass(w, rows, part.units);
    }
    if (w->call != NULL && w->pass_after)
        pass(w, rows, w->units);
}

/* Near-equal pieces of the rows: a short last one would read all weights for little. */
static void do_work(const struct work *w)
{
    const size_t row = w->products > 0 ? (size_t)w->product->k * sizeof(float) : 1;
    const int64_t rows = w->rows.to - w->rows.from;
    if (w->units.from >= w->units.to || rows <= 0)
        return;
    if ((size_t)rows * row <= ROWS_BYTES) {
        work_on_rows(w, w->rows);
        return;
    }
    const int64_t most = (int64_t)(ROWS_BYTES / row) + 1, pieces = (rows + most - 1) / most;
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
    w->rows = (struct eco_share){run->rows.from < m->rows ? run->rows.from : m->rows,
                                 run->rows.to < m->rows ? run->rows.to : m->rows};
    w->units = eco_cpu_part(run, units, run->unit_group);
}

/* ---- products -------------------------------------------------------------------------------- */

/* All but the numbers, of which there are many. */
static void put_product(const struct eco_cpu_run *run, const struct eco_multiply *m,
                        struct product *p)
{
    const struct eco_layout *layout = run->layout;
    const struct eco_op *op = m->op;
    const struct eco_panels *panels = eco_layout_panels(layout, op->layer, m->part, m->back);
    const size_t offset = m->back ? eco_layout_weights_back(layout, op->layer, op->d, m->part)
                                  : eco_layout_weights(layout, op->layer, op->d, m->part);
    p->multiply = m;
    p->panels = panels;
    p->kernel = run->tile;
    p->weights = eco_cpu_weights(run, offset);
    p->a = m->a;
    p->group = panels->lanes * panels->spans;
    p->k = panels->k;
    p->skipped = 0;
    p->near = run->count >= run->near &&
              (m->part != ECO_PART_INPUT || m->rows == 1 || layout->wishes.fuse_input);
    p->number[0] = (struct number){.add = false};
}

bool eco_packed_has_earlier(const struct eco_lowered *lowered, int acc, int part)
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
    put_product(run, m, p);
    if (m->part == ECO_PART_PROJECT)
        return 1;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end)
        for (int k = span.first; k < span.end; k++, number++) {
            number->acc = k;
            number->column = (size_t)k * m->blocks.column;
            number->add = eco_packed_has_earlier(run->lowered, k, m->part);
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
        put_product(run, m, &p[n]);
        p[n].a += (size_t)span.first * units;
        p[n].k = (int32_t)(units * (size_t)(span.end - span.first));
        p[n].skipped = (int32_t)(units * (size_t)span.before);
        p[n].number[0].add = m->add || n > 0;
    }
    return n;
}

static bool has_panel_each(const struct product *p)
{
    return p->panels->panels == p->panels->n;
}

/* W and R of the same numbers go through the kernel together, if every number has a panel of its
 * own: sums stay in registers in between. */
static void pair_products(const struct eco_cpu_run *run, struct work *w)
{
    const struct product *p = w->product;
    w->pairs = 0;
    if (w->products < ECO_TILE_PAIRS || p[0].multiply->back || !has_panel_each(&p[0]) ||
        !has_panel_each(&p[1]) || p[0].group != p[1].group)
        return;
    for (int a = 0, i = 0, k = 0; a < run->lowered->n_accs; a++) {
        struct pair pair = {{-1, -1}};
        if (i < p[0].panels->n && p[0].number[i].acc == a)
            pair.panel[0] = (int8_t)i++;
        if (k < p[1].panels->n && p[1].number[k].acc == a)
            pair.panel[1] = (int8_t)k++;
        if (pair.panel[0] >= 0 || pair.panel[1] >= 0)
            w->pair[w->pairs++] = pair;
    }
}

void eco_packed_stage(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n,
                      const struct eco_pointwise *call, eco_pointwise_kernel kernel)
{
    struct product product[MAX_PRODUCTS];
    struct work w;
    w.product = product;
    w.products = 0;
    w.call = call;
    w.kernel = kernel;
    w.width = run->layout->wishes.acc_units;
    for (int i = 0; i < n; i++)
        w.products +=
            (multiply[i].back ? put_back : put_forward)(run, &multiply[i], &product[w.products]);
    pair_products(run, &w);
    /* An interpreted pass is better over many units. */
    w.pass_after = run->problem->cell->builtin < 0;
    if (call != NULL) {
        w.rows = (struct eco_share){call->row0, call->row1};
        w.units = (struct eco_share){call->unit0, call->unit1};
    } else if (w.products > 0) {
        share_out(run, multiply, product->panels->units, &w);
    } else {
        return;
    }
    /* Odd steps walk backwards: what the last step left in the cache is used first. */
    w.backwards = n > 0 && multiply[n - 1].t % 2 != 0;
    do_work(&w);
}

void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply)
{
    eco_packed_stage(run, multiply, 1, NULL, NULL);
}
