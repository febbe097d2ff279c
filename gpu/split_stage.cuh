/*
 * Stages of shared memory of a product of split operands, filled and multiplied in turn.
 */
enum {
    TILE = ECO_SPLIT_TILE,
    DEPTH = ECO_SPLIT_DEPTH, /* k of a stage: a piece of each operand */
    FOUR_WARPS = 128,        /* threads that multiply 64 rows */
    PIECE_BYTES = ECO_SPLIT_PIECE_BYTES,
    PLANE_BYTES = ECO_SPLIT_PLANE_BYTES,
    STAGES_BYTES = 216 << 10,
    SCALES_BYTES = 2 << 10,
    ALIGNMENT = 1024,
    SHARED_BYTES = STAGES_BYTES + SCALES_BYTES + ALIGNMENT,
    MOST_STAGES = 9
};

/* Of a block whose tile of C has so many rows, 64 or twice that, and columns; scales: each column
 * of a stage has one, and its sums are multiplied by them before they are added. */
template <int rows_, int columns_, bool scales_> struct block_of {
    static constexpr int rows = rows_, columns = columns_;
    static constexpr bool scales = scales_;
    static constexpr int consumers = rows / 64 * FOUR_WARPS;             /* threads that multiply */
    static constexpr int filling = scales ? 2 * FOUR_WARPS : FOUR_WARPS; /* that fill stages */
    static constexpr int threads = consumers + filling;
    static constexpr int held = columns / 2; /* sums of a thread */
    static constexpr int a_bytes = rows * LINE_BYTES, b_bytes = columns * LINE_BYTES; /* planes */
    static constexpr int stage_bytes = 2 * (a_bytes + b_bytes);
    static constexpr int stages = STAGES_BYTES / stage_bytes;
    static_assert(stages <= MOST_STAGES, "barriers for all");
    static_assert(!scales || stages * columns * 4 <= SCALES_BYTES, "scales of all");
};

/* Stage number i of all that a block goes through: where it lies, and the parity of the phase in
 * which it is filled. */
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
};

/* By one thread; a stage is full when so many warps have filled it, and empty when the warps of so
 * many blocks have multiplied it. */
template <class kind> WORD void open_stages(barriers *b, int filling, int blocks)
{
    for (int i = 0; i < kind::stages; i++) {
        open_barrier(&b->full[i], filling);
        open_barrier(&b->empty[i], blocks * kind::consumers / 32);
    }
    show_barriers();
}

/* Before stage i is filled again. */
template <int stages> WORD void wait_for_room(barriers *b, const slot<stages> &slot)
{
    wait_for(&b->empty[slot.stage], slot.parity ^ 1);
}

WORD unsigned aligned(const void *room)
{
    return (address_of(room) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

WORD const char *piece_of(const eco_split_operand &o, int32_t steps, int32_t tile, int32_t step)
{
    return o.pieces + ((size_t)tile * steps + step) * PIECE_BYTES;
}

template <int n> WORD void add_terms(float (&d)[n], uint64_t a, uint64_t b, int add)
{
#pragma unroll
    for (int i = 0; i < DEPTH / 16; i++)
        multiply_squares(d, a + (i * NEXT_K >> 4), b + (i * NEXT_K >> 4), add || i > 0);
}

/* Begins to; the small ones first: the sum is cut off where it is small. */
template <class kind> WORD void multiply_stage(float (&d)[kind::held], unsigned a, unsigned b)
{
    begin_products();
    add_terms(d, describe(a + kind::a_bytes), describe(b), 0);
    add_terms(d, describe(a), describe(b + kind::b_bytes), 1);
    add_terms(d, describe(a), describe(b), 1);
    commit_products();
}

/* [stages, columns / 2] behind the stages */
template <class kind> WORD float2 *scales_of(unsigned shared, int stage)
{
    extern __shared__ char room[];
    char *const stages = room + (shared - address_of(room));
    return (float2 *)(stages + kind::stages * kind::stage_bytes) + stage * (kind::columns / 2);
}

/* What a thread that multiplies knows: stages that come, one of them under way. */
template <class kind> struct consumer {
    unsigned shared;
    barriers *b;
    unsigned first, blocks; /* those that fill a stage when this one is done with it */
    int32_t next;           /* stage */

    __device__ __forceinline__ int begin(float (&d)[kind::held])
    {
        const slot<kind::stages> slot(next++);
        const unsigned at = shared + slot.stage * kind::stage_bytes;
        wait_for(&b->full[slot.stage], slot.parity);
        multiply_stage<kind>(d, at + threadIdx.x / FOUR_WARPS * (64 * LINE_BYTES),
                             at + 2 * kind::a_bytes);
        return slot.stage;
    }

    /* Of a stage: a thread's columns, two of each eight. */
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

    /* Adds the sums of a stage, so many more of which are under way; then it may be filled again.
     */
    template <int begun>
    __device__ __forceinline__ void end(int stage, float (&d)[kind::held],
                                        float (&sum)[kind::held]) const
    {
        end_products<begun>(d);
        if constexpr (kind::scales) {
            add_scaled(stage, d, sum);
            __syncwarp();
        }
        if (threadIdx.x % 32 < blocks)
            arrive(&b->empty[stage], first + threadIdx.x % 32);
        if constexpr (!kind::scales)
#pragma unroll
            for (int i = 0; i < kind::held; i++)
                sum[i] += d[i];
    }

    /* Those of a tile: one is begun before the sums of the other are added. */
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
};
