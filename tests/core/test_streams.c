/*
 * Streams, io.rows: in each tick some of them run, with states that stay in the caller's arrays.
 * Every stream has the bits of a run of its own, on a GPU or where bits depend on N those of a run
 * of the same rows without streams, and others are not touched.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/kit/streams.h"
#include "tests/kit/suite.h"

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
    "gated-delta/infer/streams/T1/N41/I88/H36/heads:2/key:12",
    "kimi-delta/bf16/infer/streams/T2/N41/I76/H36/heads:1/key:13/resets",
    "mlstm/infer/streams/T1/N41/I100/H40/heads:2/key:14/mask",
};
enum { DEVICES = sizeof device / sizeof *device, PROBLEMS_ = sizeof problem / sizeof *problem };

/* In each tick others run: none, one, few, all; and some restart. */
START_TEST(streams_are_as_alone)
{
    static struct streams s;
    const char *const text = problem[_i % PROBLEMS_], *const on = device[_i / PROBLEMS_];
    const bool gpu = strcmp(on, "cuda") == 0, narrow = strstr(text, "/bf16-weights/") != NULL;
    const bool invariant = strstr(text, "/row-invariant/") != NULL;
    if (suite_lacks(on) || (gpu && (strstr(text, "/int8/") || (narrow && invariant))))
        return;
    ecornn_device *const opened = device_on(on);
    streams_open(&s, opened, text, STREAMS, gpu || (narrow && !invariant));
    for (int tick = 0; tick < TICKS; tick++) {
        int32_t rows[STREAMS], N = 0;
        for (int32_t stream = 0; stream < STREAMS; stream++)
            if (tick != 2 && (tick == 4 || (stream * 7 + tick * 5) % (tick + 2) == 0))
                rows[N++] = stream;
        if (gpu && N < STREAMS && tick > 2) /* pads the list */
            rows[N++] = tick % 2 == 0 ? STREAMS : -1;
        streams_restart(&s, tick);
        streams_fill(&s, rows, N, (uint64_t)tick);
        trial_run(&s.tick);
        streams_check(&s, rows, N);
    }
    streams_close(&s);
    ecornn_device_close(opened);
}
END_TEST

START_TEST(misuse)
{
    static struct streams s;
    ecornn_device *const opened = device_on("cpu:1");
    streams_open(&s, opened, "gru/infer/T1/N41/I5/H9/streams", STREAMS, false);
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
        ecornn_plan_create(&wrong, opened, "gru/infer/models:2/T1/N41/I5/H9/streams", NULL),
        ECORNN_UNSUPPORTED, "needs one model");
    void *const reserve = ecornn_alloc(opened, 64);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        check_ok(ecornn_plan_create(&wrong, opened, other[i].plan, NULL));
        io.reserve = i == 0 ? reserve : NULL;
        check_refused(ecornn_forward(wrong, 1, 3, &io), other[i].status, other[i].refusal);
        ecornn_plan_free(wrong);
    }
    ecornn_free(opened, reserve);
    streams_close(&s);
    ecornn_device_close(opened);
}
END_TEST

TEST_MAIN("streams", {streams_are_as_alone, DEVICES *PROBLEMS_}, {misuse, 1})
