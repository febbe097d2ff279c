/*
 * Copies of boxes of a matrix to shared memory, as a tensor map describes it (compute capability
 * 9.0).  What lies outside of the matrix comes as zeros, and counts as bytes.
 */
#ifndef ECO_GPU_ARCH_TENSOR_COPY_CUH
#define ECO_GPU_ARCH_TENSOR_COPY_CUH

#include "gpu/arch/mbarrier.cuh"

/* The box that begins there. */
ECO_DEVICE void tensor_copy(unsigned to, const void *map, int column, int row, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :
                 : "r"(to), "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier))
                 : "memory");
}

#endif /* ECO_GPU_ARCH_TENSOR_COPY_CUH */
