/*
 * The kernels of matrix states for one type of rows, in one table. Included once for each type.
 */
#ifndef ECO_GPU_MATRIX_KERNELS_CUH
#define ECO_GPU_MATRIX_KERNELS_CUH

#include "gpu/matrix/backward.cuh"
#if !defined(ECO_ROWS_F64)
#include "gpu/matrix/chunk_gradients.cuh"
#include "gpu/matrix/gates.cuh"
#endif
#include "gpu/matrix/decode.cuh"

#define READINGS(kernel, by_row)                                                                   \
    {                                                                                              \
        (const void *)kernel<by_row, READS_NOT>, (const void *)kernel<by_row, READS>,              \
            (const void *)kernel<by_row, READS_OTHER>                                              \
    }
#if defined(ECO_ROWS_F64)
#define CHUNKS(kernel)                                                                             \
    {                                                                                              \
    }
#define GATED(kernel, ...) CHUNKS(kernel)
#else
#define CHUNKS(kernel)                                                                             \
    {                                                                                              \
        {(const void *)kernel<64, 1>, (const void *)kernel<64, PLANES>},                           \
        {                                                                                          \
            (const void *)kernel<128, 1>, (const void *)kernel<128, PLANES>                        \
        }                                                                                          \
    }
#define GATED(kernel, ...) /* with further parameters */                                           \
    {                                                                                              \
        (const void *)kernel<64 __VA_ARGS__>, (const void *)kernel<128 __VA_ARGS__>                \
    }
#endif
#define MATRIX_KERNELS                                                                             \
    {                                                                                              \
        (const void *)values_of_steps, (const void *)numbers_of_steps,                             \
            (const void *)values_after_steps, (const void *)seed_steps, (const void *)sweep_steps, \
            (const void *)begin_rows, (const void *)finish_rows,                                   \
            {READINGS(step_forward, false), READINGS(step_forward, true)},                         \
            {READINGS(steps_backward, false), READINGS(steps_backward, true)},                     \
            {READINGS(decode_step, false), READINGS(decode_step, true)}, CHUNKS(pairs_of_chunks),  \
            CHUNKS(chunks_forward), CHUNKS(chunks_backward), CHUNKS(gradients_of_chunks),          \
            GATED(gated_pairs_of_chunks, ), GATED(gradients_of_chunks, , PLANES, true)             \
    }

#endif /* ECO_GPU_MATRIX_KERNELS_CUH */
