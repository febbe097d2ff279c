/*
 * The gradient of a recipe by reverse mode, as more nodes of the same graph.  The adjoint of a node
 * is the gradient of the loss with respect to its value; -1 stands for zero and costs nothing.  The
 * gradient of R e ends at the product: the node DOPERAND stands for R^T times it.
 */
#include "common/cell/cell.h"

#include <string.h>

#include "common/cell/error.h"

struct gradient {
    struct eco_recipe *recipe;
    struct eco_adjoint *adjoint;
    int16_t of[ECO_MAX_SOURCE];  /* adjoint of each node of the text, -1: zero */
    bool active[ECO_MAX_SOURCE]; /* depends on a state, parameter or x         */
    bool full;
};

static int add(struct gradient *gradient, int op, int a, int b, int c)
{
    if (gradient->full)
        return 0;
    const int node = eco_recipe_add(
        gradient->recipe, (struct eco_node){(int16_t)op, (int16_t)a, (int16_t)b, (int16_t)c, 0, 0});
    gradient->full = node < 0;
    return node < 0 ? 0 : node;
}

static int add_leaf(struct gradient *gradient, int op, int index, double value)
{
    if (gradient->full)
        return 0;
    const int node = eco_recipe_add(
        gradient->recipe, (struct eco_node){(int16_t)op, -1, -1, -1, (int16_t)index, value});
    gradient->full = node < 0;
    return node < 0 ? 0 : node;
}

static int constant(struct gradient *gradient, double value)
{
    return add_leaf(gradient, ECO_OP_CONST, 0, value);
}

static void accumulate(struct gradient *gradient, int node, int d)
{
    int16_t *of = &gradient->of[node];
    *of = (int16_t)(*of < 0 ? d : add(gradient, ECO_OP_ADD, *of, d, -1));
}

static int mul(struct gradient *gradient, int a, int b)
{
    return add(gradient, ECO_OP_MUL, a, b, -1);
}

/* d if condition > 0, else 0; with `positive` false, the reverse. */
static int gate(struct gradient *gradient, int condition, int d, bool positive)
{
    const int zero = constant(gradient, 0);
    return add(gradient, ECO_OP_SELECT, condition, positive ? d : zero, positive ? zero : d);
}

/* dy/da times d for y = f(a), where y is node `at`. */
static int unary(struct gradient *gradient, int at, int d)
{
    const struct eco_node y = gradient->recipe->node[at];
    switch (y.op) {
    case ECO_OP_MEAN: /* every unit of the row receives 1/H of every unit's d */
        return add(gradient, ECO_OP_MEAN, d, -1, -1);
    case ECO_OP_NEG:
        return add(gradient, ECO_OP_NEG, d, -1, -1);
    case ECO_OP_ABS: {
        const int minus = add(gradient, ECO_OP_NEG, d, -1, -1);
        const int other = gate(gradient, add(gradient, ECO_OP_NEG, y.a, -1, -1), minus, true);
        return add(gradient, ECO_OP_SELECT, y.a, d, other);
    }
    case ECO_OP_EXP:
        return mul(gradient, d, at);
    case ECO_OP_LOG:
        return add(gradient, ECO_OP_DIV, d, y.a, -1);
    case ECO_OP_SQRT:
        return add(gradient, ECO_OP_DIV, mul(gradient, d, constant(gradient, 0.5)), at, -1);
    case ECO_OP_TANH: {
        const int square = mul(gradient, at, at);
        return mul(gradient, d, add(gradient, ECO_OP_SUB, constant(gradient, 1), square, -1));
    }
    case ECO_OP_SIGMOID: {
        const int rest = add(gradient, ECO_OP_SUB, constant(gradient, 1), at, -1);
        return mul(gradient, d, mul(gradient, at, rest));
    }
    default: /* ECO_OP_RELU */
        return gate(gradient, at, d, true);
    }
}

/* dy/da or dy/db times d for y = f(a, b). */
static int binary(struct gradient *gradient, int at, int d, bool second)
{
    const struct eco_node y = gradient->recipe->node[at];
    switch (y.op) {
    case ECO_OP_ADD:
        return d;
    case ECO_OP_SUB:
        return second ? add(gradient, ECO_OP_NEG, d, -1, -1) : d;
    case ECO_OP_MUL:
        return mul(gradient, d, second ? y.a : y.b);
    case ECO_OP_DIV: {
        const int da = add(gradient, ECO_OP_DIV, d, y.b, -1);
        return second ? add(gradient, ECO_OP_NEG, mul(gradient, da, at), -1, -1) : da;
    }
    case ECO_OP_MIN:
        return gate(gradient, add(gradient, ECO_OP_SUB, y.b, y.a, -1), d, !second);
    default: /* ECO_OP_MAX */
        return gate(gradient, add(gradient, ECO_OP_SUB, y.a, y.b, -1), d, !second);
    }
}

static void pass_on(struct gradient *gradient, int at)
{
    const struct eco_node y = gradient->recipe->node[at];
    const int d = gradient->of[at];
    const int arguments = eco_opcode_info[y.op].arguments;
    if (y.op == ECO_OP_PRODUCT || arguments == 0)
        return;
    if (y.op == ECO_OP_SELECT) {
        if (gradient->active[y.b])
            accumulate(gradient, y.b, gate(gradient, y.a, d, true));
        if (gradient->active[y.c])
            accumulate(gradient, y.c, gate(gradient, y.a, d, false));
        return;
    }
    if (gradient->active[y.a])
        accumulate(gradient, y.a,
                   arguments == 1 ? unary(gradient, at, d) : binary(gradient, at, d, false));
    if (arguments == 2 && gradient->active[y.b])
        accumulate(gradient, y.b, binary(gradient, at, d, true));
}

static void find_active(struct gradient *gradient)
{
    const struct eco_recipe *recipe = gradient->recipe;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        gradient->active[i] = node->op == ECO_OP_STATE || node->op == ECO_OP_VECTOR ||
                              node->op == ECO_OP_X || node->op == ECO_OP_INPUT ||
                              node->op == ECO_OP_PRODUCT;
        for (int k = 0; k < 3 && node->op != ECO_OP_STOP; k++)
            gradient->active[i] |= argument[k] >= 0 && gradient->active[argument[k]];
    }
}

/* False: too many. */
static bool find_operands(const struct eco_recipe *recipe, struct eco_adjoint *adjoint)
{
    for (int i = 0; i < recipe->n_nodes; i++) {
        int k = 0;
        if (recipe->node[i].op != ECO_OP_PRODUCT)
            continue;
        while (k < adjoint->n_operands && adjoint->operand[k] != recipe->node[i].a)
            k++;
        if (k == ECO_MAX_OPERANDS)
            return false;
        adjoint->operand[k] = recipe->node[i].a;
        adjoint->n_operands += k == adjoint->n_operands;
    }
    return true;
}

/* A computed operand has the gradient R^T d if any of its products has a gradient d. */
static void add_operand(struct gradient *gradient, int at)
{
    const struct eco_recipe *recipe = gradient->recipe;
    bool wanted = false;
    for (int i = 0; i < recipe->n_params; i++) {
        const int node = recipe->param[i].node;
        wanted |= recipe->param[i].kind == ECO_PARAM_R && recipe->node[node].a == at &&
                  gradient->of[node] >= 0;
    }
    for (int k = 0; k < gradient->adjoint->n_operands; k++)
        if (wanted && gradient->active[at] && gradient->adjoint->operand[k] == at)
            accumulate(gradient, at, add_leaf(gradient, ECO_OP_DOPERAND, k, 0));
}

static void collect(const struct gradient *gradient, int n_nodes)
{
    const struct eco_recipe *recipe = gradient->recipe;
    struct eco_adjoint *adjoint = gradient->adjoint;
    for (int i = 0; i < recipe->n_params; i++)
        adjoint->product[i] = gradient->of[recipe->param[i].node];
    memset(adjoint->state, -1, sizeof adjoint->state);
    memset(adjoint->x, -1, sizeof adjoint->x);
    for (int i = 0; i < n_nodes; i++)
        if (recipe->node[i].op == ECO_OP_STATE)
            adjoint->state[recipe->node[i].index] = gradient->of[i];
        else if (recipe->node[i].op == ECO_OP_X)
            adjoint->x[recipe->node[i].index] = gradient->of[i];
}

bool eco_recipe_gradient(struct eco_recipe *recipe, struct eco_adjoint *adjoint,
                         struct eco_cell_error *error)
{
    struct gradient gradient = {.recipe = recipe, .adjoint = adjoint};
    const int n_nodes = recipe->n_nodes, n_means = recipe->n_means;
    memset(adjoint, 0, sizeof *adjoint);
    memset(gradient.of, -1, sizeof gradient.of);
    if (!find_operands(recipe, adjoint))
        return eco_cell_fail(error, "R has more than %d different operands", ECO_MAX_OPERANDS);
    find_active(&gradient);
    for (int s = 0; s < recipe->n_states; s++)
        accumulate(&gradient, recipe->next[s], add_leaf(&gradient, ECO_OP_DNEXT, s, 0));
    for (int i = n_nodes - 1; i >= 0; i--) {
        if (recipe->node[i].op != ECO_OP_STATE)
            add_operand(&gradient, i);
        if (gradient.of[i] >= 0 && gradient.active[i])
            pass_on(&gradient, i);
    }
    collect(&gradient, n_nodes);
    adjoint->n_nodes = recipe->n_nodes;
    recipe->n_nodes = n_nodes, recipe->n_means = n_means;
    if (gradient.full)
        return eco_cell_fail(error, "the gradient of the cell needs more than %d values",
                             ECO_MAX_NODES);
    return true;
}
