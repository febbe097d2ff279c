/*
 * The rates of a GPU that are measured for estimates, and how they are set; see eco_backend.
 */
#ifndef ECO_GPU_RUN_MEASURE_H
#define ECO_GPU_RUN_MEASURE_H

#include "common/backend.h"

extern const struct eco_measure eco_gpu_measures[];
void eco_gpu_set_rates(struct ecornn_device *device, const double value[ECO_MAX_MEASURES]);

#endif /* ECO_GPU_RUN_MEASURE_H */
