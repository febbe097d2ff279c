/*
 * The safetensors files of examples/charlm: the writer against the reader, paths that cannot be
 * read or written, a file beyond the limit, what is kept of the file that is replaced.
 */
#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/charlm/replace.h"
#include "examples/charlm/safetensors.h"
#include "tests/kit/suite.h"

static char folder[] = "/tmp/test_safetensors.XXXXXX", path[64];

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model", folder);
}

static int count_files(void)
{
    int count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    if (directory)
        closedir(directory);
    return count;
}

static void remove_folder(void)
{
    char link[80];
    snprintf(link, sizeof link, "%s.link", path);
    unlink(link);
    unlink(path);
    rmdir(folder);
}

START_TEST(round_trip)
{
    const float a[6] = {1, -2, 0x1p-140f, 3.5f, 1e30f, -0.0f}, b[1] = {7};
    const struct tensor_source tensors[] = {{"first \"one\"", {2, 3}, 2, a},
                                            {"second", {1, 1}, 1, b}};
    const struct metadata metadata[] = {{"text", "a\nb\t\"\\ \x7f \xc3\xa9"}, {"empty", ""}};
    const struct safetensors_content content = {tensors, metadata, 2, 2};
    struct safetensors file;
    struct complaint why;
    float copy[6];
    ck_assert(replacement_possible(path, 1000, &why));
    ck_assert_int_eq(count_files(), 0);
    ck_assert(safetensors_write(path, &content, &why));
    ck_assert(safetensors_write(path, &content, &why)); /* replaces */
    ck_assert_int_eq(count_files(), 1);
    ck_assert(safetensors_read(&file, path, &why));
    ck_assert_uint_eq(file.tensor_count, 2);
    ck_assert_str_eq(safetensors_value(&file, "text"), metadata[0].value);
    ck_assert_str_eq(safetensors_value(&file, "empty"), "");
    ck_assert_ptr_null(safetensors_value(&file, "other"));
    const struct tensor *tensor = safetensors_find(&file, "first \"one\"");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_int_eq(tensor->rank, 2);
    ck_assert_uint_eq(tensor->shape[1], 3);
    safetensors_copy(&file, tensor, copy);
    ck_assert_mem_eq(copy, a, sizeof a);
    ck_assert_uint_eq(((uintptr_t)file.data - (uintptr_t)file.owned) % 8, 0);
    ck_assert_ptr_null(safetensors_find(&file, "third"));
    safetensors_free(&file);
}
END_TEST

START_TEST(bad_paths)
{
    const struct safetensors_content content = {NULL, NULL, 0, 0};
    char nowhere[64];
    snprintf(nowhere, sizeof nowhere, "%s/nowhere/model", folder);
    const char *const bad[] = {nowhere, folder, "/dev/null"};
    struct safetensors file;
    struct complaint why;
    for (int k = 0; k < 3; k++) {
        ck_assert(!safetensors_read(&file, bad[k], &why));
        ck_assert_ptr_nonnull(strstr(why.text, bad[k]));
        ck_assert(!replacement_possible(bad[k], 1000, &why));
        ck_assert(!safetensors_write(bad[k], &content, &why));
        ck_assert_ptr_nonnull(strstr(why.text, bad[k]));
    }
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

/* Larger than the limit, without the disk space: a hole. */
START_TEST(huge_file)
{
    struct safetensors file;
    struct complaint why;
    FILE *hole = fopen(path, "wb");
    ck_assert_ptr_nonnull(hole);
    if (!ftruncate(fileno(hole), (off_t)TENSOR_FILE_MAX + 1)) {
        ck_assert(!safetensors_read(&file, path, &why));
        ck_assert_ptr_nonnull(strstr(why.text, "must be at most 2147483648"));
    }
    fclose(hole);
}
END_TEST

/* ---- the checksum ---------------------------------------------------------------------------- */

static const float numbers[6] = {1, 2, 3, 4, 5, 6};
static const struct tensor_source one_tensor = {"weights", {2, 3}, 2, numbers};
static const struct metadata one_fact = {"step", "12"};
static const struct safetensors_content small = {&one_tensor, &one_fact, 1, 1};

static size_t read_bytes(char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    const size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

/* Each bit of the file but for the key's name, without which nothing is checked. */
START_TEST(changed_bit)
{
    char bytes[1000];
    struct safetensors file;
    struct complaint why;
    ck_assert(safetensors_write(path, &small, &why));
    const size_t size = read_bytes(bytes, sizeof bytes);
    ck_assert(safetensors_parse(&file, bytes, size, &why));
    const size_t data = (size_t)((const char *)file.data - bytes);
    safetensors_free(&file);
    const char *key = strstr(bytes + 8, CHECKSUM_KEY);
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8 && (bytes + at < key || bytes + at >= key + 5); bit++) {
            bytes[at] = (char)(bytes[at] ^ 1 << bit);
            ck_assert(!safetensors_parse(&file, bytes, size, &why));
            if (at >= data)
                ck_assert_ptr_nonnull(strstr(why.text, "it was changed"));
            bytes[at] = (char)(bytes[at] ^ 1 << bit);
        }
    ck_assert(safetensors_parse(&file, bytes, size, &why));
    safetensors_free(&file);
}
END_TEST

/* That of zlib, so that any language can check a file. */
START_TEST(checksum)
{
    ck_assert_uint_eq(crc32_add(0, "123456789", 9), 0xcbf43926);
    ck_assert_uint_eq(crc32_add(crc32_add(0, "1234", 4), "56789", 5), 0xcbf43926);
    ck_assert_uint_eq(crc32_add(0, "", 0), 0);
}
END_TEST

/* ---- what the writer writes the reader takes ------------------------------------------------- */

static void foresee(const struct safetensors_content *content, const char *word)
{
    struct safetensors file;
    struct complaint why = {{0}};
    uint64_t bytes = 0;
    ck_assert(!safetensors_preview(&file, content, &bytes, &why));
    ck_assert_msg(strstr(why.text, word) != NULL, "'%s', expected '%s'", why.text, word);
    safetensors_free(&file);
}

START_TEST(preview)
{
    struct safetensors file;
    struct complaint why;
    uint64_t bytes = 0;
    char content[1000];
    ck_assert(safetensors_preview(&file, &small, &bytes, &why));
    ck_assert_str_eq(safetensors_value(&file, "step"), "12");
    ck_assert_ptr_nonnull(safetensors_find(&file, "weights"));
    safetensors_free(&file);
    ck_assert(safetensors_write(path, &small, &why));
    ck_assert_uint_eq(read_bytes(content, sizeof content), bytes);

    const struct metadata latin = {"text", "f\xfcr"};
    foresee(&(struct safetensors_content){NULL, &latin, 0, 1}, "byte 0xfc");
    char *text = calloc(METADATA_VALUE_MAX + 2, 1);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', METADATA_VALUE_MAX + 1);
    const struct metadata lengthy = {"text", text};
    foresee(&(struct safetensors_content){NULL, &lengthy, 0, 1}, "longer than 65536");
    free(text);
    const struct tensor_source large = {"large", {1 << 15, 1 << 14}, 2, NULL};
    foresee(&(struct safetensors_content){&large, NULL, 1, 0}, "must be at most 2147483648");
    const struct tensor_source twice[] = {one_tensor, one_tensor};
    foresee(&(struct safetensors_content){twice, NULL, 2, 0}, "second tensor");
    struct tensor_source *many = calloc(TENSOR_COUNT_MAX + 1, sizeof *many);
    ck_assert_ptr_nonnull(many);
    for (int k = 0; k <= TENSOR_COUNT_MAX; k++) {
        many[k] = one_tensor;
        snprintf(many[k].name, sizeof many[k].name, "%d", k);
    }
    foresee(&(struct safetensors_content){many, NULL, TENSOR_COUNT_MAX + 1, 0}, "more than 4096");
    free(many);
}
END_TEST

/* ---- replacing a file ------------------------------------------------------------------------ */

START_TEST(mode_kept)
{
    const mode_t modes[] = {0600, 0640, 0604, 0777};
    struct stat status;
    struct complaint why;
    const mode_t mask = umask(027);
    ck_assert(safetensors_write(path, &small, &why));
    umask(mask);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0640);
    for (int k = 0; k < 4; k++) {
        ck_assert_int_eq(chmod(path, modes[k]), 0);
        ck_assert(safetensors_write(path, &small, &why));
        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert_int_eq(status.st_mode & 0777, modes[k]);
    }
    if (geteuid() == 0) { /* another's file stays another's */
        ck_assert_int_eq(chown(path, 12345, 54321), 0);
        ck_assert(safetensors_write(path, &small, &why));
        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert_uint_eq(status.st_uid, 12345);
        ck_assert_uint_eq(status.st_gid, 54321);
    } else { /* one that may not be written is left alone */
        ck_assert_int_eq(chmod(path, 0400), 0);
        ck_assert(!safetensors_write(path, &small, &why));
        ck_assert_ptr_nonnull(strstr(why.text, "Permission denied"));
    }
}
END_TEST

START_TEST(link_kept)
{
    char link[80];
    struct stat status;
    struct complaint why;
    snprintf(link, sizeof link, "%s.link", path);
    const char *const targets[] = {path, "model"}; /* absolute, and beside the link */
    for (int k = 0; k < 2; k++) {
        unlink(path);
        ck_assert_int_eq(symlink(targets[k], link), 0);
        for (int again = 0; again < 2; again++) { /* first it leads nowhere */
            ck_assert(safetensors_write(link, &small, &why));
            ck_assert_int_eq(lstat(link, &status), 0);
            ck_assert(S_ISLNK(status.st_mode));
            ck_assert_int_eq(lstat(path, &status), 0);
            ck_assert(S_ISREG(status.st_mode));
            ck_assert_int_eq(count_files(), 2);
        }
        unlink(link);
    }
    ck_assert_int_eq(symlink("model.link", link), 0); /* to itself */
    ck_assert(!safetensors_write(link, &small, &why));
    ck_assert_int_eq(unlink(link), 0);
}
END_TEST

/* What a killed process left is removed, what a living one writes is not, nor anything else. */
START_TEST(left_behind)
{
    char left[100], other[100];
    struct replacement alive;
    struct complaint why;
    snprintf(left, sizeof left, "%s.charlm-0123456789abcdef.new", path);
    snprintf(other, sizeof other, "%s.1.new", path);
    fclose(fopen(left, "wb"));
    fclose(fopen(other, "wb"));
    ck_assert(replacement_open(&alive, path, &why));
    ck_assert_int_eq(count_files(), 3);
    ck_assert(replacement_possible(path, 10, &why));
    ck_assert_int_eq(count_files(), 2);
    ck_assert_int_eq(access(left, F_OK), -1);
    ck_assert_int_eq(unlink(other), 0);
    ck_assert(replacement_write(&alive, "text", 4, &why));
    ck_assert(replacement_commit(&alive, &why));
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

/* A limit stands for a full disk. */
START_TEST(no_room)
{
    struct rlimit kept, limit;
    struct safetensors file;
    struct complaint why;
    float *data = calloc(1 << 16, sizeof *data);
    const struct tensor_source tensor = {"zeros", {1 << 16, 1}, 1, data};
    const struct safetensors_content content = {&tensor, NULL, 1, 0};
    ck_assert_ptr_nonnull(data);
    ck_assert(safetensors_write(path, &small, &why));
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &kept), 0);
    limit = (struct rlimit){1 << 16, kept.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const bool written = safetensors_write(path, &content, &why);
    const bool said = strstr(why.text, "File too large") != NULL;
    const bool possible = replacement_possible(path, 1 << 18, &why);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &kept), 0);
    ck_assert(!written && said && !possible);
    ck_assert_ptr_nonnull(strstr(why.text, "262144 bytes does not fit"));
    ck_assert_int_eq(count_files(), 1);
    ck_assert(safetensors_read(&file, path, &why));
    ck_assert_ptr_nonnull(safetensors_find(&file, "weights"));
    safetensors_free(&file);
    free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors files");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, round_trip);
    tcase_add_test(files, bad_paths);
    tcase_add_test(files, huge_file);
    tcase_add_test(files, changed_bit);
    tcase_add_test(files, checksum);
    tcase_add_test(files, preview);
    tcase_add_test(files, mode_kept);
    tcase_add_test(files, link_kept);
    tcase_add_test(files, left_behind);
    tcase_add_test(files, no_room);
    suite_add_tcase(suite, files);
    return suite_run(suite, true);
}
