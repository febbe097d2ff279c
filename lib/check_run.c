/*
 * Reads and checks the arguments of a run of a plan, once, before anything is written.
 */
#include "ecornn.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "common/compose/sequence.h"
#include "lib/check.h"

/* A run of no steps or no rows accesses only states and gradients of weights. */
static bool is_empty(const struct eco_args *args)
{
    return args->T == 0 || args->N == 0;
}

ecornn_status eco_check_lengths(const int32_t *lengths, int32_t T, int64_t count)
{
    for (int64_t n = 0; lengths && n < count; n++)
        if (lengths[n] < 0 || lengths[n] > T)
            return eco_fail(ECORNN_BAD_ARGUMENT, "io.lengths[%" PRId64 "] is %d, must be 0 to %d",
                            n, (int)lengths[n], (int)T);
    return ECORNN_OK;
}

/* ---- the rows of run_arrays.h ---------------------------------------------------------------- */

/* Says what is wrong with pointer s of an array. */
static ecornn_status refuse(const struct eco_array_rules *rules, const struct eco_run_array *array,
                            int s, const void *at)
{
    const char *const field = eco_run_array_field(array);
    char name[64], index[8] = "";
    if (array->count > 1)
        snprintf(index, sizeof index, "[%d]", s);
    snprintf(name, sizeof name, "%.*s%s%s%s", (int)(field - array->name), array->name,
             rules->within, field, index);
    if (at == NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", name);
    if (array->count > 1 && s >= rules->states)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, but %s has %d state%s", name, at,
                        rules->cell, rules->states, rules->states > 1 ? "s" : "");
    if ((array->flag & ~rules->flags) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, but plan %s%s is without ECORNN_%s", name,
                        at, rules->plan, rules->kind, array->flag_name);
    return eco_check_pointer(name, at, false, rules->alignment[array->element]);
}

static bool is_required(const struct eco_array_rules *rules, const struct eco_run_array *array)
{
    const bool none = rules->without_x && (array->letters & ECO_I) != 0;
    return (array->required & rules->required) != 0 && !none &&
           (array->element != ECO_ARRAY_BLOCK || eco_run_array_bytes(array, rules->sizes) > 0);
}

ecornn_status eco_check_arrays(const struct eco_array_rules *rules, const struct eco_args *args)
{
    for (int a = 0; a < eco_run_arrays(args); a++)
        for (int s = 0; s < eco_run_array[a].count; s++) {
            const struct eco_run_array *const array = &eco_run_array[a];
            const void *const at = eco_run_array_get(args, array, s);
            const bool good = at == NULL ? !is_required(rules, array)
                                         : (array->count == 1 || s < rules->states) &&
                                               (array->flag & ~rules->flags) == 0 &&
                                               eco_is_aligned(at, rules->alignment[array->element]);
            if (!good)
                return refuse(rules, array, s, at);
        }
    return ECORNN_OK;
}

struct eco_array_rules eco_array_rules(const struct eco_problem *problem,
                                       const struct eco_args *args, const ecornn_sizes *sizes)
{
    const uint8_t element = (uint8_t)eco_type_bytes(problem->type),
                  state = (uint8_t)eco_type_bytes(
                      eco_problem_state_type(problem, problem->cell->recipe.n_states - 1));
    return (struct eco_array_rules){.states = problem->cell->recipe.n_states,
                                    .cell = problem->cell->recipe.name,
                                    .plan = problem->text,
                                    .kind = "",
                                    .within = "",
                                    .flags = problem->flags,
                                    .sizes = sizes,
                                    .without_x =
                                        args->inputs != NULL && eco_problem_rest(problem, 0) == 0,
                                    .required = is_empty(args)   ? ECO_NEVER_REQUIRED
                                                : args->backward ? ECO_IN_RUNS | ECO_IN_BACKWARD
                                                                 : ECO_IN_RUNS,
                                    .alignment = {[ECO_ARRAY_NUMBER] = element,
                                                  [ECO_ARRAY_STATE] = state,
                                                  [ECO_ARRAY_MARK] = 1,
                                                  [ECO_ARRAY_LENGTH] = sizeof(int32_t),
                                                  [ECO_ARRAY_INDEX] = sizeof(int32_t),
                                                  [ECO_ARRAY_BLOCK] = ECO_ALIGNMENT}};
}

ecornn_status eco_check_pointers(const struct eco_pointer *pointer, size_t count)
{
    ecornn_status status = ECORNN_OK;
    for (; status == ECORNN_OK && count > 0; pointer++, count--)
        status =
            eco_check_pointer(pointer->name, pointer->at, pointer->required, pointer->alignment);
    return status;
}

/* A block of the caller's; NULL: it is another array, or has no bytes. */
static const void *block_at(const struct eco_run_array *array, const struct eco_args *args,
                            const ecornn_sizes *sizes)
{
    return array->element == ECO_ARRAY_BLOCK && eco_run_array_bytes(array, sizes) > 0
               ? eco_run_array_get(args, array, 0)
               : NULL;
}

ecornn_status eco_check_overlap(const struct eco_args *args, const ecornn_sizes *sizes)
{
    const struct eco_run_array *const end = eco_run_array + eco_run_arrays(args);
    if (args->y != NULL && args->y == args->x)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.y is %p, the memory of io.x", args->y);
    for (const struct eco_run_array *one = eco_run_array; one < end; one++) {
        const void *const at = block_at(one, args, sizes);
        for (const struct eco_run_array *other = eco_run_array; at != NULL && other < one; other++)
            if (at == block_at(other, args, sizes))
                return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, the memory of %s", one->name, at,
                                other->name);
    }
    for (int s = 0; args->reserve != NULL && !args->backward && s < ECORNN_MAX_STATES; s++)
        if (args->final[s] != NULL && args->final[s] == args->initial[s])
            return eco_fail(
                ECORNN_BAD_ARGUMENT,
                "io.final[%d] is %p, the memory of io.initial[%d], which backward reads", s,
                args->final[s], s);
    return ECORNN_OK;
}

/* Each stream once, so that no row of final is written twice.  A host cannot read a GPU's list. */
static ecornn_status check_rows(const struct ecornn_plan *plan, const struct eco_args *args)
{
    if (args->streams < 1)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.streams is %d, must be at least 1 with io.rows",
                        (int)args->streams);
    for (int32_t n = 0, least = 0; n < args->N && !plan->device->caps.own_memory;
         least = args->rows[n++] + 1)
        if (args->rows[n] < least || args->rows[n] >= args->streams)
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "io.rows[%d] is %d, must be %d to %d: below io.streams, ascending",
                            (int)n, (int)args->rows[n], (int)least, (int)args->streams - 1);
    return ECORNN_OK;
}

static ecornn_status check_streams(const struct ecornn_plan *plan, const struct eco_args *args)
{
    if (args->rows == NULL)
        return ECORNN_OK;
    if (args->reserve != NULL || args->backward)
        return eco_fail(ECORNN_UNSUPPORTED, "io.rows is set, which needs inference: no reserve");
    for (int s = 0; s < plan->problem.cell->recipe.n_states; s++)
        if (args->initial[s] == NULL)
            return eco_fail(ECORNN_BAD_ARGUMENT, "io.initial[%d] is NULL, is required with io.rows",
                            s);
    if (args->T == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "steps is 0, must be at least 1 with io.rows");
    return check_rows(plan, args);
}

/* ---- parts of x that are arrays of their own ------------------------------------------------- */

/* Is input k, or its gradient, in the memory of another array that is written?  Returns its name.
 */
static const char *other_of(const struct eco_args *args, const void *at, int k, bool gradient)
{
    if (at == NULL || !gradient)
        return at != NULL && at == args->y ? "io.y" : NULL;
    for (int j = 0; j < k; j++)
        if (at == args->dinputs[j])
            return "another of them";
    return at == args->dx          ? "gradient.dx"
           : at == args->dy        ? "gradient.dy"
           : at == args->inputs[k] ? "the input"
                                   : NULL;
}

/* gradient: dinputs, else inputs; rows: the distances of their rows, or NULL. */
static ecornn_status check_inputs(const struct ecornn_plan *plan, const struct eco_args *args,
                                  const size_t *rows, bool gradient)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const void *const *const inputs = gradient ? (const void *const *)args->dinputs : args->inputs;
    const bool required = !gradient && !is_empty(args);
    const size_t element = eco_type_bytes(problem->type),
                 most = PTRDIFF_MAX / element / (size_t)problem->T / (size_t)problem->N;
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < recipe->n_parts; k++) {
        char name[40];
        const size_t width = (size_t)eco_problem_part(problem, k);
        snprintf(name, sizeof name, gradient ? "gradient.dinputs[%d]" : "io.inputs[%d]", k);
        status = eco_check_pointer(name, inputs[k], required, element);
        const char *const other = other_of(args, inputs[k], k, gradient);
        if (status == ECORNN_OK && other != NULL && !is_empty(args))
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, the memory of %s", name, inputs[k],
                            other);
        if (status == ECORNN_OK && rows != NULL && rows[k] != 0 &&
            (rows[k] < width || rows[k] > most))
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "the rows of %s are %zu apart, must be 0, or %zu, the width of part "
                            "'%s', to %zu",
                            name, rows[k], width, recipe->part[k].name, most);
    }
    return status;
}

/* What a run with io.inputs cannot have; NULL: nothing of it is there. */
static const char *without_inputs(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_problem *problem = &plan->problem;
    if (problem->models > 1)
        return "one model";
    if (args->mask != NULL || problem->repeats)
        return "a run without a mask and repeated padding";
    if (args->dinputs != NULL && eco_layout_sums_dx(problem))
        return "one direction, or F32, with ECORNN_ROW_INVARIANT";
    return NULL;
}

static ecornn_status check_without_inputs(const struct eco_args *args)
{
    const struct {
        const char *name;
        const void *at;
    } of_inputs[] = {{"io.input_rows", args->input_rows},
                     {"gradient.dinputs", args->dinputs},
                     {"gradient.dinput_rows", args->dinput_rows}};
    for (size_t i = 0; i < sizeof of_inputs / sizeof *of_inputs; i++)
        if (of_inputs[i].at != NULL)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be NULL without io.inputs",
                            of_inputs[i].name, of_inputs[i].at);
    return ECORNN_OK;
}

static ecornn_status check_all_inputs(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_recipe *recipe = &plan->problem.cell->recipe;
    const char *const needs = without_inputs(plan, args);
    if (args->inputs == NULL)
        return check_without_inputs(args);
    if (recipe->n_parts == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.inputs is %p, but cell %s has no parts of x",
                        (const void *)args->inputs, recipe->name);
    if (needs != NULL)
        return eco_fail(ECORNN_UNSUPPORTED, "io.inputs is set, which needs %s", needs);
    if (eco_problem_rest(&plan->problem, 0) == 0 && (args->x != NULL || args->dx != NULL))
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be NULL: all of x is in io.inputs",
                        args->x != NULL ? "io.x" : "gradient.dx",
                        args->x != NULL ? args->x : args->dx);
    if (args->dinput_rows != NULL && args->dinputs == NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "gradient.dinput_rows is %p, must be NULL without gradient.dinputs",
                        (const void *)args->dinput_rows);
    const ecornn_status status = check_inputs(plan, args, args->input_rows, false);
    return status == ECORNN_OK && args->dinputs != NULL
               ? check_inputs(plan, args, args->dinput_rows, true)
               : status;
}

ecornn_status eco_args_check(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const int64_t rows = (int64_t)args->N * (plan->problem.shared ? 1 : plan->problem.models);
    const struct eco_array_rules rules = eco_array_rules(&plan->problem, args, &plan->sizes);
    ecornn_status status = eco_check_arrays(&rules, args);
    if (status == ECORNN_OK && !is_empty(args))
        status = eco_check_overlap(args, &plan->sizes);
    if (status == ECORNN_OK)
        status = check_streams(plan, args);
    if (status == ECORNN_OK)
        status = check_all_inputs(plan, args);
    return status == ECORNN_OK && !plan->device->caps.own_memory
               ? eco_check_lengths(args->lengths, args->T, rows)
               : status;
}

/* ---- what the caller gives ------------------------------------------------------------------- */

static void read_arrays(struct eco_args *args, const void *given, bool gradient)
{
    const struct eco_run_array *array = eco_run_array + (gradient ? ECO_IO_ARRAYS : 0),
                               *const end =
                                   eco_run_array + (gradient ? ECO_RUN_ARRAYS : ECO_IO_ARRAYS);
    for (; array < end; array++) {
        char *const to = (char *)args + array->at;
        const char *const from = (const char *)given + array->given;
        if (array->count == 1)
            memcpy(to, from, sizeof(void *));
        else
            memcpy(to, from, ECO_MAX_STATES * sizeof(void *));
    }
}

void eco_args_read_io(struct eco_args *args, int32_t T, int32_t N, const ecornn_io *io)
{
    *args = (struct eco_args){.T = T,
                              .N = N,
                              .streams = io->streams,
                              .workspace_bytes = io->workspace_bytes,
                              .reserve_bytes = io->reserve_bytes,
                              .seed = io->seed,
                              .first_step = io->first_step,
                              .first_row = io->first_row,
                              .inputs = io->inputs,
                              .input_rows = io->input_rows,
                              .stream = io->stream};
    read_arrays(args, io, false);
}

void eco_args_read_gradient(struct eco_args *args, const ecornn_gradient *gradient)
{
    args->backward = true;
    args->accumulate = gradient->add != 0;
    args->dinputs = gradient->dinputs;
    args->dinput_rows = gradient->dinput_rows;
    read_arrays(args, gradient, true);
}

ecornn_status eco_args_read_part(struct eco_args *args, const char *name, const void *given,
                                 bool gradient, enum eco_part part)
{
    union eco_given own;
    if (given == NULL)
        return ECORNN_OK;
    given = eco_take(name, given, &own, gradient ? sizeof own.gradient : sizeof own.io);
    if (given == NULL)
        return ECORNN_BAD_ARGUMENT;
    read_arrays(args, given, gradient);
    if (part == ECO_PART_TANGENT && !gradient)
        args->params = ((const ecornn_io *)given)->params;
    return eco_check_part(name, given, gradient, part);
}

/* Fields that plans of this kind do not have must be NULL. */
static ecornn_status check_kind(const ecornn_plan *plan, const ecornn_io *io,
                                const ecornn_gradient *gradient)
{
    static const ecornn_gradient none = {0};
    const ecornn_gradient *const g = gradient ? gradient : &none;
    const struct {
        const char *name;
        const void *at;
        enum eco_plan_kind kind;
    } fields[] = {{"io.layers", io->layers, ECO_PLAN_NET},
                  {"io.tangent", io->tangent, ECO_PLAN_TANGENT},
                  {"gradient.layers", g->layers, ECO_PLAN_NET},
                  {"gradient.tangent", g->tangent, ECO_PLAN_TANGENT},
                  {"gradient.dparams", g->dparams, ECO_PLAN_TANGENT},
                  {"io.params", io->params, plan->kind},
                  {"io.added", io->added, plan->kind},
                  {"io.inputs", io->inputs, ECO_PLAN_LAYERS},
                  {"io.input_rows", io->input_rows, ECO_PLAN_LAYERS},
                  {"gradient.dinputs", g->dinputs, ECO_PLAN_LAYERS},
                  {"gradient.dinput_rows", g->dinput_rows, ECO_PLAN_LAYERS}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].at && plan->kind != fields[i].kind)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be NULL: the plan is not %s",
                            fields[i].name, fields[i].at,
                            fields[i].kind == ECO_PLAN_NET       ? "a net"
                            : fields[i].kind == ECO_PLAN_TANGENT ? "of tangents"
                                                                 : "of layers");
        if (eco_check_pointer(fields[i].name, fields[i].at, false, sizeof(void *)) != ECORNN_OK)
            return ECORNN_BAD_ARGUMENT;
    }
    if (!io->rows && io->streams != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.streams is %d, must be 0 without io.rows",
                        (int)io->streams);
    if (io->reserved != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.reserved is %d, must be 0", io->reserved);
    if (g->reserved != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.reserved is %d, must be 0", g->reserved);
    return ECORNN_OK;
}

ecornn_status eco_check_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                            const ecornn_io *io, const ecornn_gradient *gradient)
{
    ecornn_status status = eco_check_count("steps", steps, plan->sizes.steps);
    if (status == ECORNN_OK)
        status = eco_check_count("batch", batch, plan->sizes.batch);
    return status == ECORNN_OK ? check_kind(plan, io, gradient) : status;
}
