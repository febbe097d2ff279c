/*
 * Wisdom: which plans use it, which must not, and how long looking it up takes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/backend.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/wisdom.h"

/* ---- plans ----------------------------------------------------------------------------------- */

START_TEST(makes_the_plan)
{
    ck_assert(!says(LSTM, "wisdom"));
    learn(LSTM CHUNK(7));
    ck_assert(says(LSTM, "wisdom: " LSTM ", 0.001 ms on 2026-01-31\n"));
    ck_assert(says(LSTM, "ECORNN_FORCE=algorithm=packed,chunk=7,"));
    ck_assert(says(LSTM, "algorithm packed, by wisdom of"));
    ck_assert(says(LSTM, "left out by wisdom"));
    learn(LSTM CHUNK(5)); /* the later entry wins */
    ck_assert(says(LSTM, ",chunk=5,"));
    ecornn_wisdom_forget();
    ck_assert(!says(LSTM, "wisdom"));
}
END_TEST

START_TEST(buckets)
{
    static const int32_t bucket[][2] = {{1, 1},   {16, 16}, {17, 24},   {24, 24},
                                        {25, 32}, {33, 48}, {129, 192}, {16777216, 16777216}};
    for (size_t i = 0; i < sizeof bucket / sizeof *bucket; i++)
        ck_assert_int_eq(eco_wisdom_bucket(bucket[i][0]), bucket[i][1]);
    learn("lstm/f32/infer/T100/N20/I64/H64" CHUNK(7) "lstm/f32/infer/T110/N21/I64/H64" CHUNK(9));
    ck_assert(
        says("lstm/f32/infer/T100/N20/I64/H64",
             ",chunk=7,")); /* the entry of this very size wins over a later one of its bucket */
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64",
                   ",chunk=9,")); /* the later entry of the bucket wins */
    ck_assert(!says("lstm/f32/infer/T129/N20/I64/H64", "wisdom"));
    ck_assert(!says("lstm/f32/infer/T100/N25/I64/H64", "wisdom"));
    ck_assert(!says("lstm/f32/infer/T100/N20/I64/H65", "wisdom"));
    ck_assert(!says("lstm/f32/train/T100/N20/I64/H64", "wisdom"));
    ck_assert(!says("gru/f32/infer/T100/N20/I64/H64", "wisdom"));
}
END_TEST

/* The latest entry of a bucket is still the latest after wisdom was written and read. */
START_TEST(keeps_the_order)
{
    static char text[WISDOM_TEXT];
    learn("lstm/f32/infer/T110/N21/I64/H64" CHUNK(9) "lstm/f32/infer/T100/N20/I64/H64" CHUNK(7));
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=7,"));
    strcpy(text, whole());
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_from_text(text));
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=7,"));
    learn("lstm/f32/infer/T110/N21/I64/H64" CHUNK(9)); /* again: now the latest */
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=9,"));
}
END_TEST

/* The plan's choices are the same whatever wisdom there is: with two entries, one of which the
 * planner itself may choose. */
static void takes_none(const char *problem, const char *entry, const char *other)
{
    static char before[WISDOM_PRINT];
    learn(entry);
    strcpy(before, strstr(plan_of(problem, NULL), "ECORNN_FORCE="));
    learn(other);
    ck_assert_str_eq(strstr(plan_of(problem, NULL), "ECORNN_FORCE="), before);
}

/* Plans do not take an entry that does not fit. Row-invariant plans do not take choices that cut
 * sums. */
START_TEST(not_taken)
{
#define LIMITED   "lstm/f32/train/T100/N20/I64/H64/memory:64M"
#define INVARIANT "lstm/f32/row-invariant/train/T100/N20/I64/H64"
    takes_none(LIMITED, LIMITED CHUNK(7), LIMITED CHUNK(9));
    ck_assert(strstr(wisdom_print, "wisdom") == NULL);
    takes_none(INVARIANT, INVARIANT CHUNK(7), INVARIANT CHUNK(9));
    ck_assert(strstr(wisdom_print, "wisdom: ") != NULL);
}
END_TEST

START_TEST(of_another_device)
{
    static char other[ECO_MAX_IDENTITY], before[WISDOM_PRINT];
    strcpy(before, plan_of(LSTM, NULL));
    strcpy(other, wisdom_device->identity);
    memcpy(strstr(other, "threads=2"), "threads=4", 9);
    check_ok(ecornn_wisdom_from_text(text_of(other, LSTM CHUNK(7))));
    static const char note[] = "wisdom: of another device, not used: threads=4, here threads=2\n";
    ck_assert(says(LSTM, note));
    ck_assert_str_eq(strstr(wisdom_print, "ECORNN_FORCE="), strstr(before, "ECORNN_FORCE="));
    ck_assert(strstr(whole(), LSTM) != NULL); /* kept */
    memcpy(strstr(other, "threads=4"), "threads=2", 9);
    memcpy(strstr(other, "version="), "version=9", 9);
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_from_text(text_of(other, LSTM CHUNK(7))));
    ck_assert(says(LSTM, "not used: version=9"));
    learn(LSTM CHUNK(7)); /* an entry of this device is added */
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* Refuses a choice that this build does not know or cannot make. */
START_TEST(refused_choices)
{
    ecornn_desc desc;
    ck_assert_int_eq(parse_desc(&desc, "nothing", NULL), ECORNN_BAD_ARGUMENT);
    learn(LSTM " - @ algorithm=packed,vectors=9 1000 10 2026-01-31\n");
    ck_assert(says(LSTM, ", refused: ECORNN_FORCE: vectors=9 is none of the values"));
    ck_assert(strstr(wisdom_print,
                     "; the planner chose\nalgorithm packed, the fastest by estimate") != NULL);
    ck_assert(strstr(ecornn_error_detail(), "nothing") != NULL); /* the plan itself did not fail */
    learn(LSTM " - @ algorithm=none 1000 10 2026-01-31\n");
    ck_assert(says(LSTM, "the planner chose"));
}
END_TEST

START_TEST(variables_count_more)
{
    static const char *const variable[][2] = {
        {"ECORNN_FORCE", "chunk=3"}, {"ECORNN_ALGORITHM", "packed"}, {"ECORNN_GRID", "1x1x1"}};
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        ck_assert_int_eq(setenv(variable[i][0], variable[i][1], 1), 0);
        takes_none(LSTM, LSTM CHUNK(7), LSTM CHUNK(9));
        ck_assert_msg(!says(LSTM, "wisdom"), "%s", variable[i][0]);
        ck_assert_int_eq(unsetenv(variable[i][0]), 0);
    }
    ck_assert(says(LSTM, ",chunk=9,"));
}
END_TEST

/* Wisdom is not used for cells from text, whose names identify nothing. */
START_TEST(cells_from_text)
{
    static const char *const texts[] = {"cell lstm(h)\nh' = tanh(W x + R h + b)\n",
                                        "cell lstm(h)\nh' = tanh(W x + R h + b) * 0.5\n"};
    ecornn_cell *cell[2];
    char lines[200];
    for (int i = 0; i < 2; i++)
        check_ok(ecornn_cell_parse(&cell[i], texts[i]));
    learn(LSTM CHUNK(7));
    ck_assert(strstr(plan_of(LSTM, cell[0]), "wisdom") == NULL);
    snprintf(lines, sizeof lines,
             LSTM " %016" PRIx64 " @ algorithm=packed,chunk=9 1000 10 2026-01-31\n",
             eco_cell_identity(cell[0]));
    learn(lines);
    ck_assert(strstr(plan_of(LSTM, cell[0]), ",chunk=9,") != NULL);
    ck_assert(strstr(plan_of(LSTM, cell[1]), "wisdom") == NULL);
    ck_assert(says(LSTM, ",chunk=7,"));
    for (int i = 0; i < 2; i++)
        ecornn_cell_free(cell[i]);
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Takes the least of many times, so that other programs do not matter. */
static double time_of_plan(const char *problem)
{
    double least = 1;
    ecornn_desc desc;
    check_ok(parse_desc(&desc, problem, NULL));
    for (int i = 0; i < 200; i++) {
        ecornn_plan *plan;
        const double begin = seconds();
        check_ok(ecornn_plan_create_desc(&plan, wisdom_device, &desc));
        const double time = seconds() - begin;
        least = time < least ? time : least;
        ecornn_plan_free(plan);
    }
    return least;
}

START_TEST(plans_are_made_as_fast)
{
    enum { LINES = 10000, ROOM = 150 * LINES };
    char *text = malloc(ROOM);
    ck_assert_ptr_nonnull(text);
    const double before = time_of_plan(LSTM);
    size_t n = (size_t)snprintf(text, ROOM, "%s", text_of(wisdom_device->identity, ""));
    for (int k = 0; k < LINES; k++)
        n += (size_t)snprintf(text + n, ROOM - n,
                              "lstm/f32/infer/T100/N20/I64/H%d - %016" PRIx64
                              " algorithm=packed,chunk=7 1000 10 2026-01-31\n",
                              64 + k, wisdom_device->id);
    ck_assert_uint_lt(n, ROOM);
    const double begin = seconds();
    check_ok(ecornn_wisdom_from_text(text));
    const double read = seconds() - begin;
    const double found = time_of_plan(LSTM), none = time_of_plan("gru/T100/N20/I64/H64");
    printf("# plan: %.2f us; with %d lines: found %.2f us, none for it %.2f us; read in %.1f ms\n",
           1e6 * before, LINES, 1e6 * found, 1e6 * none, 1e3 * read);
    ck_assert(found < before + 50e-6);
    free(text);
}
END_TEST

TEST_MAIN_AROUND("wisdom", wisdom_open, wisdom_close, {makes_the_plan, 1}, {buckets, 1},
                 {keeps_the_order, 1}, {not_taken, 1}, {of_another_device, 1}, {refused_choices, 1},
                 {variables_count_more, 1}, {cells_from_text, 1}, {plans_are_made_as_fast, 1})
