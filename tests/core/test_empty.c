/*
 * Runs of no steps or no rows, and cells without parameters. On every device, forward and backward,
 * results that must be zero are zero, and nothing else is read or written.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "tests/kit/calls.h"
#include "tests/kit/suite.h"
#include "tests/kit/trial.h"

/* ---- empty runs ------------------------------------------------------------------------------ */

static const char *const device[] = {"cpu:1", "cpu:2", "reference", "cuda"};
enum { DEVICES = sizeof device / sizeof *device };
static const char *const problem[] = {"lstm/train/L2/bi/T5/N3/I4/H7/P6/dropout:0.5",
                                      "lstm/f64/train/rev/T5/N3/I4/H7/resets",
                                      "gru/train/L3/T5/N3/I4/H9/batch-major",
                                      "lstm/bf16/train/bi/T5/N3/I4/H7",
                                      "lstm/f16/train/T5/N3/I4/H8",
                                      "rnn-tanh/T5/N3/I4/H8"};
enum { PROBLEMS_ = sizeof problem / sizeof *problem };
static const struct {
    int steps, batch;
} sizes[] = {{0, 3}, {0, 2}, {0, 3}, {5, 0}, {4, 0}, {1, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* The array's part in the run must be that of `from`, or zero if it is NULL; the rest of it, up to
 * the planned run, must be as it was sent. */
static void check_array(const struct trial *trial, int role, int s, const struct trial_array *from)
{
    const struct trial_array *const array = &trial->array[0][role][s];
    char *const now = malloc(array->room + 1);
    if (array->room > 0)
        check_ok(ecornn_download(trial->device, now, array->there, array->room));
    for (size_t i = 0; i < array->room; i++)
        ck_assert_msg(now[i] == (i >= array->bytes ? array->host[i]
                                 : from            ? from->host[i]
                                                   : 0),
                      "%s[%d], byte %zu", trial_role(role), s, i);
    free(now);
}

/* given: the run has initial states, and gradients of the final ones. */
static void check_run(struct trial *trial, int32_t steps, int32_t rows, bool given)
{
    ecornn_io io = {.size = sizeof io};
    ecornn_gradient gradient = {.size = sizeof gradient};
    trial_size(trial, trial->sizes.steps, trial->sizes.batch, 0);
    trial_fill(trial, 1);
    memset(trial->array[0][LENGTHS][0].host, 0, trial->array[0][LENGTHS][0].bytes);
    trial_send(trial);
    check_ok(ecornn_wait(trial->device, NULL));
    trial_size(trial, steps, rows, 0);
    for (int s = 0; s < TRIAL_STATES; s++) {
        io.initial[s] = given ? trial->io.initial[s] : NULL;
        io.final[s] = trial->io.final[s];
        gradient.dfinal[s] = given ? trial->gradient.dfinal[s] : NULL;
        gradient.dinitial[s] = trial->gradient.dinitial[s];
        gradient.dreset_state[s] = trial->gradient.dreset_state[s];
    }
    io.lengths = given ? (void *)trial->array[0][LENGTHS][0].there : NULL;
    check_ok(ecornn_forward(trial->plan, steps, rows, &io));
    if (trial->trains)
        check_ok(ecornn_backward(trial->plan, steps, rows, &io, &gradient));
    check_ok(ecornn_wait(trial->device, NULL));
    for (int s = 0; s < TRIAL_STATES; s++) {
        const struct trial_array *const initial = &trial->array[0][INITIAL][s],
                                        *const dfinal = &trial->array[0][DFINAL][s];
        check_array(trial, FINAL, s, given ? initial : NULL);
        check_array(trial, DINITIAL, s, given ? dfinal : NULL);
        check_array(trial, DSTART, s, NULL);
        check_array(trial, INITIAL, s, initial), check_array(trial, DFINAL, s, dfinal);
        io.initial[s] = io.final[s]; /* the same memory */
    }
    check_ok(ecornn_forward(trial->plan, steps, rows, &io));
    check_ok(ecornn_wait(trial->device, NULL));
}

/* The gradient of the weights must be zero, or unchanged if backward adds to it. */
static void check_dweights(ecornn_device *on, const ecornn_plan *plan)
{
    ecornn_sizes bytes;
    get_sizes(plan, &bytes);
    unsigned char *host = malloc(bytes.dweight_bytes);
    memset(host, 77, bytes.dweight_bytes);
    void *dweights = ecornn_alloc(on, bytes.dweight_bytes);
    check_ok(ecornn_upload(on, dweights, host, bytes.dweight_bytes));
    const ecornn_io io = {
        .size = sizeof io,
    };
    ecornn_gradient gradient = {.size = sizeof gradient, .dweights = dweights, .add = 1};
    for (int k = 0; k < 2; k++) {
        check_ok(ecornn_backward(plan, 0, 2, &io, &gradient));
        check_ok(ecornn_wait(on, NULL));
        check_ok(ecornn_download(on, host, dweights, bytes.dweight_bytes));
        for (size_t i = 0; i < bytes.dweight_bytes; i++)
            ck_assert(host[i] == (k == 0 ? 77 : 0));
        gradient.add = 0;
    }
    ecornn_free(on, dweights);
    free(host);
}

START_TEST(empty_runs)
{
    const char *const name = device[_i / PROBLEMS_];
    static struct trial trial;
    ecornn_plan *plan;
    if (suite_lacks(name))
        return;
    ecornn_device *const on = device_on(name);
    const ecornn_status status = ecornn_plan_create(&plan, on, problem[_i % PROBLEMS_], NULL);
    if (status != ECORNN_UNSUPPORTED) { /* a CPU does not support F16 */
        check_ok(status);
        trial_open_plan(&trial, on, plan);
        for (int size = 0; size < SIZES; size++)
            for (int given = 0; given < 2; given++)
                check_run(&trial, sizes[size].steps, sizes[size].batch, given);
        if (trial.trains)
            check_dweights(on, plan);
        trial_close(&trial);
        ecornn_plan_free(plan);
    }
    ecornn_device_close(on);
}
END_TEST

/* Empty runs refuse wrong arguments too, and an empty chunk keeps the reserve of the chunk before
 * it. */
START_TEST(empty_among_others)
{
    static struct trial trial, before;
    const struct part now = {.of = &trial}, then = {.of = &before};
    const int32_t lengths[] = {0, 1, 0};
    trial_open_on(&trial, device[_i], "lstm/f32/train/L2/bi/T5/N3/I4/H110");
    trial_fill(&trial, 1);
    trial_run(&trial);
    trial_open_beside(&before, &trial);
    for (int role = Y; role < ROLES; role++)
        part_copy(then, role, now, role);
    ecornn_io io = trial.io;
    io.initial[0] = io.final[0];
    io.initial[1] = io.final[1];
    check_ok(ecornn_forward(trial.plan, 0, trial.N, &io));
    io.lengths = lengths;
    REFUSES(ecornn_forward(trial.plan, 0, trial.N, &io), "io.lengths[1] is 1, must be 0 to 0");
    io.lengths = NULL;
    io.weights = (char *)trial.weights + 1;
    REFUSES(ecornn_forward(trial.plan, 0, trial.N, &io), "io.weights");
    check_ok(backward_all(trial.plan, &trial.io, &trial.gradient));
    trial_fetch(&trial);
    part_check(now, then, Y, DPARAMS, "after an empty run");
    trial_close(&before), trial_close(&trial);
}
END_TEST

/* ---- cells without parameters ---------------------------------------------------------------- */

static bool set(struct part_row a, struct part_row b, void *value)
{
    (void)b;
    for (size_t i = 0; i < a.array->row / a.array->element; i++)
        eco_type_set(a.at, i, a.array->type, *(double *)value);
    return true;
}

static bool holds(struct part_row a, struct part_row b, void *value)
{
    (void)b;
    for (size_t i = 0; i < a.array->row / a.array->element; i++)
        ck_assert(eco_type_get(a.at, i, a.array->type) == *(double *)value);
    return true;
}

/* The cell halves its state, so that three steps turn 8 into 1, forward and backward. Without
 * initial states it begins with 8. */
static void check_half(struct trial *trial)
{
    double one = 1, eight = 8;
    const struct part all = {.of = trial};
    part_each(all, INITIAL, all, INITIAL, set, &eight);
    part_each(all, DFINAL, all, DFINAL, set, &eight);
    trial->gradient.dy = NULL;
    trial_run(trial);
    part_each(all, FINAL, all, FINAL, holds, &one);
    part_each(all, DINITIAL, all, DINITIAL, holds, &one);
    trial->io.initial[0] = NULL;
    trial_run(trial);
    part_each(all, FINAL, all, FINAL, holds, &one);
    check_ok(ecornn_forward(trial->plan, 0, trial->N, &trial->io));
    trial_download(trial);
    part_each(all, FINAL, all, FINAL, holds, &eight);
}

static const char *const form[] = {"", "/f64", "/bf16", "/bf16-weights"};
enum { FORMS = sizeof form / sizeof *form };

START_TEST(no_parameters)
{
    static struct trial trial;
    char text[64];
    ecornn_cell *cell;
    ecornn_param param;
    if (suite_lacks(device[_i / FORMS]))
        return;
    ecornn_device *const on = device_on(device[_i / FORMS]);
    check_ok(ecornn_cell_parse(&cell, "cell half(h = 8)\nh' = 0.5 * h\n"));
    snprintf(text, sizeof text, "half%s/train/bi/L2/T3/N2/I1/H4", form[_i % FORMS]);
    trial_open(&trial, on, text, cell);
    ck_assert_uint_eq(trial.sizes.weight_bytes, 0);
    ck_assert_int_eq(trial.sizes.param_count, 0);
    REFUSES(param_at(trial.plan, 0, &param), "no parameters");
    const void *none = NULL;
    void *dnone = NULL;
    check_ok(ecornn_pack(trial.plan, &none, NULL, trial.weights, NULL));
    check_ok(ecornn_pack(trial.plan, NULL, NULL, NULL, NULL));
    check_ok(ecornn_unpack(trial.plan, trial.dweights, &dnone, 0, NULL));
    check_half(&trial);
    trial_close(&trial);
    ecornn_cell_free(cell);
    ecornn_device_close(on);
}
END_TEST

TEST_MAIN("empty", {empty_runs, DEVICES *PROBLEMS_}, {empty_among_others, 3},
          {no_parameters, DEVICES *FORMS})
