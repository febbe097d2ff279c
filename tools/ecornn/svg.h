/*
 * A picture of points over two logarithmic axes, with a line through each series.
 */
#ifndef ECORNN_SVG_H
#define ECORNN_SVG_H

#include <stdbool.h>
#include <stdio.h>

struct svg_point {
    int series;
    double x, y, low, high; /* more than 0; low and high: of y */
};
struct svg {
    const char *title, *x_label, *y_label;
    const struct svg_point *point; /* those of a series by x */
    int n;
    char (*name)[320]; /* of each series */
    int n_series;
    int n_dashed; /* the last series: bounds, without dots */
};
/* False: it could not be written. */
bool svg_write(const struct svg *svg, FILE *file);

#endif /* ECORNN_SVG_H */
