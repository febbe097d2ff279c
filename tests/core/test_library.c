/*
 * The library of cells. It holds the files of the folder cells, each with the name, the source and
 * the equations of its cell; texts that name a cell find the caller's, then a built-in one, then
 * the library's. The sweep runs every cell, and tests/library has their equations.
 */
#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static int count_cells(void)
{
    const char *name;
    int n = 0;
    while (ecornn_cell_library(n, &name, NULL) == ECORNN_OK)
        n++;
    return n;
}

static bool is_built_in(const char *name)
{
    for (int k = 0; k < builtin_count(); k++)
        if (strcmp(cell_name(k), name) == 0)
            return true;
    return false;
}

/* Its comment is a line about the cell, its source, and its equations. */
static void check_comment(const char *name, const char *text)
{
    const char *const line = strchr(text, '\n'), *const source = strstr(text, "\n# Source: "),
                      *const equations = strstr(text, "\n# Equations: ");
    ck_assert_msg(strncmp(text, "# ", 2) == 0 && line[-1] == '.', "%s: first line", name);
    ck_assert_msg(source == line, "%s: its source is the second line", name);
    ck_assert_msg(equations > source && strstr(equations, "\ncell ") != NULL, "%s: equations",
                  name);
}

START_TEST(holds_the_folder)
{
    const char *name = NULL, *text = NULL, *before = "";
    const int n = count_cells();
    ck_assert_int_ge(n, 40);
    for (int k = 0; k < n; k++, before = name) {
        char file[ECO_MAX_TEXT + 1], inside[128];
        check_ok(ecornn_cell_library(k, &name, &text));
        ck_assert_msg(strcmp(before, name) < 0, "%s after %s", name, before);
        ck_assert_msg(!is_built_in(name), "%s is built in", name);
        snprintf(inside, sizeof inside, "cells/%s.cell", name);
        ck_assert_msg(source_read(inside, file, sizeof file), "no %s", inside);
        ck_assert_str_eq(text, file);
        snprintf(inside, sizeof inside, "tests/cells/%s.cell", name);
        ck_assert_msg(!source_read(inside, file, sizeof file), "%s is there twice", name);
        check_comment(name, text);
    }
    char path[1024];
    source_path(path, "cells/lif.cell");
    *strrchr(path, '/') = '\0';
    DIR *const folder = opendir(path);
    ck_assert(folder != NULL);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        files += strstr(entry->d_name, ".cell") != NULL;
    closedir(folder);
    ck_assert_msg(files == n, "%d files in cells, %d in the list of cells/cells.am", files, n);
}
END_TEST

START_TEST(refuses)
{
    const char *name;
    check_refused(ecornn_cell_library(0, NULL, NULL), ECORNN_BAD_ARGUMENT, "name is NULL");
    check_refused(ecornn_cell_library(-1, &name, NULL), ECORNN_BAD_ARGUMENT, "index is -1");
    check_refused(ecornn_cell_library(count_cells(), &name, NULL), ECORNN_BAD_ARGUMENT, "index is");
    ecornn_desc desc;
    check_refused(parse_desc(&desc, "li-fs/T1/N1/I1/H1", NULL), ECORNN_BAD_ARGUMENT,
                  "no built-in cell is called \"li-fs\", and none of the library");
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static void check_states(const ecornn_cell *cell, int states)
{
    int count;
    check_ok(ecornn_cell_states(cell, &count, NULL));
    ck_assert_int_eq(count, states);
}

/* A cell of the library is made once, and never freed. */
START_TEST(keeps_its_cells)
{
    ecornn_cell *first, *second;
    ecornn_desc desc;
    check_ok(ecornn_cell_parse(&first, "lsnn"));
    ecornn_cell_free(first);
    check_ok(ecornn_cell_parse(&second, "lsnn"));
    ecornn_cell_free(second);
    ck_assert_ptr_eq(first, second);
    check_ok(parse_desc(&desc, "lsnn/train/T3/N2/I3/H4", NULL));
    ck_assert_ptr_eq(desc.cell, first);
    check_states(first, 4);
}
END_TEST

/* Problem strings of layers, nets and tangents name them. */
START_TEST(plans_them)
{
    static const char *const text[] = {"lif/train/L2/bi/T3/N2/I3/H4", "T3/N2/I3; lif/H4; lstm/H5",
                                       "linoss-im/train/T3/N2/I3/H4/tangent"};
    ecornn_device *const device = device_on("cpu:1");
    ecornn_plan *const plan = plan_on(device, text[_i]);
    char print[200];
    ck_assert_int_gt(ecornn_plan_print(plan, print, sizeof print), 0);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

/* A cell that the caller gives comes first, also one with a built-in cell's name. */
START_TEST(prefers_the_callers)
{
    static const char *const name[] = {"lsnn", "lstm"};
    char text[100], problem[100];
    ecornn_cell *own;
    ecornn_plan *plan;
    ecornn_desc desc;
    snprintf(text, sizeof text, "cell %s(h)\nh' = tanh(W x + R h)\n", name[_i]);
    snprintf(problem, sizeof problem, "%s/T3/N2/I3/H4", name[_i]);
    check_ok(ecornn_cell_parse(&own, text));
    check_states(own, 1);
    check_ok(parse_desc(&desc, problem, own));
    ck_assert_ptr_eq(desc.cell, own);
    check_ok(ecornn_plan_create(&plan, NULL, problem, (const ecornn_cell *const[]){own, NULL}));
    ck_assert_int_eq(count_params(plan), 2);
    ecornn_plan_free(plan);
    ecornn_cell_free(own);
}
END_TEST

static void *name_all(void *found)
{
    const char *name;
    ecornn_cell **const cell = found;
    for (int k = 0; ecornn_cell_library(k, &name, NULL) == ECORNN_OK; k++)
        if (ecornn_cell_parse(&cell[k], name) != ECORNN_OK)
            cell[k] = NULL;
    return NULL;
}

START_TEST(names_them_in_threads)
{
    enum { THREADS = 4 };
    static ecornn_cell *cell[THREADS][ECO_LIBRARY_CELLS];
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&thread[t], NULL, name_all, cell[t]), 0);
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_join(thread[t], NULL), 0);
    for (int k = 0; k < count_cells(); k++)
        for (int t = 0; t < THREADS; t++)
            ck_assert(cell[t][k] != NULL && cell[t][k] == cell[0][k]);
}
END_TEST

TEST_MAIN("library", {holds_the_folder, 1}, {refuses, 1}, {keeps_its_cells, 1}, {plans_them, 3},
          {prefers_the_callers, 2}, {names_them_in_threads, 1})
