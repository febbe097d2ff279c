/*
 * The safetensors files of examples/charlm: the writer against the reader, paths that cannot be
 * read or written, a file beyond the limit.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/charlm_safetensors.h"
#include "tests/suite.h"

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
    ck_assert(safetensors_writable(path, &why));
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
        ck_assert(!safetensors_writable(bad[k], &why));
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

int main(void)
{
    Suite *suite = suite_create("safetensors files");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, round_trip);
    tcase_add_test(files, bad_paths);
    tcase_add_test(files, huge_file);
    suite_add_tcase(suite, files);
    return suite_run(suite, true);
}
