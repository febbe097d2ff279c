/*
 * What is known of a cell's states.  Does it keep its output state and all operands of R in
 * [-1, 1], or, if the output state starts outside, within the next power of two, whatever the other
 * states start from?  Interval arithmetic gives the answer; a true one holds up to rounding, a
 * false one may be too cautious.  Can a replay compute many steps at once?  Which products does a
 * step have?  Which values of a text are copies of others?
 */
#include "common/cell/cell.h"

#include <math.h>

struct interval {
    double low, high;
};

static const struct interval unbounded = {-INFINITY, INFINITY}, unit = {-1, 1}, share = {0, 1};

static double least(const double *value, int n)
{
    double low = value[0];
    for (int i = 1; i < n; i++)
        low = value[i] < low ? value[i] : low;
    return low;
}

static double most(const double *value, int n)
{
    double high = value[0];
    for (int i = 1; i < n; i++)
        high = value[i] > high ? value[i] : high;
    return high;
}

static struct interval hull(struct interval a, struct interval b)
{
    const double ends[] = {a.low, a.high, b.low, b.high};
    return (struct interval){least(ends, 4), most(ends, 4)};
}

/* 0 times an infinite bound is 0, because the bound itself is never attained. */
static double times(double a, double b)
{
    return a == 0 || b == 0 ? 0 : a * b;
}

static struct interval product(struct interval a, struct interval b)
{
    const double ends[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low),
                           times(a.high, b.high)};
    return (struct interval){least(ends, 4), most(ends, 4)};
}

static struct interval quotient(struct interval a, struct interval b)
{
    if (b.low <= 0 && b.high >= 0)
        return unbounded;
    return product(a, (struct interval){1 / b.high, 1 / b.low});
}

/* ---- s * a + (1 - s) * b --------------------------------------------------------------------- */

static bool is_rest(const struct eco_recipe *recipe, int at, int of)
{
    const struct eco_node *node = &recipe->node[at];
    return node->op == ECO_OP_SUB && node->b == of && recipe->node[node->a].op == ECO_OP_CONST &&
           recipe->node[node->a].value == 1;
}

/* Is a sum of two products a mixture: a share of one value plus the rest of another? */
static bool is_mixture(const struct eco_recipe *recipe, const struct eco_node *sum,
                       const struct interval *of, struct interval *mixture)
{
    const struct eco_node *const x = &recipe->node[sum->a], *const y = &recipe->node[sum->b];
    if (x->op != ECO_OP_MUL || y->op != ECO_OP_MUL)
        return false;
    for (int k = 0; k < 4; k++) {
        const int s = k & 1 ? x->b : x->a, a = k & 1 ? x->a : x->b;
        const int rest = k & 2 ? y->b : y->a, b = k & 2 ? y->a : y->b;
        const bool one = is_rest(recipe, rest, s), other = is_rest(recipe, s, rest);
        const struct interval part = of[one ? s : rest];
        if ((one || other) && part.low >= 0 && part.high <= 1) {
            *mixture = hull(of[a], of[b]);
            return true;
        }
    }
    return false;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static struct interval sum_of(const struct eco_recipe *recipe, const struct eco_node *node,
                              const struct interval *of)
{
    struct interval mixture;
    if (is_mixture(recipe, node, of, &mixture))
        return mixture;
    return (struct interval){of[node->a].low + of[node->b].low,
                             of[node->a].high + of[node->b].high};
}

static struct interval interval_of(const struct eco_recipe *recipe, const struct eco_node *node,
                                   const struct interval *of, const struct interval *state)
{
    const struct interval a = node->a < 0 ? unbounded : of[node->a];
    const struct interval b = node->b < 0 ? unbounded : of[node->b];
    switch (node->op) {
    case ECO_OP_CONST:
        return (struct interval){node->value, node->value};
    case ECO_OP_STATE:
        return state[node->index];
    case ECO_OP_BERNOULLI:
    case ECO_OP_SIGMOID:
        return share;
    case ECO_OP_TANH:
        return unit;
    case ECO_OP_MEAN:
        return a;
    case ECO_OP_ADD:
        return sum_of(recipe, node, of);
    case ECO_OP_SUB:
        return (struct interval){a.low - b.high, a.high - b.low};
    case ECO_OP_NEG:
        return (struct interval){-a.high, -a.low};
    case ECO_OP_MUL:
        return product(a, b);
    case ECO_OP_DIV:
        return quotient(a, b);
    case ECO_OP_MIN:
        return (struct interval){fmin(a.low, b.low), fmin(a.high, b.high)};
    case ECO_OP_MAX:
        return (struct interval){fmax(a.low, b.low), fmax(a.high, b.high)};
    case ECO_OP_SELECT:
        return hull(b, of[node->c]);
    case ECO_OP_RELU:
        return (struct interval){fmax(a.low, 0), fmax(a.high, 0)};
    case ECO_OP_EXP:
        return (struct interval){exp(a.low), exp(a.high)};
    case ECO_OP_ABS:
    case ECO_OP_SQRT: /* at most 1 for an argument of at most 1 */
        return (struct interval){0, fmax(fmax(-a.low, a.high), 1)};
    default: /* products, vectors, log() */
        return unbounded;
    }
}

/* Intervals of all values and of the next states, given those of the previous states. */
static void advance(const struct eco_recipe *recipe, const struct interval *state,
                    struct interval *of, struct interval *next)
{
    for (int i = 0; i < recipe->n_nodes; i++) {
        const int same = eco_recipe_copies(recipe, i);
        of[i] = same >= 0 ? of[same] : interval_of(recipe, &recipe->node[i], of, state);
        if (!(of[i].low <= of[i].high)) /* it may be a NaN */
            of[i] = unbounded;
    }
    for (int s = 0; s < recipe->n_states; s++)
        next[s] = of[recipe->next[s]];
}

static bool is_within(struct interval of, double bound)
{
    return of.low >= -bound && of.high <= bound;
}

static bool stays_within(const struct ecornn_cell *cell, double bound)
{
    const struct eco_recipe *recipe = &cell->recipe;
    struct interval of[ECO_MAX_SOURCE], next[ECO_MAX_STATES];
    const struct interval state[ECO_MAX_STATES] = {
        {-bound, bound}, unbounded, unbounded, unbounded};
    advance(recipe, state, of, next);
    for (int o = 0; o < cell->lowered.n_operands; o++)
        if (!is_within(of[cell->lowered.operand[o].node], bound))
            return false;
    return is_within(next[0], bound);
}

/* Scales of operands are powers of two, so these starts stand for all up to the last. */
bool eco_cell_is_bounded(const struct ecornn_cell *cell)
{
    static const double last = 1 << 20;
    bool bounded = true;
    for (double bound = 1; bounded && bound <= last; bound *= 2)
        bounded = stays_within(cell, bound);
    return bounded;
}

/* ---- states known to a replay ---------------------------------------------------------------- */

static bool reads_others(const struct eco_program *program)
{
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_STATE && program->code[i].index > 0)
            return true;
    return false;
}

bool eco_cell_replays_at_once(const struct ecornn_cell *cell, bool known)
{
    const struct eco_lowered *lowered = &cell->lowered;
    if (lowered->n_means[0] > 0)
        return false;
    for (int o = 0; o < lowered->n_operands; o++)
        if (lowered->operand[o].state > 0 && !known)
            return false;
    for (int k = 0; k + 1 < lowered->n_forward; k++)
        if (reads_others(&lowered->forward[k]) && !known)
            return false;
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

int eco_cell_next_product(const struct eco_lowered *lowered, bool backward, int stage)
{
    int next = backward ? lowered->n_backward : lowered->n_forward;
    for (int o = 0; o < lowered->n_operands; o++) {
        const struct eco_operand *operand = &lowered->operand[o];
        const int at = backward ? operand->backward : operand->forward;
        if (at > stage && at < next)
            next = at;
    }
    return next;
}

/* Two products, the second with a value of the first stage; backward the reverse? */
static bool is_chain(const struct eco_lowered *lowered)
{
    const struct eco_operand *second = &lowered->operand[1];
    for (int a = 0; a < lowered->n_accs; a++)
        if (lowered->acc[a].recurrent[0] >= 0 && lowered->acc[a].recurrent[1] >= 0)
            return false;
    return second->state < 0 && second->forward == 1 && second->backward == 1;
}

int eco_cell_products(const struct ecornn_cell *cell)
{
    const struct eco_lowered *lowered = &cell->lowered;
    const int n = lowered->n_operands;
    if (n < 1 || n > 2 || lowered->operand[0].state != 0)
        return 0;
    if (lowered->has_means)
        return n == 1 ? 1 : 0;
    if (lowered->n_forward != n || lowered->n_backward != n)
        return 0;
    return n == 1 || is_chain(lowered) ? n : 0;
}

/* ---- values that are known ------------------------------------------------------------------- */

static bool is_difference(const struct eco_recipe *recipe, int at)
{
    const struct eco_node *node = &recipe->node[at];
    return node->op == ECO_OP_SUB && recipe->node[node->b].op == ECO_OP_STOP &&
           recipe->node[node->b].a == node->a;
}

/* b - stop(b), or that times or divided by a value: 0, whatever the value is. */
static bool is_nothing(const struct eco_recipe *recipe, int at)
{
    const struct eco_node *node = &recipe->node[at];
    const bool product = node->op == ECO_OP_MUL;
    return is_difference(recipe, at) || (product && is_difference(recipe, node->b)) ||
           ((product || node->op == ECO_OP_DIV) && is_difference(recipe, node->a));
}

int eco_recipe_copies(const struct eco_recipe *recipe, int at)
{
    const struct eco_node *node = &recipe->node[at];
    if (node->op == ECO_OP_STOP)
        return node->a;
    if ((node->op == ECO_OP_ADD || node->op == ECO_OP_SUB) && is_nothing(recipe, node->b))
        return node->a;
    return node->op == ECO_OP_ADD && is_nothing(recipe, node->a) ? node->b : -1;
}
