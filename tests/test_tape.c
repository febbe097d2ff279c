/*
 * Tape: every (layer, direction, step) once, in an order that respects what depends on what, in a
 * run of the plan's steps and in every shorter one.
 */
#include <check.h>

#include "common/tape.h"
#include "tests/problems.h"
#include "tests/suite.h"

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

static int gathers(const char *text, bool rows_apart, bool backward)
{
    const struct eco_wishes wishes_of = {.chunk = 2, .rows_apart = rows_apart};
    struct eco_problem problem;
    struct eco_tape tape;
    int count = 0;
    problem_of(&problem, text);
    ck_assert_int_eq(eco_tape_build(&tape, &problem, &wishes_of, backward, true), ECORNN_OK);
    for (int i = 0; i < tape.n; i++)
        count += tape.op[i].kind == ECO_GATHER;
    eco_tape_free(&tape);
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

int main(void)
{
    Suite *suite = suite_create("tape");
    TCase *tcase = tcase_create("tape");
    tcase_add_loop_test(tcase, tape_covers_all, 0, PROBLEMS * WISHES);
    tcase_add_test(tcase, padding_is_taken_out_where_it_adds_to_others);
    suite_add_tcase(suite, tcase);
    return suite_run(suite, true);
}
