/* ecornn bench: measures how long problems take, alone or in turn with an opponent. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/program.h"
#include "bench/core/remote.h"
#include "bench/core/report.h"
#include "bench/core/say.h"
#include "command.h"

/* The options that all problems of a call share. */
struct bench {
    struct session *session;
    const struct opponent *opponent; /* NULL: none */
    FILE *csv;                       /* NULL: no table */
    struct means means;
};

static void print_json(struct json *json, const struct measurement *m)
{
    struct field fields[MOST_FIELDS];
    const int n = report_fields(m, fields);
    json_object(json, NULL);
    json_text(json, "device", m->info.name);
    for (int k = 0; k < n; k++)
        if (fields[k].is_text)
            json_text(json, fields[k].name, fields[k].value);
        else
            json_number(json, fields[k].name,
                        fields[k].value[0] ? strtod(fields[k].value, NULL) : NAN);
    json_end(json);
}

static void report(void *context, const struct measurement *list, int n)
{
    struct bench *bench = context;
    for (int k = 0; k < n; k++) {
        means_add(&bench->means, &list[k]);
        if (bench->csv)
            report_csv_row(bench->csv, &list[k]);
        if (bench->session->options->json)
            print_json(&bench->session->json, &list[k]);
    }
    if (bench->csv)
        fflush(bench->csv);
    if (bench->csv != stdout && !bench->session->options->json)
        report_line(list, n);
}

/* Opens the table, and writes its head if the file is new; "-" is standard output. */
static bool open_csv(struct bench *bench, const char *path)
{
    if (path == NULL)
        return true;
    bench->csv = strcmp(path, "-") == 0 ? stdout : fopen(path, "a");
    if (bench->csv == NULL)
        return say("%s: %s", path, strerror(errno));
    if (bench->csv == stdout || (fseek(bench->csv, 0, SEEK_END) == 0 && ftell(bench->csv) == 0))
        report_csv_head(bench->csv);
    fflush(bench->csv);
    return true;
}

static bool close_csv(struct bench *bench, const char *path)
{
    if (bench->csv == NULL || bench->csv == stdout)
        return true;
    const bool good = ferror(bench->csv) == 0;
    return (fclose(bench->csv) == 0 && good) || say("%s cannot be written", path);
}

static bool measure_on(struct bench *bench, const char *problem, const char *device, bool gpu)
{
    const struct session *session = bench->session;
    const struct request request = {
        .problem = problem,
        .device = device,
        .gpu = gpu,
        .cell = session->cell,
        .seconds = session->options->seconds > 0 ? session->options->seconds : 1,
        .bounds = bench->csv != NULL || session->options->json,
        .opponent = bench->opponent};
    return measure(&request, report, bench);
}

/* Measures a problem with each number of threads. */
static bool measure_threads(struct bench *bench, const char *problem, const char *list)
{
    bool good = true;
    for (const char *at = list; *at != '\0';) {
        char device[32], *end;
        snprintf(device, sizeof device, "cpu:%ld", strtol(at, &end, 10));
        good = measure_on(bench, problem, device, false) && good;
        at = *end == ',' ? end + 1 : end;
    }
    return good;
}

static bool measure_problem(struct session *session, const char *problem)
{
    struct bench *bench = session->own;
    ecornn_device_info info = {.size = sizeof info};
    bench->session = session;
    if (is_attention(problem))
        return attention_bench(session, problem);
    if (!is_one_plan(problem))
        return false;
    if (ecornn_device_query(session->device, &info) != ECORNN_OK)
        return say("%s", ecornn_error_detail());
    const char *threads = session->options->threads;
    const bool gpu = !threads && strcmp(info.backend, "cuda") == 0;
    if (bench->opponent && bench->opponent->gpu != gpu)
        return say("--versus %s measures %s alone", bench->opponent->name,
                   bench->opponent->gpu ? "GPUs" : "CPUs");
    return threads ? measure_threads(bench, problem, threads)
                   : measure_on(bench, problem, session->options->device, gpu);
}

static void print_opponents(void)
{
    say("the opponents of this program are:");
    for (int k = 0; program.opponents[k] != NULL; k++)
        fprintf(stderr, "  %s: %s\n", program.opponents[k]->name, program.opponents[k]->about);
}

static int run(const struct options *options)
{
    struct bench bench = {.opponent = NULL};
    if (options->versus && !(bench.opponent = program_opponent(options->versus))) {
        say("--versus is %s, which this program was built without", options->versus);
        print_opponents();
        return 2;
    }
    if (options->threads && options->device) {
        say("--threads names CPUs, so it does not go with --device");
        return 2;
    }
    if (bench.opponent && bench.opponent->where != IN_PROCESS &&
        !(bench.opponent = remote_start(bench.opponent, program.peers)))
        return 1;
    int status = !open_csv(&bench, options->csv);
    if (status == 0) {
        status = session_run(options, true, measure_problem, &bench);
        status |= !close_csv(&bench, options->csv);
    }
    if (bench.csv != stdout && !options->json)
        means_print(&bench.means);
    remote_stop();
    return status;
}

const struct command command_bench = {
    .name = "bench",
    .operands = "PROBLEM|@LIST...",
    .about = "Times problems, alone or beside another library",
    .more = "A run of inference is forward.  On a CPU a run of training packs the weights, runs\n"
            "forward and backward, and unpacks; on a GPU packing is a way of its own.\n"
            "\"/lengths:uniform\" may follow a PROBLEM, and \"/resets:3\", in percent.\n"
            "@LIST/bf16/train puts bf16/train into each problem of the list.\n"
            "--versus: ort and torch need these packages in the first python3 of PATH; the build\n"
            "tree's bench/ecornn also has loop, onednn and cudnn, where they were found.\n",
    .takes = TAKES_JSON | TAKES_DEVICE | TAKES_CELL | TAKES_SHAPES | TAKES_SECONDS |
             TAKES_RECORDED | TAKES_RANDOM | TAKES_SEED | TAKES_CSV | TAKES_VERSUS | TAKES_THREADS,
    .most = MANY_OPERANDS,
    .run = run,
};
