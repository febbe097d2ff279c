/*
 * Scalable vector graphics, as few as a picture of measurements needs; see svg.h.
 */
#include "svg.h"

#include <math.h>

enum { WIDTH = 760, LEFT = 78, TOP = 40, RIGHT = 740, BOTTOM = 430, LEGEND = 18 };
static const char *const colours[] = {"#2a6f97", "#d1662a", "#4f8a3c", "#8d5a97",
                                      "#8a8a8a", "#b03060", "#4aa3a3", "#7a6a3a"};
enum { COLOURS = sizeof colours / sizeof *colours };

/* A logarithmic axis: values, and pixels. */
struct axis {
    double least, most, from, to;
};

static double at(const struct axis *axis, double value)
{
    return axis->from +
           (axis->to - axis->from) * log(value / axis->least) / log(axis->most / axis->least);
}

static void widen(struct axis *axis, double value)
{
    axis->least = fmin(axis->least, value);
    axis->most = fmax(axis->most, value);
}

static void write_words(FILE *file, const char *words)
{
    for (; *words != '\0'; words++) {
        const char *entity = *words == '<'   ? "&lt;"
                             : *words == '>' ? "&gt;"
                             : *words == '&' ? "&amp;"
                                             : NULL;
        if (entity != NULL)
            fputs(entity, file);
        else if ((unsigned char)*words >= ' ' && (unsigned char)*words < 0x7F)
            fputc(*words, file);
        else
            fputc('?', file);
    }
}

static void write_text(FILE *file, double x, double y, const char *anchor, const char *words)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    write_words(file, words);
    fputs("</text>\n", file);
}

/* Ticks at 1, 2 and 5 times powers of ten; of many decades at these. */
static void write_ticks(FILE *file, const struct axis *axis, bool across)
{
    static const double steps[] = {1, 2, 5};
    char words[32];
    const int count = log10(axis->most / axis->least) > 3 ? 1 : 3;
    for (double power = pow(10, floor(log10(axis->least))); power <= axis->most; power *= 10)
        for (int k = 0; k < count; k++) {
            const double value = power * steps[k], pixel = at(axis, value);
            if (value < axis->least * 0.999 || value > axis->most * 1.001)
                continue;
            snprintf(words, sizeof words, "%g", value);
            if (across)
                fprintf(file, "<path d=\"M%.1f %dV%d\" stroke=\"#dddddd\"/>\n", pixel, TOP, BOTTOM);
            else
                fprintf(file, "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/>\n", LEFT, pixel, RIGHT);
            write_text(file, across ? pixel : LEFT - 6, across ? BOTTOM + 16 : pixel + 4,
                       across ? "middle" : "end", words);
        }
}

static void write_series(FILE *file, const struct svg *svg, int series, const struct axis axes[2])
{
    const char *colour = colours[series % COLOURS];
    const bool dashed = series >= svg->n_series - svg->n_dashed;
    char move = 'M';
    fprintf(file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s d=\"", colour,
            dashed ? " stroke-dasharray=\"5 4\"" : "");
    for (int k = 0; k < svg->n; k++)
        if (svg->point[k].series == series) {
            fprintf(file, "%c%.1f %.1f", move, at(&axes[0], svg->point[k].x),
                    at(&axes[1], svg->point[k].y));
            move = 'L';
        }
    fputs(move == 'M' ? "M0 0\"/>\n" : "\"/>\n", file);
    for (int k = 0; k < svg->n && !dashed; k++) {
        const struct svg_point *point = &svg->point[k];
        if (point->series != series)
            continue;
        const double x = at(&axes[0], point->x);
        fprintf(file, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"%s\"/>\n", x, at(&axes[1], point->low),
                at(&axes[1], point->high), colour);
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x,
                at(&axes[1], point->y), colour);
    }
    const double y = BOTTOM + 56 + LEGEND * series;
    fprintf(file, "<path d=\"M%d %.1fh24\" stroke=\"%s\" stroke-width=\"3\"%s/>\n", LEFT, y - 4,
            colour, dashed ? " stroke-dasharray=\"5 4\"" : "");
    write_text(file, LEFT + 32, y, "start", svg->name[series]);
}

bool svg_write(const struct svg *svg, FILE *file)
{
    struct axis axes[2] = {{INFINITY, 0, LEFT, RIGHT}, {INFINITY, 0, BOTTOM, TOP}};
    for (int k = 0; k < svg->n; k++) {
        widen(&axes[0], svg->point[k].x);
        widen(&axes[1], svg->point[k].low);
        widen(&axes[1], svg->point[k].high);
    }
    for (int k = 0; k < 2; k++) { /* some room; of one value, too */
        axes[k].least /= 1.15;
        axes[k].most *= 1.15;
    }
    const int height = BOTTOM + 60 + LEGEND * svg->n_series;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            WIDTH, height, WIDTH, height, WIDTH, height);
    write_text(file, LEFT, 20, "start", svg->title);
    write_text(file, LEFT, TOP - 6, "start", svg->y_label);
    write_text(file, RIGHT, BOTTOM + 34, "end", svg->x_label);
    write_ticks(file, &axes[0], true);
    write_ticks(file, &axes[1], false);
    for (int series = 0; series < svg->n_series; series++)
        write_series(file, svg, series, axes);
    fputs("</svg>\n", file);
    return ferror(file) == 0;
}
