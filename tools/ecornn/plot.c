/*
 * ecornn plot: a picture of tables that "ecornn bench --csv" wrote.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"
#include "svg.h"
#include "table.h"

/* ---- what a row is, over what ---------------------------------------------------------------- */

/* The number behind the first part that begins with a letter and is a number else; its place. */
static int extent_of(const char *problem, char letter, const char **place)
{
    for (const char *part = strchr(problem, '/'); part != NULL; part = strchr(part, '/')) {
        const char *digits = ++part + 1;
        const size_t n = strspn(digits, "0123456789");
        if (*part == letter && n > 0 && n < 9 && (digits[n] == '/' || digits[n] == '\0')) {
            *place = part;
            return atoi(digits);
        }
    }
    *place = NULL;
    return 0;
}

static double steps_of(const struct table_row *row)
{
    const char *place;
    const int steps = extent_of(row->problem, 'T', &place);
    return steps > 0 ? steps : 1;
}

/* Values of a part are told from each other by x, not by name. */
struct over {
    const char *word, *x_label, *y_label;
    char letter;      /* of an extent; 0: */
    const char *part; /* which begins so; NULL: none */
    bool threads, memory, rate;
};
static const struct over overs[] = {
    {"H", "H, hidden units", "us a step", 'H', NULL, false, false, false},
    {"N", "N, rows of the batch", "us a step", 'N', NULL, false, false, false},
    {"I", "I, inputs", "us a step", 'I', NULL, false, false, false},
    {"T", "T, steps", "us a step", 'T', NULL, false, false, false},
    {"threads", "threads", "us a step", 0, NULL, true, false, false},
    {"memory", "MiB of workspace and reserve", "us a step", 0, "save:", false, true, false},
    {"intensity", "flops a byte that is read or written at least", "GFLOP/s", 0, NULL, false, false,
     true},
};

static const struct over *find_over(const char *word)
{
    for (size_t k = 0; k < sizeof overs / sizeof *overs; k++)
        if (strcmp(overs[k].word, word) == 0)
            return &overs[k];
    return NULL;
}

/* The problem without the part that x tells, with the device. */
static void name_of(const struct over *over, const struct table_row *row, char name[320])
{
    const char *place = NULL, *problem = row->problem;
    if (over->letter != 0)
        extent_of(problem, over->letter, &place);
    else if (over->part != NULL && (place = strstr(problem, over->part)) == problem)
        place = NULL;
    const int before = place != NULL ? (int)(place - problem - 1) : (int)strlen(problem);
    const char *after = place != NULL ? place + strcspn(place, "/") : "";
    if (over->rate)
        snprintf(name, 320, "%s", row->device);
    else if (over->threads)
        snprintf(name, 320, "%.*s%s, %s", before, problem, after, row->device);
    else
        snprintf(name, 320, "%.*s%s, %s, %d threads", before, problem, after, row->device,
                 row->threads);
}

/* False: the row has none. */
static bool point_of(const struct over *over, const struct table_row *row, struct svg_point *point)
{
    const char *place;
    const double scale = over->rate ? 1e-9 * row->flops : 1e6 / steps_of(row);
    point->x = over->letter != 0 ? extent_of(row->problem, over->letter, &place)
               : over->threads   ? row->threads
               : over->memory    ? row->memory * 0x1p-20
                                 : row->flops / row->bytes;
    point->y = over->rate ? scale / row->seconds : scale * row->seconds;
    point->low = over->rate ? scale / row->high : scale * row->low;
    point->high = over->rate ? scale / row->low : scale * row->high;
    return point->x > 0;
}

/* ---- what a machine can ---------------------------------------------------------------------- */

/* The last number of that key in lines of machines; 0: there is none. */
static double measured(const char *wisdom, const char *key)
{
    double value = 0;
    for (const char *line = strstr(wisdom, "\nmachine "); line != NULL;
         line = strstr(line + 1, "\nmachine ")) {
        const char *at = strstr(line + 1, key), *end = strchr(line + 1, '\n');
        if (at != NULL && (end == NULL || at < end))
            value = 1e6 * atof(at + strlen(key));
    }
    return value;
}

struct peaks {
    double flops, bytes; /* a second, of a thread; 0: not known */
};

/* On a GPU all of it counts as one thread. */
static struct peaks find_peaks(void)
{
    struct peaks peaks = {0, 0};
    char *wisdom = wisdom_text();
    if (wisdom != NULL) {
        peaks.flops = measured(wisdom, "f32-mflops=");
        peaks.bytes = measured(wisdom, "memory-mbps=");
    }
    free(wisdom);
    return peaks;
}

static double floor_of(const struct peaks *peaks, const struct table_row *row)
{
    return fmax(row->flops / (peaks->flops * row->threads), row->bytes / peaks->bytes);
}

/* ---- the picture ----------------------------------------------------------------------------- */

struct picture {
    struct svg_point *point;
    char (*name)[320];
    int n, n_series, n_bounds;
};

static int series_of(struct picture *picture, const char *name)
{
    for (int k = 0; k < picture->n_series; k++)
        if (strcmp(picture->name[k], name) == 0)
            return k;
    snprintf(picture->name[picture->n_series], sizeof *picture->name, "%s", name);
    return picture->n_series++;
}

static int compare(const void *a, const void *b)
{
    const struct svg_point *one = a, *other = b;
    if (one->series != other->series)
        return one->series - other->series;
    return (one->x > other->x) - (one->x < other->x);
}

/* The points, and then what a CPU's peaks allow, where they are known. */
static void find_points(struct picture *picture, const struct table *table, const struct over *over,
                        const struct peaks *peaks)
{
    char name[320];
    const bool known = peaks->flops > 0 && peaks->bytes > 0;
    for (int bound = 0; bound <= (int)known; bound++)
        for (int k = 0; k < table->n; k++) {
            struct table_row row = table->row[k];
            struct svg_point *point = &picture->point[picture->n];
            if (bound == 1)
                row.seconds = row.low = row.high = floor_of(peaks, &row);
            name_of(over, &row, name);
            if (!point_of(over, &row, point) || (bound == 1 && strncmp(row.device, "cpu", 3) != 0))
                continue;
            point->series = series_of(picture, bound == 0   ? name
                                               : over->rate ? "roof, F32"
                                                            : "floor, F32");
            picture->n++;
            picture->n_bounds = bound;
        }
    qsort(picture->point, (size_t)picture->n, sizeof *picture->point, compare);
}

static bool draw(const struct options *options, const struct table *table, const struct over *over)
{
    const struct peaks peaks = find_peaks();
    const size_t most = 2 * (size_t)table->n + 1;
    struct picture picture = {.point = malloc(most * sizeof *picture.point),
                              .name = malloc(most * sizeof *picture.name)};
    FILE *file = NULL;
    bool good = picture.point != NULL && picture.name != NULL;
    if (good) {
        find_points(&picture, table, over, &peaks);
        good = picture.n > 0 || say("no row has something to draw over %s", over->word);
    } else {
        say("no memory for %d rows", table->n);
    }
    if (good && (file = fopen(options->output, "w")) == NULL)
        good = say("%s: %s", options->output, strerror(errno));
    if (good) {
        const struct svg svg = {over->rate ? "Rates, and what the machine can" : "Time of a step",
                                over->x_label,
                                over->y_label,
                                picture.point,
                                picture.n,
                                picture.name,
                                picture.n_series,
                                picture.n_bounds};
        good = svg_write(&svg, file);
    }
    if (file != NULL && (fclose(file) != 0 || !good))
        good = say("%s cannot be written", options->output);
    free(picture.point);
    free(picture.name);
    return good;
}

static int run(const struct options *options)
{
    struct table table = {.n = 0};
    const struct over *over = find_over(options->over != NULL ? options->over : "H");
    if (over == NULL || options->output == NULL) {
        say(over == NULL ? "--over is none of H, N, I, T, threads, memory, intensity"
                         : "plot needs -o FILE");
        return 2;
    }
    bool good = true;
    for (int k = 0; good && k < options->n; k++)
        good = table_read(&table, options->words[k]);
    good = good && draw(options, &table, over);
    table_free(&table);
    return !good;
}

const struct command command_plot = {
    .name = "plot",
    .operands = "FILE...",
    .about = "Draws tables of \"bench --csv\" as SVG: time of a step, or rates",
    .more =
        "A line is one problem on one device, but for what it is drawn over.  Where wisdom has\n"
        "a line of a machine, a CPU's bound is drawn, too.\n",
    .takes = TAKES_OVER | TAKES_OUTPUT,
    .least = 1,
    .most = MANY_OPERANDS,
    .run = run,
};
