/*
 * The kernels around all_steps: one by name for a cell compiled at run time, or for the module
 * those of a cell (instances/persistent.awk), as far as ECO_RESIDENT_MADE names them.
 */
#ifndef ECO_GPU_PERSISTENT_KERNEL_TABLE_CUH
#define ECO_GPU_PERSISTENT_KERNEL_TABLE_CUH

#include "gpu/arch/cluster.cuh"
#include "gpu/arch/wgmma.cuh"
#include "gpu/cell/numbers.cuh"
#include "gpu/persistent/block.cuh"

template <int NUMBER, int SHIFT, int SPREAD, int FORM>
ECO_DEVICE void all_steps(const struct eco_resident_call &call);
template <int NUMBER, int SHIFT>
ECO_DEVICE void all_steps_of_two(const struct eco_resident_call &call);

#define RESIDENT(linkage, name, number, shift, spread, form)                                       \
    linkage __global__ void __launch_bounds__(THREADS, 1)                                          \
        name(const __grid_constant__ struct eco_resident_call call)                                \
    {                                                                                              \
        if constexpr ((form == ECO_RESIDENT_SQUARE && !HAS_WGMMA) ||                               \
                      (spread > 0 && !HAS_CLUSTERS))                                               \
            return;                                                                                \
        else if constexpr (numbers<number>::products == 1)                                         \
            all_steps<number, shift, spread, form>(call);                                          \
        else                                                                                       \
            all_steps_of_two<number, shift>(call);                                                 \
    }

template <int NUMBER, int SHIFT, int SPREAD, int FORM>
RESIDENT(static, resident, NUMBER, SHIFT, SPREAD, FORM)

template <int CELL, int PLACE>
static const void *kernel_of(void)
{
    if constexpr (ECO_RESIDENT_MADE(numbers<CELL>::products, numbers<CELL>::first,
                                    RESIDENT_BACKWARD, INSTRUCTIONS, ITEM_SCALES) >>
                      PLACE &
                  1)
        return (const void *)resident<CELL, ECO_RESIDENT_SHIFT_OF(PLACE),
                                      ECO_RESIDENT_SPREAD_OF(PLACE), ECO_RESIDENT_FORM_OF(PLACE)>;
    return nullptr;
}
#define RESIDENT_FOUR(cell, place)                                                                 \
    kernel_of<cell, place>(), kernel_of<cell, place + 1>(), kernel_of<cell, place + 2>(),          \
        kernel_of<cell, place + 3>()
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {                                                                                              \
        RESIDENT_FOUR(cell, 0), RESIDENT_FOUR(cell, 4), RESIDENT_FOUR(cell, 8),                    \
            RESIDENT_FOUR(cell, 12), RESIDENT_FOUR(cell, 16), RESIDENT_FOUR(cell, 20),             \
            RESIDENT_FOUR(cell, 24), RESIDENT_FOUR(cell, 28), RESIDENT_FOUR(cell, 32),             \
            RESIDENT_FOUR(cell, 36), RESIDENT_FOUR(cell, 40), RESIDENT_FOUR(cell, 44),             \
            RESIDENT_FOUR(cell, 48), RESIDENT_FOUR(cell, 52), RESIDENT_FOUR(cell, 56)              \
    }

#endif /* ECO_GPU_PERSISTENT_KERNEL_TABLE_CUH */
