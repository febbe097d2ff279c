/*
 * The module's kernels of wide steps, as rows of a list (kernels.h).
 */
#ifndef ECO_GPU_WIDE_STEP_KERNEL_TABLE_CUH
#define ECO_GPU_WIDE_STEP_KERNEL_TABLE_CUH

#include "gpu/kernels.h"
#include "gpu/wide_step/backward.cuh"
#include "gpu/wide_step/kernel.cuh"

template <int NUMBER, int SHAPE, bool SAVES>
WIDE_STEP(static, wide_step, NUMBER, SHAPE, SAVES)

template <int NUMBER, int SHAPE, bool SAVES>
static const void *wide_kernel_of(void)
{
    typedef cell_traits<NUMBER> cell;
    if constexpr (cell::products == 1 && ECO_WIDE_MADE((int)cell::accs))
        return (const void *)wide_step < NUMBER, SHAPE, SAVES && (cell::saves > 0) > ;
    return nullptr;
}
template <int NUMBER> static const void *wide_back_of(void)
{
    if constexpr (cell_traits<NUMBER>::products == 1)
        return (const void *)wide_back<NUMBER>;
    return nullptr;
}
#define WIDE_SHAPES(cell, saves)                                                                   \
    {                                                                                              \
        wide_kernel_of<cell, 0, saves>(), wide_kernel_of<cell, 1, saves>(),                        \
            wide_kernel_of<cell, 2, saves>(), wide_kernel_of<cell, 3, saves>(),                    \
            wide_kernel_of<cell, 4, saves>(), wide_kernel_of<cell, 5, saves>()                     \
    }
#define WIDE_KERNELS(cell, ...)                                                                    \
    {cell,                                                                                         \
     cell_traits<cell>::accs,                                                                      \
     {WIDE_SHAPES(cell, false), WIDE_SHAPES(cell, true)},                                          \
     wide_back_of<cell>()},

static const struct eco_wide_kernel wide_kernels[] = {
    CELLS_PERSISTENT(WIDE_KERNELS){ECO_WIDE_END, 0, {}, nullptr}};

#endif /* ECO_GPU_WIDE_STEP_KERNEL_TABLE_CUH */
