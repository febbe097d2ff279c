/*
 * Lanes of a panel, filled from the rows or the columns of a parameter: how packed weights are
 * written.  Knows no problem and no layout.
 */
#ifndef ECO_LANES_H
#define ECO_LANES_H

#include "common/type.h"

enum { ECO_MOST_LANES = 64 };

/* A parameter [rows, cols]. */
struct eco_lanes_source {
    const char *data;
    size_t rows, cols;
    ecornn_type type;
};

/* Neighbouring lanes of a panel, for each k: the first `count` are units from `unit` on.  k lies in
 * groups; in a group, `pair` neighbouring k of a lane are side by side. */
struct eco_lanes {
    char *to;      /* lane 0 of k = 0 */
    size_t stride; /* bytes from one group of k to the next */
    size_t group, pair;
    size_t width, count, unit;
    ecornn_type type;
};

/* M[unit, k] = the parameter's row `unit`, element k. */
void eco_lanes_put_rows(const struct eco_lanes *lanes, const struct eco_lanes_source *source);
/* M^T: a unit is a column, a row of the parameter one k, from k `first` on. */
void eco_lanes_put_columns(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                           size_t first);

#endif /* ECO_LANES_H */
