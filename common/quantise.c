/*
 * The scale of a row of weights; see quantise.h.
 */
#include "common/quantise.h"

#include "common/type.h"

enum { MOST = 127, LEAST = -128 };

/* Are all weights integers times scale, as far as a float can tell? */
static bool are_multiples(const void *row, ecornn_type type, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++) {
        const double q = eco_type_get(row, i, type) / scale, whole = rint(q);
        if (fabs(q - whole) > 0x1p-15 || whole > MOST || whole < LEAST)
            return false;
    }
    return true;
}

float eco_weight_scale(const void *row, ecornn_type type, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double size = fabs(eco_type_get(row, i, type));
        if (size > most || isnan(size)) /* keeps a NaN */
            most = size;
    }
    if (!isfinite(most))
        return NAN;
    for (int q = 1; q <= -LEAST && most > 0; q++)
        if (are_multiples(row, type, n, most / q))
            return (float)(most / q);
    return (float)(most / MOST);
}
