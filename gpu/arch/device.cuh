/*
 * How device functions of headers are declared, and small functions for every kernel. arch/ wraps
 * the machine's instructions; it knows no matrix, no cell and no call.
 */
#ifndef ECO_GPU_ARCH_DEVICE_CUH
#define ECO_GPU_ARCH_DEVICE_CUH

/* maybe_unused, because few files use all functions of a header. */
#define ECO_DEVICE [[maybe_unused]] static __device__ __forceinline__

enum { WARP = 32 }; /* lanes */

/* Keeps a value in a register, where the compiler would recompute it in every step. */
ECO_DEVICE int pinned(int value)
{
    asm volatile("" : "+r"(value));
    return value;
}

/* The larger of each pair of 16-bit numbers (compute capability 9.0). */
ECO_DEVICE unsigned max_of_halves(unsigned a, unsigned b)
{
    asm("max.u16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}

/* Nanoseconds, the same clock in all blocks. */
ECO_DEVICE unsigned long long global_time(void)
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

#endif /* ECO_GPU_ARCH_DEVICE_CUH */
