/*
 * Packs rows of a parameter as integers of 8 bits; pack.c calls it.
 */
#ifndef ECO_PACK_BYTES_H
#define ECO_PACK_BYTES_H

#include "common/plan/lanes.h"
#include "common/weights.h"

/* Vectors [v, next) of a panel of a block, from the parameter whose first vector in the block is
 * `first`. */
struct eco_bytes_source {
    const struct eco_lanes_source *from;
    int32_t block, panel, v, next, first;
};
/* Writes their integers, scales and sums; what is beyond the parameter becomes 0. */
void eco_pack_bytes(const struct eco_panels *panels, const struct eco_bytes_source *source,
                    char *weights);

#endif /* ECO_PACK_BYTES_H */
