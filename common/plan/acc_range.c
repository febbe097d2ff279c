/*
 * The accumulators that use a weight, and the position of a vector's values and gradient.
 */
#include "common/weights.h"

bool eco_acc_range_next(const struct eco_lowered *lowered, int weight_id, int from,
                        struct eco_acc_range *range)
{
    *range = (struct eco_acc_range){0, 0, 0};
    if (weight_id == ECO_WEIGHT_PROJECT) {
        range->end = 1;
        return from == 0;
    }
    for (int a = 0; a < lowered->n_accs; a++) {
        const struct eco_accumulator *acc = &lowered->acc[a];
        const bool has =
            (weight_id == ECO_WEIGHT_INPUT ? acc->input
                                           : acc->recurrent[weight_id - ECO_WEIGHT_RECURRENT]) >= 0;
        if (has && a >= from && range->end == 0)
            range->first = a;
        if (has && a >= from && (range->end == 0 || range->end == a))
            range->end = a + 1;
        range->before += has && a < from;
    }
    return range->end > 0;
}

int eco_vector_number(const struct eco_recipe *recipe, int param)
{
    int before = 0;
    for (int i = 0; i < param; i++)
        before += recipe->param[i].kind == ECO_PARAM_VECTOR;
    return before;
}

int eco_vector_column(const struct eco_lowered *lowered, int param)
{
    for (int a = 0; a < lowered->n_accs; a++)
        if (lowered->acc[a].vector == param)
            return a;
    for (int i = 0; i < lowered->n_extra; i++)
        if (lowered->extra[i] == param)
            return lowered->n_accs + i;
    return -1;
}
