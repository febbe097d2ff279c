/*
 * What a source of persistent kernels includes, after it has defined ECO_ROWS_*, ECO_OPERAND_* and
 * PERSISTENT_BACKWARD: for a cell compiled at run time kernels by name, in the module those that
 * eco_persistent_made() lists for a cell (instances/persistent.awk).
 */
#ifndef ECO_GPU_PERSISTENT_KERNELS_CUH
#define ECO_GPU_PERSISTENT_KERNELS_CUH

#include "gpu/arch/cluster.cuh"
#include "gpu/arch/wgmma.cuh"
#if PERSISTENT_BACKWARD
#include "gpu/persistent/backward.cuh"
#else
#include "gpu/persistent/forward.cuh"
#endif

template <class KERNEL> ECO_DEVICE void run_kernel(const struct eco_persistent_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_PERSISTENT_VERSION
    if constexpr ((HAS_WGMMA || !KERNEL::first::wgmma) &&
                  (HAS_CLUSTERS || KERNEL::first::blocks == 1))
        walk_steps<KERNEL>(call);
#endif
}

#define PERSISTENT_KERNEL(linkage, name, ...)                                                      \
    linkage __global__ void __launch_bounds__(PERSISTENT_THREADS, 1)                               \
        name(const __grid_constant__ struct eco_persistent_call call)                              \
    {                                                                                              \
        run_kernel<kernel_of<__VA_ARGS__>>(call);                                                  \
    }

template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP>
PERSISTENT_KERNEL(static, persistent, NUMBER, SHIFT, CLUSTER_LOG2, MAINLOOP, false)

template <int CELL, int PLACE>
static const void *kernel_at(void)
{
    if constexpr (eco_persistent_made(cell_traits<CELL>::products, cell_traits<CELL>::first,
                                      PERSISTENT_BACKWARD, INSTRUCTIONS, K_BLOCK_SCALES) >>
                      PLACE &
                  1)
        return (const void *)
            persistent<CELL, eco_persistent_shift_of(PLACE), eco_persistent_cluster_log2_of(PLACE),
                       eco_persistent_mainloop_of(PLACE)>;
    return nullptr;
}
#define PERSISTENT_FOUR(cell, place)                                                               \
    kernel_at<cell, place>(), kernel_at<cell, place + 1>(), kernel_at<cell, place + 2>(),          \
        kernel_at<cell, place + 3>()
#define PERSISTENT_KERNELS(cell, ...)                                                              \
    {                                                                                              \
        PERSISTENT_FOUR(cell, 0), PERSISTENT_FOUR(cell, 4), PERSISTENT_FOUR(cell, 8),              \
            PERSISTENT_FOUR(cell, 12), PERSISTENT_FOUR(cell, 16), PERSISTENT_FOUR(cell, 20),       \
            PERSISTENT_FOUR(cell, 24), PERSISTENT_FOUR(cell, 28), PERSISTENT_FOUR(cell, 32),       \
            PERSISTENT_FOUR(cell, 36), PERSISTENT_FOUR(cell, 40), PERSISTENT_FOUR(cell, 44),       \
            PERSISTENT_FOUR(cell, 48), PERSISTENT_FOUR(cell, 52), PERSISTENT_FOUR(cell, 56)        \
    }

#endif /* ECO_GPU_PERSISTENT_KERNELS_CUH */
