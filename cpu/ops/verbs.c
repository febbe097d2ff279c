/*
 * The verbs of the CPU, program/verbs.h: this thread's part of each. The algorithm decides how to
 * multiply. CUT is in states.c.
 */
#include "cpu/cpu.h"
#include "common/number.h"

#include <string.h>

/* ---- MOVE ------------------------------------------------------------------------------------ */

/* Some elements of a row to write, and of one to read. */
struct rows_pair {
    void *to;
    const void *from; /* NULL: zeros */
    ecornn_type to_type, from_type;
    size_t width;
};

/* Like eco_type_get and eco_type_set, but F32 needs no call. */
static double get(const void *row, size_t i, ecornn_type type)
{
    return type == ECORNN_F32 ? (double)((const float *)row)[i] : eco_type_get(row, i, type);
}

static void set(void *row, size_t i, ecornn_type type, double value)
{
    if (type == ECORNN_F32)
        ((float *)row)[i] = (float)value;
    else
        eco_type_set(row, i, type, value);
}

/* Four features share a draw. A term is rounded before it is added: directions add in any order. */
static void move_dropped(const struct eco_move *move, struct eco_coordinates at,
                         const struct rows_pair *row)
{
    uint32_t word[4];
    for (size_t i = 0; i < row->width; i++) {
        if (i % 4 == 0)
            eco_random_quad(&at, (uint32_t)(i / 4), word);
        /* selected, not multiplied by 0, because a dropped element may be infinite */
        const double value =
            word[i % 4] < move->threshold ? 0 : get(row->from, i, row->from_type) * move->scale;
        set(row->to, i, row->to_type,
            move->add ? get(row->to, i, row->to_type) + eco_type_round(value, row->to_type)
                      : value);
    }
}

static void move_plain(const struct eco_move *move, const struct rows_pair *row)
{
    if (row->from != NULL)
        (move->add ? eco_type_add : eco_type_move)(row->to, row->to_type, row->from, row->from_type,
                                                   row->width);
    else if (!move->add)
        memset(row->to, 0, row->width * eco_type_bytes(row->to_type));
}

/* A single number into all units of an accumulator. */
static void spread(const struct eco_cpu_run *run, const struct rows_pair *row)
{
    const struct eco_blocks blocks = eco_layout_acc_blocks(run->layout);
    const double value = get(row->from, 0, row->from_type);
    for (size_t j = 0; j < row->width; j++)
        set(row->to, eco_blocks_at(&blocks, j), row->to_type, value);
}

/* The sum of a row into a single number, rounded as sums are before it is added. */
static void sum_up(const struct eco_move *move, const struct rows_pair *row)
{
    double sum = 0;
    for (size_t j = 0; j < row->width; j++)
        sum += get(row->from, j, row->from_type);
    sum = eco_type_round(sum, eco_type_sum(row->to_type));
    set(row->to, 0, row->to_type, move->add ? get(row->to, 0, row->to_type) + sum : sum);
}

/* The units of an accumulator, block by block. */
static void move_blocks(const struct eco_cpu_run *run, const struct eco_move *move,
                        const struct rows_pair *row)
{
    const struct eco_blocks blocks = eco_layout_acc_blocks(run->layout);
    const size_t block = (size_t)1 << blocks.shift;
    for (size_t j = 0; j < row->width; j += block) {
        struct rows_pair some = *row;
        some.width = row->width - j < block ? row->width - j : block;
        some.to = eco_cpu_after_mutable(row->to_type, row->to, eco_blocks_at(&blocks, j));
        some.from = eco_cpu_after(row->from_type, row->from, j);
        move_plain(move, &some);
    }
}

/* The row at position n, at step number i of the move. */
static void move_row(const struct eco_cpu_run *run, const struct eco_move *move, int32_t i,
                     int32_t n)
{
    const int32_t row = eco_cpu_row(run, n);
    const bool sorted = run->order != NULL, at_last = sorted && move->rows == ECO_ROWS_AT_LAST;
    const int32_t last = at_last ? run->args->lengths[row] - 1 : 0,
                  t = at_last ? last : move->t + i * move->every;
    const struct eco_view *to = &move->to,
                          *from = move->resets && eco_cpu_is_reset(run, move->op, t, n)
                                      ? &move->start
                                      : &move->from;
    const struct rows_pair pair = {eco_cpu_row_at(run, to, at_last ? last : move->to_t + i, n),
                                   eco_cpu_row_at(run, from, t, n), to->type, from->type,
                                   (size_t)move->width};
    const struct eco_coordinates at = {.seed = run->args->seed,
                                       .layer = move->op->layer,
                                       .t = run->args->first_step + (uint32_t)t,
                                       .n = run->args->first_row + (uint32_t)row};
    if (move->drop)
        move_dropped(move, at, &pair);
    else if (move->spreads)
        spread(run, &pair);
    else if (move->sums)
        sum_up(move, &pair);
    else if (move->to_accs)
        move_blocks(run, move, &pair);
    else
        move_plain(move, &pair);
    if (move->pads)
        memset(eco_cpu_after_mutable(to->type, pair.to, pair.width), 0,
               (to->row - pair.width) * eco_type_bytes(to->type));
}

/* Products skip rows that have ended, so only the caller reads them. */
void eco_cpu_move(void *context, const struct eco_move *move)
{
    const struct eco_cpu_run *run = context;
    const bool ends = move->rows == ECO_ROWS_LIVE || move->rows == ECO_ROWS_CLEARED,
               clears = move->rows == ECO_ROWS_CLEARED && move->to.caller && !move->add;
    for (int32_t i = 0; i < move->steps; i++) {
        const int32_t t = move->t + i * move->every,
                      live = ends ? eco_cpu_active(run, t) : run->args->N;
        const struct eco_range part =
            eco_cpu_part_of(run, ends && !clears ? eco_cpu_step_rows(run, t) : run->rows, 1);
        for (int32_t n = part.from; n < part.to; n++)
            if (n < live)
                move_row(run, move, i, n);
            else
                memset(eco_cpu_row_at(run, &move->to, move->to_t + i, n), 0,
                       (move->sums ? 1 : (size_t)move->width) * eco_type_bytes(move->to.type));
    }
}

/* Forward copies the states of every step for the caller. It moves the rows that this thread also
 * resets, so that no other thread changes them. */
void eco_cpu_show_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t)
{
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_move move = {.op = bound->op,
                                      .to = bound->all_states[s],
                                      .to_t = t,
                                      .from = bound->next[s],
                                      .t = t,
                                      .steps = 1,
                                      .every = 1,
                                      .width = eco_problem_width(run->problem, s),
                                      .rows = ECO_ROWS_CLEARED};
        if (move.to.first != NULL)
            eco_cpu_move((void *)(uintptr_t)run, &move);
    }
}

/* ---- PRODUCT and GRADIENTS ------------------------------------------------------------------- */

const struct eco_blocks eco_cpu_one_block = {31, 0, 0};

const void *eco_cpu_bias(const struct eco_cpu_run *run, const struct eco_op *op, int acc)
{
    const int param = run->lowered->acc[acc].vector;
    const size_t before = (size_t)eco_vector_number(&run->problem->cell->recipe, param);
    const void *vectors = eco_bind_weights(run->layout, run->args, op, ECO_WEIGHT_VECTORS);
    return param < 0 ? NULL
                     : eco_cpu_after(run->layout->sum, vectors, before * (size_t)run->problem->H);
}

void eco_cpu_weight_product(void *context, const struct eco_weight_product *product)
{
    struct eco_cpu_run run = *(const struct eco_cpu_run *)context;
    struct eco_op op = *product->op;
    struct eco_multiply m = {.op = &op,
                             .part = product->weight_id,
                             .a_row = product->a.row,
                             .c_row = product->c.row,
                             .c_type = product->c.type,
                             .blocks = product->back ? eco_cpu_one_block
                                                     : eco_layout_acc_blocks(run.layout),
                             .back = product->back,
                             .bias = product->bias,
                             .add = product->add,
                             .alone = product->bias};
    op.t0 = product->t0;
    op.t1 = product->t1;
    for (struct eco_row_range some = {0}; eco_cpu_next_row_range(&run, &op, &some);) {
        m.rows = some.rows;
        m.a = eco_view_at(&product->a, op.t0 + some.step);
        m.c = eco_view_at(&product->c, op.t0 + some.step);
        run.rows = (struct eco_range){0, some.rows};
        run.products->multiply(&run, &m);
    }
}

static int32_t active_rows(const struct eco_cpu_run *run, const struct eco_op *op)
{
    int32_t rows = 0;
    for (struct eco_row_range some = {0}; eco_cpu_next_row_range(run, op, &some);)
        rows += some.rows;
    return rows;
}

/* A CPU has the states before all steps in one array, so every part has all steps. */
void eco_cpu_gradients(void *context, const struct eco_gradients *gradients)
{
    const struct eco_cpu_run *run = context;
    const struct eco_op *op = gradients->op;
    struct eco_multiply part[ECO_MOST_GRADIENTS];
    if (run->args->dweights == NULL)
        return;
    struct eco_multiply all = {.op = op,
                               .rows = active_rows(run, op),
                               .a = eco_view_at(&gradients->dacc, op->t0),
                               .a_row = gradients->dacc.row,
                               .add = eco_cpu_gradient_begin(run, op)};
    eco_cpu_d_vectors(run, &gradients->dvector, &all);
    for (int i = 0; i < gradients->n; i++) {
        part[i] = all;
        part[i].part = gradients->part[i].weight_id;
        part[i].c = eco_view_at(&gradients->part[i].c, op->t0);
        part[i].c_row = gradients->part[i].c.row;
    }
    run->products->weights(run, part, gradients->n);
    if (gradients->u.first != NULL) {
        all.part = ECO_WEIGHT_PROJECT;
        all.a = eco_view_at(&gradients->dh, op->t0);
        all.a_row = gradients->dh.row;
        all.c = eco_view_at(&gradients->u, op->t0);
        all.c_row = gradients->u.row;
        run->products->weights(run, &all, 1);
    }
    eco_cpu_gradient_end(run, op);
}

/* ---- all verbs ------------------------------------------------------------------------------- */

static void wait(void *run)
{
    eco_cpu_wait(run);
}

const struct eco_verbs eco_cpu_verbs = {.move = eco_cpu_move,
                                        .cut = eco_cpu_cut,
                                        .product = eco_cpu_weight_product,
                                        .gradients = eco_cpu_gradients,
                                        .wait = wait};

void eco_cpu_expand(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_target target = {&eco_cpu_verbs, (void *)(uintptr_t)run, run->layout,
                                      run->args, 0};
    eco_expand(&target, bound);
}
