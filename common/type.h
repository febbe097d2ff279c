/*
 * Number types: sizes, names and conversions.  Conversions are exact or rounded to nearest, ties to
 * even.  A NaN stays a NaN, overflow gives infinity, and denormals are kept.
 */
#ifndef ECO_TYPE_H
#define ECO_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ecornn/types.h"

enum { ECO_TYPES = ECORNN_F16 + 1 }; /* of rows and parameters; */
enum {
    ECO_WEIGHT_TYPES = ECORNN_S8 + 1
}; /* of packed matrices: S8 too (quantise.h), which nothing here converts */

/* The properties of a type, except conversions (type.c). */
struct eco_type_form {
    const char *name; /* in a problem string */
    size_t bytes;     /* of an element */
    ecornn_type sum;  /* type in which sums of products are kept */
    int bits;         /* significant bits */
    int least;        /* binary logarithm of the smallest positive number */
    double most;      /* the largest number */
};
static const struct eco_type_form eco_type_form[ECO_WEIGHT_TYPES] = {
    /* 0, as in an array that is not there; in order, since C++ compiles this, too */
    {"f32", 4, ECORNN_F32, 24, -149, 0x1.fffffep127},
    {"f32", 4, ECORNN_F32, 24, -149, 0x1.fffffep127},
    {"f64", 8, ECORNN_F64, 53, -1074, 0x1.fffffffffffffp1023},
    {"bf16", 2, ECORNN_F32, 8, -133, 0x1.fep127},
    {"f16", 2, ECORNN_F32, 11, -24, 65504},
    {"int8", 1, ECORNN_F32, 7, 0, 127},
};

static inline size_t eco_type_bytes(ecornn_type type)
{
    return eco_type_form[type].bytes;
}

static inline const char *eco_type_name(ecornn_type type)
{
    return eco_type_form[type].name;
}

static inline ecornn_type eco_type_sum(ecornn_type type)
{
    return eco_type_form[type].sum;
}

/* Are its sums of another type, so that each result is rounded?  Not of 0, as in an array that is
 * not there. */
static inline bool eco_type_narrow(ecornn_type type)
{
    return type != 0 && eco_type_sum(type) != type;
}

/* The nearest number of the type. */
double eco_type_round(double value, ecornn_type type);
/* Element i of an array. */
double eco_type_get(const void *array, size_t i, ecornn_type type);
void eco_type_set(void *array, size_t i, ecornn_type type, double value);
/* to[0 .. n) = from[0 .. n), or, for add, += in the wider of the two types, rounded once. */
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
        return (uint16_t)(bits >> 16 | 0x40u); /* a NaN must keep a fraction bit */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* F16 (IEEE binary16): 1 sign, 5 exponent and 10 fraction bits. */
float eco_f16_to_float(uint16_t bits);
uint16_t eco_f16_of_float(float value);

#endif /* ECO_TYPE_H */
