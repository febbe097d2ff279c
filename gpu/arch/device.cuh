/*
 * How small device functions of headers begin; not every file that has them calls all.
 */
#define WORD [[maybe_unused]] static __device__ __forceinline__
