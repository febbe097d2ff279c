/*
 * States as an operand of a step's product: some warps read them, bring the 64 numbers that a row
 * has in a stage near to 2^15 by a power of two, split them, and leave the pieces in the stage.
 */
#include "gpu/split_eight.cuh"

enum {
    EIGHTS = DEPTH / GROUP, /* of a row in a stage, a thread each */
    AHEAD = 4               /* stages that are on their way, with the one in hand */
};

/* Of a thread: of what lies in a stage an eighth of some rows. */
template <class kind> struct splitter {
    static constexpr int at_once = kind::filling / EIGHTS,
                         held = kind::columns / at_once; /* rows */
    static_assert(held * at_once == kind::columns, "threads share rows evenly");
    const eco_split_operand *o;
    int32_t first, stage; /* row of B, and stage of k, that all begins with */
    bool fours;
    int row, eighth; /* of the thread */

    __device__ __forceinline__ void load(int32_t i, int32_t stages, float (&x)[held][GROUP]) const
    {
        const int32_t k = ((stage + i) * EIGHTS + eighth) * GROUP;
#pragma unroll
        for (int h = 0; h < held; h++) {
            const int32_t n = first + row + h * at_once;
            load_eight(o->data + (size_t)n * o->row + k, i < stages && n < o->rows ? o->k - k : 0,
                       fours, x[h]);
        }
    }

    /* Eight threads have a row. */
    __device__ __forceinline__ void keep(char *to, float *scales,
                                         const float (&x)[held][GROUP]) const
    {
#pragma unroll
        for (int h = 0; h < held; h++) {
            const int n = row + h * at_once;
            unsigned most = size_of_eight(x[h]);
#pragma unroll
            for (int lanes = EIGHTS / 2; lanes > 0; lanes /= 2)
                most = max(most, __shfl_xor_sync(~0u, most, lanes));
            const float scale = scale_for(__uint_as_float(most));
            char *const at = to + n * LINE_BYTES + (eighth ^ n % 8) * 16;
            split_eight(x[h], scale, (uint4 *)at, (uint4 *)(at + kind::b_bytes));
            if (eighth == 0)
                scales[n] = over(scale);
        }
    }
};

template <class kind>
WORD splitter<kind> splitter_of(const eco_split_operand &o, int32_t first, int32_t stage)
{
    const int thread = (int)threadIdx.x - kind::consumers;
    return {&o, first, stage, has_fours(o), thread / EIGHTS, thread % EIGHTS};
}
