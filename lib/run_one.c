/*
 * Running a plan of one model: every argument is checked here, once, before anything is written;
 * then the arguments, the tape and the layout of this run's size go to the plan's algorithm.
 */
#include "ecornn.h"

#include <inttypes.h>

#include "common/backend.h"
#include "common/caller.h"
#include "common/mark.h"
#include "common/compaction.h"
#include "common/starts.h"
#include "common/util.h"
#include "lib/check.h"
#include "lib/models.h"

/* Checks optional pointers, one for each state of the cell. */
static ecornn_status check_states(const char *name, const void *const *state,
                                  const struct eco_problem *problem)
{
    const int count = problem->cell->recipe.n_states;
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        if (state[s] && s >= count)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, but %s has %d state%s", name, s,
                            state[s], problem->cell->recipe.name, count, count > 1 ? "s" : "");
        if (!eco_is_aligned(state[s], eco_type_bytes(problem->type)))
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, must be aligned to %zu bytes", name,
                            s, state[s], eco_type_bytes(problem->type));
    }
    return ECORNN_OK;
}

/* The same for writable pointers, which C does not convert implicitly. */
static ecornn_status check_results(const char *name, void *const *state,
                                   const struct eco_problem *problem)
{
    const void *read[ECORNN_MAX_STATES];
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        read[s] = state[s];
    return check_states(name, read, problem);
}

static ecornn_status check_all_states(const char *name, const void *const *state,
                                      const struct eco_problem *problem)
{
    for (int s = 0; !problem->states && s < ECORNN_MAX_STATES; s++)
        if (state[s])
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "%s[%d] is %p, but plan %s is without ECORNN_ALL_STATES", name, s,
                            state[s], problem->text);
    return check_states(name, state, problem);
}

static bool has_states(const ecornn_io *io)
{
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        if (io->initial[s] || io->final[s])
            return true;
    return false;
}

/* T and N of a run.  Both 0 means that the caller left them unset: the plan's.  With states it may
 * also be the empty chunk of a stream, for which reading T steps would read foreign memory. */
static ecornn_status check_counts(struct eco_args *args, const struct ecornn_plan *plan,
                                  const ecornn_io *io)
{
    const int32_t T = plan->problem.T, N = plan->problem.N;
    if (io->steps == 0 && io->batch == 0) {
        args->T = T;
        args->N = N;
        if (has_states(io))
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "io.steps and io.batch are both 0 in a run with states: write "
                            "ECORNN_ALL for the plan's %d and %d, or the batch of an empty run",
                            (int)T, (int)N);
        return ECORNN_OK;
    }
    const ecornn_status status = eco_check_count("io.steps", io->steps, T, &args->T);
    return status == ECORNN_OK ? eco_check_count("io.batch", io->batch, N, &args->N) : status;
}

/* A run of no steps or no rows accesses only states and gradients of weights. */
static bool is_empty(const struct eco_args *args)
{
    return args->T == 0 || args->N == 0;
}

/* Checks the lengths of all models, if each has its own. */
static ecornn_status check_lengths(const struct ecornn_plan *plan, const int32_t *lengths,
                                   int32_t T, int32_t N)
{
    const int64_t all = (int64_t)N * (plan->problem.shared ? 1 : plan->problem.models);
    for (int64_t n = 0; lengths && n < all; n++)
        if (lengths[n] < 0 || lengths[n] > T)
            return eco_fail(ECORNN_BAD_ARGUMENT, "io.lengths[%" PRId64 "] is %d, must be 0 to %d",
                            n, (int)lengths[n], (int)T);
    return ECORNN_OK;
}

static ecornn_status check_reserve(const struct ecornn_plan *plan, const ecornn_io *io,
                                   bool required)
{
    if (io->reserve && !plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve is %p, but plan %s is without ECORNN_TRAINING", io->reserve,
                        plan->problem.text);
    return eco_check_pointer("io.reserve", io->reserve, required, plan->sizes.alignment);
}

static ecornn_status check_blocks(const struct ecornn_plan *plan, const ecornn_io *io,
                                  const struct eco_args *args)
{
    const size_t element = eco_type_bytes(plan->problem.type), block = plan->sizes.alignment;
    const bool runs = !is_empty(args);
    ecornn_status status = eco_check_pointer("io.x", io->x, runs, element);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.lengths", io->lengths, false, sizeof *io->lengths);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.y", io->y, false, element);
    if (status == ECORNN_OK)
        status = check_states("io.initial", io->initial, &plan->problem);
    if (status == ECORNN_OK)
        status = check_results("io.final", io->final, &plan->problem);
    if (status == ECORNN_OK)
        status = check_states("io.reset_state", io->reset_state, &plan->problem);
    if (status == ECORNN_OK && io->resets && !plan->problem.resets)
        status =
            eco_fail(ECORNN_BAD_ARGUMENT, "io.resets is %p, but plan %s is without ECORNN_RESETS",
                     (const void *)io->resets, plan->problem.text);
    if (status == ECORNN_OK && io->mask && !plan->problem.masks)
        status = eco_fail(ECORNN_BAD_ARGUMENT, "io.mask is %p, but plan %s is without ECORNN_MASK",
                          (const void *)io->mask, plan->problem.text);
    if (status == ECORNN_OK)
        status = check_all_states("io.states", (const void *const *)io->states, &plan->problem);
    if (status == ECORNN_OK)
        status =
            eco_check_pointer("io.weights", io->weights, runs && plan->sizes.weights > 0, block);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.workspace", io->workspace, runs && plan->sizes.workspace > 0,
                                   block);
    if (status == ECORNN_OK)
        status = check_reserve(plan, io, runs && args->backward);
    return status;
}

/* Checks what forward and backward have in common, and copies it to args. */
static ecornn_status read_io(struct eco_args *args, const struct ecornn_plan *plan,
                             const ecornn_io *io, bool backward)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!io)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io is NULL");
    if (io->size != sizeof *io)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.size is %zu, must be %zu", io->size, sizeof *io);
    *args = (struct eco_args){.lengths = io->lengths,
                              .x = io->x,
                              .y = io->y,
                              .resets = io->resets,
                              .mask = io->mask,
                              .weights = io->weights,
                              .workspace = io->workspace,
                              .reserve = io->reserve,
                              .seed = io->seed,
                              .first_step = io->first_step,
                              .first_row = io->first_row,
                              .stream = io->stream,
                              .backward = backward};
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        args->initial[s] = io->initial[s];
        args->final[s] = io->final[s];
        args->reset_state[s] = io->reset_state[s];
        args->states[s] = backward ? NULL : io->states[s];
    }
    ecornn_status status = check_counts(args, plan, io);
    if (status == ECORNN_OK)
        status = check_blocks(plan, io, args);
    if (status == ECORNN_OK && !plan->device->caps.own_memory)
        status = check_lengths(plan, io->lengths, args->T, args->N);
    return status;
}

static ecornn_status read_gradient(struct eco_args *args, const struct ecornn_plan *plan,
                                   const ecornn_gradient *gradient)
{
    if (!gradient)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient is NULL");
    if (gradient->size != sizeof *gradient)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.size is %zu, must be %zu", gradient->size,
                        sizeof *gradient);
    args->dy = gradient->dy;
    args->dx = gradient->dx;
    args->dweights = gradient->dweights;
    args->accumulate = gradient->accumulate != 0;
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        args->dfinal[s] = gradient->dfinal[s];
        args->dinitial[s] = gradient->dinitial[s];
        args->dreset_state[s] = gradient->dreset_state[s];
        args->dstates[s] = gradient->dstates[s];
        if (args->dreset_state[s] && !plan->problem.resets)
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "gradient.dreset_state[%d] is %p, but plan %s is without ECORNN_RESETS",
                            s, args->dreset_state[s], plan->problem.text);
    }
    const size_t element = eco_type_bytes(plan->problem.type);
    ecornn_status status = eco_check_pointer("gradient.dy", args->dy, false, element);
    if (status == ECORNN_OK)
        status = check_states("gradient.dfinal", args->dfinal, &plan->problem);
    if (status == ECORNN_OK)
        status = eco_check_pointer("gradient.dx", args->dx, false, element);
    if (status == ECORNN_OK)
        status = check_results("gradient.dinitial", args->dinitial, &plan->problem);
    if (status == ECORNN_OK)
        status = check_results("gradient.dreset_state", args->dreset_state, &plan->problem);
    if (status == ECORNN_OK)
        status = check_all_states("gradient.dstates", args->dstates, &plan->problem);
    if (status == ECORNN_OK)
        status =
            eco_check_pointer("gradient.dweights", args->dweights, false, plan->sizes.alignment);
    return status;
}

/* Requires y if the reserve has no second copy of it. */
static ecornn_status check_y(const struct eco_layout *layout, const struct eco_args *args)
{
    if (args->y == NULL && eco_layout_replays(layout))
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.y is NULL, but this plan does not save all: "
                                             "backward reads it");
    if (args->y == NULL && layout->training && eco_layout_is_lean(layout))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.y is NULL, but with a reserve this device needs it: backward reads it");
    if (args->y == NULL && args->states[0] != NULL && eco_layout_is_lean(layout))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.y is NULL, but on this device io.states[0] is a copy of it");
    return ECORNN_OK;
}

static const struct eco_layout *layout_of(const struct ecornn_plan *plan,
                                          const struct eco_args *args)
{
    if (args->reserve == NULL)
        return &plan->layout[ECO_LAYOUT_INFER];
    const struct eco_layout *train = &plan->layout[ECO_LAYOUT_TRAIN];
    return args->backward && eco_layout_replays(train) ? &plan->layout[ECO_LAYOUT_BACK] : train;
}

static ecornn_status run_tape(const struct ecornn_plan *plan, const struct eco_layout *layout,
                              const struct eco_args *args)
{
    const struct eco_tape *tape = &plan->tape[args->backward][args->lengths != NULL];
    struct eco_tape shorter;
    const int32_t chunk = args->backward ? layout->chunk_backward : layout->chunk;
    if (args->T != tape->T || chunk != tape->chunk) {
        shorter = *tape;
        shorter.requested_chunk = chunk;
        eco_tape_resize(&shorter, args->T);
        tape = &shorter;
    }
    return plan->algo->run(plan, tape, layout, args);
}

static ecornn_status run_compacted(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                   const struct eco_args *args)
{
    const struct eco_backend *backend = plan->device->backend;
    struct eco_compaction compaction;
    eco_compaction_begin(&compaction, layout, args);
    ecornn_status status = backend->compact(plan, &compaction, false);
    if (status == ECORNN_OK)
        status = run_tape(plan, layout, &compaction.inside);
    return status == ECORNN_OK ? backend->compact(plan, &compaction, true) : status;
}

static ecornn_status run_inside(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                const struct eco_args *args)
{
    return (eco_needs_compaction(layout, args) ? run_compacted : run_tape)(plan, layout, args);
}

/* Runs from the cell's start values where the caller gives no initial state. */
static ecornn_status run_started(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                 const struct eco_args *args)
{
    struct eco_starts starts;
    if (!eco_starts_begin(&starts, layout, args))
        return run_inside(plan, layout, args);
    const ecornn_status status =
        plan->device->backend->fill(plan->device, starts.fill, starts.fills, args->stream);
    return status == ECORNN_OK ? run_inside(plan, layout, &starts.inside) : status;
}

ecornn_status eco_run_one(const ecornn_plan *plan, const ecornn_io *io, const struct eco_args *args)
{
    if (is_empty(args))
        return eco_plan_run_empty(plan, args);
    const bool marks = args->reserve != NULL && !plan->device->caps.own_memory;
    const struct eco_layout *layout = layout_of(plan, args);
    struct eco_layout smaller;
    if (args->T != layout->T || args->N != layout->N) {
        eco_layout_resize(&smaller, layout, args->T, args->N);
        layout = &smaller;
    }
    ecornn_status status =
        eco_check_bytes("workspace_bytes", io->workspace_bytes, layout->workspace_bytes);
    if (status == ECORNN_OK && args->reserve != NULL)
        status = eco_check_bytes("reserve_bytes", io->reserve_bytes, layout->reserve_bytes);
    if (status == ECORNN_OK)
        status = check_y(layout, args);
    if (status == ECORNN_OK && marks && args->backward)
        status = eco_mark_check(plan, args);
    if (status != ECORNN_OK)
        return status;
    struct eco_caller caller;
    eco_caller_begin_run(&caller, plan->device->backend);
    status = run_started(plan, layout, args);
    eco_caller_end(&caller);
    if (status == ECORNN_OK && marks && !args->backward)
        eco_mark_write(plan, args);
    return status;
}

ecornn_status eco_run_check(const ecornn_plan *plan, const ecornn_io *io,
                            const ecornn_gradient *gradient)
{
    struct eco_args args;
    ecornn_status status = read_io(&args, plan, io, gradient != NULL);
    if (status == ECORNN_OK && gradient != NULL)
        status = read_gradient(&args, plan, gradient);
    return status == ECORNN_OK && !is_empty(&args) ? check_y(layout_of(plan, &args), &args)
                                                   : status;
}

ecornn_status eco_run_read_forward(struct eco_args *args, const ecornn_plan *plan,
                                   const ecornn_io *io)
{
    return read_io(args, plan, io, false);
}

ecornn_status eco_run_read_backward(struct eco_args *args, const ecornn_plan *plan,
                                    const ecornn_io *io, const ecornn_gradient *gradient)
{
    if (plan && !plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->problem.text);
    const ecornn_status status = read_io(args, plan, io, true);
    return status == ECORNN_OK ? read_gradient(args, plan, gradient) : status;
}
