/*
 * Printing.  Both forms have the same numbers.
 */
#include "report.h"

#include <math.h>
#include <stdio.h>

static const double PEAK_DRIFT = 0.05; /* more than this between before and after: not to be used */

static bool is_steady(const struct measurement *m)
{
    return fabs(m->peak_after - m->peak_before) <= PEAK_DRIFT * m->peak_before;
}

static double gflops(const struct measurement *m, struct spread seconds)
{
    return m->ours->problem->flops / seconds.median * 1e-9;
}

/* Of the higher peak: neighbours may have slowed either measurement. */
static double percent(const struct measurement *m, struct spread seconds)
{
    return 100 * gflops(m, seconds) / fmax(m->peak_before, m->peak_after);
}

static void print_side(const struct measurement *m, const char *name, struct spread seconds)
{
    printf("  %-18s %10.3f ms  [%.3f, %.3f]  %7.1f GFLOP/s  %4.1f %% of peak\n", name,
           1e3 * seconds.median, 1e3 * seconds.low, 1e3 * seconds.high, gflops(m, seconds),
           percent(m, seconds));
}

static void print_versus(const struct measurement *m)
{
    const struct opponent *other = m->versus;
    const char *name = other->kind->name;
    print_side(m, name, m->other);
    if (m->ours->problem->training && other->weights)
        print_side(m, " without packing", m->other_core);
    printf("  %s / ecornn: %.2f  [%.2f, %.2f]   largest difference: y %.1e (%.0e)", name,
           m->ratio.median, m->ratio.low, m->ratio.high, m->error[0], m->tolerance[0]);
    if (m->ours->problem->training)
        printf(", dx %.1e, dweights %.1e (%.0e)", m->error[1], m->error[2], m->tolerance[1]);
    printf("\n");
    if (other->detail[0])
        printf("  %s %s; bytes: weights %zu, workspace %zu, reserve %zu\n", name, other->detail,
               other->weights, other->workspace, other->reserve);
}

static void print_bound(const struct measurement *m)
{
    const struct machine *machine = &m->machine;
    printf("  floor %.3f ms, bound %.3f: takes %.2f times as long as that (%.0f GFLOP/s; %.0f and "
           "%.1f GB/s, %.2f G quotients/s a thread; barrier %.2f us)\n",
           1e3 * m->bound.floor, 1e3 * m->bound.bound, m->total.median / m->bound.bound,
           1e-9 * machine->flops, 1e-9 * machine->inner, 1e-9 * machine->outer,
           1e-9 * machine->quotients, 1e6 * machine->barrier);
}

static void print_calls(const struct measurement *m)
{
    const char *const names[2] = {"ecornn", m->versus ? m->versus->kind->name : ""};
    printf("  single calls, microseconds:");
    for (int side = 0; side < (m->versus ? 2 : 1); side++)
        printf("%s %s median %.2f, 99th percentile %.2f", side ? ";" : "", names[side],
               1e6 * m->calls[side].median, 1e6 * m->calls[side].tail);
    printf("\n");
}

static void print_people(const struct measurement *m)
{
    const struct problem *problem = m->ours->problem;
    const ecornn_sizes *sizes = &m->ours->sizes;
    printf("%s  %d thread%s (%s), %d rounds, peak %.0f GFLOP/s before, %.0f after%s\n",
           problem->text, m->threads, m->threads == 1 ? "" : "s", m->ours->info.variant, m->rounds,
           m->peak_before, m->peak_after, is_steady(m) ? "" : ": NOT STEADY");
    print_side(m, "ecornn", m->total);
    if (problem->training)
        print_side(m, " without packing", m->core);
    print_bound(m);
    if (problem->streaming)
        print_calls(m);
    if (m->versus)
        print_versus(m);
    printf("  %zu parameters; bytes: weights %zu, workspace %zu, reserve %zu\n\n", sizes->params,
           sizes->weights, sizes->workspace, sizes->reserve);
}

/* Three digits that count. */
static void print_ms(double seconds)
{
    const double ms = 1e3 * seconds;
    printf(" %.*f |", ms < 10 ? 3 : ms < 100 ? 2 : 1, ms);
}

static void print_markdown(const struct measurement *m)
{
    const ecornn_sizes *sizes = &m->ours->sizes;
    printf("| %s%s%s | %d |", m->ours->problem->text, m->capped ? " " : "",
           m->capped ? m->ours->info.variant : "", m->threads);
    print_ms(m->total.median);
    print_ms(m->bound.floor);
    print_ms(m->bound.bound);
    printf(" %.2f |", m->total.median / m->bound.bound);
    if (m->versus) {
        print_ms(m->other.median);
        printf(" **%.2f** [%.2f, %.2f] | %s |", m->ratio.median, m->ratio.low, m->ratio.high,
               m->versus->detail);
    } else {
        printf(" | | |");
    }
    printf(" %.1f, %.1f |", 1e-6 * (double)sizes->workspace, 1e-6 * (double)sizes->reserve);
    if (m->versus)
        printf(" %.1f, %.1f |", 1e-6 * (double)m->versus->workspace,
               1e-6 * (double)m->versus->reserve);
    else
        printf(" |");
    printf(" %.0f, %.0f%s |\n", m->peak_before, m->peak_after, is_steady(m) ? "" : " *");
}

static void print_csv(const struct measurement *m)
{
    const ecornn_sizes *sizes = &m->ours->sizes;
    printf("%s,%d,%s,%d,%.1f,%.1f,%d,", m->ours->problem->text, m->threads, m->ours->info.variant,
           m->rounds, m->peak_before, m->peak_after, is_steady(m));
    printf("%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.2f,%.2f,", 1e3 * m->total.median, 1e3 * m->total.low,
           1e3 * m->total.high, 1e3 * m->core.median, 1e3 * m->core.low, 1e3 * m->core.high,
           gflops(m, m->total), percent(m, m->total));
    printf("%.6f,%.6f,", 1e3 * m->bound.floor, 1e3 * m->bound.bound);
    if (m->versus)
        printf("%s,%s,%.6f,%.6f,%.6f,%.6f,%.4f,%.4f,%.4f,%zu,%zu,%zu,", m->versus->kind->name,
               m->versus->detail, 1e3 * m->other.median, 1e3 * m->other.low, 1e3 * m->other.high,
               1e3 * m->other_core.median, m->ratio.median, m->ratio.low, m->ratio.high,
               m->versus->weights, m->versus->workspace, m->versus->reserve);
    else
        printf(",,,,,,,,,,,,");
    printf("%zu,%zu,%zu,%zu\n", sizes->params, sizes->weights, sizes->workspace, sizes->reserve);
}

static const char csv_head[] =
    "problem,threads,variant,rounds,peak_before,peak_after,steady,ms,ms_low,ms_high,core_ms,"
    "core_ms_low,core_ms_high,gflops,percent,floor_ms,bound_ms,versus,versus_how,versus_ms,"
    "versus_ms_low,versus_ms_high,versus_core_ms,ratio,ratio_low,ratio_high,versus_weights_bytes,"
    "versus_workspace_bytes,versus_reserve_bytes,params,weights_bytes,workspace_bytes,"
    "reserve_bytes\n";
static const char markdown_head[] =
    "| problem | threads | ms | floor | bound | ms / bound | opponent ms | ratio | how | MB "
    "workspace, reserve | theirs | peak |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";

void report_head(enum form form)
{
    if (form == CSV)
        fputs(csv_head, stdout);
    else if (form == MARKDOWN)
        fputs(markdown_head, stdout);
    else
        printf("%s\nmedians, quartiles in brackets; training packs, runs forward and backward, and "
               "unpacks\n\n",
               ecornn_version());
    fflush(stdout);
}

void report_print(const struct measurement *m, enum form form)
{
    if (form == CSV)
        print_csv(m);
    else if (form == MARKDOWN)
        print_markdown(m);
    else
        print_people(m);
    fflush(stdout);
}
