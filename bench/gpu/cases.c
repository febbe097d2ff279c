/*
 * The problems of a call of bench_gpu, and what was measured of them in words; see gpu.h.
 */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- problems -------------------------------------------------------------------------------- */

enum { MOST = 4096 };

static void stop(const char *format, const char *name)
{
    fprintf(stderr, "bench_gpu: ");
    fprintf(stderr, format, name);
    fprintf(stderr, "\n");
    exit(2);
}

/* The problem, with more parts behind its cell's name. */
static void add(struct gpu_case *cases, int *n, const char *problem, const char *parts,
                const ecornn_cell *own)
{
    struct gpu_case *one = &cases[*n];
    const int cell = (int)strcspn(problem, "/");
    if (*n == MOST)
        stop("too many problems: %s", problem);
    snprintf(one->cell, sizeof one->cell, "%.*s", cell, problem);
    if (snprintf(one->problem, sizeof one->problem, "%.*s%s%s", cell, problem, parts,
                 problem + cell) >= (int)sizeof one->problem)
        stop("too long: %s", problem);
    char plain[sizeof one->problem];
    strcpy(plain, one->problem);
    char *const percent = gpu_resets(plain);
    if (percent) /* the colon and what follows */
        memmove(percent - 1, percent + strcspn(percent, "/"),
                strlen(percent + strcspn(percent, "/")) + 1);
    gpu_check_ours(ecornn_desc_parse(&one->desc, plain, own), one->problem);
    ++*n;
}

/* The lines under [NAME] in the file; argument: NAME or NAME/PARTS. */
static void add_list(struct gpu_case *cases, int *n, const char *shapes, const char *argument,
                     const ecornn_cell *own)
{
    char line[160], head[80];
    const int name = (int)strcspn(argument, "/"), before = *n;
    bool inside = false;
    FILE *file = fopen(shapes, "r");
    if (!file)
        stop("%s cannot be opened; --shapes names another", shapes);
    snprintf(head, sizeof head, "[%.*s]", name, argument);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, " \t\r\n#")] = '\0';
        if (line[0] == '[')
            inside = strcmp(line, head) == 0;
        else if (inside && line[0] != '\0')
            add(cases, n, line, argument + name, own);
    }
    fclose(file);
    if (*n == before)
        stop("there is no list %s", head);
}

struct gpu_case *gpu_cases(int *n, const char *shapes, char **arguments, int count,
                           const ecornn_cell *own)
{
    struct gpu_case *cases =
        mmap(NULL, MOST * sizeof *cases, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cases == MAP_FAILED)
        stop("no memory%s", "");
    *n = 0;
    for (int k = 0; k < count; k++)
        if (arguments[k][0] == '@')
            add_list(cases, n, shapes, arguments[k] + 1, own);
        else
            add(cases, n, arguments[k], "", own);
    return cases;
}

/* ---- a line ---------------------------------------------------------------------------------- */

static double mebibytes(size_t bytes)
{
    return (double)bytes / 0x1p20;
}

void gpu_print_case(const struct gpu_case *one)
{
    const ecornn_desc *desc = &one->desc;
    const struct cudnn_best *theirs = &one->theirs;
    const double us = 1e6 / desc->steps / (desc->layers ? desc->layers : 1);
    const bool ours = one->graph.median > 0;
    printf("%-44s us/step", one->problem);
    if (ours)
        printf(" eager %6.2f graph %6.2f", us * one->eager.median, us * one->graph.median);
    if (one->packed.median > 0)
        printf(" with pack %6.2f", us * one->packed.median);
    if (theirs->eager.median > 0)
        printf("%s cuDNN eager %6.2f (%s) graph %6.2f (%s)", ours ? " |" : "",
               us * theirs->eager.median, theirs->eager_how, us * theirs->graph.median,
               theirs->graph_how);
    if (theirs->eager.median > 0 && ours)
        printf(" | ratio %.2f eager %.2f", theirs->graph.median / one->graph.median,
               theirs->eager.median / one->eager.median);
    if (ours)
        printf(" | plan ms first %.2f again %.2f | MiB workspace %.1f reserve %.1f",
               1e3 * one->plan[0], 1e3 * one->plan[1], mebibytes(one->sizes.workspace),
               mebibytes(one->sizes.reserve));
    if (theirs->eager.median > 0)
        printf(", theirs %.1f %.1f", mebibytes(theirs->workspace), mebibytes(theirs->reserve));
    printf("\n");
    fflush(stdout);
}

void gpu_print_row_head(void)
{
    printf("problem,way,us,spread us,peer,peer us,peer spread us,workspace MiB,reserve MiB\n");
    fflush(stdout); /* before processes copy it */
}

/* Ours and cuDNN's of one way to run; nothing where ours was not measured. */
static void print_way(const struct gpu_case *one, const char *way, struct gpu_seconds ours,
                      struct gpu_seconds theirs, const char *how)
{
    const double us = 1e6 / one->desc.steps / (one->desc.layers ? one->desc.layers : 1);
    if (!(ours.median > 0))
        return;
    printf("%s,%s,%.4g,%.2g,", one->problem, way, us * ours.median, us * ours.spread);
    if (theirs.median > 0)
        printf("cuDNN %s,%.4g,%.2g", how, us * theirs.median, us * theirs.spread);
    else
        printf(",,");
    printf(",%.1f,%.1f\n", mebibytes(one->sizes.workspace), mebibytes(one->sizes.reserve));
}

void gpu_print_row(const struct gpu_case *one)
{
    print_way(one, "graph", one->graph, one->theirs.graph, one->theirs.graph_how);
    print_way(one, "eager", one->eager, one->theirs.eager, one->theirs.eager_how);
    fflush(stdout);
}

/* ---- means ----------------------------------------------------------------------------------- */

struct means {
    int n;
    double graph, eager; /* sums of logarithms */
};

static void print_mean(const char *name, const struct means *means)
{
    if (means->n > 0)
        printf(" | %s %d: %.2f eager %.2f", name, means->n, exp(means->graph / means->n),
               exp(means->eager / means->n));
}

/* Of one type, math and mode. */
struct kind {
    char name[32];
    struct means mean[3]; /* one layer and direction, deep, all */
    double least, plan, reserve;
    const char *which;
};

static void kind_name(const ecornn_desc *desc, char name[32])
{
    static const char *const type[] = {"f32", "f64", "bf16", "f16"};
    snprintf(name, 32, "%s%s, %s", type[desc->type], desc->flags & ECORNN_FAST_MATH ? "/fast" : "",
             desc->flags & ECORNN_TRAINING ? "training" : "inference");
}

static void count(struct kind *kind, const struct gpu_case *one)
{
    const ecornn_desc *desc = &one->desc;
    const struct cudnn_best *theirs = &one->theirs;
    const bool deep = desc->layers > 1 || desc->direction == ECORNN_BIDIRECTIONAL;
    const double ratio = theirs->graph.median / one->graph.median;
    for (int k = 0; k < 2; k++) {
        struct means *mean = &kind->mean[k == 0 ? deep : 2];
        mean->n++;
        mean->graph += log(ratio);
        mean->eager += log(theirs->eager.median / one->eager.median);
    }
    if (!kind->which || ratio < kind->least) {
        kind->least = ratio;
        kind->which = one->problem;
    }
    kind->plan = fmax(kind->plan, fmax(one->plan[0], one->plan[1]));
    if (theirs->reserve > 0)
        kind->reserve = fmax(kind->reserve, (double)one->sizes.reserve / (double)theirs->reserve);
}

static void print_kind(const struct kind *kind, const struct gpu_case *cases, int n)
{
    char name[32];
    printf("%-20s", kind->name);
    print_mean("one layer", &kind->mean[0]);
    print_mean("deep", &kind->mean[1]);
    print_mean("all", &kind->mean[2]);
    printf(" | least %.2f %s | plan at most %.2f ms", kind->least, kind->which, 1e3 * kind->plan);
    if (kind->reserve > 0)
        printf(", reserve %.3f of theirs", kind->reserve);
    for (int i = 0; i < n; i++) {
        kind_name(&cases[i].desc, name);
        if (strcmp(name, kind->name) == 0 && cases[i].theirs.graph.median > 0 &&
            strcmp(cases[i].theirs.graph_how, "standard") != 0)
            printf(" | %s: theirs is %s", cases[i].problem, cases[i].theirs.graph_how);
    }
    printf("\n");
}

void gpu_print_means(const struct gpu_case *cases, int n)
{
    enum { KINDS = 16 };
    struct kind kinds[KINDS] = {0};
    for (int i = 0; i < n; i++) {
        char name[32];
        int k = 0;
        kind_name(&cases[i].desc, name);
        while (k < KINDS - 1 && kinds[k].name[0] && strcmp(kinds[k].name, name) != 0)
            k++;
        snprintf(kinds[k].name, sizeof kinds[k].name, "%s", name);
        if (cases[i].graph.median > 0 && cases[i].theirs.graph.median > 0)
            count(&kinds[k], &cases[i]);
    }
    for (int k = 0; k < KINDS; k++)
        if (kinds[k].mean[2].n > 1)
            print_kind(&kinds[k], cases, n);
}
