/*
 * Conversions between number types: the 16-bit ones against what their formats mean, and against
 * eco_type_round, which works by arithmetic, not by bits.  `test_type all`: every float.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "common/type.h"
#include "tests/kit/suite.h"

static bool all; /* the argument */

static const ecornn_type narrow[] = {ECORNN_BF16, ECORNN_F16};

static float to_float(uint16_t bits, ecornn_type type)
{
    return type == ECORNN_BF16 ? eco_bf16_to_float(bits) : eco_f16_to_float(bits);
}

static uint16_t of_float(float value, ecornn_type type)
{
    return type == ECORNN_BF16 ? eco_bf16_of_float(value) : eco_f16_of_float(value);
}

/* The number that 16 bits stand for, from sign, exponent and fraction. */
static double meaning(uint16_t bits, ecornn_type type)
{
    const int fraction_bits = type == ECORNN_BF16 ? 7 : 10, bias = type == ECORNN_BF16 ? 127 : 15;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    double value = ldexp(fraction + (exponent > 0 ? 1 << fraction_bits : 0),
                         (exponent > 0 ? exponent : 1) - bias - fraction_bits);
    if (exponent == 2 * bias + 1)
        value = fraction ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

START_TEST(every_number)
{
    const ecornn_type type = narrow[_i];
    for (unsigned k = 0; k < 65536; k++) {
        const uint16_t bits = (uint16_t)k;
        const double value = meaning(bits, type);
        ck_assert_msg(same((double)to_float(bits, type), value), "%s %04x", eco_type_name(type), k);
        ck_assert(same(eco_type_get(&bits, 0, type), value));
        ck_assert_msg(isnan(value) ? isnan(meaning(of_float((float)value, type), type))
                                   : of_float((float)value, type) == bits,
                      "%s %04x", eco_type_name(type), k);
        ck_assert(same(eco_type_round(value, type), value));
    }
}
END_TEST

static void check_float(float value, ecornn_type type)
{
    const uint16_t bits = of_float(value, type);
    const double rounded = eco_type_round((double)value, type);
    ck_assert_msg(same(meaning(bits, type), rounded), "%s of %a is %a, should be %a",
                  eco_type_name(type), (double)value, meaning(bits, type), rounded);
}

/* Rounds the midpoint between two adjacent numbers, and the floats just below and above it. */
START_TEST(halves)
{
    const ecornn_type type = narrow[_i];
    for (unsigned k = 0; k < 65536; k++) {
        const double a = meaning((uint16_t)k, type), b = meaning((uint16_t)(k + 1), type);
        if (isnan(a) || isnan(b) || (k & 0x7fff) == 0x7fff)
            continue;
        const double limit =
            type == ECORNN_F16 ? 0x1p16 : 0x1p128; /* infinity, as rounding sees it */
        const double next = isinf(b) ? copysign(limit, b) : b;
        const float half = (float)((a + next) / 2);
        check_float(half, type);
        check_float(nextafterf(half, INFINITY), type);
        check_float(nextafterf(half, -INFINITY), type);
        /* the even one of the two */
        if (!isinf(b))
            ck_assert_int_eq(of_float(half, type), k & 1 ? k + 1 : k);
    }
}
END_TEST

START_TEST(floats)
{
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += all ? 1 : 4099)
        check_float(eco_float_of_bits((uint32_t)bits), narrow[_i]);
}
END_TEST

/* A double is rounded once, not by way of a float. */
START_TEST(doubles)
{
    uint16_t bits[2];
    eco_type_set(bits, 0, ECORNN_BF16, 1 + 0x1p-8 + 0x1p-40);
    eco_type_set(bits, 1, ECORNN_BF16, 1 + 0x1p-8 - 0x1p-40);
    ck_assert_int_eq(bits[0], 0x3f81);
    ck_assert_int_eq(bits[1], 0x3f80);
    eco_type_set(bits, 0, ECORNN_F16, 65519.999);
    eco_type_set(bits, 1, ECORNN_F16, -65520);
    ck_assert_int_eq(bits[0], 0x7bff);
    ck_assert_int_eq(bits[1], 0xfc00);
}
END_TEST

static const ecornn_type types[] = {ECORNN_F32, ECORNN_F64, ECORNN_BF16, ECORNN_F16};

/* Converts arrays from every type to every type. */
START_TEST(arrays)
{
    enum { COUNT = 37 }; /* sums are below 64 */
    static const double half_ulp[] = {[ECORNN_F32] = 0x1p-25 + 0x1p-40,
                                      [ECORNN_F64] = 0,
                                      [ECORNN_BF16] = 0x1p-9 + 0x1p-25,
                                      [ECORNN_F16] =
                                          0x1p-12 + 0x1p-25}; /* rounds differently by way of F32 */
    const ecornn_type from = types[_i / 4], to = types[_i % 4];
    double a[COUNT], b[COUNT + 1], sum[COUNT];
    for (int i = 0; i < COUNT; i++) {
        eco_type_set(a, (size_t)i, from, sin(i));
        eco_type_set(sum, (size_t)i, to, i);
    }
    eco_type_set(b, COUNT, to, 5);
    eco_type_move(b, to, a, from, COUNT);
    eco_type_add(sum, to, a, from, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const double value = eco_type_get(a, i, from), start = eco_type_round((double)i, to);
        ck_assert_double_eq(eco_type_get(b, i, to), eco_type_round(value, to));
        ck_assert(fabs(eco_type_get(sum, i, to) - (start + value)) <= half_ulp[to] * 64);
    }
    ck_assert_double_eq(eco_type_get(b, COUNT, to), 5);
}
END_TEST

int main(int argc, char **argv)
{
    all = argc > 1 && argv[1][0] == 'a';
    const struct suite_program program = {.name = "type"};
    return suite_run(&program, SUITE_TESTS({every_number, 2}, {halves, 2}, {floats, 2},
                                           {doubles, 1}, {arrays, 16}));
}
