/*
 * The kernels around all_steps: for a cell compiled at run time one by name, in the module those
 * that eco_persistent_made() lists for a cell (instances/persistent.awk).
 */
#ifndef ECO_GPU_PERSISTENT_KERNEL_TABLE_CUH
#define ECO_GPU_PERSISTENT_KERNEL_TABLE_CUH

#include "gpu/arch/cluster.cuh"
#include "gpu/arch/wgmma.cuh"
#include "gpu/cell/numbers.cuh"
#include "gpu/persistent/block.cuh"

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP>
ECO_DEVICE void all_steps(const struct eco_persistent_call &call);
template <int NUMBER, int SHIFT>
ECO_DEVICE void all_steps_of_two(const struct eco_persistent_call &call);

#define PERSISTENT_KERNEL(linkage, name, number, shift, cluster_log2, mainloop)                    \
    linkage __global__ void __launch_bounds__(PERSISTENT_THREADS, 1)                               \
        name(const __grid_constant__ struct eco_persistent_call call)                              \
    {                                                                                              \
        if constexpr ((mainloop == ECO_PERSISTENT_WGMMA && !HAS_WGMMA) ||                          \
                      (cluster_log2 > 0 && !HAS_CLUSTERS))                                         \
            return;                                                                                \
        else if constexpr (cell_traits<number>::products == 1)                                     \
            all_steps<number, shift, cluster_log2, mainloop>(call);                                \
        else                                                                                       \
            all_steps_of_two<number, shift>(call);                                                 \
    }

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP>
PERSISTENT_KERNEL(static, persistent, NUMBER, SHIFT, CLUSTER_LOG2, MAINLOOP)

template <int CELL, int ELEMENT>
static const void *kernel_of(void)
{
    if constexpr (eco_persistent_made(cell_traits<CELL>::products, cell_traits<CELL>::first,
                                      PERSISTENT_BACKWARD, INSTRUCTIONS, K_BLOCK_SCALES) >>
                      ELEMENT &
                  1)
        return (const void *)persistent<CELL, eco_persistent_shift_of(ELEMENT),
                                        eco_persistent_cluster_log2_of(ELEMENT),
                                        eco_persistent_mainloop_of(ELEMENT)>;
    return nullptr;
}
#define PERSISTENT_FOUR(cell, place)                                                               \
    kernel_of<cell, place>(), kernel_of<cell, place + 1>(), kernel_of<cell, place + 2>(),          \
        kernel_of<cell, place + 3>()
#define PERSISTENT_KERNELS(cell, ...)                                                              \
    {                                                                                              \
        PERSISTENT_FOUR(cell, 0), PERSISTENT_FOUR(cell, 4), PERSISTENT_FOUR(cell, 8),              \
            PERSISTENT_FOUR(cell, 12), PERSISTENT_FOUR(cell, 16), PERSISTENT_FOUR(cell, 20),       \
            PERSISTENT_FOUR(cell, 24), PERSISTENT_FOUR(cell, 28), PERSISTENT_FOUR(cell, 32),       \
            PERSISTENT_FOUR(cell, 36), PERSISTENT_FOUR(cell, 40), PERSISTENT_FOUR(cell, 44),       \
            PERSISTENT_FOUR(cell, 48), PERSISTENT_FOUR(cell, 52), PERSISTENT_FOUR(cell, 56)        \
    }

#endif /* ECO_GPU_PERSISTENT_KERNEL_TABLE_CUH */
