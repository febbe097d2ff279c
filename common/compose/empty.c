/*
 * A run of no steps or no rows: states and their gradients are copied, gradients of weights and of
 * states to reset to are zero.
 * Nothing else is read or written.
 */
#include "common/compose/sequence.h"

#include "common/compose/arena.h"
#include "common/run_arrays.h"

/* What the rows say of pointer s of an array. */
static struct eco_fill fill_of(const struct ecornn_plan *plan, const struct eco_args *args,
                               const struct eco_run_array *array, int s)
{
    const struct eco_run_shape shape =
        eco_run_array_shape(array, &plan->problem, s, args->T, args->N);
    struct eco_fill fill = {.name = array->name,
                            .to = eco_after(eco_run_array_get(args, array, s), 0),
                            .bytes = array->element == ECO_ARRAY_BLOCK
                                         ? eco_run_array_bytes(array, &plan->sizes)
                                         : eco_run_shape_bytes(&shape),
                            .type = shape.type};
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        if (eco_run_array[a].at == array->if_empty) {
            fill.from_name = eco_run_array[a].name;
            fill.from = eco_run_array_get(args, &eco_run_array[a], s);
        }
    if (!array->gradient)
        fill.value = plan->problem.cell->recipe.start[s];
    return fill;
}

void eco_compose_empty(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                       const struct eco_args *args)
{
    for (int a = 0; a < eco_run_arrays(args); a++)
        for (int s = 0; s < eco_run_array[a].count; s++) {
            const struct eco_run_array *const array = &eco_run_array[a];
            const bool added = args->accumulate && array->element == ECO_ARRAY_BLOCK;
            if (array->if_empty == ECO_EMPTY_NOTHING || array->gradient != args->backward ||
                added || eco_run_array_get(args, array, s) == NULL)
                continue;
            const struct eco_fill fill = fill_of(plan, args, array, s);
            if (fill.to != fill.from && fill.bytes > 0)
                eco_sequence_calls(sequence, &(struct eco_call){ECO_CALL_FILL, {.fill = fill}}, 1);
        }
}
