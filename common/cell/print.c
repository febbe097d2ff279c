/*
 * Prints a cell for people: its recipe, its gradient, its stages, and what a training run keeps.
 * Programs take the items (items.c); kernels include eco_cell_emit's text.
 */
#include "common/cell/cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/util.h"

/* Words before and after the number of a node without a name in the table of opcodes. */
static const char *const leaf[ECO_OPCODES] = {
    [ECO_OP_DNEXT] = "gradient of next state",
    [ECO_OP_DOPERAND] = "gradient of operand",
    [ECO_OP_ACC] = "accumulator",
    [ECO_OP_SAVED] = "saved value",
    [ECO_OP_NEXT] = "next state",
    [ECO_OP_STORE_OPERAND] = "operand",
    [ECO_OP_STORE_MEAN] = "to the mean",
    [ECO_OP_STORE_SAVE] = "saved value",
    [ECO_OP_STORE_NEXT] = "next state",
    [ECO_OP_STORE_DACC] = "gradient of accumulator",
    [ECO_OP_STORE_DSTATE] = "gradient of state",
};

static bool stores(int op)
{
    return op >= ECO_OP_STORE_OPERAND && op <= ECO_OP_STORE_DSTATE;
}

/* Prints as few digits as give the number back. */
static void print_number(struct eco_text *text, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", value);
    eco_text_add(text, "%.*g", strtod(digits, NULL) == value ? 9 : 17, value);
}

/* x itself, or a part of x. */
static const char *name_of_x(const struct eco_recipe *recipe, int index)
{
    return index == 0 ? "x" : recipe->part[index - 1].name;
}

static void print_value(struct eco_text *text, const struct eco_recipe *recipe,
                        const struct eco_node *node, bool stage)
{
    const int16_t argument[] = {node->a, node->b, node->c};
    if (node->op == ECO_OP_CONST) {
        print_number(text, node->value);
    } else if (node->op == ECO_OP_BERNOULLI) {
        eco_text_add(text, "bernoulli(");
        print_number(text, node->value);
        eco_text_add(text, "%s)", node->index & ECO_DRAW_ONCE ? ", once" : "");
    } else if (node->op == ECO_OP_STATE)
        eco_text_add(text, "%s", recipe->state[node->index]);
    else if (node->op == ECO_OP_VECTOR)
        eco_text_add(
            text, "%s",
            recipe->param[node->index + (stage ? eco_recipe_first_vector(recipe) : 0)].name);
    else if (node->op == ECO_OP_MEAN && stage)
        eco_text_add(text, "mean(%d", node->index);
    else if (node->op == ECO_OP_X)
        eco_text_add(text, "%s", name_of_x(recipe, node->index));
    else if (node->op == ECO_OP_INPUT)
        eco_text_add(text, "%s x", recipe->param[node->index].name);
    else if (node->op == ECO_OP_PRODUCT)
        eco_text_add(text, "%s v%d", recipe->param[node->index].name, node->a);
    else if (leaf[node->op] != NULL)
        eco_text_add(text, "%s %d", leaf[node->op], node->index);
    else
        for (int i = 0; i < eco_opcode_info[node->op].arguments; i++)
            eco_text_add(text, i == 0 ? "%s(v%d" : "%sv%d",
                         i == 0 ? eco_opcode_info[node->op].name : ", ", argument[i]);
    if (node->op == ECO_OP_MEAN && recipe->head_means)
        eco_text_add(text, ", head");
    if (leaf[node->op] == NULL && node->op > ECO_OP_PRODUCT)
        eco_text_add(text, ")");
}

/* Nodes of the recipe, or a stage's instructions. */
static void print_nodes(struct eco_text *text, const struct eco_recipe *recipe,
                        const struct eco_node *node, int from, int to, bool stage)
{
    for (int i = from; i < to; i++) {
        if (node[i].op == ECO_OP_STORE_LINEAR) {
            eco_text_add(text, "  state %d: factor v%d, term v%d\n", node[i].index, node[i].a,
                         node[i].b);
            continue;
        }
        if (node[i].op == ECO_OP_STORE_COUPLED) {
            eco_text_add(text, "  state %d: factor v%d of state %d\n",
                         node[i].index / ECO_MAX_STATES, node[i].a, node[i].index % ECO_MAX_STATES);
            continue;
        }
        if (stores(node[i].op)) {
            eco_text_add(text, "  %s %d = v%d\n", leaf[node[i].op], node[i].index, node[i].a);
            continue;
        }
        eco_text_add(text, "  v%d = ", i);
        print_value(text, recipe, &node[i], stage);
        eco_text_add(text, "\n");
    }
}

/* NAME, or NAME = NUMBER. */
static void print_state(struct eco_text *text, const struct eco_recipe *recipe, int s)
{
    eco_text_add(text, "%s%s", s == 0 ? " states " : ", ", recipe->state[s]);
    if (recipe->start[s] != 0) {
        eco_text_add(text, " = ");
        print_number(text, recipe->start[s]);
    }
}

static void print_recipe(struct eco_text *text, const struct eco_recipe *recipe)
{
    eco_text_add(text, "cell %s:", recipe->name);
    for (int s = 0; s < recipe->n_states; s++)
        print_state(text, recipe, s);
    for (int k = 0; k < recipe->n_parts; k++)
        eco_text_add(text, "%s%s[%c]", k == 0 ? "\nparts of x: " : ", ", recipe->part[k].name,
                     "H1KV"[recipe->part[k].kind]);
    for (int s = 0; recipe->n_outputs > 1 && s < recipe->n_outputs; s++)
        eco_text_add(text, "%s%s", s == 0 ? "\ny: " : ", ", recipe->state[s]);
    eco_text_add(text, "\nparameters:");
    for (int k = 0; k < recipe->n_params; k++)
        eco_text_add(text, " %s", recipe->param[k].name);
    eco_text_add(text, "%s\n\nrecipe\n", recipe->n_params == 0 ? " none" : "");
    print_nodes(text, recipe, recipe->node, 0, recipe->n_nodes, false);
    for (int s = 0; s < recipe->n_states; s++)
        eco_text_add(text, "  %s' = v%d\n", recipe->state[s], recipe->next[s]);
}

static void print_gradient(struct eco_text *text, const struct eco_recipe *recipe,
                           const struct eco_adjoint *adjoint)
{
    eco_text_add(text, "\ngradient\n");
    print_nodes(text, recipe, recipe->node, recipe->n_nodes, adjoint->n_nodes, false);
    for (int k = 0; k < recipe->n_params; k++)
        if (adjoint->product[k] >= 0)
            eco_text_add(text, "  d %s from v%d\n", recipe->param[k].name, adjoint->product[k]);
    for (int k = 0; k <= recipe->n_parts; k++)
        if (adjoint->x[k] >= 0)
            eco_text_add(text, "  d %s = v%d%s\n", name_of_x(recipe, k), adjoint->x[k],
                         k == 0 ? ", and what products give" : "");
    for (int s = 0; s < recipe->n_states; s++)
        if (adjoint->state[s] >= 0)
            eco_text_add(text, "  d %s = v%d, and what products give\n", recipe->state[s],
                         adjoint->state[s]);
}

static void print_accumulators(struct eco_text *text, const struct eco_recipe *recipe,
                               const struct eco_lowered *lowered)
{
    eco_text_add(text, "\naccumulators\n");
    for (int a = 0; a < lowered->n_accs; a++) {
        const struct eco_accumulator *acc = &lowered->acc[a];
        const char *plus = "";
        eco_text_add(text, "  %d = ", a);
        if (acc->input >= 0) {
            eco_text_add(text, "%s x", recipe->param[acc->input].name);
            plus = " + ";
        }
        if (acc->copy >= 0) {
            eco_text_add(text, "%s", name_of_x(recipe, acc->copy));
            plus = " + ";
        }
        for (int o = 0; o < lowered->n_operands; o++)
            if (acc->recurrent[o] >= 0) {
                const struct eco_operand *of = &lowered->operand[o];
                eco_text_add(text, "%s%s ", plus, recipe->param[acc->recurrent[o]].name);
                if (of->state >= 0)
                    eco_text_add(text, "%s", recipe->state[of->state]);
                else
                    eco_text_add(text, "operand %d", of->slot);
                plus = " + ";
            }
        if (acc->vector >= 0)
            eco_text_add(text, "%s%s", plus, recipe->param[acc->vector].name);
        eco_text_add(text, ", read from stage %d on\n", acc->stage);
    }
}

static void print_stages(struct eco_text *text, const struct eco_recipe *recipe, const char *pass,
                         const struct eco_program *stage, int count)
{
    for (int k = 0; k < count; k++) {
        eco_text_add(text, "\n%s, stage %d\n", pass, k);
        print_nodes(text, recipe, stage[k].code, 0, stage[k].n, true);
    }
}

static void print_saved(struct eco_text *text, const struct eco_lowered *lowered)
{
    eco_text_add(text, "\nsaved in training, besides states:");
    for (int k = 0; k < lowered->n_saves; k++)
        eco_text_add(text, "%s v%d of the recipe", k > 0 ? "," : "", lowered->saved[k]);
    eco_text_add(text, "%s\n", lowered->n_saves == 0 ? " nothing" : "");
}

/* The form of a step of a matrix state, and the values that it adds to those of the text. */
static void print_rule(struct eco_text *text, const struct eco_recipe *recipe,
                       const struct eco_matrix_rule *rule)
{
    const struct {
        const char *name;
        int16_t node;
    } term[] = {{"decay", rule->decay}, {"read", rule->read}, {"scale", rule->scale},
                {"other", rule->other}, {"key", rule->key},   {"value", rule->value},
                {"query", rule->query}, {"out", rule->out}};
    const char *const S = recipe->state[rule->state];
    if (rule->refusal != NULL) {
        eco_text_add(text, "\nno kernel: %s\n", rule->refusal);
        return;
    }
    eco_text_add(text,
                 "\nstep: u = %s^T read, %s' = decay %s + key (value + scale u)^T + other u^T, "
                 "out = %s'^T query\n",
                 S, S, S, S);
    print_nodes(text, recipe, recipe->node, recipe->n_nodes, rule->n_nodes, false);
    for (size_t k = 0; k < sizeof term / sizeof *term; k++)
        if (term[k].node >= 0)
            eco_text_add(text, "  %s = v%d\n", term[k].name, term[k].node);
}

bool eco_cell_print(const struct ecornn_cell *cell, struct eco_text *text)
{
    struct eco_recipe *recipe = eco_alloc(sizeof *recipe);
    struct eco_adjoint adjoint;
    struct eco_cell_error error;
    if (recipe == NULL)
        return false;
    memcpy(recipe, &cell->recipe, sizeof *recipe);
    print_recipe(text, recipe);
    if (recipe->matrix) {
        print_rule(text, recipe, &cell->rule);
        eco_free(recipe);
        return true;
    }
    if (eco_recipe_gradient(recipe, &adjoint,
                            &error)) /* succeeds, as it did when the cell was parsed */
        print_gradient(text, recipe, &adjoint);
    print_accumulators(text, recipe, &cell->lowered);
    print_stages(text, recipe, "forward", cell->lowered.forward, cell->lowered.n_forward);
    print_stages(text, recipe, "backward", cell->lowered.backward, cell->lowered.n_backward);
    if (cell->lowered.linear.scans)
        for (int pass = 0; pass < 2; pass++)
            print_stages(text, recipe, pass ? "scan back" : "scan forward",
                         &cell->lowered.linear.program[pass], 1);
    print_saved(text, &cell->lowered);
    eco_free(recipe);
    return true;
}
