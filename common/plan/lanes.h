/*
 * Vectors of panels, filled from the rows of a parameter: how packed weights are written.  Knows no
 * problem and no layout.  A backend has the code (cpu/isa/lanes.c).
 */
#ifndef ECO_LANES_H
#define ECO_LANES_H

#include <stdbool.h>

#include "common/type.h"

/* k of a group, in panels of BF16: two neighbouring k of a lane lie side by side.  Floats have
 * groups of one. */
enum { ECO_LANES_GROUP = 32 };

/* Some rows of a parameter [rows, cols].  Of heads it is blocks of `head` rows on the diagonal of a
 * matrix, with zeros elsewhere: row number unit + r begins at k = (unit + r) / head * cols. */
struct eco_lanes_source {
    const char *data;
    size_t rows, cols;
    ecornn_type type;
    size_t head; /* 0: it is the matrix */
    size_t unit;
};

/* Neighbouring vectors, of as many lanes as the code's set has.  In BF16 a vector is a group of k,
 * [16, lanes, 2]. */
struct eco_lanes {
    char *to;         /* the first vector of k = 0 */
    size_t stride;    /* bytes from one k, or group of k, to the next */
    size_t vectors;   /* side by side in a block */
    size_t blocks;    /* of put_columns */
    size_t block;     /* bytes from one to the next */
    size_t k;         /* in all; groups are filled up with zeros */
    ecornn_type type; /* F32, BF16 */
    bool rounded;     /* floats, each rounded to BF16 */
};

struct eco_lanes_code {
    /* M: rows are lanes of one block; elements of a row are k.  Lanes past the last row become 0.
     */
    void (*put_rows)(const struct eco_lanes *lanes, const struct eco_lanes_source *source);
    /* M^T: columns are lanes, block after block; a row is one k, from k `first` on.  Lanes past the
     * last column become 0, and so does what fills up the group after the last k. */
    void (*put_columns)(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                        size_t first);
};

#endif /* ECO_LANES_H */
