/*
 * Plans for many steps are made without walking over them. A short run of such a plan walks over
 * its own steps, and gives the same bits as with a plan for its own number of steps.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tape.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"

/* The linker gives calls of eco_walk_next to the second (tests.am). */
const struct eco_op *__real_eco_walk_next(struct eco_walk *walk);
const struct eco_op *__wrap_eco_walk_next(struct eco_walk *walk);
static _Atomic int64_t walked; /* its calls: ops that runs and plans looked at */

const struct eco_op *__wrap_eco_walk_next(struct eco_walk *walk)
{
    walked++;
    return __real_eco_walk_next(walk);
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Each would take seconds, hours or years if every op were stored. */
static const char *const longest[] = {
    "lstm/L2/T200000/N64/I64/H64",
    "gru/train/L2/bi/T50000/N256/I64/H256",
    "lstm/L4/bi/train/T48000/N256/I64/H256",
    "lstm/T100000/N128/L2/bi/I64/H64",
    "rnn-tanh/train/T16777216/N256/I1/H1",
    "rnn-tanh/train/T16777216/N256/L255/bi/I1/H1",
    "lstm/f64/train/T16777216/N16777216/L3/I64/H64",
};
enum { LONGEST = sizeof longest / sizeof *longest };

START_TEST(is_made_at_once)
{
    const char *const device[] = {"cpu:1", "cpu:2", "reference"};
    for (int i = 0; i < 3; i++) {
        ecornn_desc desc;
        ecornn_plan *plan;
        char text[4096];
        ecornn_device *const opened = device_on(device[i]);
        check_ok(parse_desc(&desc, longest[_i], NULL));
        walked = 0;
        check_ok(ecornn_plan_create_desc(&plan, opened, &desc));
        ecornn_plan_print(plan, text, sizeof text);
        ecornn_plan_free(plan);
        ck_assert_int_lt(walked, 10000);
        ecornn_device_close(opened);
    }
}
END_TEST

START_TEST(is_refused_at_once)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_device *const device = device_on("cpu:1");
    check_ok(parse_desc(&desc, "lstm/T16777216/N16777216/L255/I4194304/H4194304", NULL));
    REFUSES(ecornn_plan_create_desc(&plan, device, &desc), "bytes in one block");
    ecornn_device_close(device);
}
END_TEST

/* ---- a short run of one ---------------------------------------------------------------------- */

enum { ROWS = 3, STEPS = 2, WIDTH = 8, MOST = 1 << 16 };

struct piece {
    struct planned of;
    float x[STEPS * ROWS * WIDTH], dy[STEPS * ROWS * 2 * WIDTH];
    float y[STEPS * ROWS * 2 * WIDTH], dx[STEPS * ROWS * WIDTH];
    int32_t lengths[ROWS];
    ecornn_io io;
    ecornn_gradient gradient;
};

/* Memory for a run of STEPS. It is as large as the plan asks for, but the pages of the rest are
 * never touched. */
static struct piece *piece_open(const char *device, const char *more, int32_t most, bool ragged)
{
    struct piece *piece = calloc(1, sizeof *piece);
    char text[120];
    snprintf(text, sizeof text, "lstm/T%d/N%d/I%d/H%d/%s", most, ROWS, WIDTH, WIDTH, more);
    planned_open(&piece->of, device, text, NULL);
    float *block = malloc(piece->of.sizes.param_elements * sizeof *block);
    for (size_t k = 0; k < piece->of.sizes.param_elements; k++)
        block[k] = 0.01f * (float)(k % 61) - 0.3f;
    planned_pack(&piece->of, block, piece->of.weights);
    free(block);
    for (int k = 0; k < STEPS * ROWS * WIDTH; k++)
        piece->x[k] = 0.1f * (float)(k % 17) - 0.8f;
    for (int k = 0; k < STEPS * ROWS * 2 * WIDTH; k++)
        piece->dy[k] = 0.1f * (float)(k % 13) - 0.6f;
    for (int k = 0; k < ROWS; k++)
        piece->lengths[k] = k % (STEPS + 1);
    piece->io = planned_io(&piece->of);
    piece->io.lengths = ragged ? piece->lengths : NULL;
    piece->io.x = piece->x, piece->io.y = piece->y;
    piece->gradient = (ecornn_gradient){.size = sizeof piece->gradient,
                                        .dy = piece->dy,
                                        .dx = piece->dx,
                                        .dweights = piece->of.dweights};
    return piece;
}

static void piece_close(struct piece *piece)
{
    planned_close(&piece->of);
    free(piece);
}

static void piece_run(struct piece *piece)
{
    check_ok(ecornn_forward(piece->of.plan, STEPS, ROWS, &piece->io));
    check_ok(ecornn_backward(piece->of.plan, STEPS, ROWS, &piece->io, &piece->gradient));
}

static const struct {
    const char *device, *more;
    bool ragged;
} kinds[] = {
    {"cpu:1", "train", false},      {"cpu:2", "train", false},
    {"cpu:1", "train/L2/bi", true}, {"cpu:2", "train/L2/bi", false},
    {"cpu:2", "train/L2", true},    {"reference", "train/L2/bi", false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

START_TEST(gives_the_same_bits)
{
    struct piece *piece[2];
    for (int i = 0; i < 2; i++) {
        piece[i] = piece_open(kinds[_i].device, kinds[_i].more, i ? MOST : STEPS, kinds[_i].ragged);
        piece_run(piece[i]);
    }
    ck_assert_uint_eq(piece[0]->of.sizes.dweight_bytes, piece[1]->of.sizes.dweight_bytes);
    ck_assert_mem_eq(piece[0]->y, piece[1]->y, sizeof piece[0]->y);
    ck_assert_mem_eq(piece[0]->dx, piece[1]->dx, sizeof piece[0]->dx);
    ck_assert_mem_eq(piece[0]->of.dweights, piece[1]->of.dweights,
                     piece[0]->of.sizes.dweight_bytes);
    piece_close(piece[0]);
    piece_close(piece[1]);
}
END_TEST

/* Walks of a run go over its own steps. Other work may take one of two threads from either run, and
 * so half of the walks; those over the whole plan would be MOST / STEPS times as many.
 * The reference, the last kind, has no walks. */
START_TEST(costs_no_more)
{
    int64_t count[2];
    for (int i = 0; i < 2; i++) {
        struct piece *piece =
            piece_open(kinds[_i].device, kinds[_i].more, i ? MOST : STEPS, kinds[_i].ragged);
        walked = 0;
        piece_run(piece);
        count[i] = walked;
        piece_close(piece);
    }
    ck_assert_int_gt(count[0], 0);
    ck_assert_int_le(count[1], 2 * count[0]);
}
END_TEST

TEST_MAIN("long", {is_made_at_once, LONGEST}, {is_refused_at_once, 1}, {gives_the_same_bits, KINDS},
          {costs_no_more, KINDS - 1})
