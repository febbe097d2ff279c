/*
 * Printing.
 */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "say.h"

/* Peaks before and after that differ by more than this say that the clock changed. */
static const double PEAK_DRIFT = 0.05;

static const char *way_name(const struct measurement *m, char name[32])
{
    static const char *const names[] = {"", "eager", "graph", "graph with packing"};
    if (m->way == ON_CPU)
        snprintf(name, 32, "%d thread%s", (int)m->info.threads, m->info.threads == 1 ? "" : "s");
    else
        snprintf(name, 32, "%s", names[m->way]);
    return name;
}

static double gflops(const struct measurement *m)
{
    return m->problem->flops / m->total.median * 1e-9;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct row {
    struct field *fields;
    int n;
};

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static void
put(struct row *row, const char *name, bool is_text, const char *format, ...)
{
    struct field *field = &row->fields[row->n++];
    va_list list;
    va_start(list, format);
    *field = (struct field){.name = name, .is_text = is_text};
    vsnprintf(field->value, sizeof field->value, format, list);
    va_end(list);
    for (char *at = field->value; *at != '\0'; at++) /* what would end a value or a line */
        if (*at == ',' || *at == '"' || (unsigned char)*at < ' ')
            *at = ' ';
}

/* known: false leaves the value empty. */
static void put_number(struct row *row, const char *name, bool known, int digits, double value)
{
    if (known)
        put(row, name, false, "%.*f", digits, value);
    else
        put(row, name, false, "%s", "");
}

static void put_spread(struct row *row, const char *const names[3], bool known, int digits,
                       double factor, struct spread spread)
{
    put_number(row, names[0], known, digits, factor * spread.median);
    put_number(row, names[1], known, digits, factor * spread.low);
    put_number(row, names[2], known, digits, factor * spread.high);
}

static void put_opponent(struct row *row, const struct measurement *m)
{
    static const char *const ms[] = {"versus_ms", "versus_ms_low", "versus_ms_high"};
    static const char *const ratio[] = {"ratio", "ratio_low", "ratio_high"};
    const bool there = m->opponent != NULL;
    put(row, "versus", true, "%s", there ? m->opponent->name : "");
    put(row, "versus_how", true, "%s", there ? m->side.detail : "");
    put_spread(row, ms, there, 6, 1e3, m->other);
    put_number(row, "versus_core_ms", there, 6, 1e3 * m->other_core.median);
    put_spread(row, ratio, there, 4, 1, m->ratio);
    put_number(row, "versus_weights_bytes", there, 0, (double)m->side.weights);
    put_number(row, "versus_workspace_bytes", there, 0, (double)m->side.workspace);
    put_number(row, "versus_reserve_bytes", there, 0, (double)m->side.reserve);
}

int report_fields(const struct measurement *m, struct field fields[MOST_FIELDS])
{
    static const char *const ms[] = {"ms", "ms_low", "ms_high"};
    static const char *const core_ms[] = {"core_ms", "core_ms_low", "core_ms_high"};
    const double peak = fmax(m->peak_before, m->peak_after);
    const bool bounds = m->peak_before > 0;
    struct row row = {.fields = fields};
    char name[32];
    put(&row, "problem", true, "%s", m->problem ? m->problem->text : "");
    put(&row, "threads", false, "%d", (int)m->info.threads);
    put(&row, "variant", true, "%s", m->info.variant);
    put(&row, "rounds", false, "%d", m->rounds);
    put_number(&row, "peak_before", bounds, 1, m->peak_before);
    put_number(&row, "peak_after", bounds, 1, m->peak_after);
    put_number(&row, "steady", bounds, 0,
               fabs(m->peak_after - m->peak_before) <= PEAK_DRIFT * m->peak_before);
    put_spread(&row, ms, true, 6, 1e3, m->total);
    put_spread(&row, core_ms, true, 6, 1e3, m->core);
    put_number(&row, "gflops", true, 2, m->problem ? gflops(m) : 0);
    /* relative to the higher peak, because other programs may have slowed either measurement */
    put_number(&row, "percent", bounds, 2, bounds ? 100 * gflops(m) / peak : 0);
    put_number(&row, "floor_ms", m->bound.bound > 0, 6, 1e3 * m->bound.floor);
    put_number(&row, "bound_ms", m->bound.bound > 0, 6, 1e3 * m->bound.bound);
    put_opponent(&row, m);
    put(&row, "params", false, "%zu", m->sizes.param_elements);
    put(&row, "weights_bytes", false, "%zu", m->sizes.weight_bytes);
    put(&row, "workspace_bytes", false, "%zu", m->sizes.workspace_bytes);
    put(&row, "reserve_bytes", false, "%zu", m->sizes.reserve_bytes);
    put(&row, "way", true, "%s", way_name(m, name));
    return row.n;
}

void report_csv_head(FILE *file)
{
    struct field fields[MOST_FIELDS];
    const int n = report_fields(&(struct measurement){.problem = NULL}, fields);
    for (int k = 0; k < n; k++)
        fprintf(file, "%s%s", k ? "," : "", fields[k].name);
    fputc('\n', file);
}

void report_csv_row(FILE *file, const struct measurement *m)
{
    struct field fields[MOST_FIELDS];
    const int n = report_fields(m, fields);
    for (int k = 0; k < n; k++)
        fprintf(file, "%s%s", k ? "," : "", fields[k].value);
    fputc('\n', file);
}

/* ---- a line ---------------------------------------------------------------------------------- */

static double mebibytes(size_t bytes)
{
    return (double)bytes / 0x1p20;
}

static void print_opponent(const struct measurement *list, int n, double us)
{
    char name[32];
    for (int k = 0; k < n; k++) {
        if (!list[k].opponent)
            continue;
        printf(k ? " %s" : " | %s", k ? way_name(&list[k], name) : list[k].opponent->name);
        printf(" %.2f", us * list[k].other.median);
        if (list[k].side.detail[0])
            printf(" (%s)", list[k].side.detail);
    }
    for (int k = 0; k < n; k++)
        if (list[k].opponent)
            printf("%s %s %.2f [%.2f, %.2f]", k ? "" : " | ratio", way_name(&list[k], name),
                   list[k].ratio.median, list[k].ratio.low, list[k].ratio.high);
}

static void print_calls(const struct measurement *m)
{
    if (m->calls[0].median > 0)
        printf(" | single calls us: median %.2f, 99th percentile %.2f", 1e6 * m->calls[0].median,
               1e6 * m->calls[0].tail);
    if (m->calls[1].median > 0)
        printf("; %s %.2f, %.2f", m->opponent->name, 1e6 * m->calls[1].median,
               1e6 * m->calls[1].tail);
}

/* The bound of a GPU, and how much of it the run from a graph reaches. */
static void print_bound(const struct measurement *m, double us)
{
    if (m->way != ON_CPU)
        printf(" | %s at least %.2f, %.0f %% reached",
               m->bound.bound > m->bound.floor ? "bytes" : "FLOPs", us * m->bound.bound,
               100 * m->bound.bound / m->total.median);
}

void report_line(const struct measurement *list, int n)
{
    const ecornn_desc *desc = &list->problem->desc;
    const double us = 1e6 / desc->steps / (desc->layers ? desc->layers : 1);
    char name[32];
    printf("%-44s us/step", list->problem->text);
    for (int k = 0; k < n; k++)
        printf(" %s %.2f [%.2f, %.2f]", way_name(&list[k], name), us * list[k].total.median,
               us * list[k].total.low, us * list[k].total.high);
    print_opponent(list, n, us);
    print_calls(list);
    print_bound(&list[n > 1], us);
    printf(" | %.1f GFLOP/s, %s %s | MiB workspace %.1f reserve %.1f", gflops(&list[n > 1]),
           list->info.backend, list->info.variant, mebibytes(list->sizes.workspace_bytes),
           mebibytes(list->sizes.reserve_bytes));
    if (list->opponent && list->side.workspace + list->side.reserve > 0)
        printf(", %s %.1f %.1f", list->opponent->name, mebibytes(list->side.workspace),
               mebibytes(list->side.reserve));
    printf("\n");
}

/* ---- means ----------------------------------------------------------------------------------- */

static struct mean *find_mean(struct means *means, const char *name)
{
    enum { MOST = sizeof means->list / sizeof *means->list };
    for (int k = 0; k < means->n; k++)
        if (strcmp(means->list[k].name, name) == 0)
            return &means->list[k];
    if (means->n == MOST)
        return NULL;
    struct mean *mean = &means->list[means->n++];
    snprintf(mean->name, sizeof mean->name, "%s", name);
    return mean;
}

void means_add(struct means *means, const struct measurement *m)
{
    static const char *const types[] = {"", "f32", "f64", "bf16", "f16"};
    const ecornn_desc *desc = &m->problem->desc;
    const int deep = desc->layers > 1 || (desc->flags & ECORNN_BIDIRECTIONAL);
    char name[64], way[32];
    if (!m->opponent)
        return;
    snprintf(name, sizeof name, "%s%s %s, %s", types[desc->type],
             desc->flags & ECORNN_FAST_MATH ? "/fast" : "",
             m->problem->training ? "training" : "inference", way_name(m, way));
    struct mean *mean = find_mean(means, name);
    if (!mean)
        return;
    if (mean->n[0] + mean->n[1] == 0 || m->ratio.median < mean->least) {
        mean->least = m->ratio.median;
        snprintf(mean->worst, sizeof mean->worst, "%s", m->problem->text);
    }
    mean->n[deep]++;
    mean->logarithms[deep] += log(m->ratio.median);
}

void means_print(const struct means *means)
{
    for (int k = 0; k < means->n; k++) {
        const struct mean *mean = &means->list[k];
        const int all = mean->n[0] + mean->n[1];
        if (all < 2)
            continue;
        printf("%-28s geometric mean of %d: %.2f", mean->name, all,
               exp((mean->logarithms[0] + mean->logarithms[1]) / all));
        if (mean->n[0] > 0 && mean->n[1] > 0)
            printf(" | one layer %d: %.2f | deep %d: %.2f", mean->n[0],
                   exp(mean->logarithms[0] / mean->n[0]), mean->n[1],
                   exp(mean->logarithms[1] / mean->n[1]));
        printf(" | least %.2f %s\n", mean->least, mean->worst);
    }
}
