/*
 * Is a cell linear in its states, element by element?  Then each state that a step reads is s' =
 * factor * s + term with factor and term of x alone, and the gradient has the same form, so that
 * steps can be scanned in parallel.  States that no step reads are outputs and may have any form.
 */
#include "common/cell/lowering.h"

/* A value as factor * variable + term, as nodes; -1: zero. */
struct form {
    int16_t factor, term;
};

struct linear {
    struct eco_lowering *lowering;
    struct eco_recipe *graph;
    int16_t op, index;           /* the variable: leaves with this opcode and index */
    bool depends[ECO_MAX_NODES]; /* depends on the variable */
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

static void take_sum(struct linear *linear, int at, struct form *form)
{
    int16_t addend[ECO_MAX_SOURCE + 1];
    const int n = eco_lower_addends(linear->lowering, at, addend);
    const int acc = eco_recipe_add(
        linear->graph, (struct eco_node){ECO_OP_ACC, -1, -1, -1, linear->lowering->acc[at], 0});
    linear->full = linear->full || acc < 0;
    *form = (struct form){-1, (int16_t)acc};
    for (int i = 0; i < n; i++) {
        const struct form more = linear->form[addend[i]];
        form->factor = (int16_t)sum(linear, ECO_OP_ADD, form->factor, more.factor);
        form->term = (int16_t)sum(linear, ECO_OP_ADD, form->term, more.term);
    }
}

static bool form_of(struct linear *linear, int at, struct form *form)
{
    const struct eco_node node = linear->graph->node[at];
    const struct form *of = linear->form;
    *form = (struct form){-1, (int16_t)at};
    if (node.op == linear->op && node.index == linear->index) {
        *form = (struct form){(int16_t)number(linear, 1), -1};
        return true;
    }
    if (!linear->depends[at])
        return true;
    if (linear->op == ECO_OP_STATE && linear->lowering->acc[at] >= 0) {
        take_sum(linear, at, form);
        return true;
    }
    const bool left = linear->depends[node.a], right = node.b >= 0 && linear->depends[node.b];
    const int a = left ? node.a : node.b, b = left ? node.b : node.a;
    switch (node.op) {
    case ECO_OP_ADD:
    case ECO_OP_SUB:
        form->factor = (int16_t)sum(linear, node.op, of[node.a].factor, of[node.b].factor);
        form->term = (int16_t)sum(linear, node.op, of[node.a].term, of[node.b].term);
        return true;
    case ECO_OP_STOP:
        *form = of[node.a];
        return true;
    case ECO_OP_NEG:
        form->factor = (int16_t)sum(linear, ECO_OP_SUB, -1, of[node.a].factor);
        form->term = (int16_t)sum(linear, ECO_OP_SUB, -1, of[node.a].term);
        return true;
    case ECO_OP_MUL:
    case ECO_OP_DIV:
        form->factor = (int16_t)scaled(linear, node.op, of[a].factor, b);
        form->term = (int16_t)scaled(linear, node.op, of[a].term, b);
        return !(left && right) && (node.op == ECO_OP_MUL || left);
    case ECO_OP_SELECT:
        form->factor = (int16_t)chosen(linear, node.a, of[node.b].factor, of[node.c].factor);
        form->term = (int16_t)chosen(linear, node.a, of[node.b].term, of[node.c].term);
        return !left;
    default:
        return false;
    }
}

static void find_depends(struct linear *linear, int n)
{
    for (int i = 0; i < n; i++) {
        const struct eco_node *node = &linear->graph->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        linear->depends[i] = node->op == linear->op && node->index == linear->index;
        for (int k = 0; k < 3; k++)
            linear->depends[i] |= argument[k] >= 0 && linear->depends[argument[k]];
    }
}

/* Finds the form of a result; nodes from the n-th on belong to forms.  False: it has none. */
static bool find_form(struct linear *linear, int n, int result, struct form *form)
{
    bool need[ECO_MAX_NODES] = {false};
    *form = (struct form){-1, -1};
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
            linear->form[i] = (struct form){-1, -1}; /* of an accumulator, which represents it */
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

/* Does the value depend on states other than this one? */
static bool mixes(const struct linear *linear, int at, int n_nodes)
{
    bool need[ECO_MAX_NODES] = {false};
    const unsigned states = linear->lowering->lowered->linear.states;
    need[at] = true;
    for (int i = n_nodes - 1; i >= 0; i--) {
        const struct eco_node *node = &linear->graph->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        if (!need[i])
            continue;
        if (node->op == linear->op && node->index != linear->index && (states >> node->index & 1))
            return true;
        for (int k = 0; k < 3; k++)
            if (argument[k] >= 0)
                need[argument[k]] = true;
    }
    return false;
}

/* One pass: the program that computes factor and term of each state. */
static bool lower_pass(struct linear *linear, bool backward, int n_nodes)
{
    struct eco_lowering *lowering = linear->lowering;
    struct eco_lowered *lowered = lowering->lowered;
    struct eco_demand demand = {.n = 0};
    for (int s = 0; s < linear->lowering->recipe->n_states; s++) {
        const int result = backward ? lowering->adjoint->state[s] : lowering->recipe->next[s];
        struct form form;
        linear->op = backward ? ECO_OP_DNEXT : ECO_OP_STATE;
        linear->index = (int16_t)s;
        if (!(lowered->linear.states >> s & 1))
            continue;
        if ((result >= 0 && mixes(linear, result, n_nodes)) ||
            !find_form(linear, n_nodes, result, &form))
            return false;
        demand.store[demand.n++] =
            (struct eco_node){ECO_OP_STORE_LINEAR, form.factor, form.term, -1, (int16_t)s, 0};
    }
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
