/*
 * Tangents: descriptions and plans, and the check of a run's arguments. plan/problem.c knows what a
 * description means; this file refuses what tangents do not support.
 */
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
    const struct {
        bool has;
        const char *why;
    } none[] = {
        {problem->type != ECORNN_F32 && problem->type != ECORNN_F64, "the type must be f32 or f64"},
        {problem->states, "states of every step"},
        {problem->streams, "there are streams"},
        {problem->models > 1, "there are several models"},
        {problem->projected, "there is a projection"},
        {problem->heads > 1, "there are heads"},
        {problem->weight_type == ECORNN_S8, "matrices of 8 bits have no derivative"},
        {problem->dropout > 0 && problem->masks, "there are dropout and a mask"},
        {problem->cell->recipe.n_bernoulli > 0 && problem->L > 1,
         "bernoulli() in more than one layer"},
        {problem->memory_limit > 0 || problem->saving.policy != ECO_SAVE_ALL,
         "a run saves all, without a limit of memory"}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (none[i].has)
            return refuse(problem, none[i].why);
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
    const ecornn_status status = eco_layers_create(&part->plan, device, &layer);
    if (status == ECORNN_OK)
        part->sizes = part->plan->sizes;
    return status;
}

static ecornn_status make_layer(struct eco_tangent_layer *layer,
                                const struct eco_tangent_plan *plan, const ecornn_desc *desc,
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

static ecornn_status make_tangent(struct eco_tangent_plan *plan, const struct eco_problem *problem)
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

static ecornn_status count_sizes(struct eco_tangent_plan *plan, const struct eco_problem *problem)
{
    struct eco_tangent_areas areas;
    const struct eco_size bytes = eco_tangent_place(plan, NULL, plan->problem.L - 1, &areas);
    if (bytes.overflow)
        return eco_fail(ECORNN_UNSUPPORTED, "the workspace has more bytes than can be counted");
    plan->sizes = plan->layer[0].cell.sizes;
    plan->sizes.param_count = plan->problem.L * plan->problem.D * plan->params;
    plan->sizes.param_elements = eco_problem_param_elements(problem);
    plan->sizes.weight_bytes = plan->sizes.dweight_bytes = plan->sizes.reserve_bytes = 0;
    plan->sizes.workspace_bytes = bytes.value;
    plan->sizes.reads_y = false;
    return ECORNN_OK;
}

static ecornn_status make(struct eco_tangent_plan *plan, const ecornn_desc *desc,
                          const struct eco_problem *problem)
{
    plan->states = problem->cell->recipe.n_states;
    plan->params = problem->cell->recipe.n_params;
    ecornn_status status = make_tangent(plan, problem);
    if (status == ECORNN_OK)
        status = make_layer(&plan->layer[0], plan, desc, problem->I);
    if (status == ECORNN_OK && plan->problem.L > 1)
        status = make_layer(&plan->layer[1], plan, desc, eco_problem_input(problem, 1));
    return status == ECORNN_OK ? count_sizes(plan, problem) : status;
}

ecornn_status eco_tangent_plan_create(struct eco_tangent_plan *tangent, const ecornn_desc *desc)
{
    ecornn_desc layers = *desc;
    struct eco_caller caller;
    layers.flags &= ~(uint32_t)ECORNN_TANGENT;
    eco_caller_begin(&caller);
    ecornn_status status = eco_problem_build(&tangent->problem, &layers);
    eco_caller_end(&caller);
    if (status == ECORNN_OK)
        status = check_problem(&tangent->problem);
    return status == ECORNN_OK ? make(tangent, &layers, &tangent->problem) : status;
}

void eco_tangent_plan_free(struct eco_tangent_plan *tangent)
{
    for (int k = 0; k < 2; k++) {
        eco_layers_free(tangent->layer[k].cell.plan);
        eco_layers_free(tangent->layer[k].both.plan);
    }
    eco_free(tangent->tangent);
}

void eco_tangent_plan_describe(const struct eco_tangent_plan *tangent, struct eco_text *text)
{
    eco_text_add(text, "%s/tangent: a plan of the cell's tangent and one of the cell\n",
                 tangent->problem.text);
    for (int k = 0; k < 4; k++) {
        const struct eco_tangent_layer *layer = &tangent->layer[k / 2];
        const ecornn_plan *part = k % 2 == 0 ? layer->both.plan : layer->cell.plan;
        if (part != NULL)
            eco_layers_describe(part, text);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Checks pointers to parameters: all are required, or they may be NULL. */
static ecornn_status check_params(const struct eco_tangent_run *run)
{
    const struct eco_tangent_plan *const plan = run->plan;
    const struct {
        const char *name;
        const void *const *pointers;
        bool required;
    } lists[] = {{"io.params", run->args.params, true},
                 {"io.tangent->params", run->tangent.params, false},
                 {"gradient.dparams", (const void *const *)run->dparams, false}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (!lists[i].pointers && lists[i].required && (size_t)plan->sizes.param_count > 0)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", lists[i].name);
        for (size_t k = 0; lists[i].pointers && k < (size_t)plan->sizes.param_count; k++) {
            const void *pointer = lists[i].pointers[k];
            if (!pointer && lists[i].required)
                return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%zu] is NULL, all %zu are needed",
                                lists[i].name, k, (size_t)plan->sizes.param_count);
            const ecornn_status status = eco_check_pointer(lists[i].name, pointer, false,
                                                           eco_type_bytes(plan->problem.type));
            if (status != ECORNN_OK)
                return status;
        }
    }
    return ECORNN_OK;
}

/* Checks the arrays of the run and their tangents. */
static ecornn_status check_arrays(const struct eco_tangent_run *run)
{
    const struct eco_tangent_plan *const plan = run->plan;
    struct eco_array_rules rules = eco_array_rules(&plan->problem, &run->args, &plan->sizes);
    rules.cell = "the cell";
    rules.kind = "/tangent";
    ecornn_status status = eco_check_arrays(&rules, &run->args);
    rules.required = ECO_NEVER_REQUIRED;
    rules.within = "tangent->";
    return status == ECORNN_OK ? eco_check_arrays(&rules, &run->tangent) : status;
}

/* What a plan of tangents does not have must not be given. */
static ecornn_status check_others(const struct eco_tangent_run *run, const ecornn_io *io,
                                  const ecornn_gradient *gradient)
{
    if (io->added != NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.added is %p, must be NULL for tangents",
                        (const void *)io->added);
    for (int a = 0; a < eco_run_arrays(&run->args); a++)
        for (int s = 0; s < eco_run_array[a].count && eco_run_array[a].tangents == ECO_NO_ARRAY;
             s++)
            if (eco_run_array_get(&run->args, &eco_run_array[a], s) != NULL)
                return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be NULL for tangents",
                                eco_run_array[a].name,
                                eco_run_array_get(&run->args, &eco_run_array[a], s));
    return gradient == NULL || gradient->add == 0
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT, "gradient.add is %d, must be 0 for tangents",
                          gradient->add);
}

static ecornn_status check(const struct eco_tangent_run *run)
{
    const struct eco_tangent_plan *const plan = run->plan;
    ecornn_status status = check_arrays(run);
    if (status == ECORNN_OK)
        status = check_params(run);
    if (status == ECORNN_OK && !plan->device->caps.own_memory)
        status = eco_check_lengths(run->args.lengths, run->args.T, run->args.N);
    return status == ECORNN_OK ? eco_check_bytes("workspace_bytes", run->args.workspace_bytes,
                                                 plan->sizes.workspace_bytes)
                               : status;
}

ecornn_status eco_tangent_plan_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                   const ecornn_io *io, const ecornn_gradient *gradient)
{
    struct eco_tangent_run run = {.plan = plan->tangent};
    if (steps == 0 || batch == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is 0: an empty run has no tangents",
                        steps == 0 ? "steps" : "batch");
    if (gradient != NULL && !plan->tangent->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->tangent->layer[0].cell.plan->problem.text);
    eco_args_read_io(&run.args, steps, batch, io);
    run.args.params = io->params;
    if (gradient != NULL) {
        eco_args_read_gradient(&run.args, gradient);
        run.dparams = gradient->dparams;
    }
    run.tangent.backward = run.args.backward;
    ecornn_status status =
        eco_args_read_part(&run.tangent, "io.tangent", io->tangent, false, ECO_PART_TANGENT);
    if (status == ECORNN_OK && gradient != NULL)
        status = eco_args_read_part(&run.tangent, "gradient.tangent", gradient->tangent, true,
                                    ECO_PART_TANGENT);
    if (status == ECORNN_OK)
        status = check_others(&run, io, gradient);
    if (status == ECORNN_OK)
        status = check(&run);
    return status == ECORNN_OK ? eco_tangent_compute(&run) : status;
}
