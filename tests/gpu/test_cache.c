/*
 * The cache of compiled code on disk. Code is read back whole or not at all, whatever files are in
 * the folder. Many processes may write at once, and nothing is written outside the folder.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/jit/compile.h"
#include "tests/kit/suite.h"

static char place[64], folder[96]; /* a folder of this test alone, and the cache's folder in it,
                                      which ECORNN_CACHE names */
static struct eco_cache cache;
static char why[512];

/* The path of the test's folder without symbolic links. */
static void real_place(char *to, size_t bytes)
{
    char *const found = realpath(place, NULL);
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_lt(strlen(found), bytes);
    strcpy(to, found);
    free(found);
}

static bool open_cache(void)
{
    return eco_cache_open(&cache, &(struct eco_text){why, sizeof why, 0});
}

static void set_up(void)
{
    snprintf(place, sizeof place, "%s/cache.XXXXXX", access("tests", W_OK) ? "." : "tests");
    ck_assert_ptr_nonnull(mkdtemp(place));
    snprintf(folder, sizeof folder, "%s/kept", place);
    suite_set_path("ECORNN_CACHE", folder);
    ck_assert_msg(open_cache(), "%s", why);
}

static void tear_down(void)
{
    char command[128];
    eco_cache_close(&cache);
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    ck_assert_int_eq(system(command), 0);
}

static const char key[] = "a key: version, options, text", code[] = "code\0with a zero";

static bool put(void)
{
    return eco_cache_put(&cache, key, code, sizeof code);
}

/* Is the code found? Asserts that nothing else is ever returned. */
static bool found(void)
{
    size_t bytes = 0;
    char *got = eco_cache_get(&cache, key, &bytes);
    if (got)
        ck_assert(bytes == sizeof code && memcmp(got, code, sizeof code) == 0);
    eco_free(got);
    return got != NULL;
}

/* Gives the path of a file of the cache and returns the number of files. */
static int files(char path[400])
{
    int n = 0;
    DIR *list = opendir(folder);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        if (entry->d_name[0] != '.') {
            snprintf(path, 400, "%s/%s", folder, entry->d_name);
            n++;
        }
    closedir(list);
    return n;
}

/* Makes all files of the cache a second older. */
static void age(void)
{
    DIR *list = opendir(folder);
    struct stat is;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        if (entry->d_name[0] != '.') {
            ck_assert_int_eq(fstatat(dirfd(list), entry->d_name, &is, 0), 0);
            is.st_mtim.tv_sec--;
            ck_assert_int_eq(utimensat(dirfd(list), entry->d_name,
                                       (struct timespec[]){is.st_atim, is.st_mtim}, 0),
                             0);
        }
    closedir(list);
}

START_TEST(gives_back_what_was_put)
{
    size_t bytes;
    ck_assert(!found());
    ck_assert(put());
    ck_assert(found());
    ck_assert_ptr_null(eco_cache_get(&cache, "another key", &bytes));
    ck_assert(eco_cache_put(&cache, "another key", "x", 1));
    ck_assert(put()); /* again: the same */
    ck_assert(found());
    char path[400];
    ck_assert_int_eq(files(path), 2);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------- */

static size_t read_file(const char *path, char *data, size_t size)
{
    FILE *file = fopen(path, "rb");
    const size_t bytes = fread(data, 1, size, file);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    chmod(path, 0600);
}

START_TEST(damage_is_absence)
{
    char path[400], data[1024];
    ck_assert(put());
    ck_assert_int_eq(files(path), 1);
    const size_t bytes = read_file(path, data, sizeof data);
    for (size_t i = 0; i < bytes; i++) /* one bit, everywhere */
        for (int bit = 0; bit < 8; bit += 7) {
            data[i] = (char)(data[i] ^ 1 << bit);
            write_file(path, data, bytes);
            ck_assert_msg(!found(), "byte %zu of %zu", i, bytes);
            data[i] = (char)(data[i] ^ 1 << bit);
        }
    for (size_t n = 0; n < bytes; n++) { /* cut off */
        write_file(path, data, n);
        ck_assert_msg(!found(), "%zu bytes of %zu", n, bytes);
    }
    data[bytes] = 0; /* and longer */
    write_file(path, data, bytes + 1);
    ck_assert(!found());
    write_file(path, data, bytes);
    ck_assert(found());
}
END_TEST

/* A file whose header has wrong sizes counts as absent. The first size follows 16 bytes of magic.
 */
START_TEST(lying_sizes_are_absence)
{
    static const uint64_t lie[] = {
        0, 1, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, sizeof key - 1 + sizeof code};
    char path[400], data[1024];
    ck_assert(put());
    ck_assert_int_eq(files(path), 1);
    const size_t bytes = read_file(path, data, sizeof data);
    for (size_t i = 0; i < sizeof lie / sizeof *lie; i++)
        for (size_t k = 0; k < sizeof lie / sizeof *lie; k++) {
            memcpy(data + 16, &lie[i], sizeof lie[i]);
            memcpy(data + 24, &lie[k], sizeof lie[k]);
            write_file(path, data, bytes);
            ck_assert(!found());
        }
}
END_TEST

/* ---- what is no plain file of ours ----------------------------------------------------------- */

START_TEST(follows_no_link)
{
    char path[400], target[128], data[1024];
    ck_assert(put());
    ck_assert_int_eq(files(path), 1);
    const size_t bytes = read_file(path, data, sizeof data);
    snprintf(target, sizeof target, "%s/target", place);
    write_file(target, data, bytes);
    unlink(path);
    ck_assert_int_eq(symlink("../target", path), 0);
    ck_assert(!found());
    write_file(target, "untouched", 9);
    ck_assert(put()); /* replaces the link instead of writing to its target */
    ck_assert(found());
    ck_assert_uint_eq(read_file(target, data, sizeof data), 9);
}
END_TEST

START_TEST(reads_plain_files_only)
{
    char path[400];
    ck_assert(put());
    ck_assert_int_eq(files(path), 1);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!found()); /* and the pipe is not opened, which would wait for a writer */
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert(!found());
    ck_assert(!put()); /* a folder is in the way: nothing is left behind */
    ck_assert_int_eq(files(path), 1);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(trusts_nobody_else)
{
    char path[400];
    ck_assert(put());
    ck_assert_int_eq(files(path), 1);
    chmod(path, 0622);
    ck_assert(!found());
    chmod(path, 0600);
    ck_assert(found());
    if (!suite_skips(chown(path, 1, (gid_t)-1) != 0, "only root can give a file away"))
        ck_assert(!found());
}
END_TEST

/* ---- the folder ------------------------------------------------------------------------------ */

START_TEST(takes_a_private_folder_only)
{
    char link[128], other[128];
    struct stat is;
    ck_assert_int_eq(stat(folder, &is), 0);
    ck_assert_uint_eq(is.st_mode & 0777, 0700);
    eco_cache_close(&cache);
    for (unsigned mode = 0701; mode <= 0770; mode += 7) {
        chmod(folder, mode);
        ck_assert(!open_cache());
        ck_assert_ptr_nonnull(strstr(why, "private"));
    }
    chmod(folder, 0700);
    snprintf(link, sizeof link, "%s/link", place);
    ck_assert_int_eq(symlink("kept", link), 0);
    static const char *const end[] = {"", "/", "//", "/.", "/./"};
    for (size_t k = 0; k < sizeof end / sizeof *end; k++) {
        snprintf(other, sizeof other, "%s%s", link, end[k]);
        suite_set_path("ECORNN_CACHE", other);
        ck_assert_msg(!open_cache(), "%s", other);
        snprintf(other, sizeof other, "%s%s", folder, end[k]);
        suite_set_path("ECORNN_CACHE", other);
        ck_assert_msg(open_cache(), "%s: %s", other, why);
        eco_cache_close(&cache);
    }
    snprintf(other, sizeof other, "%s/file", place);
    write_file(other, "x", 1);
    suite_set_path("ECORNN_CACHE", other);
    ck_assert(!open_cache());
    setenv("ECORNN_CACHE", "kept", 1);
    ck_assert(!open_cache() && strstr(why, "absolute"));
    suite_set_path("ECORNN_CACHE", folder);
    if (!suite_skips(chown(folder, 1, (gid_t)-1) != 0, "only root can give a folder away"))
        ck_assert(!open_cache());
}
END_TEST

START_TEST(finds_its_place)
{
    char home[300], path[340], real[256];
    eco_cache_close(&cache);
    setenv("ECORNN_CACHE", "0", 1);
    ck_assert(!open_cache());
    unsetenv("ECORNN_CACHE");
    unsetenv("XDG_CACHE_HOME");
    real_place(real, sizeof real);
    snprintf(home, sizeof home, "%s", real);
    setenv("HOME", home, 1);
    ck_assert_msg(open_cache(), "%s", why);
    eco_cache_close(&cache);
    snprintf(path, sizeof path, "%s/.cache/ecornn", home);
    ck_assert_int_eq(rmdir(path), 0); /* it was there, and empty */
    snprintf(path, sizeof path, "%s/xdg", home);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    setenv("XDG_CACHE_HOME", path, 1);
    ck_assert_msg(open_cache(), "%s", why);
    eco_cache_close(&cache);
    snprintf(path, sizeof path, "%s/xdg/ecornn", home);
    ck_assert_int_eq(rmdir(path), 0);
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    setenv("HOME", "", 1);
    ck_assert(!open_cache());
}
END_TEST

/* If root runs with the environment of another user, that user must still be able to use the
 * folder. */
START_TEST(makes_nothing_in_a_home_of_others)
{
    char home[300], path[340], real[256];
    struct stat is;
    eco_cache_close(&cache);
    unsetenv("ECORNN_CACHE");
    real_place(real, sizeof real);
    snprintf(home, sizeof home, "%s/another", real);
    ck_assert_int_eq(mkdir(home, 0777), 0);
    if (suite_skips(chown(home, 1, (gid_t)-1) != 0, "only root can give a folder away"))
        return;
    for (int xdg = 0; xdg < 2; xdg++) {
        unsetenv("XDG_CACHE_HOME");
        setenv(xdg ? "XDG_CACHE_HOME" : "HOME", home, 1);
        why[0] = '\0';
        ck_assert(!open_cache());
        ck_assert_msg(strstr(why, "not a directory of this user") != NULL, "%s", why);
        snprintf(path, sizeof path, "%s/%s", home, xdg ? "ecornn" : ".cache");
        ck_assert_int_ne(stat(path, &is), 0);
    }
}
END_TEST

START_TEST(oldest_go_first)
{
    char data[1000] = {0}, path[400], name[8];
    size_t bytes;
    cache.most = 5500;
    for (int k = 0; k < 5; k++) {
        snprintf(name, sizeof name, "key %d", k);
        ck_assert(eco_cache_put(&cache, name, data, sizeof data));
        age();
    }
    ck_assert_int_eq(files(path), 5);
    eco_free(eco_cache_get(&cache, "key 0", &bytes)); /* used last */
    age();
    ck_assert(eco_cache_put(&cache, "key 5", data, sizeof data));
    ck_assert_int_eq(files(path), 5);
    for (int k = 0; k < 6; k++) {
        snprintf(name, sizeof name, "key %d", k);
        void *got = eco_cache_get(&cache, name, &bytes);
        ck_assert_msg((got != NULL) == (k != 1), "%s", name);
        eco_free(got);
    }
    snprintf(path, sizeof path, "%s/notes", folder); /* not ours: stays */
    write_file(path, data, sizeof data);
    cache.most = 0;
    ck_assert(eco_cache_put(&cache, "key 6", data, sizeof data));
    ck_assert_int_eq(files(path), 1);
    ck_assert(!eco_cache_put(&cache, "too large", data, (size_t)1 << 30));
}
END_TEST

/* ---- many at once ---------------------------------------------------------------------------- */

/* Each key has its own bytes; a process that reads a key finds these or nothing. */
static int work(int seed)
{
    char name[8], data[3000];
    for (int k = 0; k < 300; k++) {
        const int which = (seed + k * 7) % 5;
        size_t bytes;
        snprintf(name, sizeof name, "key %d", which);
        memset(data, 'a' + which, sizeof data);
        if (!eco_cache_put(&cache, name, data, sizeof data))
            return 1;
        char *got = eco_cache_get(&cache, name, &bytes);
        const bool wrong = got && (bytes != sizeof data || memcmp(got, data, bytes) != 0);
        eco_free(got);
        if (wrong)
            return 2;
    }
    return 0;
}

START_TEST(processes_share_it)
{
    enum { PROCESSES = 4 };
    char path[400];
    cache.most = 10000; /* so that they remove each other's files, too */
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0)
            _exit(work(k));
    for (int k = 0; k < PROCESSES; k++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_le(files(path), 3); /* and no temporary one */
}
END_TEST

TEST_MAIN_AROUND("cache", set_up, tear_down, {gives_back_what_was_put, 1}, {damage_is_absence, 1},
                 {lying_sizes_are_absence, 1}, {follows_no_link, 1}, {reads_plain_files_only, 1},
                 {trusts_nobody_else, 1}, {takes_a_private_folder_only, 1}, {finds_its_place, 1},
                 {makes_nothing_in_a_home_of_others, 1}, {oldest_go_first, 1},
                 {processes_share_it, 1})
