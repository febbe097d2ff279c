/*
 * What runs ask of a layout: where its arrays are, and which states and values it keeps.  And the
 * rows and shapes of the arrays that callers give.
 */
#include <stddef.h>

#include "common/plan/shapes.h"
#include "common/run_arrays.h"
#include "common/tape.h"

/* ---- what it keeps --------------------------------------------------------------------------- */

bool eco_layout_replays(const struct eco_layout *layout)
{
    return layout->training && layout->problem->saving.policy != ECO_SAVE_ALL &&
           !layout->request.plain;
}

bool eco_layout_narrows(const struct eco_layout *layout)
{
    return eco_layout_replays(layout) && layout->problem->saving.policy == ECO_SAVE_NARROW;
}

bool eco_layout_saves(const struct eco_layout *layout)
{
    return layout->training &&
           (layout->back || !eco_layout_replays(layout) || eco_layout_narrows(layout));
}

bool eco_layout_is_lean(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    return layout->request.gpu.lean && (layout->training || problem->resets || problem->states);
}

bool eco_layout_copies_states(const struct eco_layout *layout)
{
    return layout->request.gpu.lean && (layout->training || layout->problem->states);
}

bool eco_layout_knows_states(const struct eco_layout *layout)
{
    return layout->problem->cell->recipe.n_states == 1 || layout->problem->saving.every == 1;
}

bool eco_layout_copies_direct(const struct eco_layout *layout)
{
    const struct eco_saving *saving = &layout->problem->saving;
    return !eco_layout_replays(layout) ||
           (saving->every == 1 && saving->type == layout->problem->type);
}

/* A state that is saved in its own type is exact. */
ecornn_type eco_layout_checkpoint_type(const struct eco_layout *layout)
{
    const struct eco_saving *saving = &layout->problem->saving;
    const bool exact = saving->policy == ECO_SAVE_EVERY && saving->type == layout->problem->type;
    return exact ? layout->sum : saving->type;
}

bool eco_layout_keeps_all(const struct eco_layout *layout)
{
    return layout->problem->saving.every == 1 &&
           (eco_layout_is_lean(layout) || eco_layout_narrows(layout));
}

/* Rounded states need the last step too, because a row that ends before others has its last step
 * among theirs. */
int32_t eco_layout_followed(const struct eco_layout *layout)
{
    const bool any = eco_layout_is_lean(layout) && !layout->problem->row_invariant;
    return layout->T - (any || eco_layout_checkpoint_type(layout) == layout->sum);
}

/* Steps done after step t.  Backward never reads the state after the last one. */
static int32_t done(const struct eco_layout *layout, int d, int32_t t)
{
    return eco_problem_reversed(layout->problem, d) ? t : t + 1;
}

bool eco_layout_is_checkpoint(const struct eco_layout *layout, int d, int32_t t)
{
    const int32_t k = done(layout, d, t);
    return eco_layout_keeps_all(layout) ||
           (k > 0 && k <= eco_layout_followed(layout) && k % layout->problem->saving.every == 0);
}

size_t eco_layout_checkpoint_index(const struct eco_layout *layout, int d, int32_t t)
{
    const int32_t every = layout->problem->saving.every;
    return (size_t)(eco_layout_keeps_all(layout) ? t : done(layout, d, t) / every - 1);
}

size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next)
{
    return (size_t)t + (next ? 1 : eco_problem_reversed(layout->problem, d) ? 2 : 0);
}

bool eco_layout_sums_by_group(const struct eco_layout *layout)
{
    const int64_t rows = (int64_t)layout->T * layout->N;
    return layout->request.cpu.gradient_rows > 0 && rows > layout->request.cpu.gradient_rows;
}

bool eco_layout_sums_dx(const struct eco_problem *problem)
{
    return problem->row_invariant && problem->D > 1 && eco_type_narrow(problem->type);
}

bool eco_layout_shares_exchange(const struct eco_layout *layout, bool backward)
{
    return layout->request.gpu.steps_exchange && layout->request.gpu.shares[backward];
}

size_t eco_layout_carried_column(const struct eco_problem *problem)
{
    enum { GROUP = 16 };
    return ((size_t)problem->H + 2 * GROUP - 1) / GROUP * GROUP;
}

/* ---- where its arrays are -------------------------------------------------------------------- */

enum { ONE_BLOCK = 31 }; /* shift of a block with all units */

struct eco_blocks eco_layout_acc_blocks(const struct eco_layout *layout)
{
    const size_t H = (size_t)layout->problem->H;
    const int32_t steps = layout->fuse_input ? 1 : layout->chunk;
    const size_t rows = (size_t)steps * (size_t)layout->N;
    struct eco_blocks blocks = {ONE_BLOCK, eco_request_row(&layout->request, H), 0};
    if (layout->request.cpu.acc_units == 0)
        return blocks;
    for (blocks.shift = 0; 1 << blocks.shift < layout->request.cpu.acc_units;)
        blocks.shift++;
    blocks.column = (size_t)layout->request.cpu.acc_units;
    blocks.block = rows * (size_t)layout->problem->cell->lowered.n_accs * blocks.column;
    return blocks;
}

struct eco_size eco_layout_matrix_bytes(const struct eco_layout *layout, int layer, int from,
                                        int before)
{
    struct eco_size bytes = eco_size_of(0);
    for (int weight_id = from; weight_id < before; weight_id++) {
        const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, weight_id);
        if (weight_id != ECO_WEIGHT_VECTORS)
            bytes = eco_size_add(bytes, eco_size_align(eco_layout_product_bytes(
                                            layout->type, (size_t)matrix->n, (size_t)matrix->height,
                                            (size_t)matrix->row)));
    }
    return bytes;
}

/* A matrix of a copy of weights. */
static void point_at_matrix(struct eco_array *array, const struct eco_layout *layout,
                            enum eco_inner which, int layer, int weight_id)
{
    const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, weight_id);
    const bool transposed = which == ECO_INNER_TRANSPOSED;
    const int first = transposed ? ECO_WEIGHT_RECURRENT : 0;
    array->offset += eco_layout_matrix_bytes(layout, layer, first, weight_id).value;
    array->row = transposed ? (size_t)matrix->n * (size_t)matrix->height : (size_t)matrix->row;
    array->type = layout->type;
}

bool eco_layout_planes_are_y(const struct eco_layout *layout)
{
    return layout->training && !eco_layout_replays(layout) &&
           !eco_problem_wide_output(layout->problem);
}

/* Planes of the output state and y of a lower layer may be one array. */
static enum eco_inner stored(const struct eco_layout *layout, enum eco_inner which, int layer,
                             int index)
{
    const bool are_y = eco_layout_planes_are_y(layout),
               lower = index == 0 && layer < layout->problem->L - 1;
    if (which == ECO_INNER_SEQUENCE && are_y)
        return ECO_INNER_STATE;
    return which == ECO_INNER_STATE && lower && !are_y && !layout->back &&
                   !eco_layout_is_lean(layout) && !eco_problem_wide_output(layout->problem)
               ? ECO_INNER_SEQUENCE
               : which;
}

#define ARRAY(name, number, ...) {ECO_SERIES_##name, ECO_##number},
static const struct {
    uint8_t series, number;
} place[ECO_INNERS] = {
#include "common/array_rows.inc"
};
#undef ARRAY

struct eco_array eco_layout_array(const struct eco_layout *layout, enum eco_inner which,
                                  bool backward, int layer, int d, int index)
{
    const bool both = layout->problem->L > 1 && which <= ECO_INNER_SEQUENCE;
    const enum eco_inner at = both                         ? stored(layout, which, layer, index)
                              : which == ECO_INNER_DGATHER ? ECO_INNER_GATHER
                                                           : which;
    const int number = place[at].number;
    const struct eco_series *series =
        &layout->series[place[at].series + (number == ECO_BOTH     ? backward
                                            : number == ECO_STATES ? index
                                                                   : 0)];
    const int k = series->part > 0 ? layer : layer * layout->problem->D + d;
    struct eco_array array = series->first;
    array.offset += (size_t)(k < series->count ? k : k % series->count) * series->bytes;
    if (d > 0)
        array.offset += (size_t)d * series->part * eco_type_bytes(array.type);
    if (at == ECO_INNER_GATHER) { /* rows have this layer's input width */
        const size_t input = (size_t)eco_problem_input(layout->problem, layer);
        array.row = eco_layout_alias_padded(layout, eco_request_row(&layout->request, input));
        array.step = array.row * (size_t)layout->N;
        array.type = which == ECO_INNER_DGATHER ? layout->sum : layout->type;
    } else if (at == ECO_INNER_WIDENED || at == ECO_INNER_TRANSPOSED) {
        point_at_matrix(&array, layout, at, layer, index);
    }
    return array;
}

/* ---- of callers ------------------------------------------------------------------------------ */

#define ONE          1
#define EACH         ECO_MAX_STATES
#define IN           false
#define OUT          true
#define BYTES(block) 0, .bytes = offsetof(ecornn_sizes, block##_bytes)
#define FROM(field)  offsetof(struct eco_args, field)
#define FLAG(bit)    ECORNN_##bit, .flag_name = #bit
#define ALL          0
#define ARRAY(structure, field, number, writes, kind, shape, empty, when, of_models, of_nets,      \
              of_tangents, plans)                                                                  \
    {.name = #structure "." #field,                                                                \
     .gradient = sizeof #structure == sizeof "gradient",                                           \
     .given = offsetof(ecornn_##structure, field),                                                 \
     .at = offsetof(struct eco_args, field),                                                       \
     .count = number,                                                                              \
     .output = writes,                                                                             \
     .element = ECO_ARRAY_##kind,                                                                  \
     .letters = shape,                                                                             \
     .if_empty = empty,                                                                            \
     .required = when,                                                                             \
     .models = ECO_MODELS_##of_models,                                                             \
     .nets = ECO_NETS_##of_nets,                                                                   \
     .tangents = of_tangents,                                                                      \
     .flag = plans},

enum {
    N = ECO_N,
    LN = ECO_L | ECO_N,
    TN = ECO_T | ECO_N,
    LTN = ECO_L | TN,
    TNI = TN | ECO_I,
    TNY = TN | ECO_Y,
    NOTHING = ECO_EMPTY_NOTHING,
    ZEROS = ECO_EMPTY_ZEROS,
    NEVER = ECO_NEVER_REQUIRED,
    RUNS = ECO_IN_RUNS,
    BACKWARD = ECO_IN_BACKWARD,
    NONE = ECO_NO_ARRAY,
    ITS = ECO_ONE_ARRAY,
    BOTH = ECO_WITH_TANGENT
};

const struct eco_run_array eco_run_array[ECO_RUN_ARRAYS] = {
#include "common/run_array_rows.inc"
};

struct eco_run_shape eco_run_array_shape(const struct eco_run_array *array,
                                         const struct eco_problem *problem, int s, int32_t steps,
                                         int32_t rows)
{
    static const uint8_t element[ECO_ARRAY_ELEMENTS] = {[ECO_ARRAY_MARK] = 1,
                                                        [ECO_ARRAY_LENGTH] = sizeof(int32_t),
                                                        [ECO_ARRAY_INDEX] = sizeof(int32_t),
                                                        [ECO_ARRAY_BLOCK] = 1};
    struct eco_run_shape shape = {.lanes = 1, .width = 1, .element = element[array->element]};
    shape.steps = (array->letters & ECO_T) != 0 ? steps : 1;
    shape.rows = (array->letters & ECO_N) != 0 ? rows : 1;
    if ((array->letters & ECO_L) != 0)
        shape.lanes = problem->L * problem->D;
    if ((array->letters & ECO_I) != 0)
        shape.width = problem->I;
    if ((array->letters & ECO_Y) != 0)
        shape.lanes = problem->D, shape.width = problem->Y;
    if (array->element == ECO_ARRAY_STATE)
        shape.width = eco_problem_width(problem, s);
    if (array->element <= ECO_ARRAY_STATE) {
        shape.type =
            array->element == ECO_ARRAY_STATE ? eco_problem_state_type(problem, s) : problem->type;
        shape.element = eco_type_bytes(shape.type);
    }
    return shape;
}
