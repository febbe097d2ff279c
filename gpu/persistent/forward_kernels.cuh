/*
 * What a source of forward kernels includes, after it has defined ECO_ROWS_* and ECO_OPERAND_*.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_KERNELS_CUH
#define ECO_GPU_PERSISTENT_FORWARD_KERNELS_CUH

#define PERSISTENT_BACKWARD 0
#include "gpu/persistent/forward.cuh"
#include "gpu/persistent/forward_two_stage.cuh"
#include "gpu/persistent/kernel_table.cuh"

#endif /* ECO_GPU_PERSISTENT_FORWARD_KERNELS_CUH */
