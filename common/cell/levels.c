/*
 * Finds the users of each value, and the first stage that can have it: one later than the operand
 * of a product or the mean that it depends on.
 */
#include "common/cell/lowering.h"

#include "common/cell/error.h"

static void use(struct eco_lowering *lowering, int node, int user)
{
    if (node < 0)
        return;
    lowering->uses[node]++;
    lowering->user[node] = (int16_t)user;
}

void eco_lower_uses(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    const struct eco_adjoint *adjoint = lowering->adjoint;
    for (int s = 0; s < recipe->n_states; s++) {
        use(lowering, recipe->next[s], -1);
        use(lowering, adjoint->state[s], -1);
    }
    for (int i = 0; i < recipe->n_params; i++)
        use(lowering, adjoint->product[i], -1);
    for (int k = 0; k <= recipe->n_parts; k++)
        use(lowering, adjoint->x[k], -1);
    for (int i = adjoint->n_nodes - 1; i >= 0; i--) {
        if (lowering->uses[i] == 0)
            continue;
        use(lowering, recipe->node[i].a, i);
        use(lowering, recipe->node[i].b, i);
        use(lowering, recipe->node[i].c, i);
    }
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int argument_level(const struct eco_lowering *lowering, bool backward, int at)
{
    const struct eco_node *node = &lowering->recipe->node[at];
    const int16_t *level = lowering->level[backward];
    const int a = node->a < 0 ? 0 : level[node->a], b = node->b < 0 ? 0 : level[node->b];
    return larger(larger(a, b), node->c < 0 ? 0 : level[node->c]);
}

static void find_forward_levels(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        const bool product = node->op == ECO_OP_PRODUCT;
        const bool waits =
            node->op == ECO_OP_MEAN || (product && recipe->node[node->a].op != ECO_OP_STATE);
        lowering->level[0][i] = (int16_t)(argument_level(lowering, false, i) + waits);
    }
}

/* Levels of the gradient's values.  What it keeps from forward is available from the start. */
static void find_backward_levels(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    const struct eco_adjoint *adjoint = lowering->adjoint;
    int16_t *level = lowering->level[1];
    for (int i = recipe->n_nodes; i < adjoint->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        int at = argument_level(lowering, true, i) + (node->op == ECO_OP_MEAN);
        for (int k = 0; k < recipe->n_params && node->op == ECO_OP_DOPERAND; k++) {
            const struct eco_node *product = &recipe->node[recipe->param[k].node];
            if (product->op == ECO_OP_PRODUCT && adjoint->product[k] >= 0 &&
                product->a == adjoint->operand[node->index])
                at = larger(at, level[adjoint->product[k]] + 1);
        }
        level[i] = (int16_t)at;
    }
}

void eco_lower_levels(struct eco_lowering *lowering)
{
    find_forward_levels(lowering);
    find_backward_levels(lowering);
}

bool eco_lower_stages(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    const struct eco_adjoint *adjoint = lowering->adjoint;
    struct eco_lowered *lowered = lowering->lowered;
    int last[2] = {0, 0};
    for (int i = 0; i < recipe->n_nodes; i++)
        last[0] = larger(last[0], lowering->level[0][i]);
    for (int i = recipe->n_nodes; i < adjoint->n_nodes; i++)
        if (lowering->uses[i] > 0)
            last[1] = larger(last[1], lowering->level[1][i]);
    if (larger(last[0], last[1]) >= ECO_MAX_STAGES)
        return eco_cell_fail(lowering->error,
                             "a step of the cell or its gradient has %d stages, at most %d",
                             larger(last[0], last[1]) + 1, ECO_MAX_STAGES);
    lowered->n_forward = last[0] + 1, lowered->n_backward = last[1] + 1;
    return true;
}
