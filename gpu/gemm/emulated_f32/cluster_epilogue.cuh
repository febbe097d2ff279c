/*
 * The end of a step's product: the blocks of a cluster exchange their sums of a tile, and each adds
 * those of some columns and updates C. The sums pass through shared memory, so that C is read and
 * written in whole lines.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_CLUSTER_EPILOGUE_CUH
#define ECO_GPU_GEMM_EMULATED_F32_CLUSTER_EPILOGUE_CUH

#include "gpu/arch/bulk_copy.cuh"
#include "gpu/arch/memory.cuh"
#include "gpu/gemm/emulated_f32/nonfinite.cuh"

/* Sums of a tile in shared memory, [columns][rows + padding]: no bank conflicts by rows or
 * columns. */
template <class kind> struct tile_sums {
    enum {
        LINE = kind::rows + 4,
        QUADS = kind::rows / 4,            /* of a column */
        AT_ONCE = kind::consumers / QUADS, /* columns that all threads take */
        HELD = kind::columns / AT_ONCE,    /* most quads of a thread */
        BYTES = LINE * (int)sizeof(float), /* of a column */
    };
    float *tile, *others; /* the block's sums; other blocks' sums for its columns */
    uint64_t *barrier;    /* counts what arrives from other blocks */
    unsigned rank, blocks;

    /* First column of a block. */
    __device__ __forceinline__ unsigned first_of(unsigned block) const
    {
        return kind::columns * block / blocks;
    }

    __device__ __forceinline__ unsigned columns_of(unsigned block) const
    {
        return first_of(block + 1) - first_of(block);
    }

    __device__ __forceinline__ float *of(unsigned block) const
    {
        return others + block * columns_of(rank) * LINE;
    }

    __device__ __forceinline__ unsigned bytes_to_come(void) const
    {
        return (blocks - 1) * columns_of(rank) * BYTES;
    }

    /* Stores the sums of a thread's matrix instructions. */
    __device__ __forceinline__ void put(const float (&sum)[kind::held]) const
    {
        const unsigned thread = threadIdx.x, row = thread / 32 * 16 + thread % 32 / 4;
        float *const at = tile + thread % 4 * 2 * LINE + row;
#pragma unroll
        for (unsigned i = 0; i < kind::held; i++)
            at[(i / 4 * 8 + i % 2) * LINE + i / 2 % 2 * 8] = sum[i];
    }

    /* Called by one thread: sends each other block its columns. */
    __device__ __forceinline__ void send(void) const
    {
        for (unsigned block = 0; block < blocks; block++)
            if (block != rank)
                bulk_copy_to_block(others + rank * columns_of(block) * LINE,
                                   tile + first_of(block) * LINE, block, columns_of(block) * BYTES,
                                   barrier);
    }

    /* The sum of a quad of a column over all blocks, in their order. */
    __device__ __forceinline__ float4 sum_of(unsigned column, unsigned quad) const
    {
        float4 sum = make_float4(0, 0, 0, 0);
        for (unsigned block = 0; block < blocks; block++) {
            const float *from = block == rank ? tile + first_of(rank) * LINE : of(block);
            const float4 y = *(const float4 *)(from + column * LINE + 4 * quad);
            sum.x += y.x;
            sum.y += y.y;
            sum.z += y.z;
            sum.w += y.w;
        }
        return sum;
    }
};

template <class kind> ECO_DEVICE tile_sums<kind> tile_sums_of(char *room, uint64_t *barrier)
{
    float *const tile = (float *)room;
    return {tile, tile + kind::columns * tile_sums<kind>::LINE, barrier, cluster_rank(),
            cluster_blocks()};
}

/* ---- C --------------------------------------------------------------------------------------- */

/* What a thread reads and writes of C: quads of some columns. */
template <class kind> struct tile_writer {
    typedef tile_sums<kind> layout;
    const eco_emulated_call &call;
    const layout &sum;
    int32_t row;               /* first row of the quad */
    unsigned quad, first;      /* first column of the thread */
    bool whole;                /* the quad is complete and aligned to 16 bytes */
    float4 old[layout::HELD];  /* of C */
    float scale[layout::HELD]; /* of columns of prepared floats */

    __device__ __forceinline__ unsigned column_of(int i) const
    {
        return first + (unsigned)i * layout::AT_ONCE;
    }

    /* Column of C. */
    __device__ __forceinline__ int32_t n_of(int i) const
    {
        return (int32_t)(blockIdx.y * kind::columns + sum.first_of(sum.rank) + column_of(i));
    }

    __device__ __forceinline__ bool has(int i) const
    {
        return column_of(i) < sum.columns_of(sum.rank) && n_of(i) < call.b.rows;
    }

    __device__ __forceinline__ float *position(int i) const
    {
        return call.c + (size_t)n_of(i) * call.c_row + row;
    }

    /* Issues all loads at once. */
    __device__ __forceinline__ void read(void)
    {
        if constexpr (!kind::splits)
#pragma unroll
            for (int i = 0; i < layout::HELD; i++)
                scale[i] = has(i) ? call.b.scales[n_of(i)] : 1;
#pragma unroll
        for (int i = 0; i < layout::HELD; i++) {
            const float *const from = position(i);
            *(uint4 *)&old[i] = load_16_if(whole && call.add && has(i), from);
        }
        if (!whole && call.add)
#pragma unroll
            for (int i = 0; i < layout::HELD; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (is_there(i, j))
                        (&old[i].x)[j] = position(i)[j];
    }

    __device__ __forceinline__ bool is_there(int i, int j) const
    {
        return has(i) && row + j < call.a.rows;
    }

    /* A sum that is not finite has such terms, or terms beyond 1e30. */
    __device__ __forceinline__ void unscale(float4 &y, const float4 &s, int i) const
    {
        bool nonfinite[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float &x = (&y.x)[j];
            nonfinite[j] = is_nonfinite(fabsf(x)) && is_there(i, j);
            x = !kind::splits ? divided(x, (&s.x)[j], scale[i]) : x * reciprocal_pow2((&s.x)[j]);
        }
        if (__any_sync(~0u, nonfinite[0] || nonfinite[1] || nonfinite[2] || nonfinite[3]))
#pragma unroll
            for (int j = 0; j < 4; j++)
                (&y.x)[j] = replaced(call, nonfinite[j], row + j, n_of(i), (&y.x)[j]);
    }

    __device__ __forceinline__ void write(void) const
    {
        float4 s = make_float4(1, 1, 1, 1);
        if (row < call.a.rows) /* whole tiles have scales */
            s = *(const float4 *)(call.a.scales + row);
#pragma unroll
        for (int i = 0; i < layout::HELD; i++) {
            if (i * layout::AT_ONCE >= sum.columns_of(sum.rank))
                return;
            float4 y = has(i) ? sum.sum_of(column_of(i), quad) : make_float4(0, 0, 0, 0);
            unscale(y, s, i);
            y = make_float4(old[i].x + y.x, old[i].y + y.y, old[i].z + y.z, old[i].w + y.w);
            if (has(i) && whole)
                *(float4 *)position(i) = y;
            else
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (is_there(i, j))
                        position(i)[j] = (&y.x)[j];
        }
    }
};

template <class kind>
ECO_DEVICE tile_writer<kind> tile_writer_of(const eco_emulated_call &call,
                                            const tile_sums<kind> &sum)
{
    const unsigned quad = threadIdx.x % tile_sums<kind>::QUADS, tile = blockIdx.x / sum.blocks;
    const int32_t row = (int32_t)(tile * kind::rows + 4 * quad);
    const bool aligned = ((uintptr_t)call.c | call.c_row * sizeof(float)) % 16 == 0;
    return {call,
            sum,
            row,
            quad,
            threadIdx.x / tile_sums<kind>::QUADS,
            aligned && row + 4 <= call.a.rows,
            {},
            {}};
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_CLUSTER_EPILOGUE_CUH */
