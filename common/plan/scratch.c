/*
 * Width, steps and type of each scratch array in the workspace.
 */
#include "common/compose/starts.h"
#include "common/plan/shapes.h"

struct eco_size eco_layout_product_bytes(ecornn_type type, size_t a, size_t b, size_t c)
{
    struct eco_size bytes = eco_size_mul(eco_size_of(a), b);
    return eco_size_mul(eco_size_mul(bytes, c), eco_type_bytes(type));
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

size_t eco_layout_carried_column(const struct eco_problem *problem)
{
    enum { GROUP = 16 };
    return ((size_t)problem->H + 2 * GROUP - 1) / GROUP * GROUP;
}

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

/* H, or H rounded up to whole blocks. */
static size_t acc_units(const struct eco_layout *layout)
{
    const struct eco_blocks blocks = eco_layout_acc_blocks(layout);
    const size_t H = (size_t)layout->problem->H;
    return (H + blocks.column - 1) / blocks.column * blocks.column;
}

/* May backward need a copy of the output state besides y?  If rows of a step are not contiguous, if
 * a reversed row begins from an initial state before its padding, or if products request padded
 * rows. */
static bool may_copy_history(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    return eco_layout_is_lean(layout) &&
           ((problem->reverse || problem->D == 2) || (problem->batch_major && problem->N > 1) ||
            eco_request_needs_copy(&layout->request, (size_t)problem->P));
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

bool eco_layout_sums_dx(const struct eco_problem *problem)
{
    return problem->row_invariant && problem->D > 1 && eco_type_narrow(problem->type);
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
static size_t gather_row(const struct eco_layout *layout, bool backward)
{
    const struct eco_problem *problem = layout->problem;
    if (!backward && layout->back && eco_layout_replays(layout))
        return 0;
    const bool first = eco_layout_gathers(problem, &layout->request, backward);
    const size_t I = first ? (size_t)problem->I : 0;
    const size_t later = (size_t)problem->D * (size_t)problem->P;
    const bool copied =
        eco_problem_writes_y(problem) && eco_request_needs_copy(&layout->request, later);
    const bool gathered =
        problem->L > 1 && ((problem->training && problem->dropout > 0) || copied ||
                           (backward && eco_layout_copies_dx(problem, &layout->request, true)));
    const size_t row = eco_layout_alias_padded(layout, eco_request_row(&layout->request, I));
    const size_t other = eco_layout_alias_padded(layout, eco_request_row(&layout->request, later));
    return gathered && other > row ? other : row;
}

/* Width of a row of scratch; 0: not needed. */
static size_t row_of(const struct eco_layout *layout, bool backward, enum eco_scratch scratch)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t H = (size_t)problem->H, P = (size_t)problem->P;
    const size_t column = eco_request_row(&layout->request, H); /* as in ECO_SCRATCH_ACC */
    const bool sums = layout->request.cpu.sums_vectors;
    const size_t dacc_columns = (size_t)(lowered->n_accs + (sums ? 0 : lowered->n_extra));
    switch (scratch) {
    case ECO_SCRATCH_ACC:
        return backward || (layout->back && eco_layout_narrows(layout))
                   ? 0
                   : (size_t)lowered->n_accs * acc_units(layout);
    case ECO_SCRATCH_GATHER:
        return gather_row(layout, backward);
    case ECO_SCRATCH_OPERAND:
        return eco_layout_alias_padded(layout, (size_t)lowered->n_slots * column);
    case ECO_SCRATCH_MEAN:
        return (size_t)lowered->n_means[backward] * (H / (size_t)eco_problem_mean(problem));
    case ECO_SCRATCH_DACC:
        return backward ? eco_layout_alias_padded(layout, dacc_columns * column) : 0;
    case ECO_SCRATCH_DVECTOR:
        return backward && sums ? (size_t)lowered->n_extra * H : 0;
    case ECO_SCRATCH_DOPERAND:
        return backward ? (size_t)lowered->n_slots * column : 0;
    case ECO_SCRATCH_STEP:
        return problem->projected ? P : 0;
    case ECO_SCRATCH_DOUTPUT:
        return backward && problem->projected ? H : 0;
    case ECO_SCRATCH_UNREAD:
        return backward && eco_layout_replays(layout) && !eco_layout_is_lean(layout) ? H : 0;
    case ECO_SCRATCH_HISTORY:
        return backward && may_copy_history(layout) ? eco_request_row(&layout->request, P) : 0;
    default:
        return 0;
    }
}

static ecornn_type type_of(const struct eco_layout *layout, bool backward, enum eco_scratch scratch)
{
    switch (scratch) {
    case ECO_SCRATCH_GATHER: /* backward it must have room for DGATHER */
        return backward ? layout->sum : layout->type;
    case ECO_SCRATCH_STEP:
        return backward ? layout->type : layout->sum;
    case ECO_SCRATCH_OPERAND:
    case ECO_SCRATCH_DACC:
    case ECO_SCRATCH_HISTORY:
        return layout->type;
    default:
        return layout->sum;
    }
}

/* Steps of a scratch array that exist at a time; 0: one. */
static int32_t steps_of(const struct eco_layout *layout, bool backward, enum eco_scratch scratch)
{
    switch (scratch) {
    case ECO_SCRATCH_ACC:
        return backward || layout->fuse_input ? 0 : layout->chunk;
    case ECO_SCRATCH_GATHER:
        return backward ? layout->chunk_backward : layout->chunk;
    case ECO_SCRATCH_DACC:
    case ECO_SCRATCH_OPERAND:
    case ECO_SCRATCH_STEP:
        return backward ? layout->weights_steps : 0;
    case ECO_SCRATCH_DVECTOR:
        return (layout->weights_steps + ECO_SUM_STEPS - 1) / ECO_SUM_STEPS;
    case ECO_SCRATCH_HISTORY:
        return backward ? layout->weights_steps + 1 : 0;
    default:
        return 0;
    }
}

struct eco_layout_rows eco_layout_scratch_rows(const struct eco_layout *layout, bool backward,
                                               enum eco_scratch scratch)
{
    return (struct eco_layout_rows){type_of(layout, backward, scratch),
                                    steps_of(layout, backward, scratch),
                                    row_of(layout, backward, scratch)};
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

bool eco_layout_sums_by_group(const struct eco_layout *layout)
{
    const int64_t rows = (int64_t)layout->T * layout->N;
    return layout->request.cpu.gradient_rows > 0 && rows > layout->request.cpu.gradient_rows;
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

size_t eco_layout_alias_padded(const struct eco_layout *layout, size_t width)
{
    const size_t element = eco_type_bytes(layout->type),
                 alias_bytes = layout->request.cpu.alias_bytes;
    const bool aliases = width > 0 && alias_bytes > 0 && width * element % alias_bytes == 0;
    return width + (aliases ? ECO_ALIGNMENT / element : 0);
}
