/*
 * Vectors of panels, filled from the rows of a parameter: how packed weights are written.  Knows no
 * problem and no layout.  The code belongs to a backend (cpu/isa/lanes.c).
 */
#ifndef ECO_LANES_H
#define ECO_LANES_H

#include <stdbool.h>

#include "common/type.h"

/* k in a group of a BF16 panel, with pairs of k of a lane adjacent; floats: one. */
enum { ECO_LANES_GROUP = 32 };

/* Some rows of a parameter [rows, cols].  With heads they are blocks of `head` rows on the diagonal
 * of a matrix with zeros elsewhere: row unit + r begins at k = (unit + r) / head * cols. */
struct eco_lanes_source {
    const char *data;
    size_t rows, cols;
    ecornn_type type;
    size_t head; /* 0: no heads */
    size_t unit;
};

/* Neighbouring vectors of an instruction set's lanes; in BF16 groups of k, [16, lanes, 2]. */
struct eco_lanes {
    char *to;         /* the first vector for k = 0 */
    size_t stride;    /* bytes from one k, or group of k, to the next */
    size_t vectors;   /* neighbours in a block */
    size_t blocks;    /* blocks for put_columns */
    size_t block;     /* bytes from one block to the next */
    size_t k;         /* total k; the last group is padded with zeros */
    ecornn_type type; /* F32, BF16 */
    bool rounded;     /* floats, each rounded to BF16 */
};

struct eco_lanes_code {
    /* M: rows become lanes of one block, elements of a row are k.  Other lanes become 0. */
    void (*put_rows)(const struct eco_lanes *lanes, const struct eco_lanes_source *source);
    /* M^T: columns become lanes, block after block; each row is one k, starting at `first`.  Lanes
     * past the last column and the rest of the last group become 0. */
    void (*put_columns)(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                        size_t first);
};

#endif /* ECO_LANES_H */
