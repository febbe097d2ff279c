/*
 * Random numbers by coordinates (common/number.h) for kernels.
 */
#ifndef ECO_GPU_TILE_RANDOM_CUH
#define ECO_GPU_TILE_RANDOM_CUH

#include "gpu/arch/device.cuh"

#define ECO_DEVICE_FUNCTION ECO_DEVICE
#include "common/number.h"

#endif /* ECO_GPU_TILE_RANDOM_CUH */
