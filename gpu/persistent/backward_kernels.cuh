/*
 * What a source of backward kernels includes, after it has defined ECO_ROWS_* and ECO_OPERAND_*.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_KERNELS_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_KERNELS_CUH

#define PERSISTENT_BACKWARD 1
#include "gpu/persistent/backward.cuh"
#include "gpu/persistent/backward_two_stage.cuh"
#include "gpu/persistent/kernel_table.cuh"

#endif /* ECO_GPU_PERSISTENT_BACKWARD_KERNELS_CUH */
