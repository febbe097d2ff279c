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
    size_t rows, cols;
    ecornn_type from, to;
    int before; /* which of the matrix's n it is */
};

/* One vector of a panel, for each k of the parameter.  The first `count` of its lanes are units
 * from `unit` on, the others 0. */
struct lane_group {
    char *to;      /* lane 0 of k = 0 */
    size_t stride; /* bytes from one group of k to the next */
    size_t first;  /* k of the parameter's k = 0 */
    size_t group, pair, element;
    size_t count, lanes, unit;
};

enum { K_AT_A_TIME = 32, MOST_LANES = 64 }; /* the cache lines that lanes share stay near */

/* Lane 0 of the parameter's k; lanes are `pair` elements apart. */
static char *lane_at(const struct lane_group *group, size_t k)
{
    const size_t at = group->first + k, inside = at % group->group;
    const size_t element = inside / group->pair * group->lanes * group->pair + inside % group->pair;
    return group->to + at / group->group * group->stride + element * group->element;
}

static const char *source_at(const struct source *source, size_t row, size_t column)
{
    return source->data + (row * source->cols + column) * eco_type_bytes(source->from);
}

/* to[0], to[step], ... = n elements, in bytes; a constant element: the copy is one move. */
static void spread(char *to, size_t step, const char *from, size_t n, size_t element)
{
    if (element == sizeof(float))
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * step, from + i * sizeof(float), sizeof(float));
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * step, from + i * element, element);
}

/* M[unit, k] = the parameter's row `unit`, element k. */
static void pack_rows(const struct source *source, const struct lane_group *group)
{
    double converted[K_AT_A_TIME];
    const size_t element = group->element, step = group->pair * element;
    const bool same = source->from == source->to;
    for (size_t first = 0; first < source->cols; first += K_AT_A_TIME) {
        const size_t left = source->cols - first, n = left < K_AT_A_TIME ? left : K_AT_A_TIME;
        for (size_t j = 0; j < group->count; j++) {
            const char *from = source_at(source, group->unit + j, first);
            if (!same)
                eco_type_move(converted, source->to, from, source->from, n);
            from = same ? from : (const char *)converted;
            if (group->group == 1)
                spread(lane_at(group, first) + j * step, group->stride, from, n, element);
            else
                for (size_t k = 0; k < n; k++)
                    memcpy(lane_at(group, first + k) + j * step, from + k * element, element);
        }
    }
}

/* M^T: unit is a column, k a row of the parameter. */
static void pack_columns(const struct source *source, const struct lane_group *group)
{
    double converted[MOST_LANES];
    for (size_t k = 0; k < source->rows; k++) {
        eco_type_move(converted, source->to, source_at(source, k, group->unit), source->from,
                      group->count);
        spread(lane_at(group, k), group->pair * group->element, (const char *)converted,
               group->count, group->element);
    }
}

static void fill_up(const struct lane_group *group, size_t k)
{
    const size_t used = group->count * group->element, all = group->lanes * group->element;
    for (size_t i = 0; used < all && i < k; i++)
        memset(lane_at(group, i) + used, 0, all - used);
}

static void pack_vector(const struct source *source, const struct lane_group *group,
                        bool transposed)
{
    if (group->group == 1) /* else all is 0 before */
        fill_up(group, transposed ? source->rows : source->cols);
    if (group->count > 0)
        (transposed ? pack_columns : pack_rows)(source, group);
}

/* Transposed, all numbers lie in the same vectors, one behind the other in k. */
static void pack_panels(const struct source *source, const struct eco_panels *panels,
                        bool transposed, char *weights)
{
    const int32_t number = transposed ? 0 : source->before;
    const size_t element = eco_type_bytes(source->to);
    const size_t group = (size_t)panels->group, vector = group * (size_t)panels->lanes * element;
    for (int32_t block = 0; block < panels->blocks; block++)
        for (int32_t panel = 0; panel < panels->panels; panel++) {
            const int32_t first = eco_panels_vector(panels, panel);
            const int32_t end = eco_panels_vector(panels, panel + 1);
            char *to = weights + eco_panels_offset(panels, block, panel) * element;
            for (int32_t v = first; v < end; v++) {
                const int32_t unit = (block * panels->spans + v % panels->spans) * panels->lanes;
                const int32_t left = panels->units - unit < 0 ? 0 : panels->units - unit;
                const struct lane_group lanes = {
                    .to = to + (size_t)(v - first) * vector,
                    .stride = (size_t)(end - first) * vector,
                    .first = transposed ? (size_t)source->before * source->rows : 0,
                    .group = group,
                    .pair = (size_t)panels->pair,
                    .element = element,
                    .count = (size_t)(left < panels->lanes ? left : panels->lanes),
                    .lanes = (size_t)panels->lanes,
                    .unit = (size_t)unit};
                if (v / panels->spans == number)
                    pack_vector(source, &lanes, transposed);
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
                            .from = problem->param_type};
    const int layer = place->layer, d = place->direction;
    const int part = eco_problem_part(problem, place, &source.before);
    char *to = weights + eco_layout_weights(layout, layer, d, part);
    source.to = part == ECO_PART_VECTORS ? layout->sum : layout->weight;
    if (layout->wishes.lanes == 0 || part == ECO_PART_VECTORS) {
        const size_t n = source.rows * source.cols;
        to += (size_t)source.before * n * eco_type_bytes(source.to);
        eco_type_move(to, source.to, param, source.from, n);
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
    if (layout.wishes.group > 1) /* what fills up lanes and groups */
        memset(weights, 0, layout.weights_bytes);
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        struct eco_param_place place;
        eco_problem_param(&plan->problem, i, &place);
        pack_param(&layout, &place, params[i], weights);
    }
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
                          (size_t)before * n * eco_type_bytes(layout.sum);
        const char *from = (const char *)dweights + at;
        (add ? eco_type_add : eco_type_move)(params[i], plan->problem.param_type, from, layout.sum,
                                             n);
    }
}
