/*
 * Stages of shared memory for products of split operands, filled and multiplied in turn. A stage
 * has a k tile of each operand. Example with 4 stages: while warps multiply stage 2, copies fill
 * stages 3, 0 and 1.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_PIPELINE_CUH
#define ECO_GPU_GEMM_EMULATED_F32_PIPELINE_CUH

#include "gpu/arch/bulk_copy.cuh"
#include "gpu/arch/wgmma.cuh"
#include "gpu/gemm/emulated_f32/operand.cuh"

/*
 * Operands are in consecutive lines of 64 numbers of a row (128 bytes); the 16-byte group g is at g
 * ^ line % 8. A descriptor has the address and the distance of 8 lines.
 */
enum {
    LINE_BYTES = 128,
    EIGHT_LINES = 1024,
    NEXT_K = 32 /* bytes from one instruction's k to the next */
};

ECO_DEVICE uint64_t describe(unsigned address)
{
    return (uint64_t)(address >> 4) | UINT64_C(1) << 16 | (uint64_t)(EIGHT_LINES >> 4) << 32 |
           UINT64_C(1) << 62;
}

enum {
    FOUR_WARPS = 128, /* threads that multiply 64 rows */
    K_TILE_BYTES = ECO_EMULATED_K_TILE_BYTES,
    PLANE_BYTES = ECO_EMULATED_PLANE_BYTES,
    STAGES_BYTES = 216 << 10,
    SCALES_BYTES = 2 << 10,
    ALIGNMENT = 1024,
    SHARED_BYTES = STAGES_BYTES + SCALES_BYTES + ALIGNMENT,
    MOST_STAGES = 16
};

/* A block whose tile of C has `rows_` rows (64 or 128) and `columns_` columns. splits: some warps
 * load and split B, and each column of a stage has a scale, by which its sums are multiplied before
 * they are added; otherwise B is copied as prepared. */
template <eco_emulated_form form, int rows_, int columns_, bool splits_> struct block_shape {
    static constexpr int rows = rows_, columns = columns_;
    static constexpr bool pairs = form == ECO_EMULATED_PAIRS, splits = splits_;
    static_assert(pairs || !splits, "single numbers are prepared");
    static constexpr int consumers = rows / 64 * FOUR_WARPS; /* threads that multiply */
    static constexpr int filling =
        splits ? 2 * FOUR_WARPS : FOUR_WARPS; /* threads that fill stages */
    static constexpr int threads = consumers + filling;
    static constexpr int held = columns / 2; /* sums of a thread */
    static constexpr int planes = pairs ? 2 : 1, a_bytes = rows * LINE_BYTES,
                         b_bytes = columns * LINE_BYTES; /* of a plane */
    static constexpr int stage_bytes = planes * (a_bytes + b_bytes),
                         fitting = STAGES_BYTES / stage_bytes,
                         stages = fitting < MOST_STAGES ? fitting : MOST_STAGES;
    static_assert(!splits || stages * columns * 4 <= SCALES_BYTES, "scales of all");
};

/* Stage number i of all that a block goes through: its slot, and the parity of its phase. */
template <int stages> struct slot {
    int stage;
    unsigned parity;
    __device__ __forceinline__ explicit slot(int32_t i)
        : stage(i % stages), parity((unsigned)(i / stages) & 1)
    {
    }
};

struct barriers {
    uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    uint64_t sums; /* sums of other blocks have arrived */
};

/* Called by one thread. A stage is full when `filling` threads have arrived, and empty when the
 * warps of `blocks` blocks have multiplied it. */
template <class kind> ECO_DEVICE void open_stages(barriers *b, int filling, int blocks)
{
    for (int i = 0; i < kind::stages; i++) {
        mbarrier_init(&b->full[i], filling);
        mbarrier_init(&b->empty[i], blocks * kind::consumers / 32);
    }
    mbarrier_fence_init();
}

/* Waits until stage i may be filled again. */
template <int stages> ECO_DEVICE void wait_for_room(barriers *b, const slot<stages> &slot)
{
    mbarrier_wait(&b->empty[slot.stage], slot.parity ^ 1);
}

ECO_DEVICE unsigned aligned(const void *room)
{
    return (shared_address(room) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

template <class kind>
ECO_DEVICE const char *k_tile_of(const eco_emulated_operand &o, int32_t steps, int32_t tile,
                                 int32_t step)
{
    return o.k_tiles + ((size_t)tile * steps + step) * (kind::planes * PLANE_BYTES);
}

template <class kind>
ECO_DEVICE void add_terms(float (&d)[kind::held], uint64_t a, uint64_t b, int add)
{
#pragma unroll
    for (int i = 0; i < DEPTH / 16; i++)
        wgmma_f16(d, a + (i * NEXT_K >> 4), b + (i * NEXT_K >> 4), add || i > 0);
}

/* Begins to multiply a stage, small numbers first, so that truncation is relative to small sums. */
template <class kind>
ECO_DEVICE void multiply_stage(float (&d)[kind::held], unsigned a, unsigned b, int add)
{
    wgmma_fence();
    if constexpr (kind::pairs) {
        add_terms<kind>(d, describe(a + kind::a_bytes), describe(b), add);
        add_terms<kind>(d, describe(a), describe(b + kind::b_bytes), 1);
    }
    add_terms<kind>(d, describe(a), describe(b), kind::pairs || add);
    wgmma_commit();
}

/* [stages, columns / 2] after the stages */
template <class kind> ECO_DEVICE float2 *scales_of(unsigned shared, int stage)
{
    extern __shared__ char room[];
    char *const stages = room + (shared - shared_address(room));
    return (float2 *)(stages + kind::stages * kind::stage_bytes) + stage * (kind::columns / 2);
}

/* A thread that multiplies: its next stages, one of which is in flight. */
template <class kind> struct consumer {
    unsigned shared;
    barriers *b;
    unsigned first, blocks; /* blocks that may refill a stage once this one has released it */
    int32_t next;           /* stage */

    __device__ __forceinline__ int begin(float (&d)[kind::held], int add = 0)
    {
        const slot<kind::stages> slot(next++);
        const unsigned at = shared + slot.stage * kind::stage_bytes;
        mbarrier_wait(&b->full[slot.stage], slot.parity);
        if constexpr (kind::splits)
            fence_proxy_async(); /* the splitting warps would wait here for what they read ahead */
        multiply_stage<kind>(d, at + threadIdx.x / FOUR_WARPS * (64 * LINE_BYTES),
                             at + kind::planes * kind::a_bytes, add);
        return slot.stage;
    }

    /* Adds a stage: two of each eight columns of a thread. */
    __device__ __forceinline__ void add_scaled(int stage, const float (&d)[kind::held],
                                               float (&sum)[kind::held]) const
    {
        const float2 *scales = scales_of<kind>(shared, stage) + threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < kind::held; i += 4) {
            const float2 scale = scales[i];
            sum[i] = __fmaf_rn(d[i], scale.x, sum[i]);
            sum[i + 1] = __fmaf_rn(d[i + 1], scale.y, sum[i + 1]);
            sum[i + 2] = __fmaf_rn(d[i + 2], scale.x, sum[i + 2]);
            sum[i + 3] = __fmaf_rn(d[i + 3], scale.y, sum[i + 3]);
        }
    }

    /* Releases the stage. */
    __device__ __forceinline__ void leave(int stage) const
    {
        if (threadIdx.x % 32 < blocks)
            mbarrier_arrive(&b->empty[stage], first + threadIdx.x % 32);
    }

    /* Adds the sums of a stage, with `begun` more in flight. */
    template <int begun>
    __device__ __forceinline__ void end(int stage, float (&d)[kind::held],
                                        float (&sum)[kind::held]) const
    {
        wgmma_wait_for_sums<begun>(d);
        if constexpr (kind::splits) {
            add_scaled(stage, d, sum);
            __syncwarp();
        }
        leave(stage);
        if constexpr (!kind::splits)
#pragma unroll
            for (int i = 0; i < kind::held; i++)
                sum[i] += d[i];
    }

    /* All stages of a tile: the next is begun before the sums of one are added. */
    __device__ __forceinline__ void add(int32_t stages, float (&sum)[kind::held])
    {
        float d[kind::held], e[kind::held];
        int of_d = begin(d), of_e;
        for (; stages > 2; stages -= 2) {
            of_e = begin(e);
            end<1>(of_d, d, sum);
            of_d = begin(d);
            end<1>(of_e, e, sum);
        }
        if (stages == 2) {
            of_e = begin(e);
            end<1>(of_d, d, sum);
            end<0>(of_e, e, sum);
        } else {
            end<0>(of_d, d, sum);
        }
    }

    /* The same with sums added by the instructions themselves; for single numbers, this is accurate
     * enough. */
    __device__ __forceinline__ void add_in_place(int32_t stages, float (&sum)[kind::held])
    {
        int before = begin(sum);
        for (int32_t i = 1; i < stages; i++) {
            const int stage = begin(sum, 1);
            wgmma_wait<1>();
            leave(before);
            before = stage;
        }
        wgmma_wait_for_sums<0>(sum);
        leave(before);
    }
};

#endif /* ECO_GPU_GEMM_EMULATED_F32_PIPELINE_CUH */
