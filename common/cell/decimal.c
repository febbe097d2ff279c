/*
 * Rounds the digits of a text to the nearest double, ties to even, as a C compiler does, in every
 * locale and rounding mode.  Uses integers of any length, because a text has few numbers.
 */
#include "common/cell/scan.h"

#include <math.h>
#include <string.h>

/* 10^LEAST is less than half of the smallest double; 10^MOST exceeds all floats. */
enum { LEAST = -324, MOST = 40 };
/* Enough for 10^(ECO_MAX_DIGITS - LEAST), the largest number here. */
enum { WORDS = (ECO_MAX_DIGITS - LEAST) * 10 / 3 / 32 + 2 };

/* A natural number, lowest word first. */
struct natural {
    int n; /* words; the highest is not 0 */
    uint32_t word[WORDS];
};

/* x * factor + more */
static void grow(struct natural *x, uint32_t factor, uint32_t more)
{
    uint64_t carry = more;
    for (int i = 0; i < x->n; i++, carry >>= 32) {
        carry += (uint64_t)x->word[i] * factor;
        x->word[i] = (uint32_t)carry;
    }
    if (carry != 0)
        x->word[x->n++] = (uint32_t)carry;
}

static int compare(const struct natural *x, const struct natural *y)
{
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    for (int i = x->n - 1; i >= 0; i--)
        if (x->word[i] != y->word[i])
            return x->word[i] < y->word[i] ? -1 : 1;
    return 0;
}

/* x -= y, where x >= y. */
static void subtract(struct natural *x, const struct natural *y)
{
    int64_t borrow = 0;
    for (int i = 0; i < x->n; i++) {
        borrow += (int64_t)x->word[i] - (i < y->n ? y->word[i] : 0);
        x->word[i] = (uint32_t)borrow;
        borrow = borrow < 0 ? -1 : 0;
    }
    while (x->n > 0 && x->word[x->n - 1] == 0)
        x->n--;
}

/* The nearest double to above / below, both positive. */
static double quotient(struct natural *above, struct natural *below)
{
    int exponent = 0; /* above / below * 2^exponent, with 1 <= above / below < 2 */
    for (; compare(above, below) < 0; exponent--)
        grow(above, 2, 0);
    for (; compare(above, below) >= 0; exponent++)
        grow(below, 2, 0);
    exponent--;
    grow(above, 2, 0);
    /* bits of the result, fewer for a denormal */
    const int bits = exponent < -1022 ? exponent + 1075 : 53;
    uint64_t integer = 0;
    for (int i = 0; i < bits; i++) {
        const bool one = compare(above, below) >= 0;
        if (one)
            subtract(above, below);
        integer = integer << 1 | one;
        grow(above, 2, 0);
    }
    const int half = bits < 0 ? -1 : compare(above, below);
    integer += half > 0 || (half == 0 && integer % 2 == 1);
    return ldexp((double)integer, exponent - (bits < 0 ? 0 : bits) + 1);
}

double eco_decimal(const char *digits, int length, int exponent)
{
    struct natural above = {0}, below = {1, {1}};
    int significant = 0;
    for (; length > 0; length--, digits++) {
        if (*digits == '.')
            continue;
        significant += significant > 0 || *digits != '0';
        grow(&above, 10, (uint32_t)(*digits - '0'));
    }
    if (significant == 0 || significant + exponent < LEAST)
        return 0;
    if (significant + exponent > MOST)
        return HUGE_VAL;
    for (; exponent > 0; exponent--)
        grow(&above, 10, 0);
    for (; exponent < 0; exponent++)
        grow(&below, 10, 0);
    return quotient(&above, &below);
}
