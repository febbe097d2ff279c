/*
 * Number types: their sizes and names, and how a number gets from one to another.  Conversions are
 * exact or rounded to the nearest, ties to even; a NaN stays one, what is too large is infinite,
 * denormals are numbers like others.
 */
#ifndef ECO_TYPE_H
#define ECO_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ecornn.h"

enum { ECO_TYPES = 4 };

/* Bytes of an element. */
static inline size_t eco_type_bytes(ecornn_type type)
{
    return type == ECORNN_F32 ? 4 : type == ECORNN_F64 ? 8 : 2;
}

/* In a problem string: "f32" "f64" "bf16" "f16". */
const char *eco_type_name(ecornn_type type);

/* What sums of products of the type are kept in. */
static inline ecornn_type eco_type_sum(ecornn_type type)
{
    return type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
}

/* The nearest number of the type. */
double eco_type_round(double value, ecornn_type type);
/* Element i of an array. */
double eco_type_get(const void *array, size_t i, ecornn_type type);
void eco_type_set(void *array, size_t i, ecornn_type type, double value);
/* to[0 .. n) = from[0 .. n); add: += in the wider of the two types, rounded once. */
void eco_type_move(void *to, ecornn_type to_type, const void *from, ecornn_type from_type,
                   size_t n);
void eco_type_add(void *to, ecornn_type to_type, const void *from, ecornn_type from_type, size_t n);

/* ---- 16 bits and float ---------------------------------------------------------------------- */

static inline uint32_t eco_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float eco_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* BF16 is the upper half of a float. */
static inline float eco_bf16_to_float(uint16_t bits)
{
    return eco_float_of_bits((uint32_t)bits << 16);
}

static inline uint16_t eco_bf16_of_float(float value)
{
    const uint32_t bits = eco_float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* a NaN must keep a bit of its fraction */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* F16 (IEEE binary16): 1 sign, 5 exponent and 10 fraction bits. */
float eco_f16_to_float(uint16_t bits);
uint16_t eco_f16_of_float(float value);

#endif /* ECO_TYPE_H */
