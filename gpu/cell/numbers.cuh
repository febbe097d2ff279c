/*
 * Counts of a cell that has one or two products in a step. After cells.inc,
 * CELLS_PERSISTENT(CELLS_STRUCT) defines a type for each cell.
 */
#ifndef ECO_GPU_CELL_NUMBERS_CUH
#define ECO_GPU_CELL_NUMBERS_CUH

#include "gpu/arch/device.cuh"

/* Numbers of accumulators, states, saved values and accumulators with R (for each product), and the
 * index of each accumulator among the latter. */
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
