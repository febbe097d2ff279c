/*
 * Number types; see type.h.
 */
#include "common/type.h"

#include <float.h>
#include <math.h>

#include "common/simd4.h"

/* ---- F16 and float --------------------------------------------------------------------------- */

float eco_f16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity, NaN */
        return eco_float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) { /* denormal, or 0 */
        const float magnitude = (float)rest * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return eco_float_of_bits(sign | ((rest << 13) + (112u << 23))); /* exponent biases 127 and 15 */
}

/* value / 2^shift, rounded to nearest, ties to even; 0 < shift < 32. */
static uint32_t shift_rounded(uint32_t value, uint32_t shift)
{
    const uint32_t half = 1u << (shift - 1);
    return (value + half - 1 + (value >> shift & 1u)) >> shift;
}

uint16_t eco_f16_of_float(float value)
{
    const uint32_t bits = eco_float_bits(value), rest = bits & 0x7fffffffu;
    const uint32_t sign = bits >> 16 & 0x8000u, exponent = rest >> 23;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x47800000u) /* 2^16 */
        return (uint16_t)(sign | 0x7c00u);
    if (exponent < 102) /* below 2^-25, half of the smallest number */
        return (uint16_t)sign;
    if (exponent < 113) /* denormal: in units of 2^-24 */
        return (uint16_t)(sign | shift_rounded((rest & 0x7fffffu) | 0x800000u, 126 - exponent));
    return (uint16_t)(sign | shift_rounded(rest - (112u << 23), 13)); /* from 65520 on: infinity */
}

/* ---- any type -------------------------------------------------------------------------------- */

double eco_type_round(double value, ecornn_type type)
{
    const struct eco_type_form *form = &eco_type_form[type];
    if (type == ECORNN_F64 || !isfinite(value) || value == 0)
        return value;
    if (type == ECORNN_F32)
        return (double)(float)value;
    int exponent;
    frexp(value, &exponent);
    const int unit = exponent - form->bits;
    const int last = unit < form->least ? form->least : unit;
    const double rounded = ldexp(rint(ldexp(value, -last)), last);
    return fabs(rounded) > form->most ? copysign(INFINITY, value) : rounded;
}

double eco_type_get(const void *array, size_t i, ecornn_type type)
{
    switch (type) {
    case ECORNN_F64:
        return ((const double *)array)[i];
    case ECORNN_BF16:
        return (double)eco_bf16_to_float(((const uint16_t *)array)[i]);
    case ECORNN_F16:
        return (double)eco_f16_to_float(((const uint16_t *)array)[i]);
    default:
        return (double)((const float *)array)[i];
    }
}

void eco_type_set(void *array, size_t i, ecornn_type type, double value)
{
    /* converted from double directly: through float it would be rounded twice */
    const float narrow = (float)(type == ECORNN_F64 ? 0 : eco_type_round(value, type));
    switch (type) {
    case ECORNN_F64:
        ((double *)array)[i] = value;
        break;
    case ECORNN_BF16:
        ((uint16_t *)array)[i] = eco_bf16_of_float(narrow);
        break;
    case ECORNN_F16:
        ((uint16_t *)array)[i] = eco_f16_of_float(narrow);
        break;
    default:
        ((float *)array)[i] = narrow;
    }
}

/* eco_bf16_of_float and its inverse in blocks: compilers vectorize constant lengths. */
enum { AT_A_TIME = 16 };
typedef uint16_t halves __attribute__((vector_size(ECO_SIMD4 * sizeof(uint16_t))));

/* false: there is a NaN, and nothing was written. */
static inline bool narrow_numbers(uint16_t *to, const float *from)
{
    enum { VECTORS = AT_A_TIME / ECO_SIMD4 };
    eco_simd4 rounded[VECTORS], nan = {0};
#pragma GCC unroll 4
    for (int i = 0; i < VECTORS; i++)
        rounded[i] = eco_simd4_rounded(eco_simd4_load(from + i * ECO_SIMD4), &nan);
    if (eco_simd4_any(nan))
        return false;
#pragma GCC unroll 4
    for (int i = 0; i < VECTORS; i++) {
        const halves half = __builtin_convertvector(rounded[i] >> 16, halves);
        memcpy(to + i * ECO_SIMD4, &half, sizeof half);
    }
    return true;
}

static void narrow_floats(uint16_t *to, const float *from, size_t n)
{
    for (size_t some; n > 0; n -= some, to += some, from += some) {
        some = n < AT_A_TIME ? n : AT_A_TIME;
        if (some == AT_A_TIME && narrow_numbers(to, from))
            continue;
        for (size_t i = 0; i < some; i++)
            to[i] = eco_bf16_of_float(from[i]);
    }
}

static void widen_floats(float *to, const uint16_t *from, size_t n)
{
    for (; n >= AT_A_TIME; n -= AT_A_TIME, to += AT_A_TIME, from += AT_A_TIME) {
        uint32_t bits[AT_A_TIME];
        for (int i = 0; i < AT_A_TIME; i++)
            bits[i] = (uint32_t)from[i] << 16;
        memcpy(to, bits, sizeof bits);
    }
    for (size_t i = 0; i < n; i++)
        to[i] = eco_bf16_to_float(from[i]);
}

void eco_type_move(void *to, ecornn_type to_type, const void *from, ecornn_type from_type, size_t n)
{
    if (to_type == from_type)
        memcpy(to, from, n * eco_type_bytes(to_type));
    else if (to_type == ECORNN_BF16 && from_type == ECORNN_F32)
        narrow_floats(to, from, n);
    else if (to_type == ECORNN_F32 && from_type == ECORNN_BF16)
        widen_floats(to, from, n);
    else
        for (size_t i = 0; i < n; i++)
            eco_type_set(to, i, to_type, eco_type_get(from, i, from_type));
}

static void add_floats(float *to, const float *from, size_t n)
{
    for (; n >= AT_A_TIME; n -= AT_A_TIME, to += AT_A_TIME, from += AT_A_TIME)
#pragma GCC unroll 4
        for (int i = 0; i < AT_A_TIME; i += ECO_SIMD4)
            eco_simd4_store(to + i, (eco_simd4)((eco_simd4_float)eco_simd4_load(to + i) +
                                                (eco_simd4_float)eco_simd4_load(from + i)));
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

void eco_type_add(void *to, ecornn_type to_type, const void *from, ecornn_type from_type, size_t n)
{
    if (to_type == ECORNN_F32 && from_type == ECORNN_F32)
        add_floats(to, from, n);
    else
        for (size_t i = 0; i < n; i++)
            eco_type_set(to, i, to_type,
                         eco_type_get(to, i, to_type) + eco_type_get(from, i, from_type));
}
