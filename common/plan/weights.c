/*
 * The layout of packed weights and their gradient: matrices, panels, byte offsets.  Only this file
 * and layout.c know offsets.
 */
#include "common/layout.h"
#include "common/plan/shapes.h"
#include "common/util.h"
#include "common/weights.h"

#include <assert.h>

/* ---- matrices -------------------------------------------------------------------------------- */

static bool uses_weight(const struct eco_accumulator *acc, int weight_id)
{
    return (weight_id == ECO_WEIGHT_INPUT ? acc->input
                                          : acc->recurrent[weight_id - ECO_WEIGHT_RECURRENT]) >= 0;
}

struct eco_matrix eco_problem_matrix(const struct eco_problem *problem, int layer, int weight_id)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    struct eco_matrix matrix = {.units = problem->H, .columns = 1};
    if (weight_id == ECO_WEIGHT_PROJECT) {
        matrix.n = problem->projected ? 1 : 0;
        matrix.units = problem->P;
        matrix.columns = problem->H;
    } else if (weight_id == ECO_WEIGHT_VECTORS) {
        matrix.n = eco_vector_number(recipe, recipe->n_params);
    } else if (weight_id == ECO_WEIGHT_INPUT ||
               weight_id - ECO_WEIGHT_RECURRENT < lowered->n_operands) {
        for (int a = 0; a < lowered->n_accs; a++)
            matrix.n += uses_weight(&lowered->acc[a], weight_id);
        matrix.columns = weight_id == ECO_WEIGHT_INPUT
                             ? eco_problem_rest(problem, layer)
                             : eco_problem_columns(problem, weight_id - ECO_WEIGHT_RECURRENT);
    }
    matrix.height = matrix.units;
    matrix.row = matrix.columns;
    return matrix;
}

struct eco_work eco_problem_work(const struct eco_problem *problem, int layer)
{
    struct eco_work work = {0, 0};
    for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS; weight_id++) {
        const struct eco_matrix matrix = eco_problem_matrix(problem, layer, weight_id);
        if (weight_id != ECO_WEIGHT_VECTORS)
            *(weight_id == ECO_WEIGHT_INPUT ? &work.input : &work.recurrent) +=
                (double)matrix.n * matrix.units * matrix.columns;
    }
    return work;
}

int eco_problem_weight_id(const struct eco_problem *problem,
                          const struct eco_param_position *position, int *before)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const int index = position->recipe_param;
    *before = 0;
    if (index < 0)
        return ECO_WEIGHT_PROJECT;
    if (position->vector) {
        *before = eco_vector_number(recipe, index);
        return ECO_WEIGHT_VECTORS;
    }
    for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS; weight_id++) {
        *before = 0;
        if (weight_id == ECO_WEIGHT_PROJECT || weight_id == ECO_WEIGHT_VECTORS)
            continue;
        for (int a = 0; a < lowered->n_accs; a++) {
            const struct eco_accumulator *acc = &lowered->acc[a];
            if (index == (weight_id == ECO_WEIGHT_INPUT
                              ? acc->input
                              : acc->recurrent[weight_id - ECO_WEIGHT_RECURRENT]))
                return weight_id;
            *before += uses_weight(acc, weight_id);
        }
    }
    assert(!"every parameter has its place");
    return ECO_WEIGHT_IDS;
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* For a power of two. */
static int32_t log2_of(int32_t n)
{
    int32_t shift = 0;
    while (1 << shift < n)
        shift++;
    assert(1 << shift == n);
    return shift;
}

struct eco_panels eco_panels_of(const struct eco_matrix *matrix, bool transposed,
                                const struct eco_layout_request *request)
{
    struct eco_panels panels = {.n = matrix->n, .units = matrix->units, .k = matrix->columns};
    if (transposed) {
        panels.n = matrix->n > 0 ? 1 : 0;
        panels.units = matrix->columns;
        panels.k = matrix->n * matrix->units;
    }
    panels.lanes = request->cpu.lanes;
    panels.group = request->cpu.group > 0 ? request->cpu.group : 1;
    panels.pair = request->cpu.pair > 0 ? request->cpu.pair : 1;
    panels.depth = (panels.k + panels.group - 1) / panels.group * panels.group;
    const bool alone = panels.n < 2 && request->cpu.vectors % request->cpu.lane_groups == 0;
    panels.lane_groups = alone ? request->cpu.vectors : request->cpu.lane_groups;
    if (panels.units <= panels.lanes)
        panels.lane_groups = 1;
    const int32_t units = panels.lanes * panels.lane_groups;
    panels.shift = log2_of(panels.lane_groups);
    panels.units_shift = log2_of(units);
    panels.blocks = (panels.units + units - 1) / units;
    const int32_t vectors = panels.n * panels.lane_groups;
    panels.panels = (vectors + request->cpu.vectors - 1) / request->cpu.vectors;
    panels.vectors = panels.panels > 0 ? vectors / panels.panels : 0;
    panels.wider = vectors - panels.panels * panels.vectors;
    return panels;
}

const struct eco_matrix *eco_layout_matrix(const struct eco_layout *layout, int layer,
                                           int weight_id)
{
    return &layout->packing->matrix[layer > 0][weight_id];
}

const struct eco_panels *eco_layout_panels(const struct eco_layout *layout, int layer,
                                           int weight_id, bool transposed)
{
    return &layout->packing->panels[layer > 0][transposed][weight_id];
}

/* ---- offsets --------------------------------------------------------------------------------- */

static struct eco_size form_bytes(const struct eco_layout *layout, int layer, int weight_id,
                                  enum eco_form form)
{
    const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, weight_id);
    if (matrix->n == 0)
        return eco_size_of(0);
    const bool panelled = layout->request.cpu.lanes > 0 && weight_id != ECO_WEIGHT_VECTORS;
    struct eco_size elements = eco_size_of((size_t)matrix->n);
    if (form != ECO_FORM_DENSE && panelled) {
        const struct eco_panels *panels =
            eco_layout_panels(layout, layer, weight_id, form == ECO_FORM_BACK);
        elements = eco_size_mul(eco_size_of((size_t)panels->blocks), (size_t)panels->n);
        elements = eco_size_mul(elements, (size_t)(panels->lane_groups * panels->lanes));
        elements = eco_size_mul(elements, (size_t)panels->depth);
        if (form == ECO_FORM_BACK && !layout->problem->training)
            elements = eco_size_of(0);
    } else if (form == ECO_FORM_BACK) {
        elements = eco_size_of(0); /* dense products read M in either orientation */
    } else {
        elements =
            eco_size_mul(eco_size_mul(elements, (size_t)matrix->height), (size_t)matrix->row);
    }
    const ecornn_type type =
        form == ECO_FORM_DENSE || weight_id == ECO_WEIGHT_VECTORS ? layout->sum : layout->weight;
    struct eco_size bytes = eco_size_mul(elements, eco_type_bytes(type));
    if (type == ECORNN_S8 && !panelled) {
        const size_t rows = (size_t)matrix->n * (size_t)matrix->height, row = (size_t)matrix->row;
        bytes = eco_size_add(
            bytes, eco_size_of(eco_matrix_scales(matrix) - rows * row + rows * sizeof(float)));
    } else if (type == ECORNN_S8 && form == ECO_FORM_FORWARD) {
        const struct eco_panels *panels = eco_layout_panels(layout, layer, weight_id, false);
        bytes = eco_size_add(bytes, eco_size_of(eco_panels_scales(panels, panels->blocks, 0) -
                                                eco_panels_elements(panels)));
    }
    return eco_size_align(bytes);
}

struct eco_matrix eco_stored_matrix(const struct eco_problem *problem,
                                    const struct eco_layout_request *request, int layer,
                                    int weight_id)
{
    struct eco_matrix matrix = eco_problem_matrix(problem, layer, weight_id);
    if (weight_id != ECO_WEIGHT_VECTORS && weight_id != ECO_WEIGHT_PROJECT) {
        matrix.height = (int32_t)eco_request_row(request, (size_t)matrix.units);
        matrix.row = (int32_t)eco_request_row(request, (size_t)matrix.columns);
    }
    if (weight_id == ECO_WEIGHT_PROJECT && eco_layout_pads_units(problem, request))
        matrix.row = (int32_t)eco_request_row(request, (size_t)matrix.columns);
    return matrix;
}

static void shape_weights(struct eco_layout *layout, int later)
{
    for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS; weight_id++) {
        struct eco_matrix *matrix = &layout->own_packing.matrix[later][weight_id];
        *matrix = eco_stored_matrix(layout->problem, &layout->request, later, weight_id);
        for (int back = 0; back < 2 && matrix->n > 0 && layout->request.cpu.lanes > 0; back++)
            layout->own_packing.panels[later][back][weight_id] =
                eco_panels_of(matrix, back, &layout->request);
    }
}

/* Places the weights of a form one after the other; returns their bytes. */
static struct eco_size put_form(struct eco_layout *layout, int later, enum eco_form form)
{
    struct eco_size end = eco_size_of(0);
    for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS; weight_id++) {
        layout->own_packing.weight[later][form][weight_id] = end.value;
        end = eco_size_add(end, form_bytes(layout, later, weight_id, form));
    }
    return end;
}

static struct eco_size all_layers(const struct eco_problem *problem, struct eco_size first,
                                  struct eco_size later)
{
    const size_t D = (size_t)problem->D;
    return eco_size_add(eco_size_mul(first, D), eco_size_mul(later, D * (size_t)(problem->L - 1)));
}

static size_t checked(struct eco_size size)
{
    return size.overflow ? SIZE_MAX : size.value;
}

void eco_layout_build_weights(struct eco_layout *layout)
{
    if (layout->request.plain) {
        const size_t n = eco_problem_param_elements(layout->problem);
        layout->weights_bytes =
            checked(eco_size_mul(eco_size_of(n), n == SIZE_MAX ? 2 : eco_type_bytes(layout->sum)));
        layout->dweights_bytes = layout->weights_bytes;
        return;
    }
    struct eco_size all[ECO_FORMS];
    for (int i = 0; i < 2; i++)
        shape_weights(layout, i);
    for (enum eco_form form = 0; form < ECO_FORMS; form++) {
        const struct eco_size first = put_form(layout, 0, form), later = put_form(layout, 1, form);
        layout->own_packing.direction[form][0] = first.value;
        layout->own_packing.direction[form][1] = later.value;
        all[form] = all_layers(layout->problem, first, later);
    }
    layout->own_packing.form[ECO_FORM_BACK] = all[ECO_FORM_FORWARD].value;
    layout->weights_bytes = checked(eco_size_add(all[ECO_FORM_FORWARD], all[ECO_FORM_BACK]));
    layout->dweights_bytes = checked(all[ECO_FORM_DENSE]);
}

static size_t offset_of(const struct eco_layout *layout, enum eco_form form, int layer, int d,
                        int weight_id)
{
    const size_t D = (size_t)layout->problem->D, *bytes = layout->packing->direction[form];
    const size_t below = layer > 0 ? D * (bytes[0] + (size_t)(layer - 1) * bytes[1]) : 0;
    return layout->packing->form[form] + below + (size_t)d * bytes[layer > 0] +
           layout->packing->weight[layer > 0][form][weight_id];
}

size_t eco_layout_weights(const struct eco_layout *layout, int layer, int d, int weight_id)
{
    return offset_of(layout, ECO_FORM_FORWARD, layer, d, weight_id);
}

size_t eco_layout_weights_back(const struct eco_layout *layout, int layer, int d, int weight_id)
{
    return offset_of(layout, ECO_FORM_BACK, layer, d, weight_id);
}

size_t eco_layout_gradient(const struct eco_layout *layout, int layer, int d, int weight_id)
{
    return offset_of(layout, ECO_FORM_DENSE, layer, d, weight_id);
}

/* ---- accumulators ---------------------------------------------------------------------------- */

/*
 * The accumulators that use a weight, and the position of a vector's values and gradient.
 */

bool eco_acc_range_next(const struct eco_lowered *lowered, int weight_id, int from,
                        struct eco_acc_range *range)
{
    *range = (struct eco_acc_range){0, 0, 0};
    if (weight_id == ECO_WEIGHT_PROJECT) {
        range->end = 1;
        return from == 0;
    }
    for (int a = 0; a < lowered->n_accs; a++) {
        const struct eco_accumulator *acc = &lowered->acc[a];
        const bool has =
            (weight_id == ECO_WEIGHT_INPUT ? acc->input
                                           : acc->recurrent[weight_id - ECO_WEIGHT_RECURRENT]) >= 0;
        if (has && a >= from && range->end == 0)
            range->first = a;
        if (has && a >= from && (range->end == 0 || range->end == a))
            range->end = a + 1;
        range->before += has && a < from;
    }
    return range->end > 0;
}

int eco_vector_number(const struct eco_recipe *recipe, int param)
{
    int before = 0;
    for (int i = 0; i < param; i++)
        before += recipe->param[i].kind == ECO_PARAM_VECTOR;
    return before;
}

int eco_vector_column(const struct eco_lowered *lowered, int param)
{
    for (int a = 0; a < lowered->n_accs; a++)
        if (lowered->acc[a].vector == param)
            return a;
    for (int i = 0; i < lowered->n_extra; i++)
        if (lowered->extra[i] == param)
            return lowered->n_accs + i;
    return -1;
}
