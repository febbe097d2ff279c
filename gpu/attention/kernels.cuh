/*
 * The kernels of attention for one type of rows, in one table. Included once for each type.
 */
#ifndef ECO_GPU_ATTENTION_KERNELS_CUH
#define ECO_GPU_ATTENTION_KERNELS_CUH

#include "gpu/attention/additive.cuh"
#include "gpu/attention/gradient.cuh"
#include "gpu/attention/product.cuh"
#include "gpu/attention/softmax.cuh"

/* Groups of four columns of a lane: the tile of keys takes 32 KB in either type. */
enum { MANY_FOURS = 16 / sizeof(real), FEW_FOURS = 1 };

#define ATTENTION_KERNELS                                                                          \
    {                                                                                              \
        {(const void *)additive_scores<FEW_FOURS>, (const void *)additive_scores<MANY_FOURS>},     \
            FEW_FOURS * 4 * WARP, (const void *)softmax_rows, (const void *)softmax_gradient_rows, \
            {(const void *)product<ECO_ATTENTION_ROWS_BY_ROWS>,                                    \
             (const void *)product<ECO_ATTENTION_WEIGHTS_BY_ROWS>,                                 \
             (const void *)product<ECO_ATTENTION_WEIGHTS_TRANSPOSED>},                             \
            (const void *)additive_gradient, (const void *)sum_vectors                             \
    }

#endif /* ECO_GPU_ATTENTION_KERNELS_CUH */
