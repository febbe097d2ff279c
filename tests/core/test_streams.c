/*
 * Streams, io.rows: in each tick some of them run, with states that stay in the caller's arrays.
 * Every stream has the bits of a run of its own, on a GPU or where bits depend on N those of a run
 * of the same rows without streams, and others are not touched.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "common/problem.h"
#include "tests/kit/suite.h"
#include "tests/kit/trial.h"

enum { STREAMS = 41, TICKS = 7 };
static const char *const device[] = {"cpu:1", "cpu:3", "reference", "cuda"};
static const char *const problem[] = {
    "lstm/infer/streams/T1/N41/I5/H19",
    "lstm/infer/L2/bi/streams/T3/N41/I5/H19/P7/batch-major",
    "lstm/int8/infer/streams/T1/N41/I5/H40",
    "gru/bf16/row-invariant/infer/L2/streams/T2/N41/I8/H33",
    "lstm/f32/bf16-weights/row-invariant/infer/rev/streams/T2/N41/I5/H131",
    "lstm/f32/bf16-weights/infer/streams/T2/N41/I5/H131",
    "min-gru/infer/streams/T3/N41/I5/H9",
    "lstm/infer/L2/streams/T2/N41/I64/H64",
    "gru/f32/int8-weights/infer/streams/T2/N41/I64/H33",
    "lstm/infer/L2/bi/streams/T3/N41/I5/H19/resets/mask",
    "gru/infer/streams/T3/N41/I5/H9/batch-major/mask/repeat-padding",
};
enum { DEVICES = sizeof device / sizeof *device, PROBLEMS_ = sizeof problem / sizeof *problem };

/* The runs of a plan: ticks of many streams, whose initial and final states are one array, and
 * separate runs. */
struct streams {
    struct trial tick, own;
    struct trial kept; /* initial states: those of each stream after its separate runs */
    int32_t *rows;     /* [STREAMS] in memory of the device */
    bool gathered;     /* a separate run has all rows of a tick, not one */
};

static void streams_open(struct streams *s, const char *on, const char *text)
{
    trial_open_on(&s->tick, on, text);
    trial_open_beside(&s->own, &s->tick), trial_open_beside(&s->kept, &s->tick);
    const struct eco_problem *const p = s->tick.of[0];
    s->gathered = strcmp(on, "cuda") == 0 ||
                  (p->type == ECORNN_F32 && !p->row_invariant && p->weight_type == ECORNN_BF16);
    s->tick.alias = s->own.alias = true;
    s->tick.ragged = s->own.ragged = p->T > 1;
    s->rows = ecornn_alloc(s->tick.device, STREAMS * sizeof *s->rows);
    s->tick.io.rows = s->rows, s->tick.io.streams = STREAMS;
    trial_size(&s->tick, p->T, STREAMS, STREAMS);
}

static void streams_close(struct streams *s)
{
    ecornn_free(s->tick.device, s->rows);
    trial_close(&s->kept), trial_close(&s->own), trial_close(&s->tick);
}

static bool clear(struct part_row a, struct part_row b, void *context)
{
    (void)b, (void)context;
    memset(a.at, 0, a.array->row);
    return true;
}

static void restart(struct trial *trial, int32_t row)
{
    const struct part part = {.of = trial, .row = row, .rows = 1};
    part_each(part, INITIAL, part, INITIAL, clear, NULL);
}

/* Runs rows [n0, n0 + N) of a tick separately, with the states that the host has, and compares y.
 */
static void check_separately(struct streams *s, const int32_t *rows, int32_t n0, int32_t N)
{
    const struct part tick = {.of = &s->tick, .row = n0, .rows = N}, own = {.of = &s->own};
    trial_size(&s->own, s->tick.T, N, 0);
    part_copy_inputs(own, tick);
    for (int out = 0; out < 2; out++) {
        for (int32_t n = 0; n < N; n++) {
            const struct part row = {.of = &s->own, .row = n, .rows = 1};
            const struct part kept = {.of = &s->kept, .row = rows[n0 + n], .rows = 1};
            if (rows[n0 + n] < 0 || rows[n0 + n] >= STREAMS)
                restart(&s->own, n);
            else if (out)
                part_copy(kept, INITIAL, row, FINAL);
            else
                part_copy(row, INITIAL, kept, INITIAL);
        }
        if (!out)
            trial_run(&s->own);
    }
    part_check(tick, own, Y, Y, "a stream by itself");
}

/* In each tick others run: none, one, few, all; and some restart. */
START_TEST(streams_are_as_alone)
{
    static struct streams s;
    const char *const text = problem[_i % PROBLEMS_], *const on = device[_i / PROBLEMS_];
    const bool gpu = strcmp(on, "cuda") == 0;
    const bool refused = strstr(text, "/int8/") || strstr(text, "/bf16-weights/row-invariant/");
    if (suite_lacks(on) || (gpu && refused))
        return;
    streams_open(&s, on, text);
    for (int32_t stream = 0; stream < STREAMS; stream++)
        restart(&s.kept, stream);
    for (int tick = 0; tick < TICKS; tick++) {
        const struct part all = {.of = &s.tick}, kept = {.of = &s.kept};
        int32_t rows[STREAMS], N = 0;
        for (int32_t stream = 0; stream < STREAMS; stream++)
            if (tick != 2 && (tick == 4 || (stream * 7 + tick * 5) % (tick + 2) == 0))
                rows[N++] = stream;
        if (gpu && N < STREAMS && tick > 2) /* pads the list */
            rows[N++] = tick % 2 == 0 ? STREAMS : -1;
        trial_size(&s.tick, s.tick.T, N, STREAMS);
        trial_fill(&s.tick, (uint64_t)tick);
        restart(&s.kept, tick);
        part_copy(all, INITIAL, kept, INITIAL);
        check_ok(ecornn_upload(s.tick.device, s.rows, rows, (size_t)N * sizeof *rows));
        trial_run(&s.tick);
        for (int32_t n = 0; n < N; n += s.gathered ? N : 1)
            check_separately(&s, rows, n, s.gathered ? N : 1);
        ck_assert(part_same(all, FINAL, kept, INITIAL));
    }
    streams_close(&s);
}
END_TEST

START_TEST(misuse)
{
    static struct streams s;
    streams_open(&s, "cpu:1", "gru/infer/T1/N41/I5/H9/streams");
    trial_send(&s.tick);
    int32_t rows[] = {3, 5, 40};
    ecornn_io io = s.tick.io;
    ecornn_plan *const plan = s.tick.plan;
    io.rows = NULL, io.final[0] = NULL;
    REFUSES(ecornn_forward(plan, 1, 3, &io), "io.streams is 41, must be 0 without io.rows");
    io.rows = rows;
    check_ok(ecornn_forward(plan, 1, 3, &io));
    io.rows = (const int32_t *)(const void *)((const char *)rows + 1);
    REFUSES(ecornn_forward(plan, 1, 3, &io), "must be aligned to 4 bytes");
    io.rows = rows, io.streams = 40;
    REFUSES(ecornn_forward(plan, 1, 3, &io), "io.rows[2] is 40, must be 6 to 39");
    rows[1] = 3, io.streams = STREAMS;
    REFUSES(ecornn_forward(plan, 1, 3, &io), "io.rows[1] is 3, must be 4 to 40");
    rows[1] = 5, io.streams = 0;
    REFUSES(ecornn_forward(plan, 1, 3, &io), "io.streams is 0, must be at least 1 with io.rows");
    io.streams = STREAMS, io.initial[0] = NULL;
    REFUSES(ecornn_forward(plan, 1, 3, &io), "io.initial[0] is NULL");
    io.initial[0] = s.tick.io.initial[0];
    REFUSES(ecornn_forward(plan, 0, 3, &io), "steps is 0");
    static const struct {
        const char *plan, *refusal;
        ecornn_status status;
    } other[] = {{"gru/train/T1/N41/I5/H9/streams", "needs inference", ECORNN_UNSUPPORTED},
                 {"gru/infer/T1/N41/I5/H9", "is without ECORNN_STREAMS", ECORNN_BAD_ARGUMENT},
                 {"infer/T1/N41/I5; gru/H9; gru/H9", "needs a plan of layers", ECORNN_UNSUPPORTED}};
    ecornn_plan *wrong;
    check_refused(
        ecornn_plan_create(&wrong, s.tick.device, "gru/infer/models:2/T1/N41/I5/H9/streams", NULL),
        ECORNN_UNSUPPORTED, "needs one model");
    void *const reserve = ecornn_alloc(s.tick.device, 64);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        check_ok(ecornn_plan_create(&wrong, s.tick.device, other[i].plan, NULL));
        io.reserve = i == 0 ? reserve : NULL;
        check_refused(ecornn_forward(wrong, 1, 3, &io), other[i].status, other[i].refusal);
        ecornn_plan_free(wrong);
    }
    ecornn_free(s.tick.device, reserve);
    streams_close(&s);
}
END_TEST

TEST_MAIN("streams", {streams_are_as_alone, DEVICES *PROBLEMS_}, {misuse, 1})
