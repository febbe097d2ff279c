/*
 * What tests of wisdom share, see wisdom.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "tests/kit/wisdom.h"
#include "tests/kit/calls.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"

ecornn_device *wisdom_device;
char wisdom_print[WISDOM_PRINT];

void wisdom_open(void)
{
    ck_assert_int_eq(setenv("ECORNN_WISDOM", "0", 1), 0);
    ck_assert_int_eq(ecornn_device_open(&wisdom_device, "cpu:2"), ECORNN_OK);
}

void wisdom_close(void)
{
    ecornn_wisdom_forget();
    ecornn_device_close(wisdom_device);
}

const char *plan_of(const char *problem, const ecornn_cell *cell)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    ck_assert_int_eq(parse_desc(&desc, problem, cell), ECORNN_OK);
    ck_assert_msg(ecornn_plan_create_desc(&plan, wisdom_device, &desc) == ECORNN_OK, "%s: %s",
                  problem, ecornn_error_detail());
    ck_assert_int_lt(ecornn_plan_print(plan, wisdom_print, sizeof wisdom_print), WISDOM_PRINT);
    ecornn_plan_free(plan);
    return wisdom_print;
}

bool says(const char *problem, const char *words)
{
    return strstr(plan_of(problem, NULL), words) != NULL;
}

const char *text_of(const char *words, const char *lines)
{
    static char text[WISDOM_TEXT];
    const uint64_t id = eco_hash(ECO_HASH, words, strlen(words));
    size_t n =
        (size_t)snprintf(text, sizeof text, WISDOM_HEAD "device %016" PRIx64 " %s\n", id, words);
    for (const char *at = lines; *at != '\0'; at++)
        if (*at == '@')
            n += (size_t)snprintf(text + n, sizeof text - n, "%016" PRIx64, id);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%c", *at);
    ck_assert_uint_lt(n, sizeof text);
    return text;
}

void learn(const char *lines)
{
    ck_assert_msg(ecornn_wisdom_from_text(text_of(wisdom_device->identity, lines)) == ECORNN_OK,
                  "%s", ecornn_error_detail());
}

const char *whole(void)
{
    static char text[1 << 16];
    ck_assert_int_lt(ecornn_wisdom_to_text(text, sizeof text), (int)sizeof text);
    return text;
}

/* ---- a folder -------------------------------------------------------------------------------- */

char wisdom_folder[] = "/tmp/ecornn-wisdom.XXXXXX";

const char *in_folder(const char *name)
{
    static char path[4][200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", wisdom_folder, name);
    return path[next];
}

void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

void make_folder(void)
{
    wisdom_open();
    ck_assert_ptr_nonnull(mkdtemp(wisdom_folder));
    ck_assert_int_eq(setenv("XDG_CONFIG_HOME", wisdom_folder, 1), 0);
}

void remove_folder(void)
{
    char command[200];
    wisdom_close();
    snprintf(command, sizeof command, "rm -r '%s'", wisdom_folder);
    ck_assert_int_eq(system(command), 0);
}
