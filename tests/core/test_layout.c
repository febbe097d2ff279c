/*
 * Tests that no two arrays of a layout share an element, that each array is aligned and inside its
 * block, and that a smaller run takes no more memory than the plan.
 */
#include <check.h>
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

static void paint_bytes(struct map *map, enum eco_block block, size_t from, size_t bytes)
{
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
    if (width == 0)
        return;
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

/* Paints an array for a new owner. */
static void paint(struct map *map, struct eco_array array, int32_t steps, size_t width)
{
    map->id++;
    if (width > 0)
        check_aligned(map, array.offset);
    paint_more(map, array, steps, width);
}

/* Paints the planes of a state of one direction, which begin inside a row of both directions. */
static void paint_planes(struct map *map, int layer, int d, int s)
{
    const struct eco_array planes = eco_layout_state(map->layout, layer, d, s);
    map->id++;
    if (d == 0)
        check_aligned(map, planes.offset);
    const int32_t steps = planes.chunked ? map->layout->chunk_backward : map->layout->T;
    paint_more(map, planes, steps + 2, (size_t)eco_problem_width(map->layout->problem, s));
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
        map.id++;
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

/* Paints what the layer above reads, if these are not the planes. */
static void paint_sequence(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    if (eco_problem_wide_output(problem) && layer + 1 < problem->L &&
        !eco_layout_is_lean(map->layout) && !eco_layout_replays(map->layout))
        paint(map, eco_layout_sequence(map->layout, layer), map->layout->T + 2,
              (size_t)problem->D * (size_t)problem->P);
}

/* Paints the arrays of layers that are in use at the same time: all layers if the reserve keeps
 * them or there is a wavefront, else a layer and the one above it. */
static void paint_states(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        for (int d = 0; d < problem->D; d++)
            paint_planes(map, layer, d, s);
    paint_sequence(map, layer);
}

/* Paints the states of the present chunk, which a lean run does not keep. */
static void paint_recent(struct map *map, int layer)
{
    const struct eco_layout *layout = map->layout;
    const int32_t steps = layout->back ? layout->chunk_backward + 1 : layout->chunk;
    if (!eco_layout_is_lean(layout) || eco_layout_copies_direct(layout))
        return;
    for (int s = 1; s < layout->problem->cell->recipe.n_states; s++)
        for (int d = 0; d < layout->problem->D; d++) {
            map->id++;
            paint_more(map, eco_layout_recent(layout, layer, d, s), steps,
                       (size_t)eco_problem_width(layout->problem, s));
            map->id++;
            if (layout->back && !eco_layout_knows_states(layout))
                paint_more(map, eco_layout_scan(layout, layer, d, s),
                           steps - 1 + (steps - 2) / layout->problem->saving.every + 1,
                           (size_t)eco_problem_width(layout->problem, s));
        }
}

/* Does this layout have arrays of a replay? */
static bool is_replay(const struct eco_layout *layout)
{
    return layout->back && eco_layout_replays(layout);
}

/* Paints every unit of every accumulator separately. */
static void paint_acc(struct map *map, int layer, int d)
{
    const struct eco_blocks blocks = eco_layout_acc_blocks(map->layout);
    const struct eco_array acc = eco_layout_scratch(map->layout, false, layer, d, ECO_SCRATCH_ACC);
    const struct eco_series *dacc = &map->layout->scratch[1][ECO_SCRATCH_DACC];
    if (is_replay(map->layout) && map->layout->request.gpu.lean &&
        acc.offset >= dacc->first.offset) { /* the replay's share its memory */
        ck_assert_uint_eq(acc.offset,
                          eco_layout_scratch(map->layout, true, layer, d, ECO_SCRATCH_DACC).offset);
        ck_assert_uint_ge(dacc->bytes,
                          (size_t)map->layout->chunk * acc.step * eco_type_bytes(acc.type));
        return;
    }
    map->id++;
    for (int a = 0; a < map->layout->problem->cell->lowered.n_accs; a++)
        for (int32_t u = 0; u < map->layout->problem->H; u++) {
            struct eco_array unit = acc;
            unit.offset += ((size_t)a * blocks.column + eco_blocks_at(&blocks, (size_t)u)) *
                           eco_type_bytes(acc.type);
            paint_more(map, unit, map->layout->chunk, 1);
        }
}

/* Paints scratch memory that has no rows, by its number of bytes. */
static void paint_room(struct map *map, bool backward, int layer, int d, enum eco_scratch scratch)
{
    const struct eco_array array = eco_layout_scratch(map->layout, backward, layer, d, scratch);
    size_t bytes = map->layout->scratch[backward][scratch].bytes;
    map->id++;
    if (scratch == ECO_SCRATCH_PRODUCT) {
        ck_assert_uint_ge(bytes, map->layout->request.gpu.product_bytes);
        if (eco_layout_shares_exchange(map->layout, backward))
            bytes = map->layout->request.gpu.product_bytes; /* gathered rows follow */
    }
    check_aligned(map, array.offset);
    paint_bytes(map, array.block, array.offset, bytes);
}

/* The exchange begins where room of products does, and ends behind gathered rows. */
static void check_shared(const struct map *map, bool backward, int layer, int d)
{
    const struct eco_layout *layout = map->layout;
    const size_t steps = (size_t)(backward ? layout->chunk_backward : layout->chunk);
    const struct eco_series *exchange = &layout->scratch[backward][ECO_SCRATCH_EXCHANGE];
    const size_t offset =
        eco_layout_scratch(layout, backward, layer, d, ECO_SCRATCH_EXCHANGE).offset;
    const struct eco_array gather =
        eco_layout_scratch(layout, backward, layer, d, ECO_SCRATCH_GATHER);
    const size_t rows = steps * (size_t)layout->N * gather.row;
    ck_assert_uint_eq(eco_layout_scratch(layout, backward, layer, d, ECO_SCRATCH_PRODUCT).offset,
                      offset);
    ck_assert_uint_ge(exchange->bytes, layout->request.exchange[backward].most * steps);
    ck_assert_uint_le(gather.offset + rows * eco_type_bytes(gather.type), offset + exchange->bytes);
}

/* Paints what the whole run shares: the order of rows, and the scratch memory of each thread. */
static void paint_shared(struct map *map)
{
    const struct eco_layout *layout = map->layout;
    map->id++;
    if (layout->request.cpu.by_length)
        paint_bytes(map, ECO_BLOCK_WORKSPACE, layout->order,
                    sizeof(int32_t) * ((size_t)layout->N + (size_t)layout->T + 1));
    for (int32_t k = 0; k < layout->threads; k++) {
        const size_t from = layout->thread_offset + (size_t)k * layout->thread_bytes;
        map->id++;
        check_aligned(map, from);
        paint_bytes(map, ECO_BLOCK_WORKSPACE, from, layout->thread_bytes);
    }
}

/* Paints the transposed R of every operand. */
static void paint_transposed(struct map *map, bool backward, int layer, int d)
{
    const struct eco_layout *layout = map->layout;
    for (int o = 0; o < layout->problem->cell->lowered.n_operands; o++) {
        const int part = ECO_WEIGHT_RECURRENT + o;
        const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, part);
        const struct eco_array array = eco_layout_transposed(layout, backward, layer, d, part);
        map->id++;
        if (layout->request.gpu.transposed[backward])
            paint_bytes(map, array.block, array.offset,
                        array.row * (size_t)matrix->row * eco_type_bytes(array.type));
    }
}

static void paint_widened(struct map *map, bool backward, int layer, int d)
{
    for (int part = 0; part < ECO_WEIGHT_IDS && map->layout->request.gpu.widened; part++) {
        const struct eco_matrix *matrix = eco_layout_matrix(map->layout, layer, part);
        const struct eco_array array = eco_layout_widened(map->layout, backward, layer, d, part);
        map->id++;
        if (part != ECO_WEIGHT_VECTORS)
            paint_bytes(map, array.block, array.offset,
                        array.row * (size_t)(matrix->n * matrix->height) *
                            eco_type_bytes(array.type));
    }
}

/* Is there room for a copy of the output state? */
static bool may_copy(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    return eco_layout_is_lean(layout) &&
           ((problem->reverse || problem->D == 2) || problem->batch_major ||
            eco_request_needs_copy(&layout->request, (size_t)problem->P));
}

/* Paints the arrays of resets: the states that starts replace, states with starts in their place,
 * and the sums of the gradients of starts. */
static void paint_resets(struct map *map, int layer, bool backward)
{
    const struct eco_layout *layout = map->layout;
    const struct eco_problem *problem = layout->problem;
    for (int d = 0; d < problem->D; d++)
        for (int s = 0; problem->resets && s < problem->cell->recipe.n_states; s++) {
            const size_t width = (size_t)eco_problem_width(problem, s);
            if (!backward && !layout->request.gpu.lean)
                paint(map, eco_layout_replaced(layout, layer, d, s), 1, width);
            if (!backward)
                continue;
            const struct eco_array with_resets = eco_layout_with_resets(layout, layer, d, s);
            paint(map, eco_layout_dstart(layout, layer, d, s), 1, width);
            if (s == 0 && !eco_problem_wide_output(problem))
                ck_assert_uint_ge(with_resets.row, width);
            if (with_resets.row > 0)
                paint(map, with_resets, layout->weights_steps, width);
        }
}

static void paint_scratch(struct map *map, int layer, bool backward)
{
    static const enum eco_scratch chunked[] = {ECO_SCRATCH_ACC, ECO_SCRATCH_GATHER,
                                               ECO_SCRATCH_DGATHER};
    const struct eco_problem *problem = map->layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t H = (size_t)problem->H;
    const bool gathers = eco_layout_gathers(problem, &map->layout->request, backward) &&
                         (backward || !is_replay(map->layout));
    const bool sums = map->layout->request.cpu.sums_vectors;
    const size_t width[ECO_SCRATCHES] = {
        [ECO_SCRATCH_GATHER] = layer == 0 && !backward && gathers ? (size_t)problem->I : 0,
        [ECO_SCRATCH_DGATHER] = layer == 0 && backward ? (size_t)problem->I : 0,
        [ECO_SCRATCH_OPERAND] = (size_t)lowered->n_slots * H,
        [ECO_SCRATCH_MEAN] = (size_t)lowered->n_means[backward],
        [ECO_SCRATCH_DACC] =
            backward ? (size_t)(lowered->n_accs + (sums ? 0 : lowered->n_extra)) * H : 0,
        [ECO_SCRATCH_DVECTOR] = backward && sums ? (size_t)lowered->n_extra * H : 0,
        [ECO_SCRATCH_DOPERAND] = backward ? (size_t)lowered->n_slots * H : 0,
        [ECO_SCRATCH_STEP] = problem->projected ? (size_t)problem->P : 0,
        [ECO_SCRATCH_DOUTPUT] = backward && problem->projected ? H : 0,
        [ECO_SCRATCH_UNREAD] =
            backward && is_replay(map->layout) && !eco_layout_is_lean(map->layout) ? H : 0,
        [ECO_SCRATCH_HISTORY] = backward && may_copy(map->layout) ? (size_t)problem->P : 0,
    };
    const int32_t chunk = backward ? map->layout->chunk_backward : map->layout->chunk;
    const bool rooms = backward || !is_replay(map->layout),
               shared = rooms && eco_layout_shares_exchange(map->layout, backward);
    for (int d = 0; d < problem->D && shared; d++)
        check_shared(map, backward, layer, d);
    for (int d = 0; d < problem->D; d++)
        for (int i = 0; i < ECO_SCRATCHES; i++) {
            if (i == ECO_SCRATCH_TRANSPOSED)
                paint_transposed(map, backward, layer, d);
            if (i == ECO_SCRATCH_WIDENED)
                paint_widened(map, backward, layer, d);
            const bool bytes = (i == ECO_SCRATCH_PRODUCT && rooms) || i == ECO_SCRATCH_PREPARED ||
                               (i == ECO_SCRATCH_PACK && backward);
            if (bytes)
                paint_room(map, backward, layer, d, i);
            int32_t steps = backward ? map->layout->weights_steps : 1;
            for (size_t k = 0; k < sizeof chunked / sizeof *chunked; k++)
                steps = chunked[k] == (enum eco_scratch)i ? chunk : steps;
            steps += i == ECO_SCRATCH_HISTORY;
            if (i == ECO_SCRATCH_DVECTOR)
                steps = (steps + ECO_SUM_STEPS - 1) / ECO_SUM_STEPS;
            if (i == ECO_SCRATCH_ACC && !backward)
                paint_acc(map, layer, d);
            else
                paint(map, eco_layout_scratch(map->layout, backward, layer, d, i), steps, width[i]);
        }
    paint_resets(map, layer, backward);
}

static void paint_forward(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    const bool replays = eco_layout_replays(map->layout);
    if (!map->layout->training || eco_layout_is_lean(map->layout) || replays)
        paint_states(map, layer);
    if (problem->projected && (!map->layout->training || (replays && !map->layout->back)))
        for (int d = 0; d < problem->D; d++)
            paint(map, eco_layout_output(map->layout, layer, d), 1, (size_t)problem->H);
    paint_recent(map, layer);
    paint_scratch(map, layer, false);
}

/* Paints saved values and u of this number of steps. */
static void paint_values(struct map *map, int layer, int32_t steps)
{
    const struct eco_problem *problem = map->layout->problem;
    const size_t H = (size_t)problem->H;
    for (int d = 0; d < problem->D; d++) {
        paint(map, eco_layout_save(map->layout, layer, d), steps,
              (size_t)problem->cell->lowered.n_saves * H);
        if (problem->projected)
            paint(map, eco_layout_output(map->layout, layer, d), steps, H);
    }
}

static void paint_backward(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    if (is_replay(map->layout)) {
        paint_forward(map, layer);
        paint_values(map, layer, map->layout->chunk_backward);
    }
    paint_scratch(map, layer, true);
    for (int d = 0; d < problem->D; d++)
        for (int s = 0; s < problem->cell->recipe.n_states; s++)
            paint(map, eco_layout_carry(map->layout, layer, d, s), 1,
                  (size_t)eco_problem_width(problem, s));
    /* With one direction dx is in the place of dy, also of the layers in a wavefront. */
    const bool overlaps = map->layout->request.wavefront, apart = problem->D == 2;
    if (layer == 1 || (layer > 1 && (apart || !overlaps)))
        paint(map, eco_layout_dinput(map->layout, layer), map->layout->T,
              (size_t)problem->D * (size_t)problem->P);
    if (layer + 1 < problem->L && apart && !overlaps)
        paint(map, eco_layout_dinput(map->layout, layer + 1), map->layout->T,
              (size_t)problem->D * (size_t)problem->P);
}

/* Paints the states that a lean backward run reads. The output state of the last layer is not among
 * them, because it is y. */
static void paint_checkpoint(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    for (int s = layer + 1 < problem->L ? 0 : 1; s < problem->cell->recipe.n_states; s++)
        for (int d = 0; d < problem->D; d++) {
            const struct eco_array kept = eco_layout_checkpoint(map->layout, layer, d, s);
            const bool some = s > 0 && eco_layout_replays(map->layout) && problem->saving.every > 1;
            const int32_t steps =
                some ? (map->layout->T - 1) / problem->saving.every : map->layout->T;
            map->id++;
            paint_more(map, kept, steps, (size_t)eco_problem_width(problem, s));
        }
}

/* Paints what a replay reads: the output of each layer except the last, and the other states of
 * some steps. */
static void paint_replayed(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    const int32_t T = map->layout->T;
    if (layer + 1 < problem->L)
        paint(map, eco_layout_sequence(map->layout, layer), T + 2,
              (size_t)problem->D * (size_t)problem->P);
    for (int d = 0; d < problem->D; d++)
        for (int s = 1; s < problem->cell->recipe.n_states; s++) {
            struct eco_array step = eco_layout_checkpoint(map->layout, layer, d, s);
            const size_t first = step.offset;
            map->id++;
            for (int32_t t = 0; t < T; t++)
                if (eco_layout_is_checkpoint(map->layout, d, t)) {
                    step.offset = first + eco_layout_checkpoint_index(map->layout, d, t) *
                                              step.step * eco_type_bytes(step.type);
                    paint_more(map, step, 1, (size_t)problem->H);
                }
        }
}

static void check_reserve(const struct eco_layout *layout, const char *text)
{
    const struct eco_problem *problem = layout->problem;
    const bool replays = eco_layout_replays(layout);
    struct map map;
    map_open(&map, layout, text);
    for (int layer = 0; layer < problem->L; layer++) {
        (eco_layout_is_lean(layout) ? paint_checkpoint
         : replays                  ? paint_replayed
                                    : paint_states)(&map, layer);
        if (!replays)
            paint_values(&map, layer, layout->T);
    }
    map_close(&map);
}

/* Paints what a layer left to the one above it in inference. */
static void paint_below(struct map *map, int layer)
{
    const struct eco_layout *layout = map->layout;
    const struct eco_problem *problem = layout->problem;
    paint_sequence(map, layer);
    for (int d = 0; d < problem->D; d++)
        if (eco_layout_is_lean(layout))
            paint_more(map, eco_layout_checkpoint(layout, layer, d, 0), layout->T,
                       (size_t)problem->P);
        else if (!eco_problem_wide_output(problem))
            paint_planes(map, layer, d, 0);
}

static void check_workspace(const struct eco_layout *layout, const char *text, bool backward)
{
    struct map map;
    const int L = layout->problem->L;
    if (layout->request.wavefront) {
        map_open(&map, layout, text);
        paint_shared(&map);
        for (int layer = 0; layer < L; layer++)
            (backward ? paint_backward : paint_forward)(&map, layer);
        map_close(&map);
        return;
    }
    for (int layer = 0; layer < L; layer++) {
        map_open(&map, layout, text);
        paint_shared(&map);
        (backward ? paint_backward : paint_forward)(&map, layer);
        if (!backward && !layout->training && layer > 0)
            paint_below(&map, layer - 1);
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
