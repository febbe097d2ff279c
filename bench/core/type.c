/*
 * Types of elements.
 */
#include "type.h"

#include <stdint.h>
#include <string.h>

/* Rows in the order of ecornn_type.  F32: the opponents' exponential is good to 2e-7, and sums run
 * in another order; over many steps that grows.  BF16: operands and states are rounded to 8 bits,
 * 2^-9 relative, in one program here and in the other there. */
static const struct {
    size_t bytes;
    double tolerance[3];
} rows[] = {{4, {1e-4, 1e-3, 1e-3}}, {8, {1e-4, 1e-3, 1e-3}}, {2, {2e-2, 4e-2, 4e-2}}};

size_t type_bytes(ecornn_type type)
{
    return (size_t)type < sizeof rows / sizeof *rows ? rows[type].bytes : 0;
}

const double *type_tolerance(ecornn_type type)
{
    return rows[type].tolerance;
}

double type_get(const void *array, size_t k, ecornn_type type)
{
    if (type == ECORNN_F64)
        return ((const double *)array)[k];
    if (type == ECORNN_F32)
        return (double)((const float *)array)[k];
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
    } else { /* ties to even */
        memcpy(&bits, &narrow, sizeof bits);
        ((uint16_t *)array)[k] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
}
