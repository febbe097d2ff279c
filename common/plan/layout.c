/*
 * Builds the layout of workspace and reserve: every offset, stride and size, a pure function of
 * problem, request and the run's T and N.  Only this file, arrays.c and weights.c know offsets.
 */
#include "common/plan/shapes.h"

#include <string.h>

#include "common/mark.h"
#include "common/compose/compaction.h"
#include "common/compose/starts.h"
#include "common/util.h"

/* A block that arrays are appended to. */
struct cursor {
    enum eco_block block;
    size_t N;
    struct eco_size end;
};

static void put(struct cursor *cursor, const struct eco_shape *shape, struct eco_series *series)
{
    const struct eco_layout_rows *rows = &shape->rows;
    const size_t steps = rows->steps > 0 ? (size_t)rows->steps : 1,
                 row = shape->row > 0 ? shape->row : rows->width;
    *series = (struct eco_series){
        .first = {.block = cursor->block, .offset = cursor->end.value, .type = rows->type},
        .count = 1};
    if (shape->count == 0 ||
        (rows->width == 0 && shape->bytes.value == 0 && !shape->bytes.overflow))
        return;
    const struct eco_size bytes = eco_size_align(
        rows->width > 0 ? eco_layout_product_bytes(rows->type, steps, cursor->N, rows->width)
                        : shape->bytes);
    series->first.step = rows->steps > 0 ? cursor->N * row : 0;
    series->first.row = row;
    series->first.wrap = shape->wrap;
    series->first.begins = shape->begins;
    series->bytes = bytes.value;
    series->count = shape->count;
    series->part = shape->part;
    cursor->end = eco_size_add(cursor->end, eco_size_mul(bytes, (size_t)shape->count));
}

/* ---- arrays by rows -------------------------------------------------------------------------- */

/* Do layers run at the same time, so that each needs arrays of its own?  In lockstep two sequences
 * are enough: layer l writes over the sequence of layer l - 2, of which layer l - 1 has read that
 * step. */
static bool overlaps(const struct eco_layout *layout, bool backward)
{
    return layout->request.wavefront || (layout->request.lockstep && !backward);
}

/* Accumulators of a replay in the memory of gradients of accumulators, which steps back write when
 * the chunk's replay has ended. Not on a CPU, where threads may be at different operations, nor if
 * the gradients' rows end with zeros. */
static bool replays_in_dacc(const struct eco_layout *layout)
{
    const size_t H = (size_t)layout->problem->H;
    return eco_layout_is_replay(layout) && layout->request.gpu.lean &&
           eco_request_row(&layout->request, H) == H;
}

enum pass { FORWARD = ECO_FORWARD, BACKWARD = ECO_BACKWARD, BOTH = FORWARD | BACKWARD };

#define ARRAY(name, number, pass, ...) {ECO_SERIES_##name, ECO_##number, pass},
const struct eco_inner_row eco_inner_row[ECO_INNERS] = {
#include "common/array_rows.inc"
};
#undef ARRAY

static void place(struct eco_series *series, const struct eco_series *all, size_t before)
{
    series->first.offset = all->first.offset + before;
    series->bytes = all->bytes;
    series->count = all->count;
}

/* The memory of each lane has either the first and behind it the second, or the third. */
static void put_either(struct cursor *cursor, struct eco_series *first, struct eco_series *second,
                       struct eco_series *third)
{
    const size_t before = first->bytes, both = before + (second != NULL ? second->bytes : 0);
    const struct eco_shape shape = {.count = third->count,
                                    .bytes = eco_size_of(eco_larger(both, third->bytes))};
    struct eco_series all;
    put(cursor, &shape, &all);
    place(first, &all, 0);
    place(third, &all, 0);
    if (second != NULL)
        place(second, &all, before);
}

/* clang-format off */
#define LANES            .block = ECO_BLOCK_WORKSPACE, .count = lanes
#define STEP(type, ...)  LANES, .rows = {type, 0, __VA_ARGS__}
#define RUN(type, ...)   LANES, .rows = {type, __VA_ARGS__}
#define CHUNK(type, ...) LANES, .rows = {type, __VA_ARGS__}, .begins = ECO_BEGINS_CHUNK
#define SPAN(type, ...)  LANES, .rows = {type, __VA_ARGS__}, .begins = ECO_BEGINS_SPAN
#define ROOM(room)       LANES, .rows = {.type = sum}, .bytes = room
#define OPTIONAL(there)  .block = ECO_BLOCK_WORKSPACE, .count = (there) ? lanes : 0
#define VALUES(width)    .block = keeps ? ECO_BLOCK_RESERVE : ECO_BLOCK_WORKSPACE, \
                         .count = (keeps ? L : layers) * problem->D, .rows = {type, value_steps, width}, \
                         .begins = keeps || value_steps == 0 ? ECO_BEGINS_RUN : ECO_BEGINS_CHUNK
#define ARRAY(name, number, pass, ...) \
            case ECO_INNER_##name: shape = (struct eco_shape){__VA_ARGS__}; break;
/* clang-format on */

/* Appends the arrays of a pass to workspace and reserve. */
static void put_pass(struct eco_layout *layout, struct cursor *workspace, struct cursor *reserve,
                     bool back)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_layout_request *request = &layout->request;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const enum eco_block kept = layout->training ? ECO_BLOCK_RESERVE : ECO_BLOCK_WORKSPACE;
    const ecornn_type type = layout->type, sum = layout->sum;
    const bool lean = eco_layout_is_lean(layout), replays = eco_layout_replays(layout),
               narrows = eco_layout_narrows(layout), keeps = layout->training && !replays,
               recent = lean && !eco_layout_copies_direct(layout),
               scans = recent && layout->back && !eco_layout_knows_states(layout),
               rooms = back || !eco_layout_is_replay(layout), in_dacc = replays_in_dacc(layout),
               shared = rooms && eco_layout_shares_exchange(layout, back);
    const int32_t T = layout->T, steps = layout->chunk, steps_back = layout->chunk_backward,
                  span = layout->weights_steps, turns = eco_layout_turns(layout),
                  value_steps = keeps          ? T
                                : layout->back ? steps_back
                                : narrows      ? steps
                                               : 0,
                  recent_steps = layout->back ? steps_back + 1 : steps,
                  segments = scans ? eco_ceil_div(steps_back, problem->saving.every) : 0;
    const int L = problem->L, layers = overlaps(layout, layout->back) ? L : 1,
              lanes = (overlaps(layout, back) ? L : 1) * problem->D;
    const size_t D = (size_t)problem->D, H = (size_t)problem->H, P = (size_t)problem->P,
                 Y = (size_t)problem->Y,
                 slots = (size_t)lowered->n_slots * eco_request_row(request, H),
                 saved = (size_t)lowered->n_saves * H,
                 carried = request->gpu.carry_planes > 0 ? (size_t)request->gpu.carry_planes : 1;
    struct eco_series *const series = layout->series;
    struct cursor aside = {.block = ECO_BLOCK_WORKSPACE, .N = workspace->N};
    for (int k = 0; k < ECO_INNERS; k++) {
        const struct eco_inner_row *const row = &eco_inner_row[k];
        for (int s = 0; s < (row->number == ECO_STATES ? problem->cell->recipe.n_states : 1); s++) {
            const size_t width = (size_t)eco_problem_width(problem, s),
                         padded = eco_request_row(request, width);
            struct eco_shape shape;
            switch (row->passes & (back ? BACKWARD : FORWARD) ? k : ECO_INNERS) {
#include "common/array_rows.inc"
            default:
                continue;
            }
            put(shape.shared                       ? &aside
                : shape.block == ECO_BLOCK_RESERVE ? reserve
                                                   : workspace,
                &shape, &series[row->series + (row->number == ECO_BOTH ? back : s)]);
        }
    }
    workspace->end.overflow |= aside.end.overflow;
    if (shared)
        put_either(workspace, &series[ECO_SERIES_PRODUCT + back], &series[ECO_SERIES_GATHER + back],
                   &series[ECO_SERIES_EXCHANGE + back]);
    if (in_dacc && back)
        put_either(workspace, &series[ECO_SERIES_ACC], NULL, &series[ECO_SERIES_DACC]);
}

/* ---- workspace and reserve ------------------------------------------------------------------- */

/* Scratch for rows of products: part of the second-level cache, but at least ROWS rows of
 * everything that a stage multiplies, or of dacc, and of a panel of its result.  GROUP is the most
 * padding of a row. */
static struct eco_size copied_bytes(const struct eco_layout *layout)
{
    enum { BYTES = 256 << 10, ROWS = 40, PANEL = 64, GROUP = 48 };
    /* of floats; under BF16 weights of their parts, for AMX, and the panel */
    const bool split = layout->sum == layout->type && layout->weight == ECORNN_BF16;
    const size_t row_bytes = ROWS * sizeof(float) * (split ? 3 : 2) / 2;
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
        eco_size_align(eco_size_mul(eco_size_of(width + 2 * PANEL), row_bytes));
    return rows.overflow || rows.value > BYTES ? rows : eco_size_of(BYTES);
}

static struct eco_size carried_bytes(const struct eco_layout *layout, bool backward)
{
    return eco_size_align(
        eco_layout_product_bytes(layout->sum, (size_t)layout->request.cpu.carried_rows[backward],
                                 (size_t)layout->problem->cell->lowered.n_columns[backward],
                                 eco_layout_carried_column(layout->problem)));
}

/* Scratch of each thread, used by rows of products and of passes in turn. */
static void put_threads(struct eco_layout *layout, struct cursor *cursor)
{
    const struct eco_cpu_request *request = &layout->request.cpu;
    const struct eco_size bytes[3] = {request->threads > 0 ? copied_bytes(layout) : eco_size_of(0),
                                      carried_bytes(layout, false), carried_bytes(layout, true)};
    struct eco_size most = bytes[0];
    for (int i = 1; i < 3; i++)
        if (bytes[i].overflow || (!most.overflow && bytes[i].value > most.value))
            most = bytes[i];
    layout->threads =
        request->threads > request->carried_threads ? request->threads : request->carried_threads;
    layout->thread_offset = cursor->end.value;
    layout->thread_bytes = most.value;
    cursor->end = eco_size_add(cursor->end, eco_size_mul(most, (size_t)layout->threads));
}

static size_t cursor_bytes(const struct cursor *cursor)
{
    return cursor->end.overflow ? SIZE_MAX : cursor->end.value;
}

/* The beginning of every workspace. */
static struct cursor begin_workspace(struct eco_layout *layout)
{
    struct cursor cursor = {ECO_BLOCK_WORKSPACE, (size_t)layout->N, eco_size_of(0)};
    layout->order = 0;
    if (layout->request.cpu.by_length)
        cursor.end =
            eco_size_align(eco_size_of(sizeof(int32_t) * (layout->N + (size_t)layout->T + 1)));
    put_threads(layout, &cursor);
    const struct eco_shape team = {.count = 1,
                                   .bytes = eco_size_of(layout->request.cpu.team_bytes)};
    struct eco_series series;
    put(&cursor, &team, &series);
    layout->team_offset = series.first.offset;
    return cursor;
}

/* If backward replays, it also needs forward's arrays for a chunk.  Otherwise the passes use the
 * same block in turn, so it has the size of the larger.  The reserve begins with the mark of its
 * run, so it is never empty: a pointer means training. */
static void build_blocks(struct eco_layout *layout)
{
    const bool replays = eco_layout_replays(layout);
    struct cursor reserve = {ECO_BLOCK_RESERVE, (size_t)layout->N, eco_size_of(ECO_MARK_BYTES)},
                  forward = begin_workspace(layout), backward = forward;
    put_pass(layout, &forward, &reserve, false);
    if (replays)
        backward = forward;
    if (replays ? layout->back : layout->training)
        put_pass(layout, &backward, &reserve, true);
    const size_t starts_at = eco_larger(cursor_bytes(&forward), cursor_bytes(&backward));
    layout->reserve_bytes = layout->training ? cursor_bytes(&reserve) : 0;
    layout->starts = starts_at;
    const struct eco_size starts = eco_size_add(eco_size_of(starts_at), eco_starts_bytes(layout)),
                          streams = eco_size_add(starts, eco_streams_bytes(layout)),
                          end = eco_size_add(streams, eco_compaction_bytes(layout));
    layout->streams = starts.value;
    layout->compaction = streams.value;
    layout->workspace_bytes = starts_at == SIZE_MAX || end.overflow ? SIZE_MAX : end.value;
}

void eco_layout_resize(struct eco_layout *layout, const struct eco_layout *from, int32_t T,
                       int32_t N)
{
    if (layout != from)
        memcpy(layout, from, offsetof(struct eco_layout, own_packing));
    layout->T = T;
    layout->N = N;
    layout->fuse_input = layout->request.fuse_input && N >= layout->request.cpu.fuse_rows &&
                         !eco_layout_is_replay(layout); /* all steps in one chunk */
    layout->chunk_backward = eco_backward_chunk(layout);
    layout->chunk = eco_forward_chunk(layout);
    if (layout->request.gpu.lean)
        layout->request.gpu.product_bytes =
            eco_bytes_by_rows(&layout->request.gpu.product, layout->problem->N, N);
    layout->weights_steps = layout->chunk_backward;
    for (int k = 1; k < layout->request.gpu.weights_chunks && layout->weights_steps < T; k++)
        layout->weights_steps = T - layout->weights_steps < layout->chunk_backward
                                    ? T
                                    : layout->weights_steps + layout->chunk_backward;
    if (!layout->request.plain)
        build_blocks(layout);
    else if (layout->request.sizes != NULL)
        layout->request.sizes(layout);
    else if (layout->training)
        layout->reserve_bytes = ECO_MARK_BYTES; /* the reference recomputes everything */
}

void eco_layout_build(struct eco_layout *layout, const struct eco_problem *problem,
                      const struct eco_layout_request *request, int32_t T, int32_t N,
                      enum eco_layout_kind kind)
{
    memset(layout, 0, sizeof *layout);
    layout->problem = problem;
    layout->request = *request;
    layout->packing = &layout->own_packing;
    layout->training = kind != ECO_LAYOUT_INFER;
    layout->back = kind == ECO_LAYOUT_BACK;
    layout->type = problem->type;
    layout->sum = eco_type_sum(problem->type);
    layout->weight = request->cpu.wide ? layout->sum : problem->weight_type;
    eco_layout_build_weights(layout);
    eco_layout_resize(layout, layout, T, N);
}
