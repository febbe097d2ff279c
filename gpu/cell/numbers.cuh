/*
 * What the compiler of cells says of a cell that one product, or two, of a step are enough for:
 * CELLS_PERSISTENT(CELLS_STRUCT) behind cells.inc makes a type of each.
 */
#ifndef ECO_GPU_CELL_NUMBERS_CUH
#define ECO_GPU_CELL_NUMBERS_CUH

#include "gpu/arch/device.cuh"

/* How many accumulators, states and saved values it has,
 * how many accumulators with R of each product, and which of these each accumulator is. */
template <int CELL> struct cell_traits;
#define CELLS_STRUCT(cell, n_accs, n_states, n_saves, n_first, n_second, ...)                      \
    template <> struct cell_traits<cell> {                                                         \
        enum {                                                                                     \
            accs = n_accs,                                                                         \
            states = n_states,                                                                     \
            saves = n_saves,                                                                       \
            first = n_first,                                                                       \
            second = n_second,                                                                     \
            products = second > 0 ? 2 : 1                                                          \
        };                                                                                         \
        static __device__ constexpr int row(int i, int product = 0)                                \
        {                                                                                          \
            constexpr int rows[] = {__VA_ARGS__};                                                  \
            return i < accs ? rows[product * accs + i] : -1;                                       \
        }                                                                                          \
    };

#endif /* ECO_GPU_CELL_NUMBERS_CUH */
