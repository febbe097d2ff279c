/*
 * Decides whether forward can be repeated for many steps at once if their output states are known:
 * stage by stage, with each product over all steps.
 */
#include "common/cell/cell.h"

static bool reads_others(const struct eco_program *program)
{
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_STATE && program->code[i].index > 0)
            return true;
    return false;
}

bool eco_cell_replays_at_once(const struct ecornn_cell *cell, bool known)
{
    const struct eco_lowered *lowered = &cell->lowered;
    if (lowered->n_means[0] > 0)
        return false;
    for (int o = 0; o < lowered->n_operands; o++)
        if (lowered->operand[o].state > 0 && !known)
            return false;
    for (int k = 0; k + 1 < lowered->n_forward; k++)
        if (reads_others(&lowered->forward[k]) && !known)
            return false;
    return true;
}
