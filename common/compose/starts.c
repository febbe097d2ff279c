/*
 * Start values of states that the caller does not give; see starts.h.
 */
#include "common/compose/starts.h"

/* [L*D,N,width] of the caller's type; 0 bytes for a state that starts at zero. */
static struct eco_size bytes_of(const struct eco_layout *layout, int state)
{
    const struct eco_problem *problem = layout->problem;
    if (problem->cell->recipe.start[state] == 0 || layout->request.plain)
        return eco_size_of(0);
    const size_t pairs = (size_t)problem->L * (size_t)problem->D * eco_type_bytes(layout->type);
    return eco_size_align(eco_size_mul(eco_size_mul(eco_size_of(pairs), (size_t)layout->N),
                                       (size_t)eco_problem_width(problem, state)));
}

struct eco_size eco_starts_bytes(const struct eco_layout *layout)
{
    struct eco_size all = eco_size_of(0);
    for (int s = 0; s < layout->problem->cell->recipe.n_states; s++)
        all = eco_size_add(all, bytes_of(layout, s));
    return all;
}

bool eco_starts_begin(struct eco_starts *starts, const struct eco_layout *layout,
                      const struct eco_args *args)
{
    const struct eco_recipe *recipe = &layout->problem->cell->recipe;
    char *at = (char *)args->workspace + layout->starts;
    starts->fills = 0;
    for (int s = 0; s < recipe->n_states; s++) {
        const size_t bytes = bytes_of(layout, s).value;
        const bool begins = args->initial[s] == NULL,
                   at_resets = args->resets != NULL && args->reset_state[s] == NULL;
        if (bytes == 0 || !(begins || at_resets))
            continue;
        if (starts->fills == 0)
            starts->inside = *args;
        starts->fill[starts->fills++] = (struct eco_call){ECO_CALL_FILL,
                                                          {.fill = {.name = "io.workspace",
                                                                    .to = at,
                                                                    .bytes = bytes,
                                                                    .value = recipe->start[s],
                                                                    .type = layout->type}}};
        if (begins)
            starts->inside.initial[s] = at;
        if (at_resets)
            starts->inside.reset_state[s] = at;
        at += bytes;
    }
    return starts->fills > 0;
}
