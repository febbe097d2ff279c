/*
 * Looks up arrays of a layout.
 */
#include "common/plan/shapes.h"
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
    return series_get(&layout->dinput, layer);
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
