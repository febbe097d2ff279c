/*
 * Decides which values of the forward pass the gradient keeps.  A value of the text that the
 * gradient uses is free if it is in memory anyway (a state, a next state, a vector) or can be drawn
 * again (bernoulli).  It is recomputed if that needs only free and saved values, and saved
 * otherwise.
 */
#include "common/cell/lowering.h"

#include "common/cell/error.h"

static bool is_free(const struct eco_recipe *recipe, int at)
{
    const int op = recipe->node[at].op;
    for (int s = 0; s < recipe->n_states; s++)
        if (recipe->next[s] == at)
            return true;
    return op == ECO_OP_CONST || op == ECO_OP_STATE || op == ECO_OP_VECTOR ||
           op == ECO_OP_BERNOULLI;
}

/* Marks a value that is needed, or the one that it has too. */
static void mark(const struct eco_recipe *recipe, bool *need, int node)
{
    for (int same = node; same >= 0;
         same = is_free(recipe, node) ? -1 : eco_recipe_copies(recipe, node))
        node = same;
    if (node >= 0)
        need[node] = true;
}

/* Finds the values of the text that the gradient uses, including computed operands for dR. */
static void find_needed(const struct eco_lowering *lowering, bool need[ECO_MAX_NODES])
{
    const struct eco_recipe *recipe = lowering->recipe;
    const struct eco_adjoint *adjoint = lowering->adjoint;
    for (int i = 0; i < recipe->n_params; i++)
        mark(recipe, need, adjoint->product[i]);
    for (int k = 0; k <= recipe->n_parts; k++)
        mark(recipe, need, adjoint->x[k]);
    for (int s = 0; s < recipe->n_states; s++)
        mark(recipe, need, adjoint->state[s]);
    for (int k = 0; k < adjoint->n_operands; k++)
        mark(recipe, need, adjoint->operand[k]);
    for (int i = adjoint->n_nodes - 1; i >= recipe->n_nodes; i--) {
        if (!need[i])
            continue;
        mark(recipe, need, recipe->node[i].a);
        mark(recipe, need, recipe->node[i].b);
        mark(recipe, need, recipe->node[i].c);
    }
}

static bool is_recomputable(const struct eco_recipe *recipe, int at, const bool *have)
{
    const struct eco_node *node = &recipe->node[at];
    if (node->op == ECO_OP_X || node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT ||
        node->op == ECO_OP_MEAN)
        return false;
    const int same = eco_recipe_copies(recipe, at);
    if (same >= 0)
        return have[same];
    return have[node->a] && (node->b < 0 || have[node->b]) && (node->c < 0 || have[node->c]);
}

bool eco_lower_saved(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    struct eco_lowered *lowered = lowering->lowered;
    bool need[ECO_MAX_NODES] = {false}, have[ECO_MAX_SOURCE];
    find_needed(lowering, need);
    for (int i = 0; i < recipe->n_nodes; i++) {
        have[i] = is_free(recipe, i) || is_recomputable(recipe, i, have);
        if (have[i] || !need[i])
            continue;
        if (lowered->n_saves == ECO_MAX_SAVES)
            return eco_cell_fail(lowering->error, "the gradient keeps more than %d values per unit",
                                 ECO_MAX_SAVES);
        have[i] = true;
        lowering->save[i] = (int16_t)lowered->n_saves;
        lowered->saved[lowered->n_saves++] = (int16_t)i;
    }
    return true;
}
