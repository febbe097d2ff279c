/*
 * The items of a compiled cell, for programs: its head, then its step forward, as ecornn.h lists
 * them.  An item is found by walking through all before it, so that nothing is kept for them.
 */
#include "common/cell/cell.h"

#include <stdio.h>

#include "ecornn.h"

struct walk {
    const struct ecornn_cell *cell;
    int left; /* items before the one that is wanted */
    int stage;
    ecornn_cell_item *item;
};

/* Passes an item: is it the wanted one? */
static bool wants(struct walk *walk)
{
    return walk->left-- == 0;
}

static bool give(const struct walk *walk, const char *word, const char *name, int index,
                 const int argument[3])
{
    *walk->item = (ecornn_cell_item){
        .stage = walk->stage, .index = index, .argument = {argument[0], argument[1], argument[2]}};
    snprintf(walk->item->word, sizeof walk->item->word, "%s", word);
    snprintf(walk->item->name, sizeof walk->item->name, "%s", name);
    return true;
}

/* About a parameter. */
static bool give_param(const struct walk *walk, const char *word, int index, const int argument[3])
{
    return give(walk, word, walk->cell->recipe.param[argument[0]].name, index, argument);
}

static bool find_in_head(struct walk *walk)
{
    const struct eco_recipe *recipe = &walk->cell->recipe;
    if (wants(walk))
        return give(walk, "cell", recipe->name, 0, (int[]){-1, -1, -1});
    for (int s = 0; s < recipe->n_states; s++)
        if (wants(walk)) {
            give(walk, "state", recipe->state[s], s, (int[]){s < recipe->n_outputs, -1, -1});
            walk->item->value = recipe->start[s];
            return true;
        }
    for (int k = 0; k < recipe->n_parts; k++)
        if (wants(walk))
            return give(walk, "part", recipe->part[k].name, k,
                        (int[]){"H1KV"[recipe->part[k].kind], -1, -1});
    for (int k = 0; k < recipe->n_params; k++)
        if (wants(walk))
            return give(walk, "parameter", recipe->param[k].name, k, (int[]){-1, -1, -1});
    return false;
}

/* In the order in which an instruction set adds: sums begin with a bias or a copy. */
static bool find_in_sums(struct walk *walk)
{
    const struct eco_lowered *lowered = &walk->cell->lowered;
    for (int a = 0; walk->stage == 0 && a < lowered->n_accs; a++) {
        const struct eco_accumulator *acc = &lowered->acc[a];
        if (acc->vector >= 0 && wants(walk))
            return give_param(walk, "bias", a, (int[]){acc->vector, -1, -1});
        if (acc->copy >= 0 && wants(walk))
            return give(walk, "copy",
                        acc->copy == 0 ? "x" : walk->cell->recipe.part[acc->copy - 1].name, a,
                        (int[]){acc->copy - 1, -1, -1});
        if (acc->input >= 0 && wants(walk))
            return give_param(walk, "input", a, (int[]){acc->input, -1, -1});
    }
    for (int o = 0; o < lowered->n_operands; o++) {
        const struct eco_operand *of = &lowered->operand[o];
        for (int a = 0; of->forward == walk->stage && a < lowered->n_accs; a++) {
            const int param = lowered->acc[a].recurrent[o];
            if (param >= 0 && wants(walk))
                return give_param(walk, "product", a, (int[]){param, of->state, of->slot});
        }
    }
    return false;
}

static bool give_instruction(const struct walk *walk)
{
    const struct eco_recipe *recipe = &walk->cell->recipe;
    const struct eco_node *code = &walk->cell->lowered.forward[walk->stage].code[walk->left];
    const bool vector = code->op == ECO_OP_VECTOR, state = code->op == ECO_OP_STATE;
    const bool mean = code->op == ECO_OP_MEAN, store = code->op >= ECO_OP_STORE_OPERAND;
    const int loaded = code->index + (vector ? eco_recipe_first_vector(recipe) : 0);
    const bool loads = vector || state || mean || code->op == ECO_OP_ACC;
    give(walk, eco_cell_word(code->op),
         vector                                   ? recipe->param[loaded].name
         : state || code->op == ECO_OP_STORE_NEXT ? recipe->state[code->index]
                                                  : "",
         store ? code->index : walk->left,
         (int[]){loads ? loaded : code->a, mean ? recipe->head_means : code->b, code->c});
    walk->item->value = code->value;
    return true;
}

bool eco_cell_item(const struct ecornn_cell *cell, int index, ecornn_cell_item *item)
{
    struct walk walk = {cell, index, -1, item};
    bool found = find_in_head(&walk);
    for (int k = 0; !found && k < cell->lowered.n_forward; k++) {
        const int n = cell->lowered.forward[k].n;
        walk.stage = k;
        found = find_in_sums(&walk) || (walk.left < n && give_instruction(&walk));
        walk.left -= n;
    }
    return found;
}
