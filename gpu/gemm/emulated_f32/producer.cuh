/*
 * How the stages of a step's product are filled: one thread issues copies of R, for as many stages
 * as there are before the states are known; the states are copied, too, or split by some warps.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_PRODUCER_CUH
#define ECO_GPU_GEMM_EMULATED_F32_PRODUCER_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/emulated_f32/pipeline.cuh"
#include "gpu/gemm/emulated_f32/splitting_producer.cuh"

/* ---- R --------------------------------------------------------------------------------------- */

/* What all threads that fill stages know. */
template <class kind> struct filler {
    const eco_emulated_call &call;
    slice s;
    unsigned shared;
    barriers *b;
    int32_t row, column; /* first of the tile */

    __device__ __forceinline__ unsigned stage_at(int32_t i) const
    {
        return shared + slot<kind::stages>(i).stage * kind::stage_bytes;
    }

    __device__ __forceinline__ uint64_t *full(int32_t i) const
    {
        return &b->full[slot<kind::stages>(i).stage];
    }

    /* Called by one thread: copies the planes of the k tiles with these rows. */
    __device__ __forceinline__ void copy_planes(const eco_emulated_operand &o, int32_t first,
                                                int32_t i, unsigned to, unsigned bytes) const
    {
        const char *from =
            k_tile_of<kind>(o, s.all, first / TILE, s.stage_of(i)) + first % TILE * LINE_BYTES;
#pragma unroll
        for (int plane = 0; plane < kind::planes; plane++)
            bulk_copy(to + plane * bytes, from + plane * PLANE_BYTES, bytes, full(i));
    }

    /* Called by one thread once the stage is empty. */
    __device__ __forceinline__ void copy_r(int32_t i) const
    {
        mbarrier_expect_bytes(full(i),
                              kind::splits ? kind::planes * kind::a_bytes : kind::stage_bytes);
        copy_planes(call.a, row, i, stage_at(i), kind::a_bytes);
    }
};

/* ---- the states ------------------------------------------------------------------------------ */

template <class kind> ECO_DEVICE unsigned states_at(const filler<kind> &f, int32_t i)
{
    return f.stage_at(i) + kind::planes * kind::a_bytes;
}

/* Called by one thread; copies prepared states. */
template <class kind> ECO_DEVICE void copy_states(const filler<kind> &f, int32_t ahead)
{
    for (int32_t i = 0; i < f.s.stages; i++) {
        if (i >= ahead) {
            wait_for_room(f.b, slot<kind::stages>(i));
            f.copy_r(i);
        }
        f.copy_planes(f.call.b, f.column, i, states_at(f, i), kind::b_bytes);
    }
}

/* One of the threads of each row arrives when the row is stored. */
template <class kind, bool whole>
ECO_DEVICE void split_states(const filler<kind> &f, int32_t ahead, bool copies)
{
    extern __shared__ char anywhere[];
    const auto me = splitter_of<kind, whole>(f.call.b, f.s, f.column);
    __align__(16) float x[AHEAD][splitter<kind, whole>::held][GROUP];
#pragma unroll
    for (int j = 0; j < AHEAD - 1; j++)
        me.load(j, x[j]);
    for (int32_t first = 0; first < f.s.stages; first += AHEAD)
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int32_t i = first + j;
            const slot<kind::stages> slot(i);
            if (i >= f.s.stages)
                break;
            me.load(i + AHEAD - 1, x[(j + AHEAD - 1) % AHEAD]);
            wait_for_room(f.b, slot);
            if (copies && i >= ahead)
                f.copy_r(i);
            __syncwarp();
            me.keep(anywhere + (states_at(f, i) - shared_address(anywhere)),
                    (float *)scales_of<kind>(f.shared, slot.stage), x[j]);
            __syncwarp();
            if (me.eighth == 0)
                mbarrier_arrive(f.full(i), cluster_rank());
        }
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Arrivals that fill a stage. */
template <class kind> ECO_DEVICE int arrivals_of(void)
{
    return 1 + (kind::splits ? kind::filling / EIGHTS_OF_ROW : 0);
}

/* Called by the warps that fill stages. */
template <class kind>
ECO_DEVICE void fill_stages(const eco_emulated_call &call, const slice &s, unsigned shared,
                            barriers *b)
{
    const filler<kind> f = {call,
                            s,
                            shared,
                            b,
                            (int32_t)(blockIdx.x / cluster_blocks()) * kind::rows,
                            (int32_t)blockIdx.y * kind::columns};
    const int32_t ahead = min(s.stages, kind::stages);
    const bool copies = threadIdx.x == kind::consumers;
    for (int32_t i = 0; copies && i < ahead; i++)
        f.copy_r(i);
    __syncwarp();
    wait_on_dependent_grids();
    launch_dependent_grids();
    if constexpr (!kind::splits) {
        if (copies)
            copy_states(f, ahead);
    } else if (is_aligned(call.b) && call.b.k % GROUP == 0) {
        split_states<kind, true>(f, ahead, copies);
    } else {
        split_states<kind, false>(f, ahead, copies);
    }
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_PRODUCER_CUH */
