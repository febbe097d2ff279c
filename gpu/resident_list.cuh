/*
 * The kernels of RESIDENT_KERNEL, a template, as rows of a list (kernels.h): those that
 * ECO_RESIDENT_MADE names.
 */
template <int CELL, int SHIFT, int SPREAD> static const void *kernel_of(void)
{
    if constexpr (ECO_RESIDENT_MADE(RESIDENT_BACKWARD, SHIFT, SPREAD))
        return (const void *)RESIDENT_KERNEL<CELL, SHIFT, SPREAD>;
    return nullptr;
}
#define RESIDENT_SPREAD(cell, spread)                                                              \
    {                                                                                              \
        kernel_of<cell, 3, spread>(), kernel_of<cell, 4, spread>(), kernel_of<cell, 5, spread>(),  \
            kernel_of<cell, 6, spread>()                                                           \
    }
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {cell, {RESIDENT_SPREAD(cell, 0), RESIDENT_SPREAD(cell, 1), RESIDENT_SPREAD(cell, 2)}},
