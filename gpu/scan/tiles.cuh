/*
 * What threads and tiles of a scan pass on: factors and terms of states over some steps.
 */
#ifndef ECO_GPU_SCAN_TILES_CUH
#define ECO_GPU_SCAN_TILES_CUH

#include "gpu/arch/whole_word.cuh"
#include "gpu/scan/position.cuh"

ECO_DEVICE constexpr bool is_linear(int s)
{
    return SCAN_LINEAR >> s & 1;
}

/* ---- from tile to tile ----------------------------------------------------------------------- */

struct scan_shared {
    vec factor[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_WIDE][32];
    vec term[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_WIDE][32];
    union {
        uint32_t ticket; /* all have read it before new states arrive */
        vec start[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_WIDE][32];
    };
};
/* The limit of a kernel that does not ask for more; ECO_MAX_STATES in doubles take all of it. */
static_assert(sizeof(struct scan_shared) <= 48 << 10, "shared memory of a scan");

/* A number that a tile passes on. Each 4 bytes of it and the number of the tile that reads them are
 * one word of 8 bytes, which arrives whole. So a tile neither waits until other tiles can see its
 * numbers nor reads twice. */
enum { SCAN_WORDS = sizeof(vec) / sizeof(uint32_t) };
union scan_number {
    vec value;
    uint32_t word[SCAN_WORDS];
};

/* Position of word x of state s of a thread's unit w in what a tile passes on, in whole lines. */
ECO_DEVICE uint64_t *word_of(const struct eco_scan_call *call, const struct scan_position *position,
                             int s, int w, int x)
{
    const int64_t line =
        (((int64_t)position->group * SCAN_STATES + s) * ECO_SCAN_WIDE + w) * SCAN_WORDS + x;
    return call->passed + line * 32 + position->lane;
}

/* Reads the states from the previous tile; false: some are not there yet. */
ECO_DEVICE bool receives(const struct eco_scan_call *call, const struct scan_position *position,
                         vec start[SCAN_STATES][ECO_SCAN_WIDE])
{
    bool there = true;
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++) {
            union scan_number number = {0};
#pragma unroll
            for (int x = 0; x < SCAN_WORDS && is_linear(s); x++) {
                const uint64_t both = load_whole_relaxed(word_of(call, position, s, w, x));
                number.word[x] = (uint32_t)both;
                there = there && (uint32_t)(both >> 32) == (uint32_t)position->tile;
            }
            if (is_linear(s))
                start[s][w] = number.value;
        }
    return there;
}

ECO_DEVICE void send_on(const struct eco_scan_call *call, const struct scan_position *position,
                        const vec end[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++) {
            union scan_number number;
            number.value = end[s][w];
#pragma unroll
            for (int x = 0; x < SCAN_WORDS && is_linear(s); x++)
                store_whole_relaxed(word_of(call, position, s, w, x),
                                    (uint64_t)(uint32_t)(position->tile + 1) << 32 |
                                        number.word[x]);
        }
}

/* A state after some steps. The product of factors may be infinite; a state of 0 stays 0. */
ECO_DEVICE vec state_after(vec factor, vec term, vec state)
{
    return state == 0 ? term : factor * state + term;
}

/* Computes what each warp receives from what the block receives; called by one warp. What follows
 * the last warp is passed on. */
ECO_DEVICE void start_warps(struct scan_shared *shared, int32_t lane, int s, int w, vec *state)
{
#pragma unroll
    for (int k = 0; k < ECO_SCAN_WARPS; k++) {
        shared->start[k][s][w][lane] = *state;
        *state = state_after(shared->factor[k][s][w][lane], shared->term[k][s][w][lane], *state);
    }
}

/* Called by all threads of a block with factor and term of their steps. start: on entry the states
 * before the chunk, on return those before the thread's first step. */
ECO_DEVICE void pass_on(const struct eco_scan_call *call, const struct scan_position *position,
                        struct scan_shared *shared, const vec factor[SCAN_STATES][ECO_SCAN_WIDE],
                        const vec term[SCAN_STATES][ECO_SCAN_WIDE],
                        vec start[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++) {
            shared->factor[position->warp][s][w][position->lane] = factor[s][w];
            shared->term[position->warp][s][w][position->lane] = term[s][w];
        }
    __syncthreads();
    if (position->warp == 0) {
        if (position->tile > 0)
            while (!__all_sync(0xffffffffu, receives(call, position, start)))
                __nanosleep(20);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                start_warps(shared, position->lane, s, w, &start[s][w]);
        if (position->tile + 1 < position->tiles)
            send_on(call, position, start);
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++)
            start[s][w] = shared->start[position->warp][s][w][position->lane];
}

/* Adds one more step. A factor of 0 drops everything before it, even if it is infinite. */
ECO_DEVICE void fold(vec *factor, vec *term, vec a, vec b)
{
    *term = a * *term + b;
    *factor = a == 0 ? (vec)0 : a * *factor;
}

#endif /* ECO_GPU_SCAN_TILES_CUH */
