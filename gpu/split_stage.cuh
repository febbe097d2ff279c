/*
 * Stages of shared memory of a product of split operands, filled by copies and multiplied in turn.
 */
enum {
    TILE = ECO_SPLIT_TILE,   /* rows of C that a block computes at a time; and columns, or fewer */
    DEPTH = ECO_SPLIT_DEPTH, /* k of a stage: a piece of each operand */
    CONSUMERS = 256,         /* threads that multiply: each half has half of the rows */
    THREADS = CONSUMERS + 128, /* of the others, as many as give up registers, one copies */
    CONSUMER_REGISTERS = 232,
    COPYING_REGISTERS = 40,
    PIECE_BYTES = ECO_SPLIT_PIECE_BYTES,
    PLANE_BYTES = ECO_SPLIT_PLANE_BYTES,
    STAGES_BYTES = 200 << 10,
    ALIGNMENT = 1024,
    SHARED_BYTES = STAGES_BYTES + ALIGNMENT,
    MOST_STAGES = 5
};

/* With a tile of so many columns: those rows of B only are copied. */
template <int columns> struct wide {
    static constexpr int plane_bytes = columns * LINE_BYTES;
    static constexpr int stage_bytes = PIECE_BYTES + 2 * plane_bytes;
    static constexpr int stages = STAGES_BYTES / stage_bytes;
    static constexpr int held = TILE * columns / CONSUMERS; /* sums of a thread */
    static_assert(stages <= MOST_STAGES, "barriers for all");
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

/* By one thread; a stage is empty when the warps of so many blocks have multiplied it. */
template <int columns> WORD void open_stages(barriers *b, int blocks)
{
    for (int i = 0; i < wide<columns>::stages; i++) {
        open_barrier(&b->full[i], 1);
        open_barrier(&b->empty[i], blocks * CONSUMERS / 32);
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
template <int n> WORD void multiply_stage(float (&d)[n], unsigned a, unsigned b, unsigned plane)
{
    begin_products();
    add_terms(d, describe(a + PLANE_BYTES), describe(b), 0);
    add_terms(d, describe(a), describe(b + plane), 1);
    add_terms(d, describe(a), describe(b), 1);
    commit_products();
}

/* What a thread that multiplies knows: stages that come, one of them under way. */
template <int columns> struct consumer {
    typedef wide<columns> kind;
    unsigned shared;
    barriers *b;
    unsigned first, blocks; /* those that fill a stage when this one is done with it */
    int32_t next;           /* stage */

    __device__ __forceinline__ int begin(float (&d)[kind::held])
    {
        const slot<kind::stages> slot(next++);
        const unsigned at = shared + slot.stage * kind::stage_bytes;
        wait_for(&b->full[slot.stage], slot.parity);
        multiply_stage(d, at + threadIdx.x / 128 * (TILE / 2 * LINE_BYTES), at + PIECE_BYTES,
                       kind::plane_bytes);
        return slot.stage;
    }

    /* Adds the sums of a stage, so many more of which are under way; then it may be filled again.
     */
    template <int begun>
    __device__ __forceinline__ void end(int stage, float (&d)[kind::held],
                                        float (&sum)[kind::held]) const
    {
        end_products<begun>(d);
        if (threadIdx.x % 32 < blocks)
            arrive(&b->empty[stage], first + threadIdx.x % 32);
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
