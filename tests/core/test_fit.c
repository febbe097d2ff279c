/*
 * Uses weights that were packed for one plan in runs of another, for random pairs of plans. If
 * ecornn_weights_fit accepts them, the results must have the bits of a run with the plan's own
 * weights. If it refuses, the two packed blocks must differ.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { MOST_ELEMENTS = 1 << 19, ROUNDS = 600 };

struct side {
    struct planned of;
    char problem[160];
};

/* Numbers that every input of a run points to, and memory for its outputs. */
static float numbers[MOST_ELEMENTS];

static unsigned dice(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

static void side_open(struct side *side, const char *device, const char *problem,
                      const ecornn_cell *cell)
{
    snprintf(side->problem, sizeof side->problem, "%s", problem);
    planned_open(&side->of, device, problem, cell);
    memset(side->of.weights, 0,
           side->of.sizes.weight_bytes); /* so that gaps between parts are equal */
    planned_pack(&side->of, numbers, side->of.weights);
}

/* Runs forward and backward with these weights and gathers all that they write. */
static size_t side_run(const struct planned *side, const void *weights, char *results, size_t room)
{
    const ecornn_desc *desc = &side->desc;
    const size_t element = desc->type == ECORNN_F64 ? 8 : desc->type == ECORNN_F32 ? 4 : 2;
    const size_t rows = (size_t)desc->steps * (size_t)desc->batch;
    const size_t directions = (desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    const size_t P = (size_t)(desc->proj ? desc->proj : desc->hidden);
    const size_t models = (size_t)(desc->models ? desc->models : 1);
    const size_t y = models * rows * directions * P * element,
                 x = models * rows * (size_t)desc->input * element;
    ck_assert_uint_le(y + x + side->sizes.dweight_bytes, room);
    ck_assert(y <= sizeof numbers && x <= sizeof numbers);
    memset(results, 0, room);
    ecornn_io io = planned_io(side);
    io.x = numbers, io.y = results, io.weights = weights;
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dy = numbers, .dx = results + y, .dweights = side->dweights};
    check_ok(forward_all(side->plan, &io));
    if (desc->flags & ECORNN_TRAINING) {
        memset(side->dweights, 0, side->sizes.dweight_bytes);
        check_ok(backward_all(side->plan, &io, &gradient));
        memcpy(results + y + x, side->dweights, side->sizes.dweight_bytes);
    }
    return y + x + side->sizes.dweight_bytes;
}

/* Tests weights packed by `packed` in runs of `used`. */
static bool check_pair(const struct side *packing, const struct side *using)
{
    const struct planned *packed = &packing->of, *used = &using->of;
    static char own[1 << 22], foreign[1 << 22];
    const bool fits = ecornn_weights_fit(packed->plan, used->plan) == ECORNN_OK;
    const bool larger = packed->sizes.weight_bytes >= used->sizes.weight_bytes;
    const bool same =
        larger && memcmp(packed->weights, used->weights, used->sizes.weight_bytes) == 0;
    /* a small BF16 matrix is one group of k, which all panels store in the same way */
    const bool differ = !fits && strstr(ecornn_error_detail(), "its panels have") &&
                        !strstr(using->problem, "bf16");
    ck_assert_msg((same || !fits) && !(same && differ), "%s, used by %s: %s, but the blocks are %s",
                  packing->problem, using->problem, fits ? "fits" : ecornn_error_detail(),
                  same ? "the same" : "not the same");
    if (!fits)
        return false;
    const size_t bytes = side_run(used, used->weights, own, sizeof own);
    side_run(used, packed->weights, foreign, sizeof foreign);
    ck_assert_msg(memcmp(own, foreign, bytes) == 0, "%s, used by %s: other bits", packing->problem,
                  using->problem);
    return true;
}

static void random_problem(unsigned *state, bool again, char *problem)
{
    static const char *const cells[] = {"lstm", "gru", "gru-reset-first", "lstm-peephole", "mgu"};
    static const char *const types[] = {"f32", "f64", "bf16", "f32/bf16-weights"};
    static const int sizes[] = {8, 16, 33, 40}, rows[] = {1, 2, 5, 17, 64};
    static unsigned cell, type, size, layers, models;
    if (!again) {
        cell = dice(state, 5);
        type = dice(state, 4);
        size = dice(state, 4);
        layers = dice(state, 3);
        models = dice(state, 2) ? 1 : 2 + dice(state, 2);
    } else if (dice(state, 8) == 0) {
        type = dice(state, 4);
    } else if (dice(state, 8) == 0) {
        size = dice(state, 4);
    } else if (dice(state, 8) == 0) {
        models = 1 + dice(state, 3);
    }
    snprintf(problem, 160, "%s/%s/%s%s/T%u/N%d/I%d/H%d/models:%u", cells[cell], types[type],
             dice(state, 2) ? "train" : "infer",
             layers == 2   ? "/L2/bi"
             : layers == 1 ? "/L3"
                           : "",
             1 + dice(state, 3) * 3, rows[dice(state, 5)], 12, sizes[size], models);
}

/* The two devices may have different numbers of threads. Both plans use one algorithm, because each
 * algorithm packs in its own form. */
START_TEST(random_pairs)
{
    static const char *const devices[][2] = {
        {"cpu:1", "cpu:1"}, {"cpu:1", "cpu:2"}, {"reference", "reference"}};
    unsigned state = (unsigned)_i + 1;
    int fit = 0;
    for (size_t k = 0; k < MOST_ELEMENTS; k++)
        numbers[k] = (float)dice(&state, 1u << 16) / (1 << 16) - 0.5f;
    const int rounds = _i == 2 ? ROUNDS / 6 : ROUNDS; /* the reference is slow */
    for (int round = 0; round < rounds; round++) {
        char problem[160];
        struct side packed, used;
        random_problem(&state, false, problem);
        side_open(&packed, devices[_i][0], problem, NULL);
        random_problem(&state, true, problem);
        side_open(&used, devices[_i][1], problem, NULL);
        fit += check_pair(&packed, &used);
        fit += check_pair(&used, &packed);
        planned_close(&packed.of);
        planned_close(&used.of);
    }
    printf("# %d pairs of %d fit\n", fit, 2 * rounds);
    ck_assert_int_gt(fit, rounds / 4);
}
END_TEST

#define OWN                                                                                        \
    "cell mine(h, c)\ni = sigmoid(W x + R h + b)\nf = sigmoid(W x + R h + b)\n"                    \
    "g = tanh(W x + R h + b)\no = sigmoid(W x + R h + b)\nc' = f * c + i * g\nh' = o * relu(c')\n"

static const struct {
    const char *packed, *used, *own,
        *error; /* own: the text of the cell of `used`; error NULL: the weights fit */
} chosen[] = {
    {"lstm/T9/N4/I3/H8", "lstm/T1/N4/I3/H8", NULL, NULL},
    {"lstm/train/L2/bi/T9/N4/I3/H8", "lstm/L2/bi/T9/N4/I3/H8", NULL, NULL},
    {"lstm/L2/bi/T9/N4/I3/H8", "lstm/train/L2/bi/T9/N4/I3/H8", NULL, "without ECORNN_TRAINING"},
    {"lstm/train/L3/bi/T9/N4/I3/H8", "lstm/L3/bi/T9/N4/I3/H8", NULL, NULL},
    {"lstm/T9/N4/I3/H8/models:3", "lstm/T1/N4/I3/H8/models:3", NULL, NULL},
    {"gru/train/T9/N4/I3/H8/models:3", "gru/T9/N4/I3/H8/models:3", NULL, "its models have"},
    {"lstm/T9/N4/I3/H8/models:3", "lstm/T9/N4/I3/H8/models:2", NULL,
     "it has 3 models, must have 2"},
    {"lstm/T9/N4/I3/H8", "lstm/rev/T9/N4/I3/H8", NULL, NULL},
    {"lstm/T9/N4/I3/H8", "mine/T9/N4/I3/H8", OWN, NULL},
    {"lstm/T9/N4/I3/H8", "lstm-peephole/T9/N4/I3/H8", NULL,
     "parameter 9 of its cell is b.f, must be p.i"},
    {"gru/T9/N4/I3/H8", "lstm/T9/N4/I3/H8", NULL, "parameter 0 of its cell is W.r, must be W.i"},
    {"lstm/L2/T9/N4/I3/H8", "lstm/T9/N4/I3/H8", NULL, "its layers is 2, must be 1"},
    {"lstm/bi/T9/N4/I3/H8", "lstm/T9/N4/I3/H8", NULL, "its directions is 2, must be 1"},
    {"lstm/T9/N4/I3/H8", "lstm/T9/N4/I4/H8", NULL, "its input is 3, must be 4"},
    {"lstm/T9/N4/I3/H8", "lstm/T9/N4/I3/H9", NULL, "its hidden is 8, must be 9"},
    {"lstm/T9/N4/I3/H8", "lstm/T9/N4/I3/H8/P8", NULL, "its proj is 0, must be 8"},
    {"lstm/T9/N4/I3/H8", "lstm/f32/bf16-weights/T9/N4/I3/H8", NULL,
     "its matrices are f32, must be bf16"},
    {"lstm/f64/T9/N4/I3/H8", "lstm/T9/N4/I3/H8", NULL, "its matrices are f64, must be f32"},
};
enum { CHOSEN = sizeof chosen / sizeof *chosen };

START_TEST(chosen_pairs)
{
    ecornn_cell *cell = NULL;
    struct side packed, used;
    if (chosen[_i].own)
        check_ok(ecornn_cell_parse(&cell, chosen[_i].own));
    side_open(&packed, "cpu:1", chosen[_i].packed, NULL);
    side_open(&used, "cpu:1", chosen[_i].used, cell);
    const ecornn_status status = ecornn_weights_fit(packed.of.plan, used.of.plan);
    if (chosen[_i].error)
        check_refused(status, ECORNN_UNSUPPORTED, chosen[_i].error);
    else
        ck_assert(check_pair(&packed, &used));
    planned_close(&packed.of);
    planned_close(&used.of);
    ecornn_cell_free(cell);
}
END_TEST

START_TEST(misuse)
{
    struct side a, b;
    side_open(&a, "cpu:1", "lstm/T9/N4/I3/H8", NULL);
    side_open(&b, "reference", "lstm/T9/N4/I3/H8", NULL);
    REFUSES(ecornn_weights_fit(NULL, a.of.plan), "packed is NULL");
    REFUSES(ecornn_weights_fit(a.of.plan, NULL), "used is NULL");
    check_refused(ecornn_weights_fit(a.of.plan, b.of.plan), ECORNN_UNSUPPORTED,
                  "its device is cpu, must be reference");
    planned_close(&a.of);
    planned_close(&b.of);
}
END_TEST

TEST_MAIN("fit", {random_pairs, 3}, {chosen_pairs, CHOSEN}, {misuse, 1})
