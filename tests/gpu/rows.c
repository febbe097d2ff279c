/*
 * Finds out whether the bits of a row's results depend on the rest of its batch on a GPU. For each
 * algorithm and type it runs the same rows in another order, together with rows of NaN, in smaller
 * batches (by smaller plans, and by smaller runs of one plan), and with T cut in two. It prints a
 * table of how many runs gave different bits, and fails if any of a row-invariant plan did, apart
 * from T cut in two, where states are rounded.
 *
 *     gpu_rows [--row-invariant [TYPE] | PROBLEM]        e.g. lstm/f32/train/T6/N37/I24/H72
 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/problem.h"
#include "tests/kit/calls.h"
#include "tests/kit/rows.h"
#include "tests/kit/suite.h"

static ecornn_device *device;

struct counts {
    int of, forward, back;
};

/* Runs the rows in this order, from step t on, and counts the run if a row differs. */
static void count(struct counts *counts, struct rows *rows, struct trial *b,
                  const struct order *order)
{
    bool forward = false, back = false;
    rows_take(rows, b, order, 0);
    trial_run(b);
    for (int32_t n = 0; n < b->N; n++) {
        forward |= rows_differ(rows, b, order, n, Y, FINAL) != NULL;
        back |= b->trains && rows_differ(rows, b, order, n, DX, DINITIAL) != NULL;
    }
    counts->of++, counts->forward += forward, counts->back += back;
}

static struct order in_order(void)
{
    struct order order = {.id = {0}};
    for (int32_t n = 0; n < MOST_ROWS; n++)
        order.id[n] = n;
    return order;
}

/* Runs the rows in another order, and then together with rows of NaN. */
static void try_places(struct rows *rows, struct trial *b, struct counts *places,
                       struct counts *neighbours)
{
    for (int32_t turn = 1; turn < 8; turn++) {
        struct order order = in_order();
        for (int32_t n = 0; n < b->N; n++) {
            order.id[n] = (n + turn * turn) % b->N;
            if (turn % 2 == 0)
                order.id[n] = b->N - 1 - order.id[n];
        }
        count(places, rows, b, &order);
        order = in_order();
        for (int32_t n = 0; n < b->N; n++)
            order.poison[n] = (n * 5 + turn) % (turn + 1) != 0 ? POISON_NAN : NO_POISON;
        count(neighbours, rows, b, &order);
    }
}

/* Runs fewer rows, by a smaller plan and by this plan. */
static void try_batches(struct rows *rows, struct trial *b, struct counts *plans,
                        struct counts *runs)
{
    static const int32_t sizes[] = {1, 2, 3, 5, 8, 9, 16, 17, 24, 32, 33, 48, 64, 65, 96};
    const struct order order = in_order();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] < rows->all.N; i++) {
        struct trial small;
        if (rows_batch(rows, &small, device, rows->all.T, sizes[i])) {
            count(plans, rows, &small, &order);
            trial_close(&small);
        }
        trial_size(b, rows->all.T, sizes[i], 0);
        count(runs, rows, b, &order);
    }
}

/* Runs forward in two parts. */
static void try_cuts(struct rows *rows, struct trial *b, struct counts *cuts)
{
    const struct order order = in_order();
    const struct part part = {.of = b};
    for (int32_t cut = 1; cut < rows->all.T && rows->all.of[0]->D == 1; cut++) {
        const struct part whole = {.of = &rows->all, .step = cut};
        trial_size(b, cut, rows->all.N, 0);
        rows_take(rows, b, &order, 0);
        trial_run(b);
        trial_size(b, rows->all.T - cut, rows->all.N, 0);
        rows_take(rows, b, &order, cut);
        part_copy(part, INITIAL, part, FINAL);
        trial_run(b);
        cuts->of++, cuts->forward += part_differs(part, whole, Y, FINAL) != NULL;
    }
}

/* Returns the number of runs with other bits, without cuts. */
static int tried;
static int try_problem(const char *problem, const char *force)
{
    struct rows rows;
    struct trial b;
    ecornn_desc desc;
    ecornn_plan *plan;
    struct counts places = {0}, neighbours = {0}, plans = {0}, runs = {0}, cuts = {0};
    setenv("ECORNN_FORCE", force, 1);
    check_ok(parse_desc(&desc, problem, NULL));
    if (ecornn_plan_create_desc(&plan, device, &desc) != ECORNN_OK)
        return 0;
    ecornn_plan_free(plan);
    rows_open(&rows, device, &desc, desc.batch, false);
    trial_open_beside(&b, &rows.all);
    trial_run(&rows.all);
    try_places(&rows, &b, &places, &neighbours);
    try_batches(&rows, &b, &plans, &runs);
    try_cuts(&rows, &b, &cuts);
    printf("%-44s %-34s", problem, force);
    const struct counts *const of[] = {&places, &neighbours, &plans, &runs, &cuts};
    int others = 0;
    for (int i = 0; i < 5; i++) {
        printf(" %2d/%-2d of %-2d", of[i]->forward, of[i]->back, of[i]->of);
        others += i < 4 ? of[i]->forward + of[i]->back : 0;
    }
    printf("\n");
    tried++;
    trial_close(&b);
    rows_close(&rows);
    return others;
}

static int argc; /* the program's arguments */
static char **argv;

START_TEST(row_invariant_plans_keep_bits)
{
    static const char *const types[] = {"f32", "f32/fast", "bf16", "f16", "f64"};
    static const char *const rests[] = {"train/T6/N37/I24/H72",
                                        "train/T6/N100/I64/H256",
                                        "train/T4/N128/I200/H1000",
                                        "train/T20/N35/I31/H45",
                                        "train/bi/T5/N4/I1/H24/save:states",
                                        "train/bi/T40/N20/I17/H61/save:every:2",
                                        "train/T140/N20/I8/H24/save:every:4"};
    /* Each algorithm is forced; then row invariance is asked for, in 16 bits with more chunks and
     * launches, too. */
    static const struct {
        bool apart, narrow;
        const char *force;
    } rounds[] = {{false, false, "algorithm=step"},
                  {false, false, "algorithm=fused"},
                  {false, false, "algorithm=persistent"},
                  {false, false, "algorithm=step,emulated-f32=0,scaled-f16=0,grouped=0"},
                  {false, false, "algorithm=step,emulated-f32=1,stream-k=0,grouped=0"},
                  {false, false, "algorithm=persistent,forward=mma:32x1,backward=mma:32x1"},
                  {true, false, ""},
                  {true, true, "chunk=2,chunk-back=3"},
                  {true, true, "groups=1,groups-back=1"}};
    enum { ROUNDS = sizeof rounds / sizeof *rounds, RESTS_OF_ALL = 4 };
    const bool only_apart = argc > 1 && strcmp(argv[1], "--row-invariant") == 0;
    int failed = 0;
    printf("%-79s runs with different bits, forward/back: other order; NaN in other rows; "
           "smaller plans; smaller runs; T cut\n",
           "");
    for (int round = 0; round < ROUNDS; round++)
        for (size_t type = 0; type < sizeof types / sizeof *types && (argc < 2 || only_apart);
             type++)
            for (size_t rest = 0; rest < sizeof rests / sizeof *rests; rest++)
                for (int cell = 0; cell < 2; cell++) {
                    const bool apart = rounds[round].apart;
                    const bool rounds_states = strncmp(types[type], "f32", 3) == 0;
                    char problem[128];
                    snprintf(problem, sizeof problem, "%s/%s%s/%s%s", cell ? "gru" : "lstm",
                             types[type], apart ? "/row-invariant" : "", rests[rest],
                             rounds_states && strstr(rests[rest], "every:4") ? "/bf16-save" : "");
                    if ((apart || (!only_apart && rest < RESTS_OF_ALL)) &&
                        (argc < 3 || strcmp(argv[2], types[type]) == 0) &&
                        (!rounds[round].narrow || strstr(types[type], "16") != NULL))
                        failed += try_problem(problem, rounds[round].force) * apart;
                }
    for (int round = 0; round < ROUNDS && argc > 1 && !only_apart; round++)
        if (!rounds[round].narrow)
            try_problem(argv[1], rounds[round].force);
    printf("# %d problems, %d runs of row-invariant plans with other bits\n", tried, failed);
    ck_assert_int_eq(failed, 0);
}
END_TEST

int main(int words, char **word)
{
    static const struct suite_program program = {.name = "gpu rows", .one_process = true};
    argc = words, argv = word;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (ecornn_device_open(&device, "cuda") != ECORNN_OK) {
        printf("skipped: %s\n", ecornn_error_detail());
        return 77;
    }
    const int status = suite_run(&program, SUITE_TESTS({row_invariant_plans_keep_bits, 1}));
    ecornn_device_close(device);
    return status;
}
