/*
 * The layout of workspace and reserve: every offset, stride and size, a pure function of problem,
 * wishes and the run's T and N.  With weights.c the only place that knows where anything lies.
 */
#include "common/model.h"

#include <string.h>

#include "common/util.h"

static struct eco_size product_bytes(ecornn_type type, size_t a, size_t b, size_t c)
{
    struct eco_size bytes = eco_size_mul(eco_size_of(a), b);
    return eco_size_mul(eco_size_mul(bytes, c), eco_type_bytes(type));
}

/* ---- workspace and reserve ------------------------------------------------------------------- */

/* A block being filled: arrays are put one behind the other. */
struct cursor {
    enum eco_block block;
    int32_t N;
    struct eco_size end;
};

/* Rows of an array to be put. */
struct rows {
    ecornn_type type;
    int32_t steps; /* 0: one step, shared by all */
    size_t width;
};

/* count arrays of [steps, N, width]. */
static struct eco_series put(struct cursor *cursor, int count, struct rows rows)
{
    const size_t N = (size_t)cursor->N;
    const struct eco_size bytes = eco_size_align(
        product_bytes(rows.type, (size_t)(rows.steps > 0 ? rows.steps : 1), N, rows.width));
    const struct eco_series series = {.first = {.block = cursor->block,
                                                .offset = cursor->end.value,
                                                .step = rows.steps > 0 ? N * rows.width : 0,
                                                .row = rows.width,
                                                .type = rows.type},
                                      .bytes = bytes.value,
                                      .count = count};
    cursor->end = eco_size_add(cursor->end, eco_size_mul(bytes, (size_t)count));
    return series;
}

static struct eco_array series_get(const struct eco_series *series, int k)
{
    struct eco_array array = series->first;
    array.offset += (size_t)(k % series->count) * series->bytes;
    return array;
}

/* A state that a product reads, or that is output, is of the type; others are kept as sums. */
static ecornn_type state_type(const struct eco_layout *layout, int state)
{
    const struct eco_lowered *lowered = &layout->problem->cell->lowered;
    for (int o = 0; o < lowered->n_operands; o++)
        if (lowered->operand[o].state == state)
            return layout->type;
    return state == 0 ? layout->type : layout->sum;
}

static void put_states(struct eco_layout *layout, struct cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const int lower = problem->L - 1;
    const bool wavefront = layout->wishes.wavefront;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const size_t row = (size_t)problem->D * (size_t)eco_problem_width(problem, s);
        const struct rows all = {state_type(layout, s), layout->T + 2, row};
        if (layout->training) {
            layout->state[s] = put(cursor, problem->L, all);
            layout->last_state[s] = layout->state[s];
            continue;
        }
        /* Only the layer above reads all planes of the output state; else two take turns: a thread
         * may write the next one while others read the one before. */
        layout->last_state[s] =
            put(cursor, wavefront ? problem->L : 1, (struct rows){all.type, 2, row});
        layout->last_state[s].first.wrap = 2;
        layout->state[s] = layout->last_state[s];
        if (s == 0 && lower > 0)
            layout->state[s] = put(cursor, wavefront || lower < 2 ? lower : 2, all);
    }
}

enum { ONE_BLOCK = 31 }; /* the shift of a block that has all units */

struct eco_blocks eco_layout_acc_blocks(const struct eco_layout *layout)
{
    const size_t H = (size_t)layout->problem->H;
    const int32_t steps = layout->wishes.fuse_input ? 1 : layout->chunk;
    const size_t rows = (size_t)steps * (size_t)layout->N;
    struct eco_blocks blocks = {ONE_BLOCK, H, 0};
    if (layout->wishes.acc_units == 0)
        return blocks;
    for (blocks.shift = 0; 1 << blocks.shift < layout->wishes.acc_units;)
        blocks.shift++;
    blocks.column = (size_t)layout->wishes.acc_units;
    blocks.block = rows * (size_t)layout->problem->cell->lowered.n_accs * blocks.column;
    return blocks;
}

/* H, or what it is in whole blocks. */
static size_t acc_units(const struct eco_layout *layout)
{
    const struct eco_blocks blocks = eco_layout_acc_blocks(layout);
    const size_t H = (size_t)layout->problem->H;
    return (H + blocks.column - 1) / blocks.column * blocks.column;
}

/* Width of a row of scratch, 0: not needed. */
static size_t scratch_row(const struct eco_layout *layout, bool backward, enum eco_scratch scratch)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t H = (size_t)problem->H, P = (size_t)problem->P, I = (size_t)problem->I;
    const size_t later =
        problem->training && problem->dropout > 0 && problem->L > 1 ? (size_t)problem->D * P : 0;
    switch (scratch) {
    case ECO_SCRATCH_ACC:
        return backward ? 0 : (size_t)lowered->n_accs * acc_units(layout);
    case ECO_SCRATCH_GATHER:
        return I > later ? I : later;
    case ECO_SCRATCH_OPERAND:
        return (size_t)lowered->n_slots * H;
    case ECO_SCRATCH_MEAN:
        return (size_t)lowered->n_means[backward];
    case ECO_SCRATCH_DACC:
        return backward ? (size_t)(lowered->n_accs + lowered->n_extra) * H : 0;
    case ECO_SCRATCH_DOPERAND:
        return backward ? (size_t)lowered->n_slots * H : 0;
    case ECO_SCRATCH_STEP:
        return problem->projected ? P : 0;
    case ECO_SCRATCH_DOUTPUT:
        return backward && problem->projected ? H : 0;
    default:
        return 0;
    }
}

static ecornn_type scratch_type(const struct eco_layout *layout, bool backward,
                                enum eco_scratch scratch)
{
    switch (scratch) {
    case ECO_SCRATCH_GATHER: /* backward it has room for DGATHER */
        return backward ? layout->sum : layout->type;
    case ECO_SCRATCH_STEP:
        return backward ? layout->type : layout->sum;
    case ECO_SCRATCH_OPERAND:
    case ECO_SCRATCH_DACC:
        return layout->type;
    default:
        return layout->sum;
    }
}

/* Steps of a scratch array that are alive at a time; 0: one. */
static int32_t scratch_steps(const struct eco_layout *layout, bool backward,
                             enum eco_scratch scratch)
{
    switch (scratch) {
    case ECO_SCRATCH_ACC:
        return backward || layout->wishes.fuse_input ? 0 : layout->chunk;
    case ECO_SCRATCH_GATHER:
        return backward ? layout->chunk_backward : layout->chunk;
    case ECO_SCRATCH_DACC:
    case ECO_SCRATCH_OPERAND:
    case ECO_SCRATCH_STEP:
        return backward ? layout->weights_steps : 0;
    default:
        return 0;
    }
}

/* Elements of a row that weight gradients copy: of the operands of all parts, and what fills up
 * their last panels, which are of two groups at most; and of dacc, each number in whole groups. */
static size_t pack_row(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t group = layout->wishes.group > 1 ? (size_t)layout->wishes.group : 0;
    const size_t panel = (size_t)layout->wishes.lanes * (size_t)layout->wishes.vectors + 2 * group;
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

/* Rows that weight gradients copy at a time: whole groups, no more than a chunk needs. */
static size_t pack_rows(const struct eco_layout *layout)
{
    const size_t most = (size_t)layout->wishes.pack_rows;
    const struct eco_size rows =
        eco_size_mul(eco_size_of((size_t)layout->chunk_backward), (size_t)layout->N);
    const size_t few = !rows.overflow && rows.value < most ? rows.value : most;
    const size_t group = layout->wishes.group > 0 ? (size_t)layout->wishes.group : 1;
    return (few + group - 1) / group * group;
}

/* count blocks of so many bytes, which are no rows. */
static struct eco_series put_bytes(struct cursor *cursor, int count, struct eco_size bytes)
{
    bytes = eco_size_align(bytes);
    const struct eco_series series = {
        .first = {.block = cursor->block, .offset = cursor->end.value},
        .bytes = bytes.value,
        .count = count};
    cursor->end = eco_size_add(cursor->end, eco_size_mul(bytes, (size_t)count));
    return series;
}

/* Of a layer's matrices in the type of rows, from part `from` on and before part `before`. */
static struct eco_size matrix_bytes(const struct eco_layout *layout, int layer, int from,
                                    int before)
{
    struct eco_size bytes = eco_size_of(0);
    for (int part = from; part < before; part++) {
        const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, part);
        if (part != ECO_PART_VECTORS)
            bytes = eco_size_add(bytes, eco_size_align(product_bytes(
                                            layout->type, (size_t)matrix->n, (size_t)matrix->units,
                                            (size_t)matrix->columns)));
    }
    return bytes;
}

/* Copies of weights that products read, each as the widest layer needs them. */
static void put_weights(struct eco_layout *layout, struct cursor *cursor, bool backward, int lanes)
{
    struct eco_size widened = eco_size_of(0);
    for (int layer = 0; layout->wishes.widened && layer < 2 && layer < layout->problem->L;
         layer++) {
        const struct eco_size bytes = matrix_bytes(layout, layer, 0, ECO_PARTS);
        if (bytes.overflow || bytes.value > widened.value)
            widened = bytes;
    }
    layout->scratch[backward][ECO_SCRATCH_WIDENED] = put_bytes(cursor, lanes, widened);
    if (backward)
        layout->scratch[1][ECO_SCRATCH_TURNED] =
            put_bytes(cursor, lanes,
                      layout->wishes.turned ? matrix_bytes(layout, 0, ECO_PART_RECURRENT, ECO_PARTS)
                                            : eco_size_of(0));
}

static void put_scratch(struct eco_layout *layout, struct cursor *cursor, bool backward)
{
    const struct eco_problem *problem = layout->problem;
    const int lanes = layout->wishes.wavefront ? problem->L * problem->D : problem->D;
    for (int i = 0; i < ECO_SCRATCHES; i++)
        layout->scratch[backward][i] =
            put(cursor, lanes,
                (struct rows){scratch_type(layout, backward, i), scratch_steps(layout, backward, i),
                              scratch_row(layout, backward, i)});
    layout->scratch[backward][ECO_SCRATCH_PRODUCT] =
        put_bytes(cursor, lanes, eco_size_of(layout->wishes.product_bytes));
    put_weights(layout, cursor, backward, lanes);
    layout->scratch[backward][ECO_SCRATCH_EXCHANGE] =
        put_bytes(cursor, lanes, eco_size_of(layout->wishes.exchange_bytes));
    if (!backward)
        return;
    layout->scratch[1][ECO_SCRATCH_PACK] = put_bytes(
        cursor, lanes, product_bytes(layout->sum, pack_rows(layout), pack_row(layout), 1));
    layout->scratch[1][ECO_SCRATCH_PACK].first.type = layout->sum;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        layout->carry[s] = put(
            cursor, lanes, (struct rows){layout->sum, 0, (size_t)eco_problem_width(problem, s)});
    const int upper = problem->L - 1;
    if (upper > 0)
        layout->dinput =
            put(cursor, layout->wishes.wavefront || upper < 2 ? upper : 2,
                (struct rows){layout->sum, layout->T, (size_t)problem->D * (size_t)problem->P});
}

/* Scratch of each thread: enough of the second-level cache, and at least some rows of floats of all
 * that a stage multiplies, or of dacc, and of a panel of its result. */
static void put_threads(struct eco_layout *layout, struct cursor *cursor)
{
    enum { BYTES = 256 << 10, ROWS = 40, PANEL = 64, GROUP = 32 };
    const struct eco_problem *problem = layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t accs = (size_t)lowered->n_accs * (size_t)problem->H;
    size_t input = 0, read = (size_t)lowered->n_operands * GROUP;
    for (int layer = 0; layer < 2; layer++)
        if ((size_t)eco_problem_input(problem, layer) > input)
            input = (size_t)eco_problem_input(problem, layer);
    for (int o = 0; o < lowered->n_operands; o++)
        read += (size_t)eco_problem_columns(problem, o);
    size_t width = accs > (size_t)problem->P ? accs : (size_t)problem->P;
    if (input + read > width)
        width = input + read;
    const struct eco_size rows =
        eco_size_align(eco_size_mul(eco_size_of(width + 2 * PANEL), ROWS * sizeof(float)));
    layout->thread_offset = cursor->end.value;
    layout->thread_bytes = rows.value > BYTES ? rows.value : BYTES;
    cursor->end = eco_size_add(cursor->end, eco_size_mul(eco_size_of(layout->thread_bytes),
                                                         (size_t)layout->wishes.threads));
}

static size_t cursor_bytes(const struct cursor *cursor)
{
    return cursor->end.overflow ? SIZE_MAX : cursor->end.value;
}

/* Not `a < b ? b : a` of two passes over one block: forward and backward use it in turn. */
static void build_blocks(struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    const int pairs = problem->L * problem->D;
    struct cursor reserve = {ECO_BLOCK_RESERVE, layout->N, eco_size_of(0)};
    struct cursor forward = {ECO_BLOCK_WORKSPACE, layout->N, eco_size_of(0)};
    layout->order = 0;
    if (layout->wishes.by_length)
        forward.end =
            eco_size_align(eco_size_of(sizeof(int32_t) * (layout->N + (size_t)layout->T + 1)));
    put_threads(layout, &forward);
    struct cursor backward = forward;
    struct cursor *kept = layout->training ? &reserve : &forward;
    put_states(layout, kept);
    if (layout->training)
        layout->save =
            put(kept, pairs,
                (struct rows){layout->type, layout->T,
                              (size_t)problem->cell->lowered.n_saves * (size_t)problem->H});
    if (problem->projected)
        layout->output =
            put(kept, layout->training || layout->wishes.wavefront ? pairs : problem->D,
                (struct rows){layout->type, layout->training ? layout->T : 0, (size_t)problem->H});
    put_scratch(layout, &forward, false);
    if (layout->training)
        put_scratch(layout, &backward, true);
    const size_t a = cursor_bytes(&forward), b = cursor_bytes(&backward);
    layout->workspace_bytes = a > b ? a : b;
    layout->reserve_bytes = cursor_bytes(&reserve);
}

static int32_t clip_chunk(int32_t chunk, int32_t T)
{
    return chunk > 0 && chunk < T ? chunk : T;
}

void eco_layout_resize(struct eco_layout *layout, const struct eco_layout *from, int32_t T,
                       int32_t N)
{
    if (layout != from)
        *layout = *from;
    layout->T = T;
    layout->N = N;
    layout->chunk = clip_chunk(layout->wishes.chunk, T);
    layout->chunk_backward = clip_chunk(layout->wishes.chunk_backward, T);
    layout->weights_steps = layout->chunk_backward;
    for (int k = 1; k < layout->wishes.weights_chunks && layout->weights_steps < T; k++)
        layout->weights_steps = T - layout->weights_steps < layout->chunk_backward
                                    ? T
                                    : layout->weights_steps + layout->chunk_backward;
    if (!layout->wishes.plain)
        build_blocks(layout);
    else if (layout->training)
        layout->reserve_bytes = ECO_ALIGNMENT; /* a token: the reference recomputes everything */
}

void eco_layout_build(struct eco_layout *layout, const struct eco_problem *problem,
                      const struct eco_wishes *wishes, int32_t T, int32_t N, bool training)
{
    memset(layout, 0, sizeof *layout);
    layout->problem = problem;
    layout->wishes = *wishes;
    layout->training = training;
    layout->type = problem->type;
    layout->sum = eco_type_sum(problem->type);
    layout->weight = problem->weight_type;
    eco_layout_build_weights(layout);
    eco_layout_resize(layout, layout, T, N);
}

/* ---- where an array lies --------------------------------------------------------------------- */

struct eco_array eco_layout_state(const struct eco_layout *layout, int layer, int d, int state)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_series *series =
        layer == problem->L - 1 ? &layout->last_state[state] : &layout->state[state];
    struct eco_array array = series_get(series, layer);
    array.offset +=
        (size_t)d * (size_t)eco_problem_width(problem, state) * eco_type_bytes(array.type);
    return array;
}

size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next)
{
    if (next)
        return (size_t)t + 1;
    return eco_problem_reversed(layout->problem, d) ? (size_t)t + 2 : (size_t)t;
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
    if (dx || scratch == ECO_SCRATCH_GATHER) { /* rows as wide as this layer's input, dense */
        array.row = (size_t)eco_problem_input(layout->problem, layer);
        array.step = array.row * (size_t)layout->N;
        array.type = dx ? layout->sum : layout->type;
    }
    if (scratch == ECO_SCRATCH_ACC) { /* rows of a block */
        array.row =
            (size_t)layout->problem->cell->lowered.n_accs * eco_layout_acc_blocks(layout).column;
        array.step = layout->wishes.fuse_input ? 0 : array.row * (size_t)layout->N;
    }
    return array;
}

size_t eco_layout_dacc_step(const struct eco_layout *layout, const struct eco_op *op)
{
    return layout->wishes.weights_chunks > 1 ? (size_t)(op->t0 % layout->weights_steps) : 0;
}

struct eco_array eco_layout_operand(const struct eco_layout *layout, const struct eco_op *op, int o,
                                    size_t *step)
{
    const struct eco_operand *operand = &layout->problem->cell->lowered.operand[o];
    if (operand->state >= 0) {
        *step = eco_layout_state_plane(layout, op->d, op->t0, false);
        return eco_layout_state(layout, op->layer, op->d, operand->state);
    }
    struct eco_array slots =
        eco_layout_scratch(layout, true, op->layer, op->d, ECO_SCRATCH_OPERAND);
    slots.offset += (size_t)operand->slot * (size_t)layout->problem->H * eco_type_bytes(slots.type);
    *step = eco_layout_dacc_step(layout, op);
    return slots;
}

struct eco_array eco_layout_widened(const struct eco_layout *layout, bool backward, int layer,
                                    int d, int part)
{
    struct eco_array array = eco_layout_scratch(layout, backward, layer, d, ECO_SCRATCH_WIDENED);
    array.offset += matrix_bytes(layout, layer, 0, part).value;
    array.row = (size_t)eco_layout_matrix(layout, layer, part)->columns;
    array.type = layout->type;
    return array;
}

struct eco_array eco_layout_turned(const struct eco_layout *layout, int layer, int d, int part)
{
    const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, part);
    struct eco_array array = eco_layout_scratch(layout, true, layer, d, ECO_SCRATCH_TURNED);
    array.offset += matrix_bytes(layout, layer, ECO_PART_RECURRENT, part).value;
    array.row = (size_t)matrix->n * (size_t)matrix->units;
    array.type = layout->type;
    return array;
}

struct eco_array eco_layout_carry(const struct eco_layout *layout, int layer, int d, int state)
{
    return series_get(&layout->carry[state], pair(layout, layer, d));
}

struct eco_array eco_layout_dinput(const struct eco_layout *layout, int layer)
{
    return series_get(&layout->dinput, layer);
}
