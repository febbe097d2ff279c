/*
 * Algorithm packed: weights in panels, read once per step and row block by a product kernel of our
 * own; a thread multiplies and finishes the same units, so that a step needs one barrier, or does
 * all steps of its own rows and needs none.  F32.
 */
#include "cpu/packed.h"

/* Rows that go through all panels together: A's part of the second-level cache. */
enum { ROWS_AT_A_TIME = 120 };
/* Rows of an input product below which threads share out its weights instead. */
enum { ROWS_TO_SHARE = 32 };

/* One product in panels, as this thread does it. */
struct walk {
    const struct eco_cpu_run *run;
    const struct eco_multiply *multiply;
    const struct eco_panels *panels;
    const float *weights;
    size_t column[ECO_MAX_ACCS]; /* of C: where each number's units begin */
    const float *bias[ECO_MAX_ACCS];
    struct eco_share rows, units, blocks;
    int32_t skipped; /* k before the first that is used */
    bool near;       /* the weights stay in the thread's cache */
    struct eco_tile tile;
};

static const float zeros[ECO_TILE_LANES];

/* Number i of the part is which accumulator, and what its row of C starts from. */
static void place_numbers(struct walk *w)
{
    const struct eco_cpu_run *run = w->run;
    const struct eco_multiply *m = w->multiply;
    const size_t H = (size_t)run->problem->H;
    struct eco_span span;
    int i = 0;
    w->column[0] = 0;
    if (m->part == ECO_PART_PROJECT)
        return;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end)
        for (int k = span.first; k < span.end; k++, i++) {
            w->column[i] = (size_t)k * H;
            w->bias[i] = m->bias ? eco_cpu_bias(run, m->op, k) : NULL;
        }
}

/* The tile's columns of C: where vectors [first, end) of a block go. */
static void place_vectors(struct walk *w, int32_t block, int32_t first, int32_t end)
{
    const struct eco_panels *panels = w->panels;
    int32_t number = first / panels->spans, span = first % panels->spans;
    w->tile.vectors = end - first;
    for (int32_t i = 0; i < end - first; i++, span++) {
        if (span == panels->spans) {
            span = 0;
            number++;
        }
        const int32_t unit = (block * panels->spans + span) * panels->lanes;
        const int32_t left = panels->units - unit;
        w->tile.count[i] = left < 0 ? 0 : left < panels->lanes ? left : panels->lanes;
        w->tile.c_vector[i] = w->column[number] + (size_t)unit;
        if (w->multiply->bias)
            w->tile.start[i] = w->bias[number] ? w->bias[number] + unit : zeros;
        else
            w->tile.start[i] = w->multiply->add ? NULL : zeros;
    }
}

static size_t panel_width(const struct walk *w, int32_t panel)
{
    const int32_t vectors =
        eco_panels_vector(w->panels, panel + 1) - eco_panels_vector(w->panels, panel);
    return (size_t)(vectors * w->panels->lanes);
}

/* A panel of the weights; of panel number `panels`: the first of block next. */
static const float *panel_at(const struct walk *w, int32_t block, int32_t panel, int32_t next)
{
    if (panel == w->panels->panels)
        return next < 0 ? NULL : panel_at(w, next, 0, -1);
    return w->weights + eco_panels_offset(w->panels, block, panel) +
           (size_t)w->skipped * panel_width(w, panel);
}

/* A block of which other threads have units too: the vectors of a panel that are ours, one by one.
 */
static void multiply_vectors(struct walk *w, int32_t block, int32_t panel)
{
    const int32_t first = eco_panels_vector(w->panels, panel);
    for (int32_t v = first; v < eco_panels_vector(w->panels, panel + 1); v++) {
        const int32_t unit = (block * w->panels->spans + v % w->panels->spans) * w->panels->lanes;
        if (unit < w->units.from || unit >= w->units.to)
            continue;
        place_vectors(w, block, v, v + 1);
        w->tile.panel = panel_at(w, block, panel, -1) + (v - first) * w->panels->lanes;
        w->tile.prefetch = NULL;
        w->run->tile->multiply(&w->tile);
    }
}

/* next: the block after this one, -1: none. */
static void multiply_block(struct walk *w, int32_t block, int32_t next)
{
    const int32_t group = w->panels->lanes * w->panels->spans;
    const int32_t end = (block + 1) * group;
    const bool whole =
        block * group >= w->units.from && (end <= w->units.to || w->units.to == w->panels->units);
    for (int32_t panel = 0; panel < w->panels->panels; panel++) {
        w->tile.panel_k = panel_width(w, panel);
        if (!whole) {
            multiply_vectors(w, block, panel);
            continue;
        }
        place_vectors(w, block, eco_panels_vector(w->panels, panel),
                      eco_panels_vector(w->panels, panel + 1));
        w->tile.panel = panel_at(w, block, panel, next);
        w->tile.prefetch = w->near ? NULL : panel_at(w, block, panel + 1, next);
        w->run->tile->multiply(&w->tile);
    }
}

/* Odd steps walk backwards: what the last step left in the cache is used first. */
static void multiply_rows(struct walk *w)
{
    const struct eco_multiply *m = w->multiply;
    const bool backwards = m->t % 2 != 0;
    const int32_t count = w->blocks.to - w->blocks.from;
    for (int32_t row = w->rows.from; row < w->rows.to; row += ROWS_AT_A_TIME) {
        const int32_t left = w->rows.to - row;
        w->tile.rows = left < ROWS_AT_A_TIME ? left : ROWS_AT_A_TIME;
        w->tile.a = (const float *)m->a + (size_t)row * m->a_row;
        w->tile.c = (float *)m->c + (size_t)row * m->c_row;
        for (int32_t i = 0; i < count; i++) {
            const int32_t block = backwards ? w->blocks.to - 1 - i : w->blocks.from + i;
            multiply_block(w, block, i + 1 == count ? -1 : backwards ? block - 1 : block + 1);
        }
    }
}

static struct eco_share part_number(int32_t n, int part, int parts)
{
    return (struct eco_share){(int32_t)((int64_t)n * part / parts),
                              (int32_t)((int64_t)n * (part + 1) / parts)};
}

/* Of a large product: rows in `parts` parts, blocks of units in as many as leave a thread least. */
static void share_out_whole(struct walk *w)
{
    const int32_t rows = w->multiply->rows, blocks = w->panels->blocks;
    const int count = w->run->count, id = w->run->id;
    int64_t least = INT64_MAX;
    int parts = 1;
    for (int p = 1; p <= count && (p == 1 || rows >= ROWS_TO_SHARE * p); p++) {
        const int across = count / p;
        const int64_t work = (int64_t)((rows + p - 1) / p) * ((blocks + across - 1) / across);
        if (count % p == 0 && work <= least) {
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
    const int32_t group = w->panels->lanes * w->panels->spans;
    w->units = (struct eco_share){0, w->panels->units};
    if (w->multiply->part == ECO_PART_INPUT) {
        share_out_whole(w);
        return;
    }
    w->rows = run->rows;
    w->units = eco_cpu_part(run, w->panels->units, run->unit_group);
    w->blocks.from = w->units.from / group;
    w->blocks.to = (w->units.to + group - 1) / group;
    if (w->units.from == w->units.to)
        w->blocks.to = w->blocks.from;
}

static struct walk begin(const struct eco_cpu_run *run, const struct eco_multiply *m, bool back)
{
    const struct eco_layout *layout = run->layout;
    const struct eco_op *op = m->op;
    struct walk w = {.run = run,
                     .multiply = m,
                     .near =
                         run->count >= run->near && (m->part != ECO_PART_INPUT || m->rows == 1)};
    w.panels = eco_layout_panels(layout, op->layer, m->part, back);
    w.weights =
        eco_cpu_weights(run, back ? eco_layout_weights_back(layout, op->layer, op->d, m->part)
                                  : eco_layout_weights(layout, op->layer, op->d, m->part));
    w.tile = (struct eco_tile){.k = w.panels->k, .a_row = m->a_row, .a_k = 1, .c_row = m->c_row};
    share_out(&w);
    return w;
}

static void forward(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    struct walk w = begin(run, m, false);
    place_numbers(&w);
    if (m->bias)
        eco_cpu_fill_bias(run, m, eco_cpu_part(run, m->rows, 1), false);
    multiply_rows(&w);
}

/* k runs over the numbers of the part; where their columns of A are not neighbours, run by run. */
static void back(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const size_t units = (size_t)eco_layout_matrix(run->layout, m->op->layer, m->part)->units;
    struct eco_multiply part = *m;
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end) {
        struct walk w = begin(run, &part, true);
        part.a = (const float *)m->a + (size_t)span.first * units;
        w.multiply = &part;
        w.tile.k = (int32_t)(units * (size_t)(span.end - span.first));
        w.skipped = (int32_t)(units * (size_t)span.before);
        multiply_rows(&w);
        part.add = true;
    }
}

static const struct eco_products packed_products = {forward, back, eco_packed_weights};

/* ---- the algorithm --------------------------------------------------------------------------- */

static const char *refuses(const struct eco_problem *problem, const struct eco_caps *caps)
{
    if (problem->type != ECORNN_F32)
        return "F32 only";
    if (problem->weight_type != ECORNN_F32)
        return "F32 weights only";
    return caps->lanes == 0 ? "no product kernel" : NULL;
}

/* Rows of a chunk: the result of the input product stays in a second-level cache or near it. */
enum { FORWARD_ROWS = 256, BACKWARD_ROWS = 1024, PACK_ROWS = 512 };

static int32_t steps_for(int32_t rows, int32_t N)
{
    const int32_t steps = (rows + N - 1) / N;
    return steps < 16 ? 16 : steps;
}

static void wishes(const struct eco_problem *problem, const struct eco_caps *caps,
                   struct eco_wishes *wishes)
{
    const bool few = problem->N <= caps->few_rows;
    *wishes = (struct eco_wishes){
        .chunk = steps_for(FORWARD_ROWS, problem->N),
        .chunk_backward = steps_for(BACKWARD_ROWS, problem->N),
        .pack_rows = PACK_ROWS,
        .spans = few ? 1 : caps->vectors,
        .lanes = caps->lanes,
        .vectors = few ? caps->few_vectors : caps->vectors,
    };
}

/* Measured: 0.8 of the peak for the large products, 0.7 for those of a step (doc/performance.md).
 */
static double estimate(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const double rate = caps->flops * caps->threads;
    return eco_cpu_estimate(problem, caps, 0.7 * rate, 0.8 * rate);
}

/* Part of a thread's cache that weights fill without being driven out before the next step. */
static const double NEAR = 0.65;

static ecornn_status run_tape(const struct ecornn_plan *plan, const struct eco_tape *tape,
                              const struct eco_layout *layout, const struct eco_args *args)
{
    struct eco_cpu_run run = eco_cpu_run_of(plan, layout, args);
    run.products = &packed_products;
    run.whole_rows = false;
    run.near = 1 + (int32_t)(plan->work.recurrent * (double)sizeof(float) / NEAR /
                             (double)plan->device->caps.cache_bytes);
    run.own_units = !run.lowered->has_means && !plan->problem.projected;
    return eco_cpu_walk(&run, tape, eco_cpu_threads(&run));
}

const struct eco_algo eco_algo_packed = {"packed", refuses, wishes, estimate, run_tape};
