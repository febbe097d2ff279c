/*
 * Widths and sizes of the arrays of a layout that are more than an expression in array_rows.inc.
 */
#include "common/compose/starts.h"
#include "common/plan/shapes.h"

/* ---- states ---------------------------------------------------------------------------------- */

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
    const bool fills =
        is_read(layout, state) || eco_layout_pads_units(layout->problem, &layout->request);
    return fills ? eco_request_row(&layout->request, width) : width;
}

size_t eco_layout_output_width(const struct eco_layout *layout)
{
    const size_t width = layout->problem->projected ? (size_t)layout->problem->H : 0;
    return eco_layout_pads_units(layout->problem, &layout->request)
               ? eco_request_row(&layout->request, width)
               : width;
}

/* Planes with rows of this width; rows that products read get alias padding. */
static struct eco_layout_rows planes(const struct eco_layout *layout, int state, int32_t steps,
                                     size_t width)
{
    if (!is_read(layout, state))
        return (struct eco_layout_rows){layout->sum, steps, width};
    return (struct eco_layout_rows){layout->type, steps, eco_layout_alias_padded(layout, width)};
}

/* A thread may write the next plane while others read the previous one.  If those of a chunk are
 * copied after it, their number is a power of two. */
int32_t eco_layout_turns(const struct eco_layout *layout)
{
    int32_t turns = 2;
    if (eco_layout_is_lean(layout) || !layout->training)
        return turns;
    if (layout->back || !eco_layout_replays(layout))
        return 0;
    while (turns < layout->chunk + 1)
        turns *= 2;
    return turns;
}

struct eco_layout_rows eco_layout_state_rows(const struct eco_layout *layout, int state,
                                             int32_t turns)
{
    const size_t D = (size_t)layout->problem->D,
                 width = (size_t)eco_problem_width(layout->problem, state);
    if (turns > 0)
        return planes(layout, state, turns, D * eco_layout_plane_part(layout, state));
    return planes(layout, state,
                  2 + (eco_layout_is_replay(layout) ? layout->chunk_backward : layout->T),
                  eco_request_row(&layout->request, D * width));
}

struct eco_layout_rows eco_layout_sequence_rows(const struct eco_layout *layout)
{
    const size_t row = (size_t)layout->problem->D * (size_t)layout->problem->Y;
    return (struct eco_layout_rows){
        layout->type, layout->T + 2,
        eco_layout_alias_padded(layout, eco_request_row(&layout->request, row))};
}

bool eco_layout_has_checkpoint(const struct eco_layout *layout, int state)
{
    return eco_layout_is_lean(layout) ? state == 0 || eco_layout_copies_states(layout)
                                      : state > 0 && eco_layout_replays(layout);
}

/* A lean run keeps copies in the type of rows; for a replay, of other states in the save type. */
struct eco_layout_rows eco_layout_checkpoint_rows(const struct eco_layout *layout, int state)
{
    const struct eco_problem *problem = layout->problem;
    const bool lean = eco_layout_is_lean(layout),
               some = state > 0 && eco_layout_replays(layout) && !eco_layout_keeps_all(layout);
    const int32_t steps = some ? eco_layout_followed(layout) / problem->saving.every : layout->T;
    const size_t width = (size_t)problem->D * (size_t)eco_problem_width(problem, state);
    const ecornn_type type = !lean ? eco_layout_checkpoint_type(layout)
                             : state > 0 && eco_layout_replays(layout) ? problem->saving.type
                                                                       : layout->type;
    return (struct eco_layout_rows){type, steps, steps > 0 ? width : 0};
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

/* ---- what operations use --------------------------------------------------------------------- */

/* H is rounded up to whole blocks. */
size_t eco_layout_acc_width(const struct eco_layout *layout)
{
    const size_t column = eco_layout_acc_blocks(layout).column,
                 units = ((size_t)layout->problem->H + column - 1) / column * column;
    return layout->back && eco_layout_narrows(layout)
               ? 0
               : (size_t)layout->problem->cell->lowered.n_accs * units;
}

/* May backward need a copy of the output state besides y?  If rows of a step are not contiguous, if
 * a reversed row begins from an initial state before its padding, or if products request padded
 * rows. */
size_t eco_layout_history_width(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const size_t P = (size_t)problem->P;
    const bool may = eco_layout_is_lean(layout) && ((problem->reverse || problem->D == 2) ||
                                                    (problem->batch_major && problem->N > 1) ||
                                                    eco_request_needs_copy(&layout->request, P));
    return may ? eco_request_row(&layout->request, P) : 0;
}

size_t eco_layout_dacc_width(const struct eco_layout *layout)
{
    const struct eco_lowered *lowered = &layout->problem->cell->lowered;
    const int extra = layout->request.cpu.sums_vectors ? 0 : lowered->n_extra;
    return eco_layout_alias_padded(
        layout, (size_t)(lowered->n_accs + extra) *
                    eco_request_row(&layout->request, (size_t)layout->problem->H));
}

/* Is what a direction adds to dx more than one sum? On a CPU, BF16 weights and F64 continue sums
 * from what is there. */
static bool adds_in_turn(const struct eco_problem *problem,
                         const struct eco_layout_request *request)
{
    struct eco_acc_range span;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    return lowered->raw >= 0 || (request->cpu.by_length && problem->weight_type != ECORNN_F32) ||
           (eco_acc_range_next(lowered, ECO_WEIGHT_INPUT, 0, &span) &&
            eco_acc_range_next(lowered, ECO_WEIGHT_INPUT, span.end, &span));
}

bool eco_layout_copies_dx(const struct eco_problem *problem,
                          const struct eco_layout_request *request, bool later)
{
    const bool always = problem->weight_type == ECORNN_F32 && request->cpu.by_length;
    if (problem->D == 1)
        return !later && problem->cell->lowered.raw >= 0 && eco_type_narrow(problem->type) &&
               (problem->row_invariant || request->cpu.by_length);
    return (problem->row_invariant && !later) ||
           ((problem->row_invariant || always) && adds_in_turn(problem, request));
}

bool eco_layout_gathers(const struct eco_problem *problem, const struct eco_layout_request *request,
                        bool backward)
{
    const bool ordered = problem->batch_major && problem->N > 1,
               ragged = problem->N > 1 || problem->training || !request->cpu.by_length;
    return ordered || eco_request_needs_copy(request, (size_t)problem->I) ||
           (backward && eco_layout_copies_dx(problem, request, false)) ||
           (ragged && (backward || !request->gpu.rows_independent));
}

/* The widest input that is gathered; a replay uses backward's. */
size_t eco_layout_gather_width(const struct eco_layout *layout, bool backward)
{
    const struct eco_problem *problem = layout->problem;
    if (!backward && layout->back && eco_layout_replays(layout))
        return 0;
    const bool first = eco_layout_gathers(problem, &layout->request, backward);
    const size_t I = first ? (size_t)problem->I : 0;
    const size_t later = (size_t)problem->D * (size_t)problem->Y;
    const bool copied =
        eco_problem_writes_y(problem) && eco_request_needs_copy(&layout->request, later);
    const bool gathered =
        problem->L > 1 && ((problem->training && problem->dropout > 0) || copied ||
                           (backward && eco_layout_copies_dx(problem, &layout->request, true)));
    const size_t row = eco_layout_alias_padded(layout, eco_request_row(&layout->request, I));
    const size_t other = eco_layout_alias_padded(layout, eco_request_row(&layout->request, later));
    return gathered && other > row ? other : row;
}

static struct eco_size longer(struct eco_size a, struct eco_size b)
{
    return a.overflow || (!b.overflow && a.value > b.value) ? a : b;
}

struct eco_size eco_layout_exchange_bytes(const struct eco_layout *layout, bool backward)
{
    const struct eco_layout_request *request = &layout->request;
    const int32_t steps =
        backward ? layout->chunk_backward : eco_even_chunk(layout, request->chunk);
    const size_t step =
        eco_bytes_by_rows(&request->exchange[backward], layout->problem->N, (int32_t)layout->N);
    return longer(eco_size_of(request->exchange_bytes),
                  eco_size_mul(eco_size_of(step), (size_t)steps));
}

/* The largest layer's bytes. */
struct eco_size eco_layout_widened_bytes(const struct eco_layout *layout)
{
    struct eco_size widened = eco_size_of(0);
    for (int layer = 0; layout->request.gpu.widened && layer < 2 && layer < layout->problem->L;
         layer++)
        widened = longer(widened, eco_layout_matrix_bytes(layout, layer, 0, ECO_WEIGHT_IDS));
    return widened;
}

struct eco_size eco_layout_transposed_bytes(const struct eco_layout *layout, bool backward)
{
    return layout->request.gpu.transposed[backward]
               ? eco_layout_matrix_bytes(layout, 0, ECO_WEIGHT_RECURRENT, ECO_WEIGHT_IDS)
               : eco_size_of(0);
}

/* Elements of a row that weight gradients copy: the operands of all weights, each padded to whole
 * panels of at most two groups, and dacc in whole groups. */
static size_t pack_row(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t group = layout->request.cpu.group > 1 ? (size_t)layout->request.cpu.group : 0;
    const size_t panel =
        (size_t)layout->request.cpu.lanes * (size_t)layout->request.cpu.vectors + 2 * group;
    const size_t H = (size_t)problem->H, P = (size_t)problem->P;
    size_t input = 0, recurrent = 0;
    for (int layer = 0; layer < problem->L && layer < 2; layer++)
        if ((size_t)eco_problem_input(problem, layer) > input)
            input = (size_t)eco_problem_input(problem, layer);
    for (int o = 0; o < lowered->n_operands; o++)
        recurrent += (size_t)eco_problem_columns(problem, o) + panel;
    const size_t all = input + panel + recurrent + (size_t)lowered->n_accs * (H + group);
    const size_t projection = problem->projected ? H + panel + P + group : 0;
    return all > projection ? all : projection;
}

/* Rows that weight gradients copy at a time: whole groups, at most those of a chunk. */
static size_t pack_rows(const struct eco_layout *layout)
{
    const size_t most = (size_t)layout->request.cpu.pack_rows;
    const struct eco_size rows =
        eco_size_mul(eco_size_of((size_t)layout->chunk_backward), (size_t)layout->N);
    const size_t few = !rows.overflow && rows.value < most ? rows.value : most;
    const size_t group = layout->request.cpu.group > 0 ? (size_t)layout->request.cpu.group : 1;
    return (few + group - 1) / group * group;
}

struct eco_size eco_layout_pack_bytes(const struct eco_layout *layout)
{
    return eco_layout_product_bytes(layout->sum, pack_rows(layout), pack_row(layout), 1);
}

struct eco_size eco_layout_gradient_bytes(const struct eco_layout *layout)
{
    const size_t *bytes = layout->packing->direction[ECO_FORM_DENSE], first = bytes[0],
                 later = bytes[1];
    return eco_size_of(!eco_layout_sums_by_group(layout)         ? 0
                       : layout->problem->L > 1 && later > first ? later
                                                                 : first);
}

/* ---- what else is stored in the workspace, and padded rows ----------------------------------- */

struct eco_size eco_states_of(const struct eco_layout *layout, int state)
{
    const struct eco_problem *problem = layout->problem;
    const size_t pairs = (size_t)problem->L * (size_t)problem->D * eco_type_bytes(layout->type);
    return eco_size_align(eco_size_mul(eco_size_mul(eco_size_of(pairs), (size_t)layout->N),
                                       (size_t)eco_problem_width(problem, state)));
}

struct eco_size eco_starts_of(const struct eco_layout *layout, int state)
{
    return layout->problem->cell->recipe.start[state] == 0 || layout->request.plain
               ? eco_size_of(0)
               : eco_states_of(layout, state);
}

struct eco_size eco_starts_bytes(const struct eco_layout *layout)
{
    struct eco_size all = eco_size_of(0);
    for (int s = 0; s < layout->problem->cell->recipe.n_states; s++)
        all = eco_size_add(all, eco_starts_of(layout, s));
    return all;
}

struct eco_size eco_streams_bytes(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const bool none = !layout->request.gathers || layout->training || problem->models > 1;
    struct eco_size all = eco_size_of(0);
    for (int s = 0; !none && s < problem->cell->recipe.n_states; s++)
        all = eco_size_add(all, eco_states_of(layout, s));
    return all;
}
