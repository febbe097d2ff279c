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

/* What the L2 does with copied lines if it lacks room. */
ECO_DEVICE uint64_t l2_keeps(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
ECO_DEVICE uint64_t l2_drops(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/* The same by such a policy. */
ECO_DEVICE void tensor_copy_by(uint64_t policy, unsigned to, const void *map, int column, int row,
                               uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
                 :
                 : "r"(to), "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier)),
                   "l"(policy)
                 : "memory");
}

/* Copies to the first `blocks` blocks of the cluster, at the same place of each, and to the same
 * barrier of each. */
ECO_DEVICE void tensor_copy_to_cluster(unsigned to, const void *map, int column, int row,
                                       uint64_t *barrier, unsigned blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :
                 : "r"(to), "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier)),
                   "h"((uint16_t)((1u << blocks) - 1))
                 : "memory");
}

#endif /* ECO_GPU_ARCH_TENSOR_COPY_CUH */
