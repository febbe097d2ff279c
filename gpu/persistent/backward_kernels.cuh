/*
 * All that a source of backward kernels includes, after it has said of which rows and operands.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_KERNELS_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_KERNELS_CUH

#define PERSISTENT_BACKWARD 1
#include "gpu/persistent/backward.cuh"
#include "gpu/persistent/backward_two_stage.cuh"
#include "gpu/persistent/kernel_table.cuh"

#endif /* ECO_GPU_PERSISTENT_BACKWARD_KERNELS_CUH */
