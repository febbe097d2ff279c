/*
 * Kernels put in place before those ahead of them have ended (programmatic dependent launch,
 * compute capability 9.0).
 */
#ifndef ECO_GPU_ARCH_GRID_DEPENDENCY_CUH
#define ECO_GPU_ARCH_GRID_DEPENDENCY_CUH

#include "gpu/arch/device.cuh"

/* Until the kernels ahead have ended; what they wrote is there then. */
ECO_DEVICE void wait_on_dependent_grids(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

/* The next kernel may be put in place.  If the caller has itself waited, the next one can read,
 * before it waits, everything but this kernel's own output.  If it has not, what earlier kernels
 * wrote may be missing too. */
ECO_DEVICE void launch_dependent_grids(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

#endif /* ECO_GPU_ARCH_GRID_DEPENDENCY_CUH */
