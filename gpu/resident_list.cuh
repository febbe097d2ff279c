/*
 * The kernels around all_steps: one by name for a cell compiled at run time, or for the module as
 * rows of a list (kernels.h), those that ECO_RESIDENT_MADE names.
 */
#define RESIDENT(linkage, name, number, shift, spread)                                             \
    linkage __global__ void __launch_bounds__(THREADS, 1)                                          \
        name(const __grid_constant__ struct eco_resident_call call)                                \
    {                                                                                              \
        all_steps<number, shift, spread>(call);                                                    \
    }

template <int NUMBER, int SHIFT, int SPREAD>
RESIDENT(static, resident, NUMBER, SHIFT, SPREAD)

template <int CELL, int SHIFT, int SPREAD>
static const void *kernel_of(void)
{
    if constexpr (ECO_RESIDENT_MADE(RESIDENT_BACKWARD, SHIFT, SPREAD))
        return (const void *)resident<CELL, SHIFT, SPREAD>;
    return nullptr;
}
#define RESIDENT_SPREAD(cell, spread)                                                              \
    {                                                                                              \
        kernel_of<cell, 3, spread>(), kernel_of<cell, 4, spread>(), kernel_of<cell, 5, spread>(),  \
            kernel_of<cell, 6, spread>()                                                           \
    }
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {cell, {RESIDENT_SPREAD(cell, 0), RESIDENT_SPREAD(cell, 1), RESIDENT_SPREAD(cell, 2)}},
