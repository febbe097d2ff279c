/*
 * Expands ops into verbs. Knows which rows and states move where, dropout and resets; no backend.
 */
#include "common/program/verbs.h"

#define ECO_DEVICE_FUNCTION static inline
#include "common/number.h"

/* ---- states in and out ----------------------------------------------------------------------- */

static int states(const struct eco_target *target)
{
    return target->layout->problem->cell->recipe.n_states;
}

static bool is_skipped(const struct eco_target *target, int s)
{
    return target->skipped >> s & 1;
}

/* Rows of a state, or of its gradient, of one step. */
static struct eco_move state_move(const struct eco_target *target, const struct eco_bound *bound,
                                  int s, struct eco_view to, struct eco_view from)
{
    return (struct eco_move){.op = bound->op,
                             .to = to,
                             .from = from,
                             .steps = 1,
                             .every = 1,
                             .width = eco_problem_width(target->layout->problem, s)};
}

static void emit(const struct eco_target *target, const struct eco_move *move)
{
    if (move->to.first != NULL && move->steps > 0)
        target->verbs->move(target->run, move);
}

/* A lean run begins from planes with the starts of the first step; else each step puts its starts
 * into the planes. */
static void begin(const struct eco_target *target, const struct eco_bound *bound)
{
    for (int s = 0; s < states(target); s++) {
        struct eco_move move = state_move(target, bound, s, bound->before[s], bound->initial[s]);
        move.to_t = move.t = bound->first;
        move.rows = bound->op->reversed ? ECO_ROWS_AT_LAST : ECO_ROWS_ALL;
        move.resets = target->args->resets != NULL && eco_layout_is_lean(target->layout);
        if (move.resets)
            move.start = bound->start[s];
        if (!is_skipped(target, s))
            emit(target, &move);
    }
}

/* Copies the states after steps [t0,t1) to the caller, from the copies of a lean run; else each
 * step does. */
static void show_states(const struct eco_target *target, const struct eco_bound *bound, int s,
                        const struct eco_view *from, int32_t t0, int32_t t1)
{
    struct eco_move move = state_move(target, bound, s, bound->all_states[s], *from);
    move.to_t = move.t = t0;
    move.steps = t1 - t0;
    move.rows = ECO_ROWS_CLEARED;
    if (target->layout->problem->states && eco_layout_is_lean(target->layout))
        emit(target, &move);
}

static void end(const struct eco_target *target, const struct eco_bound *bound)
{
    const int shown = eco_layout_copies_direct(target->layout) ? states(target) : 1;
    for (int s = 0; s < shown; s++)
        show_states(target, bound, s, s == 0 ? &bound->y : &bound->checkpoint[s], 0,
                    target->args->T);
    for (int s = 0; s < states(target); s++) {
        struct eco_move move = state_move(target, bound, s, bound->final[s], bound->next[s]);
        move.to_t = move.t = bound->last;
        move.rows = bound->op->reversed ? ECO_ROWS_ALL : ECO_ROWS_AT_LAST;
        if (!is_skipped(target, s))
            emit(target, &move);
    }
}

static void d_begin(const struct eco_target *target, const struct eco_bound *bound)
{
    const struct eco_view none = {0};
    for (int s = 0; target->args->resets != NULL && s < states(target); s++) {
        const struct eco_move clear = state_move(target, bound, s, bound->dstart[s], none);
        if (bound->dreset_state[s].first != NULL)
            emit(target, &clear);
    }
    for (int s = 0; s < states(target); s++) {
        const struct eco_move move =
            state_move(target, bound, s, bound->carry[s], bound->initial[s]);
        if (!is_skipped(target, s))
            emit(target, &move);
    }
}

/* The gradient of reset states: adds what the first step left, and copies the sums to the caller.
 */
static void end_start(const struct eco_target *target, const struct eco_bound *bound, int s)
{
    const bool resets = target->args->resets != NULL, wanted = bound->dreset_state[s].first != NULL;
    const struct eco_view none = {0};
    const struct eco_move move =
        state_move(target, bound, s, bound->dreset_state[s], resets ? bound->dstart[s] : none);
    const struct eco_cut cut = {bound->op, wanted ? bound->dstart[s] : none, bound->carry[s],
                                bound->first, move.width};
    if (resets && (wanted || bound->final[s].first != NULL))
        target->verbs->cut(target->run, &cut);
    emit(target, &move);
}

static void d_end(const struct eco_target *target, const struct eco_bound *bound)
{
    for (int s = 0; target->layout->problem->resets && s < states(target); s++)
        end_start(target, bound, s);
    for (int s = 0; s < states(target); s++) {
        const struct eco_move move = state_move(target, bound, s, bound->final[s], bound->carry[s]);
        emit(target, &move);
    }
}

/* ---- states into the reserve ----------------------------------------------------------------- */

/* Saved values and u of the op's steps into the reserve, or back from it. */
static void narrow(const struct eco_target *target, const struct eco_bound *bound, bool back)
{
    const struct eco_problem *problem = target->layout->problem;
    const struct eco_op *op = bound->op;
    struct eco_move move = {.op = op,
                            .to = back ? bound->save : bound->kept_save,
                            .to_t = op->t0,
                            .from = back ? bound->kept_save : bound->save,
                            .t = op->t0,
                            .steps = op->t1 - op->t0,
                            .every = 1,
                            .width = problem->cell->lowered.n_saves * problem->H,
                            .rows = ECO_ROWS_LIVE};
    if (move.width > 0)
        emit(target, &move);
    move.to = back ? bound->u : bound->kept_u;
    move.from = back ? bound->kept_u : bound->u;
    move.width = problem->H;
    if (problem->projected)
        emit(target, &move);
}

/* A replay that computes nothing; the backend has loaded the states. */
static void replay(const struct eco_target *target, const struct eco_bound *bound)
{
    if (eco_layout_narrows(target->layout))
        narrow(target, bound, true);
}

static void keep(const struct eco_target *target, const struct eco_bound *bound)
{
    const struct eco_layout *layout = target->layout;
    const struct eco_op *op = bound->op;
    int32_t first = op->t0, n = 0;
    if (eco_layout_narrows(layout))
        narrow(target, bound, false);
    if (!eco_layout_replays(layout) ||
        (eco_layout_is_lean(layout) && eco_layout_copies_direct(layout)))
        return;
    for (int s = 1; s < states(target); s++)
        show_states(target, bound, s, &bound->next[s], op->t0, op->t1);
    for (int32_t t = op->t1 - 1; t >= op->t0; t--)
        if (eco_layout_is_checkpoint(layout, op->d, t)) {
            first = t;
            n++;
        }
    for (int s = 1; s < states(target); s++) {
        struct eco_move move = state_move(target, bound, s, bound->checkpoint[s], bound->next[s]);
        move.to_t = (int32_t)eco_layout_checkpoint_index(layout, op->d, first);
        move.t = first;
        move.steps = n;
        move.every = layout->problem->saving.every;
        move.rows = ECO_ROWS_LIVE;
        emit(target, &move);
    }
}

static void wait(const struct eco_target *target)
{
    if (target->verbs->wait != NULL)
        target->verbs->wait(target->run);
}

/* ---- rows of a layer's input, and their gradients -------------------------------------------- */

/* A move of the op's steps, with dropout if the layer has it. */
static struct eco_move move_of_steps(const struct eco_target *target, const struct eco_op *op)
{
    const struct eco_problem *problem = target->layout->problem;
    const double p = (double)problem->dropout;
    return (struct eco_move){.op = op,
                             .to_t = op->t0,
                             .t = op->t0,
                             .steps = op->t1 - op->t0,
                             .every = 1,
                             .width = op->layer == 0 ? eco_args_input(problem, target->args)
                                                     : eco_problem_input(problem, op->layer),
                             .rows = op->layer == 0 ? ECO_ROWS_CLEARED : ECO_ROWS_LIVE,
                             .drop = op->layer > 0 && p > 0 && target->args->reserve != NULL,
                             .threshold = eco_random_threshold(p),
                             .scale = 1 / (1 - p)};
}

static void gather(const struct eco_target *target, const struct eco_bound *bound)
{
    const struct eco_args *args = target->args;
    struct eco_move move = move_of_steps(target, bound->op);
    if (args->backward && args->dweights == NULL && !eco_layout_replays(target->layout))
        return;
    move.to = bound->gather;
    move.from = bound->x;
    move.pads = true;
    emit(target, &move);
}

static void d_scatter(const struct eco_target *target, const struct eco_bound *bound)
{
    struct eco_move move = move_of_steps(target, bound->op), other = move;
    move.to = bound->dx;
    move.from = bound->dgather;
    move.add = bound->op->add;
    if (bound->dsum.first != NULL && bound->dx.first != NULL) {
        other.to = move.add ? bound->dgather : bound->dsum;
        other.from = move.add ? bound->dsum : bound->dgather;
        other.rows = ECO_ROWS_LIVE;
        other.add = move.add;
        emit(target, &other);
        if (!move.add)
            return;
        wait(target); /* the threads divide the rows of these moves differently */
        move.add = false;
    }
    emit(target, &move);
}

/* ---- products over many steps ---------------------------------------------------------------- */

/* Elements of a row before an accumulator's gradient, or before an operand. */
static size_t column(const struct eco_target *target, int number)
{
    const struct eco_layout *layout = target->layout;
    return number < 0
               ? 0
               : (size_t)number * eco_request_row(&layout->request, (size_t)layout->problem->H);
}

/* Copies x itself, and parts of x, into the accumulators that begin with them; back: their
 * gradients into dx. x itself may also be under W, and so has its sum there, but no product writes
 * the columns of a part. */
static void copy_parts(const struct eco_target *target, const struct eco_move *all, bool back)
{
    const struct eco_problem *problem = target->layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t block = eco_layout_acc_blocks(target->layout).column;
    if (lowered->copies != 0)
        wait(target); /* for products that write the same rows */
    for (int a = 0; a < lowered->n_accs; a++) {
        const int copy = lowered->acc[a].copy;
        if (copy < 0)
            continue;
        struct eco_move move = *all;
        struct eco_view *const part = back ? &move.to : &move.from, *const acc = back ? &move.from
                                                                                      : &move.to;
        const bool own = back && copy > 0 && target->args->inputs != NULL,
                   single = eco_problem_is_single(problem, copy);
        *part = eco_bind_x(target->layout, target->args, part, copy, back);
        *acc = eco_view_column(acc, back ? column(target, a) : (size_t)a * block);
        move.spreads = single && !back;
        move.sums = single && back;
        if (back)
            move.add = (own ? all->op->add : all->add) || copy == 0;
        if (own)
            move.rows = ECO_ROWS_CLEARED;
        emit(target, &move);
    }
}

void eco_expand_input(const struct eco_target *target, const struct eco_op *op,
                      const struct eco_view *acc, const struct eco_view *x, int32_t t0, int32_t t1)
{
    const struct eco_weight_product product = {.op = op,
                                               .weight_id = ECO_WEIGHT_INPUT,
                                               .t0 = t0,
                                               .t1 = t1,
                                               .a = *x,
                                               .c = *acc,
                                               .bias = true};
    target->verbs->product(target->run, &product);
    copy_parts(target,
               &(struct eco_move){.op = op,
                                  .to = *acc,
                                  .to_t = t0,
                                  .from = *x,
                                  .t = t0,
                                  .steps = t1 - t0,
                                  .every = 1,
                                  .width = target->layout->problem->H,
                                  .rows = ECO_ROWS_LIVE,
                                  .to_accs = true},
               false);
}

static void input(const struct eco_target *target, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    if (!target->layout->fuse_input) /* else each step multiplies its input */
        eco_expand_input(target, op, &bound->acc, &bound->input, op->t0, op->t1);
}

static void d_input(const struct eco_target *target, const struct eco_bound *bound)
{
    const struct eco_layout *layout = target->layout;
    const struct eco_op *op = bound->op;
    struct eco_move move = move_of_steps(target, op);
    const struct eco_weight_product product = {.op = op,
                                               .weight_id = ECO_WEIGHT_INPUT,
                                               .t0 = op->t0,
                                               .t1 = op->t1,
                                               .a = bound->acc,
                                               .c = bound->dx,
                                               .back = true,
                                               .add = op->add && !op->gathered};
    move.to = bound->dx;
    move.width = eco_problem_rest(layout->problem, op->layer);
    move.rows = ECO_ROWS_LIVE;
    move.drop = false;
    if (bound->dx.first == NULL && target->args->dinputs == NULL)
        return;
    if (bound->dx.first != NULL && eco_layout_matrix(layout, op->layer, ECO_WEIGHT_INPUT)->n > 0)
        target->verbs->product(target->run, &product);
    else if (!product.add && move.width > 0) /* a cell without W: no product writes dx */
        emit(target, &move);
    move.add = product.add;
    move.width = layout->problem->H;
    move.from = bound->acc;
    copy_parts(target, &move, true);
}

static void add_part(struct eco_gradients *gradients, int weight_id, int32_t t0, int32_t t1,
                     struct eco_view c)
{
    if (t0 < t1)
        gradients->part[gradients->n++] = (struct eco_gradient_term){weight_id, t0, t1, c};
}

/* The rows of an operand. The state before the direction's first step may be in another array. */
static void add_operand(const struct eco_target *target, const struct eco_bound *bound, int o,
                        struct eco_gradients *gradients)
{
    const struct eco_operand *operand = &target->layout->problem->cell->lowered.operand[o];
    const struct eco_op *op = bound->op;
    const int s = operand->state, weight_id = ECO_WEIGHT_RECURRENT + o;
    const int32_t first = op->reversed ? op->t1 - 1 : op->t0;
    const bool begins = s >= 0 && bound->begins[s] && first == bound->first;
    add_part(gradients, weight_id, op->t0 + (int32_t)(begins && !op->reversed),
             op->t1 - (int32_t)(begins && op->reversed),
             s < 0 ? eco_view_column(&bound->operand, column(target, operand->slot))
                   : bound->before[s]);
    if (begins)
        add_part(gradients, weight_id, first, first + 1, bound->before_first[s]);
}

static void d_weights(const struct eco_target *target, const struct eco_bound *bound)
{
    const struct eco_problem *problem = target->layout->problem;
    const struct eco_op *op = bound->op;
    struct eco_gradients gradients = {.op = op, .dacc = bound->acc, .dvector = bound->dvector};
    add_part(&gradients, ECO_WEIGHT_INPUT, op->t0, op->t1, bound->input);
    for (int o = 0; o < problem->cell->lowered.n_operands; o++)
        add_operand(target, bound, o, &gradients);
    if (problem->projected) {
        gradients.dh = bound->h;
        gradients.u = bound->u;
    }
    target->verbs->gradients(target->run, &gradients);
}

void eco_expand(const struct eco_target *target, const struct eco_bound *bound)
{
    static void (*const by_kind[ECO_OP_KINDS])(const struct eco_target *,
                                               const struct eco_bound *) = {
        [ECO_BEGIN] = begin,         [ECO_GATHER] = gather,
        [ECO_INPUT] = input,         [ECO_D_INPUT] = d_input,
        [ECO_D_WEIGHTS] = d_weights, [ECO_KEEP] = keep,
        [ECO_REPLAY] = replay,       [ECO_END] = end,
        [ECO_D_BEGIN] = d_begin,     [ECO_D_SCATTER] = d_scatter,
        [ECO_D_END] = d_end};
    by_kind[bound->op->kind](target, bound);
}
