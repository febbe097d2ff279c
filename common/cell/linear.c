/*
 * Is a cell linear in its states, unit by unit?  Then the next values of the states that a step
 * reads are a small matrix times these states plus terms, all of x alone, and the gradient has the
 * same form, so that steps can be scanned in parallel.  Mostly the matrix is diagonal.  States that
 * no step reads are outputs and may have any form.
 */
#include "common/cell/lowering.h"

#include <string.h>

/* A value as the sum of factors times variables, plus a term: nodes, -1 is zero. */
struct form {
    int16_t factor[ECO_MAX_STATES], term;
};

struct linear {
    struct eco_lowering *lowering;
    struct eco_recipe *graph;
    int16_t op;                  /* the variables: leaves with this opcode, of linear states */
    bool depends[ECO_MAX_NODES]; /* depends on a variable */
    struct form form[ECO_MAX_NODES];
    bool full;
};

static int add(struct linear *linear, int op, int a, int b, int c)
{
    const int node = linear->full ? -1
                                  : eco_recipe_add(linear->graph,
                                                   (struct eco_node){(int16_t)op, (int16_t)a,
                                                                     (int16_t)b, (int16_t)c, 0, 0});
    linear->full = node < 0;
    return node;
}

static int number(struct linear *linear, double value)
{
    const int node =
        linear->full
            ? -1
            : eco_recipe_add(linear->graph, (struct eco_node){ECO_OP_CONST, -1, -1, -1, 0, value});
    linear->full = node < 0;
    return node;
}

/* ---- arithmetic on nodes; -1 is zero --------------------------------------------------------- */

static int sum(struct linear *linear, int op, int a, int b)
{
    if (b < 0)
        return a;
    if (a >= 0)
        return add(linear, op, a, b, -1);
    return op == ECO_OP_SUB ? add(linear, ECO_OP_NEG, b, -1, -1) : b;
}

static int scaled(struct linear *linear, int op, int a, int b)
{
    return a < 0 ? -1 : add(linear, op, a, b, -1);
}

static int chosen(struct linear *linear, int condition, int b, int c)
{
    if (b < 0 && c < 0)
        return -1;
    b = b < 0 ? number(linear, 0) : b;
    c = c < 0 ? number(linear, 0) : c;
    return add(linear, ECO_OP_SELECT, condition, b, c);
}

/* ---- a node ---------------------------------------------------------------------------------- */

static bool is_variable(const struct linear *linear, const struct eco_node *node)
{
    return node->op == linear->op && (linear->lowering->lowered->linear.states >> node->index & 1);
}

/* The form of a value without variables, or with -1 of zero. */
static struct form constant(int term)
{
    struct form form = {.term = (int16_t)term};
    memset(form.factor, -1, sizeof form.factor);
    return form;
}

static void take_sum(struct linear *linear, int at, struct form *form)
{
    int16_t addend[ECO_MAX_SOURCE + 1];
    const int n = eco_lower_addends(linear->lowering, at, addend);
    const int acc = eco_recipe_add(
        linear->graph, (struct eco_node){ECO_OP_ACC, -1, -1, -1, linear->lowering->acc[at], 0});
    linear->full = linear->full || acc < 0;
    *form = constant(acc);
    for (int i = 0; i < n; i++) {
        const struct form more = linear->form[addend[i]];
        for (int v = 0; v < ECO_MAX_STATES; v++)
            form->factor[v] = (int16_t)sum(linear, ECO_OP_ADD, form->factor[v], more.factor[v]);
        form->term = (int16_t)sum(linear, ECO_OP_ADD, form->term, more.term);
    }
}

/* One factor, or the term, of a node from those of its arguments. */
static int part_of(struct linear *linear, const struct eco_node *node, int a, int b, int c)
{
    switch (node->op) {
    case ECO_OP_ADD:
    case ECO_OP_SUB:
        return sum(linear, node->op, a, b);
    case ECO_OP_NEG:
        return sum(linear, ECO_OP_SUB, -1, a);
    case ECO_OP_MUL:
    case ECO_OP_DIV:
        return linear->depends[node->a] ? scaled(linear, node->op, a, node->b)
                                        : scaled(linear, node->op, b, node->a);
    case ECO_OP_SELECT:
        return chosen(linear, node->a, b, c);
    default: /* ECO_OP_STOP */
        return a;
    }
}

/* Is a node that depends on variables linear in them? */
static bool is_linear(const struct linear *linear, const struct eco_node *node)
{
    const bool left = linear->depends[node->a], right = node->b >= 0 && linear->depends[node->b];
    switch (node->op) {
    case ECO_OP_ADD:
    case ECO_OP_SUB:
    case ECO_OP_NEG:
    case ECO_OP_STOP:
        return true;
    case ECO_OP_MUL:
        return !(left && right);
    case ECO_OP_DIV:
        return !right;
    case ECO_OP_SELECT:
        return !left;
    default:
        return false;
    }
}

static bool form_of(struct linear *linear, int at, struct form *form)
{
    const struct eco_node node = linear->graph->node[at];
    const struct form *of = linear->form, zero = constant(-1);
    *form = constant(at);
    if (is_variable(linear, &node)) {
        *form = zero;
        form->factor[node.index] = (int16_t)number(linear, 1);
        return true;
    }
    if (!linear->depends[at])
        return true;
    if (linear->op == ECO_OP_STATE && linear->lowering->acc[at] >= 0) {
        take_sum(linear, at, form);
        return true;
    }
    if (!is_linear(linear, &node))
        return false;
    const struct form *a = &of[node.a], *b = node.b < 0 ? &zero : &of[node.b],
                      *c = node.c < 0 ? &zero : &of[node.c];
    for (int v = 0; v < ECO_MAX_STATES; v++)
        form->factor[v] = (int16_t)part_of(linear, &node, a->factor[v], b->factor[v], c->factor[v]);
    form->term = (int16_t)part_of(linear, &node, a->term, b->term, c->term);
    return true;
}

static void find_depends(struct linear *linear, int n)
{
    for (int i = 0; i < n; i++) {
        const struct eco_node *node = &linear->graph->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        linear->depends[i] = is_variable(linear, node);
        for (int k = 0; k < 3; k++)
            linear->depends[i] |= argument[k] >= 0 && linear->depends[argument[k]];
    }
}

/* Finds the form of a result; nodes from the n-th on belong to forms.  False: it has none. */
static bool find_form(struct linear *linear, int n, int result, struct form *form)
{
    bool need[ECO_MAX_NODES] = {false};
    *form = constant(-1);
    find_depends(linear, n);
    need[result < 0 ? 0 : result] = result >= 0;
    for (int i = n - 1; i >= 0; i--) {
        const struct eco_node *node = &linear->graph->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        for (int k = 0; k < 3; k++)
            if (need[i] && argument[k] >= 0)
                need[argument[k]] = true;
    }
    for (int i = 0; i < n; i++)
        if (need[i] && linear->lowering->part_of[i] != -1 && linear->lowering->acc[i] < 0 &&
            linear->op == ECO_OP_STATE)
            linear->form[i] = constant(-1); /* of an accumulator, which represents it */
        else if (need[i] && !form_of(linear, i, &linear->form[i]))
            return false;
    if (result >= 0)
        *form = linear->form[result];
    return !linear->full;
}

/* ---- both passes ----------------------------------------------------------------------------- */

static unsigned states_read(const struct eco_recipe *recipe)
{
    unsigned depends[ECO_MAX_SOURCE], read = 0;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        depends[i] = node->op == ECO_OP_STATE ? 1u << node->index : 0;
        depends[i] |= node->a < 0 ? 0 : depends[node->a];
        depends[i] |= node->b < 0 ? 0 : depends[node->b];
        depends[i] |= node->c < 0 ? 0 : depends[node->c];
    }
    for (int s = 0; s < recipe->n_states; s++)
        read |= depends[recipe->next[s]];
    return read;
}

/* Finds the groups of states that the factors couple, and numbers the factors. */
static void find_groups(struct eco_linear *linear, const struct form form[ECO_MAX_STATES],
                        int n_states)
{
    for (int s = 0; s < n_states; s++) {
        linear->group[s] = (uint8_t)(1u << s);
        for (int v = 0; v < n_states; v++)
            if ((linear->states >> s & 1) && form[s].factor[v] >= 0)
                linear->group[s] |= (uint8_t)(1u << v);
    }
    for (int again = 0; again < n_states; again++)
        for (int s = 0; s < n_states; s++)
            for (int v = 0; v < n_states; v++)
                if (linear->group[s] & linear->group[v])
                    linear->group[s] = linear->group[v] = linear->group[s] | linear->group[v];
    linear->n_factors = n_states;
    for (int s = 0; s < n_states; s++)
        for (int v = 0; v < n_states; v++)
            linear->factor[s][v] = (int8_t)(s == v                      ? s
                                            : linear->group[s] >> v & 1 ? linear->n_factors++
                                                                        : -1);
}

/* Demands the factors and the term of a state. */
static bool demand_form(const struct eco_linear *linear, const struct form *form, int s,
                        struct eco_demand *demand)
{
    for (int v = 0; v < ECO_MAX_STATES; v++)
        if (v != s && (linear->group[s] >> v & 1))
            demand->store[demand->n++] = (struct eco_node){ECO_OP_STORE_COUPLED,
                                                           form->factor[v],
                                                           -1,
                                                           -1,
                                                           (int16_t)(s * ECO_MAX_STATES + v),
                                                           0};
        else if (v != s && form->factor[v] >= 0)
            return false;
    demand->store[demand->n++] =
        (struct eco_node){ECO_OP_STORE_LINEAR, form->factor[s], form->term, -1, (int16_t)s, 0};
    return true;
}

/* One pass: the program that computes factors and term of each state. */
static bool lower_pass(struct linear *linear, bool backward, int n_nodes)
{
    struct eco_lowering *lowering = linear->lowering;
    struct eco_lowered *lowered = lowering->lowered;
    const int n_states = lowering->recipe->n_states;
    struct form form[ECO_MAX_STATES];
    struct eco_demand demand = {.n = 0};
    linear->op = backward ? ECO_OP_DNEXT : ECO_OP_STATE;
    for (int s = 0; s < n_states; s++)
        if ((lowered->linear.states >> s & 1) &&
            !find_form(linear, n_nodes,
                       backward ? lowering->adjoint->state[s] : lowering->recipe->next[s],
                       &form[s]))
            return false;
    if (!backward)
        find_groups(&lowered->linear, form, n_states);
    for (int s = 0; s < n_states; s++)
        if ((lowered->linear.states >> s & 1) &&
            !demand_form(&lowered->linear, &form[s], s, &demand))
            return false;
    struct eco_adjoint all = *lowering->adjoint;
    const struct eco_adjoint *before = lowering->adjoint;
    all.n_nodes = linear->graph->n_nodes;
    lowering->adjoint = &all;
    const bool right =
        eco_lower_program(lowering, backward, &demand, &lowered->linear.program[backward]);
    lowering->adjoint = before;
    return right;
}

void eco_lower_linear(struct eco_lowering *lowering, struct eco_recipe *graph)
{
    struct eco_lowered *lowered = lowering->lowered;
    struct eco_cell_error error, *const outer = lowering->error;
    struct linear linear = {.lowering = lowering, .graph = graph};
    const int n_nodes = graph->n_nodes, n_all = lowering->adjoint->n_nodes;
    lowered->linear.states = states_read(graph);
    if (lowered->n_operands > 0 || lowered->has_means || lowered->n_forward > 1 ||
        lowered->n_backward > 1 || lowered->linear.states == 0)
        return;
    graph->n_nodes = n_all;
    lowering->error = &error;
    lowered->linear.scans = lower_pass(&linear, false, n_all) && lower_pass(&linear, true, n_all);
    lowering->error = outer;
    graph->n_nodes = n_nodes;
}
