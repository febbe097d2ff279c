/*
 * Layout and tape: no two arrays share an element, everything lies inside its block and is aligned,
 * a smaller run takes no more than the plan; the tape does every (layer, direction, step) once, in
 * an order that respects what depends on what.  Problem strings: no round trip changes them.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/model.h"
#include "common/util.h"

static const char *const problems[] = {
    "lstm/T1/N1/I1/H1",
    "lstm/f32/train/T7/N3/I5/H17",
    "lstm/f64/train/L3/bi/T5/N2/I3/H7/P4/dropout:0.5",
    "lstm/L4/T6/N3/I2/H5/P3",
    "gru/train/L2/rev/T9/N4/I6/H5/batch-major",
    "gru-reset-first/train/L2/bi/T4/N3/I2/H3/dropout:0.25",
    "gru-reset-first/f64/L3/T4/N3/I2/H3",
    "lstm-peephole/train/L3/bi/T3/N5/I4/H6",
    "rnn-tanh/train/L4/T8/N1/I9/H2",
    "mgu/train/bi/T3/N2/I1/H33/batch-major",
    "lstm/bf16/train/L3/bi/T5/N2/I3/H7/P4/dropout:0.5",
    "lstm/f16/f16-params/L3/T5/N2/I3/H7",
    "gru-reset-first/bf16/bf16-params/train/L2/bi/T4/N3/I5/H35",
    "lstm-peephole/f32/bf16-weights/train/L2/T3/N5/I4/H6",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static const struct eco_wishes wishes[] = {
    {.chunk = 0},
    {.chunk = 2, .chunk_backward = 3},
    {.chunk = 3, .chunk_backward = 2, .wavefront = true},
    {.chunk = 4, .spans = 2, .lanes = 4, .vectors = 3},
    {.chunk = 4, .spans = 2, .lanes = 4, .vectors = 2, .acc_units = 8},
    {.chunk = 4, .spans = 2, .lanes = 8, .vectors = 4, .group = 32, .pair = 2},
};
enum { WISHES = sizeof wishes / sizeof *wishes };

static void problem_of(struct eco_problem *problem, const char *text)
{
    ecornn_desc desc;
    ck_assert_msg(eco_problem_parse(&desc, text, NULL) == ECORNN_OK, "%s: %s", text,
                  eco_fail_detail());
    ck_assert_msg(eco_problem_build(problem, &desc) == ECORNN_OK, "%s: %s", text,
                  eco_fail_detail());
}

/* ---- layout ---------------------------------------------------------------------------------- */

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
        ck_assert_msg(map->owner[block][i] == 0, "%s: arrays %d and %d share byte %zu of block %d",
                      map->text, map->owner[block][i], map->id, i, block);
        map->owner[block][i] = map->id;
    }
}

/* `steps` steps, N rows, `width` elements each, for the owner at hand. */
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

/* One array. */
static void paint(struct map *map, struct eco_array array, int32_t steps, size_t width)
{
    map->id++;
    paint_more(map, array, steps, width);
}

static void check_weights(const struct eco_layout *layout, const char *text)
{
    const struct eco_problem *problem = layout->problem;
    struct map map;
    map_open(&map, layout, text);
    map.bytes[ECO_BLOCK_NONE] = layout->dweights_bytes;
    free(map.owner[ECO_BLOCK_NONE]);
    map.owner[ECO_BLOCK_NONE] = calloc(layout->dweights_bytes + 1, 1);
    for (int i = 0; i < problem->L * problem->D * ECO_PARTS; i++) {
        const int layer = i / ECO_PARTS / problem->D, d = i / ECO_PARTS % problem->D;
        const int part = i % ECO_PARTS;
        const struct eco_matrix matrix = eco_problem_matrix(problem, layer, part);
        const bool vectors = part == ECO_PART_VECTORS;
        const size_t element = eco_type_bytes(vectors ? layout->sum : layout->weight);
        const size_t dense = (size_t)matrix.n * (size_t)matrix.units * (size_t)matrix.columns;
        map.id++;
        paint_bytes(&map, ECO_BLOCK_NONE, eco_layout_gradient(layout, layer, d, part),
                    dense * eco_type_bytes(layout->sum));
        if (layout->wishes.lanes == 0 || vectors) {
            paint_bytes(&map, ECO_BLOCK_WEIGHTS, eco_layout_weights(layout, layer, d, part),
                        dense * element);
            continue;
        }
        for (int back = 0; back <= (int)problem->training; back++) {
            const struct eco_panels panels = eco_panels_of(&matrix, back, &layout->wishes);
            ck_assert_int_ge(panels.blocks * panels.lanes * panels.spans, panels.units);
            paint_bytes(&map, ECO_BLOCK_WEIGHTS,
                        back ? eco_layout_weights_back(layout, layer, d, part)
                             : eco_layout_weights(layout, layer, d, part),
                        eco_panels_offset(&panels, panels.blocks, 0) * element);
        }
    }
    map_close(&map);
}

/* Layers whose arrays are alive together: all that the reserve keeps, or with a wavefront; else a
 * layer and the one above it. */
static void paint_states(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    for (int s = 0; s < problem->cell->recipe.n_states; s++)
        for (int d = 0; d < problem->D; d++)
            paint(map, eco_layout_state(map->layout, layer, d, s), map->layout->T + 2,
                  (size_t)eco_problem_width(problem, s));
}

/* Every unit of every accumulator, one by one. */
static void paint_acc(struct map *map, int layer, int d)
{
    const struct eco_blocks blocks = eco_layout_acc_blocks(map->layout);
    const struct eco_array acc = eco_layout_scratch(map->layout, false, layer, d, ECO_SCRATCH_ACC);
    map->id++;
    for (int a = 0; a < map->layout->problem->cell->lowered.n_accs; a++)
        for (int32_t u = 0; u < map->layout->problem->H; u++) {
            struct eco_array unit = acc;
            unit.offset += ((size_t)a * blocks.column + eco_blocks_at(&blocks, (size_t)u)) *
                           eco_type_bytes(acc.type);
            paint_more(map, unit, map->layout->chunk, 1);
        }
}

static void paint_scratch(struct map *map, int layer, bool backward)
{
    static const enum eco_scratch chunked[] = {ECO_SCRATCH_ACC, ECO_SCRATCH_GATHER,
                                               ECO_SCRATCH_DGATHER, ECO_SCRATCH_DACC};
    const struct eco_problem *problem = map->layout->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const size_t H = (size_t)problem->H;
    const size_t width[ECO_SCRATCHES] = {
        [ECO_SCRATCH_GATHER] = layer == 0 && !backward ? (size_t)problem->I : 0,
        [ECO_SCRATCH_DGATHER] = layer == 0 && backward ? (size_t)problem->I : 0,
        [ECO_SCRATCH_OPERAND] = (size_t)lowered->n_slots * H,
        [ECO_SCRATCH_MEAN] = (size_t)lowered->n_means[backward],
        [ECO_SCRATCH_DACC] = backward ? (size_t)(lowered->n_accs + lowered->n_extra) * H : 0,
        [ECO_SCRATCH_DOPERAND] = backward ? (size_t)lowered->n_slots * H : 0,
        [ECO_SCRATCH_STEP] = problem->projected ? (size_t)problem->P : 0,
        [ECO_SCRATCH_DOUTPUT] = backward && problem->projected ? H : 0,
    };
    const int32_t chunk = backward ? map->layout->chunk_backward : map->layout->chunk;
    for (int d = 0; d < problem->D; d++)
        for (int i = 0; i < ECO_SCRATCHES; i++) {
            int32_t steps = backward ? chunk : 1;
            for (size_t k = 0; k < sizeof chunked / sizeof *chunked; k++)
                steps = chunked[k] == (enum eco_scratch)i ? chunk : steps;
            if (i == ECO_SCRATCH_ACC && !backward)
                paint_acc(map, layer, d);
            else
                paint(map, eco_layout_scratch(map->layout, backward, layer, d, i), steps, width[i]);
        }
}

static void paint_forward(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    if (!map->layout->training)
        paint_states(map, layer);
    if (problem->projected && !map->layout->training)
        for (int d = 0; d < problem->D; d++)
            paint(map, eco_layout_output(map->layout, layer, d), 1, (size_t)problem->H);
    paint_scratch(map, layer, false);
}

static void paint_backward(struct map *map, int layer)
{
    const struct eco_problem *problem = map->layout->problem;
    paint_scratch(map, layer, true);
    for (int d = 0; d < problem->D; d++)
        for (int s = 0; s < problem->cell->recipe.n_states; s++)
            paint(map, eco_layout_carry(map->layout, layer, d, s), 1,
                  (size_t)eco_problem_width(problem, s));
    if (layer > 0)
        paint(map, eco_layout_dinput(map->layout, layer), map->layout->T,
              (size_t)problem->D * (size_t)problem->P);
    if (layer + 1 < problem->L && !map->layout->wishes.wavefront)
        paint(map, eco_layout_dinput(map->layout, layer + 1), map->layout->T,
              (size_t)problem->D * (size_t)problem->P);
}

static void check_reserve(const struct eco_layout *layout, const char *text)
{
    const struct eco_problem *problem = layout->problem;
    struct map map;
    map_open(&map, layout, text);
    for (int layer = 0; layer < problem->L; layer++) {
        paint_states(&map, layer);
        for (int d = 0; d < problem->D; d++) {
            paint(&map, eco_layout_save(layout, layer, d), layout->T,
                  (size_t)problem->cell->lowered.n_saves * (size_t)problem->H);
            if (problem->projected)
                paint(&map, eco_layout_output(layout, layer, d), layout->T, (size_t)problem->H);
        }
    }
    map_close(&map);
}

static void check_workspace(const struct eco_layout *layout, const char *text, bool backward)
{
    struct map map;
    const int L = layout->problem->L;
    if (layout->wishes.wavefront) {
        map_open(&map, layout, text);
        for (int layer = 0; layer < L; layer++)
            (backward ? paint_backward : paint_forward)(&map, layer);
        map_close(&map);
        return;
    }
    for (int layer = 0; layer < L; layer++) {
        map_open(&map, layout, text);
        (backward ? paint_backward : paint_forward)(&map, layer);
        if (!backward && !layout->training && layer > 0) /* whose planes it reads */
            for (int d = 0; d < layout->problem->D; d++)
                paint(&map, eco_layout_state(layout, layer - 1, d, 0), layout->T + 2,
                      (size_t)layout->problem->P);
        map_close(&map);
    }
}

START_TEST(layout_overlaps_nothing)
{
    struct eco_problem problem;
    struct eco_layout layout;
    problem_of(&problem, problems[_i / WISHES]);
    for (int training = 0; training <= (int)problem.training; training++) {
        eco_layout_build(&layout, &problem, &wishes[_i % WISHES], problem.T, problem.N, training);
        check_weights(&layout, problem.text);
        check_workspace(&layout, problem.text, false);
        if (training) {
            check_reserve(&layout, problem.text);
            check_workspace(&layout, problem.text, true);
        }
    }
}
END_TEST

START_TEST(smaller_runs_fit)
{
    struct eco_problem problem;
    struct eco_layout whole, part;
    problem_of(&problem, problems[_i / WISHES]);
    for (int training = 0; training <= (int)problem.training; training++) {
        eco_layout_build(&whole, &problem, &wishes[_i % WISHES], problem.T, problem.N, training);
        for (int32_t T = 1; T <= problem.T; T++)
            for (int32_t N = 1; N <= problem.N; N++) {
                eco_layout_build(&part, &problem, &wishes[_i % WISHES], T, N, training);
                ck_assert_uint_le(part.workspace_bytes, whole.workspace_bytes);
                ck_assert_uint_le(part.reserve_bytes, whole.reserve_bytes);
                ck_assert_uint_eq(part.weights_bytes, whole.weights_bytes);
            }
    }
}
END_TEST

START_TEST(sizes_overflow_is_seen)
{
    struct eco_problem problem;
    struct eco_layout layout;
    problem_of(&problem, "lstm/f64/train/L255/bi/T16777216/N16777216/I16777216/H16777216");
    eco_layout_build(&layout, &problem, &wishes[0], problem.T, problem.N, true);
    ck_assert_uint_eq(layout.workspace_bytes, SIZE_MAX);
    ck_assert_uint_eq(layout.reserve_bytes, SIZE_MAX);
}
END_TEST

/* ---- tape ------------------------------------------------------------------------------------ */

/* Place of the op of this kind that does step t of (layer, d) in a run of T steps; -1: none. */
static int find(const struct eco_tape *tape, int kind, int layer, int d, int32_t t, int32_t T)
{
    int found = -1;
    for (int i = 0; i < tape->n; i++) {
        struct eco_op op;
        if (!eco_op_clip(&tape->op[i], T, &op) || op.kind != kind || op.layer != layer ||
            op.d != d || t < op.t0 || t >= op.t1)
            continue;
        ck_assert_msg(found < 0, "step %d of layer %d twice", t, layer);
        found = i;
    }
    return found;
}

/* a before b, and in a lower level. */
static void check_order(const struct eco_tape *tape, int a, int b)
{
    ck_assert_int_ge(a, 0);
    ck_assert_int_ge(b, 0);
    ck_assert_int_lt(a, b);
    ck_assert_int_lt(tape->op[a].level, tape->op[b].level);
}

static void check_forward(const struct eco_tape *tape, const struct eco_problem *problem, int32_t T)
{
    for (int layer = 0; layer < problem->L; layer++)
        for (int d = 0; d < problem->D; d++)
            for (int32_t t = 0; t < T; t++) {
                const int input = find(tape, ECO_INPUT, layer, d, t, T);
                const int step = find(tape, ECO_STEP, layer, d, t, T);
                check_order(tape, input, step);
                const int32_t before = eco_problem_reversed(problem, d) ? t + 1 : t - 1;
                if (before >= 0 && before < T)
                    ck_assert_int_le(find(tape, ECO_STEP, layer, d, before, T), step);
                for (int e = 0; layer > 0 && e < problem->D; e++)
                    check_order(tape, find(tape, ECO_STEP, layer - 1, e, t, T), input);
            }
}

/* Of two ops that write the same dx, one a level before the other, the second adds. */
static void check_adds(const struct eco_tape *tape, int a, int other)
{
    const struct eco_op *op = tape->op;
    ck_assert_int_eq(op[a].add, other >= 0 && other < a);
    if (other >= 0)
        check_order(tape, a < other ? a : other, a < other ? other : a);
}

static void check_backward(const struct eco_tape *tape, const struct eco_problem *problem,
                           int32_t T)
{
    for (int layer = 0; layer < problem->L; layer++)
        for (int d = 0; d < problem->D; d++)
            for (int32_t t = 0; t < T; t++) {
                const int step = find(tape, ECO_D_STEP, layer, d, t, T);
                const int input = find(tape, ECO_D_INPUT, layer, d, t, T);
                check_order(tape, step, input);
                check_order(tape, step, find(tape, ECO_D_WEIGHTS, layer, d, t, T));
                const int32_t after = eco_problem_reversed(problem, d) ? t - 1 : t + 1;
                if (after >= 0 && after < T)
                    ck_assert_int_le(find(tape, ECO_D_STEP, layer, d, after, T), step);
                for (int e = 0; layer > 0 && e < problem->D; e++)
                    check_order(tape, input, find(tape, ECO_D_STEP, layer - 1, e, t, T));
                check_adds(tape, input,
                           problem->D > 1 ? find(tape, ECO_D_INPUT, layer, 1 - d, t, T) : -1);
            }
}

/* Exactly the first chunk of weight gradients overwrites. */
static void check_first(const struct eco_tape *tape, const struct eco_problem *problem, int32_t T)
{
    for (int layer = 0; layer < problem->L; layer++)
        for (int d = 0; d < problem->D; d++) {
            bool seen = false;
            for (int i = 0; i < tape->n; i++) {
                struct eco_op op;
                if (!eco_op_clip(&tape->op[i], T, &op) || op.kind != ECO_D_WEIGHTS ||
                    op.layer != layer || op.d != d)
                    continue;
                ck_assert_int_eq(op.add, seen);
                seen = true;
            }
            ck_assert(seen);
        }
}

START_TEST(tape_covers_all)
{
    struct eco_problem problem;
    problem_of(&problem, problems[_i / WISHES]);
    for (int ragged = 0; ragged < 2; ragged++) {
        struct eco_tape forward, backward;
        ck_assert_int_eq(eco_tape_build(&forward, &problem, &wishes[_i % WISHES], false, ragged),
                         0);
        ck_assert_int_eq(eco_tape_build(&backward, &problem, &wishes[_i % WISHES], true, ragged),
                         0);
        for (int32_t T = 1; T <= problem.T; T++) {
            check_forward(&forward, &problem, T);
            check_backward(&backward, &problem, T);
            check_first(&backward, &problem, T);
        }
        eco_tape_free(&forward);
        eco_tape_free(&backward);
    }
}
END_TEST

/* ---- problem strings ------------------------------------------------------------------------- */

START_TEST(strings_come_back)
{
    struct eco_problem problem, again;
    problem_of(&problem, problems[_i]);
    problem_of(&again, problem.text);
    ck_assert_str_eq(problem.text, again.text);
}
END_TEST

static const char *const broken[] = {
    "",
    "lstm",
    "nonsense/T1/N1/I1/H1",
    "lstm/T0/N1/I1/H1",
    "lstm/T1/N1/I1",
    "lstm/T1/N1/I1/H1/",
    "lstm/T1/N1/I1/H1/dropout:1",
    "lstm/T1/N1/I1/H1/dropout:",
    "lstm/T1/N1/I1/H1/f8",
    "lstm/T99999999999/N1/I1/H1",
    "lstm/T1/N1/I1/H-1",
    "lstm/T1x/N1/I1/H1",
    "lstm//T1/N1/I1/H1",
    "gru/T1/N1/I1/H4/P2",
    "lstm/T1/N1/I1/H1/L999",
    "lstm/T1/N1/I1/H1/dropout:nan",
};

START_TEST(broken_strings_are_refused)
{
    ecornn_desc desc = {.hidden = 77};
    ck_assert_int_ne(eco_problem_parse(&desc, broken[_i], NULL), ECORNN_OK);
    ck_assert_int_eq(desc.hidden, 77);
    ck_assert_str_ne(eco_fail_detail(), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layout");
    TCase *tcase = tcase_create("layout");
    tcase_add_loop_test(tcase, layout_overlaps_nothing, 0, PROBLEMS * WISHES);
    tcase_add_loop_test(tcase, smaller_runs_fit, 0, PROBLEMS * WISHES);
    tcase_add_test(tcase, sizes_overflow_is_seen);
    tcase_add_loop_test(tcase, tape_covers_all, 0, PROBLEMS * WISHES);
    tcase_add_loop_test(tcase, strings_come_back, 0, PROBLEMS);
    tcase_add_loop_test(tcase, broken_strings_are_refused, 0, sizeof broken / sizeof *broken);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
