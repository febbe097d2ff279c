/*
 * Tape: every (layer, direction, step) occurs once, after all that it depends on, in a run of the
 * plan's steps and in every shorter run.
 */
#include <check.h>
#include <stdlib.h>

#include "common/tape.h"
#include "tests/kit/problems.h"
#include "tests/kit/suite.h"

/* A walk as a list. */
struct listed {
    struct eco_op op;
    int64_t level;
};
struct list {
    struct listed *at;
    int n;
};

/* Lists all ops. Fails if a level is empty, an op is outside the run, or the tape's own count
 * differs. */
static struct list walk_all(const struct eco_tape *tape)
{
    const int64_t ops = eco_tape_ops(tape);
    struct list list = {calloc((size_t)ops, sizeof *list.at), 0};
    struct eco_walk walk;
    eco_walk_begin(&walk, tape);
    for (const struct eco_op *op; (op = eco_walk_next(&walk)) != NULL; list.n++) {
        ck_assert_int_lt(list.n, ops);
        list.at[list.n] = (struct listed){*op, walk.level};
        const int64_t before = list.n > 0 ? list.at[list.n - 1].level : 0;
        ck_assert(walk.level == before || walk.level == before + 1);
        ck_assert(op->t0 >= 0 && op->t0 <= op->t1 && op->t1 <= tape->T);
    }
    ck_assert_int_eq(list.n, ops);
    return list;
}

/* Index of the op of this kind that runs step t of (layer, d); -1: none. */
static int find(const struct list *list, int kind, int layer, int d, int32_t t)
{
    int found = -1;
    for (int i = 0; i < list->n; i++) {
        const struct eco_op *op = &list->at[i].op;
        if (op->kind != kind || op->layer != layer || op->d != d || t < op->t0 || t >= op->t1)
            continue;
        ck_assert_msg(found < 0, "step %d of layer %d twice", t, layer);
        found = i;
    }
    return found;
}

/* Checks that a is before b, and in a lower level. */
static void check_order(const struct list *list, int a, int b)
{
    ck_assert_int_ge(a, 0);
    ck_assert_int_ge(b, 0);
    ck_assert_int_lt(a, b);
    ck_assert_int_lt(list->at[a].level, list->at[b].level);
}

/* In a wavefront steps of layers meet in one level, from which a launch takes them. */
static void check_forward(const struct list *list, const struct eco_tape *tape, int32_t T)
{
    const struct eco_problem *const problem = tape->problem;
    const bool meet = !tape->reversed[0] && tape->wavefront && !problem->training &&
                      tape->gathers[0] >= tape->gathers[1];
    for (int layer = 0; layer < problem->L; layer++)
        for (int d = 0; d < problem->D; d++)
            for (int32_t t = 0; t < T; t++) {
                const int input = find(list, ECO_INPUT, layer, d, t);
                const int step = find(list, ECO_STEP, layer, d, t);
                check_order(list, input, step);
                if (meet && layer > 0 && t + tape->chunk < T)
                    ck_assert_int_eq(
                        list->at[step].level,
                        list->at[find(list, ECO_STEP, layer - 1, 0, t + tape->chunk)].level);
                if (problem->saving.policy != ECO_SAVE_ALL)
                    check_order(list, step, find(list, ECO_KEEP, layer, d, t));
                const int32_t before = eco_problem_reversed(problem, d) ? t + 1 : t - 1;
                if (before >= 0 && before < T)
                    ck_assert_int_le(find(list, ECO_STEP, layer, d, before), step);
                for (int e = 0; layer > 0 && e < problem->D; e++)
                    check_order(list, find(list, ECO_STEP, layer - 1, e, t), input);
            }
}

/* If two ops write the same dx, one of them is a level earlier, and the later one adds. */
static void check_adds(const struct list *list, int a, int other)
{
    ck_assert_int_eq(list->at[a].op.add, other >= 0 && other < a);
    if (other >= 0)
        check_order(list, a < other ? a : other, a < other ? other : a);
}

static void check_backward(const struct list *list, const struct eco_problem *problem, int32_t T)
{
    for (int layer = 0; layer < problem->L; layer++)
        for (int d = 0; d < problem->D; d++)
            for (int32_t t = 0; t < T; t++) {
                const int step = find(list, ECO_D_STEP, layer, d, t);
                const int input = find(list, ECO_D_INPUT, layer, d, t);
                check_order(list, step, input);
                if (problem->saving.policy != ECO_SAVE_ALL)
                    check_order(list, find(list, ECO_REPLAY, layer, d, t), step);
                check_order(list, step, find(list, ECO_D_WEIGHTS, layer, d, t));
                const int32_t after = eco_problem_reversed(problem, d) ? t - 1 : t + 1;
                if (after >= 0 && after < T)
                    ck_assert_int_le(find(list, ECO_D_STEP, layer, d, after), step);
                for (int e = 0; layer > 0 && e < problem->D; e++)
                    check_order(list, input, find(list, ECO_D_STEP, layer - 1, e, t));
                check_adds(list, input,
                           problem->D > 1 ? find(list, ECO_D_INPUT, layer, 1 - d, t) : -1);
            }
}

/* Only the first chunk of weight gradients overwrites; all others add. */
static void check_first(const struct list *list, const struct eco_problem *problem)
{
    for (int layer = 0; layer < problem->L; layer++)
        for (int d = 0; d < problem->D; d++) {
            bool seen = false;
            for (int i = 0; i < list->n; i++) {
                const struct eco_op *op = &list->at[i].op;
                if (op->kind != ECO_D_WEIGHTS || op->layer != layer || op->d != d)
                    continue;
                ck_assert_int_eq(op->add, seen);
                seen = true;
            }
            ck_assert(seen);
        }
}

/* A run of fewer steps has the ops of a plan of that number of steps. */
static void check_same(const struct list *list, const struct eco_problem *problem,
                       const struct eco_layout_request *request, const struct eco_tape *resized,
                       bool ragged)
{
    struct eco_problem shorter = *problem;
    struct eco_tape tape;
    shorter.T = resized->T;
    eco_tape_build(&tape, &shorter, request, resized->backward, ragged);
    const struct list own = walk_all(&tape);
    ck_assert_int_eq(own.n, list->n);
    for (int i = 0; i < own.n; i++) {
        const struct eco_op *a = &own.at[i].op, *b = &list->at[i].op;
        ck_assert(own.at[i].level == list->at[i].level);
        ck_assert(a->kind == b->kind && a->layer == b->layer && a->d == b->d);
        ck_assert(a->reversed == b->reversed && a->add == b->add && a->gathered == b->gathered);
        ck_assert(a->t0 == b->t0 && a->t1 == b->t1);
    }
    free(own.at);
}

static void check_run(const struct eco_problem *problem, const struct eco_layout_request *request,
                      bool backward, bool ragged, int32_t T)
{
    struct eco_tape tape;
    eco_tape_build(&tape, problem, request, backward, ragged);
    eco_tape_resize(&tape, T);
    const struct list list = walk_all(&tape);
    if (backward) {
        check_backward(&list, problem, T);
        check_first(&list, problem);
    } else
        check_forward(&list, &tape, T);
    check_same(&list, problem, request, &tape, ragged);
    free(list.at);
}

START_TEST(tape_covers_all)
{
    struct eco_problem problem;
    problem_of(&problem, problems[_i / REQUESTS]);
    for (int k = 0; k < 4; k++)
        for (int32_t T = 1; T <= problem.T; T++)
            check_run(&problem, &requests[_i % REQUESTS], k / 2, k % 2, T);
}
END_TEST

static struct list walk_of(const char *text, const struct eco_layout_request *request,
                           bool backward, int32_t T)
{
    struct eco_problem problem;
    struct eco_tape tape;
    problem_of(&problem, text);
    eco_tape_build(&tape, &problem, request, backward, true);
    eco_tape_resize(&tape, T);
    return walk_all(&tape);
}

/* How often the threads of a run wait for each other: once a level. */
static int64_t levels_of(const char *text, const struct eco_layout_request *request, bool backward,
                         int32_t T)
{
    const struct list list = walk_of(text, request, backward, T);
    const int64_t levels = list.at[list.n - 1].level + 1;
    free(list.at);
    return levels;
}

START_TEST(a_short_run_of_a_long_plan_has_few_levels)
{
    static const struct eco_layout_request few = {
        .chunk = 2, .chunk_backward = 2, .cpu.by_length = true};
    static const struct eco_layout_request overlap = {
        .chunk = 2, .chunk_backward = 2, .wavefront = true};
    static const char one[] = "lstm/T16777216/N1/I4/H4",
                      layers[] = "lstm/train/L3/T16777216/N2/I4/H4",
                      both[] = "lstm/train/L3/bi/T16777216/N2/I4/H4";
    ck_assert_int_eq(levels_of(one, &few, false, 1), 4);
    ck_assert_int_eq(levels_of(one, &few, false, 3), 6);
    ck_assert_int_eq(levels_of(layers, &few, false, 1), 13); /* one of the levels has GATHER */
    ck_assert_int_eq(levels_of(both, &few, false, 1), 13);
    ck_assert_int_eq(levels_of(layers, &few, true, 1), 17);
    ck_assert_int_eq(levels_of(both, &few, true, 1), 20); /* one direction is a level later */
    ck_assert_int_eq(levels_of(layers, &overlap, false, 1), 11);
    ck_assert_int_eq(levels_of(both, &few, true, 0), 6);
    ck_assert_int_eq(levels_of(layers, &overlap, false, 0), 2);
}
END_TEST

/* Walks the first ops, and counts all ops, of a tape too long for any memory: 2^33 chunks of a
 * layer. */
START_TEST(a_tape_takes_no_memory)
{
    struct eco_problem problem;
    struct eco_tape tape;
    struct eco_walk walk;
    const struct eco_layout_request request = {.chunk = 2, .chunk_backward = 2};
    problem_of(&problem, "lstm/train/L255/bi/T16777216/N2/I4/H4");
    eco_tape_build(&tape, &problem, &request, true, true);
    const int64_t chunks = 1 << 23;
    ck_assert_int_eq(eco_tape_ops(&tape), 510 * (2 + 3 * chunks) + 2 * chunks);
    eco_walk_begin(&walk, &tape);
    const struct eco_op *op = eco_walk_next(&walk);
    ck_assert(op->kind == ECO_D_BEGIN && op->layer == 254 && op->d == 0);
    op = eco_walk_next(&walk);
    ck_assert(op->kind == ECO_D_BEGIN && op->d == 1 && walk.level == 0);
    op = eco_walk_next(&walk);
    ck_assert(op->kind == ECO_D_STEP && op->t0 == 16777214 && op->t1 == 16777216);
}
END_TEST

static int gathers(const char *text, bool independent, bool backward)
{
    const struct eco_layout_request request = {.chunk = 2, .gpu.rows_independent = independent};
    const struct list list = walk_of(text, &request, backward, 4);
    int count = 0;
    for (int i = 0; i < list.n; i++)
        count += list.at[i].op.kind == ECO_GATHER;
    free(list.at);
    return count;
}

START_TEST(padding_is_taken_out_where_it_adds_to_others)
{
    static const char text[] = "lstm/train/T4/N3/I8/H8", other[] = "lstm/T4/N3/I8/H8/batch-major";
    ck_assert_int_eq(gathers(text, false, false), 2);
    ck_assert_int_eq(gathers(text, true, false), 0);
    ck_assert_int_eq(gathers(text, true, true), 1); /* gradients of weights */
    ck_assert_int_eq(gathers(other, true, false), 2);
}
END_TEST

TEST_MAIN("tape", {tape_covers_all, PROBLEMS *REQUESTS},
          {a_short_run_of_a_long_plan_has_few_levels, 1}, {a_tape_takes_no_memory, 1},
          {padding_is_taken_out_where_it_adds_to_others, 1})
