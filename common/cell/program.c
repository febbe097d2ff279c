/*
 * Writes the straight-line code of a stage from what it must store, in the order of the graph.  All
 * stores come last, because a next state may share the memory of the previous one.
 */
#include "common/cell/lowering.h"

#include <string.h>

#include "common/cell/error.h"

bool eco_lower_store(struct eco_lowering *lowering, struct eco_demand *demand, int op, int index,
                     int node)
{
    if (demand->n == ECO_MAX_CODE)
        return eco_cell_fail(lowering->error, "a stage writes more than %d values", ECO_MAX_CODE);
    demand->store[demand->n++] =
        (struct eco_node){(int16_t)op, (int16_t)node, -1, -1, (int16_t)index, 0};
    return true;
}

static bool backward_leaf(const struct eco_lowering *lowering, int at, struct eco_node *leaf)
{
    const struct eco_recipe *recipe = lowering->recipe;
    for (int s = 0; s < recipe->n_states; s++)
        if (recipe->next[s] == at) {
            *leaf = (struct eco_node){ECO_OP_NEXT, -1, -1, -1, (int16_t)s, 0};
            return true;
        }
    if (lowering->save[at] >= 0) {
        *leaf = (struct eco_node){ECO_OP_SAVED, -1, -1, -1, lowering->save[at], 0};
        return true;
    }
    if (leaf->op == ECO_OP_DOPERAND)
        leaf->index = lowering->lowered->operand[leaf->index].slot;
    return leaf->op == ECO_OP_DNEXT || leaf->op == ECO_OP_DOPERAND;
}

bool eco_lower_leaf(const struct eco_lowering *lowering, bool backward, int at,
                    struct eco_node *leaf)
{
    *leaf = lowering->recipe->node[at];
    switch (leaf->op) {
    case ECO_OP_VECTOR:
        leaf->index = (int16_t)(leaf->index - lowering->first_vector);
        return true;
    case ECO_OP_CONST:
    case ECO_OP_STATE:
    case ECO_OP_BERNOULLI:
    case ECO_OP_ACC: /* only linear.c has it in the graph */
        return true;
    default:
        break;
    }
    if (backward && backward_leaf(lowering, at, leaf))
        return true;
    if (leaf->op != ECO_OP_MEAN)
        return false;
    *leaf = (struct eco_node){ECO_OP_MEAN, -1, -1, -1, lowering->mean[at], 0};
    return true;
}

/* The nodes that a computed node needs in a stage. */
static int parts(const struct eco_lowering *lowering, bool backward, int at, int16_t *part)
{
    const struct eco_node *node = &lowering->recipe->node[at];
    struct eco_node leaf;
    if (eco_lower_leaf(lowering, backward, at, &leaf))
        return 0;
    if (!backward && lowering->acc[at] >= 0)
        return eco_lower_addends(lowering, at, part);
    const int same = eco_recipe_copies(lowering->recipe, at);
    part[0] = (int16_t)(same >= 0 ? same : node->a), part[1] = node->b, part[2] = node->c;
    return same >= 0 ? 1 : eco_opcode_info[node->op].arguments;
}

void eco_lower_need(const struct eco_lowering *lowering, bool backward,
                    const struct eco_demand *demand, bool need[ECO_MAX_NODES])
{
    int16_t part[ECO_MAX_SOURCE + 1];
    memset(need, 0, ECO_MAX_NODES * sizeof *need);
    for (int i = 0; i < demand->n; i++) {
        if (demand->store[i].a >= 0)
            need[demand->store[i].a] = true;
        if (demand->store[i].b >= 0)
            need[demand->store[i].b] = true;
    }
    for (int i = lowering->adjoint->n_nodes - 1; i >= 0; i--) {
        const int n = need[i] ? parts(lowering, backward, i, part) : 0;
        for (int k = 0; k < n; k++)
            need[part[k]] = true;
    }
}

static int append(struct eco_lowering *lowering, struct eco_program *program, struct eco_node code)
{
    if (program->n == ECO_MAX_CODE) {
        eco_cell_fail(lowering->error, "a stage of the cell has more than %d instructions",
                      ECO_MAX_CODE);
        return -1;
    }
    program->code[program->n] = code;
    return program->n++;
}

/* Returns a zero, reusing an earlier one. */
static int append_zero(struct eco_lowering *lowering, struct eco_program *program)
{
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_CONST && program->code[i].value == 0)
            return i;
    return append(lowering, program, (struct eco_node){ECO_OP_CONST, -1, -1, -1, 0, 0});
}

/* The sum of an accumulator and the values that are not part of it. */
static int append_sum(struct eco_lowering *lowering, struct eco_program *program, int at,
                      const int16_t *value)
{
    int16_t addend[ECO_MAX_SOURCE + 1];
    const int n = eco_lower_addends(lowering, at, addend);
    int sum =
        append(lowering, program, (struct eco_node){ECO_OP_ACC, -1, -1, -1, lowering->acc[at], 0});
    for (int i = 0; i < n && sum >= 0; i++)
        sum = append(lowering, program,
                     (struct eco_node){ECO_OP_ADD, (int16_t)sum, value[addend[i]], -1, 0, 0});
    return sum;
}

static int append_value(struct eco_lowering *lowering, bool backward, struct eco_program *program,
                        int at, const int16_t *value)
{
    struct eco_node code;
    if (eco_lower_leaf(lowering, backward, at, &code))
        return append(lowering, program, code);
    if (!backward && lowering->acc[at] >= 0)
        return append_sum(lowering, program, at, value);
    const int same = eco_recipe_copies(lowering->recipe, at);
    if (same >= 0)
        return value[same];
    code = lowering->recipe->node[at];
    if (code.a < 0) { /* x or W x, in a form of linear.c: backward saved another value for it */
        eco_cell_fail(lowering->error, "backward does not have a value of x");
        return -1;
    }
    code.a = value[code.a];
    code.b = code.b < 0 ? -1 : value[code.b];
    code.c = code.c < 0 ? -1 : value[code.c];
    return append(lowering, program, code);
}

bool eco_lower_program(struct eco_lowering *lowering, bool backward,
                       const struct eco_demand *demand, struct eco_program *program)
{
    int16_t value[ECO_MAX_NODES];
    bool need[ECO_MAX_NODES];
    program->n = 0;
    eco_lower_need(lowering, backward, demand, need);
    for (int i = 0; i < lowering->adjoint->n_nodes; i++) {
        if (!need[i])
            continue;
        const int at = append_value(lowering, backward, program, i, value);
        if (at < 0)
            return false;
        value[i] = (int16_t)at;
    }
    for (int i = 0; i < demand->n; i++) {
        struct eco_node store = demand->store[i];
        store.a = (int16_t)(store.a < 0 ? append_zero(lowering, program) : value[store.a]);
        if (store.op == ECO_OP_STORE_LINEAR)
            store.b = (int16_t)(store.b < 0 ? append_zero(lowering, program) : value[store.b]);
        if (store.a < 0 || append(lowering, program, store) < 0)
            return false;
    }
    eco_lower_slots(program);
    return true;
}
