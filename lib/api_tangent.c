/*
 * Tangents: descriptions and plans, and the check of a run's arguments. plan/problem.c knows what a
 * description means; this file refuses what tangents do not support.
 */
#include <limits.h>

#include "common/caller.h"
#include "common/compose/tangent.h"
#include "lib/check.h"

/* ---- plans ----------------------------------------------------------------------------------- */

static ecornn_status refuse(const struct eco_problem *problem, const char *why)
{
    return eco_fail(ECORNN_UNSUPPORTED, "no tangents of %s: %s", problem->text, why);
}

static ecornn_status check_problem(const struct eco_problem *problem)
{
    if (problem->type != ECORNN_F32 && problem->type != ECORNN_F64)
        return refuse(problem, "the type must be f32 or f64");
    if (problem->states)
        return refuse(problem, "states of every step");
    if (problem->models > 1)
        return refuse(problem, "there are several models");
    if (problem->projected)
        return refuse(problem, "there is a projection");
    if (problem->heads > 1)
        return refuse(problem, "there are heads");
    if (problem->dropout > 0 && problem->masks)
        return refuse(problem, "there are dropout and a mask");
    if (problem->cell->recipe.n_bernoulli > 0 && problem->L > 1)
        return refuse(problem, "bernoulli() in more than one layer");
    if (problem->memory_limit > 0 || problem->saving.policy != ECORNN_SAVE_ALL)
        return refuse(problem, "a run saves all, without a limit of memory");
    return ECORNN_OK;
}

/* Makes the plan of one layer of this input width. */
static ecornn_status make_part(struct eco_tangent_part *part, ecornn_device *device,
                               const ecornn_desc *desc, const ecornn_cell *cell, int32_t input)
{
    ecornn_desc layer = *desc;
    layer.cell = cell;
    layer.input = input;
    layer.layers = 1;
    layer.dropout = 0;
    const ecornn_status status = ecornn_plan_create(&part->plan, device, &layer);
    if (status == ECORNN_OK)
        part->sizes = part->plan->sizes;
    return status;
}

static ecornn_status make_layer(struct eco_tangent_layer *layer,
                                const struct ecornn_tangent_plan *plan, const ecornn_desc *desc,
                                int32_t input)
{
    if (input > INT32_MAX / 2)
        return eco_fail(ECORNN_BAD_ARGUMENT, "input of a layer is %d, at most %d with its tangent",
                        (int)input, INT32_MAX / 2);
    layer->input = input;
    const ecornn_status status = make_part(&layer->cell, plan->device, desc, desc->cell, input);
    return status == ECORNN_OK
               ? make_part(&layer->both, plan->device, desc, &plan->tangent->cell, 2 * input)
               : status;
}

static ecornn_status make_tangent(struct ecornn_tangent_plan *plan,
                                  const struct eco_problem *problem)
{
    struct eco_cell_error error;
    struct eco_caller caller;
    plan->tangent = eco_alloc(sizeof *plan->tangent);
    if (plan->tangent == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a cell",
                        sizeof *plan->tangent);
    eco_caller_begin(&caller); /* constants are folded */
    const bool made = eco_cell_tangent(plan->tangent, problem->cell, &error);
    eco_caller_end(&caller);
    return made ? ECORNN_OK : refuse(problem, error.message);
}

static ecornn_status count_sizes(struct ecornn_tangent_plan *plan)
{
    struct eco_tangent_areas areas;
    const struct eco_size bytes = eco_tangent_place(plan, NULL, plan->L - 1, &areas);
    if (bytes.overflow)
        return eco_fail(ECORNN_UNSUPPORTED, "the workspace has more bytes than can be counted");
    plan->sizes = (ecornn_tangent_sizes){.params = (size_t)(plan->L * plan->D * plan->params),
                                         .workspace = bytes.value,
                                         .alignment = plan->layer[0].both.sizes.alignment};
    return ECORNN_OK;
}

static ecornn_status make(struct ecornn_tangent_plan *plan, const ecornn_desc *desc,
                          const struct eco_problem *problem)
{
    plan->T = problem->T, plan->N = problem->N, plan->H = problem->H;
    plan->L = problem->L, plan->D = problem->D;
    plan->states = problem->cell->recipe.n_states;
    plan->params = problem->cell->recipe.n_params;
    plan->training = problem->training;
    plan->type = problem->type;
    plan->dropout = (double)problem->dropout;
    plan->batch_major = problem->order == ECORNN_BATCH_MAJOR;
    ecornn_status status = make_tangent(plan, problem);
    if (status == ECORNN_OK)
        status = make_layer(&plan->layer[0], plan, desc, problem->I);
    if (status == ECORNN_OK && plan->L > 1)
        status = make_layer(&plan->layer[1], plan, desc, eco_problem_input(problem, 1));
    return status == ECORNN_OK ? count_sizes(plan) : status;
}

ecornn_status ecornn_tangent_plan_create(ecornn_tangent_plan **plan, ecornn_device *device,
                                         const ecornn_desc *desc)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!device)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is NULL");
    if (!desc)
        return eco_fail(ECORNN_BAD_ARGUMENT, "desc is NULL");
    struct eco_problem problem;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    ecornn_status status = eco_problem_build(&problem, desc);
    eco_caller_end(&caller);
    if (status == ECORNN_OK)
        status = check_problem(&problem);
    if (status != ECORNN_OK)
        return status;
    struct ecornn_tangent_plan *made = eco_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a plan", sizeof *made);
    made->device = device;
    status = make(made, desc, &problem);
    if (status == ECORNN_OK)
        *plan = made;
    else
        ecornn_tangent_plan_free(made);
    return status;
}

void ecornn_tangent_plan_free(ecornn_tangent_plan *plan)
{
    if (plan == NULL)
        return;
    for (int k = 0; k < 2; k++) {
        ecornn_plan_free(plan->layer[k].cell.plan);
        ecornn_plan_free(plan->layer[k].both.plan);
    }
    eco_free(plan->tangent);
    eco_free(plan);
}

void ecornn_tangent_plan_sizes(const ecornn_tangent_plan *plan, ecornn_tangent_sizes *sizes)
{
    if (eco_check_sizes(plan, sizes))
        *sizes = plan->sizes;
}

int ecornn_tangent_plan_print(const ecornn_tangent_plan *plan, char *text, size_t size)
{
    size_t length = 0;
    if (!eco_check_print(plan, text, size))
        return -1;
    for (int k = 0; k < 4; k++) {
        const struct eco_tangent_layer *layer = &plan->layer[k / 2];
        const ecornn_plan *part = k % 2 == 0 ? layer->both.plan : layer->cell.plan;
        const bool fits = length < size;
        const int more = part == NULL ? 0
                                      : ecornn_plan_print(part, fits ? text + length : NULL,
                                                          fits ? size - length : 0);
        length += (size_t)more;
    }
    return length > INT_MAX ? INT_MAX : (int)length;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_status check_count(const char *name, int32_t given, int32_t planned, int32_t *count)
{
    if (given != ECORNN_ALL && (given < 1 || given > planned))
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.%s is %d, must be 1 to %d or ECORNN_ALL", name,
                        (int)given, (int)planned);
    *count = given == ECORNN_ALL ? planned : given;
    return ECORNN_OK;
}

/* Checks steps and batch, which mean what they mean in ecornn_io: if both are 0, the plan's counts;
 * if only one is 0, an empty run. */
static ecornn_status check_counts(struct eco_tangent_run *run)
{
    const bool unset = run->io->steps == 0 && run->io->batch == 0;
    const ecornn_status status =
        check_count("steps", unset ? ECORNN_ALL : run->io->steps, run->plan->T, &run->T);
    return status == ECORNN_OK
               ? check_count("batch", unset ? ECORNN_ALL : run->io->batch, run->plan->N, &run->N)
               : status;
}

/* Checks pointers to parameters: all are required, or they may be NULL. */
static ecornn_status check_params(const struct ecornn_tangent_plan *plan,
                                  const ecornn_tangent_io *io)
{
    const struct {
        const char *name;
        const void *const *pointers;
        bool required;
    } lists[] = {{"io.params", io->params, true},
                 {"io.param_tangents", io->param_tangents, false},
                 {"io.dparams", (const void *const *)io->dparams, false}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (!lists[i].pointers && lists[i].required && plan->sizes.params > 0)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", lists[i].name);
        for (size_t k = 0; lists[i].pointers && k < plan->sizes.params; k++) {
            const void *pointer = lists[i].pointers[k];
            if (!pointer && lists[i].required)
                return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%zu] is NULL, all %zu are needed",
                                lists[i].name, k, plan->sizes.params);
            const ecornn_status status =
                eco_check_pointer(lists[i].name, pointer, false, eco_type_bytes(plan->type));
            if (status != ECORNN_OK)
                return status;
        }
    }
    return ECORNN_OK;
}

/* Checks every array of states, one for each state of the cell. */
static ecornn_status check_states(const struct ecornn_tangent_plan *plan,
                                  const ecornn_tangent_io *io)
{
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        const struct {
            const char *name;
            const void *at;
        } states[] = {
            {"io.initial", io->initial[s]},
            {"io.initial_tangent", io->initial_tangent[s]},
            {"io.final", io->final[s]},
            {"io.final_tangent", io->final_tangent[s]},
            {"io.dfinal", io->dfinal[s]},
            {"io.dfinal_tangent", io->dfinal_tangent[s]},
            {"io.dinitial", io->dinitial[s]},
            {"io.reset_state", io->reset_state[s]},
            {"io.reset_state_tangent", io->reset_state_tangent[s]},
            {"io.dreset_state", io->dreset_state[s]},
        };
        for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
            if (states[i].at && s >= plan->states)
                return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, but the cell has %d state%s",
                                states[i].name, s, states[i].at, plan->states,
                                plan->states > 1 ? "s" : "");
            const ecornn_status status =
                eco_check_pointer(states[i].name, states[i].at, false, eco_type_bytes(plan->type));
            if (status != ECORNN_OK)
                return status;
        }
    }
    return ECORNN_OK;
}

static ecornn_status check_sequences(const struct ecornn_tangent_plan *plan,
                                     const ecornn_tangent_io *io)
{
    const struct {
        const char *name;
        const void *at;
        bool required, gradient;
    } arrays[] = {
        {"io.x", io->x, true, false},
        {"io.x_tangent", io->x_tangent, false, false},
        {"io.y", io->y, false, false},
        {"io.y_tangent", io->y_tangent, false, false},
        {"io.dy", io->dy, false, false},
        {"io.dy_tangent", io->dy_tangent, false, false},
        {"io.dx", io->dx, false, true},
        {"io.dparams", io->dparams, false, true},
        {"io.dinitial[0]", io->dinitial[0], false, true},
        {"io.dinitial[1]", io->dinitial[1], false, true},
        {"io.dreset_state[0]", io->dreset_state[0], false, true},
        {"io.dreset_state[1]", io->dreset_state[1], false, true},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (!arrays[i].at && arrays[i].required)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", arrays[i].name);
        if (arrays[i].at && arrays[i].gradient && !plan->training)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, but plan %s is without ECORNN_TRAINING",
                            arrays[i].name, arrays[i].at, plan->layer[0].cell.plan->problem.text);
        const ecornn_status status =
            eco_check_pointer(arrays[i].name, arrays[i].at, false, eco_type_bytes(plan->type));
        if (status != ECORNN_OK)
            return status;
    }
    const ecornn_status status =
        eco_check_pointer("io.lengths", io->lengths, false, sizeof *io->lengths);
    if (status != ECORNN_OK)
        return status;
    return io->workspace == NULL
               ? eco_fail(ECORNN_BAD_ARGUMENT, "io.workspace is NULL, must have %zu bytes",
                          plan->sizes.workspace)
               : eco_check_pointer("io.workspace", io->workspace, false, plan->sizes.alignment);
}

/* Checks that the plan has what the run uses. */
static ecornn_status check_flags(const struct ecornn_tangent_plan *plan,
                                 const ecornn_tangent_io *io)
{
    const struct eco_problem *const problem = &plan->layer[0].cell.plan->problem;
    const bool dreset = io->dreset_state[0] != NULL || io->dreset_state[1] != NULL;
    if ((io->resets != NULL || dreset) && !problem->resets)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is given, but plan %s is without ECORNN_RESETS",
                        io->resets != NULL ? "io.resets" : "io.dreset_state", problem->text);
    if (io->mask != NULL && !problem->masks)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.mask is %p, but plan %s is without ECORNN_MASK",
                        (const void *)io->mask, problem->text);
    return ECORNN_OK;
}

ecornn_status ecornn_tangent_run(const ecornn_tangent_plan *plan, const ecornn_tangent_io *io)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!io)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io is NULL");
    if (io->size != sizeof *io)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.size is %zu, must be %zu", io->size, sizeof *io);
    struct eco_tangent_run run = {.plan = plan, .io = io};
    ecornn_status status = check_counts(&run);
    if (status == ECORNN_OK)
        status = check_sequences(plan, io);
    if (status == ECORNN_OK)
        status = check_states(plan, io);
    if (status == ECORNN_OK)
        status = check_flags(plan, io);
    if (status == ECORNN_OK)
        status = check_params(plan, io);
    if (status == ECORNN_OK && !plan->device->caps.own_memory)
        status = eco_check_lengths(io->lengths, run.T, run.N);
    return status == ECORNN_OK ? eco_tangent_compute(&run) : status;
}
