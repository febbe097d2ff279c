/*
 * Builds the layout of workspace and reserve: every offset, stride and size, a pure function of
 * problem, request and the run's T and N.  Only this file and weights.c know offsets.
 */
#include "common/plan/shapes.h"

#include <string.h>

#include "common/mark.h"
#include "common/compose/compaction.h"
#include "common/compose/starts.h"
#include "common/util.h"

/* ---- workspace and reserve ------------------------------------------------------------------- */

/* A block that arrays are appended to. */
struct cursor {
    enum eco_block block;
    int32_t N;
    struct eco_size end;
};

/* Appends count arrays of [steps, N, width]. */
static struct eco_series put(struct cursor *cursor, int count, struct eco_layout_rows rows)
{
    const size_t N = (size_t)cursor->N;
    if (rows.width == 0 || count == 0)
        return (struct eco_series){
            .first = {.block = cursor->block, .offset = cursor->end.value, .type = rows.type},
            .count = count};
    const struct eco_size bytes = eco_size_align(eco_layout_product_bytes(
        rows.type, (size_t)(rows.steps > 0 ? rows.steps : 1), N, rows.width));
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

/* Do layers run at the same time, so that each needs arrays of its own? In lockstep two sequences
 * are enough: layer l writes over the sequence of layer l - 2, of which layer l - 1 has read that
 * step. */
static bool overlaps(const struct eco_layout *layout, bool backward)
{
    return layout->request.wavefront || (layout->request.lockstep && !backward);
}

/* Alternating planes.  Only the layer above needs all planes of the output state; two are enough
 * otherwise, since a thread may write the next plane while others read the previous one. */
static void put_turns(struct eco_layout *layout, struct cursor *cursor, int s, int32_t planes)
{
    const int count = overlaps(layout, layout->back) ? layout->problem->L : 1;
    layout->last_state[s] = put(cursor, count, eco_layout_turn_planes(layout, s, planes));
    layout->last_state[s].first.wrap = (size_t)planes;
    layout->state[s] = layout->last_state[s];
}

/* What the layers above the first read in a run that is not lean: planes of the output state, or,
 * if these are wide, arrays of their own. */
static void put_sequence(struct eco_layout *layout, struct cursor *cursor, int count)
{
    const bool wide = eco_problem_wide_output(layout->problem);
    if (layout->training && !eco_layout_replays(layout) && !wide) {
        layout->sequence = layout->state[0];
        return;
    }
    layout->sequence = put(cursor, count, eco_layout_sequence_rows(layout));
    if (!layout->back && count > 0 && !wide)
        layout->state[0] = layout->sequence;
}

static void put_states(struct eco_layout *layout, struct cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const int lower = problem->L - 1;
    const bool keeps = layout->training || layout->request.wavefront;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const struct eco_layout_rows all = eco_layout_planes(layout, s, layout->T + 2);
        if (layout->training && !eco_layout_is_lean(layout)) {
            layout->state[s] = put(cursor, problem->L, all);
            layout->last_state[s] = layout->state[s];
            continue;
        }
        put_turns(layout, cursor, s, 2);
    }
    if (!eco_layout_is_lean(layout))
        put_sequence(layout, cursor, keeps || lower < 2 ? lower : 2);
}

/* With replay, backward reads checkpoints; planes exist for the current chunk only. */
static void put_states_of_chunk(struct eco_layout *layout, struct cursor *cursor,
                                struct cursor *reserve)
{
    const struct eco_problem *problem = layout->problem;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        if (s > 0)
            layout->checkpoint[s] = put(reserve, problem->L, eco_layout_checkpoint_rows(layout, s));
        if (!layout->back) {
            put_turns(layout, cursor, s, eco_layout_ring(layout->chunk));
            continue;
        }
        layout->state[s] = put(cursor, layout->request.wavefront ? problem->L : 1,
                               eco_layout_planes(layout, s, layout->chunk_backward + 2));
        layout->state[s].first.chunked = true;
        layout->last_state[s] = layout->state[s];
    }
    put_sequence(layout, reserve, problem->L - 1);
}

/* Saved values, and u of a projection: of all steps in the reserve, of a chunk, or of one step. */
static void put_values(struct eco_layout *layout, struct cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const bool replays = eco_layout_replays(layout), keeps = layout->training && !replays,
               narrows = eco_layout_narrows(layout);
    const int pairs = problem->L * problem->D;
    const int lanes = keeps || overlaps(layout, layout->back) ? pairs : problem->D;
    const int32_t steps = keeps          ? layout->T
                          : layout->back ? layout->chunk_backward
                          : narrows      ? layout->chunk
                                         : 0;
    const size_t H = (size_t)problem->H;
    const size_t saves = (size_t)problem->cell->lowered.n_saves * H;
    if (eco_layout_saves(layout))
        layout->save = put(cursor, lanes, (struct eco_layout_rows){layout->type, steps, saves});
    if (problem->projected)
        layout->output = put(cursor, lanes, (struct eco_layout_rows){layout->type, steps, H});
    layout->save.first.chunked = layout->output.first.chunked =
        replays && (layout->back || narrows);
}

/* Both in the save type. */
static void put_narrowed(struct eco_layout *layout, struct cursor *reserve)
{
    const struct eco_problem *problem = layout->problem;
    const int pairs = problem->L * problem->D;
    struct eco_layout_rows rows = {problem->saving.type, layout->T,
                                   (size_t)problem->cell->lowered.n_saves * (size_t)problem->H};
    layout->kept_save = put(reserve, pairs, rows);
    rows.width = problem->projected ? (size_t)problem->H : 0;
    layout->kept_output = put(reserve, pairs, rows);
}

/* The states that a lean backward reads: all except y, which is the caller's.  In inference only
 * those that the next layer reads. */
static void put_checkpoints(struct eco_layout *layout, struct cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const int states = eco_layout_copies_states(layout) ? problem->cell->recipe.n_states : 1;
    for (int s = 0; s < states; s++)
        layout->checkpoint[s] =
            put(cursor, s == 0 ? problem->L - 1 : problem->L, eco_layout_lean_rows(layout, s));
}

/* The states of a chunk in a lean run without all checkpoints. */
static void put_recent(struct eco_layout *layout, struct cursor *cursor)
{
    const int count = layout->request.wavefront ? layout->problem->L : 1;
    for (int s = 1; s < layout->problem->cell->recipe.n_states; s++) {
        struct eco_layout_rows rows = eco_layout_copies(layout, s);
        rows.steps = layout->back ? layout->chunk_backward + 1 : layout->chunk;
        layout->recent[s] = put(cursor, count, rows);
        rows.type = layout->last_state[s].first.type;
        if (!layout->back || eco_layout_knows_states(layout))
            continue;
        rows.steps += eco_ceil_div(layout->chunk_backward, layout->problem->saving.every) - 1;
        layout->scan[s] = put(cursor, count, rows);
    }
}

/* Appends count blocks of bytes that are not rows. */
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

/* Copies of weights for products, each as large as the largest layer needs. */
static void put_weights(struct eco_layout *layout, struct cursor *cursor, bool backward, int lanes)
{
    struct eco_size widened = eco_size_of(0);
    for (int layer = 0; layout->request.gpu.widened && layer < 2 && layer < layout->problem->L;
         layer++) {
        const struct eco_size bytes = eco_layout_matrix_bytes(layout, layer, 0, ECO_WEIGHT_IDS);
        if (bytes.overflow || bytes.value > widened.value)
            widened = bytes;
    }
    layout->scratch[backward][ECO_SCRATCH_WIDENED] = put_bytes(cursor, lanes, widened);
    layout->scratch[backward][ECO_SCRATCH_TRANSPOSED] =
        put_bytes(cursor, lanes,
                  layout->request.gpu.transposed[backward]
                      ? eco_layout_matrix_bytes(layout, 0, ECO_WEIGHT_RECURRENT, ECO_WEIGHT_IDS)
                      : eco_size_of(0));
    layout->scratch[backward][ECO_SCRATCH_PREPARED] =
        put_bytes(cursor, lanes, eco_size_of(layout->request.gpu.prepared_bytes[backward]));
}

static void put_resets(struct eco_layout *layout, struct cursor *cursor, bool backward, int lanes)
{
    const struct eco_problem *problem = layout->problem;
    for (int s = 0; problem->resets && s < problem->cell->recipe.n_states; s++) {
        const size_t width = (size_t)eco_problem_width(problem, s);
        const struct eco_layout_rows sums = {layout->sum, 0,
                                             eco_request_row(&layout->request, width)};
        if (!backward && !layout->request.gpu.lean)
            layout->replaced[s] = put(cursor, lanes, eco_layout_reset_rows(layout, s, false));
        if (!backward)
            continue;
        layout->with_resets[s] = put(cursor, lanes, eco_layout_reset_rows(layout, s, true));
        layout->dstart[s] = put(cursor, lanes, sums);
    }
}

static int32_t clip_chunk(int32_t chunk, int32_t T)
{
    return chunk > 0 && chunk < T ? chunk : T;
}

/* Chunk length of a run with fewer steps than planned: chunks as even as those of a plan of its
 * own, so that it needs no more memory; if few steps are missing, as many chunks as the plan has.
 */
static int32_t even_chunk(const struct eco_layout *layout, int32_t requested)
{
    const int32_t T = layout->T, planned = layout->problem->T, chunk = clip_chunk(requested, T),
                  all = T > planned - planned / 8 ? planned : T,
                  count = eco_ceil_div(all, clip_chunk(requested, all)),
                  even = eco_ceil_div(T, count);
    return layout->request.gpu.lean && T < planned && even < chunk ? even : chunk;
}

bool eco_layout_shares_exchange(const struct eco_layout *layout, bool backward)
{
    return layout->request.gpu.steps_exchange && layout->request.gpu.shares[backward];
}

static struct eco_size longer(struct eco_size a, struct eco_size b)
{
    return a.overflow || (!b.overflow && a.value > b.value) ? a : b;
}

static struct eco_size exchange_bytes(const struct eco_layout *layout, bool backward)
{
    const struct eco_layout_request *request = &layout->request;
    const int32_t steps = backward ? layout->chunk_backward : even_chunk(layout, request->chunk);
    const size_t step =
        eco_bytes_by_rows(&request->exchange[backward], layout->problem->N, (int32_t)layout->N);
    return longer(eco_size_of(request->exchange_bytes),
                  eco_size_mul(eco_size_of(step), (size_t)steps));
}

/* Room of products and the exchange. */
static void put_rooms(struct eco_layout *layout, struct cursor *cursor, bool backward, int lanes)
{
    struct eco_series *scratch = layout->scratch[backward];
    scratch[ECO_SCRATCH_PRODUCT] =
        put_bytes(cursor, lanes, eco_size_of(layout->request.gpu.product_bytes));
    scratch[ECO_SCRATCH_EXCHANGE] = put_bytes(cursor, lanes, exchange_bytes(layout, backward));
}

/* The same with gathered rows, where they share their memory: for each lane the exchange, or room
 * and behind it gathered rows. */
static void put_shared(struct eco_layout *layout, struct cursor *cursor, bool backward, int lanes)
{
    struct eco_series *scratch = layout->scratch[backward];
    struct cursor between = {.block = cursor->block, .N = cursor->N, .end = eco_size_of(0)},
                  steps = between;
    put_bytes(&between, 1, eco_size_of(layout->request.gpu.product_bytes));
    scratch[ECO_SCRATCH_GATHER] =
        put(&between, 1, eco_layout_scratch_rows(layout, backward, ECO_SCRATCH_GATHER));
    put_bytes(&steps, 1, exchange_bytes(layout, backward));
    const struct eco_series all = put_bytes(cursor, lanes, longer(steps.end, between.end));
    scratch[ECO_SCRATCH_PRODUCT] = scratch[ECO_SCRATCH_EXCHANGE] = all;
    scratch[ECO_SCRATCH_GATHER].first.offset += all.first.offset;
    scratch[ECO_SCRATCH_GATHER].bytes = all.bytes;
    scratch[ECO_SCRATCH_GATHER].count = lanes;
}

/* Backward with a replay, which uses backward's room. */
static bool is_replay(const struct eco_layout *layout)
{
    return layout->back && eco_layout_replays(layout);
}

/* Accumulators of a replay in the memory of gradients of accumulators, which steps back write when
 * the chunk's replay has ended. Not on a CPU, where threads may be at different operations, nor if
 * the gradients' rows end with zeros. */
static bool replays_in_dacc(const struct eco_layout *layout)
{
    const size_t H = (size_t)layout->problem->H;
    return is_replay(layout) && layout->request.gpu.lean &&
           eco_request_row(&layout->request, H) == H;
}

static void put_replayed(struct eco_layout *layout, struct cursor *cursor, int lanes)
{
    struct eco_series *const scratch[2] = {&layout->scratch[0][ECO_SCRATCH_ACC],
                                           &layout->scratch[1][ECO_SCRATCH_DACC]};
    struct eco_size bytes = eco_size_of(0);
    for (int back = 0; back < 2; back++) {
        struct cursor end = {.block = cursor->block, .N = cursor->N, .end = eco_size_of(0)};
        *scratch[back] = put(
            &end, 1,
            eco_layout_scratch_rows(layout, back == 1, back ? ECO_SCRATCH_DACC : ECO_SCRATCH_ACC));
        bytes = longer(bytes, end.end);
    }
    const struct eco_series all = put_bytes(cursor, lanes, bytes);
    for (int back = 0; back < 2; back++) {
        scratch[back]->first.offset = all.first.offset;
        scratch[back]->bytes = all.bytes;
        scratch[back]->count = lanes;
    }
}

static void put_scratch(struct eco_layout *layout, struct cursor *cursor, bool backward)
{
    const struct eco_problem *problem = layout->problem;
    const int lanes = overlaps(layout, backward) ? problem->L * problem->D : problem->D;
    const bool rooms = backward || !is_replay(layout),
               shared = rooms && eco_layout_shares_exchange(layout, backward),
               replayed = replays_in_dacc(layout);
    for (int i = 0; i < ECO_SCRATCHES; i++)
        if (!(shared && i == ECO_SCRATCH_GATHER) &&
            !(replayed && i == (backward ? ECO_SCRATCH_DACC : ECO_SCRATCH_ACC)))
            layout->scratch[backward][i] =
                put(cursor, lanes, eco_layout_scratch_rows(layout, backward, i));
    if (replayed && backward)
        put_replayed(layout, cursor, lanes);
    if (rooms)
        (shared ? put_shared : put_rooms)(layout, cursor, backward, lanes);
    put_weights(layout, cursor, backward, lanes);
    put_resets(layout, cursor, backward, lanes);
    if (!backward)
        return;
    layout->scratch[1][ECO_SCRATCH_PACK] = put_bytes(cursor, lanes, eco_layout_pack_bytes(layout));
    layout->scratch[1][ECO_SCRATCH_PACK].first.type = layout->sum;
    layout->scratch[1][ECO_SCRATCH_GRADIENT] =
        put_bytes(cursor, lanes, eco_layout_gradient_bytes(layout));
    layout->scratch[1][ECO_SCRATCH_GRADIENT].first.type = layout->sum;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        layout->carry[s] =
            put(cursor, lanes,
                (struct eco_layout_rows){
                    layout->sum, 0,
                    eco_request_row(&layout->request, (size_t)eco_problem_width(problem, s))});
    /* With one direction a layer writes dx where it has read dy, of the same steps. With two, one
     * direction still reads dy when the other writes. */
    const int upper = problem->L - 1;
    if (upper > 0)
        layout->dinput =
            put(cursor,
                problem->D == 1                          ? 1
                : layout->request.wavefront || upper < 2 ? upper
                                                         : 2,
                (struct eco_layout_rows){
                    layout->sum, layout->T,
                    eco_request_row(&layout->request, (size_t)problem->D * (size_t)problem->P)});
}

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
    struct cursor cursor = {ECO_BLOCK_WORKSPACE, layout->N, eco_size_of(0)};
    layout->order = 0;
    if (layout->request.cpu.by_length)
        cursor.end =
            eco_size_align(eco_size_of(sizeof(int32_t) * (layout->N + (size_t)layout->T + 1)));
    put_threads(layout, &cursor);
    layout->team_offset =
        put_bytes(&cursor, 1, eco_size_of(layout->request.cpu.team_bytes)).first.offset;
    return cursor;
}

/* If backward replays, it also needs forward's arrays for a chunk. */
static void build_replaying(struct eco_layout *layout, struct cursor *reserve)
{
    struct cursor workspace = begin_workspace(layout);
    if (eco_layout_is_lean(layout)) {
        put_states(layout, &workspace);
        put_checkpoints(layout, reserve);
        if (!eco_layout_copies_direct(layout))
            put_recent(layout, &workspace);
    } else {
        put_states_of_chunk(layout, &workspace, reserve);
    }
    put_values(layout, &workspace);
    if (eco_layout_narrows(layout))
        put_narrowed(layout, reserve);
    put_scratch(layout, &workspace, false);
    if (layout->back)
        put_scratch(layout, &workspace, true);
    layout->workspace_bytes = cursor_bytes(&workspace);
}

/* Forward and backward use the same block in turn, so it has the size of the larger. */
static void build_saving(struct eco_layout *layout, struct cursor *reserve)
{
    struct cursor forward = begin_workspace(layout), backward = forward;
    struct cursor *block = layout->training ? reserve : &forward;
    put_states(layout, eco_layout_is_lean(layout) ? &forward : block);
    if (eco_layout_is_lean(layout))
        put_checkpoints(layout, block);
    put_values(layout, block);
    put_scratch(layout, &forward, false);
    if (layout->training)
        put_scratch(layout, &backward, true);
    const size_t a = cursor_bytes(&forward), b = cursor_bytes(&backward);
    layout->workspace_bytes = a > b ? a : b;
}

/* The reserve begins with the mark of its run, so it is never empty: a pointer means training. */
static void build_blocks(struct eco_layout *layout)
{
    struct cursor reserve = {ECO_BLOCK_RESERVE, layout->N, eco_size_of(ECO_MARK_BYTES)};
    (eco_layout_replays(layout) ? build_replaying : build_saving)(layout, &reserve);
    layout->reserve_bytes = layout->training ? cursor_bytes(&reserve) : 0;
    layout->starts = layout->workspace_bytes;
    const struct eco_size starts =
                              eco_size_add(eco_size_of(layout->starts), eco_starts_bytes(layout)),
                          streams = eco_size_add(starts, eco_streams_bytes(layout)),
                          end = eco_size_add(streams, eco_compaction_bytes(layout));
    layout->streams = starts.value;
    layout->compaction = streams.value;
    if (layout->workspace_bytes != SIZE_MAX)
        layout->workspace_bytes = end.overflow ? SIZE_MAX : end.value;
}

/* Forward chunk: with fewer rows than planned, as many more steps as fit into the plan's arrays. */
static int32_t chunk_of(const struct eco_layout *layout)
{
    const struct eco_layout_request *request = &layout->request;
    if (!request->cpu.by_rows || request->chunk == 0)
        return request->chunk;
    const int64_t steps = request->fuse_input && !layout->fuse_input ? 1 : request->chunk;
    int64_t chunk = steps * layout->problem->N / (layout->N > 0 ? layout->N : 1);
    if (eco_layout_replays(layout) && chunk > request->chunk)
        chunk = request->chunk; /* alternating planes number a power of two, which must not grow */
    return chunk < layout->T ? (int32_t)chunk : layout->T;
}

/* Backward chunk: with replay a multiple of the checkpoint interval. */
static int32_t chunk_backward_of(const struct eco_layout *layout)
{
    const int32_t requested = layout->request.chunk_backward,
                  most = clip_chunk(requested, layout->T),
                  every = eco_layout_replays(layout) ? layout->problem->saving.every : 1;
    const int64_t even = (int64_t)eco_ceil_div(even_chunk(layout, requested), every) * every;
    return even < most ? (int32_t)even : most;
}

/* At most as many steps as one of the even parts of the plan's chunk, each of which about fits in
 * the L2 with these values, H-wide ones a row.  The plan's T and N decide: a smaller run needs no
 * more. */
static int32_t fitting_steps(const struct eco_layout *layout, int values, int32_t planned,
                             int32_t steps)
{
    enum { LEAST_STEPS = 4 };
    const double step = (double)layout->problem->N * (double)layout->problem->H * values *
                        (double)eco_type_bytes(layout->sum);
    if (step * planned <= ECO_L2_BYTES)
        return steps;
    const int32_t most = (int32_t)(ECO_L2_BYTES / step),
                  fitting = clip_chunk(most > LEAST_STEPS ? most : LEAST_STEPS, planned),
                  part = eco_ceil_div(planned, (planned + fitting / 2) / fitting);
    return steps < part ? steps : part;
}

/* Forward: saved values that are narrowed after a chunk stay in the L2.  Replay: on a GPU so do
 * accumulators between products and stages. */
static int32_t forward_chunk(const struct eco_layout *layout)
{
    const struct eco_layout_request *request = &layout->request;
    const struct eco_lowered *lowered = &layout->problem->cell->lowered;
    int32_t planned = layout->problem->T;
    if (is_replay(layout)) {
        const int32_t steps = clip_chunk(request->chunk, layout->chunk_backward);
        planned = clip_chunk(request->chunk, clip_chunk(request->chunk_backward, planned));
        return eco_layout_is_lean(layout) ? fitting_steps(layout, lowered->n_accs, planned, steps)
                                          : steps;
    }
    const int32_t steps = even_chunk(layout, chunk_of(layout));
    planned = clip_chunk(request->chunk, planned);
    return eco_layout_narrows(layout) ? fitting_steps(layout, lowered->n_saves, planned, steps)
                                      : steps;
}

void eco_layout_resize(struct eco_layout *layout, const struct eco_layout *from, int32_t T,
                       int32_t N)
{
    if (layout != from)
        memcpy(layout, from, offsetof(struct eco_layout, own_packing));
    layout->T = T;
    layout->N = N;
    layout->fuse_input = layout->request.fuse_input && N >= layout->request.cpu.fuse_rows &&
                         !is_replay(layout); /* all steps in one chunk */
    layout->chunk_backward = chunk_backward_of(layout);
    layout->chunk = forward_chunk(layout);
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
