/*
 * The kinds of values in a cell with a matrix state: what may be combined with what.  A number
 * stands for all numbers of a key or a value.
 */
#include "common/cell/cell.h"

/* Two values element by element; -1: they do not fit. */
static int joined(int a, int b)
{
    if (a == b || b == ECO_KIND_NUMBER)
        return a;
    return a == ECO_KIND_NUMBER ? b : -1;
}

static bool is_vector(int kind)
{
    return kind == ECO_KIND_KEY || kind == ECO_KIND_VALUE;
}

/* Matrices are added to each other, and multiplied by numbers or, row by row, by keys. */
static int of_matrices(int op, int a, int b)
{
    const int other = a == ECO_KIND_MATRIX ? b : a;
    const bool scales = other == ECO_KIND_NUMBER || other == ECO_KIND_KEY;
    switch (op) {
    case ECO_OP_ADD:
    case ECO_OP_SUB:
        return a == b ? a : -1;
    case ECO_OP_MUL:
        return scales ? ECO_KIND_MATRIX : -1;
    case ECO_OP_DIV:
        return b == ECO_KIND_NUMBER ? a : -1;
    case ECO_OP_NEG:
        return a;
    case ECO_OP_READ:
        return a == ECO_KIND_MATRIX && b == ECO_KIND_KEY ? ECO_KIND_VALUE : -1;
    default:
        return -1;
    }
}

int eco_recipe_kind(const struct eco_recipe *recipe, const struct eco_node *node)
{
    const int16_t argument[3] = {node->a, node->b, node->c};
    int kind[3] = {ECO_KIND_NUMBER, ECO_KIND_NUMBER, ECO_KIND_NUMBER};
    for (int k = 0; k < 3; k++)
        if (argument[k] >= 0)
            kind[k] = recipe->kind[argument[k]];
    switch (node->op) {
    case ECO_OP_STATE:
        return recipe->state_kind[node->index];
    case ECO_OP_X:
        return node->index > 0 ? recipe->part[node->index - 1].kind : -1;
    case ECO_OP_MEAN:
        return is_vector(kind[0]) ? ECO_KIND_NUMBER : -1;
    case ECO_OP_DOT:
        return is_vector(kind[0]) && kind[0] == kind[1] ? ECO_KIND_NUMBER : -1;
    case ECO_OP_OUTER:
        return kind[0] == ECO_KIND_KEY && kind[1] == ECO_KIND_VALUE ? ECO_KIND_MATRIX : -1;
    default:
        break;
    }
    if (kind[0] == ECO_KIND_MATRIX || kind[1] == ECO_KIND_MATRIX || kind[2] == ECO_KIND_MATRIX ||
        node->op == ECO_OP_READ)
        return of_matrices(node->op, kind[0], kind[1]);
    const int both = joined(kind[0], kind[1]);
    return both < 0 ? -1 : joined(both, kind[2]);
}
