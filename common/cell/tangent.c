/*
 * The tangent of a cell by forward mode on the graph of its text.  The tangent of a value is its
 * derivative along a direction; -1 stands for zero and costs nothing.  The gradient of the
 * resulting cell, by the usual reverse mode, is the gradient of a gradient.
 */
#include "common/cell/tangent.h"

#include <string.h>

#include "common/cell/error.h"

enum { ROLES = ECO_TANGENT_AGAIN + 1 };

struct forward_mode {
    const struct eco_recipe *from;
    struct eco_recipe *to;
    struct eco_tangent_param *origin;
    bool active[ECO_MAX_SOURCE]; /* depends on a state or a parameter: may have a tangent */
    bool wanted[ECO_MAX_SOURCE]; /* is its tangent used? */
    int16_t value[ECO_MAX_SOURCE], tangent[ECO_MAX_SOURCE]; /* nodes; -1: zero */
    int16_t param[ECO_MAX_PARAMS][ROLES];                   /* -1: none */
    bool full;
};

static int add(struct forward_mode *mode, struct eco_node node)
{
    const int at = mode->full ? 0 : eco_recipe_add(mode->to, node);
    mode->full |= at < 0;
    return at < 0 ? 0 : at;
}

static int add_op(struct forward_mode *mode, int op, int a, int b, int c)
{
    return add(mode, (struct eco_node){(int16_t)op, (int16_t)a, (int16_t)b, (int16_t)c, 0, 0});
}

static int constant(struct forward_mode *mode, double value)
{
    return add(mode, (struct eco_node){ECO_OP_CONST, -1, -1, -1, 0, value});
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* No tangent passes through stop() and the condition of select(). */
static bool passes(const struct eco_node *node, int argument)
{
    return node->op != ECO_OP_STOP && (node->op != ECO_OP_SELECT || argument > 0);
}

static void find_active(struct forward_mode *mode)
{
    const struct eco_recipe *from = mode->from;
    for (int i = 0; i < from->n_nodes; i++) {
        const struct eco_node *node = &from->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        mode->active[i] = node->op == ECO_OP_STATE || node->op == ECO_OP_VECTOR ||
                          node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT;
        for (int k = 0; k < 3; k++)
            mode->active[i] |= argument[k] >= 0 && passes(node, k) && mode->active[argument[k]];
    }
    for (int s = 0; s < from->n_states; s++)
        mode->wanted[from->next[s]] = true;
    for (int i = from->n_nodes - 1; i >= 0; i--) {
        const struct eco_node *node = &from->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        for (int k = 0; k < 3; k++)
            if (argument[k] >= 0 && mode->wanted[i] && passes(node, k))
                mode->wanted[argument[k]] = true;
    }
}

static bool has_role(const struct forward_mode *mode, int param, int role)
{
    const struct eco_node *node = &mode->from->node[mode->from->param[param].node];
    return role == ECO_TANGENT_VALUE ||
           (mode->wanted[mode->from->param[param].node] &&
            (role == ECO_TANGENT_SLOPE || (node->op == ECO_OP_PRODUCT && mode->active[node->a])));
}

static void mark_name(char *to, size_t size, const char *name, const char *mark)
{
    struct eco_text text = {to, size, 0};
    eco_text_add(&text, "%.*s%s", (int)(size - strlen(mark) - 1), name, mark);
}

/* Numbers the parameters in block order: every W, every R, every vector. */
static bool number_params(struct forward_mode *mode, struct eco_cell_error *error)
{
    static const char *const mark[ROLES] = {"", "'", "*"};
    int n = 0;
    memset(mode->param, -1, sizeof mode->param);
    for (int kind = ECO_PARAM_W; kind <= ECO_PARAM_VECTOR; kind++)
        for (int role = 0; role < ROLES; role++)
            for (int k = 0; k < mode->from->n_params; k++) {
                const struct eco_recipe_param *param = &mode->from->param[k];
                if (param->kind != kind || !has_role(mode, k, role))
                    continue;
                if (n == ECO_MAX_PARAMS)
                    return eco_cell_fail(error, "its tangent has more than %d parameters",
                                         ECO_MAX_PARAMS);
                mode->to->param[n].kind = param->kind;
                mark_name(mode->to->param[n].name, sizeof param->name, param->name, mark[role]);
                mode->origin[n] = (struct eco_tangent_param){(int16_t)k, (uint8_t)role};
                mode->param[k][role] = (int16_t)n++;
            }
    mode->to->n_params = n;
    return true;
}

static int add_param(struct forward_mode *mode, int op, int operand, int param, int role)
{
    const int index = mode->param[param][role];
    const int node =
        add(mode, (struct eco_node){(int16_t)op, (int16_t)operand, -1, -1, (int16_t)index, 0});
    mode->to->param[index].node = (int16_t)node;
    return node;
}

/* ---- tangents -------------------------------------------------------------------------------- */

static int combine(struct forward_mode *mode, int op, int a, int b)
{
    if (b < 0)
        return a;
    if (a < 0)
        return op == ECO_OP_ADD ? b : add_op(mode, ECO_OP_NEG, b, -1, -1);
    return add_op(mode, op, a, b, -1);
}

static int times(struct forward_mode *mode, int tangent, int value)
{
    return tangent < 0 ? -1 : add_op(mode, ECO_OP_MUL, tangent, value, -1);
}

/* a where condition > 0, else b. */
static int choose(struct forward_mode *mode, int condition, int a, int b)
{
    if (a < 0 && b < 0)
        return -1;
    return add_op(mode, ECO_OP_SELECT, condition, a < 0 ? constant(mode, 0) : a,
                  b < 0 ? constant(mode, 0) : b);
}

/* The tangent of y = f(a), where d is the tangent of a; y and a are values. */
static int unary(struct forward_mode *mode, int op, int y, int a, int d)
{
    switch (op) {
    case ECO_OP_MEAN:
    case ECO_OP_NEG:
        return add_op(mode, op, d, -1, -1);
    case ECO_OP_ABS: {
        const int minus = add_op(mode, ECO_OP_NEG, a, -1, -1);
        return choose(mode, a, d, choose(mode, minus, add_op(mode, ECO_OP_NEG, d, -1, -1), -1));
    }
    case ECO_OP_EXP:
        return times(mode, d, y);
    case ECO_OP_LOG:
        return add_op(mode, ECO_OP_DIV, d, a, -1);
    case ECO_OP_SQRT:
        return add_op(mode, ECO_OP_DIV, times(mode, d, constant(mode, 0.5)), y, -1);
    case ECO_OP_TANH: {
        const int square = add_op(mode, ECO_OP_MUL, y, y, -1);
        return times(mode, d, add_op(mode, ECO_OP_SUB, constant(mode, 1), square, -1));
    }
    case ECO_OP_SIGMOID: {
        const int rest = add_op(mode, ECO_OP_SUB, constant(mode, 1), y, -1);
        return times(mode, d, add_op(mode, ECO_OP_MUL, y, rest, -1));
    }
    default: /* ECO_OP_RELU */
        return choose(mode, y, d, -1);
    }
}

/* The tangent of a node with two or three arguments, given their values and tangents. */
static int several(struct forward_mode *mode, int op, int y, const int *value, const int *tangent)
{
    const int a = value[0], b = value[1];
    switch (op) {
    case ECO_OP_ADD:
    case ECO_OP_SUB:
        return combine(mode, op, tangent[0], tangent[1]);
    case ECO_OP_MUL:
        return combine(mode, ECO_OP_ADD, times(mode, tangent[0], b), times(mode, tangent[1], a));
    case ECO_OP_DIV: {
        const int d = combine(mode, ECO_OP_SUB, tangent[0], times(mode, tangent[1], y));
        return d < 0 ? -1 : add_op(mode, ECO_OP_DIV, d, b, -1);
    }
    case ECO_OP_MIN:
        return choose(mode, add_op(mode, ECO_OP_SUB, b, a, -1), tangent[0], tangent[1]);
    case ECO_OP_MAX:
        return choose(mode, add_op(mode, ECO_OP_SUB, a, b, -1), tangent[0], tangent[1]);
    default: /* ECO_OP_SELECT */
        return choose(mode, a, tangent[1], tangent[2]);
    }
}

static int tangent_of(struct forward_mode *mode, int at)
{
    const struct eco_node *node = &mode->from->node[at];
    const int16_t argument[3] = {node->a, node->b, node->c};
    int value[3] = {-1, -1, -1}, tangent[3] = {-1, -1, -1};
    for (int k = 0; k < 3 && argument[k] >= 0; k++) {
        value[k] = mode->value[argument[k]];
        tangent[k] = mode->tangent[argument[k]];
    }
    switch (node->op) {
    case ECO_OP_STATE:
        return add(mode, (struct eco_node){ECO_OP_STATE, -1, -1, -1, node->index, 0});
    case ECO_OP_INPUT:
    case ECO_OP_VECTOR:
        return add_param(mode, node->op, -1, node->index, ECO_TANGENT_SLOPE);
    case ECO_OP_PRODUCT: {
        const int slope = add_param(mode, node->op, value[0], node->index, ECO_TANGENT_SLOPE);
        return tangent[0] < 0
                   ? slope
                   : add_op(mode, ECO_OP_ADD,
                            add_param(mode, node->op, tangent[0], node->index, ECO_TANGENT_AGAIN),
                            slope, -1);
    }
    default:
        return value[1] >= 0 ? several(mode, node->op, mode->value[at], value, tangent)
                             : unary(mode, node->op, mode->value[at], value[0], tangent[0]);
    }
}

static int value_of(struct forward_mode *mode, int at)
{
    struct eco_node node = mode->from->node[at];
    if (node.op == ECO_OP_STATE)
        node.index = (int16_t)(node.index + mode->from->n_states);
    node.a = (int16_t)(node.a < 0 ? -1 : mode->value[node.a]);
    node.b = (int16_t)(node.b < 0 ? -1 : mode->value[node.b]);
    node.c = (int16_t)(node.c < 0 ? -1 : mode->value[node.c]);
    if (node.op == ECO_OP_INPUT || node.op == ECO_OP_PRODUCT || node.op == ECO_OP_VECTOR)
        return add_param(mode, node.op, node.a, node.index, ECO_TANGENT_VALUE);
    return add(mode, node);
}

/* ---- the cell -------------------------------------------------------------------------------- */

static void name_states(struct forward_mode *mode)
{
    const struct eco_recipe *from = mode->from;
    struct eco_recipe *to = mode->to;
    to->n_states = 2 * from->n_states;
    to->n_bernoulli = from->n_bernoulli;
    to->head_means = from->head_means;
    mark_name(to->name, sizeof to->name, from->name, "-tangent");
    for (int s = 0; s < from->n_states; s++) {
        mark_name(to->state[s], sizeof to->state[s], from->state[s], "*");
        memcpy(to->state[from->n_states + s], from->state[s], sizeof to->state[s]);
        to->start[from->n_states + s] = from->start[s];
    }
}

static bool extend(struct forward_mode *mode)
{
    const struct eco_recipe *from = mode->from;
    struct eco_recipe *to = mode->to;
    for (int i = 0; i < from->n_nodes; i++) {
        mode->value[i] = (int16_t)value_of(mode, i);
        const bool both = mode->active[i] && mode->wanted[i];
        mode->tangent[i] = (int16_t)(both ? tangent_of(mode, i) : -1);
    }
    for (int s = 0; s < from->n_states; s++) {
        const int tangent = mode->tangent[from->next[s]];
        to->next[s] = (int16_t)(tangent < 0 ? constant(mode, 0) : tangent);
        to->next[from->n_states + s] = mode->value[from->next[s]];
    }
    return !mode->full && to->n_nodes <= ECO_MAX_SOURCE;
}

bool eco_cell_tangent(struct eco_tangent *tangent, const struct ecornn_cell *cell,
                      struct eco_cell_error *error)
{
    struct forward_mode mode = {
        .from = &cell->recipe, .to = &tangent->cell.recipe, .origin = tangent->param};
    struct eco_adjoint adjoint;
    memset(tangent, 0, sizeof *tangent);
    tangent->cell.builtin = -1;
    if (2 * cell->recipe.n_states > ECO_MAX_STATES)
        return eco_cell_fail(error, "it has %d states, at most %d", cell->recipe.n_states,
                             ECO_MAX_STATES / 2);
    if (cell->recipe.n_parts > 0)
        return eco_cell_fail(error, "it has part '%s' of x", cell->recipe.part[0].name);
    if (cell->recipe.n_outputs > 1)
        return eco_cell_fail(error, "y has %d states, must be 1", cell->recipe.n_outputs);
    if (cell->lowered.raw >= 0)
        return eco_cell_fail(error, "x stands in its text without W");
    tangent->cell.recipe.n_outputs = 1;
    find_active(&mode);
    name_states(&mode);
    if (!number_params(&mode, error))
        return false;
    if (!extend(&mode))
        return eco_cell_fail(error, "its tangent has more than %d values", ECO_MAX_SOURCE);
    return eco_recipe_gradient(&tangent->cell.recipe, &adjoint, error) &&
           eco_recipe_lower(&tangent->cell.recipe, &adjoint, &tangent->cell.lowered, error);
}
