/*
 * Files of wisdom: which files a process reads, which errors they have, and how they are replaced.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/backend.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/wisdom.h"

START_TEST(reads_files_by_itself)
{
    ck_assert_int_eq(mkdir(in_folder("ecornn"), 0777), 0);
    write_file(
        in_folder("ecornn/wisdom"),
        text_of(wisdom_device->identity, LSTM CHUNK(3) "gru/f32/infer/T1/N1/I9/H9" CHUNK(3)));
    write_file(in_folder("mine"), text_of(wisdom_device->identity, LSTM CHUNK(4)));
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("mine"), 1), 0);
    ck_assert(says(LSTM, ",chunk=4,"));
    ck_assert(says("gru/f32/infer/T1/N1/I9/H9", ",chunk=1,")); /* chunk is at most T */
    ck_assert(strstr(wisdom_print, "wisdom: gru") != NULL);
    ck_assert_int_eq(unlink(in_folder("mine")), 0); /* files are read only once */
    ck_assert(says(LSTM, ",chunk=4,"));
}
END_TEST

/* An error in a file never prevents a plan. */
START_TEST(says_which_file_is_wrong)
{
    ck_assert_int_eq(mkdir(in_folder("ecornn"), 0777), 0);
    write_file(in_folder("ecornn/wisdom"), WISDOM_HEAD "nonsense\n");
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("none"), 1), 0);
    ck_assert(says(LSTM, "ecornn/wisdom:2: the line is not PROBLEM"));
    ck_assert(strstr(wisdom_print, "/none: No such file") != NULL);
    ck_assert_str_eq(ecornn_error_detail(), "");
}
END_TEST

static void check_saved(const char *path)
{
    check_ok(ecornn_wisdom_save(path));
}

START_TEST(saves_and_loads)
{
    static char text[WISDOM_TEXT];
    struct stat about;
    learn(LSTM CHUNK(7));
    strcpy(text, whole());
    check_ok(ecornn_wisdom_save(in_folder("saved")));
    check_ok(ecornn_wisdom_save(in_folder("saved")));
    check_ok(ecornn_wisdom_save(NULL));
    ck_assert_int_eq(stat(in_folder("ecornn/wisdom"), &about), 0);
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_load(in_folder("saved")));
    ck_assert_str_eq(whole(), text);
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_load(NULL));
    ck_assert_str_eq(whole(), text);
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("no/such")), ECORNN_FAILED);
    ck_assert_int_eq(ecornn_wisdom_load(in_folder("no/such")), ECORNN_FAILED);
    ck_assert_int_eq(ecornn_wisdom_load(wisdom_folder), ECORNN_FAILED);
    ck_assert(strstr(ecornn_error_detail(), "not a regular file") != NULL);
    ck_assert_int_eq(mkdir(in_folder("taken"), 0777), 0);
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("taken")), ECORNN_FAILED);
    char command[200]; /* no temporary file is left */
    snprintf(command, sizeof command, "test \"$(cd '%s' && echo *)\" = 'ecornn saved taken'",
             wisdom_folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* A replaced file keeps its mode and group and, if root writes it, its owner. A new file and folder
 * written by root belong to the owner of the folder they are in. */
START_TEST(keeps_mode_and_owner)
{
    static const mode_t modes[] = {0600, 0640, 0604, 0666};
    const bool root = geteuid() == 0;
    struct stat about;
    learn(LSTM CHUNK(7));
    check_saved(in_folder("kept"));
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
        ck_assert_int_eq(chmod(in_folder("kept"), modes[k]), 0);
        if (root)
            ck_assert_int_eq(chown(in_folder("kept"), 1234, 5678), 0);
        check_saved(in_folder("kept"));
        ck_assert_int_eq(stat(in_folder("kept"), &about), 0);
        ck_assert_int_eq(about.st_mode & 0777, modes[k]);
        ck_assert(!root || (about.st_uid == 1234 && about.st_gid == 5678));
    }
    if (suite_skips(!root, "only root can give a folder away"))
        return;
    ck_assert_int_eq(chown(wisdom_folder, 4321, 8765), 0);
    check_saved(NULL);
    static const char *const made[] = {"ecornn", "ecornn/wisdom"};
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(stat(in_folder(made[k]), &about), 0);
        ck_assert_msg(about.st_uid == 4321 && about.st_gid == 8765, "%s: %u", made[k],
                      (unsigned)about.st_uid);
    }
}
END_TEST

/* A folder without permission to search is reported, unlike a missing file. */
START_TEST(says_what_it_may_not_read)
{
    char text[1 << 14];
    ck_assert_int_eq(mkdir(in_folder("ecornn"), 0777), 0);
    ck_assert_int_eq(symlink("wisdom", in_folder("ecornn/wisdom")),
                     0); /* which is an error even for root */
    ck_assert_int_eq(unsetenv("ECORNN_WISDOM"), 0);
    ck_assert(says(LSTM, "wisdom: "));
    ck_assert_int_lt(ecornn_info(text, sizeof text), (int)sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "wisdom, not read: "));
    ck_assert_ptr_nonnull(strstr(text, "symbolic links"));
}
END_TEST

/* A temporary file may remain from a process of the same number in another container or before a
 * restart. */
START_TEST(left_behind)
{
    char path[300];
    learn(LSTM CHUNK(7));
    for (int k = 0; k < 100; k++) {
        snprintf(path, sizeof path, "%s.%ld.%d", in_folder("saved"), (long)getpid(), k);
        write_file(path, "left");
    }
    check_ok(ecornn_wisdom_save(in_folder("saved")));
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_load(in_folder("saved")));
}
END_TEST

/* A symbolic link stays one, and anything but a regular file is not replaced. */
START_TEST(replaces_only_files)
{
    struct stat about;
    learn(LSTM CHUNK(7));
    write_file(in_folder("file"), WISDOM_HEAD);
    ck_assert_int_eq(symlink("file", in_folder("link")), 0);
    ck_assert_int_eq(symlink("none", in_folder("nowhere")), 0);
    ck_assert_int_eq(mkfifo(in_folder("fifo"), 0666), 0);
    check_ok(ecornn_wisdom_save(in_folder("link")));
    ck_assert_int_eq(lstat(in_folder("link"), &about), 0);
    ck_assert(S_ISLNK(about.st_mode));
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("fifo")), ECORNN_FAILED);
    ck_assert(strstr(ecornn_error_detail(), "not a regular file") != NULL);
    ck_assert_int_eq(lstat(in_folder("fifo"), &about), 0);
    ck_assert(S_ISFIFO(about.st_mode));
    ck_assert_int_eq(ecornn_wisdom_save(in_folder("nowhere")), ECORNN_FAILED);
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_load(in_folder("file")));
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* If the disk is full, the old file stays and no other file is left. */
START_TEST(no_room)
{
    static const struct rlimit none = {20, RLIM_INFINITY};
    static char text[WISDOM_TEXT];
    learn(LSTM CHUNK(7));
    strcpy(text, whole());
    check_ok(ecornn_wisdom_save(in_folder("saved")));
    learn(LSTM CHUNK(9));
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    const ecornn_status status = ecornn_wisdom_save(in_folder("saved"));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
    ck_assert_int_eq(status, ECORNN_FAILED);
    ck_assert(strstr(ecornn_error_detail(), "cannot write") != NULL);
    ecornn_wisdom_forget();
    check_ok(ecornn_wisdom_load(in_folder("saved")));
    ck_assert_str_eq(whole(), text);
    char command[200];
    snprintf(command, sizeof command, "test \"$(cd '%s' && echo *)\" = saved", wisdom_folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

TEST_MAIN_AROUND("wisdom files", make_folder, remove_folder, {reads_files_by_itself, 1},
                 {says_which_file_is_wrong, 1}, {saves_and_loads, 1}, {keeps_mode_and_owner, 1},
                 {says_what_it_may_not_read, 1}, {left_behind, 1}, {replaces_only_files, 1},
                 {no_room, 1})
