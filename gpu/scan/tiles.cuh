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
    vec factor[SCAN_WARPS][SCAN_FACTORS][ECO_SCAN_WIDE][32];
    vec term[SCAN_WARPS][SCAN_STATES][ECO_SCAN_WIDE][32];
    union {
        uint32_t ticket; /* all have read it before new states arrive */
        vec start[SCAN_WARPS][SCAN_STATES][ECO_SCAN_WIDE][32];
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
ECO_DEVICE uint64_t *word_of(uint64_t *passed, const struct scan_position *position, int s, int w,
                             int x)
{
    const int64_t line =
        (((int64_t)position->group * SCAN_STATES + s) * ECO_SCAN_WIDE + w) * SCAN_WORDS + x;
    return passed + line * 32 + position->lane;
}

/* Reads the states from the previous tile; false: some are not there yet. */
ECO_DEVICE bool receives(uint64_t *passed, const struct scan_position *position,
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
                const uint64_t both = load_whole_relaxed(word_of(passed, position, s, w, x));
                number.word[x] = (uint32_t)both;
                there = there && (uint32_t)(both >> 32) == (uint32_t)position->tile;
            }
            if (is_linear(s))
                start[s][w] = number.value;
        }
    return there;
}

ECO_DEVICE void send_on(uint64_t *passed, const struct scan_position *position,
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
                store_whole_relaxed(word_of(passed, position, s, w, x),
                                    (uint64_t)(uint32_t)(position->tile + 1) << 32 |
                                        number.word[x]);
        }
}

/* Does a factor of 0 drop even an infinite state?  States need not depend on all others of their
 * group, and a reset drops any. */
enum { SCAN_DROPS = HAS_RESETS || SCAN_FACTORS > SCAN_STATES };

/* What some steps make of a state, added to `sum`. The product of factors may be infinite; a state
 * of 0 stays 0. */
ECO_DEVICE vec follow(vec sum, vec factor, vec state)
{
    return state == 0 || (SCAN_DROPS && factor == 0) ? sum : factor * state + sum;
}

/* Computes what each warp receives from what the block receives, of the states on which state s
 * depends; called by one warp. What follows the last warp is passed on. */
ECO_DEVICE void start_warps(struct scan_shared *shared, int32_t lane, int s, int w,
                            vec state[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < SCAN_WARPS; k++) {
        vec before[SCAN_STATES];
#pragma unroll
        for (int i = 0; i < SCAN_STATES; i++)
            if (is_coupled(s, i))
                shared->start[k][i][w][lane] = before[i] = state[i][w];
#pragma unroll
        for (int i = 0; i < SCAN_STATES; i++)
            if (is_coupled(s, i))
                state[i][w] = shared->term[k][i][w][lane];
#pragma unroll
        for (int i = 0; i < SCAN_STATES; i++)
#pragma unroll
            for (int v = 0; v < SCAN_STATES; v++)
                if (is_coupled(s, i) && is_coupled(i, v))
                    state[i][w] =
                        follow(state[i][w], shared->factor[k][factor_of(i, v)][w][lane], before[v]);
    }
}

/* Called by all threads of a block with factors and terms of their steps. start: on entry the
 * states before the chunk, on return those before the thread's first step. */
ECO_DEVICE void pass_on(const struct eco_scan_call *call, const struct scan_position *position,
                        struct scan_shared *shared, const vec factor[SCAN_FACTORS][ECO_SCAN_WIDE],
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
#pragma unroll
    for (int f = SCAN_STATES; f < SCAN_FACTORS; f++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++)
            shared->factor[position->warp][f][w][position->lane] = factor[f][w];
    __syncthreads();
    if (position->warp == 0) {
        if (position->tile > 0)
            while (!__all_sync(0xffffffffu, receives(call->passed, position, start)))
                __nanosleep(20);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                if (is_first(s, s))
                    start_warps(shared, position->lane, s, w, start);
        if (position->tile + 1 < position->tiles)
            send_on(call->passed, position, start);
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++)
            start[s][w] = shared->start[position->warp][s][w][position->lane];
}

/* ---- the steps of a thread ------------------------------------------------------------------- */

/* No step: the identity, for state s of unit w. */
ECO_DEVICE void begin_fold(int s, int w, vec factor[SCAN_FACTORS][ECO_SCAN_WIDE],
                           vec term[SCAN_STATES][ECO_SCAN_WIDE])
{
    factor[s][w] = 1;
    term[s][w] = 0;
#pragma unroll
    for (int v = 0; v < SCAN_STATES; v++)
        if (v != s && is_coupled(s, v))
            factor[factor_of(s, v)][w] = 0;
}

/* A factor of 0 drops everything before it, even if it is infinite. */
ECO_DEVICE vec times(vec factor, vec factors)
{
    return factor == 0 ? (vec)0 : factor * factors;
}

/* A factor times a value of a state. */
ECO_DEVICE vec made_of(vec factor, vec value)
{
    return SCAN_FACTORS > SCAN_STATES ? times(factor, value) : factor * value;
}

/* Adds one more step of unit w, if it counts: its matrix `by` times what is there, and its terms
 * `more`. */
ECO_DEVICE void fold(bool counts, int w, const vec by[SCAN_FACTORS], const vec more[SCAN_STATES],
                     vec factor[SCAN_FACTORS][ECO_SCAN_WIDE], vec term[SCAN_STATES][ECO_SCAN_WIDE])
{
    vec factors[SCAN_FACTORS], terms[SCAN_STATES];
#pragma unroll
    for (int f = 0; f < SCAN_FACTORS; f++)
        factors[f] = factor[f][w];
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        terms[s] = term[s][w];
#pragma unroll
    for (int i = 0; i < SCAN_STATES * SCAN_STATES; i++) {
        const int s = i / SCAN_STATES, v = i % SCAN_STATES;
        if (!is_linear(s) || !is_coupled(s, v))
            continue;
        term[s][w] =
            made_of(by[factor_of(s, v)], terms[v]) + (is_first(s, v) ? more[s] : term[s][w]);
        vec sum = 0;
#pragma unroll
        for (int u = 0; u < SCAN_STATES; u++)
            if (is_coupled(s, u)) {
                const vec one = times(by[factor_of(s, u)], factors[factor_of(u, v)]);
                sum = is_first(s, u) ? one : sum + one;
            }
        factor[factor_of(s, v)][w] = counts ? sum : factors[factor_of(s, v)];
    }
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        term[s][w] = counts ? term[s][w] : terms[s];
}

/* Adds a reset to `start`. */
ECO_DEVICE void fold_reset(int w, const vec start[SCAN_STATES],
                           vec factor[SCAN_FACTORS][ECO_SCAN_WIDE],
                           vec term[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int f = 0; f < SCAN_FACTORS; f++)
        factor[f][w] = 0;
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        term[s][w] = start[s];
}

#endif /* ECO_GPU_SCAN_TILES_CUH */
