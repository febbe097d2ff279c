/*
 * Texts of wisdom: they are written and read again, wrong ones are refused, and memory runs out.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/wisdom.h"

START_TEST(says_it_again)
{
    static char first[WISDOM_TEXT];
    learn("# a remark\n\n" LSTM CHUNK(7) "gru/f32/train/T2/N3/I4/H5" CHUNK(1));
    strcpy(first, whole());
    ecornn_wisdom_forget();
    ck_assert_str_eq(whole(), WISDOM_HEAD);
    check_ok(ecornn_wisdom_from_text(first));
    ck_assert_str_eq(whole(), first);
    check_ok(ecornn_wisdom_from_text(first)); /* reading a text again adds nothing */
    ck_assert_str_eq(whole(), first);
    ck_assert_int_eq(ecornn_wisdom_to_text(NULL, 0), (int)strlen(first));
}
END_TEST

/* A line of another version is kept, even if this version cannot parse its problem. It does not
 * affect other lines. */
START_TEST(problems_of_another_version)
{
    static char other[ECO_MAX_IDENTITY], text[WISDOM_TEXT];
    static const char line[] = "none/f32/quickly/T1/N99999999999999999999" CHUNK(1);
    strcpy(other, wisdom_device->identity);
    memcpy(strstr(other, "version="), "version=9", 9);
    learn(LSTM CHUNK(7));
    strcpy(text, text_of(other, line));
    check_ok(ecornn_wisdom_from_text(text));
    ck_assert_ptr_nonnull(strstr(whole(), "\nnone/f32/quickly/"));
    ck_assert(says(LSTM, ",chunk=7,"));
    strcpy(text, whole());
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_from_text(text));
    ck_assert_str_eq(whole(), text);
}
END_TEST

/* Each remark stays before the line that it is about. Of equal remarks the first stays. */
START_TEST(keeps_remarks)
{
    static const char lines[] = "# of both\n" LSTM CHUNK(7) "#\ngru/f32/train/T2/N3/I4/H5" CHUNK(
        1) "# of both\n# last, and no lstm * @\n",
                      read[] = "# of both\n" LSTM CHUNK(7) "#\ngru/f32/train/T2/N3/I4/H5" CHUNK(
                          1) "# last, and no lstm * @\n";
    static char before[WISDOM_TEXT], text[1 << 20];
    learn(lines);
    strcpy(before, whole());
    ck_assert_str_eq(before, text_of(wisdom_device->identity, read));
    learn(LSTM CHUNK(9)); /* the old entry goes, its remark stays */
    ck_assert(strstr(whole(), "# of both\n#\ngru") != NULL);
    size_t n = (size_t)snprintf(text, sizeof text, WISDOM_HEAD);
    for (int k = 0; k <= 1 << 18; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "#%c\n", 'a' + k % 26);
    check_refused(ecornn_wisdom_from_text(text), ECORNN_BAD_ARGUMENT,
                  "text:262146: too many lines");
}
END_TEST

/* The largest text, with the maximum of devices and three lines for each problem, is read,
 * and the last line of each problem is kept. */
START_TEST(large_text)
{
    enum { MANY = 4096, MOST = 16 << 20, TIMES = 3, LINES = 200000 };
    static char text[MOST + 2];
    static uint64_t id[MANY];
    size_t n = (size_t)snprintf(text, MOST, WISDOM_HEAD);
    for (int k = 0; k < MANY; k++) {
        char words[40];
        snprintf(words, sizeof words, "cpu plain threads=%d name=x", k);
        id[k] = eco_hash(ECO_HASH, words, strlen(words));
        n += (size_t)snprintf(text + n, MOST - n, "device %016" PRIx64 " %s\n", id[k], words);
    }
    for (int k = 0; k < LINES; k++)
        n += (size_t)snprintf(text + n, MOST - n,
                              "p%d - %016" PRIx64 " algorithm=x %d 1 2026-01-31\n",
                              k % (LINES / TIMES), id[k % (LINES / TIMES) % MANY], k + 1);
    ck_assert_uint_lt(n, MOST);
    check_ok(ecornn_wisdom_from_text(text));
    const int length = ecornn_wisdom_to_text(NULL, 0);
    char *written = malloc((size_t)length + 1), last[64];
    ecornn_wisdom_to_text(written, (size_t)length + 1);
    int kept = 0;
    for (const char *at = written; (at = strstr(at, "\np")) != NULL; at++)
        kept++;
    ck_assert_int_eq(kept, LINES / TIMES);
    snprintf(last, sizeof last, " algorithm=x %d 1 2026-01-31\n", LINES); /* in order */
    ck_assert_str_eq(written + length - strlen(last), last);
    free(written);
    memset(text + n, '\n', sizeof text - 1 - n);
    check_refused(ecornn_wisdom_from_text(text), ECORNN_BAD_ARGUMENT, "larger than 16 MiB");
}
END_TEST

/* Wrong lines, and the error. They follow the line of the device, which is the second. */
static const struct {
    const char *lines, *words;
} wrong[] = {
    {"lstm", "text:3: the line does not end"},
    {"\n\nlstm\n", "text:5: the line is not PROBLEM"},
    {LSTM " - @ algorithm=packed 1000 10 2026-01-31", "text:3: the line does not end"},
    {LSTM " x @ algorithm=packed 1000 10 2026-01-31\n", "text:3: the cell is neither"},
    {LSTM " 0000000000000000 @ algorithm=packed 1000 10 2026-01-31\n", "the cell is neither"},
    {LSTM " - 0 algorithm=packed 1000 10 2026-01-31\n", "the device is not 16 digits"},
    {LSTM " - 0123456789abcdef algorithm=packed 1000 10 2026-01-31\n", "describes the device"},
    {LSTM " - @ packed 1000 10 2026-01-31\n", "the choices are not"},
    {LSTM " - @ algorithm=packed,, 1000 10 2026-01-31\n", "the choices are not"},
    {LSTM " - @ algorithm=packed,chunk= 1000 10 2026-01-31\n", "the choices are not"},
    {LSTM " - @ algorithm=packed,chunk=%n 1000 10 2026-01-31\n", "the choices are not"},
    {LSTM " - @ algorithm=packed 0 10 2026-01-31\n", "two numbers of nanoseconds"},
    {LSTM " - @ algorithm=packed -1 10 2026-01-31\n", "two numbers of nanoseconds"},
    {LSTM " - @ algorithm=packed 1e9 10 2026-01-31\n", "two numbers of nanoseconds"},
    {LSTM " - @ algorithm=packed 1234567890123456789 1 2026-01-31\n", "two numbers of nanoseconds"},
    {LSTM " - @ algorithm=packed 1000 2026-01-31\n", "the line is not PROBLEM"},
    {LSTM " - @ algorithm=packed 1000 2026-01-31 x\n", "two numbers of nanoseconds"},
    {LSTM " - @ algorithm=packed 1000 10 31.1.2026\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 9999-99-99\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 2026-00-01\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 2026-12-32\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 2026-01-31 x\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10\n", "the line is not PROBLEM"},
    {LSTM "  - @ algorithm=packed 1000 10 2026-01-31\n", "the line is not PROBLEM"},
    {"lstm/T100/N20/I64/H64" CHUNK(1), "not as a plan prints it"},
    {"lstm/f32/infer/T0/N20/I64/H64" CHUNK(1), "T is 0"},
    {"none/f32/infer/T1/N20/I64/H64" CHUNK(1), "no built-in cell"},
    {"lstm/f32/infer/T1/N20/I64/H64/x" CHUNK(1), "is not a valid part of"},
    {"device 0123456789abcdef cpu\n", "the hash is not that of the device"},
    {"device x cpu\n", "a hash of 16 digits"},
    {"device 0123456789abcdef\n", "the line is not device HASH"},
    {LSTM "\t- @ algorithm=packed 1000 10 2026-01-31\n", "a control character"},
    {"ecornn-wisdom 1\n", "text:3: the line is not PROBLEM"},
};
enum { WRONG = sizeof wrong / sizeof *wrong };

START_TEST(refuses_a_text)
{
    static char before[WISDOM_TEXT];
    learn(LSTM CHUNK(7));
    strcpy(before, whole());
    ck_assert_int_eq(ecornn_wisdom_from_text(text_of(wisdom_device->identity, wrong[_i].lines)),
                     ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), wrong[_i].words) != NULL, "%s: %s", wrong[_i].lines,
                  ecornn_error_detail());
    ck_assert_str_eq(whole(), before);
}
END_TEST

START_TEST(refuses_the_rest)
{
    static char text[WISDOM_TEXT];
    static const char *const first[] = {"", "\n", "ecornn-wisdom 2\n", "ecornn-wisdom 1",
                                        " " WISDOM_HEAD};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        ck_assert_int_eq(ecornn_wisdom_from_text(first[i]), ECORNN_BAD_ARGUMENT);
    snprintf(text, sizeof text, WISDOM_HEAD "%01100d\n", 1);
    check_refused(ecornn_wisdom_from_text(text), ECORNN_BAD_ARGUMENT,
                  "text:2: the line is too long");
    memcpy(text, WISDOM_HEAD "#\0\n", 20);
    check_refused(eco_wisdom_add(text, 19, "zero"), ECORNN_BAD_ARGUMENT,
                  "zero:2: the line has a zero byte");
    check_ok(ecornn_wisdom_from_text(WISDOM_HEAD));
    ck_assert_int_eq(ecornn_wisdom_from_text(NULL), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(ecornn_wisdom_to_text(NULL, 1), -1);
}
END_TEST

START_TEST(no_memory)
{
    static char before[WISDOM_TEXT], text[WISDOM_TEXT];
    learn(LSTM CHUNK(7));
    strcpy(before, whole());
    strcpy(text, text_of(wisdom_device->identity, LSTM CHUNK(9)));
    ecornn_status status = ECORNN_NO_MEMORY;
    for (int k = 1; status == ECORNN_NO_MEMORY; k++) {
        ck_assert_int_lt(k, 20);
        ck_assert_str_eq(whole(), before);
        eco_alloc_fail_at(k);
        status = ecornn_wisdom_from_text(text);
        eco_alloc_fail_at(0);
    }
    ck_assert_int_eq(status, ECORNN_OK);
    ck_assert(says(LSTM, ",chunk=9,"));
}
END_TEST

TEST_MAIN_AROUND("wisdom texts", wisdom_open, wisdom_close, {says_it_again, 1},
                 {problems_of_another_version, 1}, {keeps_remarks, 1}, {large_text, 1},
                 {refuses_a_text, WRONG}, {refuses_the_rest, 1}, {no_memory, 1})
