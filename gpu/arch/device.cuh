/*
 * How device functions of headers begin, and small words that every kernel may use.  arch holds all
 * of the machine's own instructions; it knows no matrix, no cell and no call.
 */
#ifndef ECO_GPU_ARCH_DEVICE_CUH
#define ECO_GPU_ARCH_DEVICE_CUH

/* Not every file that includes a header calls all that is in it. */
#define ECO_DEVICE [[maybe_unused]] static __device__ __forceinline__

enum { WARP = 32 }; /* lanes */

/* Kept in a register: the compiler would rather calculate it anew in every step. */
ECO_DEVICE int pinned(int value)
{
    asm volatile("" : "+r"(value));
    return value;
}

/* The larger of each two numbers of 16 bits (compute capability 9.0). */
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
