/*
 * Numbers as integers of 8 bits, for products whose sums are exact: rows of weights, when they are
 * packed, and rows of a batch, in each step.  The reference and all instruction sets use the same
 * formulas in F32, so they get the same integers.
 *
 * A row of weights is w = scale * q, -128 <= q <= 127.  A row of a batch is x = scale * (q - zero),
 * 0 <= q <= 255, so that 0 is exact and rows without negative numbers use all integers.  Example:
 * x = {-1, 0, 0.5, 4}: scale 5/255, zero 51, q = {0, 51, 77, 255}.
 */
#ifndef ECO_QUANTISE_H
#define ECO_QUANTISE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* Most columns of a matrix: 255 * 128 times as many fit 32 bits. */
enum { ECO_QUANTISED_COLUMNS = 1 << 16 };

/* How a row of a batch became integers. */
struct eco_row_scale {
    float scale;
    int32_t zero;
};

/* What numbers are multiplied by before they are rounded.  Smaller scales are taken as 0. */
static inline float eco_row_factor(float scale)
{
    return scale > 0x1p-100f ? 1 / scale : 0;
}

/* From the least and the largest number of a row and 0; odd: 0, or NaN if a number is not finite,
 * which makes all results NaN. */
static inline struct eco_row_scale eco_row_scale(float least, float most, float odd)
{
    const float scale = most / 255 - least / 255 + odd, factor = eco_row_factor(scale);
    if (!(scale < INFINITY))
        return (struct eco_row_scale){NAN, 0};
    return (struct eco_row_scale){factor > 0 ? scale : 0, (int32_t)rintf(-least * factor)};
}

/* The integer of a number of the row, which is this product rounded. */
static inline int32_t eco_row_integer(struct eco_row_scale row, float product)
{
    const float low = (float)-row.zero, high = (float)(255 - row.zero);
    const float at = product >= low ? product : low; /* low for NaN */
    return (int32_t)rintf(at > high ? high : at) + row.zero;
}

/* The scale of a row of n weights.  If they are multiples of one number, as those that were
 * integers before, it is that number and their integers are exact; else the largest becomes 127. */
float eco_weight_scale(const void *row, ecornn_type type, size_t n);
static inline int32_t eco_weight_integer(float scale, float weight)
{
    return scale > 0 ? (int32_t)rintf(weight / scale) : 0; /* false for NaN */
}

#endif /* ECO_QUANTISE_H */
