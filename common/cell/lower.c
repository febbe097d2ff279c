/*
 * Cuts the graph into stages.  A stage ends where a later value needs the product of a value of
 * this step, or a mean over its row.  A stage's program computes exactly what its results need.
 */
#include "common/cell/lowering.h"

#include <string.h>

#include "common/cell/error.h"

/* The node of an operand's gradient, -1 if nothing uses it. */
static int find_doperand(const struct eco_lowering *lowering, int operand)
{
    for (int i = lowering->recipe->n_nodes; i < lowering->adjoint->n_nodes; i++) {
        const struct eco_node *node = &lowering->recipe->node[i];
        if (node->op == ECO_OP_DOPERAND && node->index == operand && lowering->uses[i] > 0)
            return i;
    }
    return -1;
}

static void place_operands(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    struct eco_lowered *lowered = lowering->lowered;
    lowered->n_operands = lowering->adjoint->n_operands;
    for (int k = 0; k < lowered->n_operands; k++) {
        struct eco_operand *operand = &lowered->operand[k];
        const int node = lowering->adjoint->operand[k], gradient = find_doperand(lowering, k);
        const bool is_state = recipe->node[node].op == ECO_OP_STATE;
        operand->node = (int16_t)node;
        operand->state = (int16_t)(is_state ? recipe->node[node].index : -1);
        operand->slot = (int16_t)(is_state ? -1 : lowered->n_slots++);
        operand->forward = (int16_t)(is_state ? 0 : lowering->level[0][node] + 1);
        operand->backward =
            (int16_t)(gradient < 0 ? lowered->n_backward : lowering->level[1][gradient]);
    }
}

static bool place_means(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    int *n = lowering->lowered->n_means;
    for (int i = 0; i < lowering->adjoint->n_nodes; i++)
        if (recipe->node[i].op == ECO_OP_MEAN && lowering->uses[i] > 0)
            lowering->mean[i] = (int16_t)n[i >= recipe->n_nodes]++;
    lowering->lowered->has_means = n[0] + n[1] > 0;
    if (n[0] > ECO_MAX_MEANS || n[1] > ECO_MAX_MEANS)
        return eco_cell_fail(lowering->error, "the gradient of the cell has %d means, at most %d",
                             n[0] > n[1] ? n[0] : n[1], ECO_MAX_MEANS);
    return true;
}

static void place_extra(struct eco_lowering *lowering)
{
    const struct eco_recipe *recipe = lowering->recipe;
    struct eco_lowered *lowered = lowering->lowered;
    lowering->first_vector = eco_recipe_first_vector(recipe);
    for (int i = lowering->first_vector; i < recipe->n_params; i++)
        if (lowering->part_of[recipe->param[i].node] < 0)
            lowered->extra[lowered->n_extra++] = (int16_t)i;
}

/* A projection h = P u requires that h occurs only under R, and u only as the next state. */
static bool is_projectable(const struct eco_recipe *recipe)
{
    bool seen = recipe->node[recipe->next[0]].op == ECO_OP_STATE &&
                recipe->node[recipe->next[0]].index == 0;
    for (int s = 1; s < recipe->n_states; s++) {
        const struct eco_node *next = &recipe->node[recipe->next[s]];
        seen |= recipe->next[s] == recipe->next[0];
        seen |= next->op == ECO_OP_STATE && next->index == 0;
    }
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        const int16_t argument[3] = {node->a, node->b, node->c};
        for (int k = 0; k < 3 && argument[k] >= 0; k++) {
            const struct eco_node *from = &recipe->node[argument[k]];
            const bool output = from->op == ECO_OP_STATE && from->index == 0;
            seen |= argument[k] == recipe->next[0] && from->op != ECO_OP_STATE &&
                    from->op != ECO_OP_CONST;
            seen |= output && node->op != ECO_OP_PRODUCT;
        }
    }
    return !seen;
}

static bool demand_means(struct eco_lowering *lowering, bool backward, int stage,
                         struct eco_demand *demand)
{
    const struct eco_recipe *recipe = lowering->recipe;
    const int begin = backward ? recipe->n_nodes : 0;
    const int end = backward ? lowering->adjoint->n_nodes : recipe->n_nodes;
    for (int i = begin; i < end; i++)
        if (lowering->mean[i] >= 0 && lowering->level[backward][i] == stage + 1 &&
            !eco_lower_store(lowering, demand, ECO_OP_STORE_MEAN, lowering->mean[i],
                             recipe->node[i].a))
            return false;
    return true;
}

/* Saves what this stage computes and no earlier one did; the last stage saves the rest. */
static bool demand_saves(struct eco_lowering *lowering, bool last, struct eco_demand *demand)
{
    const struct eco_lowered *lowered = lowering->lowered;
    bool need[ECO_MAX_NODES];
    eco_lower_need(lowering, false, demand, need);
    for (int i = 0; i < lowered->n_saves; i++) {
        const int node = lowered->saved[i];
        if (lowering->stored[node] || !(need[node] || last))
            continue;
        lowering->stored[node] = true;
        if (!eco_lower_store(lowering, demand, ECO_OP_STORE_SAVE, i, node))
            return false;
    }
    return true;
}

static bool lower_forward(struct eco_lowering *lowering, int stage)
{
    struct eco_lowered *lowered = lowering->lowered;
    struct eco_program *program = &lowered->forward[stage];
    const bool last = stage == lowered->n_forward - 1;
    struct eco_demand demand = {.n = 0};
    for (int k = 0; k < lowered->n_operands; k++) {
        const struct eco_operand *operand = &lowered->operand[k];
        if (operand->slot >= 0 && operand->forward == stage + 1 &&
            !eco_lower_store(lowering, &demand, ECO_OP_STORE_OPERAND, operand->slot, operand->node))
            return false;
    }
    if (!demand_means(lowering, false, stage, &demand))
        return false;
    for (int s = 0; last && s < lowering->recipe->n_states; s++)
        if (!eco_lower_store(lowering, &demand, ECO_OP_STORE_NEXT, s, lowering->recipe->next[s]))
            return false;
    if (!demand_saves(lowering, last, &demand) ||
        !eco_lower_program(lowering, false, &demand, program))
        return false;
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_ACC && lowered->acc[program->code[i].index].stage < 0)
            lowered->acc[program->code[i].index].stage = (int16_t)stage;
    return true;
}

/* The backward stage that writes an accumulator's gradient: the last before R^T needs it. */
static int dacc_stage(const struct eco_lowered *lowered, int acc)
{
    int stage = lowered->n_backward - 1;
    for (int k = 0; k < lowered->n_operands; k++)
        if (lowered->acc[acc].recurrent[k] >= 0 && lowered->operand[k].backward <= stage)
            stage = lowered->operand[k].backward - 1;
    return stage;
}

static int acc_gradient(const struct eco_lowering *lowering, int acc)
{
    const struct eco_accumulator *a = &lowering->lowered->acc[acc];
    int param = a->input;
    if (a->copy >= 0)
        return lowering->adjoint->x[a->copy];
    for (int k = 0; k < ECO_MAX_OPERANDS && param < 0; k++)
        param = a->recurrent[k];
    return lowering->adjoint->product[param];
}

static bool demand_results(struct eco_lowering *lowering, struct eco_demand *demand)
{
    const struct eco_lowered *lowered = lowering->lowered;
    const struct eco_adjoint *adjoint = lowering->adjoint;
    for (int i = 0; i < lowered->n_extra; i++)
        if (!eco_lower_store(lowering, demand, ECO_OP_STORE_DACC, lowered->n_accs + i,
                             adjoint->product[lowered->extra[i]]))
            return false;
    for (int k = 0; k < lowered->n_operands; k++)
        if (lowered->operand[k].slot >= 0 &&
            !eco_lower_store(lowering, demand, ECO_OP_STORE_OPERAND, lowered->operand[k].slot,
                             lowered->operand[k].node))
            return false;
    for (int s = 0; s < lowering->recipe->n_states; s++)
        if (!eco_lower_store(lowering, demand, ECO_OP_STORE_DSTATE, s, adjoint->state[s]))
            return false;
    return true;
}

static bool lower_backward(struct eco_lowering *lowering, int stage)
{
    struct eco_lowered *lowered = lowering->lowered;
    struct eco_demand demand = {.n = 0};
    for (int i = 0; i < lowered->n_accs; i++)
        if (dacc_stage(lowered, i) == stage &&
            !eco_lower_store(lowering, &demand, ECO_OP_STORE_DACC, i, acc_gradient(lowering, i)))
            return false;
    if (!demand_means(lowering, true, stage, &demand))
        return false;
    if (stage == lowered->n_backward - 1 && !demand_results(lowering, &demand))
        return false;
    return eco_lower_program(lowering, true, &demand, &lowered->backward[stage]);
}

static bool remembers(const struct eco_recipe *recipe, const struct eco_lowered *lowered)
{
    bool reads = false;
    for (int k = 0; k < lowered->n_operands; k++)
        if (lowered->operand[k].state == 0)
            return false;
    for (int i = 0; i < recipe->n_nodes; i++)
        reads |= recipe->node[i].op == ECO_OP_STATE && recipe->node[i].index == 0;
    return reads;
}

bool eco_recipe_lower(struct eco_recipe *recipe, const struct eco_adjoint *adjoint,
                      struct eco_lowered *lowered, struct eco_cell_error *error)
{
    struct eco_lowering lowering = {
        .recipe = recipe, .adjoint = adjoint, .lowered = lowered, .error = error};
    memset(lowered, 0, sizeof *lowered);
    lowered->raw = -1;
    memset(lowering.part_of, -1, sizeof lowering.part_of);
    memset(lowering.acc, -1, sizeof lowering.acc);
    memset(lowering.save, -1, sizeof lowering.save);
    memset(lowering.mean, -1, sizeof lowering.mean);
    eco_lower_uses(&lowering);
    eco_lower_levels(&lowering);
    if (!eco_lower_accumulators(&lowering) || !eco_lower_saved(&lowering) ||
        !eco_lower_stages(&lowering) || !place_means(&lowering))
        return false;
    place_operands(&lowering);
    place_extra(&lowering);
    lowered->projectable = is_projectable(recipe);
    lowered->remembers = remembers(recipe, lowered);
    for (int k = 0; k < lowered->n_forward; k++)
        if (!lower_forward(&lowering, k))
            return false;
    for (int k = 0; k < lowered->n_backward; k++)
        if (!lower_backward(&lowering, k))
            return false;
    eco_lower_carried(lowered);
    eco_lower_linear(&lowering, recipe);
    return true;
}
