/* A run's arrays: those of a layout, how states are stored, and the rows of what callers give. */
#include <stddef.h>

#include "common/plan/shapes.h"
#include "common/run_arrays.h"
#include "common/tape.h"

static struct eco_array series_get(const struct eco_series *series, int k)
{
    struct eco_array array = series->first;
    array.offset += (size_t)(k < series->count ? k : k % series->count) * series->bytes;
    return array;
}

struct eco_array eco_layout_state(const struct eco_layout *layout, int layer, int d, int state)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_series *series =
        layer == problem->L - 1 ? &layout->last_state[state] : &layout->state[state];
    struct eco_array array = series_get(series, layer);
    /* a row for the layer above has no gap between directions */
    const size_t before = array.wrap > 0 ? eco_layout_plane_part(layout, state)
                                         : (size_t)eco_problem_width(problem, state);
    array.offset += (size_t)d * before * eco_type_bytes(array.type);
    return array;
}

struct eco_array eco_layout_checkpoint(const struct eco_layout *layout, int layer, int d, int state)
{
    struct eco_array array = series_get(&layout->checkpoint[state], layer);
    array.offset +=
        (size_t)d * (size_t)eco_problem_width(layout->problem, state) * eco_type_bytes(array.type);
    return array;
}

static int pair(const struct eco_layout *layout, int layer, int d)
{
    return layer * layout->problem->D + d;
}

struct eco_array eco_layout_save(const struct eco_layout *layout, int layer, int d)
{
    return series_get(&layout->save, pair(layout, layer, d));
}

struct eco_array eco_layout_kept_save(const struct eco_layout *layout, int layer, int d)
{
    return series_get(&layout->kept_save, pair(layout, layer, d));
}

struct eco_array eco_layout_kept_output(const struct eco_layout *layout, int layer, int d)
{
    return series_get(&layout->kept_output, pair(layout, layer, d));
}

struct eco_array eco_layout_output(const struct eco_layout *layout, int layer, int d)
{
    return series_get(&layout->output, pair(layout, layer, d));
}

struct eco_array eco_layout_scratch(const struct eco_layout *layout, bool backward, int layer,
                                    int d, enum eco_scratch scratch)
{
    const bool dx = scratch == ECO_SCRATCH_DGATHER;
    struct eco_array array = series_get(
        &layout->scratch[backward][dx ? ECO_SCRATCH_GATHER : scratch], pair(layout, layer, d));
    if (dx || scratch == ECO_SCRATCH_GATHER) { /* rows have this layer's input width */
        const size_t input = (size_t)eco_problem_input(layout->problem, layer);
        array.row = eco_layout_alias_padded(layout, eco_request_row(&layout->request, input));
        array.step = array.row * (size_t)layout->N;
        array.type = dx ? layout->sum : layout->type;
    }
    if (scratch == ECO_SCRATCH_ACC) { /* rows of one block */
        array.row =
            (size_t)layout->problem->cell->lowered.n_accs * eco_layout_acc_blocks(layout).column;
        array.step = layout->fuse_input ? 0 : array.row * (size_t)layout->N;
    }
    return array;
}

size_t eco_layout_dacc_step(const struct eco_layout *layout, const struct eco_op *op)
{
    return layout->request.gpu.weights_chunks > 1 ? (size_t)(op->t0 % layout->weights_steps) : 0;
}

struct eco_array eco_layout_widened(const struct eco_layout *layout, bool backward, int layer,
                                    int d, int weight_id)
{
    struct eco_array array = eco_layout_scratch(layout, backward, layer, d, ECO_SCRATCH_WIDENED);
    array.offset += eco_layout_matrix_bytes(layout, layer, 0, weight_id).value;
    array.row = (size_t)eco_layout_matrix(layout, layer, weight_id)->row;
    array.type = layout->type;
    return array;
}

struct eco_array eco_layout_transposed(const struct eco_layout *layout, bool backward, int layer,
                                       int d, int weight_id)
{
    const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, weight_id);
    struct eco_array array = eco_layout_scratch(layout, backward, layer, d, ECO_SCRATCH_TRANSPOSED);
    array.offset += eco_layout_matrix_bytes(layout, layer, ECO_WEIGHT_RECURRENT, weight_id).value;
    array.row = (size_t)matrix->n * (size_t)matrix->height;
    array.type = layout->type;
    return array;
}

struct eco_array eco_layout_carry(const struct eco_layout *layout, int layer, int d, int state)
{
    return series_get(&layout->carry[state], pair(layout, layer, d));
}

struct eco_array eco_layout_replaced(const struct eco_layout *layout, int layer, int d, int state)
{
    return series_get(&layout->replaced[state], pair(layout, layer, d));
}

struct eco_array eco_layout_with_resets(const struct eco_layout *layout, int layer, int d,
                                        int state)
{
    return series_get(&layout->with_resets[state], pair(layout, layer, d));
}

struct eco_array eco_layout_dstart(const struct eco_layout *layout, int layer, int d, int state)
{
    return series_get(&layout->dstart[state], pair(layout, layer, d));
}

struct eco_array eco_layout_dinput(const struct eco_layout *layout, int layer)
{
    return series_get(layer == 0 ? &layout->dx : &layout->dinput, layer);
}

/* This direction's columns of an array by lanes. */
static struct eco_array part_of(const struct eco_layout *layout, const struct eco_series *series,
                                int layer, int d, int state)
{
    struct eco_array array = series->first;
    const size_t before = (size_t)d * (size_t)eco_problem_width(layout->problem, state);
    array.offset +=
        (size_t)(layer % series->count) * series->bytes + before * eco_type_bytes(array.type);
    return array;
}

struct eco_array eco_layout_recent(const struct eco_layout *layout, int layer, int d, int state)
{
    return part_of(layout, &layout->recent[state], layer, d, state);
}

struct eco_array eco_layout_scan(const struct eco_layout *layout, int layer, int d, int state)
{
    return part_of(layout, &layout->scan[state], layer, d, state);
}

struct eco_array eco_layout_sequence(const struct eco_layout *layout, int layer)
{
    return series_get(&layout->sequence, layer);
}

/* ---- states ---------------------------------------------------------------------------------- */

/*
 * How states are stored: in planes over the steps, or, in a lean run, as copies.
 */

bool eco_layout_copies_states(const struct eco_layout *layout)
{
    return layout->request.gpu.lean && (layout->training || layout->problem->states);
}

size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next)
{
    if (next)
        return (size_t)t + 1;
    return eco_problem_reversed(layout->problem, d) ? (size_t)t + 2 : (size_t)t;
}

/* Does a product read it: of this layer or, if planes of the output state are y, of the next? */
static bool is_read(const struct eco_layout *layout, int state)
{
    const struct eco_lowered *lowered = &layout->problem->cell->lowered;
    for (int o = 0; o < lowered->n_operands; o++)
        if (lowered->operand[o].state == state)
            return true;
    return state == 0 && !eco_problem_wide_output(layout->problem);
}

size_t eco_layout_plane_part(const struct eco_layout *layout, int state)
{
    const size_t width = (size_t)eco_problem_width(layout->problem, state);
    return is_read(layout, state) ? eco_request_row(&layout->request, width) : width;
}

/* Planes with rows of this width; rows that products read get alias padding. */
static struct eco_layout_rows planes(const struct eco_layout *layout, int state, int32_t steps,
                                     size_t width)
{
    if (!is_read(layout, state))
        return (struct eco_layout_rows){layout->sum, steps, width};
    return (struct eco_layout_rows){layout->type, steps, eco_layout_alias_padded(layout, width)};
}

struct eco_layout_rows eco_layout_planes(const struct eco_layout *layout, int state, int32_t count)
{
    const struct eco_problem *problem = layout->problem;
    const size_t row = (size_t)problem->D * (size_t)eco_problem_width(problem, state);
    return planes(layout, state, count, eco_request_row(&layout->request, row));
}

struct eco_layout_rows eco_layout_sequence_rows(const struct eco_layout *layout)
{
    const size_t row = (size_t)layout->problem->D * (size_t)layout->problem->P;
    return (struct eco_layout_rows){
        layout->type, layout->T + 2,
        eco_layout_alias_padded(layout, eco_request_row(&layout->request, row))};
}

struct eco_layout_rows eco_layout_turn_planes(const struct eco_layout *layout, int state,
                                              int32_t count)
{
    const size_t D = (size_t)layout->problem->D;
    return planes(layout, state, count, D * eco_layout_plane_part(layout, state));
}

struct eco_layout_rows eco_layout_reset_rows(const struct eco_layout *layout, int state,
                                             bool backward)
{
    const bool lean = eco_layout_is_lean(layout), read = is_read(layout, state);
    const size_t width = (size_t)eco_problem_width(layout->problem, state);
    struct eco_layout_rows rows =
        planes(layout, state, 0, eco_request_row(&layout->request, width));
    if (lean)
        rows.type = layout->type;
    if (backward && read)
        rows.steps = layout->weights_steps;
    if (lean && !read)
        rows.width = 0;
    return rows;
}

/* ---- of callers ------------------------------------------------------------------------------ */

#define FIELD(structure, name) offsetof(structure, name), offsetof(struct eco_args, name)
#define IO(name)               "io." #name, false, FIELD(ecornn_io, name)
#define GRADIENT(name)         "gradient." #name, true, FIELD(ecornn_gradient, name)
#define ONE(shape)             1, ECO_ARRAY_##shape, 0
#define EACH(shape)            ECO_MAX_STATES, ECO_ARRAY_##shape, 0
#define BLOCK(bytes)           1, ECO_ARRAY_BLOCK, offsetof(ecornn_sizes, bytes)
#define FLAG(flag)             ECORNN_##flag, #flag
#define ALL                    0, NULL

enum {
    NEVER = ECO_NEVER_REQUIRED,
    NONE = ECO_NO_ARRAY,
    ITS = ECO_ONE_ARRAY,
    BOTH = ECO_WITH_TANGENT,
    IN = false,
    OUT = true
};

/* clang-format off */
const struct eco_run_array eco_run_array[ECO_RUN_ARRAYS] = {
    /* field                      shape                   required         tangents  plans */
    {IO(lengths),            IN,  ONE(LENGTHS),           NEVER,           ITS,      ALL},
    {IO(x),                  IN,  ONE(INPUT),             ECO_IN_RUNS,     BOTH,     ALL},
    {IO(y),                  OUT, ONE(OUTPUT),            NEVER,           BOTH,     ALL},
    {IO(initial),            IN,  EACH(STATE),            NEVER,           BOTH,     ALL},
    {IO(final),              OUT, EACH(STATE),            NEVER,           BOTH,     ALL},
    {IO(weights),            IN,  BLOCK(weight_bytes),    ECO_IN_RUNS,     NONE,     ALL},
    {IO(workspace),          OUT, BLOCK(workspace_bytes), ECO_IN_RUNS,     ITS,      ALL},
    {IO(reserve),            OUT, BLOCK(reserve_bytes),   ECO_IN_BACKWARD, NONE,     FLAG(TRAINING)},
    {IO(resets),             IN,  ONE(MARKS),             NEVER,           ITS,      FLAG(RESETS)},
    {IO(reset_state),        IN,  EACH(STATE),            NEVER,           BOTH,     FLAG(RESETS)},
    {IO(mask),               IN,  ONE(MARKS),             NEVER,           ITS,      FLAG(MASK)},
    {IO(states),             OUT, EACH(STATES),           NEVER,           NONE,     FLAG(ALL_STATES)},
    {IO(rows),               IN,  ONE(LENGTHS),           NEVER,           NONE,     FLAG(STREAMS)},
    {GRADIENT(dy),           IN,  ONE(OUTPUT),            NEVER,           BOTH,     ALL},
    {GRADIENT(dfinal),       IN,  EACH(STATE),            NEVER,           BOTH,     ALL},
    {GRADIENT(dx),           OUT, ONE(INPUT),             NEVER,           ITS,      ALL},
    {GRADIENT(dinitial),     OUT, EACH(STATE),            NEVER,           ITS,      ALL},
    {GRADIENT(dweights),     OUT, BLOCK(dweight_bytes),   NEVER,           NONE,     ALL},
    {GRADIENT(dreset_state), OUT, EACH(STATE),            NEVER,           ITS,      FLAG(RESETS)},
    {GRADIENT(dstates),      IN,  EACH(STATES),           NEVER,           NONE,     FLAG(ALL_STATES)}};
/* clang-format on */
