/*
 * Builds the layout of workspace and reserve: every offset, stride and size, a pure function of
 * problem, request and the run's T and N.  Only layout*.c, scratch.c, arrays.c and weights.c
 * know offsets.
 */
#include "common/plan/cursor.h"

#include <string.h>

#include "common/mark.h"
#include "common/compose/compaction.h"
#include "common/compose/starts.h"
#include "common/util.h"

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
static void put_threads(struct eco_layout *layout, struct eco_cursor *cursor)
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

static size_t cursor_bytes(const struct eco_cursor *cursor)
{
    return cursor->end.overflow ? SIZE_MAX : cursor->end.value;
}

/* The beginning of every workspace. */
static struct eco_cursor begin_workspace(struct eco_layout *layout)
{
    struct eco_cursor cursor = {ECO_BLOCK_WORKSPACE, layout->N, eco_size_of(0)};
    layout->order = 0;
    if (layout->request.cpu.by_length)
        cursor.end =
            eco_size_align(eco_size_of(sizeof(int32_t) * (layout->N + (size_t)layout->T + 1)));
    put_threads(layout, &cursor);
    layout->team_offset =
        eco_put_bytes(&cursor, 1, eco_size_of(layout->request.cpu.team_bytes)).first.offset;
    return cursor;
}

/* If backward replays, it also needs forward's arrays for a chunk. */
static void build_replaying(struct eco_layout *layout, struct eco_cursor *reserve)
{
    struct eco_cursor workspace = begin_workspace(layout);
    if (eco_layout_is_lean(layout)) {
        eco_put_states(layout, &workspace);
        eco_put_checkpoints(layout, reserve);
        if (!eco_layout_copies_direct(layout))
            eco_put_recent(layout, &workspace);
    } else {
        eco_put_states_of_chunk(layout, &workspace, reserve);
    }
    eco_put_values(layout, &workspace);
    if (eco_layout_narrows(layout))
        eco_put_narrowed(layout, reserve);
    eco_put_scratch(layout, &workspace, false);
    if (layout->back)
        eco_put_scratch(layout, &workspace, true);
    layout->workspace_bytes = cursor_bytes(&workspace);
}

/* Forward and backward use the same block in turn, so it has the size of the larger. */
static void build_saving(struct eco_layout *layout, struct eco_cursor *reserve)
{
    struct eco_cursor forward = begin_workspace(layout), backward = forward;
    struct eco_cursor *block = layout->training ? reserve : &forward;
    eco_put_states(layout, eco_layout_is_lean(layout) ? &forward : block);
    if (eco_layout_is_lean(layout))
        eco_put_checkpoints(layout, block);
    eco_put_values(layout, block);
    eco_put_scratch(layout, &forward, false);
    if (layout->training)
        eco_put_scratch(layout, &backward, true);
    const size_t a = cursor_bytes(&forward), b = cursor_bytes(&backward);
    layout->workspace_bytes = a > b ? a : b;
}

/* The reserve begins with the mark of its run, so it is never empty: a pointer means training. */
static void build_blocks(struct eco_layout *layout)
{
    struct eco_cursor reserve = {ECO_BLOCK_RESERVE, layout->N, eco_size_of(ECO_MARK_BYTES)};
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
