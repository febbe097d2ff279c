/*
 * Both ends of the pipe between a measurement and an opponent in a process of its own.
 */
#define _POSIX_C_SOURCE 200809L /* fdopen, mkstemp */
#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"
#include "system.h"

enum { LINE_BYTES = 1024 };

/* The one child of this program. */
static struct {
    const struct opponent *opponent;
    struct system_child process;
} child;

/* ---- the child: an opponent that is C -------------------------------------------------------- */

static bool serve_prepare(struct side *side, struct problem *problem, const char *line)
{
    static char device[64];
    int way, end = 0;
    if (sscanf(line, "prepare %d %d %63s %*s %n", &way, &side->threads, device, &end) != 3)
        return false;
    side->problem = problem;
    side->device = strcmp(device, "-") ? device : NULL;
    side->way = (enum way)way;
    if (!problem_parse(problem, line + end, NULL) || !child.opponent->prepare(side))
        return false;
    printf("ready %zu %zu %zu %s\n", side->weights, side->workspace, side->reserve, side->detail);
    return true;
}

static bool serve_line(struct side *side, struct problem *problem, const char *line)
{
    int repeats;
    if (strncmp(line, "prepare ", 8) == 0)
        return serve_prepare(side, problem, line);
    if (sscanf(line, "run %d", &repeats) == 1) {
        if (!child.opponent->run(side, repeats))
            return false;
        return printf("seconds %.17g %.17g\n", side->seconds, side->core_seconds) > 0;
    }
    child.opponent->free(side); /* "free" */
    problem_free(problem);
    *side = (struct side){.problem = NULL};
    return printf("ready 0 0 0\n") > 0;
}

/* Reads commands until there are no more. */
static void serve(void)
{
    struct side side = {.problem = NULL};
    struct problem problem = {.uniform = false};
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (!serve_line(&side, &problem, line))
            printf("no does not run this problem\n");
        fflush(stdout);
    }
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Sends a command and reads the answer.  False: it is "no", or there is none. */
static bool ask(const char *command, char answer[LINE_BYTES])
{
    if (fprintf(child.process.to, "%s\n", command) < 0 || fflush(child.process.to) != 0 ||
        !fgets(answer, LINE_BYTES, child.process.from))
        return say("the process of %s ended", child.opponent->name);
    answer[strcspn(answer, "\n")] = '\0';
    return strncmp(answer, "no ", 3) != 0 || say("%s %s", child.opponent->name, answer + 3);
}

/* The data of a side between prepare and free. */
struct context {
    char path[64]; /* of the file with the data */
    float *results;
};

static bool write_floats(FILE *file, const void *array, size_t count)
{
    return count == 0 || fwrite(array, sizeof(float), count, file) == count;
}

/* Writes all inputs, dy, and the parameters in the opponent's order. */
static bool write_data(const struct side *side, FILE *file)
{
    const struct problem *p = side->problem;
    size_t count = 0;
    if (ecornn_import_size(side->plan, child.opponent->params, &count) != ECORNN_OK)
        return say("%s: %s", p->text, ecornn_error_detail());
    float *params = malloc((count + 1) * sizeof *params);
    const bool good = params && ecornn_export(side->plan, child.opponent->params, p->params, params,
                                              ECORNN_F32, count) == ECORNN_OK;
    const bool written = good && write_floats(file, p->x, p->x_elements * (size_t)p->sets) &&
                         write_floats(file, p->dy, p->y_elements) &&
                         write_floats(file, params, count);
    free(params);
    return written || say("%s: cannot write the data for %s", p->text, child.opponent->name);
}

static bool make_file(const struct side *side, struct context *context)
{
    snprintf(context->path, sizeof context->path, "/tmp/ecornn-bench-XXXXXX");
    const int number = mkstemp(context->path);
    FILE *file = number >= 0 ? fdopen(number, "wb") : NULL;
    const bool good = file && write_data(side, file);
    return file && fclose(file) == 0 && good;
}

static bool remote_prepare(struct side *side)
{
    char command[LINE_BYTES], answer[LINE_BYTES];
    struct context *context = side->context = calloc(1, sizeof *context);
    int end = 0;
    if (!context || (child.opponent->where == IN_PYTHON && !make_file(side, context)))
        return false;
    snprintf(command, sizeof command, "prepare %d %d %s %s %s", (int)side->way, side->threads,
             side->device ? side->device : "-", context->path[0] ? context->path : "-",
             side->problem->text);
    if (!ask(command, answer) || sscanf(answer, "ready %zu %zu %zu %n", &side->weights,
                                        &side->workspace, &side->reserve, &end) != 3)
        return false;
    snprintf(side->detail, sizeof side->detail, "%s", answer + end);
    return true;
}

static bool remote_run(struct side *side, int repeats)
{
    char command[LINE_BYTES], answer[LINE_BYTES];
    snprintf(command, sizeof command, "run %d", repeats);
    return ask(command, answer) &&
           sscanf(answer, "seconds %lf %lf", &side->seconds, &side->core_seconds) == 2;
}

static bool remote_results(struct side *side)
{
    const struct problem *p = side->problem;
    struct context *context = side->context;
    const size_t count = p->y_elements + (p->training ? p->x_elements : 0);
    char answer[LINE_BYTES];
    context->results = malloc(count * sizeof *context->results);
    if (!context->results || !ask("results", answer))
        return false;
    FILE *file = fopen(context->path, "rb");
    const bool good = file && fread(context->results, sizeof(float), count, file) == count;
    if (file)
        fclose(file);
    side->y = context->results;
    side->dx = p->training ? context->results + p->y_elements : NULL;
    return good || say("%s: %s left no results", p->text, child.opponent->name);
}

static void remote_free(struct side *side)
{
    struct context *context = side->context;
    char answer[LINE_BYTES];
    /* If the process has ended, an earlier ask() has reported that. */
    if (!ferror(child.process.to) && !feof(child.process.from))
        ask("free", answer);
    if (!context)
        return;
    if (context->path[0])
        unlink(context->path);
    free(context->results);
    free(context);
}

const struct opponent *remote_start(const struct opponent *opponent, const char *script)
{
    static struct opponent remote;
    remote = *opponent;
    remote.prepare = remote_prepare;
    remote.run = remote_run;
    remote.results = opponent->where == IN_PYTHON ? remote_results : NULL;
    remote.free = remote_free;
    child.opponent = opponent;
    const char *const words[] = {"python3", script, opponent->name, NULL};
    if (system_child_start(&child.process, opponent->where == IN_PYTHON ? words : NULL, serve))
        return &remote;
    say("no process for %s", opponent->name);
    return NULL;
}

void remote_stop(void)
{
    system_child_end(&child.process);
}
