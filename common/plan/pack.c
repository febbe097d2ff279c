/*
 * Parameters to packed weights and back, in host memory.  Every parameter is a dense block in both;
 * where it lies, layout.c says.
 */
#include "common/model.h"

#include <string.h>

#include "common/util.h"

static void layout_of(const struct ecornn_plan *plan, struct eco_layout *layout)
{
    eco_layout_build(layout, &plan->problem, &plan->wishes, plan->problem.T, plan->problem.N,
                     false);
}

void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights)
{
    struct eco_layout layout;
    layout_of(plan, &layout);
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        struct eco_param_place place;
        eco_problem_param(&plan->problem, i, &place);
        memcpy((char *)weights + eco_layout_param(&layout, &place), params[i],
               (size_t)place.param.rows * (size_t)place.param.cols * layout.element);
    }
}

static void add_elements(void *to, const void *from, size_t n, ecornn_type type)
{
    for (size_t i = 0; i < n; i++)
        if (type == ECORNN_F64)
            ((double *)to)[i] += ((const double *)from)[i];
        else
            ((float *)to)[i] += ((const float *)from)[i];
}

void eco_plan_unpack(const struct ecornn_plan *plan, const void *weights, void *const *params,
                     bool add)
{
    struct eco_layout layout;
    layout_of(plan, &layout);
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        struct eco_param_place place;
        eco_problem_param(&plan->problem, i, &place);
        const char *from = (const char *)weights + eco_layout_param(&layout, &place);
        const size_t n = (size_t)place.param.rows * (size_t)place.param.cols;
        if (add)
            add_elements(params[i], from, n, plan->problem.type);
        else
            memcpy(params[i], from, n * layout.element);
    }
}
