/*
 * The kernels of matrix states for one type of rows, in one table. Included once for each type.
 */
#ifndef ECO_GPU_MATRIX_KERNELS_CUH
#define ECO_GPU_MATRIX_KERNELS_CUH

#include "gpu/matrix/backward.cuh"
#include "gpu/matrix/decode.cuh"

#define READINGS(kernel, by_row)                                                                   \
    {                                                                                              \
        (const void *)kernel<by_row, READS_NOT>, (const void *)kernel<by_row, READS>,              \
            (const void *)kernel<by_row, READS_OTHER>                                              \
    }
#define MATRIX_KERNELS                                                                             \
    {                                                                                              \
        (const void *)values_of_steps, (const void *)values_after_steps, (const void *)seed_steps, \
            (const void *)sweep_steps, (const void *)begin_rows, (const void *)finish_rows,        \
            {READINGS(step_forward, false), READINGS(step_forward, true)},                         \
            {READINGS(steps_backward, false), READINGS(steps_backward, true)},                     \
        {                                                                                          \
            READINGS(decode_step, false), READINGS(decode_step, true)                              \
        }                                                                                          \
    }

#endif /* ECO_GPU_MATRIX_KERNELS_CUH */
