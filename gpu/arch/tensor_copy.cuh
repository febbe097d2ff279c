/*
 * Copies of boxes of a matrix to shared memory, described by a tensor map (compute capability 9.0).
 * What is outside of the matrix is filled with zeros and counted as bytes.
 */
#ifndef ECO_GPU_ARCH_TENSOR_COPY_CUH
#define ECO_GPU_ARCH_TENSOR_COPY_CUH

#include "gpu/arch/mbarrier.cuh"

/* Copies the box that begins at (row, column). */
ECO_DEVICE void tensor_copy(unsigned to, const void *map, int column, int row, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :
                 : "r"(to), "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier))
                 : "memory");
}

#endif /* ECO_GPU_ARCH_TENSOR_COPY_CUH */
