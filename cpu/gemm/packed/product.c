/*
 * Products of algorithm packed: the panels and rows of a product or a stage of a step.
 */
#include "cpu/gemm/packed/packed.h"

#include "cpu/isa/isa.h"

/* Runs of neighbouring accumulators of an operand, which a backward product takes one by one. */
enum { MAX_RUNS = (ECO_MAX_ACCS + 1) / 2 };

/* ---- products -------------------------------------------------------------------------------- */

static bool is_so(enum eco_asked asked, bool usual)
{
    return asked == ECO_USUAL ? usual : asked == ECO_ASKED_YES;
}

/* Units of a head, if a product can take its k alone: not in AMX's tiles, and backward not where
 * whole groups of k would extend into another number. */
static int32_t head_of(const struct eco_cpu_run *run, const struct eco_packed_product *p)
{
    const int32_t head = eco_problem_head(run->problem);
    const bool has = run->problem->heads > 1 && p->multiply->part >= ECO_WEIGHT_RECURRENT;
    const bool can = p->kernel->begin == NULL && !p->rounds &&
                     (!p->multiply->back || head % p->panels->group == 0);
    return has && can ? head : 0;
}

/* Sets all but the numbers, of which there are many. */
static void put_product(const struct eco_cpu_run *run, const struct eco_multiply *m,
                        struct eco_packed_product *p)
{
    const struct eco_layout *layout = run->layout;
    const struct eco_op *op = m->op;
    const struct eco_panels *panels = eco_layout_panels(layout, op->layer, m->part, m->back);
    p->multiply = m;
    p->panels = panels;
    p->weights =
        (m->back ? eco_bind_weights_back : eco_bind_weights)(layout, run->args, op, m->part);
    p->element = eco_type_bytes(layout->weight);
    p->group = panels->lanes * panels->lane_groups;
    p->k = panels->k;
    p->skipped = 0;
    p->first = 0;
    p->cached = is_so(layout->request.cpu.cached,
                      run->count >= run->cached_threads &&
                          (m->part != ECO_WEIGHT_INPUT || m->rows == 1 || layout->fuse_input));
    p->later = p->later_end = NULL;
    p->rounds = m->c_type == ECORNN_BF16;
    p->rounded = NULL;
    p->scaled = NULL;
    p->number[0] = (struct eco_packed_number){.add = false};
    eco_packed_choose(run, p);
    p->a_element = p->form->copied == 0 ? sizeof(float) : p->form->copied;
    p->head = head_of(run, p);
    p->number_k = 0;
}

/* Has an accumulator a product, or a copy of x, that precedes this part's? */
static bool has_earlier(const struct eco_lowered *lowered, int acc, int part)
{
    const struct eco_accumulator *of = &lowered->acc[acc];
    const int o = part - ECO_WEIGHT_RECURRENT;
    if (part == ECO_WEIGHT_INPUT || of->input >= 0 || of->copy >= 0)
        return part != ECO_WEIGHT_INPUT;
    for (int k = 0; k < lowered->n_operands; k++) {
        const int before = lowered->operand[k].forward - lowered->operand[o].forward;
        if (of->recurrent[k] >= 0 && (before < 0 || (before == 0 && k < o)))
            return true;
    }
    return false;
}

/* C accs += A M^T: the first product of an accumulator starts from its bias. */
static int put_forward(const struct eco_cpu_run *run, const struct eco_multiply *m,
                       struct eco_packed_product *p)
{
    struct eco_acc_range span;
    struct eco_packed_number *number = p->number;
    put_product(run, m, p);
    if (m->part == ECO_WEIGHT_PROJECT)
        return 1;
    for (int a = 0; eco_acc_range_next(run->lowered, m->part, a, &span); a = span.end)
        for (int k = span.first; k < span.end; k++, number++) {
            number->acc = k;
            number->column = (size_t)k * m->blocks.column;
            number->add = has_earlier(run->lowered, k, m->part);
            number->bias = number->add ? NULL : eco_cpu_bias(run, m->op, k);
        }
    return number > p->number ? 1 : 0;
}

/* C += A accs M: k runs over the numbers of the part. If their columns of A are not adjacent, one
 * run at a time, unless a copy of A makes them adjacent. */
static int put_back(const struct eco_cpu_run *run, const struct eco_multiply *m,
                    struct eco_packed_product *p)
{
    const size_t units = (size_t)eco_layout_matrix(run->layout, m->op->layer, m->part)->units;
    struct eco_acc_range span;
    int n = 0;
    for (int a = 0; eco_acc_range_next(run->lowered, m->part, a, &span); a = span.end, n++) {
        put_product(run, m, &p[n]);
        p[n].number[0].add = m->add || n > 0;
        if (p[n].form->together)
            return 1;
        p[n].first = (size_t)span.first * units;
        p[n].k = (int32_t)(units * (size_t)(span.end - span.first));
        p[n].skipped = (int32_t)(units * (size_t)span.before);
    }
    return n;
}

/* ---- pairs of panels ------------------------------------------------------------------------- */

static bool has_panel_each(const struct eco_packed_product *p)
{
    return p->panels->panels == p->panels->n;
}

/* Have both the same numbers in the same panels? */
static bool are_alike(const struct eco_packed_product *a, const struct eco_packed_product *b)
{
    for (int i = 0; i < a->panels->n; i++)
        if (i >= b->panels->n || a->number[i].acc != b->number[i].acc)
            return false;
    return a->panels->n == b->panels->n;
}

/* W and R of the same numbers go through the kernel together if every number has a panel of its
 * own, or their panels have the same numbers: then C stays in the cache in between. */
static void pair_products(const struct eco_cpu_run *run, struct eco_packed_work *w)
{
    const struct eco_packed_product *p = w->product;
    w->pairs = 0;
    if (w->products < ECO_TILE_PAIRS || p[0].multiply->back || p[0].group != p[1].group ||
        p[0].kernel != p[1].kernel)
        return;
    /* AMX adds C to the sum over both, which gives other bits than a step that does not multiply
     * its input */
    if (p->kernel->begin != NULL && run->problem->row_invariant)
        return;
    if (are_alike(&p[0], &p[1])) {
        for (int8_t i = 0; i < p[0].panels->panels; i++)
            w->pair[w->pairs++] = (struct eco_packed_pair){{i, i}};
        return;
    }
    if (!has_panel_each(&p[0]) || !has_panel_each(&p[1]))
        return;
    for (int a = 0, i = 0, k = 0; a < run->lowered->n_accs; a++) {
        struct eco_packed_pair pair = {{-1, -1}};
        if (i < p[0].panels->n && p[0].number[i].acc == a)
            pair.panel[0] = (int8_t)i++;
        if (k < p[1].panels->n && p[1].number[k].acc == a)
            pair.panel[1] = (int8_t)k++;
        if (pair.panel[0] >= 0 || pair.panel[1] >= 0)
            w->pair[w->pairs++] = pair;
    }
}

/* Units of a block: of an accumulator block that a pass follows, or of the widest block of
 * panels. */
static int32_t block_units(const struct eco_cpu_run *run, const struct eco_packed_work *w)
{
    if (run->layout->request.cpu.acc_units > 0 && !w->pass_after)
        return run->layout->request.cpu.acc_units;
    int32_t width = run->unit_group;
    for (int i = 0; i < w->products; i++)
        width = width > w->product[i].group ? width : w->product[i].group;
    return width;
}

/* Inputs come from memory and are not prefetched by the hardware. If weights stay in the cache,
 * there is time to prefetch those of the next step. */
static void fetch_later(const struct eco_packed_work *w)
{
    for (int i = 0; i < w->products; i++) {
        struct eco_packed_product *p = &w->product[i];
        const struct eco_multiply *m = p->multiply;
        if (m->later == NULL || !p->cached || p->kernel != w->run->isa->tile)
            continue;
        const char *const rows = m->later;
        p->later = rows + (size_t)w->rows.from * m->a_row * sizeof(float);
        p->later_end = rows + (size_t)w->rows.to * m->a_row * sizeof(float);
    }
}

/* ---- work ------------------------------------------------------------------------------------ */

/* n products of one C, described in `product`, then the call's kernel; call may be NULL. */
static void put_work(const struct eco_cpu_run *run, const struct eco_stage *stage,
                     struct eco_packed_product *product, struct eco_packed_work *w)
{
    w->run = run;
    w->product = product;
    w->products = 0;
    w->call = stage->call;
    w->kernel = stage->kernel;
    for (int i = 0; i < stage->n; i++)
        w->products += (stage->product[i].back ? put_back : put_forward)(run, &stage->product[i],
                                                                         &product[w->products]);
    pair_products(run, w);
    /* an interpreted pass is better over many units, and AMX is slower with vector code in
     * between */
    const bool amx = w->products > 0 && product->kernel->begin != NULL;
    w->pass_after =
        is_so(run->layout->request.cpu.pass_after, run->problem->cell->builtin < 0 || amx);
    w->width = block_units(run, w);
    w->backwards = false;
    w->blocks = 0;
    w->height = 0;
}

void eco_packed_multiply(const struct eco_cpu_run *run, const struct eco_multiply *multiply)
{
    struct eco_packed_product product[MAX_RUNS];
    struct eco_packed_work w;
    put_work(run, &(struct eco_stage){multiply, 1, NULL, NULL}, product, &w);
    if (w.products == 0)
        return;
    const struct eco_packed_part mine = eco_packed_part_of(&w, run->id);
    w.rows = mine.rows;
    w.units = mine.units;
    w.backwards = multiply->t % 2 != 0;
    eco_packed_walk(&w);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* For all stages of an op: a part has one product forward. */
struct prepared {
    struct eco_packed_work work[ECO_MAX_STAGES];
    struct eco_packed_product product[1 + ECO_MAX_OPERANDS];
    struct eco_packed_strips strips;
};

/* The thread's part of the plane. */
static void take_part(struct eco_packed_work *w)
{
    w->rows = (struct eco_range){w->call->row0, w->call->row1};
    w->units = (struct eco_range){w->call->unit0, w->call->unit1};
}

void eco_packed_prepare(const struct eco_cpu_run *run, const struct eco_stage *stage, int stages,
                        struct eco_prepared *prepared)
{
    _Static_assert(sizeof(struct prepared) <= sizeof(struct eco_prepared), "there is room");
    struct prepared *const p = (void *)prepared->room;
    struct eco_packed_product *product = p->product;
    p->strips.blocks = p->strips.strips = 0;
    for (int i = 0; i < stages; i++) {
        put_work(run, &stage[i], product, &p->work[i]);
        product += p->work[i].products;
        take_part(&p->work[i]);
        eco_packed_find_strips(&p->work[i], &p->strips);
    }
}

void eco_packed_stage(struct eco_prepared *prepared, int stage)
{
    struct eco_packed_work *const w = &((struct prepared *)(void *)prepared->room)->work[stage];
    /* Odd steps walk backwards: what the last step left in the cache is used first. */
    w->backwards = w->products > 0 && w->call->t % 2 != 0;
    if (w->blocks > 0) {
        eco_packed_follow(w);
        return;
    }
    fetch_later(w);
    eco_packed_walk(w);
}

/* A bias of 0. */
static const float zeros[ECO_LINE_UNITS];

const struct eco_line_kernel *eco_packed_line(const struct eco_prepared *prepared,
                                              struct eco_line *line)
{
    const struct eco_packed_work *const w =
        ((const struct prepared *)(const void *)prepared->room)->work;
    const struct eco_packed_product *const p = w->product;
    const struct eco_cpu_run *const run = w->run;
    const struct eco_line_kernel *kernel = run->kernels->lines;
    unsigned sums = 0;
    if (kernel == NULL || w->products != 1 || w->blocks == 0 || p->kernel != run->isa->tile ||
        p->panels->panels != 1 || p->panels->lane_groups != 1 || p->panels->k != p->panels->units ||
        p->panels->units > ECO_LINE_UNITS)
        return NULL;
    for (int i = 0; i < p->panels->n; i++) {
        sums |= 1u << p->number[i].acc;
        line->start[i] = p->number[i].add ? NULL : p->number[i].bias ? p->number[i].bias : zeros;
    }
    line->panel = (const float *)(const void *)eco_packed_panel(p, 0, 0);
    while (kernel->stage != NULL && (kernel->stage != w->kernel || kernel->sums != sums))
        kernel++;
    return kernel->stage != NULL ? kernel : NULL;
}
