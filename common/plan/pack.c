/*
 * Parameters to packed weights, and gradients back, in host memory.  Where a parameter lies, and in
 * which panels, weights.c says.
 */
#include "common/model.h"

#include <string.h>

#include "common/util.h"

static void layout_of(const struct ecornn_plan *plan, struct eco_layout *layout)
{
    eco_layout_build(layout, &plan->problem, &plan->wishes, plan->problem.T, plan->problem.N,
                     false);
}

/* A parameter [rows, cols] on its way into a matrix of the packed weights. */
struct source {
    const char *data;
    size_t rows, cols, element;
    int before; /* which of the matrix's n it is */
};

/* One vector of a panel, for each k of the parameter: at to, to + stride, ...  The first `count` of
 * its lanes are units from `unit` on, the others 0. */
struct lane_group {
    char *to;
    size_t stride, count, lanes, unit; /* stride: bytes */
};

enum { K_AT_A_TIME = 32 }; /* the cache lines that lanes share stay near */

/* M[unit, k] = the parameter's row `unit`, element k. */
static void pack_rows(const struct source *source, const struct lane_group *group)
{
    const size_t element = source->element;
    for (size_t first = 0; first < source->cols; first += K_AT_A_TIME) {
        const size_t left = source->cols - first, n = left < K_AT_A_TIME ? left : K_AT_A_TIME;
        for (size_t j = 0; j < group->count; j++) {
            const char *from = source->data + ((group->unit + j) * source->cols + first) * element;
            char *to = group->to + first * group->stride + j * element;
            if (element == sizeof(float)) /* a constant: the copy is one move */
                for (size_t k = 0; k < n; k++)
                    memcpy(to + k * group->stride, from + k * sizeof(float), sizeof(float));
            else
                for (size_t k = 0; k < n; k++)
                    memcpy(to + k * group->stride, from + k * element, element);
        }
    }
}

/* M^T: unit is a column, k a row of the parameter. */
static void pack_columns(const struct source *source, const struct lane_group *group)
{
    for (size_t k = 0; k < source->rows; k++)
        memcpy(group->to + k * group->stride,
               source->data + (k * source->cols + group->unit) * source->element,
               group->count * source->element);
}

static void fill_up(const struct source *source, const struct lane_group *group, size_t k)
{
    const size_t used = group->count * source->element;
    for (size_t i = 0; used < group->lanes * source->element && i < k; i++)
        memset(group->to + i * group->stride + used, 0, group->lanes * source->element - used);
}

static void pack_vector(const struct source *source, const struct lane_group *group,
                        bool transposed)
{
    fill_up(source, group, transposed ? source->rows : source->cols);
    if (group->count > 0)
        (transposed ? pack_columns : pack_rows)(source, group);
}

/* Transposed, all numbers lie in the same vectors, one behind the other in k. */
static void pack_panels(const struct source *source, const struct eco_panels *panels,
                        bool transposed, char *weights)
{
    const int32_t number = transposed ? 0 : source->before;
    const size_t first_k = transposed ? (size_t)source->before * source->rows : 0;
    const size_t vector = (size_t)panels->lanes * source->element;
    for (int32_t block = 0; block < panels->blocks; block++)
        for (int32_t panel = 0; panel < panels->panels; panel++) {
            const int32_t first = eco_panels_vector(panels, panel);
            const int32_t end = eco_panels_vector(panels, panel + 1);
            const size_t stride = (size_t)(end - first) * vector;
            char *to = weights + eco_panels_offset(panels, block, panel) * source->element;
            for (int32_t v = first; v < end; v++) {
                const int32_t unit = (block * panels->spans + v % panels->spans) * panels->lanes;
                const int32_t left = panels->units - unit < 0 ? 0 : panels->units - unit;
                const struct lane_group group = {
                    .to = to + first_k * stride + (size_t)(v - first) * vector,
                    .stride = stride,
                    .count = (size_t)(left < panels->lanes ? left : panels->lanes),
                    .lanes = (size_t)panels->lanes,
                    .unit = (size_t)unit};
                if (v / panels->spans == number)
                    pack_vector(source, &group, transposed);
            }
        }
}

static void pack_param(const struct eco_layout *layout, const struct eco_param_place *place,
                       const void *param, char *weights)
{
    const struct eco_problem *problem = layout->problem;
    struct source source = {.data = param,
                            .rows = (size_t)place->param.rows,
                            .cols = (size_t)place->param.cols,
                            .element = layout->element};
    const int layer = place->layer, d = place->direction;
    const int part = eco_problem_part(problem, place, &source.before);
    char *to = weights + eco_layout_weights(layout, layer, d, part);
    if (layout->wishes.lanes == 0 || part == ECO_PART_VECTORS) {
        const size_t bytes = source.rows * source.cols * source.element;
        memcpy(to + (size_t)source.before * bytes, param, bytes);
        return;
    }
    const struct eco_matrix matrix = eco_problem_matrix(problem, layer, part);
    const struct eco_panels forward = eco_panels_of(&matrix, false, &layout->wishes);
    pack_panels(&source, &forward, false, to);
    if (!problem->training)
        return;
    const struct eco_panels back = eco_panels_of(&matrix, true, &layout->wishes);
    pack_panels(&source, &back, true, weights + eco_layout_weights_back(layout, layer, d, part));
}

void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights)
{
    struct eco_layout layout;
    layout_of(plan, &layout);
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        struct eco_param_place place;
        eco_problem_param(&plan->problem, i, &place);
        pack_param(&layout, &place, params[i], weights);
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

void eco_plan_unpack(const struct ecornn_plan *plan, const void *dweights, void *const *params,
                     bool add)
{
    struct eco_layout layout;
    layout_of(plan, &layout);
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        struct eco_param_place place;
        eco_problem_param(&plan->problem, i, &place);
        const size_t n = (size_t)place.param.rows * (size_t)place.param.cols;
        int before = 0;
        const int part = eco_problem_part(&plan->problem, &place, &before);
        const size_t at = eco_layout_gradient(&layout, place.layer, place.direction, part) +
                          (size_t)before * n * layout.element;
        const char *from = (const char *)dweights + at;
        if (add)
            add_elements(params[i], from, n, plan->problem.type);
        else
            memcpy(params[i], from, n * layout.element);
    }
}
