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
#include "lib/tune.h"

ecornn_status ecornn_desc_parse(ecornn_desc *desc, const char *problem, const ecornn_cell *cell)
{
    if (!desc)
        return eco_fail(ECORNN_BAD_ARGUMENT, "desc is NULL");
    if (!problem)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem is NULL");
    ecornn_desc parsed = {0};
    struct eco_caller caller;
    ecornn_status status = cell ? ECORNN_OK : eco_cell_named(problem, strcspn(problem, "/"), &cell);
    if (status != ECORNN_OK)
        return status;
    eco_caller_begin(&caller);
    status = eco_problem_parse(&parsed, problem, cell);
    eco_caller_end(&caller);
    return status == ECORNN_OK ? eco_give("desc", desc, &parsed, sizeof parsed) : status;
}

static ecornn_status create(ecornn_plan **plan, ecornn_device *device,
                            const struct eco_problem *problem)
{
    return (problem->models > 1 ? eco_models_create : eco_plan_create)(plan, device, problem);
}

static struct ecornn_plan *one_of(struct ecornn_plan *plan)
{
    return plan->one ? plan->one : plan;
}

static struct eco_text note_of(struct ecornn_plan *plan)
{
    char *const note = one_of(plan)->note;
    return (struct eco_text){note, sizeof plan->note, strlen(note)};
}

/* A plan that wisdom does not choose is measured, then made again by what wisdom has learned. */
static ecornn_status create_measured(ecornn_plan **plan, ecornn_device *device,
                                     const struct eco_problem *problem, double seconds)
{
    char said[ECO_MAX_NOTE] = "";
    struct eco_text words = {said, sizeof said, 0};
    struct ecornn_plan *made;
    ecornn_status status = create(&made, device, problem);
    if (status == ECORNN_OK && !one_of(made)->by_wisdom &&
        eco_measure(made, seconds > 0 ? seconds : 0.05, &words)) {
        eco_plan_free(made);
        status = create(&made, device, problem);
    }
    if (status != ECORNN_OK)
        return status;
    struct eco_text note = note_of(made);
    eco_text_add(&note, "%s%s", note.length > 0 && *said ? "; " : "", said);
    *plan = made;
    return ECORNN_OK;
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
        status = (desc->flags & ECORNN_MEASURE) != 0
                     ? create_measured(&created, device, &problem, desc->measure_seconds)
                     : create(&created, device, &problem);
    if (status == ECORNN_OK) {
        struct ecornn_plan *one = one_of(created);
        struct eco_text note = note_of(created);
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
