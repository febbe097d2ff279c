/*
 * Order statistics and time.
 */
#include "stats.h"

#include <stdlib.h>

#include "system.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Interpolates between two neighbours. */
static double at_fraction(const double *sorted, int count, double fraction)
{
    const double position = fraction * (count - 1);
    const int below = (int)position;
    const int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
}

struct spread spread_of(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare);
    return (struct spread){at_fraction(numbers, count, 0.5), at_fraction(numbers, count, 0.25),
                           at_fraction(numbers, count, 0.75), at_fraction(numbers, count, 0.99)};
}

double now(void)
{
    return system_now();
}
