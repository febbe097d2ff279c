/*
 * Types of elements.
 */
#include "type.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Rows are in the order of ecornn_type.  F32: an opponent's exponential has an error of 2e-7, and
 * its sums another order, which grows over many steps.  BF16: the two programs round operands and
 * states to 8 bits (2^-9 relative) at different points; F16: to 11 bits. */
static const struct {
    size_t bytes;
    double tolerance[3];
} rows[] = {{0, {0}}, /* 0 is no type */
            {4, {1e-4, 1e-3, 1e-3}},
            {8, {1e-4, 1e-3, 1e-3}},
            {2, {2e-2, 4e-2, 4e-2}},
            {2, {4e-3, 1e-2, 1e-2}}};

size_t type_bytes(ecornn_type type)
{
    return (size_t)type < sizeof rows / sizeof *rows ? rows[type].bytes : 0;
}

const double *type_tolerance(ecornn_type type)
{
    return rows[type].tolerance;
}

/* IEEE binary16: a sign, 5 bits of exponent, 10 of fraction. */
static double half_get(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 0    ? ldexp(fraction, -24)
                        : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                         : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

static uint16_t half_set(double value)
{
    enum { LEAST = -14, LARGEST = 15 };
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;
    if (isnan(value))
        return 0x7E00;
    if (value == 0)
        return sign;
    frexp(value, &exponent);
    exponent = exponent - 1 < LEAST ? LEAST : exponent - 1;
    /* in units of the last place, ties to even; a carry makes the next exponent */
    const double units = exponent > LARGEST ? 2048 : rint(ldexp(fabs(value), 10 - exponent));
    if (exponent > LARGEST || (exponent == LARGEST && units >= 2048))
        return sign | 0x7C00;
    return (uint16_t)(sign + ((exponent - LEAST) << 10) + (int)units);
}

double type_get(const void *array, size_t k, ecornn_type type)
{
    if (type == ECORNN_F64)
        return ((const double *)array)[k];
    if (type == ECORNN_F32)
        return (double)((const float *)array)[k];
    if (type == ECORNN_F16)
        return half_get(((const uint16_t *)array)[k]);
    const uint32_t bits = (uint32_t)((const uint16_t *)array)[k] << 16; /* BF16: a float's head */
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

void type_set(void *array, size_t k, ecornn_type type, double value)
{
    const float narrow = (float)value;
    uint32_t bits;
    if (type == ECORNN_F64) {
        ((double *)array)[k] = value;
    } else if (type == ECORNN_F32) {
        ((float *)array)[k] = narrow;
    } else if (type == ECORNN_F16) {
        ((uint16_t *)array)[k] = half_set(value);
    } else { /* ties to even */
        memcpy(&bits, &narrow, sizeof bits);
        ((uint16_t *)array)[k] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
}
