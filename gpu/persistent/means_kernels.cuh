/*
 * What a source of kernels of a cell with means includes, after it has defined ECO_ROWS_*,
 * ECO_OPERAND_* and PERSISTENT_BACKWARD.
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_KERNELS_CUH
#define ECO_GPU_PERSISTENT_MEANS_KERNELS_CUH

/* Blocks wait for each step's text several times, so it avoids the branches of a division. */
#define CELL_WITHOUT_BRANCHES
/* The index of a mean is a compile-time constant. */
#include "gpu/persistent/elements.cuh"
#define load_mean(at, m) load_mean_of(at, count<m>())

#if PERSISTENT_BACKWARD
#include "gpu/persistent/backward_means.cuh"
#else
#include "gpu/persistent/forward_means.cuh"
#endif
#include "gpu/arch/cluster.cuh"
#include "gpu/arch/wgmma.cuh"

#define PERSISTENT_MEANS_KERNEL(name, shift, cluster_log2, mainloop, kept)                         \
    extern "C" __global__ void __launch_bounds__(PERSISTENT_THREADS, 1)                            \
        name(const __grid_constant__ struct eco_persistent_call call)                              \
    {                                                                                              \
        if constexpr ((mainloop == ECO_PERSISTENT_WGMMA && !HAS_WGMMA) ||                          \
                      (cluster_log2 > 0 && !HAS_CLUSTERS))                                         \
            return;                                                                                \
        else                                                                                       \
            all_steps_with_means<0, shift, cluster_log2, mainloop, kept>(call);                    \
    }

#endif /* ECO_GPU_PERSISTENT_MEANS_KERNELS_CUH */
