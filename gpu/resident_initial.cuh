/*
 * What is multiplied in the first step: states, from where the caller or the launch before has
 * them. Then operands are what they are to be in all steps, pairs too.
 */
#if defined(ECO_OPERAND_PAIR)
#include "gpu/pair.cuh"

/* ---- R --------------------------------------------------------------------------------------- */

template <class CUT, class CHANGE>
CELL_WORD void for_fragments(const struct eco_resident_call *call, const struct share *share,
                             struct fragment r[CUT::items][TILES], CHANGE change)
{
#pragma unroll
    for (int i = 0; i < CUT::items; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            change(&r[i][t].low);
            change(&r[i][t].high);
        }
#pragma unroll 1
    for (int i = CUT::items; i < CUT::items + call->shape.part[CUT::product].kept; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                change(kept_half<CUT>(call, share, i, t, half));
}

/* ---- states ---------------------------------------------------------------------------------- */

/* All of the group's, of which this block keeps what it gathers. */
WORD float gather_raw(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const float *state = (const float *)(job->starts ? job->given[0] : job->state[0]);
    const uint32_t row_step = job->starts ? (uint32_t)call->hidden : call->state_row[0];
    const int items = (call->hidden + ITEM - 1) / ITEM, tiles = memory->row_tiles;
    float most = 1;
#pragma unroll 4
    for (int i = share->warp; i < items * tiles; i += WARPS) {
        const int n = i % tiles * ECO_RESIDENT_N + share->lane / 4;
        const int k = i / tiles * ITEM + share->lane % 4 * PIECE;
        const int there = state && n < share->rows ? call->hidden - k : 0;
        const float *const from = state + element_at(share->row0 + n, row_step, k);
        float v[PIECE];
#pragma unroll
        for (int j = 0; j < PIECE; j++) {
            v[j] = j < there ? from[j] : 0;
            enlarge(&most, v[j]);
        }
        const int piece = i - share->item0 * tiles;
        if (piece >= 0 && piece < memory->gathered)
            shared[memory->operand + piece * LANES + share->lane] =
                make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                           __float_as_uint(v[3]));
    }
    return most;
}

/* ---- both ------------------------------------------------------------------------------------ */

static __shared__ float greatest[2][WARPS];

WORD float greatest_of_block(int which)
{
    float most = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        enlarge(&most, greatest[which][w]);
    return most;
}

/* What threads found, [R, states], becomes that of the block. */
WORD void agree(const struct share *share, float most[2])
{
#pragma unroll
    for (int which = 0; which < 2; which++) {
        for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
            enlarge(&most[which], __shfl_xor_sync(0xffffffffu, most[which], lanes));
        if (share->lane == 0)
            greatest[which][share->warp] = most[which];
    }
    __syncthreads();
    most[0] = greatest_of_block(0);
    most[1] = greatest_of_block(1);
}

/* R is of up to two products: `second` may be `first`. */
template <class FIRST, class SECOND>
CELL_WORD void begin_operands(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory,
                              struct fragment first[FIRST::items][TILES],
                              struct fragment second[SECOND::items][TILES], struct scales *scales)
{
    enum { TWO = (int)FIRST::product != (int)SECOND::product };
    float most[2] = {0, gather_raw(call, share, memory)};
    const auto look = [&](const uint4 *v) { enlarge(&most[0], *v); };
    for_fragments<FIRST>(call, share, first, look);
    if (TWO)
        for_fragments<SECOND>(call, share, second, look);
    agree(share, most);
    const float of_r = scale_for(most[0]);
    scales->state = scale_for(most[1]);
    scales->sums = 1 / of_r * (1 / scales->state);
    const auto pair = [&](uint4 *v) { *v = pairs_of(*v, of_r); };
    for_fragments<FIRST>(call, share, first, pair);
    if (TWO)
        for_fragments<SECOND>(call, share, second, pair);
    for (int i = share->warp; i < memory->gathered; i += WARPS) {
        uint4 *const at = &shared[memory->operand + i * LANES + share->lane];
        *at = pairs_of(*at, scales->state);
    }
}
#else
template <class FIRST, class SECOND>
CELL_WORD void begin_operands(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory,
                              struct fragment first[FIRST::items][TILES],
                              struct fragment second[SECOND::items][TILES], struct scales *scales)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const narrow *state = (const narrow *)(job->starts ? job->given[0] : job->state[0]);
    const uint32_t row_step = job->starts ? (uint32_t)call->hidden : call->state_row[0];
    const int width = state ? call->hidden : 0;
#pragma unroll 1
    for (int i = share->warp; i < memory->gathered; i += WARPS) {
        const int n = i % memory->row_tiles * ECO_RESIDENT_N + share->lane / 4;
        const int k = (share->item0 + i / memory->row_tiles) * ITEM + share->lane % 4 * PIECE;
        const narrow *row = state + element_at(share->row0 + n, row_step, 0);
        shared[memory->operand + i * LANES + share->lane] =
            some_operands_of(row + k, n < share->rows ? width - k : 0);
    }
}
#endif
