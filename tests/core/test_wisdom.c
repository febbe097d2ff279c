/*
 * Wisdom: which plans it makes, and which it must not; texts that are wrong; files, processes,
 * threads, memory that is not there; and how long a plan waits for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/backend.h"
#include "common/wisdom/wisdom.h"
#include "tests/kit/suite.h"

enum { PRINT = 1 << 14, TEXT = 1 << 12 };
#define HEAD "ecornn-wisdom 1\n"

static ecornn_device *device;
static char print[PRINT];

static void open_cpu(void)
{
    ck_assert_int_eq(setenv("ECORNN_WISDOM", "0", 1), 0);
    ck_assert_int_eq(ecornn_device_open(&device, "cpu:2"), ECORNN_OK);
}

static void close_cpu(void)
{
    ecornn_wisdom_forget();
    ecornn_device_close(device);
}

/* The print of a plan of this problem. */
static const char *plan_of(const char *problem, const ecornn_cell *cell)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    ck_assert_int_eq(ecornn_desc_parse(&desc, problem, cell), ECORNN_OK);
    ck_assert_msg(ecornn_plan_create(&plan, device, &desc) == ECORNN_OK, "%s: %s", problem,
                  ecornn_error_detail());
    ck_assert_int_lt(ecornn_plan_print(plan, print, sizeof print), PRINT);
    ecornn_plan_free(plan);
    return print;
}

static bool says(const char *problem, const char *words)
{
    return strstr(plan_of(problem, NULL), words) != NULL;
}

/* A text for this device, with lines; a line's device is "@". */
static const char *text_of(const char *words, const char *lines)
{
    static char text[TEXT];
    const uint64_t id = eco_hash(ECO_HASH, words, strlen(words));
    size_t n = (size_t)snprintf(text, sizeof text, HEAD "device %016" PRIx64 " %s\n", id, words);
    for (const char *at = lines; *at != '\0'; at++)
        if (*at == '@')
            n += (size_t)snprintf(text + n, sizeof text - n, "%016" PRIx64, id);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%c", *at);
    ck_assert_uint_lt(n, sizeof text);
    return text;
}

static void learn(const char *lines)
{
    ck_assert_msg(ecornn_wisdom_from_text(text_of(device->identity, lines)) == ECORNN_OK, "%s",
                  ecornn_error_detail());
}

static const char *whole(void)
{
    static char text[1 << 16];
    ck_assert_int_lt(ecornn_wisdom_to_text(text, sizeof text), (int)sizeof text);
    return text;
}

/* ---- plans ----------------------------------------------------------------------------------- */

#define LSTM     "lstm/f32/infer/T100/N20/I64/H64"
#define CHUNK(n) " - @ algorithm=packed,chunk=" #n " 1000 10 2026-01-31\n"

START_TEST(makes_the_plan)
{
    ck_assert(!says(LSTM, "wisdom"));
    learn(LSTM CHUNK(7));
    ck_assert(says(LSTM, "wisdom: " LSTM ", 0.001 ms on 2026-01-31\n"));
    ck_assert(says(LSTM, "ECORNN_FORCE=algorithm=packed,chunk=7,"));
    ck_assert(says(LSTM, "algorithm packed, by wisdom of"));
    ck_assert(says(LSTM, "left out by wisdom"));
    learn(LSTM CHUNK(5)); /* the later counts */
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
    ck_assert(says("lstm/f32/infer/T100/N20/I64/H64", ",chunk=7,")); /* itself, not the later */
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=9,")); /* the later of the bucket */
    ck_assert(!says("lstm/f32/infer/T129/N20/I64/H64", "wisdom"));
    ck_assert(!says("lstm/f32/infer/T100/N25/I64/H64", "wisdom"));
    ck_assert(!says("lstm/f32/infer/T100/N20/I64/H65", "wisdom"));
    ck_assert(!says("lstm/f32/train/T100/N20/I64/H64", "wisdom"));
    ck_assert(!says("gru/f32/infer/T100/N20/I64/H64", "wisdom"));
}
END_TEST

/* What is the latest of a bucket is so after it was written and read. */
START_TEST(keeps_the_order)
{
    static char text[TEXT];
    learn("lstm/f32/infer/T110/N21/I64/H64" CHUNK(9) "lstm/f32/infer/T100/N20/I64/H64" CHUNK(7));
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=7,"));
    strcpy(text, whole());
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_from_text(text), ECORNN_OK);
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=7,"));
    learn("lstm/f32/infer/T110/N21/I64/H64" CHUNK(9)); /* again: now the latest */
    ck_assert(says("lstm/f32/infer/T120/N24/I64/H64", ",chunk=9,"));
}
END_TEST

/* What was measured may not fit; what cuts sums is not of plans whose rows keep their bits. */
START_TEST(not_taken)
{
    learn("lstm/f32/train/T100/N20/I64/H64/memory:64M" CHUNK(
        7) "lstm/f32/row-invariant/train/T100/N20/I64/H64" CHUNK(7));
    ck_assert(!says("lstm/f32/train/T100/N20/I64/H64/memory:64M", "wisdom"));
    ck_assert(says("lstm/f32/row-invariant/train/T100/N20/I64/H64", "wisdom: "));
    ck_assert(strstr(print, ",chunk=7,") == NULL);
}
END_TEST

START_TEST(of_another_device)
{
    static char other[ECO_MAX_IDENTITY], before[PRINT];
    strcpy(before, plan_of(LSTM, NULL));
    strcpy(other, device->identity);
    memcpy(strstr(other, "threads=2"), "threads=4", 9);
    ck_assert_int_eq(ecornn_wisdom_from_text(text_of(other, LSTM CHUNK(7))), ECORNN_OK);
    static const char note[] = "wisdom: of another device, not used: threads=4, here threads=2\n";
    ck_assert(says(LSTM, note));
    ck_assert_str_eq(strstr(print, "ECORNN_FORCE="), strstr(before, "ECORNN_FORCE="));
    ck_assert(strstr(whole(), LSTM) != NULL); /* kept */
    memcpy(strstr(other, "threads=4"), "threads=2", 9);
    memcpy(strstr(other, "version="), "version=9", 9);
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_from_text(text_of(other, LSTM CHUNK(7))), ECORNN_OK);
    ck_assert(says(LSTM, "not used: version=9"));
    learn(LSTM CHUNK(7)); /* one of this device beside it */
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* A choice that this build does not know, or cannot. */
START_TEST(refused_choices)
{
    ecornn_desc desc;
    ck_assert_int_eq(ecornn_desc_parse(&desc, "nothing", NULL), ECORNN_BAD_ARGUMENT);
    learn(LSTM " - @ algorithm=packed,vectors=9 1000 10 2026-01-31\n");
    ck_assert(says(LSTM, ", refused: no algorithm of device cpu runs " LSTM));
    ck_assert(strstr(print, "; the planner chose\nalgorithm packed, the fastest by estimate") !=
              NULL);
    ck_assert(strstr(ecornn_error_detail(), "nothing") != NULL); /* no failure of a plan's */
    learn(LSTM " - @ algorithm=none 1000 10 2026-01-31\n");
    ck_assert(says(LSTM, "the planner chose"));
}
END_TEST

START_TEST(variables_count_more)
{
    static const char *const variable[][2] = {
        {"ECORNN_FORCE", "chunk=3"}, {"ECORNN_ALGORITHM", "packed"}, {"ECORNN_GRID", "1x1x1"}};
    learn(LSTM CHUNK(7));
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        ck_assert_int_eq(setenv(variable[i][0], variable[i][1], 1), 0);
        ck_assert_msg(!says(LSTM, "wisdom") && !says(LSTM, ",chunk=7,"), "%s", variable[i][0]);
        ck_assert_int_eq(unsetenv(variable[i][0]), 0);
    }
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* Names of cells from text say nothing. */
START_TEST(cells_from_text)
{
    static const char *const texts[] = {"cell lstm(h)\nh' = tanh(W x + R h + b)\n",
                                        "cell lstm(h)\nh' = tanh(W x + R h + b) * 0.5\n"};
    ecornn_cell *cell[2];
    char lines[200];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ecornn_cell_parse(&cell[i], texts[i]), ECORNN_OK);
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

/* ---- texts ----------------------------------------------------------------------------------- */

START_TEST(says_it_again)
{
    static char first[TEXT];
    learn("# a remark\n\n" LSTM CHUNK(7) "gru/f32/train/T2/N3/I4/H5" CHUNK(1));
    strcpy(first, whole());
    ecornn_wisdom_forget();
    ck_assert_str_eq(whole(), HEAD);
    ck_assert_int_eq(ecornn_wisdom_from_text(first), ECORNN_OK);
    ck_assert_str_eq(whole(), first);
    ck_assert_int_eq(ecornn_wisdom_from_text(first), ECORNN_OK); /* nothing twice */
    ck_assert_str_eq(whole(), first);
    ck_assert_int_eq(ecornn_wisdom_to_text(NULL, 0), (int)strlen(first));
}
END_TEST

/* What is wrong with lines after the device's, which is the second. */
static const struct {
    const char *lines, *words;
} wrong[] = {
    {"lstm", "text:3: the line does not end"},
    {"\n\nlstm\n", "text:5: the line is no problem"},
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
    {LSTM " - @ algorithm=packed 1000 2026-01-31\n", "two numbers of nanoseconds"},
    {LSTM " - @ algorithm=packed 1000 10 31.1.2026\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 9999-99-99\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 2026-00-01\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 2026-12-32\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10 2026-01-31 x\n", "does not end with a date"},
    {LSTM " - @ algorithm=packed 1000 10\n", "does not end with a date"},
    {LSTM "  - @ algorithm=packed 1000 10 2026-01-31\n", "the line is no problem"},
    {"lstm/T100/N20/I64/H64" CHUNK(1), "not as a plan prints it"},
    {"lstm/f32/infer/T0/N20/I64/H64" CHUNK(1), "T is 0"},
    {"none/f32/infer/T1/N20/I64/H64" CHUNK(1), "no built-in cell"},
    {"lstm/f32/infer/T1/N20/I64/H64/x" CHUNK(1), "no part of a problem"},
    {"device 0123456789abcdef cpu\n", "not those of its identity"},
    {"device cpu\n", "16 digits of its identity"},
    {"device 0123456789abcdef\n", "16 digits of its identity"},
    {LSTM "\t- @ algorithm=packed 1000 10 2026-01-31\n", "a control character"},
    {"ecornn-wisdom 1\n", "text:3: the cell is neither"},
};
enum { WRONG = sizeof wrong / sizeof *wrong };

START_TEST(refuses_a_text)
{
    static char before[TEXT];
    learn(LSTM CHUNK(7));
    strcpy(before, whole());
    ck_assert_int_eq(ecornn_wisdom_from_text(text_of(device->identity, wrong[_i].lines)),
                     ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), wrong[_i].words) != NULL, "%s: %s", wrong[_i].lines,
                  ecornn_error_detail());
    ck_assert_str_eq(whole(), before);
}
END_TEST

START_TEST(refuses_the_rest)
{
    static char text[TEXT];
    static const char *const first[] = {"", "\n", "ecornn-wisdom 2\n", "ecornn-wisdom 1", " " HEAD};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        ck_assert_int_eq(ecornn_wisdom_from_text(first[i]), ECORNN_BAD_ARGUMENT);
    snprintf(text, sizeof text, HEAD "%01100d\n", 1);
    ck_assert_int_eq(ecornn_wisdom_from_text(text), ECORNN_BAD_ARGUMENT);
    ck_assert(strstr(ecornn_error_detail(), "text:2: the line is too long") != NULL);
    memcpy(text, HEAD "#\0\n", 20);
    ck_assert_int_eq(eco_wisdom_add(text, 19, "zero"), ECORNN_BAD_ARGUMENT);
    ck_assert(strstr(ecornn_error_detail(), "zero:2: a zero byte") != NULL);
    ck_assert_int_eq(ecornn_wisdom_from_text(HEAD), ECORNN_OK);
    ck_assert_int_eq(ecornn_wisdom_from_text(NULL), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(ecornn_wisdom_to_text(NULL, 1), -1);
}
END_TEST

/* The least lines that there are: each of them has a place. */
START_TEST(many_devices)
{
    enum { DEVICES = 200 };
    static char text[32 * DEVICES];
    size_t n = (size_t)snprintf(text, sizeof text, HEAD);
    for (int k = 0; k < DEVICES; k++) {
        char words[3] = {(char)('a' + k % 26), (char)('a' + k / 26 - 1), '\0'};
        words[1] = k < 26 ? '\0' : words[1];
        n += (size_t)snprintf(text + n, sizeof text - n, "device %016" PRIx64 " %s\n",
                              eco_hash(ECO_HASH, words, strlen(words)), words);
    }
    ck_assert_int_eq(ecornn_wisdom_from_text(text), ECORNN_OK);
    ck_assert_str_eq(whole(), text);
}
END_TEST

START_TEST(no_memory)
{
    static char before[TEXT], text[TEXT];
    learn(LSTM CHUNK(7));
    strcpy(before, whole());
    strcpy(text, text_of(device->identity, LSTM CHUNK(9)));
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

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[] = "/tmp/ecornn-wisdom.XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_folder(void)
{
    open_cpu();
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("XDG_CONFIG_HOME", folder, 1), 0);
}

static void remove_folder(void)
{
    char command[200];
    close_cpu();
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(reads_files_by_itself)
{
    ck_assert_int_eq(mkdir(in_folder("ecornn"), 0777), 0);
    write_file(in_folder("ecornn/wisdom"),
               text_of(device->identity, LSTM CHUNK(3) "gru/f32/infer/T1/N1/I9/H9" CHUNK(3)));
    write_file(in_folder("mine"), text_of(device->identity, LSTM CHUNK(4)));
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("mine"), 1), 0);
    ck_assert(says(LSTM, ",chunk=4,"));
    ck_assert(says("gru/f32/infer/T1/N1/I9/H9", ",chunk=1,")); /* no more than T */
    ck_assert(strstr(print, "wisdom: gru") != NULL);
    ck_assert_int_eq(unlink(in_folder("mine")), 0); /* once only */
    ck_assert(says(LSTM, ",chunk=4,"));
}
END_TEST

/* A plan is made in any case. */
START_TEST(says_which_file_is_wrong)
{
    ck_assert_int_eq(mkdir(in_folder("ecornn"), 0777), 0);
    write_file(in_folder("ecornn/wisdom"), HEAD "nonsense\n");
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("none"), 1), 0);
    ck_assert(says(LSTM, "ecornn/wisdom:2: the line is no problem"));
    ck_assert(strstr(print, "/none: No such file") != NULL);
    ck_assert_str_eq(ecornn_error_detail(), "");
}
END_TEST

START_TEST(saves_and_loads)
{
    static char text[TEXT];
    struct stat about;
    learn(LSTM CHUNK(7));
    strcpy(text, whole());
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("saved")), ECORNN_OK);
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("saved")), ECORNN_OK);
    ck_assert_int_eq(ecornn_wisdom_save(NULL), ECORNN_OK);
    ck_assert_int_eq(stat(in_folder("ecornn/wisdom"), &about), 0);
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_load(in_folder("saved")), ECORNN_OK);
    ck_assert_str_eq(whole(), text);
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_load(NULL), ECORNN_OK);
    ck_assert_str_eq(whole(), text);
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("no/such")), ECORNN_FAILED);
    ck_assert_int_eq(ecornn_wisdom_load(in_folder("no/such")), ECORNN_FAILED);
    ck_assert_int_eq(ecornn_wisdom_load(folder), ECORNN_FAILED);
    ck_assert(strstr(ecornn_error_detail(), "no regular file") != NULL);
    ck_assert_int_eq(mkdir(in_folder("taken"), 0777), 0);
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("taken")), ECORNN_FAILED);
    char command[200]; /* nothing is left behind */
    snprintf(command, sizeof command, "test \"$(cd '%s' && echo *)\" = 'ecornn saved taken'",
             folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* What a process of the same number left behind, in another container or before a restart. */
START_TEST(left_behind)
{
    char path[300];
    learn(LSTM CHUNK(7));
    for (int k = 0; k < 100; k++) {
        snprintf(path, sizeof path, "%s.%ld.%d", in_folder("saved"), (long)getpid(), k);
        write_file(path, "left");
    }
    ck_assert_msg(ecornn_wisdom_save(in_folder("saved")) == ECORNN_OK, "%s", ecornn_error_detail());
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_load(in_folder("saved")), ECORNN_OK);
}
END_TEST

/* A link stays one; what is no file is not replaced. */
START_TEST(replaces_only_files)
{
    struct stat about;
    learn(LSTM CHUNK(7));
    write_file(in_folder("file"), HEAD);
    ck_assert_int_eq(symlink("file", in_folder("link")), 0);
    ck_assert_int_eq(symlink("none", in_folder("nowhere")), 0);
    ck_assert_int_eq(mkfifo(in_folder("fifo"), 0666), 0);
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("link")), ECORNN_OK);
    ck_assert_int_eq(lstat(in_folder("link"), &about), 0);
    ck_assert(S_ISLNK(about.st_mode));
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("fifo")), ECORNN_FAILED);
    ck_assert(strstr(ecornn_error_detail(), "no regular file") != NULL);
    ck_assert_int_eq(lstat(in_folder("fifo"), &about), 0);
    ck_assert(S_ISFIFO(about.st_mode));
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("nowhere")), ECORNN_FAILED);
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_load(in_folder("file")), ECORNN_OK);
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* A disk that is full: the old file stays, and nothing else. */
START_TEST(no_room)
{
    static const struct rlimit none = {20, RLIM_INFINITY};
    static char text[TEXT];
    learn(LSTM CHUNK(7));
    strcpy(text, whole());
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("saved")), ECORNN_OK);
    learn(LSTM CHUNK(9));
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    const ecornn_status status = ecornn_wisdom_save(in_folder("saved"));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
    ck_assert_int_eq(status, ECORNN_FAILED);
    ck_assert(strstr(ecornn_error_detail(), "cannot write") != NULL);
    ecornn_wisdom_forget();
    ck_assert_int_eq(ecornn_wisdom_load(in_folder("saved")), ECORNN_OK);
    ck_assert_str_eq(whole(), text);
    char command[200];
    snprintf(command, sizeof command, "test \"$(cd '%s' && echo *)\" = saved", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Many processes write; who reads finds one of them, whole. */
START_TEST(many_processes)
{
    enum { PROCESSES = 4, TIMES = 25 };
    int status;
    learn(LSTM CHUNK(7));
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("saved")), ECORNN_OK);
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0) {
            for (int i = 0; i < TIMES; i++)
                if (ecornn_wisdom_save(in_folder("saved")) != ECORNN_OK ||
                    ecornn_wisdom_load(in_folder("saved")) != ECORNN_OK)
                    _exit(1);
            _exit(0);
        }
    for (int k = 0; k < PROCESSES; k++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

START_TEST(records_problems)
{
    enum { PROCESSES = 4, TIMES = 20 };
    char line[300];
    int status, lines = 0;
    ck_assert_int_eq(setenv("ECORNN_RECORD", in_folder("recorded"), 1), 0);
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0) {
            for (int i = 0; i < TIMES; i++)
                plan_of(LSTM, NULL);
            _exit(0);
        }
    for (int k = 0; k < PROCESSES; k++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    FILE *file = fopen(in_folder("recorded"), "r");
    ck_assert_ptr_nonnull(file);
    for (; fgets(line, sizeof line, file) != NULL; lines++)
        ck_assert_str_eq(line, LSTM "\n");
    fclose(file);
    ck_assert_int_eq(lines, PROCESSES * TIMES);
    ck_assert_int_eq(setenv("ECORNN_RECORD", in_folder("no/such"), 1), 0);
    ck_assert(says(LSTM, "ECORNN_RECORD: "));
}
END_TEST

/* ---- threads and time ------------------------------------------------------------------------ */

static void *plan_and_learn(void *own)
{
    const int number = *(const int *)own;
    for (int i = 0; i < 300; i++) {
        ecornn_desc desc;
        ecornn_plan *plan = NULL;
        if (number % 2 == 0 && ecornn_wisdom_from_text(HEAD) != ECORNN_OK)
            return own;
        if (ecornn_desc_parse(&desc, LSTM, NULL) != ECORNN_OK ||
            ecornn_plan_create(&plan, device, &desc) != ECORNN_OK)
            return own;
        ecornn_plan_free(plan);
    }
    return NULL;
}

START_TEST(many_threads)
{
    enum { THREADS = 6 };
    pthread_t thread[THREADS];
    int number[THREADS];
    learn(LSTM CHUNK(7));
    for (int k = 0; k < THREADS; k++) {
        number[k] = k;
        ck_assert_int_eq(pthread_create(&thread[k], NULL, plan_and_learn, &number[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        void *failed;
        ck_assert_int_eq(pthread_join(thread[k], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* A fork while others change what is known leaves a child that can plan. */
START_TEST(forks)
{
    enum { THREADS = 3, FORKS = 60 };
    pthread_t thread[THREADS];
    int number[THREADS] = {0}, status;
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(pthread_create(&thread[k], NULL, plan_and_learn, &number[k]), 0);
    for (int k = 0; k < FORKS; k++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            plan_of(LSTM, NULL);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(pthread_join(thread[k], NULL), 0);
}
END_TEST

static void *plan_once(void *own)
{
    plan_of(LSTM, NULL);
    return own;
}

/* While the first plan reads files: nothing of them comes after. */
START_TEST(forgets_what_is_being_read)
{
    enum { LINES = 10000 };
    pthread_t thread;
    FILE *file = fopen(in_folder("large"), "w");
    ck_assert_ptr_nonnull(file);
    fputs(text_of(device->identity, ""), file);
    for (int k = 0; k < LINES; k++)
        fprintf(file,
                "lstm/f32/infer/T100/N20/I64/H%d - %016" PRIx64
                " algorithm=packed,chunk=7 1000 10 2026-01-31\n",
                64 + k, device->id);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("large"), 1), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, plan_once, NULL), 0);
    usleep(5000); /* reading takes some 40 ms */
    ecornn_wisdom_forget();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(whole(), HEAD);
}
END_TEST

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The least of many, so that neighbours do not count. */
static double time_of_plan(const char *problem)
{
    double least = 1;
    ecornn_desc desc;
    ck_assert_int_eq(ecornn_desc_parse(&desc, problem, NULL), ECORNN_OK);
    for (int i = 0; i < 200; i++) {
        ecornn_plan *plan;
        const double begin = seconds();
        ck_assert_int_eq(ecornn_plan_create(&plan, device, &desc), ECORNN_OK);
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
    size_t n = (size_t)snprintf(text, ROOM, "%s", text_of(device->identity, ""));
    for (int k = 0; k < LINES; k++)
        n += (size_t)snprintf(text + n, ROOM - n,
                              "lstm/f32/infer/T100/N20/I64/H%d - %016" PRIx64
                              " algorithm=packed,chunk=7 1000 10 2026-01-31\n",
                              64 + k, device->id);
    ck_assert_uint_lt(n, ROOM);
    const double begin = seconds();
    ck_assert_int_eq(ecornn_wisdom_from_text(text), ECORNN_OK);
    const double read = seconds() - begin;
    const double found = time_of_plan(LSTM), none = time_of_plan("gru/T100/N20/I64/H64");
    printf("# plan: %.2f us; with %d lines: found %.2f us, none for it %.2f us; read in %.1f ms\n",
           1e6 * before, LINES, 1e6 * found, 1e6 * none, 1e3 * read);
    ck_assert(found < before + 50e-6);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wisdom");
    TCase *plans = tcase_create("plans"), *files = tcase_create("files");
    suite_add_tcase(suite, plans);
    suite_add_tcase(suite, files);
    tcase_add_checked_fixture(plans, open_cpu, close_cpu);
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(plans, makes_the_plan);
    tcase_add_test(plans, buckets);
    tcase_add_test(plans, keeps_the_order);
    tcase_add_test(plans, not_taken);
    tcase_add_test(plans, of_another_device);
    tcase_add_test(plans, refused_choices);
    tcase_add_test(plans, variables_count_more);
    tcase_add_test(plans, cells_from_text);
    tcase_add_test(plans, says_it_again);
    tcase_add_loop_test(plans, refuses_a_text, 0, WRONG);
    tcase_add_test(plans, refuses_the_rest);
    tcase_add_test(plans, many_devices);
    tcase_add_test(plans, no_memory);
    tcase_add_test(plans, many_threads);
    tcase_add_test(plans, forks);
    tcase_add_test(plans, plans_are_made_as_fast);
    tcase_add_test(files, reads_files_by_itself);
    tcase_add_test(files, says_which_file_is_wrong);
    tcase_add_test(files, saves_and_loads);
    tcase_add_test(files, left_behind);
    tcase_add_test(files, replaces_only_files);
    tcase_add_test(files, forgets_what_is_being_read);
    tcase_add_test(files, no_room);
    tcase_add_test(files, many_processes);
    tcase_add_test(files, records_problems);
    return suite_run(suite, true);
}
