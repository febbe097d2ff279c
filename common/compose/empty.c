/*
 * A run of no steps or no rows: states are copied, and the gradient of the weights is zero.
 * Nothing else is read or written.
 */
#include "common/compose/sequence.h"

struct list {
    struct eco_call fill[2 * ECO_MAX_STATES + 1];
    int count;
};

static void add(struct list *list, struct eco_fill fill)
{
    if (fill.to != NULL && fill.to != fill.from && fill.bytes > 0)
        list->fill[list->count++] = (struct eco_call){ECO_CALL_FILL, {.fill = fill}};
}

/* [L*D,N,P] or [L*D,N,H] */
static size_t state_bytes(const struct eco_problem *problem, int state, int32_t N)
{
    return (size_t)problem->L * (size_t)problem->D * (size_t)N *
           (size_t)eco_problem_width(problem, state) *
           eco_type_bytes(eco_problem_state_type(problem, state));
}

void eco_compose_empty(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                       const struct eco_args *args)
{
    struct list list = {.count = 0};
    for (int s = 0; s < plan->problem.cell->recipe.n_states; s++) {
        const size_t bytes = state_bytes(&plan->problem, s, args->N);
        const double start = plan->problem.cell->recipe.start[s];
        add(&list, args->backward ? (struct eco_fill){.name = "gradient.dinitial",
                                                      .from_name = "gradient.dfinal",
                                                      .to = args->dinitial[s],
                                                      .from = args->dfinal[s],
                                                      .bytes = bytes}
                                  : (struct eco_fill){"io.final", "io.initial", args->final[s],
                                                      args->initial[s], bytes, start,
                                                      eco_problem_state_type(&plan->problem, s)});
        if (args->backward)
            add(&list, (struct eco_fill){.name = "gradient.dreset_state",
                                         .to = args->dreset_state[s],
                                         .bytes = bytes});
    }
    if (args->backward && !args->accumulate)
        add(&list, (struct eco_fill){.name = "gradient.dweights",
                                     .to = args->dweights,
                                     .bytes = plan->sizes.dweight_bytes});
    eco_sequence_calls(sequence, list.fill, list.count);
}
