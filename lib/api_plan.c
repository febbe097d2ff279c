/*
 * Descriptions and plans.  This file checks the pointers; plan/problem.c checks the fields of a
 * description.
 */
#include "ecornn.h"

#include <string.h>

#include "common/caller.h"
#include "common/compose/models.h"
#include "common/util.h"
#include "lib/check.h"
#include "lib/wisdom_files.h"

ecornn_status ecornn_desc_parse(ecornn_desc *desc, const char *problem, const ecornn_cell *cell)
{
    if (!desc)
        return eco_fail(ECORNN_BAD_ARGUMENT, "desc is NULL");
    if (!problem)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem is NULL");
    ecornn_desc parsed = {0};
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const ecornn_status status = eco_problem_parse(&parsed, problem, cell);
    eco_caller_end(&caller);
    if (status == ECORNN_OK)
        *desc = parsed;
    return status;
}

ecornn_status ecornn_plan_create(ecornn_plan **plan, ecornn_device *device, const ecornn_desc *desc)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!device)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is NULL");
    if (!desc)
        return eco_fail(ECORNN_BAD_ARGUMENT, "desc is NULL");
    struct eco_problem problem;
    struct ecornn_plan *created;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_open();
    ecornn_status status = eco_problem_build(&problem, desc);
    if (status == ECORNN_OK)
        status = problem.models > 1 ? eco_models_create(&created, device, &problem)
                                    : eco_plan_create(&created, device, &problem);
    if (status == ECORNN_OK) {
        struct ecornn_plan *one = created->one ? created->one : created;
        struct eco_text note = {one->note, sizeof one->note, strlen(one->note)};
        const char *cell = eco_cell_source_text(one->problem.cell);
        if (cell || one->problem.cell->builtin >= 0) /* a tangent has a cell that no user knows */
            eco_record(one->problem.text, cell, &note);
        *plan = created;
    }
    eco_caller_end(&caller);
    return status;
}

void ecornn_plan_free(ecornn_plan *plan)
{
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_plan_free(plan);
    eco_caller_end(&caller);
}

void ecornn_plan_sizes(const ecornn_plan *plan, ecornn_sizes *sizes)
{
    if (eco_check_sizes(plan, sizes))
        *sizes = plan->sizes;
}

ecornn_status ecornn_run_sizes(const ecornn_plan *plan, int32_t steps, int32_t batch,
                               ecornn_sizes *sizes)
{
    int32_t T = 0, N = 0;
    if (!eco_check_sizes(plan, sizes))
        return ECORNN_BAD_ARGUMENT;
    ecornn_status status = eco_check_count("steps", steps, plan->problem.T, &T);
    if (status == ECORNN_OK)
        status = eco_check_count("batch", batch, plan->problem.N, &N);
    if (status == ECORNN_OK)
        *sizes = plan->one ? eco_models_sizes(plan, T, N) : eco_plan_sizes(plan, T, N);
    return status;
}

int32_t ecornn_bucket(int32_t size)
{
    enum { EXACT = 16 };
    int32_t step = 1;
    while ((size - 1) / step >= EXACT)
        step *= 2;
    const int64_t rounded = ((int64_t)size + step - 1) / step * step;
    return size <= EXACT || rounded > INT32_MAX ? size : (int32_t)rounded;
}

int ecornn_plan_print(const ecornn_plan *plan, char *text, size_t size)
{
    if (!eco_check_print(plan, text, size))
        return -1;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    struct eco_text words = {text, size, 0};
    if (plan->one)
        eco_text_add(&words, "%s: %d at once, each as\n", plan->problem.text, plan->concurrent);
    const bool fits = words.length < size;
    const int length =
        eco_plan_describe(plan->one ? plan->one : plan, fits ? text + words.length : NULL,
                          fits ? size - words.length : 0);
    eco_caller_end(&caller);
    return length < 0 ? length : length + (int)words.length;
}
