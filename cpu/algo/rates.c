/*
 * The table of a CPU's rates and latencies; see rates.h.
 */
#include "cpu/algo/rates.h"

const struct eco_cpu_rates eco_cpu_rates = {
    .step_products = 0.75,
    .large_products = 0.8,
    .tiles = 2.3,
    .cache_bytes = 35e9,
    .exchanged_bytes = 3e9,
    .pass = 1.4e-9,
    .pass_back = 3.7e-9,
    .row = 50e-9,
    .scan = 0.35e-9,
    .scan_row = 15e-9,
    .stage = 0.05e-6,
    .barrier = 0.25e-6,
    .shared_line = 0.1e-6,
    .next_line = 0.025e-6,
    .late = 0.05,
    .wake = 8e-6,
};
