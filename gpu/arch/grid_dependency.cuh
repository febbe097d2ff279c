/*
 * Kernels put in place before those ahead of them have ended (compute capability 9.0).
 */
/* Until those ahead have ended, and what they wrote is there. */
WORD void wait_for_kernels_ahead(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

/* The next may be put in place.  By who has waited: then what is there for the next before it waits
 * is all but what this kernel writes.  By who has not: what kernels ahead of both write may not be
 * there yet, either. */
WORD void let_next_start(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}
