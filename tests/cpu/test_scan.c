/*
 * Scans in blocks of time. Tests when a plan uses blocks, and blocks whose factors overflow when
 * multiplied. test_walk compares scans with the reference, and test_threads checks that no bit
 * depends on threads.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "common/plan.h"
#include "common/util.h"
#include "cpu/isa/isa.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- too large together ---------------------------------------------------------------------- */

enum { STEPS = 160, UNITS = 19, SIZE = STEPS * UNITS, BLOCK = 32 };

/* Multiplies the state by 32 at each step, but forgets it if x is negative. All numbers are powers
 * of two, so nothing is rounded. */
static const char grows[] = "cell grows(h)\nh' = select(-x, 0, 32) * h + x\n";

/* The state is zero for a block. Then it grows and is forgotten before it overflows, although the
 * product of a whole block's factors would overflow. */
static const struct {
    int t;
    float x;
} input[] = {{40, -0x1p-120F}, {62, -0x1p-60F}, {90, -0x1p-100F}, {100, -0x1p-120F}, {128, -1}};
enum { INPUTS = sizeof input / sizeof *input };

struct growth {
    float x[SIZE], y[SIZE], dy[SIZE], dx[SIZE];
};

static void fill(struct growth *growth)
{
    for (int i = 0; i < INPUTS * UNITS; i++)
        growth->x[input[i / UNITS].t * UNITS + i % UNITS] = input[i / UNITS].x;
    for (int j = 0; j < UNITS; j++)
        growth->dy[127 * UNITS + j] = 0x1p-100F;
}

static float factor_of(float x)
{
    return -x > 0 ? 0 : 32;
}

/* Compares the scan with the same run step by step. */
static void compare(const struct growth *growth, const char *set)
{
    for (int j = 0; j < UNITS; j++) {
        float state = 0, carry = 0;
        for (int t = 0; t < STEPS; t++) {
            const int i = t * UNITS + j, back = SIZE - UNITS - t * UNITS + j;
            state = factor_of(growth->x[i]) * state + growth->x[i];
            ck_assert_msg(growth->y[i] == state, "%s: y of step %d is %g, not %g", set, t,
                          (double)growth->y[i], (double)state);
            carry += growth->dy[back];
            ck_assert_msg(growth->dx[back] == carry, "%s: dx of step %d is %g, not %g", set,
                          STEPS - 1 - t, (double)growth->dx[back], (double)carry);
            carry *= factor_of(growth->x[back]);
        }
    }
}

static void run(const struct planned *of, struct growth *growth)
{
    ecornn_io io = planned_io(of);
    const ecornn_gradient gradient = {.size = sizeof gradient, .dy = growth->dy, .dx = growth->dx};
    io.x = growth->x, io.y = growth->y;
    check_ok(forward_all(of->plan, &io));
    check_ok(backward_all(of->plan, &io, &gradient));
}

START_TEST(forgets_what_is_too_large)
{
    static struct growth growth;
    const struct eco_isa *isa;
    ecornn_cell *cell;
    fill(&growth);
    setenv("ECORNN_FORCE", "algorithm=scan,block-steps=32", 1);
    check_ok(ecornn_cell_parse(&cell, grows));
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++) {
        struct planned of;
        setenv("ECORNN_ISA", isa->name, 1);
        planned_open(&of, "cpu:2", "grows/f32/train/T160/N1/I19/H19", cell);
        ck_assert_int_eq(of.plan->request.cpu.block_steps, BLOCK);
        run(&of, &growth);
        compare(&growth, isa->name);
        planned_close(&of);
    }
    ecornn_cell_free(cell);
}
END_TEST

/* State c overflows, and h does not read it: y and dx are those of h alone. */
static const char one_way[] = "cell one-way(h, c)\nh' = 0.5 * h + x\nc' = 32 * c + h\n";

START_TEST(what_overflows_stays_in_its_state)
{
    static struct growth growth;
    const struct eco_isa *isa;
    ecornn_cell *cell;
    for (int i = 0; i < SIZE; i++)
        growth.x[i] = growth.dy[i] = 1;
    setenv("ECORNN_FORCE", "algorithm=scan,block-steps=32", 1);
    check_ok(ecornn_cell_parse(&cell, one_way));
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++) {
        struct planned of;
        float state = 0, carry = 0;
        setenv("ECORNN_ISA", isa->name, 1);
        planned_open(&of, "cpu:2", "one-way/f32/train/T160/N1/I19/H19", cell);
        ck_assert_int_eq(of.plan->request.cpu.block_steps, BLOCK);
        run(&of, &growth);
        for (int t = 0; t < STEPS; t++) {
            const int i = t * UNITS, back = SIZE - UNITS - i;
            state = 0.5F * state + 1;
            carry = 0.5F * carry + 1;
            for (int j = 0; j < UNITS; j++) {
                ck_assert_msg(fabsf(growth.y[i + j] - state) < 1e-6F, "%s: y of step %d is %g",
                              isa->name, t, (double)growth.y[i + j]);
                ck_assert_msg(fabsf(growth.dx[back + j] - carry) < 1e-6F, "%s: dx of step %d is %g",
                              isa->name, STEPS - 1 - t, (double)growth.dx[back + j]);
            }
        }
        planned_close(&of);
    }
    ecornn_cell_free(cell);
}
END_TEST

/* ---- when there are some --------------------------------------------------------------------- */

static void results_of(const char *text, const char *force, struct test_case *test,
                       struct data *results)
{
    struct machine machine = {.backwards = 1};
    struct data inputs = {0};
    setenv("ECORNN_FORCE", force, 1);
    ck_assert(case_parse(test, text));
    machine.type = test->desc.type;
    case_inputs(test, &inputs);
    check_ok(ecornn_device_open(&machine.device, "cpu:2"));
    ck_assert(case_run(test, &machine, &inputs, results));
    ecornn_device_close(machine.device);
    data_free(&inputs);
}

static const char by_steps[] = "algorithm=scan,block-steps=0", usual[] = "algorithm=scan";
static const struct {
    const char *text, *force, *other, *other_force;
    bool same;
} pair[] = {
    /* a problem of many steps */
    {"min-gru/f32/train/T300/N2/I5/H17/states", usual, "min-gru/f32/train/T300/N2/I5/H17/states",
     by_steps, false},
    /* a run of few, on a plan of many and on one of its own */
    {"min-gru/f32/train/T300/N2/I5/H17/states/run:200x2", usual,
     "min-gru/f32/train/T200/N2/I5/H17/states", usual, true},
    {"min-gru/f32/train/T600/N2/I5/H17/states/run:300x2", usual,
     "min-gru/f32/train/T300/N2/I5/H17/states", usual, true},
    /* row invariance, or lengths */
    {"min-gru/f32/train/row-invariant/T300/N2/I5/H17/states", usual,
     "min-gru/f32/train/T300/N2/I5/H17/states", by_steps, true},
    {"min-gru/f32/train/T300/N2/I5/H17/states/lengths:full", usual,
     "min-gru/f32/train/T300/N2/I5/H17/states/lengths:full", by_steps, true},
};
enum { PAIRS = sizeof pair / sizeof *pair };

START_TEST(has_blocks_or_not)
{
    struct test_case test[2];
    struct data results[2] = {{0}, {0}};
    results_of(pair[_i].text, pair[_i].force, &test[0], &results[0]);
    results_of(pair[_i].other, pair[_i].other_force, &test[1], &results[1]);
    if (pair[_i].same)
        ck_assert(results_same(&test[1], pair[_i].text, &results[0], &results[1]));
    else
        ck_assert(!results_same(&test[1], "that differs, as it should", &results[0], &results[1]));
    for (int k = 0; k < 2; k++) {
        data_free(&results[k]);
        case_free(&test[k]);
    }
}
END_TEST

/* ---- coupled states -------------------------------------------------------------------------- */

static int pick(uint64_t *seed, int n)
{
    return (int)(uniform(seed) * n);
}

/* Texts with two to four states, each a sum of factors of x or of vectors times some states, old or
 * new, and a term. The sums stay small. */
static void draw_text(uint64_t seed, char *text, size_t size)
{
    static const char names[] = "hcde";
    static const char *const factor[] = {"", "k * ", "0.5 * ", "m * ", "(1 - k) * ", "k * m * "},
                             *const term[] = {"W x", "k", "b", "0.25", "m * k"};
    struct eco_text out = {text, size, 0};
    const int n = 2 + pick(&seed, 3);
    eco_text_add(&out, "cell drawn(h");
    for (int s = 1; s < n; s++)
        eco_text_add(&out, ", %c", names[s]);
    eco_text_add(&out, ")\nk = sigmoid(W x + b)\nm = tanh(p)\n");
    for (int s = 0; s < n; s++) {
        eco_text_add(&out, "%c' = 0.4 * (%s", names[s], term[pick(&seed, 5)]);
        for (int v = 0; v < n; v++)
            if (v == s || pick(&seed, 2) == 0)
                eco_text_add(&out, " %c %s%c%s", "+-"[pick(&seed, 2)], factor[pick(&seed, 6)],
                             names[v], v < s && pick(&seed, 2) == 0 ? "'" : "");
        eco_text_add(&out, ") + 0 * (k + m)\n");
    }
}

/* More steps than a chunk of blocks has. */
enum { DRAWN_T = 150, DRAWN_N = 2, DRAWN_H = 21, DRAWN = DRAWN_T * DRAWN_N * DRAWN_H };
static const char drawn[] = "drawn/f64/train/bi/T150/N2/I21/H21";

struct drawn_run {
    double y[2 * DRAWN], dx[DRAWN];
};

static void run_drawn(const char *device, int block_steps, const ecornn_cell *cell,
                      const double *numbers, struct drawn_run *run)
{
    struct planned of;
    planned_open(&of, device, drawn, cell);
    ck_assert_int_eq(of.plan->request.cpu.block_steps, block_steps);
    planned_pack(&of, numbers, of.weights);
    ecornn_io io = planned_io(&of);
    const ecornn_gradient gradient = {.size = sizeof gradient, .dy = numbers, .dx = run->dx};
    io.x = numbers, io.y = run->y;
    check_ok(forward_all(of.plan, &io));
    check_ok(backward_all(of.plan, &io, &gradient));
    planned_close(&of);
}

static void expect_near(const char *text, const char *what, const double *got,
                        const double *expected, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - expected[i]) <= 1e-12 * (1 + fabs(expected[i])),
                      "%s: %s[%d] is %.17g, not %.17g", text, what, i, got[i], expected[i]);
}

START_TEST(drawn_texts_agree)
{
    static double numbers[2 * DRAWN];
    static struct drawn_run got, expected;
    char text[1000];
    uint64_t seed = (uint64_t)_i;
    ecornn_cell *cell;
    for (int i = 0; i < 2 * DRAWN; i++)
        numbers[i] = 2 * uniform(&seed) - 1;
    draw_text((uint64_t)_i, text, sizeof text);
    check_ok(ecornn_cell_parse(&cell, text));
    ck_assert_msg(cell->lowered.linear.scans, "%s", text);
    run_drawn("reference", 0, cell, numbers, &expected);
    for (int k = 0; k < 2; k++) {
        setenv("ECORNN_FORCE", k ? "algorithm=scan,block-steps=0" : "algorithm=scan,block-steps=4",
               1);
        run_drawn("cpu:2", k ? 0 : 4, cell, numbers, &got);
        expect_near(text, "y", got.y, expected.y, 2 * DRAWN);
        expect_near(text, "dx", got.dx, expected.dx, DRAWN);
    }
    unsetenv("ECORNN_FORCE");
    ecornn_cell_free(cell);
}
END_TEST

TEST_MAIN("scan", {forgets_what_is_too_large, 1}, {what_overflows_stays_in_its_state, 1},
          {has_blocks_or_not, PAIRS}, {drawn_texts_agree, 24})
