/*
 * Tests that no two arrays of a layout share an element, that each array is aligned and inside its
 * block, and that a smaller run takes no more memory than the plan.
 */
#include <check.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout.h"
#include "common/mark.h"
#include "common/util.h"
#include "tests/kit/problems.h"
#include "tests/kit/suite.h"

/* Blocks as maps of owners, one byte per byte. */
struct map {
    const struct eco_layout *layout;
    const char *text;
    unsigned char *owner[4];
    size_t bytes[4];
    unsigned char id;
    enum eco_block block; /* other blocks are not painted; NONE: all are */
};

static void map_open(struct map *map, const struct eco_layout *layout, const char *text)
{
    *map = (struct map){.layout = layout, .text = text};
    map->bytes[ECO_BLOCK_WEIGHTS] = layout->weights_bytes;
    map->bytes[ECO_BLOCK_WORKSPACE] = layout->workspace_bytes;
    map->bytes[ECO_BLOCK_RESERVE] = layout->reserve_bytes;
    for (int i = 0; i < 4; i++)
        map->owner[i] = calloc(map->bytes[i] + 1, 1);
    const size_t mark = layout->training ? ECO_MARK_BYTES : 0;
    ck_assert_uint_ge(layout->reserve_bytes, mark);
    memset(map->owner[ECO_BLOCK_RESERVE], ++map->id, mark); /* no other array has these bytes */
}

static void map_close(struct map *map)
{
    for (int i = 0; i < 4; i++)
        free(map->owner[i]);
}

/* What is painted from now on has another owner; 0 is none. */
static void change_owner(struct map *map)
{
    map->id = map->id == UCHAR_MAX ? 1 : map->id + 1;
}

static void paint_bytes(struct map *map, enum eco_block block, size_t from, size_t bytes)
{
    if (map->block != ECO_BLOCK_NONE && map->block != block)
        return;
    ck_assert_msg(from + bytes <= map->bytes[block], "%s: array %d ends at %zu of %zu", map->text,
                  map->id, from + bytes, map->bytes[block]);
    for (size_t i = from; i < from + bytes; i++) {
        if (map->owner[block][i] !=
            0) /* tested first, because an assert of every byte takes seconds */
            ck_abort_msg("%s: arrays %d and %d share byte %zu of block %d", map->text,
                         map->owner[block][i], map->id, i, block);
        map->owner[block][i] = map->id;
    }
}

/* Paints `steps` steps of N rows of `width` elements for the present owner. */
static void paint_more(struct map *map, struct eco_array array, int32_t steps, size_t width)
{
    const size_t element = eco_type_bytes(array.type);
    if (array.wrap > 0)
        steps = (int32_t)array.wrap;
    for (int32_t t = 0; t < (array.step > 0 ? steps : 1); t++)
        for (int32_t n = 0; n < map->layout->N; n++)
            paint_bytes(map, array.block,
                        array.offset + ((size_t)t * array.step + (size_t)n * array.row) * element,
                        width * element);
}

static void check_aligned(const struct map *map, size_t offset)
{
    ck_assert_msg(offset % ECO_ALIGNMENT == 0, "%s: array %d begins at %zu", map->text, map->id,
                  offset);
}

static void check_weights(const struct eco_layout *layout, const char *text)
{
    const struct eco_problem *problem = layout->problem;
    struct map map;
    map_open(&map, layout, text);
    map.bytes[ECO_BLOCK_NONE] = layout->dweights_bytes;
    free(map.owner[ECO_BLOCK_NONE]);
    map.owner[ECO_BLOCK_NONE] = calloc(layout->dweights_bytes + 1, 1);
    for (int i = 0; i < problem->L * problem->D * ECO_WEIGHT_IDS; i++) {
        const int layer = i / ECO_WEIGHT_IDS / problem->D, d = i / ECO_WEIGHT_IDS % problem->D;
        const int part = i % ECO_WEIGHT_IDS;
        const struct eco_matrix matrix = *eco_layout_matrix(layout, layer, part);
        const bool vectors = part == ECO_WEIGHT_VECTORS;
        const size_t element = eco_type_bytes(vectors ? layout->sum : layout->weight);
        const size_t dense = (size_t)matrix.n * (size_t)matrix.height * (size_t)matrix.row;
        change_owner(&map);
        check_aligned(&map, eco_layout_gradient(layout, layer, d, part));
        check_aligned(&map, eco_layout_weights(layout, layer, d, part));
        paint_bytes(&map, ECO_BLOCK_NONE, eco_layout_gradient(layout, layer, d, part),
                    dense * eco_type_bytes(layout->sum));
        if (layout->request.cpu.lanes == 0 || vectors) {
            paint_bytes(&map, ECO_BLOCK_WEIGHTS, eco_layout_weights(layout, layer, d, part),
                        dense * element);
            continue;
        }
        for (int back = 0; back <= (int)problem->training; back++) {
            const struct eco_panels panels = eco_panels_of(&matrix, back, &layout->request);
            ck_assert_int_ge(panels.blocks * panels.lanes * panels.lane_groups, panels.units);
            paint_bytes(&map, ECO_BLOCK_WEIGHTS,
                        back ? eco_layout_weights_back(layout, layer, d, part)
                             : eco_layout_weights(layout, layer, d, part),
                        eco_panels_offset(&panels, panels.blocks, 0) * element);
        }
    }
    map_close(&map);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Does this layout have arrays of a replay? */
static bool is_replay(const struct eco_layout *layout)
{
    return layout->back && eco_layout_replays(layout);
}

/* The steps and the elements of a row that code uses; width 0: none. */
struct need {
    int32_t steps;
    size_t width;
};

/* Is there room for a copy of the output state? */
static bool may_copy(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    return eco_layout_is_lean(layout) &&
           ((problem->reverse || problem->D == 2) || problem->batch_major ||
            eco_request_needs_copy(&layout->request, (size_t)problem->P));
}

/* Planes, if they are not the sequence that a layer below the last leaves. */
static struct need state_need(const struct eco_layout *layout, int layer, int s)
{
    const struct eco_problem *problem = layout->problem;
    const bool apart = layer == problem->L - 1 || s > 0 || is_replay(layout) ||
                       !eco_layout_replays(layout) || eco_problem_wide_output(problem) ||
                       eco_layout_is_lean(layout);
    const bool chunk = is_replay(layout) && !eco_layout_is_lean(layout);
    return (struct need){2 + (chunk ? layout->chunk_backward : layout->T),
                         apart ? (size_t)eco_problem_width(problem, s) : 0};
}

static struct need checkpoint_need(const struct eco_layout *layout, int layer, int s)
{
    const struct eco_problem *problem = layout->problem;
    const bool lean = eco_layout_is_lean(layout), replays = eco_layout_replays(layout);
    const bool there = lean ? s == 0 ? layer + 1 < problem->L : eco_layout_copies_states(layout)
                            : replays && s > 0;
    int32_t steps = replays && s > 0 ? 0 : layout->T;
    for (int d = 0; d < problem->D && replays && s > 0; d++)
        for (int32_t t = 0; t < layout->T; t++)
            if (eco_layout_is_checkpoint(layout, d, t) &&
                (int32_t)eco_layout_checkpoint_index(layout, d, t) >= steps)
                steps = (int32_t)eco_layout_checkpoint_index(layout, d, t) + 1;
    return (struct need){steps, there && steps > 0 ? (size_t)eco_problem_width(problem, s) : 0};
}

/* Saved values, and u: of this width. */
static struct need value_need(const struct eco_layout *layout, bool there, size_t width)
{
    const bool replays = eco_layout_replays(layout);
    return (struct need){layout->training && !replays ? layout->T
                         : layout->back               ? layout->chunk_backward
                         : eco_layout_narrows(layout) ? layout->chunk
                                                      : 1,
                         there ? width : 0};
}

static struct need reset_need(const struct eco_layout *layout, enum eco_inner which, int s)
{
    const struct eco_problem *problem = layout->problem;
    const size_t width = problem->resets ? (size_t)eco_problem_width(problem, s) : 0;
    if (which == ECO_INNER_REPLACED)
        return (struct need){1, layout->request.gpu.lean ? 0 : width};
    if (which == ECO_INNER_DSTART)
        return (struct need){1, width};
    const size_t row = eco_layout_array(layout, which, true, 0, 0, s).row;
    if (s == 0 && !eco_problem_wide_output(problem))
        ck_assert_uint_ge(row, width);
    return (struct need){layout->weights_steps, row > 0 ? width : 0};
}

static struct need need_of(const struct eco_layout *layout, enum eco_inner which, bool back,
                           int layer, int s)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t H = (size_t)problem->H, P = (size_t)problem->P, D = (size_t)problem->D,
                 u = problem->projected ? H : 0, saves = (size_t)lowered->n_saves * H,
                 slots = (size_t)lowered->n_slots * H, extra = (size_t)lowered->n_extra * H,
                 width = (size_t)eco_problem_width(problem, s);
    const bool lean = eco_layout_is_lean(layout), sums = layout->request.cpu.sums_vectors,
               narrows = eco_layout_narrows(layout), lower = layer + 1 < problem->L,
               recent = lean && !eco_layout_copies_direct(layout) && s > 0,
               scans = recent && layout->back && !eco_layout_knows_states(layout),
               gathers = !is_replay(layout) && eco_layout_gathers(problem, &layout->request, false);
    const int32_t T = layout->T, span = layout->weights_steps,
                  steps = layout->back ? layout->chunk_backward + 1 : layout->chunk;
    switch (which) {
    case ECO_INNER_STATE:
        return state_need(layout, layer, s);
    case ECO_INNER_SEQUENCE:
        return (struct need){
            T + 2,
            lower && !lean && (eco_layout_replays(layout) || eco_problem_wide_output(problem)) ? P
                                                                                               : 0};
    case ECO_INNER_CHECKPOINT:
        return checkpoint_need(layout, layer, s);
    case ECO_INNER_RECENT:
        return (struct need){steps, recent ? width : 0};
    case ECO_INNER_SCAN:
        return (struct need){scans ? steps - 1 + (steps - 2) / problem->saving.every + 1 : 1,
                             scans ? width : 0};
    case ECO_INNER_SAVE:
        return value_need(layout, eco_layout_saves(layout), saves);
    case ECO_INNER_OUTPUT:
        return value_need(layout, true, u);
    case ECO_INNER_KEPT_SAVE:
        return (struct need){T, narrows ? saves : 0};
    case ECO_INNER_KEPT_OUTPUT:
        return (struct need){T, narrows ? u : 0};
    case ECO_INNER_GATHER:
        return (struct need){layout->chunk,
                             layer == 0 && !back && gathers ? (size_t)problem->I : 0};
    case ECO_INNER_DGATHER:
        return (struct need){layout->chunk_backward, layer == 0 ? (size_t)problem->I : 0};
    case ECO_INNER_OPERAND:
        return (struct need){back ? span : 1, slots};
    case ECO_INNER_MEAN:
        return (struct need){1, (size_t)lowered->n_means[back]};
    case ECO_INNER_DACC:
        return (struct need){span, (size_t)lowered->n_accs * H + (sums ? 0 : extra)};
    case ECO_INNER_DVECTOR:
        return (struct need){(span + ECO_SUM_STEPS - 1) / ECO_SUM_STEPS, sums ? extra : 0};
    case ECO_INNER_DOPERAND:
        return (struct need){1, slots};
    case ECO_INNER_STEP:
        return (struct need){back ? span : 1, problem->projected ? P : 0};
    case ECO_INNER_DOUTPUT:
        return (struct need){1, u};
    case ECO_INNER_UNREAD:
        return (struct need){1, is_replay(layout) && !lean ? H : 0};
    case ECO_INNER_HISTORY:
        return (struct need){span + 1, may_copy(layout) ? P : 0};
    case ECO_INNER_REPLACED:
    case ECO_INNER_WITH_RESETS:
    case ECO_INNER_DSTART:
        return reset_need(layout, which, s);
    case ECO_INNER_CARRY:
        return (struct need){1, width};
    case ECO_INNER_DINPUT:
        return (struct need){T, layer > 0 ? D * P : 0};
    case ECO_INNER_DX:
        return (struct need){T, layer == 0 && eco_layout_sums_dx(problem) ? (size_t)problem->I : 0};
    default: /* no rows */
        return (struct need){1, 0};
    }
}

/* Paints an array for a new owner.  Directions side by side in a row share its first element. */
static void paint(struct map *map, enum eco_inner which, bool back, int layer, int d, int s)
{
    const struct need need = need_of(map->layout, which, back, layer, s);
    const struct eco_array array = eco_layout_array(map->layout, which, back, layer, d, s);
    if (need.width == 0)
        return;
    change_owner(map);
    if (d == 0)
        check_aligned(map, array.offset);
    paint_more(map, array, need.steps, need.width);
}

/* Are a replay's accumulators in the memory of DACC? */
static bool is_in_dacc(const struct eco_layout *layout, const struct eco_array *acc, int layer,
                       int d)
{
    if (!is_replay(layout) || !layout->request.gpu.lean ||
        acc->offset != eco_layout_array(layout, ECO_INNER_DACC, true, layer, d, 0).offset)
        return false;
    ck_assert_uint_ge(layout->series[ECO_SERIES_DACC].bytes,
                      (size_t)layout->chunk * acc->step * eco_type_bytes(acc->type));
    return true;
}

/* Paints every unit of every accumulator separately. */
static void paint_acc(struct map *map, int layer, int d)
{
    const struct eco_layout *layout = map->layout;
    const struct eco_blocks blocks = eco_layout_acc_blocks(layout);
    const struct eco_array acc = eco_layout_array(layout, ECO_INNER_ACC, false, layer, d, 0);
    if ((layout->back && eco_layout_narrows(layout)) || is_in_dacc(layout, &acc, layer, d))
        return;
    change_owner(map);
    for (int a = 0; a < layout->problem->cell->lowered.n_accs; a++)
        for (int32_t u = 0; u < layout->problem->H; u++) {
            struct eco_array unit = acc;
            unit.offset += ((size_t)a * blocks.column + eco_blocks_at(&blocks, (size_t)u)) *
                           eco_type_bytes(acc.type);
            paint_more(map, unit, layout->chunk, 1);
        }
}

/* Paints memory that has no rows, by its number of bytes. */
static void paint_room(struct map *map, enum eco_inner which, bool back, int layer, int d)
{
    const struct eco_layout *layout = map->layout;
    const struct eco_array array = eco_layout_array(layout, which, back, layer, d, 0);
    const bool shared = eco_layout_shares_exchange(layout, back);
    size_t bytes = layout
                       ->series[eco_inner_row[which].series +
                                (eco_inner_row[which].number == ECO_BOTH ? back : 0)]
                       .bytes;
    change_owner(map);
    if (which == ECO_INNER_PRODUCT) {
        ck_assert_uint_ge(bytes, layout->request.gpu.product_bytes);
        if (shared)
            bytes = layout->request.gpu.product_bytes; /* gathered rows follow */
    }
    if (which == ECO_INNER_EXCHANGE && shared)
        return;
    check_aligned(map, array.offset);
    paint_bytes(map, array.block, array.offset, bytes);
}

/* The exchange begins where room of products does, and ends behind gathered rows. */
static void check_shared(const struct map *map, bool back, int layer, int d)
{
    const struct eco_layout *layout = map->layout;
    const size_t steps = (size_t)(back ? layout->chunk_backward : layout->chunk),
                 bytes = layout->series[ECO_SERIES_EXCHANGE + back].bytes;
    const struct eco_array exchange =
                               eco_layout_array(layout, ECO_INNER_EXCHANGE, back, layer, d, 0),
                           product = eco_layout_array(layout, ECO_INNER_PRODUCT, back, layer, d, 0),
                           gather = eco_layout_array(layout, ECO_INNER_GATHER, back, layer, d, 0);
    const size_t rows = steps * (size_t)layout->N * gather.row;
    ck_assert_uint_eq(product.offset, exchange.offset);
    ck_assert_uint_ge(bytes, layout->request.exchange[back].most * steps);
    ck_assert_uint_le(gather.offset + rows * eco_type_bytes(gather.type), exchange.offset + bytes);
}

/* Paints what the whole run shares: the order of rows, and the scratch memory of each thread. */
static void paint_shared(struct map *map)
{
    const struct eco_layout *layout = map->layout;
    change_owner(map);
    if (layout->request.cpu.by_length)
        paint_bytes(map, ECO_BLOCK_WORKSPACE, layout->order,
                    sizeof(int32_t) * ((size_t)layout->N + (size_t)layout->T + 1));
    for (int32_t k = 0; k < layout->threads; k++) {
        const size_t from = layout->thread_offset + (size_t)k * layout->thread_bytes;
        change_owner(map);
        check_aligned(map, from);
        paint_bytes(map, ECO_BLOCK_WORKSPACE, from, layout->thread_bytes);
    }
}

/* Paints copies of the matrices of a layer and direction. */
static void paint_copies(struct map *map, enum eco_inner which, bool back, int layer, int d)
{
    const struct eco_layout *layout = map->layout;
    const bool transposed = which == ECO_INNER_TRANSPOSED;
    const int end = transposed ? ECO_WEIGHT_RECURRENT + layout->problem->cell->lowered.n_operands
                               : ECO_WEIGHT_IDS;
    if (!(transposed ? layout->request.gpu.transposed[back] : layout->request.gpu.widened))
        return;
    for (int id = transposed ? ECO_WEIGHT_RECURRENT : 0; id < end; id++) {
        const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, id);
        const struct eco_array array = eco_layout_array(layout, which, back, layer, d, id);
        change_owner(map);
        if (id != ECO_WEIGHT_VECTORS)
            paint_bytes(map, array.block, array.offset,
                        (size_t)matrix->n * (size_t)matrix->height * (size_t)matrix->row *
                            eco_type_bytes(array.type));
    }
}

static void paint_row(struct map *map, enum eco_inner which, bool back, int layer, int d)
{
    const struct eco_problem *problem = map->layout->problem;
    const bool rooms = back || !is_replay(map->layout), wavefront = map->layout->request.wavefront;
    switch (which) {
    case ECO_INNER_ACC:
        paint_acc(map, layer, d);
        break;
    case ECO_INNER_PRODUCT:
    case ECO_INNER_EXCHANGE:
        if (rooms)
            paint_room(map, which, back, layer, d);
        break;
    case ECO_INNER_PREPARED:
    case ECO_INNER_PACK:
    case ECO_INNER_GRADIENT:
        paint_room(map, which, back, layer, d);
        break;
    case ECO_INNER_WIDENED:
    case ECO_INNER_TRANSPOSED:
        paint_copies(map, which, back, layer, d);
        break;
    case ECO_INNER_GATHER:
        paint(map, back ? ECO_INNER_DGATHER : which, back, layer, d, 0);
        if (rooms && eco_layout_shares_exchange(map->layout, back))
            check_shared(map, back, layer, d);
        break;
    case ECO_INNER_DINPUT: /* its rows have both directions */
        /* With one direction dx is in the place of dy, also of the layers in a wavefront. */
        if (d == 0 && (problem->D == 2 || layer == 1 || !wavefront))
            paint(map, which, back, layer, 0, 0);
        if (d == 1 && layer + 1 < problem->L && !wavefront)
            paint(map, which, back, layer + 1, 0, 0);
        break;
    default:
        for (int s = 0;
             s < (eco_inner_row[which].number == ECO_STATES ? problem->cell->recipe.n_states : 1);
             s++)
            paint(map, which, back, layer, d, s);
    }
}

/* Paints the arrays of a layer that a pass has. */
static void paint_rows(struct map *map, bool back, int layer)
{
    for (int k = 0; k < ECO_INNERS && !map->layout->request.plain; k++)
        for (int d = 0; d < map->layout->problem->D; d++)
            if ((eco_inner_row[k].passes & (back ? ECO_BACKWARD : ECO_FORWARD)) != 0)
                paint_row(map, k, back, layer, d);
}

static void check_reserve(const struct eco_layout *layout, const char *text)
{
    struct map map;
    map_open(&map, layout, text);
    map.block = ECO_BLOCK_RESERVE;
    for (int layer = 0; layer < layout->problem->L; layer++)
        paint_rows(&map, false, layer);
    map_close(&map);
}

/* Paints what a layer left to the one above it in inference. */
static void paint_below(struct map *map, int layer)
{
    const bool wide = eco_problem_wide_output(map->layout->problem);
    const enum eco_inner left = eco_layout_is_lean(map->layout) ? ECO_INNER_CHECKPOINT
                                : wide                          ? ECO_INNER_SEQUENCE
                                                                : ECO_INNER_STATE;
    for (int d = 0; d < map->layout->problem->D; d++)
        paint(map, left, false, layer, d, 0);
}

/* Layers that are in use at the same time: in a wavefront all, also in lockstep, else one and what
 * it reads.  In inference sequences in lockstep are used in turn. */
static void check_workspace(const struct eco_layout *layout, const char *text, bool back)
{
    const struct eco_layout_request *request = &layout->request;
    const bool together =
        request->wavefront || (request->lockstep && layout->training && !layout->back && !back);
    struct map map;
    for (int layer = 0; layer < layout->problem->L; layer++) {
        if (layer == 0 || !together) {
            map_open(&map, layout, text);
            map.block = ECO_BLOCK_WORKSPACE;
            paint_shared(&map);
        }
        if (!back || is_replay(layout))
            paint_rows(&map, false, layer);
        if (back)
            paint_rows(&map, true, layer);
        if (!back && !layout->training && layer > 0 && !together)
            paint_below(&map, layer - 1);
        if (layer == layout->problem->L - 1 || !together)
            map_close(&map);
    }
}

START_TEST(layout_overlaps_nothing)
{
    struct eco_problem problem;
    struct eco_layout layout;
    problem_of(&problem, problems[_i / REQUESTS]);
    for (int kind = 0; kind <= (problem.training ? 2 : 0); kind++) {
        eco_layout_build(&layout, &problem, &requests[_i % REQUESTS], problem.T, problem.N, kind);
        const bool replays = eco_layout_replays(&layout);
        check_weights(&layout, problem.text);
        if (!replays || kind != ECO_LAYOUT_BACK)
            check_workspace(&layout, problem.text, false);
        if (kind != ECO_LAYOUT_INFER)
            check_reserve(&layout, problem.text);
        if (kind != ECO_LAYOUT_INFER && (!replays || kind == ECO_LAYOUT_BACK))
            check_workspace(&layout, problem.text, true);
    }
}
END_TEST

START_TEST(smaller_runs_fit)
{
    struct eco_problem problem;
    struct eco_layout whole, part;
    problem_of(&problem, problems[_i / REQUESTS]);
    for (int kind = 0; kind <= (problem.training ? 2 : 0); kind++) {
        eco_layout_build(&whole, &problem, &requests[_i % REQUESTS], problem.T, problem.N, kind);
        for (int32_t T = 1; T <= problem.T; T++)
            for (int32_t N = 1; N <= problem.N; N++) {
                eco_layout_build(&part, &problem, &requests[_i % REQUESTS], T, N, kind);
                ck_assert_uint_le(part.workspace_bytes, whole.workspace_bytes);
                ck_assert_uint_le(part.reserve_bytes, whole.reserve_bytes);
                ck_assert_uint_eq(part.weights_bytes, whole.weights_bytes);
            }
    }
}
END_TEST

static void check_smaller(const struct eco_layout *whole, int32_t T, int32_t N)
{
    struct eco_layout part;
    eco_layout_resize(&part, whole, T, N);
    ck_assert_msg(part.workspace_bytes <= whole->workspace_bytes, "%s: T%d N%d take %zu of %zu",
                  whole->problem->text, T, N, part.workspace_bytes, whole->workspace_bytes);
}

/* A GPU's replay has the longest chunks that stay in the L2, chosen for the plan's steps and rows:
 * a run of fewer fits in the plan's memory. */
START_TEST(smaller_replays_fit)
{
    static const struct {
        const char *problem;
        int32_t chunk;
    } of[] = {{"lstm/bf16/train/T100/N683/I256/H256/save:states", 8},
              {"lstm/f32/train/T100/N683/I256/H256/save:every:4", 8},
              {"lstm/bf16/train/T100/N65/I1024/H1024/save:states", 32},
              {"lstm/f32/train/T24/N64/I1024/H1024/save:states", 0},
              {"lstm/f32/train/T48/N32/I1024/H1024/save:states", 0},
              {"lstm/f32/train/T100/N60/I1024/H1024/save:all/bf16-save", 64}};
    struct eco_problem problem;
    struct eco_layout whole;
    problem_of(&problem, of[_i].problem);
    const struct eco_layout_request lean = {
        .chunk = of[_i].chunk, .chunk_backward = of[_i].chunk, .gpu.lean = true};
    for (int kind = ECO_LAYOUT_TRAIN; kind <= ECO_LAYOUT_BACK; kind++) {
        eco_layout_build(&whole, &problem, &lean, problem.T, problem.N, kind);
        for (int32_t N = 1; N <= problem.N; N++)
            check_smaller(&whole, problem.T, N);
        for (int32_t T = 1; T < problem.T; T++) {
            check_smaller(&whole, T, problem.N);
            check_smaller(&whole, T, problem.N - 1);
        }
    }
}
END_TEST

/* Values that a GPU keeps for each unit and step, besides y between layers: an LSTM keeps 5 (cuDNN
 * 9), a GRU 4 (cuDNN 6), an RNN none (cuDNN 1). The sizes are multiples of a cache line. */
static const struct {
    const char *problem;
    size_t values; /* values kept in all layers */
} kept[] = {
    {"lstm/bf16/train/T100/N64/I512/H512", 5},        {"lstm/f32/train/T100/N64/I512/H512", 5},
    {"lstm/bf16/train/L4/T100/N64/I512/H512", 23},    {"lstm/bf16/train/bi/T50/N80/I500/H1000", 5},
    {"lstm/bf16/train/L5/bi/T300/N20/I800/H800", 29}, {"gru/bf16/train/L2/T300/N20/I800/H800", 9},
    {"rnn-tanh/bf16/train/L3/T300/N20/I800/H800", 2}, {"lstm/bf16/train/L2/T35/N32/I650/H650", 11},
};

START_TEST(lean_reserve_is_small)
{
    struct eco_problem problem;
    struct eco_layout layout;
    problem_of(&problem, kept[_i].problem);
    const struct eco_layout_request lean = {
        .gpu.lean = true, .gpu.aligned = true, .gpu.padded = true};
    eco_layout_build(&layout, &problem, &lean, problem.T, problem.N, true);
    const size_t value = (size_t)problem.T * (size_t)problem.N * (size_t)(problem.D * problem.H) *
                         eco_type_bytes(problem.type);
    ck_assert_uint_eq(layout.reserve_bytes, ECO_MARK_BYTES + kept[_i].values * value);
}
END_TEST

START_TEST(sizes_overflow_is_seen)
{
    struct eco_problem problem;
    struct eco_layout layout;
    problem_of(&problem, "lstm/f64/train/L255/bi/T16777216/N16777216/I16777216/H16777216");
    eco_layout_build(&layout, &problem, &requests[0], problem.T, problem.N, true);
    ck_assert_uint_eq(layout.workspace_bytes, SIZE_MAX);
    ck_assert_uint_eq(layout.reserve_bytes, SIZE_MAX);
}
END_TEST

TEST_MAIN("layout", {layout_overlaps_nothing, PROBLEMS *REQUESTS},
          {smaller_runs_fit, PROBLEMS *REQUESTS}, {smaller_replays_fit, 6},
          {lean_reserve_is_small, sizeof kept / sizeof *kept}, {sizes_overflow_is_seen, 1})
