/*
 * Storage of an interpreter's values.  Values that are needed at different times share a slot.  A
 * value that is the same for all units of a row is marked, so that it is computed once; so is one
 * made of vectors alone, which is the same for all rows.  All loads come before all arithmetic.
 */
#include "common/cell/lowering.h"

#include <string.h>

static bool is_uniform(const struct eco_program *program, int at)
{
    const struct eco_node *code = &program->code[at];
    const int16_t argument[3] = {code->a, code->b, code->c};
    if (code->op == ECO_OP_CONST || code->op == ECO_OP_MEAN)
        return true;
    bool uniform = eco_opcode_info[code->op].arguments > 0 && !eco_lower_stores(code->op);
    for (int k = 0; k < 3; k++)
        uniform &= argument[k] < 0 || program->uniform[argument[k]];
    return uniform;
}

static bool is_fixed(const struct eco_program *program, int at)
{
    const struct eco_node *code = &program->code[at];
    const int16_t argument[3] = {code->a, code->b, code->c};
    bool fixed = eco_opcode_info[code->op].arguments > 0 && !eco_lower_stores(code->op) &&
                 !program->uniform[at];
    for (int k = 0; k < 3; k++) {
        const int op = argument[k] >= 0 ? program->code[argument[k]].op : ECO_OP_CONST;
        fixed &= op == ECO_OP_CONST || op == ECO_OP_VECTOR || program->fixed[argument[k]];
    }
    return fixed;
}

/* For each value the last instruction that reads it. */
static void find_last(const struct eco_program *program, int16_t last[ECO_MAX_CODE])
{
    for (int i = 0; i < program->n; i++) {
        const struct eco_node *code = &program->code[i];
        const int16_t argument[3] = {code->a, code->b, code->c};
        last[i] = (int16_t)i;
        for (int k = 0; k < 3; k++)
            if (argument[k] >= 0)
                last[argument[k]] = (int16_t)i;
    }
}

/* Collects the slots of arguments that instruction i is the last to read. */
static int release(const struct eco_program *program, const int16_t *last, int i, int16_t *slot)
{
    const struct eco_node *code = &program->code[i];
    const int16_t argument[3] = {code->a, code->b, code->c};
    int n = 0;
    for (int k = 0; k < 3; k++) {
        const int a = argument[k];
        const bool again = (k > 0 && a == code->a) || (k > 1 && a == code->b);
        if (a >= 0 && !again && last[a] == i && !program->uniform[a] && !program->fixed[a])
            slot[n++] = program->slot[a];
    }
    return n;
}

void eco_lower_slots(struct eco_program *program)
{
    int16_t last[ECO_MAX_CODE], unused[ECO_MAX_CODE];
    int n_unused = 0;
    find_last(program, last);
    program->n_uniform = program->n_slots = 0;
    for (int i = 0; i < program->n; i++) {
        const bool load = eco_opcode_info[program->code[i].op].arguments == 0;
        program->uniform[i] = is_uniform(program, i);
        program->fixed[i] = is_fixed(program, i);
        program->slot[i] = -1;
        if (program->uniform[i])
            program->slot[i] = (int16_t)program->n_uniform++;
        else if (load || program->fixed[i])
            program->slot[i] = (int16_t)program->n_slots++;
    }
    for (int i = 0; i < program->n; i++) {
        n_unused += release(program, last, i, unused + n_unused);
        if (program->slot[i] < 0 && !eco_lower_stores(program->code[i].op))
            program->slot[i] = n_unused > 0 ? unused[--n_unused] : (int16_t)program->n_slots++;
    }
}
