/*
 * Plans for the CUDA device and single runs of them: what they print, what can be forced, and what
 * they refuse.  Skipped, with the reason, where there is no device.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/comparison.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

/* Makes a plan that may choose only this algorithm, or all if it is "", whatever the environment
 * says. */
static ecornn_status create_with(const char *algorithm, const ecornn_desc *desc, ecornn_plan **plan)
{
    const char *const value = getenv("ECORNN_ALGORITHM");
    char before[32];
    snprintf(before, sizeof before, "%s", value ? value : "");
    setenv("ECORNN_ALGORITHM", algorithm, 1);
    const ecornn_status status = ecornn_plan_create_desc(plan, device, desc);
    setenv("ECORNN_ALGORITHM", before, 1);
    return status;
}

/* The plan says whether its cell is compiled or interpreted; the test prints which it was. */
START_TEST(says_how_a_cell_runs)
{
    ecornn_cell *cell;
    ecornn_desc desc;
    ecornn_plan *plan;
    char text[4000];
    check_ok(ecornn_cell_parse(&cell, "cell own(h)\nh' = tanh(W x + R h + b)"));
    check_ok(parse_desc(&desc, "own/f32/infer/T2/N2/I4/H4", cell));
    for (int on = 0; on < 2; on++) {
        set_nvrtc(on ? NULL : "0");
        check_ok(create_with("", &desc, &plan));
        set_nvrtc(NULL);
        ecornn_plan_print(plan, text, sizeof text);
        char *line = strstr(text, "\ncell: ");
        ck_assert_msg(line != NULL, "%s", text);
        if (on)
            printf("# %.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        else
            ck_assert_msg(
                strstr(line, "interpreted (ECORNN_NVRTC is 0)") != NULL &&
                    strstr(text, "refuses: needs NVRTC to compile its kernels at run time"),
                "%s", text);
        ecornn_plan_free(plan);
    }
    ecornn_cell_free(cell);
}
END_TEST

/* Cells of one product, of two and with means, built in (no text) and not. */
static const struct {
    const char *name, *text;
} persistent[] = {
    {"own", "cell own(h)\nh' = R h + tanh(W x + b)"},
    {"own", "cell own(h, c)\ne = tanh(W x + R h)\nc' = c + R e\nh' = c' + b"},
    {"own",
     "cell own(h)\nu = W x + R h\nd = u - mean(u)\nh' = tanh(d / sqrt(mean(d * d) + 1e-5) + b)"},
    {"gru-reset-first", NULL},
    {"mgu", NULL},
};
enum { PERSISTENT = sizeof persistent / sizeof *persistent };

/* If the algorithm takes the problem, the plan says so, and that no step runs by another algorithm.
 */
static void check_plan(const char *algorithm, const ecornn_desc *desc, const char *says)
{
    char text[4000];
    ecornn_plan *plan;
    if (create_with(algorithm, desc, &plan) == ECORNN_OK) {
        ecornn_plan_print(plan, text, sizeof text);
        ck_assert_msg(strstr(text, says) && !strstr(text, "as in algorithm step"), "%s", text);
        ecornn_plan_free(plan);
    } else {
        ck_assert_msg(strstr(ecornn_error_detail(), "needs compute capability 8.0 or later") ||
                          strstr(ecornn_error_detail(), "needs NVRTC"),
                      "%s", ecornn_error_detail());
    }
}

/* If algorithm persistent takes a cell, it has kernels forward and backward, compiled by NVRTC for
 * cells from text. Otherwise the tests of persistent would test algorithm step. */
START_TEST(runs_all_steps_at_once)
{
    static const char *const type[] = {"f32", "f32/fast", "bf16", "f16"};
    char name[64];
    ecornn_cell *cell = NULL;
    ecornn_desc desc;
    const int which = _i % PERSISTENT;
    if (persistent[which].text)
        check_ok(ecornn_cell_parse(&cell, persistent[which].text));
    snprintf(name, sizeof name, "%s/%s/train/bi/T2/N2/I4/H64", persistent[which].name,
             type[_i / PERSISTENT]);
    check_ok(parse_desc(&desc, name, cell));
    check_plan("persistent", &desc, "persistent backward: ");
    ecornn_cell_free(cell);
}
END_TEST

/* The same for algorithm fused, whose steps would otherwise be those of algorithm step. */
START_TEST(runs_a_step_at_once)
{
    static const char *const type[] = {"f32", "f32/fast", "bf16", "f16"};
    char name[64];
    ecornn_cell *cell;
    ecornn_desc desc;
    check_ok(ecornn_cell_parse(&cell, persistent[0].text));
    snprintf(name, sizeof name, "own/%s/infer/T1/N2/I4/H64", type[_i]);
    check_ok(parse_desc(&desc, name, cell));
    check_plan("fused", &desc, "step: one launch");
    ecornn_cell_free(cell);
}
END_TEST

/* Memory that the device cannot reach is an error, and the device remains usable. */
START_TEST(refuses_memory_of_the_host)
{
    static float x[64];
    ecornn_desc desc;
    ecornn_plan *plan;
    check_ok(parse_desc(&desc, "gru/f32/infer/T2/N2/I4/H4", NULL));
    check_ok(ecornn_plan_create_desc(&plan, device, &desc));
    ecornn_sizes sizes;
    get_sizes(plan, &sizes);
    void *weights = ecornn_alloc(device, sizes.weight_bytes);
    void *workspace = ecornn_alloc(device, sizes.workspace_bytes);
    const ecornn_io io = {.size = sizeof io, .x = x, .weights = weights, .workspace = workspace};
    check_refused(forward_all(plan, &io), ECORNN_BAD_ARGUMENT, "io.x");
    check_ok(ecornn_wait(device, NULL));
    ecornn_free(device, weights);
    ecornn_free(device, workspace);
    ecornn_plan_free(plan);
}
END_TEST

/* The reserve has no second copy of y. */
START_TEST(needs_y_to_train)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    check_ok(parse_desc(&desc, "gru/f32/train/T2/N2/I4/H4", NULL));
    check_ok(ecornn_plan_create_desc(&plan, device, &desc));
    char *const memory = ecornn_alloc(device, 4096); /* nothing is read or written */
    const ecornn_io io = {.size = sizeof io,
                          .x = memory,
                          .weights = memory + 1024,
                          .workspace = memory + 2048,
                          .reserve = memory + 3072};
    const ecornn_gradient gradient = {.size = sizeof gradient};
    check_refused(forward_all(plan, &io), ECORNN_BAD_ARGUMENT, "io.y is NULL");
    check_refused(backward_all(plan, &io, &gradient), ECORNN_BAD_ARGUMENT, "io.y is NULL");
    ecornn_free(device, memory);
    ecornn_plan_free(plan);
}
END_TEST

/* A forced choice that is impossible is an error that names it. A possible one appears in the
 * plan's print. */
START_TEST(says_what_cannot_be_forced)
{
    static const struct {
        const char *force, *says; /* NULL: the choice is possible */
    } of[] = {
        {"algorithm=persistent,forward=mma:16x1", NULL},
        {"algorithm=persistent,backward=step,groups=1", NULL},
        {"algorithm=fused,fused=16,projection=8", NULL},
        {"algorithm=step,grouped=16,stream-k=1,scaled-f16=1,wavefront=1,rows=dense,chunk=1", NULL},
        {"algorithm=persistent,forward=mma-many:16x1", "does not support the forced division"},
        {"algorithm=persistent,backward=wgmma:64x1",
         "does not support the forced backward division"},
        {"algorithm=step,groups=1", "requires algorithm persistent"},
        {"algorithm=step,forward=mma:16x1", "requires algorithm persistent"},
        {"algorithm=step,fused=8", "requires algorithm fused"},
        {"algorithm=step,at-once=99", "at-once=99 is none of the values of that key: 1 to 16"},
        {"algorithm=step,step-tile=splitting:64x32x4", "prepared products of steps"}};
    ecornn_desc desc;
    check_ok(parse_desc(&desc, "lstm/f32/train/T2/N2/I4/H24", NULL));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ecornn_plan *plan;
        char text[4000];
        setenv("ECORNN_FORCE", of[i].force, 1);
        const ecornn_status status = ecornn_plan_create_desc(&plan, device, &desc);
        unsetenv("ECORNN_FORCE");
        if (of[i].says != NULL) {
            ck_assert_msg(
                status == ECORNN_UNSUPPORTED && strstr(ecornn_error_detail(), of[i].says) != NULL,
                "%s: %s", of[i].force, status == ECORNN_OK ? "no error" : ecornn_error_detail());
            continue;
        }
        ck_assert_msg(status == ECORNN_OK, "%s: %s", of[i].force, ecornn_error_detail());
        ecornn_plan_print(plan, text, sizeof text);
        ck_assert_msg(strstr(text, "forced: ") != NULL, "%s", text);
        ecornn_plan_free(plan);
    }
}
END_TEST

START_TEST(says_which_matrices_it_lacks)
{
    static const char *const of[][2] = {
        {"gated-delta/T2/N1/I1030/H2/key:513", "keys of at most 512 numbers"},
        {"gated-delta/f64/T2/N1/I518/H2/key:257", "at most 256 numbers on a GPU in F64"},
        {"gated-delta/T2/N1/I60050/H60000/key:24", "fit in shared memory"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ecornn_plan *plan;
        check_refused(ecornn_plan_create(&plan, device, of[i][0], NULL), ECORNN_UNSUPPORTED,
                      of[i][1]);
    }
}
END_TEST

START_TEST(says_when_memory_is_out)
{
    ck_assert_ptr_null(ecornn_alloc(device, (size_t)1 << 50));
    ck_assert_msg(strstr(ecornn_error_detail(), "no memory"), "%s", ecornn_error_detail());
    void *some = ecornn_alloc(device, 1 << 20);
    ck_assert_ptr_nonnull(some);
    ecornn_free(device, some);
}
END_TEST

/* Little work: as many segments as there are streams for them. */
START_TEST(replays_segments_beside_each_other)
{
    ecornn_desc desc;
    check_ok(parse_desc(&desc, "lstm/f32/train/T64/N2/I4/H64/save:every:8", NULL));
    check_plan("persistent", &desc, "segments of a replay on 6 streams");
}
END_TEST
GPU_TEST_MAIN("gpu plans", &device, {says_how_a_cell_runs, 1},
              {runs_all_steps_at_once, TYPES *PERSISTENT}, {runs_a_step_at_once, TYPES},
              {replays_segments_beside_each_other, 1}, {refuses_memory_of_the_host, 1},
              {needs_y_to_train, 1}, {says_what_cannot_be_forced, 1},
              {says_which_matrices_it_lacks, 1}, {says_when_memory_is_out, 1})
