/*
 * The graph of a cell: the table of opcodes, and adding a node.  Adding folds constants and finds
 * equal nodes, so that no later part has to.  Knows nothing of texts or stages.
 */
#include "common/cell/cell.h"
#include "common/cell/opcode.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

// clang-format off
const struct eco_opcode_info eco_opcode_info[ECO_OPCODES] = {
    [ECO_OP_CONST]     = {"const", 0, false},
    [ECO_OP_STATE]     = {NULL, 0, false},
    [ECO_OP_VECTOR]    = {NULL, 0, false},
    [ECO_OP_X]         = {"x", 0, false},
    [ECO_OP_BERNOULLI] = {"bernoulli", 0, true},
    [ECO_OP_INPUT]     = {NULL, 0, false},
    [ECO_OP_PRODUCT]   = {NULL, 1, false},
    [ECO_OP_MEAN]      = {"mean", 1, true},
    [ECO_OP_ADD]       = {"add", 2, false},
    [ECO_OP_SUB]       = {"sub", 2, false},
    [ECO_OP_MUL]       = {"mul", 2, false},
    [ECO_OP_DIV]       = {"div", 2, false},
    [ECO_OP_MIN]       = {"min", 2, true},
    [ECO_OP_MAX]       = {"max", 2, true},
    [ECO_OP_SELECT]    = {"select", 3, true},
    [ECO_OP_NEG]       = {"neg", 1, false},
    [ECO_OP_ABS]       = {"abs", 1, true},
    [ECO_OP_EXP]       = {"exp", 1, true},
    [ECO_OP_LOG]       = {"log", 1, true},
    [ECO_OP_SQRT]      = {"sqrt", 1, true},
    [ECO_OP_TANH]      = {"tanh", 1, true},
    [ECO_OP_SIGMOID]   = {"sigmoid", 1, true},
    [ECO_OP_RELU]      = {"relu", 1, true},
    [ECO_OP_DNEXT]     = {NULL, 0, false},
    [ECO_OP_DOPERAND]  = {NULL, 0, false},
    [ECO_OP_ACC]       = {NULL, 0, false},
    [ECO_OP_SAVED]     = {NULL, 0, false},
    [ECO_OP_NEXT]      = {NULL, 0, false},
    [ECO_OP_STORE_OPERAND] = {NULL, 1, false},
    [ECO_OP_STORE_MEAN]    = {NULL, 1, false},
    [ECO_OP_STORE_SAVE]    = {NULL, 1, false},
    [ECO_OP_STORE_NEXT]    = {NULL, 1, false},
    [ECO_OP_STORE_DACC]    = {NULL, 1, false},
    [ECO_OP_STORE_DSTATE]  = {NULL, 1, false},
    [ECO_OP_STORE_LINEAR]  = {NULL, 2, false},
    [ECO_OP_STOP]          = {"stop", 1, true},
    [ECO_OP_STORE_COUPLED] = {NULL, 1, false},
    [ECO_OP_OUTER]         = {"outer", 2, true},
    [ECO_OP_DOT]           = {"dot", 2, true},
    [ECO_OP_READ]          = {"read", 2, false},
};
// clang-format on

double eco_opcode_value(int op, double a, double b, double c)
{
    switch (op) {
    case ECO_OP_MEAN:
    case ECO_OP_STOP:
        return a;
    case ECO_OP_ADD:
        return a + b;
    case ECO_OP_SUB:
        return a - b;
    case ECO_OP_MUL:
        return a * b;
    case ECO_OP_DIV:
        return a / b;
    case ECO_OP_MIN:
        return a < b ? a : b;
    case ECO_OP_MAX:
        return a > b ? a : b;
    case ECO_OP_SELECT:
        return a > 0 ? b : c;
    case ECO_OP_NEG:
        return -a;
    case ECO_OP_ABS:
        return fabs(a);
    case ECO_OP_EXP:
        return exp(a);
    case ECO_OP_LOG:
        return log(a);
    case ECO_OP_SQRT:
        return sqrt(a);
    case ECO_OP_TANH:
        return tanh(a);
    case ECO_OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case ECO_OP_RELU:
        return a <= 0 ? 0 : a; /* a NaN stays */
    default:
        assert(!"an opcode of the text");
        return NAN;
    }
}

int eco_recipe_first_vector(const struct eco_recipe *recipe)
{
    int first = 0;
    while (first < recipe->n_params && recipe->param[first].kind != ECO_PARAM_VECTOR)
        first++;
    return first;
}

static bool is_const(const struct eco_recipe *recipe, int node, double value)
{
    const struct eco_node *n = &recipe->node[node];
    return n->op == ECO_OP_CONST && n->value == value;
}

/* Computes the value if all arguments are constant, unless no float can hold it. */
static bool fold(const struct eco_recipe *recipe, struct eco_node *node)
{
    const int16_t argument[3] = {node->a, node->b, node->c};
    double value[3] = {0, 0, 0};
    const int n = eco_opcode_info[node->op].arguments;
    if (n == 0 || node->op == ECO_OP_PRODUCT)
        return false;
    for (int i = 0; i < n; i++) {
        const struct eco_node *a = &recipe->node[argument[i]];
        if (a->op != ECO_OP_CONST)
            return false;
        value[i] = a->value;
    }
    const double result = eco_opcode_value(node->op, value[0], value[1], value[2]);
    if (!(fabs(result) <= (double)FLT_MAX))
        return false;
    *node = (struct eco_node){ECO_OP_CONST, -1, -1, -1, 0, result};
    return true;
}

/*
 * Finds a node that the new one is equal to; -1: none.  x * 0 stays, because x may be a NaN.  A sum
 * with a negated value becomes a difference.
 */
static int simplify(const struct eco_recipe *recipe, struct eco_node *node)
{
    const int a = node->a, b = node->b;
    const struct eco_node *left = a >= 0 ? &recipe->node[a] : NULL;
    const struct eco_node *right = b >= 0 ? &recipe->node[b] : NULL;
    switch (node->op) {
    case ECO_OP_ADD:
        if (is_const(recipe, b, 0))
            return a;
        if (is_const(recipe, a, 0))
            return b;
        if (right->op == ECO_OP_NEG)
            *node = (struct eco_node){ECO_OP_SUB, node->a, right->a, -1, 0, 0};
        return -1;
    case ECO_OP_SUB:
        if (is_const(recipe, b, 0))
            return a;
        if (right->op == ECO_OP_NEG)
            *node = (struct eco_node){ECO_OP_ADD, node->a, right->a, -1, 0, 0};
        return -1;
    case ECO_OP_MUL:
        if (is_const(recipe, a, 1))
            return b;
        return is_const(recipe, b, 1) ? a : -1;
    case ECO_OP_DIV:
        return is_const(recipe, b, 1) ? a : -1;
    case ECO_OP_NEG:
        return left->op == ECO_OP_NEG ? left->a : -1;
    case ECO_OP_STOP:
        return left->op == ECO_OP_STOP ? a : -1;
    default:
        return -1;
    }
}

static bool equal(const struct eco_node *x, const struct eco_node *y)
{
    if (x->op != y->op)
        return false;
    const bool same = x->a == y->a && x->b == y->b && x->c == y->c;
    if (x->op == ECO_OP_MEAN) /* its index only numbers the means */
        return same;
    const bool swapped =
        (x->op == ECO_OP_ADD || x->op == ECO_OP_MUL) && x->a == y->b && x->b == y->a;
    /* compared by bits: 0 and -0 differ; parameters and bernoulli() differ by index */
    return (same || swapped) && x->index == y->index &&
           memcmp(&x->value, &y->value, sizeof x->value) == 0;
}

int eco_recipe_add(struct eco_recipe *recipe, struct eco_node node)
{
    if (!fold(recipe, &node)) {
        const int same = simplify(recipe, &node);
        if (same >= 0)
            return same;
    }
    for (int i = 0; i < recipe->n_nodes; i++)
        if (equal(&recipe->node[i], &node))
            return i;
    if (recipe->n_nodes == ECO_MAX_NODES)
        return -1;
    if (node.op == ECO_OP_MEAN)
        node.index = (int16_t)recipe->n_means++;
    recipe->node[recipe->n_nodes] = node;
    if (recipe->matrix)
        recipe->kind[recipe->n_nodes] = (uint8_t)eco_recipe_kind(recipe, &node);
    return recipe->n_nodes++;
}
