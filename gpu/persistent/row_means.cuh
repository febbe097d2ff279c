/*
 * Means over the units of a row, in a step of a persistent kernel.  A cell that has them is text in
 * stages: a stage stores values, and stages after it read the means of these.  Between two stages
 * each block adds up the values of its units, sends that to the others, and adds up what all sent,
 * always in the same order.
 *
 * A mean that is a polynomial in another one comes with it (common/cell/means.c).  With that one
 * a block sends for its units the sums of the value and of its derivative, both where the other
 * mean is that of these units: numbers that are as small as what is left of them in the end.
 *
 * A sum is a float, in words that are not yet written as those of the exchange are (exchange.cuh);
 * they lie there behind what products gather.
 */
#ifndef ECO_GPU_PERSISTENT_ROW_MEANS_CUH
#define ECO_GPU_PERSISTENT_ROW_MEANS_CUH

#include "gpu/persistent/exchange.cuh"
#include "gpu/persistent/jets.cuh"
#include "gpu/persistent/sums.cuh"

/* What the compiler of cells says of means: how many there are; the stage that has each, with which
 * other one it comes, or -1, and the coefficient of that one's square.  Sums of a stage, and its
 * items, lie in the order of its means: an item is a mean that comes with another, and that one, or
 * a mean alone. */
struct means_of {
    enum { stages = CELLS_STAGES, means = CELLS_MEANS, room = means > 0 ? means : 1 };
    static __device__ constexpr int stage(int m)
    {
        constexpr int of[] = {CELLS_MEAN_STAGES};
        return of[m];
    }
    static __device__ constexpr int with(int m)
    {
        constexpr int of[] = {CELLS_MEAN_WITH};
        return of[m];
    }
    static __device__ constexpr float curve(int m)
    {
        constexpr double of[] = {CELLS_MEAN_CURVES};
        return (float)of[m];
    }
    /* Of a mean: the first of its sums. */
    static __device__ constexpr int sum(int mean)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            if (stage(m) < stage(mean) || (stage(m) == stage(mean) && m < mean))
                n += with(m) < 0 ? 1 : 2;
        return n;
    }
    static __device__ constexpr int sums(void)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += with(m) < 0 ? 1 : 2;
        return n;
    }
    static __device__ constexpr bool is_item(int mean)
    {
        bool alone = true;
        for (int m = 0; m < means; m++)
            alone = alone && with(m) != mean;
        return with(mean) >= 0 || alone;
    }
    static __device__ constexpr int items(int of_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) == of_stage && is_item(m);
        return n;
    }
    static __device__ constexpr int item(int of_stage, int k)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            if (stage(m) == of_stage && is_item(m) && n++ == k)
                return m;
        return 0;
    }
    static __device__ constexpr bool joins(int of_stage)
    {
        bool any = false;
        for (int m = 0; m < means; m++)
            any = any || (stage(m) == of_stage && with(m) >= 0);
        return any;
    }
};

/* One unit of one row: what its stages store for means, and the means of its row. */
template <class CELL> struct normed_element : element_of<CELL> {
    float summand[means_of::room], slope[means_of::room], mean[means_of::room];
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* saved values, by this stage */
};

template <class CELL> ECO_DEVICE void store_mean(struct normed_element<CELL> *at, int m, vec v)
{
    at->summand[m] = v;
}
template <class CELL> ECO_DEVICE vec load_mean(struct normed_element<CELL> *at, int m)
{
    return at->mean[m];
}

/* The same for a stage that runs ahead, next to means of the block's own units. */
template <class CELL> struct element_ahead {
    struct normed_element<CELL> *at;
    float mean[means_of::room];
    int stage;
};

template <class CELL> ECO_DEVICE vec load_acc(struct element_ahead<CELL> *ahead, int i)
{
    return load_acc(ahead->at, i);
}
template <class CELL> ECO_DEVICE vec load_state(struct element_ahead<CELL> *ahead, int s)
{
    return load_state(ahead->at, s);
}
template <class CELL> ECO_DEVICE vec load_vector(struct element_ahead<CELL> *ahead, int k)
{
    return load_vector(ahead->at, k);
}
template <class CELL>
ECO_DEVICE vec v_bernoulli(struct element_ahead<CELL> *ahead, int which, double probability)
{
    return v_bernoulli(ahead->at, which, probability);
}
template <class CELL> ECO_DEVICE struct jet load_mean(struct element_ahead<CELL> *ahead, int m)
{
    const bool own = means_of::stage(m) == ahead->stage && means_of::with(m) < 0;
    return jet(own ? ahead->mean[m] : ahead->at->mean[m], own ? 1 : 0);
}
template <class CELL>
ECO_DEVICE void store_mean(struct element_ahead<CELL> *ahead, int m, struct jet v)
{
    ahead->at->summand[m] = v.x;
    ahead->at->slope[m] = v.d;
}
template <class CELL> ECO_DEVICE void store_save(struct element_ahead<CELL> *ahead, int i, jet v)
{
}

#define CELLS_CASE(k, name) name(at);
#define CELLS_CASES(way)                                                                           \
    if constexpr (STAGE == 0) {                                                                    \
        CELLS_##way##_0(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 1) {                                                             \
        CELLS_##way##_1(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 2) {                                                             \
        CELLS_##way##_2(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 3) {                                                             \
        CELLS_##way##_3(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 4) {                                                             \
        CELLS_##way##_4(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 5) {                                                             \
        CELLS_##way##_5(CELLS_CASE)                                                                \
    } else if constexpr (STAGE == 6) {                                                             \
        CELLS_##way##_6(CELLS_CASE)                                                                \
    } else {                                                                                       \
        CELLS_##way##_7(CELLS_CASE)                                                                \
    }
template <int STAGE, class ELEMENT> ECO_DEVICE void run_text(ELEMENT *at)
{
    CELLS_CASES(STAGE)
}
template <int STAGE, class ELEMENT> ECO_DEVICE void run_ahead(ELEMENT *at)
{
    CELLS_CASES(AHEAD)
}
#undef CELLS_CASES
#undef CELLS_CASE

/* ---- sums of a block ------------------------------------------------------------------------- */

/* Of a group in a step: [sums, rows, parts], parts in whole vectors of four.  A block has a part
 * for each warp's width of units. */
template <class DIVISION> struct sums_of_blocks {
    enum {
        UNITS = 1 << DIVISION::shift,
        LANES = UNITS < WARP ? UNITS : WARP, /* that have units of one row, of a part */
        OF_BLOCK = UNITS / LANES
    };
    int parts, vectors, rows;

    __device__ __forceinline__ sums_of_blocks(const struct eco_persistent_call *call,
                                              const struct memory *memory)
    {
        parts = call->shape.members * OF_BLOCK;
        vectors = (parts + 3) / 4;
        rows = memory->row_tiles * ECO_PERSISTENT_N;
    }

    /* Of 16 bytes. */
    __device__ __forceinline__ int pieces(void) const
    {
        return means_of::sums() * rows * vectors;
    }

    /* Units of a part, of which there may be none. */
    __device__ __forceinline__ float units(const struct eco_persistent_call *call, int part) const
    {
        return (float)max(min(call->hidden - part * LANES, (int)LANES), 0);
    }
};

/* Of units; of none it is 0. */
ECO_DEVICE float mean_of_part(float sum, float units)
{
    return sum / fmaxf(units, 1);
}

/* In the step at hand. */
template <class DIVISION>
ECO_DEVICE unsigned *sent_sums(const struct eco_persistent_call *call, const struct memory *memory,
                               const struct thread *thread)
{
    return (unsigned *)((const uint4 *)thread->sent + sent_of<DIVISION>(call, memory));
}

/* Of 16 bytes, all that a group exchanges in a step. */
template <class DIVISION>
ECO_DEVICE int64_t exchanged_of(const struct eco_persistent_call *call, const struct memory *memory)
{
    return sent_of<DIVISION>(call, memory) + sums_of_blocks<DIVISION>(call, memory).pieces();
}

/* After a step: the next one's part of the exchange. */
template <class DIVISION>
ECO_DEVICE void advance_with_means(const struct eco_persistent_call *call,
                                   const struct memory *memory, struct thread *thread, int step)
{
    const int64_t all = call->shape.groups * exchanged_of<DIVISION>(call, memory);
    thread->sent += all * PIECE;
    if (step > 0)
        thread->received += all;
}

/* Of all lanes that have units of a row, in a fixed order; a NaN becomes that of additions. */
template <int LANES> ECO_DEVICE float sum_of_lanes(float x)
{
#pragma unroll
    for (int lanes = 1; lanes < LANES; lanes *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* Of row n, by all lanes that have units of it: what they have stored in this stage. */
template <int STAGE, class DIVISION, class CELL>
ECO_DEVICE void send_sums(const struct eco_persistent_call *call, const struct block *block,
                          const struct memory *memory, const struct thread *thread, int n,
                          struct normed_element<CELL> *at)
{
    typedef sums_of_blocks<DIVISION> sums;
    const sums all(call, memory);
    const int u = (int)threadIdx.x & (sums::UNITS - 1),
              part = block->member * sums::OF_BLOCK + u / WARP, apart = all.rows * all.vectors * 4;
    unsigned *const to = sent_sums<DIVISION>(call, memory, thread) + n * all.vectors * 4 + part;
    const auto send = [&](int sum, float x) {
        store_relaxed_if(n < all.rows && u % sums::LANES == sum % sums::LANES, to + sum * apart,
                         __float_as_uint(x));
    };
    struct element_ahead<CELL> ahead = {
        at, {}, STAGE
    };
#pragma unroll
    for (int m = 0; m < means_of::means; m++)
        if (means_of::stage(m) == STAGE && means_of::with(m) < 0) {
            const float sum = sum_of_lanes<sums::LANES>(at->there ? at->summand[m] : 0);
            send(means_of::sum(m), sum);
            ahead.mean[m] = mean_of_part(sum, all.units(call, part));
        }
    if constexpr (means_of::joins(STAGE)) {
        run_ahead<STAGE>(&ahead);
#pragma unroll
        for (int m = 0; m < means_of::means; m++)
            if (means_of::stage(m) == STAGE && means_of::with(m) >= 0) {
                const int sum = means_of::sum(m);
                send(sum, sum_of_lanes<sums::LANES>(at->there ? at->summand[m] : 0));
                send(sum + 1, sum_of_lanes<sums::LANES>(at->there ? at->slope[m] : 0));
            }
    }
}

/* ---- means of a row -------------------------------------------------------------------------- */

/* A word of all ones that somebody will write; `parts` of the four are there. */
ECO_DEVICE bool misses_sum(uint4 v, int parts)
{
    return (parts > 0 && v.x == ~0u) | (parts > 1 && v.y == ~0u) | (parts > 2 && v.z == ~0u) |
           (parts > 3 && v.w == ~0u);
}

ECO_DEVICE float part_in(uint4 v, int i)
{
    return __uint_as_float(i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w);
}

/* What some lanes together add up: a mean and one that comes with it, of a row. */
struct mean_item {
    int mean, with, row, sum, sum_with;
    float curve;
    bool there, joined;
};

template <int STAGE> ECO_DEVICE struct mean_item mean_item_of(int rows, int i)
{
    enum { ITEMS = means_of::items(STAGE) };
    const int k = i / rows;
    struct mean_item item = {0, 0, i - k * rows, 0, 0, 0, k < ITEMS, false};
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        if (j == k) {
            const int m = means_of::item(STAGE, j);
            item.joined = means_of::with(m) >= 0;
            item.with = m;
            item.mean = item.joined ? means_of::with(m) : m;
            item.sum = means_of::sum(item.joined ? means_of::with(m) : m);
            item.sum_with = means_of::sum(m);
            item.curve = means_of::curve(m);
        }
    return item;
}

/* Of `lanes` lanes. */
ECO_DEVICE float sum_of_some_lanes(float x, int lanes)
{
#pragma unroll
    for (int i = 1; i < WARP; i *= 2)
        if (i < lanes)
            x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

/* Means of a stage to shared memory, [means, rows] from `means` on, for all threads. */
template <int STAGE, class DIVISION>
ECO_DEVICE void gather_means(const struct eco_persistent_call *call, const struct block *block,
                             const struct memory *memory, struct spin_timeout *spin_timeout,
                             const struct thread *thread, int means)
{
    enum { FEW_LANES = 8, AT_ONCE = 2, JOINS = means_of::joins(STAGE), EACH = JOINS ? 3 : 1 };
    const sums_of_blocks<DIVISION> sums(call, memory);
    const int lanes = sums.vectors <= FEW_LANES ? (int)FEW_LANES : WARP,
              round = PERSISTENT_THREADS / lanes, lane = block->lane % lanes,
              own = (int)threadIdx.x / lanes, parts = sums.parts - 4 * lane,
              apart = sums.rows * sums.vectors;
    const float hidden = (float)call->hidden;
    const uint4 *const from = (const uint4 *)sent_sums<DIVISION>(call, memory, thread) + lane;
#pragma unroll 1
    for (int first = own; first - own < means_of::items(STAGE) * sums.rows;
         first += AT_ONCE * round) {
        struct mean_item item[AT_ONCE];
        uint4 v[AT_ONCE][EACH];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            item[i] = mean_item_of<STAGE>(sums.rows, first + i * round);
        for (bool missing = true; missing;) {
            missing = false;
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const bool there = item[i].there && parts > 0, joined = there && item[i].joined;
                const uint4 *const at = from + item[i].row * sums.vectors;
                v[i][0] = load_16_relaxed_if(there, at + item[i].sum * apart);
                if constexpr (JOINS) {
                    v[i][1] = load_16_relaxed_if(joined, at + item[i].sum_with * apart);
                    v[i][2] = load_16_relaxed_if(joined, at + (item[i].sum_with + 1) * apart);
                }
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    missing |= misses_sum(v[i][k], parts);
            missing = !warp_agrees(!missing || !keep_waiting(spin_timeout, call));
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float sum = 0;
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum += k < parts ? part_in(v[i][0], k) : 0;
            const float mean = sum_of_some_lanes(sum, lanes) / hidden;
            const bool writes = lane == 0 && item[i].there;
            if (writes)
                *floats(means + item[i].mean * sums.rows + item[i].row) = mean;
            if constexpr (JOINS) {
                float more = 0;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float units = sums.units(call, 4 * lane + k),
                                t = mean - mean_of_part(part_in(v[i][0], k), units);
                    const float of_part =
                        part_in(v[i][1], k) + t * (part_in(v[i][2], k) + item[i].curve * units * t);
                    more += k < parts ? of_part : 0;
                }
                more = sum_of_some_lanes(more, lanes) / hidden;
                if (writes && item[i].joined)
                    *floats(means + item[i].with * sums.rows + item[i].row) = more;
            }
        }
    }
    __syncthreads();
}

/* Of row n, those that stages before this one have stored. */
template <int STAGE, class CELL>
ECO_DEVICE void read_means(const struct memory *memory, int means, int n,
                           struct normed_element<CELL> *at)
{
    const int rows = memory->row_tiles * ECO_PERSISTENT_N, row = n < rows ? n : rows - 1;
#pragma unroll
    for (int m = 0; m < means_of::means; m++)
        if (means_of::stage(m) < STAGE)
            at->mean[m] = *floats(means + m * rows + row);
}

/* ---- the stages of a step -------------------------------------------------------------------- */

/* Where a step is, for all of its stages. */
struct norming {
    const struct eco_persistent_call *call;
    const struct block *block;
    const struct memory *memory;
    struct spin_timeout *spin_timeout;
    const struct thread *thread;
    int means; /* in shared memory */
    bool idle; /* no row reads what the others send */
};

/* One stage of `P` elements of this thread, from batch row n on: text, sums, and what else. */
template <class CELL, class DIVISION, int STAGE, int P, class FINISH>
ECO_DEVICE void run_elements(const struct norming *norming, int n, int round,
                             struct normed_element<CELL> at[P], FINISH finish)
{
#pragma unroll
    for (int p = 0; p < P; p++) {
        read_means<STAGE>(norming->memory, norming->means, n + p * DIVISION::element_rows, &at[p]);
        run_text<STAGE>(&at[p]);
    }
    if constexpr (STAGE + 1 < means_of::stages)
#pragma unroll
        for (int p = 0; p < P; p++)
            send_sums<STAGE, DIVISION>(norming->call, norming->block, norming->memory,
                                       norming->thread, n + p * DIVISION::element_rows, &at[p]);
    finish(count<STAGE>(), count<P>(), n, round, at);
}

template <int STAGE, class DIVISION> ECO_DEVICE void end_stage(const struct norming *norming)
{
    if (!norming->idle)
        gather_means<STAGE, DIVISION>(norming->call, norming->block, norming->memory,
                                      norming->spin_timeout, norming->thread, norming->means);
}

/* Stages from STAGE on, each of all elements; these are read anew for each. */
template <class CELL, class DIVISION, int STAGE, class READ, class FINISH>
ECO_DEVICE void run_stages(const struct norming *norming, READ read, FINISH finish)
{
    for_elements<DIVISION>(norming->memory, norming->thread, [&](auto elements, int n, int round) {
        enum { P = decltype(elements)::value };
        struct normed_element<CELL> at[P];
#pragma unroll
        for (int p = 0; p < P; p++)
            read(count<STAGE>(), n + p * DIVISION::element_rows, round + p, &at[p]);
        run_elements<CELL, DIVISION, STAGE, P>(norming, n, round, at, finish);
    });
    if constexpr (STAGE + 1 < means_of::stages) {
        end_stage<STAGE, DIVISION>(norming);
        run_stages<CELL, DIVISION, STAGE + 1>(norming, read, finish);
    }
}

/* The same of a thread's only element, which keeps what it has. */
template <class CELL, class DIVISION, int STAGE, class FINISH>
ECO_DEVICE void run_kept(const struct norming *norming, struct normed_element<CELL> at[1],
                         FINISH finish)
{
    run_elements<CELL, DIVISION, STAGE, 1>(norming, norming->thread->n, 0, at, finish);
    if constexpr (STAGE + 1 < means_of::stages) {
        end_stage<STAGE, DIVISION>(norming);
        run_kept<CELL, DIVISION, STAGE + 1>(norming, at, finish);
    }
}

/* All stages of a step; KEPT: threads have one element each, at most.  Calls read(stage, n, round,
 * element) for what the text finds at an element of this thread in batch row n, some rounds of all
 * threads on, and finish(stage, count, n, round, elements) behind each stage's text. */
template <class CELL, class DIVISION, bool KEPT, class READ, class FINISH>
ECO_DEVICE void run_all_stages(const struct norming *norming, READ read, FINISH finish)
{
    if constexpr (KEPT || DIVISION::reads_early) {
        struct normed_element<CELL> at[1];
        read(count<0>(), norming->thread->n, 0, &at[0]);
        run_kept<CELL, DIVISION, 0>(norming, at, finish);
    } else {
        run_stages<CELL, DIVISION, 0>(norming, read, finish);
    }
}

#endif /* ECO_GPU_PERSISTENT_ROW_MEANS_CUH */
