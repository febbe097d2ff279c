/*
 * A memory limit must not change bits. Plans of one problem on 1 to 64 threads make the same
 * choices, as far as bits depend on them, and give the same bits. F32 does not use the CBLAS.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { DEVICES = 5, DRAWN = 1500 };
static const char *const name[DEVICES] = {"cpu:1", "cpu:2", "cpu:3", "cpu:4", "cpu:64"};
static ecornn_device *device[DEVICES];

static void open_devices(void)
{
    unsetenv("ECORNN_ALGORITHM");
    unsetenv("ECORNN_FORCE");
    for (int d = 0; d < DEVICES; d++)
        check_ok(ecornn_device_open(&device[d], name[d]));
}

static void close_devices(void)
{
    for (int d = 0; d < DEVICES; d++)
        ecornn_device_close(device[d]);
}

/* ---- choices --------------------------------------------------------------------------------- */

static int draw(uint64_t *state, int most)
{
    return 1 + (int)(uniform(state) * most);
}

/* Draws a cell, a type and sizes. Some sizes are multiples of a cache line; their rows are copied.
 */
static ecornn_desc draw_problem(uint64_t *state)
{
    static const ecornn_type type[] = {ECORNN_F32, ECORNN_F32, ECORNN_F32, ECORNN_BF16, ECORNN_F64};
    ecornn_desc desc = {.size = sizeof desc,
                        .cell = builtin_cell(cell_name(draw(state, builtin_count()) - 1)),
                        .type = type[draw(state, 5) - 1],
                        .input = draw(state, 2) == 1 ? draw(state, 200) : 64 * draw(state, 16),
                        .hidden = draw(state, 2) == 1 ? draw(state, 200) : 1 << draw(state, 9),
                        .steps = draw(state, 400),
                        .batch = draw(state, 2) == 1 ? draw(state, 8) : draw(state, 200),
                        .layers = draw(state, 3),
                        .flags = draw(state, 3) > 1 ? ECORNN_TRAINING : 0,
                        .memory_limit = UINT64_C(1) << (11 + draw(state, 17))};
    desc.memory_limit += (uint64_t)(uniform(state) * (double)desc.memory_limit);
    desc.weight_type = desc.type == ECORNN_F32 && draw(state, 4) == 1 ? ECORNN_BF16 : desc.type;
    if (draw(state, 4) == 1)
        desc.flags |= ECORNN_BIDIRECTIONAL;
    return desc;
}

/* Prints the choices that decide where sums are cut and what is computed again. */
static void print_choices(const struct ecornn_plan *plan, char *text, size_t size)
{
    const struct eco_cpu_request *cpu = &plan->request.cpu;
    snprintf(text, size, "%s save %d:%d chunk %d back %d pack %d gradient %d blocks %d wide %d",
             plan->algo->name, (int)plan->problem.saving.policy, plan->problem.saving.every,
             plan->request.chunk, plan->request.chunk_backward, cpu->pack_rows, cpu->gradient_rows,
             cpu->block_steps, cpu->wide);
}

static void check_one(const ecornn_desc *desc, int *made)
{
    ecornn_plan *plan[DEVICES] = {NULL};
    char text[DEVICES][200], problem[320];
    for (int d = 0; d < DEVICES; d++) {
        const ecornn_status status = ecornn_plan_create_desc(&plan[d], device[d], desc);
        ck_assert_msg((status == ECORNN_OK) == (d == 0 || plan[0] != NULL) || d == 0,
                      "%s: %s, but %s has a plan or none", name[d], ecornn_error_detail(), name[0]);
        if (status != ECORNN_OK)
            continue;
        print_choices(plan[d], text[d], sizeof text[d]);
        snprintf(problem, sizeof problem, "%s", plan[d]->problem.text);
        ck_assert_msg(strcmp(text[d], text[0]) == 0, "%s: %s has %s, %s has %s", problem, name[0],
                      text[0], name[d], text[d]);
        ck_assert_msg(desc->type != ECORNN_F32 || strcmp(plan[d]->algo->name, "blas") != 0,
                      "%s: blas on %s", problem, name[d]);
        ck_assert_uint_le(plan[d]->sizes.workspace_bytes + plan[d]->sizes.reserve_bytes,
                          desc->memory_limit);
        *made += d == 0;
    }
    for (int d = 0; d < DEVICES; d++)
        ecornn_plan_free(plan[d]);
}

START_TEST(choices_do_not_depend_on_threads)
{
    uint64_t state = 47;
    int made = 0;
    for (int k = 0; k < DRAWN; k++) {
        const ecornn_desc desc = draw_problem(&state);
        check_one(&desc, &made);
    }
    ck_assert_int_gt(made, DRAWN / 4);
}
END_TEST

/* The least memory of one thread does not suffice for the arrays that two threads share. */
START_TEST(threads_take_what_room_is_left)
{
    static const char wide[] = "gru/f32/train/T60/N9/I512/H128";
    ecornn_desc desc;
    ecornn_plan *plan;
    check_ok(parse_desc(&desc, wide, NULL));
    desc.memory_limit = 1;
    ck_assert_int_eq(ecornn_plan_create_desc(&plan, device[3], &desc), ECORNN_BAD_ARGUMENT);
    const char *named = strstr(ecornn_error_detail(), "at least ");
    ck_assert_ptr_nonnull(named);
    const uint64_t least = strtoull(named + strlen("at least "), NULL, 10);
    for (int more = 0; more < 2; more++) {
        desc.memory_limit = least + (uint64_t)more * 8192;
        check_ok(ecornn_plan_create_desc(&plan, device[3], &desc));
        ck_assert_int_eq(plan->request.cpu.run_threads, more ? 4 : 1);
        ecornn_plan_free(plan);
    }
}
END_TEST

/* ---- bits ------------------------------------------------------------------------------------ */

/* Under these limits fewer than four threads fit, or chunks are short. */
static const char *const limited[] = {
    "lstm/f32/train/T10/N9/I18/H38/memory:64K",    "gru/f32/train/T60/N9/I512/H128/memory:348480",
    "lstm/bf16/train/T40/N6/I64/H96/memory:1M",    "lstm/f64/train/T50/N5/I20/H40/memory:400K",
    "min-gru/f32/train/T300/N3/I32/H40/memory:1M", "gru/f32/infer/T10/N9/I18/H38/memory:48K",
};
enum { LIMITED = sizeof limited / sizeof *limited };

START_TEST(bits_do_not_depend_on_threads)
{
    struct test_case test;
    struct data inputs = {0}, results[2] = {{0}};
    ck_assert(case_parse(&test, limited[_i]));
    case_inputs(&test, &inputs);
    for (int d = 0; d < 4; d++) {
        const struct machine machine = {device[d], test.desc.type, 1, NULL};
        ck_assert(case_run(&test, &machine, &inputs, &results[d > 0]));
        if (d > 0)
            ck_assert(results_same(&test, name[d], &results[0], &results[1]));
        if (d > 0)
            data_free(&results[1]);
    }
    data_free(&results[0]);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

/* ---- wisdom ---------------------------------------------------------------------------------- */

/* A line that names the CBLAS for F32 is refused, and the plan says so. */
START_TEST(wisdom_does_not_take_the_cblas)
{
    static const char problem[] = "lstm/f32/train/T10/N9/I18/H38";
    char text[2048], plan_text[8192];
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_wisdom_forget();
    snprintf(text, sizeof text,
             "ecornn-wisdom 1\ndevice %016llx %s\n%s - %016llx algorithm=blas 5 1 2026-01-01\n",
             (unsigned long long)device[0]->id, device[0]->identity, problem,
             (unsigned long long)device[0]->id);
    check_ok(ecornn_wisdom_from_text(text));
    check_ok(parse_desc(&desc, problem, NULL));
    check_ok(ecornn_plan_create_desc(&plan, device[0], &desc));
    ck_assert_str_eq(plan->algo->name, "packed");
    ecornn_plan_print(plan, plan_text, sizeof plan_text);
    ck_assert_ptr_nonnull(strstr(plan_text, "another order for other numbers of rows"));
    ecornn_plan_free(plan);
    ecornn_wisdom_forget();
}
END_TEST

TEST_MAIN_AROUND("limit", open_devices, close_devices, {choices_do_not_depend_on_threads, 1},
                 {threads_take_what_room_is_left, 1}, {bits_do_not_depend_on_threads, LIMITED},
                 {wisdom_does_not_take_the_cblas, 1})
