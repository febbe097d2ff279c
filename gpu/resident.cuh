/*
 * Algorithm resident, what both ways share: how a block finds its share of the work, keeps its part
 * of R as operands of matrix instructions, and multiplies.
 *
 * k is taken in an order of our own: of 32 neighbouring k lane 4g + q holds 8q to 8q + 7, of which
 * the first matrix instruction takes four and the second the others.  So a lane's share of a row is
 * 16 bytes in one piece, in R, in what blocks exchange and in shared memory.
 */
#include "gpu/arithmetic.cuh"
#include "gpu/resident_call.h"

#include "gpu/matrix.cuh"

enum {
    THREADS = ECO_RESIDENT_THREADS,
    WARPS = ECO_RESIDENT_WARPS,
    ITEMS = ECO_RESIDENT_ITEMS,
    LANES = 32,
    TILES = 2 /* of 16 rows of R, to a warp */
};

#define CELL_WORD     static __device__ __forceinline__
#define CELL(name)    name
#define CELL_FUNCTION template <class PLACE> CELL_WORD
#define CELL_AT       PLACE *

/* What the compiler of cells says of one: how many accumulators, states and saved values it has,
 * how many accumulators with R, and which of these each accumulator is. */
template <int CELL> struct numbers;
#define CELLS_STRUCT(cell, n_accs, n_states, n_saves, n_products, ...)                             \
    template <> struct numbers<cell> {                                                             \
        enum { accs = n_accs, states = n_states, saves = n_saves, products = n_products };         \
        static __device__ constexpr int row(int i)                                                 \
        {                                                                                          \
            constexpr int rows[] = {__VA_ARGS__};                                                  \
            return i < accs ? rows[i] : -1;                                                        \
        }                                                                                          \
    };

/* A block's share. */
struct share {
    int job, group, member;
    int row0, rows; /* batch rows of the group */
    int unit0;      /* first unit of the block */
    int warp, lane, down, across;
};

WORD struct share share_of(const struct eco_resident_call *call)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int blocks = shape->groups * shape->members;
    struct share share;
    share.job = (int)blockIdx.x / blocks;
    share.group = (int)blockIdx.x % blocks / shape->members;
    share.member = (int)blockIdx.x % shape->members;
    share.row0 = share.group * shape->group_rows;
    share.rows = call->rows - share.row0;
    if (share.rows > shape->group_rows)
        share.rows = shape->group_rows;
    share.unit0 = share.member << shape->unit_shift;
    share.warp = (int)threadIdx.x / LANES;
    share.lane = (int)threadIdx.x % LANES;
    share.down = share.warp % shape->down;
    share.across = share.warp / shape->down;
    return share;
}

extern __shared__ uint4 shared[];

WORD float *floats(int at)
{
    return (float *)shared + at;
}

/* A block's pairs of batch row and unit, units fastest, go to its threads in turn: a thread always
 * has the same unit. */
WORD int unit_of_thread(const struct eco_resident_call *call)
{
    return (int)threadIdx.x & ((1 << call->shape.unit_shift) - 1);
}

/* ---- R --------------------------------------------------------------------------------------- */

/* Of two rows, 8 apart, what two matrix instructions read. */
struct fragment {
    uint4 low, high;
};

WORD unsigned pair_of(operand_bits low, operand_bits high)
{
    return low | (unsigned)high << 16;
}

/* Eight neighbours of a row as operands, zeros beyond its end; `even`: rows begin at multiples of
 * 16 bytes. */
WORD uint4 operands_of(const narrow *row, int k, int width, bool even)
{
    operand_bits bits[8];
    if (even && k + 8 <= width) {
        const uint4 *from = (const uint4 *)(row + k);
#if defined(ECO_ROWS_F32)
        const uint4 a = from[0], b = from[1];
        const unsigned word[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
            bits[i] = to_operand(__uint_as_float(word[i]));
#else
        return *from; /* operands are of the type of rows */
#endif
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            bits[i] = k + i < width ? to_operand(to_real(row[k + i])) : (operand_bits)0;
    }
    return make_uint4(pair_of(bits[0], bits[1]), pair_of(bits[2], bits[3]),
                      pair_of(bits[4], bits[5]), pair_of(bits[6], bits[7]));
}

/* d += the tile's rows times 8 rows of the batch, in two sums that do not wait for each other. */
WORD void multiply_item(float even[4], float odd[4], const struct fragment *r, uint4 b)
{
    multiply_add(even, r->low.x, r->high.x, r->low.y, r->high.y, b.x, b.y);
    multiply_add(odd, r->low.z, r->high.z, r->low.w, r->high.w, b.z, b.w);
}

/* Reads what is wanted (a bit for each) of pieces a round of warps apart. */
template <int N>
static __device__ __forceinline__ void ask(const uint4 *from, unsigned wanted, uint4 v[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (wanted >> i & 1)
            v[i] = read_shared_by_all(from + i * WARPS * LANES);
}

/* Asks again until all of it is there; what never came is NaN, and makes NaN of everything after
 * it. */
template <int N>
static __device__ __forceinline__ void read_all(const struct eco_resident_call *call,
                                                struct patience *patience, const uint4 *from,
                                                unsigned wanted, uint4 v[N])
{
    for (;;) {
        bool all = true;
#pragma unroll
        for (int i = 0; i < N; i++)
            all &= !(wanted >> i & 1) || whole(v[i]);
        if (all || !wait_more(patience, call))
            return;
        ask<N>(from, wanted, v);
    }
}

/* A row of the list of kernels (kernels.h), RESIDENT_KERNEL being the template. */
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {cell,                                                                                         \
     {(const void *)RESIDENT_KERNEL<cell, 3>, (const void *)RESIDENT_KERNEL<cell, 4>,              \
      (const void *)RESIDENT_KERNEL<cell, 5>, (const void *)RESIDENT_KERNEL<cell, 6>}},
