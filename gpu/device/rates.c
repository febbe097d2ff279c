/*
 * The table of rates and latencies, and how it is scaled to other devices; see rates.h.
 */
#include "gpu/device/rates.h"

#include <stddef.h>
#include <string.h>

const struct eco_gpu_rates eco_gpu_rates_h200 = {
#define RATE(member, size, speed, ...) .member = __VA_ARGS__,
#define TIME                           RATE
#include "gpu/device/rates.inc"
#undef RATE
#undef TIME
};

const struct eco_gpu_rates *eco_gpu_rates_of(const struct eco_caps *caps)
{
    return caps->gpu.rates != NULL ? caps->gpu.rates : &eco_gpu_rates_h200;
}

/* ---- scales ---------------------------------------------------------------------------------- */

void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS])
{
    static const struct {
        size_t first, bytes;
        int speed;
        bool rate;
    } members[] = {
#define MEMBER(member, speed, rate)                                                                \
    {offsetof(struct eco_gpu_rates, member), sizeof((struct eco_gpu_rates *)NULL)->member,         \
     ECO_SPEED_##speed, rate},
#define RATE(member, size, speed, ...) MEMBER(member, speed, true)
#define TIME(member, size, speed, ...) MEMBER(member, speed, false)
#include "gpu/device/rates.inc"
    };
    *rates = eco_gpu_rates_h200;
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        for (size_t at = 0; at < members[k].bytes; at += sizeof(double)) {
            double *number = (double *)(void *)((char *)rates + members[k].first + at);
            const double factor = members[k].speed < ECO_SPEEDS ? speed[members[k].speed] : 1;
            *number = members[k].rate ? *number * factor : *number / factor;
        }
}

/* ---- speeds ---------------------------------------------------------------------------------- */

/* The properties of an H200. */
static const double H200_CLOCK = 1.98e9, H200_MEMORY = 4.8e12;
enum { H200_MULTIPROCESSORS = 132 };

/* Multiply-adds of a multiprocessor in a clock: of 16-bit numbers with F32 sums, and of floats. The
 * vendor's figures, for a compute capability and later ones. */
static const struct units {
    int capability;
    double matrix, floats;
} units[] = {{75, 512, 64},   {80, 1024, 64},   {86, 256, 128}, {89, 256, 128},
             {90, 2048, 128}, {100, 4096, 128}, {120, 512, 128}};

static struct units units_of(int capability)
{
    struct units found = units[0];
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        if (units[k].capability <= capability)
            found = units[k];
    return found;
}

double eco_gpu_speeds_of(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties)
{
    const struct units own = units_of(properties->capability), h200 = units_of(90);
    const double clock = properties->clock / H200_CLOCK,
                 share = (double)properties->multiprocessors / H200_MULTIPROCESSORS,
                 floats = clock * own.floats / h200.floats;
    for (int k = 0; k < ECO_SPEEDS; k++)
        speed[k] = 1;
    if (strstr(properties->name, "H100") != NULL || strstr(properties->name, "H200") != NULL ||
        !(clock > 0 && share > 0))
        return 1;
    speed[ECO_SPEED_CLOCK] = clock;
    speed[ECO_SPEED_L2] = clock * share;
    speed[ECO_SPEED_FLOAT] = floats * share;
    speed[ECO_SPEED_MATRIX] = clock * share * own.matrix / h200.matrix;
    speed[ECO_SPEED_MATRIX_RATIO] = speed[ECO_SPEED_MATRIX] / speed[ECO_SPEED_FLOAT];
    if (properties->memory_bytes > 0)
        speed[ECO_SPEED_MEMORY] = properties->memory_bytes / H200_MEMORY;
    return floats;
}
