/*
 * Plans of layers of one problem, which nets and tangents also have as parts.
 */
#include "ecornn.h"

#include <string.h>

#include "common/caller.h"
#include "common/compose/models.h"
#include "common/util.h"
#include "common/wisdom/files.h"
#include "lib/check.h"

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
    return status == ECORNN_OK ? eco_give("desc", desc, &parsed, sizeof parsed) : status;
}

ecornn_status eco_layers_create(ecornn_plan **plan, ecornn_device *device, const ecornn_desc *desc)
{
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
        eco_cell_hold(created->problem.cell);
        *plan = created;
    }
    eco_caller_end(&caller);
    return status;
}

void eco_layers_free(ecornn_plan *plan)
{
    if (!plan)
        return;
    const ecornn_cell *const cell = plan->problem.cell;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_plan_free(plan);
    eco_caller_end(&caller);
    eco_cell_release(cell);
}

void eco_layers_describe(const ecornn_plan *plan, struct eco_text *text)
{
    if (plan->one)
        eco_text_add(text, "%s: %d at once, each as\n", plan->problem.text, plan->concurrent);
    const bool fits = text->length < text->size;
    const int length =
        eco_plan_describe(plan->one ? plan->one : plan, fits ? text->data + text->length : NULL,
                          fits ? text->size - text->length : 0);
    text->length += length > 0 ? (size_t)length : 0;
}
