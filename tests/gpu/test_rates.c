/*
 * The table of the times of a run's parts on a GPU. An H100 and an H200 use it unchanged; other
 * devices scale each number of it once.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/rates.h"
#include "tests/kit/suite.h"

enum { NUMBERS = sizeof(struct eco_gpu_rates) / sizeof(double) };

static const struct eco_gpu_properties h100 = {"NVIDIA H100 PCIe", 90, 114, 1.755e9, 2e12},
                                       h200 = {"NVIDIA H200", 90, 132, 1.98e9, 4.8e12},
                                       a100 = {"NVIDIA A100-SXM4-80GB", 80, 108, 1.41e9, 2.04e12},
                                       none = {"", 90, 0, 0, 0};

START_TEST(known_ones_keep_it)
{
    const struct eco_gpu_properties *const known[] = {&h100, &h200, &none};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        double speed[ECO_SPEEDS];
        struct eco_gpu_rates rates;
        eco_gpu_speeds_of(speed, known[k]);
        eco_gpu_rates_scale(&rates, speed);
        ck_assert_int_eq(memcmp(&rates, &eco_gpu_rates_h200, sizeof rates), 0);
    }
}
END_TEST

/* The numbers are few, and none is scaled twice. For a device whose speeds are 3 times as high, and
 * 9 times for matrix units and the L2, each number changes by 3 or by 9. */
START_TEST(scales_each_once)
{
    double speed[ECO_SPEEDS], was[NUMBERS], is[NUMBERS];
    struct eco_gpu_rates rates;
    int fitted = 0;
    for (int k = 0; k < ECO_SPEEDS; k++)
        speed[k] = 3;
    speed[ECO_SPEED_MATRIX] = speed[ECO_SPEED_L2] = 9;
    eco_gpu_rates_scale(&rates, speed);
    memcpy(was, &eco_gpu_rates_h200, sizeof rates);
    memcpy(is, &rates, sizeof rates);
    for (int k = 0; k < NUMBERS; k++) {
        const double power = was[k] > 0 ? fabs(log(is[k] / was[k]) / log(3)) : 0;
        const int whole = (int)(power + 0.5);
        fitted += was[k] != 0;
        ck_assert_msg(whole < 3 && fabs(power - whole) < 1e-9, "number %d is %g, was %g", k, is[k],
                      was[k]);
    }
    ck_assert_int_le(fitted, 147);
}
END_TEST

/* An A100 is slower in everything except launches. */
START_TEST(another_device)
{
    double speed[ECO_SPEEDS];
    struct eco_gpu_rates rates;
    eco_gpu_speeds_of(speed, &a100);
    eco_gpu_rates_scale(&rates, speed);
    ck_assert_double_lt(rates.f16_multiply_adds, 0.5 * eco_gpu_rates_h200.f16_multiply_adds);
    ck_assert_double_lt(rates.memory_bytes, 0.5 * eco_gpu_rates_h200.memory_bytes);
    ck_assert_double_eq(rates.launch, eco_gpu_rates_h200.launch);
}
END_TEST

TEST_MAIN("rates", {known_ones_keep_it, 1}, {scales_each_once, 1}, {another_device, 1})
