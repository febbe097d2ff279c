/*
 * Kernels that become resident before their predecessors have ended (programmatic dependent launch,
 * compute capability 9.0).
 */
#ifndef ECO_GPU_ARCH_GRID_DEPENDENCY_CUH
#define ECO_GPU_ARCH_GRID_DEPENDENCY_CUH

#include "gpu/arch/device.cuh"

/* Waits until the preceding kernels have ended; their writes are visible after that. */
ECO_DEVICE void wait_on_dependent_grids(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

/* Lets the next kernel become resident. Before its own wait, that kernel may read anything but this
 * kernel's output, if the caller has itself waited. If it has not, writes of earlier kernels may be
 * missing, too. */
ECO_DEVICE void launch_dependent_grids(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

#endif /* ECO_GPU_ARCH_GRID_DEPENDENCY_CUH */
