/*
 * The kernels around all_steps: one by name for a cell compiled at run time, or for the module as
 * rows of a list (kernels.h), those that ECO_RESIDENT_MADE names.
 */
#define RESIDENT(linkage, name, number, shift, spread, many)                                       \
    linkage __global__ void __launch_bounds__(THREADS, 1)                                          \
        name(const __grid_constant__ struct eco_resident_call call)                                \
    {                                                                                              \
        if constexpr (numbers<number>::products == 1)                                              \
            all_steps<number, shift, spread, many>(call);                                          \
        else                                                                                       \
            all_steps_of_two<number, shift>(call);                                                 \
    }

template <int NUMBER, int SHIFT, int SPREAD, int MANY>
RESIDENT(static, resident, NUMBER, SHIFT, SPREAD, MANY)

template <int CELL, int PLACE>
static const void *kernel_of(void)
{
    if constexpr (ECO_RESIDENT_MADE(numbers<CELL>::products, RESIDENT_BACKWARD, INSTRUCTIONS) >>
                      PLACE &
                  1)
        return (const void *)resident<CELL, ECO_RESIDENT_SHIFT_OF(PLACE),
                                      ECO_RESIDENT_SPREAD_OF(PLACE), ECO_RESIDENT_MANY_OF(PLACE)>;
    return nullptr;
}
#define RESIDENT_FOUR(cell, place)                                                                 \
    kernel_of<cell, place>(), kernel_of<cell, place + 1>(), kernel_of<cell, place + 2>(),          \
        kernel_of<cell, place + 3>()
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {cell,                                                                                         \
     {RESIDENT_FOUR(cell, 0), RESIDENT_FOUR(cell, 4), RESIDENT_FOUR(cell, 8),                      \
      RESIDENT_FOUR(cell, 12), RESIDENT_FOUR(cell, 16), RESIDENT_FOUR(cell, 20)}},
