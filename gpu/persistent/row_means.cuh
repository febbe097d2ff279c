/*
 * Means over the units of a row, in a step of a persistent kernel.  A cell that has them is text in
 * stages: a stage stores values, and stages after it read the means of these.  Between two stages
 * each block adds up the values of its units, sends that to the others, and adds up what all sent,
 * always in the same order.
 *
 * A mean that is a polynomial in another one comes with it (common/cell/means.c).  With that one
 * a block sends for its units the sums of the polynomial and of its derivative where the other mean
 * would be c, the value of the first of these units, and c.  From the mean c is no farther than
 * what the variance has of that unit alone, so what cancels is not large.
 *
 * A sum is a float, in words that are not yet written as those of the exchange are (exchange.cuh);
 * they lie there behind what products gather.
 */
#ifndef ECO_GPU_PERSISTENT_ROW_MEANS_CUH
#define ECO_GPU_PERSISTENT_ROW_MEANS_CUH

#include "gpu/persistent/exchange.cuh"
#include "gpu/persistent/jets.cuh"
#include "gpu/persistent/sums.cuh"

/* What is said of no cell has no means. */
#ifndef CELLS_STAGES
#define CELLS_STAGES      1
#define CELLS_MEANS       0
#define CELLS_MEAN_STAGES 0
#define CELLS_MEAN_WITH   -1
#define CELLS_MEAN_CURVES 0
#define CELLS_STAGE_0(CALL)
#define CELLS_STAGE_1(CALL)
#define CELLS_STAGE_2(CALL)
#define CELLS_STAGE_3(CALL)
#define CELLS_STAGE_4(CALL)
#define CELLS_STAGE_5(CALL)
#define CELLS_STAGE_6(CALL)
#define CELLS_STAGE_7(CALL)
#define CELLS_AHEAD_0(CALL)
#define CELLS_AHEAD_1(CALL)
#define CELLS_AHEAD_2(CALL)
#define CELLS_AHEAD_3(CALL)
#define CELLS_AHEAD_4(CALL)
#define CELLS_AHEAD_5(CALL)
#define CELLS_AHEAD_6(CALL)
#define CELLS_AHEAD_7(CALL)
#endif

/* What the compiler of cells says of means: how many there are; the stage that has each, with which
 * other one it comes, or -1, and the coefficient of that one's square. */
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
    /* Does another one come with it? */
    static __device__ constexpr bool leads(int mean)
    {
        bool any = false;
        for (int m = 0; m < means; m++)
            any = any || with(m) == mean;
        return any;
    }
    static __device__ constexpr bool joins(int of_stage)
    {
        bool any = false;
        for (int m = 0; m < means; m++)
            any = any || (stage(m) == of_stage && with(m) >= 0);
        return any;
    }

    /* What a block sends of a row, stage by stage: sums, one of a mean, or two of one that comes
     * with another, in the order of means; and behind them each c. */
    static __device__ constexpr int sums(int of_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) != of_stage ? 0 : with(m) < 0 ? 1 : 2;
        return n;
    }
    static __device__ constexpr int sent(int before_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) >= before_stage ? 0 : with(m) >= 0 || leads(m) ? 2 : 1;
        return n;
    }
    static __device__ constexpr int sum(int mean)
    {
        int n = 0;
        for (int m = 0; m < mean; m++)
            n += stage(m) != stage(mean) ? 0 : with(m) < 0 ? 1 : 2;
        return n;
    }
    static __device__ constexpr int center(int mean)
    {
        int n = sums(stage(mean));
        for (int m = 0; m < mean; m++)
            n += stage(m) == stage(mean) && leads(m);
        return n;
    }

    /* Items of a stage: a mean that comes with another, and that one, or a mean alone. */
    static __device__ constexpr int items(int of_stage)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            n += stage(m) == of_stage && !leads(m);
        return n;
    }
    static __device__ constexpr int item(int of_stage, int k)
    {
        int n = 0;
        for (int m = 0; m < means; m++)
            if (stage(m) == of_stage && !leads(m) && n++ == k)
                return m;
        return 0;
    }
};

/* Calls what(count<M>()) for each number from M up to END: known when the kernel is compiled. */
template <int M, int END, class WHAT> ECO_DEVICE void for_each_of(WHAT what)
{
    if constexpr (M < END) {
        what(count<M>());
        for_each_of<M + 1, END>(what);
    }
}

/* One unit of one row: what its stages store for means, and the means of its row. */
template <class CELL> struct normed_element : element_of<CELL> {
    float summand[means_of::room], slope[means_of::room], mean[means_of::room];
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* saved values, by this stage */
#if PERSISTENT_BACKWARD
    narrow dvector[ECO_MAX_WRITTEN];
    bool has_dvector[ECO_MAX_WRITTEN]; /* of this stage */
#endif
};

template <class CELL> ECO_DEVICE void store_mean(struct normed_element<CELL> *at, int m, vec v)
{
    at->summand[m] = v;
}
/* Blocks exchange sums amid a stage, behind which vectors would be loaded again. */
template <class CELL> ECO_DEVICE vec load_vector(struct normed_element<CELL> *at, int k)
{
    const real *const vector = (const real *)at->job->vector + at->unit;
    const uint64_t bytes = (uint64_t)(uint32_t)at->call->hidden * (uint32_t)(k * sizeof *vector);
    return load_constant((const float *)((const char *)vector + bytes));
}
template <class CELL, int M>
ECO_DEVICE vec load_mean_of(struct normed_element<CELL> *at, struct count<M>)
{
    return at->mean[M];
}

/* The same for what runs ahead of stage STAGE's end, with c for the means of that stage. */
template <class CELL, int STAGE> struct element_ahead {
    struct normed_element<CELL> *at;
    float center[means_of::room];
};

template <class CELL, int STAGE>
ECO_DEVICE vec load_acc(struct element_ahead<CELL, STAGE> *a, int i)
{
    return load_acc(a->at, i);
}
template <class CELL, int STAGE>
ECO_DEVICE vec load_state(struct element_ahead<CELL, STAGE> *a, int s)
{
    return load_state(a->at, s);
}
template <class CELL, int STAGE>
ECO_DEVICE vec load_vector(struct element_ahead<CELL, STAGE> *a, int k)
{
    return load_vector(a->at, k);
}
template <class CELL, int STAGE>
ECO_DEVICE vec v_bernoulli(struct element_ahead<CELL, STAGE> *a, int which, double probability)
{
    return v_bernoulli(a->at, which, probability);
}
template <class CELL, int STAGE, int M>
ECO_DEVICE auto load_mean_of(struct element_ahead<CELL, STAGE> *a, struct count<M>)
{
    if constexpr (means_of::stage(M) == STAGE && means_of::with(M) < 0)
        return jet{a->center[M], 1};
    else
        return a->at->mean[M];
}
template <class CELL, int STAGE>
ECO_DEVICE void store_mean(struct element_ahead<CELL, STAGE> *a, int m, jet v)
{
    a->at->summand[m] = v.x;
    a->at->slope[m] = v.d;
}
template <class CELL, int STAGE, class VALUE>
ECO_DEVICE void store_save(struct element_ahead<CELL, STAGE> *a, int i, VALUE v)
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
        OF_BLOCK = UNITS / LANES,
        SENT = means_of::sent(means_of::stages)
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
        return SENT * rows * vectors;
    }

    /* Units of a part, of which there may be none. */
    __device__ __forceinline__ float units(const struct eco_persistent_call *call, int part) const
    {
        return (float)max(min(call->hidden - part * LANES, (int)LANES), 0);
    }
};

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

/* Of `N` values of LANES neighbouring lanes the sums, in a fixed order; a NaN becomes that of
 * additions.  The lanes share them out: a lane has those from `first` on, `left` of them, or
 * `copies` lanes have the same one. */
template <int N, int LANES> struct shared_sums {
    float x[N];
    int first;

    static __device__ constexpr int left(void)
    {
        return N > LANES ? N / LANES : 1;
    }
    static __device__ constexpr int copies(void)
    {
        return N < LANES ? LANES / N : 1;
    }
    /* With the lane that is APART from this one; `COUNT` values are left. */
    template <int APART, int COUNT> __device__ __forceinline__ void add_up_from(int lane)
    {
        if constexpr (APART > 0 && COUNT > 1) {
            enum { HALF = COUNT / 2 };
            const bool upper = lane & APART;
            first += upper ? (int)HALF : 0;
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                const float mine = upper ? x[HALF + i] : x[i], other = upper ? x[i] : x[HALF + i];
                x[i] = mine + __shfl_xor_sync(0xffffffffu, other, APART);
            }
            add_up_from<APART / 2, HALF>(lane);
        } else if constexpr (APART > 0) {
            x[0] += __shfl_xor_sync(0xffffffffu, x[0], APART);
            add_up_from<APART / 2, 1>(lane);
        }
    }
    __device__ __forceinline__ void add_up(int lane)
    {
        first = 0;
        add_up_from<LANES / 2, N>(lane);
    }
};

/* A power of two that is not less. */
ECO_DEVICE constexpr int whole_pow2(int n)
{
    int whole = 1;
    while (whole < n)
        whole *= 2;
    return whole;
}

/* Of row n, by all lanes that have units of it: what they have stored in this stage. */
template <int STAGE, class DIVISION, class CELL>
ECO_DEVICE void send_sums(const struct eco_persistent_call *call, const struct block *block,
                          const struct memory *memory, const struct thread *thread, int n,
                          struct normed_element<CELL> *at)
{
    typedef sums_of_blocks<DIVISION> of_blocks;
    enum { SUMS = means_of::sums(STAGE), FIRST = means_of::sent(STAGE), LANES = of_blocks::LANES };
    typedef shared_sums<whole_pow2(SUMS), LANES> shared_out;
    const of_blocks all(call, memory);
    const int u = (int)threadIdx.x & (of_blocks::UNITS - 1), lane = u % LANES,
              apart = all.rows * all.vectors * 4;
    unsigned *const to = sent_sums<DIVISION>(call, memory, thread) +
                         (FIRST * all.rows + n) * all.vectors * 4 +
                         block->member * of_blocks::OF_BLOCK + u / WARP;
    if constexpr (means_of::joins(STAGE)) {
        struct element_ahead<CELL, STAGE> ahead = {
            at,
            {
            }
        };
        for_each_of<0, means_of::means>([&](auto mean) {
            enum { M = decltype(mean)::value };
            if constexpr (means_of::stage(M) == STAGE && means_of::leads(M)) {
                enum { CENTER = means_of::center(M) };
                const float own = at->there ? at->summand[M] : 0;
                const float c = __shfl_sync(
                    0xffffffffu, own == own ? own : __int_as_float(0x7FFFFFFF), 0, LANES);
                ahead.center[M] = c;
                store_relaxed_if(n < all.rows && lane == M % LANES, to + CENTER * apart,
                                 __float_as_uint(c));
            }
        });
        run_ahead<STAGE>(&ahead);
    }
    shared_out sums = {};
    for_each_of<0, means_of::means>([&](auto mean) {
        enum { M = decltype(mean)::value };
        if constexpr (means_of::stage(M) == STAGE) {
            enum { SUM = means_of::sum(M) };
            sums.x[SUM] = at->there ? at->summand[M] : 0;
            if constexpr (means_of::with(M) >= 0)
                sums.x[SUM + 1] = at->there ? at->slope[M] : 0;
        }
    });
    sums.add_up(lane);
#pragma unroll
    for (int i = 0; i < shared_out::left(); i++)
        store_relaxed_if(n < all.rows && sums.first + i < SUMS && lane % shared_out::copies() == 0,
                         to + (sums.first + i) * apart, __float_as_uint(sums.x[i]));
}

/* ---- means of a row -------------------------------------------------------------------------- */

ECO_DEVICE float part_in(uint4 v, int i)
{
    return __uint_as_float(i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w);
}

/* What some lanes together add up: a mean and one that comes with it, of a row; what was sent of
 * them, from the stage's first on. */
struct mean_item {
    int mean, with, row, sum, center, sum_with;
    float curve;
    bool there, joined;
};

template <int STAGE> ECO_DEVICE struct mean_item mean_item_of(int rows, int i)
{
    enum { ITEMS = means_of::items(STAGE) };
    struct mean_item item = {0, 0, 0, 0, 0, 0, 0, i < ITEMS * rows, false};
    for_each_of<0, ITEMS>([&](auto number) {
        enum {
            J = decltype(number)::value,
            WITH = means_of::item(STAGE, J),
            JOINED = means_of::with(WITH) >= 0,
            MEAN = JOINED ? means_of::with(WITH) : WITH,
            SUM = means_of::sum(MEAN),
            CENTER = means_of::center(MEAN),
            SUM_WITH = means_of::sum(WITH)
        };
        if (J == 0 || i >= J * rows) {
            constexpr float curve = means_of::curve(WITH);
            item.row = i - J * rows;
            item.joined = JOINED;
            item.with = WITH;
            item.mean = MEAN;
            item.sum = SUM;
            item.center = CENTER;
            item.sum_with = SUM_WITH;
            item.curve = curve;
        }
    });
    return item;
}

/* Of `lanes` lanes, four at least. */
ECO_DEVICE float sum_of_some_lanes(float x, int lanes)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    x += __shfl_xor_sync(0xffffffffu, x, 2);
    if (lanes > 4)
        x += __shfl_xor_sync(0xffffffffu, x, 4);
    if (lanes > 8) {
        x += __shfl_xor_sync(0xffffffffu, x, 8);
        x += __shfl_xor_sync(0xffffffffu, x, 16);
    }
    return x;
}

/* The four parts that a lane reads: which are there, and of how many units. */
struct four_parts {
    bool there[4];
    float units[4];
};

template <class DIVISION>
ECO_DEVICE struct four_parts parts_of_lane(const struct eco_persistent_call *call,
                                           const sums_of_blocks<DIVISION> &sums, int lane)
{
    struct four_parts parts;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        parts.there[k] = 4 * lane + k < sums.parts;
        parts.units[k] = sums.units(call, 4 * lane + k);
    }
    return parts;
}

ECO_DEVICE float sum_of_parts(const struct four_parts &parts, const float (&x)[4])
{
    return ((parts.there[0] ? x[0] : 0) + (parts.there[1] ? x[1] : 0)) +
           ((parts.there[2] ? x[2] : 0) + (parts.there[3] ? x[3] : 0));
}

/* What the blocks sent of an item: of four of them, if there are so many. */
template <int STAGE, class DIVISION> struct received_sums {
    enum { JOINS = means_of::joins(STAGE), EACH = JOINS ? 4 : 1 };
    struct mean_item item;
    uint4 v[EACH];

    __device__ __forceinline__ void ask(const sums_of_blocks<DIVISION> &sums, const uint4 *from,
                                        bool part)
    {
        const int apart = sums.rows * sums.vectors;
        const bool there = part && item.there, joined = there && item.joined;
        const uint4 *const at = from + item.row * sums.vectors;
        v[0] = load_16_relaxed_if(there, at + item.sum * apart);
        if constexpr (JOINS) {
            v[1] = load_16_relaxed_if(joined, at + item.sum_with * apart);
            v[2] = load_16_relaxed_if(joined, at + (item.sum_with + 1) * apart);
            v[3] = load_16_relaxed_if(joined, at + item.center * apart);
        }
    }
    /* A word of all ones that somebody will write: the greatest there is. */
    __device__ __forceinline__ bool misses(const struct four_parts &parts) const
    {
        uint4 seen = v[0];
#pragma unroll
        for (int k = 1; k < EACH; k++)
            seen = make_uint4(max(seen.x, v[k].x), max(seen.y, v[k].y), max(seen.z, v[k].z),
                              max(seen.w, v[k].w));
        return (parts.there[0] && seen.x == ~0u) | (parts.there[1] && seen.y == ~0u) |
               (parts.there[2] && seen.z == ~0u) | (parts.there[3] && seen.w == ~0u);
    }
    /* The means, to shared memory. */
    __device__ __forceinline__ void add_up(const sums_of_blocks<DIVISION> &sums,
                                           const struct four_parts &parts, int lanes, int lane,
                                           float of_hidden, int means) const
    {
        const bool writes = lane == 0 && item.there;
        const float first[4] = {part_in(v[0], 0), part_in(v[0], 1), part_in(v[0], 2),
                                part_in(v[0], 3)};
        const float mean = sum_of_some_lanes(sum_of_parts(parts, first), lanes) * of_hidden;
        if (writes)
            *floats(means + item.mean * sums.rows + item.row) = mean;
        if constexpr (JOINS) {
            float more[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float t = mean - part_in(v[3], k);
                more[k] = fmaf(t, fmaf(item.curve * parts.units[k], t, part_in(v[2], k)),
                               part_in(v[1], k));
            }
            const float with = sum_of_some_lanes(sum_of_parts(parts, more), lanes) * of_hidden;
            if (writes && item.joined)
                *floats(means + item.with * sums.rows + item.row) = with;
        }
    }
};

/* Log2 of the lanes that together have all parts of an item. */
template <class DIVISION> ECO_DEVICE int readers_log2(const sums_of_blocks<DIVISION> &sums)
{
    enum { FOUR = 2, EIGHT = 3, ALL = 5 };
    return sums.vectors <= 1 << FOUR    ? (int)FOUR
           : sums.vectors <= 1 << EIGHT ? (int)EIGHT
                                        : (int)ALL;
}

/* Items of a thread, `AT_ONCE` of them, some apart. */
template <int STAGE, class DIVISION, int AT_ONCE>
ECO_DEVICE void gather_items(const struct eco_persistent_call *call,
                             const sums_of_blocks<DIVISION> &sums,
                             struct spin_timeout *spin_timeout, int lanes_log2, const uint4 *from,
                             int first, int means)
{
    const int lanes = 1 << lanes_log2, lane = (int)threadIdx.x & (lanes - 1);
    const struct four_parts parts = parts_of_lane(call, sums, lane);
    const float of_hidden = v_div((real)1, (real)call->hidden);
    struct received_sums<STAGE, DIVISION> in[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        const int number = first + (((int)threadIdx.x + i * PERSISTENT_THREADS) >> lanes_log2);
        in[i].item = mean_item_of<STAGE>(sums.rows, number);
    }
    for (bool missing = true; missing;) {
        missing = false;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            in[i].ask(sums, from + lane, parts.there[0]);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            missing |= in[i].misses(parts);
        missing = !warp_agrees(!missing || !keep_waiting(spin_timeout, call));
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        in[i].add_up(sums, parts, lanes, lane, of_hidden, means);
}

/* Means of a stage to shared memory, [means, rows] from `means` on, for all threads.  (Warps that
 * gather those of their own rows, so that the block need not meet, took longer.) */
template <int STAGE, class DIVISION>
ECO_DEVICE void gather_means(const struct eco_persistent_call *call, const struct memory *memory,
                             struct spin_timeout *spin_timeout, const struct thread *thread,
                             int means)
{
    enum { ITEMS = means_of::items(STAGE), FIRST = means_of::sent(STAGE) };
    const sums_of_blocks<DIVISION> sums(call, memory);
    const int lanes_log2 = readers_log2(sums), items = ITEMS * sums.rows,
              round = PERSISTENT_THREADS >> lanes_log2;
    const uint4 *const from =
        (const uint4 *)sent_sums<DIVISION>(call, memory, thread) + FIRST * sums.rows * sums.vectors;
    const auto gather = [&](auto at_once) {
        enum { AT_ONCE = decltype(at_once)::value };
#pragma unroll 1
        for (int first = 0; first < items; first += AT_ONCE * round)
            gather_items<STAGE, DIVISION, AT_ONCE>(call, sums, spin_timeout, lanes_log2, from,
                                                   first, means);
    };
    if (items <= round)
        gather(count<1>());
    else
        gather(count<2>());
    __syncthreads();
}

/* Of row n, those that stages before this one have stored. */
template <int STAGE, class CELL>
ECO_DEVICE void read_means(const struct memory *memory, int means, int n,
                           struct normed_element<CELL> *at)
{
    const int rows = memory->row_tiles * ECO_PERSISTENT_N, row = n < rows ? n : rows - 1;
    for_each_of<0, means_of::means>([&](auto mean) {
        enum { M = decltype(mean)::value };
        if constexpr (means_of::stage(M) < STAGE)
            at->mean[M] = *floats(means + M * rows + row);
    });
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
        gather_means<STAGE, DIVISION>(norming->call, norming->memory, norming->spin_timeout,
                                      norming->thread, norming->means);
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

/* All stages of a step; KEPT: threads have one element each, at most, `first`, which is read in
 * part in kernels that read early.  Calls read(stage, n, round, element) for what the text finds
 * at an element of this thread in batch row n, some rounds of all threads on, and finish(stage,
 * count, n, round, elements) behind each stage's text. */
template <class CELL, class DIVISION, bool KEPT, class READ, class FINISH>
ECO_DEVICE void run_all_stages(const struct norming *norming, struct normed_element<CELL> first[1],
                               READ read, FINISH finish)
{
    if constexpr (KEPT || DIVISION::reads_early) {
        read(count<0>(), norming->thread->n, 0, first);
        run_kept<CELL, DIVISION, 0>(norming, first, finish);
    } else {
        run_stages<CELL, DIVISION, 0>(norming, read, finish);
    }
}

#endif /* ECO_GPU_PERSISTENT_ROW_MEANS_CUH */
