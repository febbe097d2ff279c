/*
 * The rates and latencies from which times on a GPU are estimated (rates.inc), in one table for
 * each device. The table of an H200 is scaled to other devices, by their properties.
 */
#ifndef ECO_GPU_DEVICE_RATES_H
#define ECO_GPU_DEVICE_RATES_H

#include "common/backend.h"

/* Rows of the times of algorithm persistent, by direction, mainloop and operand: one number, with
 * or without scales, or a pair (TWO). */
enum eco_persistent_costs {
    ECO_COST_FORWARD,
    ECO_COST_FORWARD_TWO,
    ECO_COST_BACK,
    ECO_COST_BACK_SCALED,
    ECO_COST_BACK_TWO,
    ECO_COST_WGMMA,
    ECO_COST_WGMMA_TWO,
    ECO_COST_DIRECT,
    ECO_COST_DIRECT_TWO,
    ECO_COST_WIDE_TWO, /* and pairs with scales */
    ECO_COST_DIRECT_BACK,
    ECO_COSTS
};

struct eco_gpu_rates {
#define RATE(member, size, speed, ...) double member size;
#define TIME                           RATE
#include "gpu/device/rates.inc"
#undef RATE
#undef TIME
};

/* The table of an H200 and H100. */
extern const struct eco_gpu_rates eco_gpu_rates_h200;
/* The table of a device. */
const struct eco_gpu_rates *eco_gpu_rates_of(const struct eco_caps *caps);

/* Speeds relative to an H200.  Launches take as long on all devices. */
enum eco_gpu_speed {
    ECO_SPEED_CLOCK, /* of a multiprocessor, and of exchanges between blocks */
    ECO_SPEED_L2,
    ECO_SPEED_MEMORY,
    ECO_SPEED_MATRIX,       /* all matrix units */
    ECO_SPEED_FLOAT,        /* all float arithmetic */
    ECO_SPEED_MATRIX_RATIO, /* matrix units over float arithmetic */
    ECO_SPEEDS,
    ECO_SPEED_ALWAYS = ECO_SPEEDS /* does not depend on the device */
};
/* Properties that a device reports. */
struct eco_gpu_properties {
    const char *name;
    int capability; /* times ten */
    int multiprocessors;
    double clock;        /* Hz */
    double memory_bytes; /* bytes/s, by clock and width */
};
/* Estimates speeds from properties; an H100 or H200 has 1.  Returns the speed of the F32 arithmetic
 * of a multiprocessor. */
double eco_gpu_speeds_of(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties);
/* Example: with ECO_SPEED_CLOCK 0.5 every time that depends on the clock doubles. */
void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS]);

#endif /* ECO_GPU_DEVICE_RATES_H */
