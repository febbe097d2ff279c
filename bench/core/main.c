/*
 * bench: how fast problems run, next to what the processor could do and next to the same layer
 * written as a loop over a BLAS.  Problems are strings of ecornn_desc_parse, "/lengths:uniform" may
 * follow; "@NAME" stands for a list in a file of shapes.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "measure.h"
#include "say.h"
#include "bench/cpu/peak.h"

#ifndef BENCH_SHAPES
#define BENCH_SHAPES "bench/shapes.txt"
#endif

const char program_name[] = "bench";

enum { THREADS_MAX = 1024 };

struct settings {
    struct request request;
    const char *threads, *cell, *shapes;
    bool headless;
    int first_problem;
};

static void print_help(void)
{
    printf(
        "Usage: bench [OPTION]... PROBLEM...\n"
        "PROBLEM: like lstm/train/T50/N32/I256/H256, /lengths:uniform may follow, and /resets:3, "
        "in percent; or @LIST of the file of shapes.\n\n"
        "  --threads LIST   as 1,2: each in turn (all cores)\n"
        "  --seconds S      of runs, each side (1)\n"
        "  --cell FILE      the cell of the problems, in the language of doc/cells.md\n"
        "  --versus WHOM    one of those below\n"
        "  --device NAME    instead of cpu:THREADS\n"
        "  --shapes FILE    lists of problems (" BENCH_SHAPES ")\n"
        "  --isa SET        both sides use no more than amx, avx512bf16, avx512, avx2, sse2\n"
        "  --csv            comma separated\n"
        "  --markdown       as a table\n"
        "  --no-head        of that table\n\n"
        "Opponents:\n");
    for (int k = 0; opponent_at(k); k++)
        printf("  %s: %s\n", opponent_at(k)->name, opponent_at(k)->about);
}

static bool set_seconds(struct settings *s, const char *value)
{
    char *end = NULL;
    s->request.seconds = strtod(value, &end);
    return (*value && !*end && s->request.seconds >= 0 && s->request.seconds <= 1e6) ||
           say("--seconds is %s, must be 0 to 1000000", value);
}

static bool set_versus(struct settings *s, const char *value)
{
    s->request.versus = opponent_find(value);
    return s->request.versus || say("--versus is %s, which is not here; --help lists them", value);
}

/* Read when the first device is opened, and by oneDNN before its first kernel. */
static bool set_isa(struct settings *s, const char *value)
{
    static const struct {
        const char *ours, *onednn;
        int lanes;
    } table[] = {{"amx", "AVX512_CORE_AMX", 64},
                 {"avx512bf16", "AVX512_CORE_BF16", 32},
                 {"avx512", "AVX512_CORE_VNNI", 16},
                 {"avx2", "AVX2", 8},
                 {"sse2", "SSE41", 4}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(value, table[k].ours)) {
            peak_limit(table[k].lanes);
            s->request.capped = true;
            return setenv("ECORNN_ISA", value, 1) == 0 &&
                   setenv("ONEDNN_MAX_CPU_ISA", table[k].onednn, 1) == 0;
        }
    return say("--isa is %s, must be amx, avx512bf16, avx512, avx2 or sse2", value);
}

/* An option without a value. */
static bool set_form(struct settings *s, const char *option)
{
    if (!strcmp(option, "--csv"))
        s->request.form = CSV;
    else if (!strcmp(option, "--markdown"))
        s->request.form = MARKDOWN;
    else if (!strcmp(option, "--no-head"))
        s->headless = true;
    else
        return false;
    return true;
}

static bool parse_options(struct settings *s, int count, char **arguments)
{
    const struct {
        const char *name;
        const char **value;
        bool (*set)(struct settings *, const char *);
    } table[] = {{"--threads", &s->threads, NULL},
                 {"--seconds", NULL, set_seconds},
                 {"--cell", &s->cell, NULL},
                 {"--versus", NULL, set_versus},
                 {"--isa", NULL, set_isa},
                 {"--shapes", &s->shapes, NULL},
                 {"--device", &s->request.device, NULL}};
    int k = 1;
    for (; k < count && !strncmp(arguments[k], "--", 2); k++) {
        size_t row = 0;
        if (set_form(s, arguments[k]))
            continue;
        while (row < sizeof table / sizeof *table && strcmp(arguments[k], table[row].name) != 0)
            row++;
        if (row == sizeof table / sizeof *table)
            return say("unknown option %s; --help lists them", arguments[k]);
        if (++k == count)
            return say("%s needs a value", arguments[k - 1]);
        if (table[row].value)
            *table[row].value = arguments[k];
        else if (!table[row].set(s, arguments[k]))
            return false;
    }
    s->first_problem = k;
    return k < count || say("no problem; %s lists the options", "--help");
}

/* A problem with every number of threads in the list. */
static bool run_problem(const struct settings *s, const char *problem)
{
    struct request request = s->request;
    const char *at = s->threads;
    bool good = true;
    request.problem = problem;
    if (request.cell && !names_cell(problem, request.cell, s->cell))
        return false;
    if (!at)
        return measure(&request);
    while (*at) {
        char *end = NULL;
        const long threads = strtol(at, &end, 10);
        if (end == at || threads < 1 || threads > THREADS_MAX || (*end && *end != ','))
            return say("--threads is %s, must be numbers of 1 to 1024 with commas between",
                       s->threads);
        request.threads = (int)threads;
        good = measure(&request) && good;
        at = *end ? end + 1 : end;
    }
    return good;
}

static bool run_line(void *own, const char *problem)
{
    return run_problem(own, problem);
}

static bool run_all(struct settings *s, int count, char **arguments)
{
    bool good = true;
    if (!s->headless)
        report_head(s->request.form);
    for (int k = s->first_problem; k < count; k++) {
        if (arguments[k][0] == '@')
            good = list_each(s->shapes, arguments[k] + 1, run_line, s) && good;
        else
            good = run_problem(s, arguments[k]) && good;
    }
    return good;
}

/* How many threads a run uses when nobody says. */
static int usual_threads(void)
{
    ecornn_device *device = NULL;
    ecornn_device_info info = {.threads = 1};
    if (ecornn_device_open(&device, "cpu") == ECORNN_OK)
        ecornn_device_query(device, &info);
    ecornn_device_close(device);
    return info.threads;
}

int main(int count, char **arguments)
{
    struct settings settings = {.request = {.seconds = 1}, .shapes = BENCH_SHAPES};
    ecornn_cell *cell = NULL;
    if (count > 1 && !strcmp(arguments[1], "--help")) {
        print_help();
        return 0;
    }
    if (!parse_options(&settings, count, arguments))
        return 2;
    if (settings.cell && !(cell = read_cell(settings.cell)))
        return 1;
    settings.request.cell = cell;
    settings.request.threads = usual_threads();
    const bool good = run_all(&settings, count, arguments);
    ecornn_cell_free(cell);
    return good ? 0 : 1;
}
