/*
 * The module's kernels of wide steps, as rows of a list (kernels.h).
 */
#ifndef ECO_GPU_WIDE_STEP_KERNEL_TABLE_CUH
#define ECO_GPU_WIDE_STEP_KERNEL_TABLE_CUH

#include "gpu/kernels.h"
#include "gpu/wide_step/backward.cuh"
#include "gpu/wide_step/kernel.cuh"

template <int NUMBER, int SHAPE>
WIDE_STEP(static, wide_step, NUMBER, SHAPE)

template <int NUMBER, int SHAPE>
static const void *wide_kernel_of(void)
{
    typedef cell_traits<NUMBER> cell;
    if constexpr (cell::products == 1 && ECO_WIDE_MADE((int)cell::accs))
        return (const void *)wide_step<NUMBER, SHAPE>;
    return nullptr;
}
template <int NUMBER> static const void *wide_back_of(void)
{
    if constexpr (cell_traits<NUMBER>::products == 1)
        return (const void *)wide_back<NUMBER>;
    return nullptr;
}
#define WIDE_KERNELS(cell, ...)                                                                    \
    {cell,                                                                                         \
     cell_traits<cell>::accs,                                                                      \
     {wide_kernel_of<cell, 0>(), wide_kernel_of<cell, 1>(), wide_kernel_of<cell, 2>(),             \
      wide_kernel_of<cell, 3>(), wide_kernel_of<cell, 4>()},                                       \
     wide_back_of<cell>()},

static const struct eco_wide_kernel wide_kernels[] = {
    CELLS_PERSISTENT(WIDE_KERNELS){ECO_WIDE_END, 0, {}, nullptr}};

#endif /* ECO_GPU_WIDE_STEP_KERNEL_TABLE_CUH */
