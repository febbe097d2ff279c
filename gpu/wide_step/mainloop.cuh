/*
 * Both products of a block of a wide step. A separate thread issues copies of stages of k, with
 * batch rows and rows of the matrices; warpgroups multiply the stages as they arrive. The input
 * comes first, because what preceding kernels write is read only after they have ended.
 */
#ifndef ECO_GPU_WIDE_STEP_MAINLOOP_CUH
#define ECO_GPU_WIDE_STEP_MAINLOOP_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/arch/tensor_copy.cuh"
#include "gpu/arch/wgmma_rows.cuh"
#include "gpu/cell/templates.cuh"
#include "gpu/wide_step/args.h"

/* ---- a block --------------------------------------------------------------------------------- */

template <int SHAPE> struct wide_shape;
#define WIDE_SHAPE(number, down_, across_, tiles_, units_, stages_, blocks_, cluster_)             \
    template <> struct wide_shape<number> {                                                        \
        enum {                                                                                     \
            down = down_,                                                                          \
            across = across_,                                                                      \
            tiles = tiles_,                                                                        \
            units = units_,                                                                        \
            stages = stages_,                                                                      \
            blocks = blocks_,                                                                      \
            cluster = cluster_                                                                     \
        };                                                                                         \
    };
ECO_WIDE_LIST(WIDE_SHAPE)
#undef WIDE_SHAPE

template <int NUMBER, int SHAPE, bool SAVES> struct wide_block {
    typedef wide_shape<SHAPE> shape;
    typedef cell_traits<NUMBER> cell;
    enum {
        accs = cell::accs,
        states = cell::states,
        saves = SAVES ? cell::saves : 0,
        made = cell::saves, /* by the cell's text; saved or not */
        down = shape::down,
        tiles = shape::tiles,
        across = shape::across,
        stages = shape::cluster > 1 ? shape::stages / 2 : shape::stages, /* at least */
        cluster = shape::cluster,
        clustered = cluster > 1,
        adds = clustered,                           /* to sums in memory, if there are any */
        units = shape::units * ECO_WIDE_MORE(accs), /* of a warpgroup */
        rows = ECO_WIDE_M * tiles * down,
        consumers = ECO_WIDE_GROUP * down * across,
        sums = accs * units / 2, /* of a thread, in a tile */
        tile_bytes = ECO_WIDE_M * ECO_WIDE_LINE,
        rows_bytes = rows * ECO_WIDE_LINE,
        acc_bytes = units * ECO_WIDE_LINE,
        stage_bytes = rows_bytes + across * accs * acc_bytes,
        /* the first accumulator has only W, the last only R; else all have both */
        apart = cell::row(0) < 0,
        /* Two blocks of a multiprocessor leave enough registers. A single block copies with a whole
         * warpgroup, which gives its registers to those that multiply; these load states ahead. */
        alone = shape::blocks == 1,
        threads = consumers + ECO_WIDE_MORE_THREADS(shape::blocks),
        groups = units / ECO_WIDE_UNITS,
        /* as many pairs of units as a thread has rows are loaded at once: how often ahead, as
         * registers allow */
        room = !alone      ? (sums > 32 ? 1 : 2)
               : tiles > 1 ? 2
                           : 8,
        ahead = room < groups ? room : groups,
        registers_of_copies = 24,
        registers = 240
    };
};

/* Shared memory: stages, each with a barrier for arrival and one for release; biases. */
struct wide_stages {
    unsigned at;
    int count;
    uint64_t *came, *read;
    float *biases; /* [accs, units] */
};

/* The current stage, and how often all stages have been used. */
struct wide_turn {
    int stage;
    unsigned parity;
};

ECO_DEVICE void next_stage(const struct wide_stages *stages, struct wide_turn *turn)
{
    if (++turn->stage == stages->count)
        *turn = {0, turn->parity ^ 1};
}

/* ---- copies ---------------------------------------------------------------------------------- */

enum { K_OF_STAGE = ECO_WIDE_LINE / sizeof(narrow) };

/* The blocks of a cluster have the same batch rows: each copies a part of them to all. */
template <class BLOCK>
ECO_DEVICE void copy_batch_rows(const struct eco_wide_source *source,
                                const struct wide_stages *stages, int stage, int k_block)
{
    const int row0 = (int)blockIdx.y * BLOCK::rows, k = k_block * K_OF_STAGE;
    const unsigned at = stages->at + stage * BLOCK::stage_bytes;
    if constexpr (BLOCK::clustered) {
        enum { rows = BLOCK::rows / BLOCK::cluster };
        const unsigned first = cluster_rank() * rows;
        tensor_copy_to_cluster(at + first * ECO_WIDE_LINE, &source->rows, k, row0 + (int)first,
                               &stages->came[stage], BLOCK::cluster);
    } else {
        tensor_copy(at, &source->rows, k, row0, &stages->came[stage]);
    }
}

/* Expects a stage, and copies rows of the matrix. */
template <class BLOCK>
ECO_DEVICE void copy_matrix(const struct eco_wide_source *source, const struct wide_stages *stages,
                            int stage, int k_block)
{
    const int unit0 = (int)blockIdx.x * BLOCK::across * BLOCK::units, k = k_block * K_OF_STAGE;
    const unsigned at = stages->at + stage * BLOCK::stage_bytes;
    uint64_t *const came = &stages->came[stage];
    mbarrier_expect_bytes(came,
                          BLOCK::rows_bytes + BLOCK::across * source->count * BLOCK::acc_bytes);
    const uint64_t policy = k_block % ECO_WIDE_PERIOD < source->kept ? l2_keeps() : l2_drops();
    for (int w = 0; w < BLOCK::across; w++)
        for (int a = 0; a < source->count; a++) {
            const unsigned to =
                at + BLOCK::rows_bytes + (w * BLOCK::accs + source->first + a) * BLOCK::acc_bytes;
            const int row = a * source->column + unit0 + w * BLOCK::units;
            if constexpr (BLOCK::clustered)
                tensor_copy_by(policy, to, &source->matrix, k, row, came);
            else
                tensor_copy(to, &source->matrix, k, row, came);
        }
}

/* The next kernel may become resident once all predecessors of this one have ended, and can rely on
 * that before it waits itself. */
ECO_DEVICE void wait_for_kernels_ahead(void)
{
    wait_on_dependent_grids();
    launch_dependent_grids();
}

template <class BLOCK>
ECO_DEVICE void copy_sources(const struct eco_wide_call &call, const struct wide_stages *stages)
{
    struct wide_turn to = {0, 0};
    bool waited = false;
    for (int s = 0; s < ECO_WIDE_SOURCES; s++) {
        const struct eco_wide_source *const source = &call.source[s];
        /* without an input, all stages get their part of the matrix before the wait */
        const int ahead = BLOCK::clustered && s > 0 && call.source[0].k_blocks == 0
                              ? min(source->k_blocks, stages->count)
                              : 0;
        for (int k_block = 0; k_block < ahead; k_block++)
            copy_matrix<BLOCK>(source, stages, k_block, k_block);
        for (int k_block = 0; k_block < source->k_blocks; k_block++) {
            mbarrier_wait(&stages->read[to.stage], to.parity ^ 1);
            if (!waited && !source->early) {
                wait_for_kernels_ahead();
                waited = true;
            }
            if (k_block >= ahead)
                copy_matrix<BLOCK>(source, stages, to.stage, k_block);
            copy_batch_rows<BLOCK>(source, stages, to.stage, k_block);
            next_stage(stages, &to);
        }
    }
    if (!waited)
        wait_for_kernels_ahead();
}

/* ---- products -------------------------------------------------------------------------------- */

/* The operands of a warpgroup in a stage. */
struct wide_operands {
    int rows, matrix; /* bytes from its start */
};

template <class BLOCK> ECO_DEVICE struct wide_operands operands_of_warpgroup(int warpgroup)
{
    const int of_rows = warpgroup % BLOCK::down, of_units = warpgroup / BLOCK::down;
    return {of_rows * BLOCK::tiles * BLOCK::tile_bytes,
            BLOCK::rows_bytes + of_units * BLOCK::accs * BLOCK::acc_bytes};
}

/* All blocks that write to a stage of this block must know that it has been read. */
template <class BLOCK> ECO_DEVICE void leave_stage(const struct wide_stages *stages, int stage)
{
    if constexpr (BLOCK::clustered) {
        if (threadIdx.x % 32 < BLOCK::cluster)
            mbarrier_arrive(&stages->read[stage], threadIdx.x % 32);
    } else if (threadIdx.x % 32 == 0) {
        mbarrier_arrive_here(&stages->read[stage]);
    }
}

/* Some consecutive accumulators. */
template <class BLOCK, int FIRST, int COUNT>
ECO_DEVICE void multiply_accs(float (&d)[BLOCK::sums], uint64_t a, uint64_t b)
{
    wgmma_rows(wgmma_rows_of_b<COUNT * BLOCK::units>{}, d + FIRST * BLOCK::units / 2, a,
               b + (FIRST * BLOCK::acc_bytes >> 4));
}

/* Over 32 bytes of k. If the first accumulator has only W and the last only R, one instruction has
 * one of these and another has the rest. */
template <class BLOCK, int SOURCE>
ECO_DEVICE void multiply_k(float (&d)[BLOCK::sums], uint64_t a, uint64_t b)
{
    enum { accs = BLOCK::accs };
    if constexpr (!BLOCK::apart) {
        multiply_accs<BLOCK, 0, accs>(d, a, b);
    } else {
        multiply_accs<BLOCK, SOURCE == 0 ? 0 : accs - 1, 1>(d, a, b);
        multiply_accs<BLOCK, 1, accs - 2>(d, a, b);
    }
}

/* On return the last product may still run. */
template <class BLOCK, int SOURCE>
ECO_DEVICE void multiply_source(int k_blocks, const struct wide_stages *stages,
                                struct wide_operands from_stage, struct wide_turn *from,
                                float (&d)[BLOCK::tiles][BLOCK::sums])
{
    int before = 0;
#pragma unroll 1
    for (int k_block = 0; k_block < k_blocks; k_block++) {
        mbarrier_wait(&stages->came[from->stage], from->parity);
        const unsigned at = stages->at + from->stage * BLOCK::stage_bytes;
        const uint64_t a = wgmma_describe(at + from_stage.rows),
                       b = wgmma_describe(at + from_stage.matrix);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int t = 0; t < BLOCK::tiles; t++)
                multiply_k<BLOCK, SOURCE>(d[t], a + t * (BLOCK::tile_bytes >> 4) + k * WGMMA_NEXT_K,
                                          b + k * WGMMA_NEXT_K);
        wgmma_commit();
        if (k_block > 0) {
            wgmma_wait<1>();
            leave_stage<BLOCK>(stages, before);
        }
        before = from->stage;
        next_stage(stages, from);
    }
}

template <class BLOCK> ECO_DEVICE void wait_for_sums(float (&d)[BLOCK::tiles][BLOCK::sums])
{
#pragma unroll
    for (int t = 0; t < BLOCK::tiles; t++)
        wgmma_wait_for_sums<0>(d[t]);
}

#endif /* ECO_GPU_WIDE_STEP_MAINLOOP_CUH */
