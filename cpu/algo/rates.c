/*
 * The table of a CPU's rates and latencies, and what a measurement changes in it; see rates.h.
 */
#include "cpu/algo/rates.h"

const struct eco_cpu_rates eco_cpu_rates_usual = {
    .packed_step = 0.7,
    .packed_large = 0.8,
    .blas_step = 0.3,
    .blas_large = 0.6,
    .grid_step = 0.75,
    .tiles = 2.3,
    .f64 = 1,
    .bf16 = 1,
    .from_cache = 35e9,
    .from_shared = 40e9,
    .from_others = 3e9,
    .pass = 1.4e-9,
    .pass_back = 3.7e-9,
    .row = 50e-9,
    .scan = 0.35e-9,
    .scan_row = 15e-9,
    .step = 0.05e-6,
    .barrier = 0.25e-6,
    .late = 0.05,
    .wake = 8e-6,
};

const struct eco_cpu_rates *eco_cpu_rates_of(const struct eco_caps *caps)
{
    return caps->cpu.rates != NULL ? caps->cpu.rates : &eco_cpu_rates_usual;
}

double eco_cpu_rate_of(const struct eco_problem *problem, const struct eco_caps *caps)
{
    const struct eco_cpu_rates *rates = eco_cpu_rates_of(caps);
    return problem->type == ECORNN_F64    ? rates->f64
           : problem->type == ECORNN_BF16 ? rates->bf16
                                          : 1;
}

/* ---- measured rates -------------------------------------------------------------------------- */

static double doublings(int threads)
{
    int n = 0;
    while (1 << n < threads)
        n++;
    return n;
}

void eco_cpu_rates_measured(struct eco_cpu_rates *rates, struct eco_caps *caps,
                            const double value[ECO_MAX_MEASURES])
{
    const struct eco_cpu_rates *usual = &eco_cpu_rates_usual;
    const double f32 = value[ECO_MEASURED_F32], f64 = value[ECO_MEASURED_F64],
                 bf16 = value[ECO_MEASURED_BF16], barrier = value[ECO_MEASURED_BARRIER];
    *rates = *usual;
    if (f32 > 0) { /* passes of a second-level cache scale with its clock, too */
        const double speed = f32 / usual->packed_large / caps->flops;
        rates->from_cache *= speed;
        rates->pass /= speed;
        rates->pass_back /= speed;
        rates->scan /= speed;
        rates->scan_row /= speed;
        rates->row /= speed;
        rates->step /= speed;
        caps->flops *= speed;
    }
    if (f32 > 0 && f64 > 0)
        rates->f64 = f64 / f32;
    if (f32 > 0 && bf16 > 0) { /* it includes tiles */
        rates->bf16 = bf16 / f32;
        rates->tiles = 1;
    }
    if (value[ECO_MEASURED_MEMORY] > 0)
        caps->bytes_per_s = value[ECO_MEASURED_MEMORY];
    if (barrier > 0 && caps->threads > 1) {
        rates->barrier = barrier / doublings(caps->threads);
        rates->from_others *= usual->barrier / rates->barrier;
        rates->wake *= rates->barrier / usual->barrier;
    }
}
