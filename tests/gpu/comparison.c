/* Runs a case by every algorithm of the device and compares it with the reference. Also knows which
 * cases this process runs. */
#include "tests/gpu/comparison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *only;
ecornn_device *device;
int compared;
bool restricted;

/* This process runs every part.of-th case, beginning with case part.first. */
static struct part {
    int first, of;
} part = {0, 1};

bool read_part(void)
{
    const char *text = getenv("ECORNN_PART");
    if (text && !only && sscanf(text, "%d/%d", &part.first, &part.of) != 2)
        fprintf(stderr, "ECORNN_PART is %s, must be K/N\n", text);
    return part.first == 0;
}

int share(int cases)
{
    return cases > part.first ? (cases - part.first + part.of - 1) / part.of : 0;
}

int nth(int i)
{
    return part.first + i * part.of;
}

void set_nvrtc(const char *value)
{
    static char users[1024];
    static bool known;
    if (!known)
        snprintf(users, sizeof users, "%s", getenv("ECORNN_NVRTC") ? getenv("ECORNN_NVRTC") : "");
    known = true;
    setenv("ECORNN_NVRTC", value ? value : users, 1);
}

/* Runs the case of a cell that is not built in again, interpreted instead of compiled by NVRTC. It
 * must give the same bits, unless algorithm k refuses to interpret. */
static bool interprets_the_same(const struct test_case *test, int k, const struct data *inputs,
                                const struct data *compiled)
{
    const struct machine machine = {device, test->desc.type, 1, NULL};
    struct data results = {0};
    set_nvrtc("0");
    const bool ok = !algorithm_runs(device, k, test) ||
                    (case_run(test, &machine, inputs, &results) &&
                     results_same(test, device->backend->algos[k]->name, compiled, &results));
    set_nvrtc(NULL);
    data_free(&results);
    return ok;
}

/* Runs one algorithm twice: as the planner chooses rows, products and chunks, and with padded rows,
 * split operands and chunks so short that nearly every run has several. In some cases the second
 * run also sends the states of steps to a launch of their own. */
static bool algorithm_agrees(const struct test_case *test, int k, const char *name,
                             const char *rows, const struct data *inputs,
                             const struct data *expected)
{
    const struct machine machine = {device, test->desc.type, *rows ? 1 : BACKWARDS, NULL};
    struct data results = {0};
    setenv("ECORNN_ROWS", rows, 1);
    setenv("ECORNN_EMULATED_F32", !*rows ? "" : strlen(test->text) % 2 == 0 ? "1" : "2", 1);
    setenv("ECORNN_CHUNK", *rows ? "2" : "", 1);
    const bool ok = case_run(test, &machine, inputs, &results) &&
                    results_agree(test, name, expected, &results) &&
                    (!test->own || interprets_the_same(test, k, inputs, &results));
    data_free(&results);
    if (!ok)
        fprintf(stderr, "%s: rows %s\n", test->text, *rows ? rows : "as planned");
    return ok;
}

bool algorithms_agree(const struct test_case *test, const struct data *inputs,
                      const struct data *expected)
{
    const char *name;
    ecornn_plan *plan;
    int ran = 0;
    bool ok = true;
    for (int k = 0; ok && k < algorithm_count(device->backend); k++)
        if (algorithm_take(device->backend, k, &name) && algorithm_runs(device, k, test)) {
            ok = algorithm_agrees(test, k, name, "", inputs, expected) &&
                 algorithm_agrees(test, k, name, "padded", inputs, expected);
            ran++;
        }
    algorithm_leave();
    setenv("ECORNN_ROWS", "", 1);
    setenv("ECORNN_EMULATED_F32", "", 1);
    setenv("ECORNN_CHUNK", "", 1);
    if (ran == 0 && ecornn_plan_create_desc(&plan, device, &test->desc) == ECORNN_UNSUPPORTED &&
        strstr(ecornn_error_detail(), "does not support a y of several states") != NULL)
        return true;
    if (ok && ran == 0 && !restricted)
        fprintf(stderr, "%s: no algorithm ran it\n", test->text);
    compared += ran > 0;
    return ok && (ran > 0 || restricted);
}

bool retype(char text[CASE_TEXT], const char *type)
{
    char *at = strstr(text, "/f32/");
    char rest[CASE_TEXT];
    const bool narrow = strncmp(type, "f32", 3) != 0; /* 16-bit types keep everything in one type */
    if (!at || strstr(text, "-weights") || (narrow && strstr(text, "-save")))
        return false;
    snprintf(rest, sizeof rest, "%s", at + 5);
    snprintf(at, (size_t)(text + CASE_TEXT - at), "/%s/%s", type, rest);
    return true;
}

void check_in_types(const char *const list[], int i)
{
    static const char *const type[TYPES] = {"f32", "f32/fast", "bf16", "f16"};
    char text[CASE_TEXT];
    snprintf(text, sizeof text, "%s", list[i / TYPES]);
    if (i % TYPES > 0)
        ck_assert(retype(text, type[i % TYPES]));
    ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
}
