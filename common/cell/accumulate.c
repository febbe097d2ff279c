/*
 * Decides which products are summed.  An accumulator is a maximal sum of values that are used once:
 * at most one W x or part of x, one R e per operand and one vector.  What else the sum contains is
 * added afterwards.  x itself, and a part without a product, are accumulators of their own.
 */
#include "common/cell/lowering.h"

#include <string.h>

#include "common/cell/error.h"

static bool is_addend(const struct eco_lowering *lowering, int node)
{
    return lowering->uses[node] == 1 && lowering->user[node] >= 0 &&
           lowering->recipe->node[lowering->user[node]].op == ECO_OP_ADD;
}

/* The members of a sum: the leaves of the tree of additions under root. */
static int leaves(const struct eco_lowering *lowering, int root, int16_t *leaf)
{
    const struct eco_node *node = &lowering->recipe->node[root];
    const int16_t argument[2] = {node->a, node->b};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        if (lowering->recipe->node[argument[i]].op == ECO_OP_ADD &&
            is_addend(lowering, argument[i]))
            n += leaves(lowering, argument[i], leaf + n);
        else
            leaf[n++] = argument[i];
    }
    return n;
}

int eco_lower_addends(const struct eco_lowering *lowering, int root, int16_t *addend)
{
    int n = 0;
    if (lowering->recipe->node[root].op != ECO_OP_ADD)
        return 0;
    const int all = leaves(lowering, root, addend);
    for (int i = 0; i < all; i++)
        if (lowering->part_of[addend[i]] != root)
            addend[n++] = addend[i];
    return n;
}

static int find_operand(const struct eco_adjoint *adjoint, int node)
{
    int k = 0;
    while (adjoint->operand[k] != node)
        k++;
    return k;
}

/* A node's position in an accumulator: 0 W or a part of x, 1 vector, 2 + k R of operand k; -1:
 * none.
 */
static int position(const struct eco_lowering *lowering, int node)
{
    switch (lowering->recipe->node[node].op) {
    case ECO_OP_INPUT:
        return 0;
    case ECO_OP_X:
        return lowering->recipe->node[node].index > 0 ? 0 : -1;
    case ECO_OP_VECTOR:
        return 1;
    case ECO_OP_PRODUCT:
        return 2 + find_operand(lowering->adjoint, lowering->recipe->node[node].a);
    default:
        return -1;
    }
}

/* The first member for each position joins the accumulator of root, if there is any product.  A
 * part leaves its place to a W, and a vector to a part: no product then begins from a bias. */
static void join_sum(struct eco_lowering *lowering, int root)
{
    int16_t leaf[ECO_MAX_SOURCE + 1];
    bool taken[2 + ECO_MAX_OPERANDS] = {false}, input = false, part = false, product = false;
    const int n = leaves(lowering, root, leaf);
    for (int i = 0; i < n; i++) {
        const int op = lowering->recipe->node[leaf[i]].op;
        input |= is_addend(lowering, leaf[i]) && op == ECO_OP_INPUT;
        part |= is_addend(lowering, leaf[i]) && op == ECO_OP_X && position(lowering, leaf[i]) == 0;
        product |= is_addend(lowering, leaf[i]) && (op == ECO_OP_INPUT || op == ECO_OP_PRODUCT);
    }
    for (int i = 0; product && i < n; i++) {
        const int at = position(lowering, leaf[i]), op = lowering->recipe->node[leaf[i]].op;
        const bool later = input ? op == ECO_OP_X : part && op == ECO_OP_VECTOR;
        if (at < 0 || later || taken[at] || !is_addend(lowering, leaf[i]))
            continue;
        taken[at] = true;
        lowering->part_of[leaf[i]] = (int16_t)root;
    }
}

static bool is_raw(const struct eco_lowering *lowering, int node)
{
    const struct eco_node *x = &lowering->recipe->node[node];
    return x->op == ECO_OP_X && x->index == 0;
}

static void fill(struct eco_lowering *lowering, int root, struct eco_accumulator *acc)
{
    memset(acc, -1, sizeof *acc);
    if (is_raw(lowering, root)) {
        acc->copy = 0;
        return;
    }
    for (int i = 0; i < lowering->recipe->n_nodes; i++) {
        if (lowering->part_of[i] != root)
            continue;
        const struct eco_node *node = &lowering->recipe->node[i];
        const int at = position(lowering, i);
        int16_t *to = node->op == ECO_OP_X ? &acc->copy
                      : at == 0            ? &acc->input
                      : at == 1            ? &acc->vector
                                           : &acc->recurrent[at - 2];
        *to = node->index;
    }
}

/* Bit 0: has a W; bit 1 + k: has an R of operand k. */
static unsigned pattern(const struct eco_accumulator *acc)
{
    unsigned bits = acc->input >= 0;
    for (int k = 0; k < ECO_MAX_OPERANDS; k++)
        bits |= (unsigned)(acc->recurrent[k] >= 0) << (k + 1);
    return bits;
}

/* Counts products: each run of neighbours that share a matrix is one. */
static int count_runs(const unsigned *group, int n)
{
    unsigned before = 0;
    int runs = 0;
    for (int i = 0; i < n; before = group[i++])
        for (unsigned starts = group[i] & ~before; starts != 0; starts &= starts - 1)
            runs++;
    return runs;
}

static void move(unsigned *group, int from, int to)
{
    const unsigned moved = group[from];
    for (; from > to; from--)
        group[from] = group[from - 1];
    for (; from < to; from++)
        group[from] = group[from + 1];
    group[to] = moved;
}

/* Moves one group at a time while that saves a product.  The few groups allow trying all. */
static void arrange(unsigned *group, int n)
{
    for (bool better = true; better;) {
        int from = 0, to = 0, least = count_runs(group, n);
        better = false;
        for (int i = n - 1; i >= 0; i--) {
            for (int k = 0; k < n; k++) {
                move(group, i, k);
                const int runs = count_runs(group, n);
                move(group, k, i);
                if (runs >= least)
                    continue;
                least = runs, from = i, to = k, better = true;
            }
        }
        if (better)
            move(group, from, to);
    }
}

/* Sorts the accumulators, given by root, into groups of equal pattern, and arranges the groups. */
static void order(struct eco_lowering *lowering, const int16_t *root)
{
    struct eco_lowered *lowered = lowering->lowered;
    struct eco_accumulator acc[ECO_MAX_ACCS];
    unsigned group[ECO_MAX_ACCS];
    int groups = 0, n = 0;
    for (int i = 0; i < lowered->n_accs; i++) {
        int k = 0;
        fill(lowering, root[i], &acc[i]);
        while (k < groups && group[k] != pattern(&acc[i]))
            k++;
        group[k] = pattern(&acc[i]);
        groups += k == groups;
    }
    arrange(group, groups);
    for (int k = 0; k < groups; k++)
        for (int i = 0; i < lowered->n_accs; i++)
            if (pattern(&acc[i]) == group[k]) {
                lowering->acc[root[i]] = (int16_t)n;
                lowered->raw = is_raw(lowering, root[i]) ? n : lowered->raw;
                lowered->copies |= (uint32_t)(acc[i].copy >= 0) << n;
                lowered->acc[n++] = acc[i];
            }
}

bool eco_lower_accumulators(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    int16_t root[ECO_MAX_PARAMS + 1];
    int n = 0;
    for (int i = 0; i < recipe->n_nodes; i++)
        if (recipe->node[i].op == ECO_OP_ADD && !is_addend(lowering, i))
            join_sum(lowering, i);
    for (int i = 0; i < recipe->n_nodes; i++)
        if (((position(lowering, i) >= 0 && position(lowering, i) != 1) || is_raw(lowering, i)) &&
            lowering->part_of[i] < 0)
            lowering->part_of[i] = (int16_t)i;
    for (int i = 0; i < recipe->n_nodes; i++) {
        bool is_root = false;
        for (int k = 0; k <= i; k++)
            is_root |= lowering->part_of[k] == i;
        if (is_root)
            root[n++] = (int16_t)i;
    }
    if (n > ECO_MAX_ACCS)
        return eco_cell_fail(lowering->error, "the cell has %d sums of products, at most %d", n,
                             ECO_MAX_ACCS);
    lowering->lowered->n_accs = n;
    order(lowering, root);
    return true;
}
