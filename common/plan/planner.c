/*
 * The planner makes a plan: it asks every algorithm of the device whether it supports the problem
 * and how long a run would take, takes the fastest, and stores problem, layout request, layouts,
 * tapes and sizes.
 *
 * Example, lstm/f32/train/row-invariant/T100/N32/I512/H512 on a CPU: `blas` refuses because the
 * CBLAS may sum in another order for other numbers of rows, `scan` refuses because the cell is not
 * linear in its states, and `packed` estimates 281 ms on one thread, so `packed` gets the plan.
 * Forced choices, wisdom or a memory_limit narrow the choice before estimates are compared.
 */
#include "common/backend.h"

#include <math.h>
#include <string.h>

#include "common/mark.h"
#include "common/util.h"
#include "common/strategy.h"

/* ECORNN_ALGORITHM=NAME, or algorithm=NAME in ECORNN_FORCE, excludes all other algorithms. */
static bool left_out(const struct eco_problem *problem, const struct eco_algo *algo)
{
    const char *only = problem->force.algorithm;
    return *only != '\0' && strcmp(only, algo->name) != 0;
}

static const char *refusal_of(const struct ecornn_plan *plan, const struct eco_algo *algo)
{
    const bool is_choice = plan->device->backend->algos[1] != NULL; /* not the reference's one */
    if (is_choice && left_out(&plan->problem, algo))
        return plan->by_wisdom ? "left out by wisdom" : "left out by ECORNN_ALGORITHM";
    if (plan->problem.int8 && !plan->device->caps.int8)
        return "does not support int8, only int8-weights";
    if (plan->problem.Y != plan->problem.P && plan->device->caps.own_memory)
        return "does not support a y of several states";
    return eco_algo_refusal(algo, &plan->problem, &plan->device->caps);
}

/* No algorithm supports it: the reasons in one line. */
static ecornn_status fail_unsupported(const struct ecornn_plan *plan)
{
    char why[ECO_MAX_REASON] = "";
    struct eco_text text = {why, sizeof why, 0};
    for (const struct eco_algo *const *algo = plan->device->backend->algos; *algo != NULL; algo++)
        eco_text_add(&text, "%s%s: %s", text.length > 0 ? "; " : "", (*algo)->name,
                     refusal_of(plan, *algo));
    return eco_fail(ECORNN_UNSUPPORTED, "no algorithm of device %s runs %s: %s",
                    plan->device->backend->name, plan->problem.text, why);
}

static void choose(struct ecornn_plan *plan)
{
    const struct eco_caps *caps = &plan->device->caps;
    struct eco_text reason = {plan->reason, sizeof plan->reason, 0};
    for (const struct eco_algo *const *algo = plan->device->backend->algos; *algo != NULL; algo++) {
        const char *refusal = refusal_of(plan, *algo);
        if (refusal != NULL) {
            eco_text_add(&reason, "  %-10s refuses: %s\n", (*algo)->name, refusal);
            continue;
        }
        const double seconds = (*algo)->estimate(&plan->problem, caps);
        eco_text_add(&reason, "  %-10s estimated %.4g ms\n", (*algo)->name, 1e3 * seconds);
        if (plan->algo == NULL || seconds < plan->estimate) {
            plan->algo = *algo;
            plan->estimate = seconds;
        }
    }
}

static void build_tapes(struct ecornn_plan *plan)
{
    for (int backward = 0; backward < 2; backward++)
        for (int ragged = 0; ragged < 2; ragged++)
            eco_tape_build(&plan->tape[backward][ragged], &plan->problem, &plan->request, backward,
                           ragged);
}

static void add_run(ecornn_sizes *sizes, const struct eco_layout layout[ECO_LAYOUTS])
{
    for (int i = 0; i < ECO_LAYOUTS; i++) {
        sizes->workspace_bytes = eco_larger(sizes->workspace_bytes, layout[i].workspace_bytes);
        sizes->reserve_bytes = eco_larger(sizes->reserve_bytes, layout[i].reserve_bytes);
    }
}

ecornn_sizes eco_plan_sizes(const struct ecornn_plan *plan, int32_t T, int32_t N)
{
    struct eco_layout layout[ECO_LAYOUTS];
    ecornn_sizes sizes = plan->sizes;
    if (T == plan->problem.T && N == plan->problem.N)
        return sizes;
    sizes.workspace_bytes = sizes.reserve_bytes = 0;
    for (int i = 0; i < ECO_LAYOUTS; i++)
        if (T > 0 && N > 0 && plan->layout[i].problem != NULL)
            eco_layout_resize(&layout[i], &plan->layout[i], T, N);
        else
            layout[i].workspace_bytes = layout[i].reserve_bytes = 0;
    add_run(&sizes, layout);
    return sizes;
}

/* A training plan may also run inference, and runs may be smaller; none needs more. */
static ecornn_status fix_sizes(struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const struct eco_layout *infer = &plan->layout[ECO_LAYOUT_INFER];
    const bool replays = problem->saving.policy != ECO_SAVE_ALL;
    for (int i = 0; i < ECO_LAYOUTS && (i < ECO_LAYOUT_BACK || replays); i++)
        eco_layout_build(&plan->layout[i], problem, &plan->request, problem->T, problem->N,
                         problem->training ? i : ECO_LAYOUT_INFER);
    plan->sizes = (ecornn_sizes){
        .param_elements = eco_problem_param_elements(problem),
        .weight_bytes = infer->weights_bytes,
        .dweight_bytes = problem->training ? infer->dweights_bytes : 0,
        .alignment = ECO_ALIGNMENT,
        .param_count = eco_problem_params(problem),
        .steps = problem->T,
        .batch = problem->N,
        .input = problem->I,
        .output = problem->D * problem->Y,
        .reads_y = problem->training && eco_layout_reads_y(&plan->layout[ECO_LAYOUT_TRAIN]),
        .checks_lengths = !plan->device->caps.own_memory,
        .models = 1,
        .layers = 1,
        .joined = 1,
    };
    add_run(&plan->sizes, plan->layout);
    const size_t most =
        eco_larger(eco_larger(plan->sizes.param_elements, plan->sizes.weight_bytes),
                   eco_larger(plan->sizes.workspace_bytes, plan->sizes.reserve_bytes));
    if (most > PTRDIFF_MAX)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s needs more than %td bytes in one block",
                        problem->text, PTRDIFF_MAX);
    return ECORNN_OK;
}

static bool can(const struct ecornn_plan *plan, const struct eco_algo *algo)
{
    return refusal_of(plan, algo) == NULL;
}

/* Chooses what is saved and the chunks; with a memory limit possibly another algorithm. */
static ecornn_status choose_strategy(struct ecornn_plan *plan)
{
    struct eco_strategy strategy;
    ecornn_status status = ECORNN_OK;
    if (plan->problem.memory_limit > 0)
        status = eco_strategy_choose(&strategy, plan, can);
    else
        strategy = eco_strategy_of(plan, plan->algo, plan->problem.saving);
    if (status != ECORNN_OK)
        return status;
    plan->algo = strategy.algo;
    plan->request = strategy.request;
    plan->problem.saving = strategy.saving;
    plan->seconds = strategy.seconds;
    return ECORNN_OK;
}

static ecornn_status make(struct ecornn_plan **plan, struct ecornn_device *device,
                          const struct eco_problem *problem, bool by_wisdom)
{
    struct ecornn_plan *made = eco_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a plan of %zu bytes", sizeof *made);
    made->kind = ECO_PLAN_LAYERS;
    made->problem = *problem;
    made->device = device;
    made->by_wisdom = by_wisdom;
    made->work = eco_problem_work(problem, 0);
    choose(made);
    ecornn_status status = ECORNN_OK;
    if (made->algo == NULL)
        status = fail_unsupported(made);
    if (status == ECORNN_OK)
        status = choose_strategy(made);
    if (status == ECORNN_OK) {
        build_tapes(made);
        status = fix_sizes(made);
        made->mark = eco_mark_of_plan(made);
    }
    if (status == ECORNN_OK && device->backend->prepare != NULL)
        status = device->backend->prepare(made);
    if (status != ECORNN_OK) {
        eco_plan_free(made);
        return status;
    }
    *plan = made;
    return ECORNN_OK;
}

ecornn_status eco_plan_make(struct ecornn_plan **plan, struct ecornn_device *device,
                            const struct eco_problem *problem)
{
    struct eco_problem forced = *problem;
    const ecornn_status status = eco_force_read(&forced.force, device->backend);
    return status == ECORNN_OK ? make(plan, device, &forced, false) : status;
}

double eco_plan_estimate(struct ecornn_device *device, const struct eco_problem *problem)
{
    struct ecornn_plan *asked = eco_alloc_zeroed(sizeof *asked);
    if (asked == NULL)
        return INFINITY;
    asked->problem = *problem;
    asked->device = device;
    if (eco_force_read(&asked->problem.force, device->backend) == ECORNN_OK)
        choose(asked);
    const double seconds = asked->algo != NULL ? asked->estimate : INFINITY;
    eco_free(asked);
    return seconds;
}

/* ---- choices --------------------------------------------------------------------------------- */

static bool is_set(const char *name)
{
    const char *value = name != NULL ? eco_environment(name) : NULL;
    return value != NULL && *value != '\0';
}

/* If such a variable is set, wisdom is not used. */
const char *eco_plan_asked(const struct eco_backend *backend)
{
    static const char *const all[] = {"ECORNN_FORCE", "ECORNN_ALGORITHM", NULL};
    const char *const *const lists[] = {all, backend->variables};
    for (int i = 0; i < 2; i++)
        for (const char *const *name = lists[i]; name != NULL && *name != NULL; name++)
            if (is_set(*name))
                return *name;
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++)
        if (eco_choice_is_of(row, backend) && is_set(row->variable))
            return row->variable;
    return NULL;
}

ecornn_status eco_plan_force(struct eco_problem *problem, const struct eco_backend *backend)
{
    const char *forced = eco_environment("ECORNN_FORCE");
    struct eco_force *force = &problem->force;
    struct eco_text text = {force->text, sizeof force->text, 0};
    eco_text_add(&text, "%s", forced != NULL ? forced : "");
    force->by_user = eco_plan_asked(backend) != NULL;
    if (text.length < text.size)
        return eco_force_read(force, backend);
    return eco_fail(ECORNN_BAD_ARGUMENT, "ECORNN_FORCE has %zu characters, must have less than %zu",
                    text.length, text.size);
}

/* Wisdom's choices were refused: makes the planner's plan, and notes why. */
static ecornn_status make_without(struct ecornn_plan **plan, struct ecornn_device *device,
                                  const struct eco_problem *problem, const char *before,
                                  struct eco_text *note)
{
    eco_text_add(note, ", refused: %s; the planner chose", eco_fail_detail());
    const ecornn_status status = make(plan, device, problem, false);
    if (status == ECORNN_OK)
        eco_fail_restore(before);
    return status;
}

static ecornn_status make_by_wisdom(struct ecornn_plan **plan, struct ecornn_device *device,
                                    const struct eco_problem *problem)
{
    struct eco_wisdom_found found;
    struct eco_problem forced = *problem;
    char before[ECO_MAX_DETAIL], said[ECO_MAX_NOTE] = "";
    struct eco_text choices = {forced.force.text, sizeof forced.force.text, 0},
                    note = {said, sizeof said, 0};
    eco_wisdom_find(problem, device, &found);
    eco_choices_take(&choices, found.choices, device->backend, problem->row_invariant);
    eco_text_add(&note, "%s", found.note);
    eco_fail_keep(before);
    const bool by_wisdom = found.choices[0] != '\0';
    ecornn_status status = eco_force_read(&forced.force, device->backend);
    if (status == ECORNN_OK)
        status = make(plan, device, &forced, by_wisdom);
    if (by_wisdom && status != ECORNN_OK && status != ECORNN_NO_MEMORY)
        status = make_without(plan, device, problem, before, &note);
    if (status == ECORNN_OK)
        memcpy((*plan)->note, said, sizeof said);
    return status;
}

ecornn_status eco_plan_create(struct ecornn_plan **plan, struct ecornn_device *device,
                              const struct eco_problem *problem)
{
    struct eco_problem asked = *problem;
    /* measured choices may not fit the limit, and shrunk ones were not measured */
    const bool limited = problem->memory_limit > 0;
    if (device->backend->choices != NULL && eco_plan_asked(device->backend) == NULL)
        return limited ? make(plan, device, problem, false) : make_by_wisdom(plan, device, problem);
    const ecornn_status status = eco_plan_force(&asked, device->backend);
    return status == ECORNN_OK ? make(plan, device, &asked, false) : status;
}

void eco_plan_free(struct ecornn_plan *plan)
{
    if (plan == NULL)
        return;
    eco_plan_free(plan->one);
    if (plan->context != NULL)
        plan->device->backend->release(plan);
    eco_free(plan->owned_device);
    plan->kind = 0;
    eco_free(plan);
}
