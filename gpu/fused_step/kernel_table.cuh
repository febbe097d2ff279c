/*
 * The module's kernels of fused steps, as rows of a list (kernels.h).
 */
#ifndef ECO_GPU_FUSED_STEP_KERNEL_TABLE_CUH
#define ECO_GPU_FUSED_STEP_KERNEL_TABLE_CUH

#include "gpu/fused_step/kernel.cuh"
#include "gpu/kernels.h"

template <int NUMBER, int SHAPE>
FUSED(static, fused, NUMBER, SHAPE)

template <int NUMBER, int SHAPE>
static const void *fused_kernel_of(void)
{
    typedef cell_traits<NUMBER> cell;
    if constexpr (cell::products == 1 && ECO_FUSED_MADE(cell::accs, SHAPE))
        return (const void *)fused<NUMBER, SHAPE>;
    return nullptr;
}
#define FUSED_KERNELS(cell, ...)                                                                   \
    {cell,                                                                                         \
     cell_traits<cell>::accs,                                                                      \
     {fused_kernel_of<cell, 0>(), fused_kernel_of<cell, 1>(), fused_kernel_of<cell, 2>()}},

static const struct eco_fused_kernel fused_kernels[] = {
    FUSED_KERNELS(ECO_FUSED_PROJECTION) CELLS_PERSISTENT(FUSED_KERNELS){ECO_FUSED_END, 0, {}}};

#endif /* ECO_GPU_FUSED_STEP_KERNEL_TABLE_CUH */
