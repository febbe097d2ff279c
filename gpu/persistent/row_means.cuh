/*
 * Means over the units of a row, in a step of a persistent kernel.  A cell that has them is text in
 * stages: a stage stores values, and stages after it read the means of these.  Between two stages
 * each block adds up the values of its units, sends that to the others, and adds up what all sent,
 * always in the same order.  A partial sum is a float, in words that are not yet written as those
 * of the exchange are (exchange.cuh); they lie there behind what products gather.
 *
 * What a later stage reads besides lies where it lay, so no value waits for one.
 */
#ifndef ECO_GPU_PERSISTENT_ROW_MEANS_CUH
#define ECO_GPU_PERSISTENT_ROW_MEANS_CUH

#include "gpu/persistent/exchange.cuh"
#include "gpu/persistent/sums.cuh"

/* How many stages a step has, and means; and the stage that stores each mean. */
template <int CELL> struct means_of;
#define CELLS_MEANS_STRUCT(cell, n_stages, n_means, ...)                                           \
    template <> struct means_of<cell> {                                                            \
        enum { stages = n_stages, means = n_means, room = n_means > 0 ? n_means : 1 };             \
        static __device__ constexpr int stage(int m)                                               \
        {                                                                                          \
            constexpr int stages_of[] = {__VA_ARGS__};                                             \
            return stages_of[m];                                                                   \
        }                                                                                          \
        /* Means of the stages before this one: in that order they lie side by side. */            \
        static __device__ constexpr int before(int of_stage)                                       \
        {                                                                                          \
            int n = 0;                                                                             \
            for (int m = 0; m < means; m++)                                                        \
                n += stage(m) < of_stage;                                                          \
            return n;                                                                              \
        }                                                                                          \
        static __device__ constexpr int place(int mean)                                            \
        {                                                                                          \
            int n = before(stage(mean));                                                           \
            for (int m = 0; m < mean; m++)                                                         \
                n += stage(m) == stage(mean);                                                      \
            return n;                                                                              \
        }                                                                                          \
    };
CELLS_MEANS(CELLS_MEANS_STRUCT)

/* One unit of one row: what its stages store for means, and the means of its row. */
template <class CELL, class MEANS> struct normed_element : element_of<CELL> {
    float summand[MEANS::room], mean[MEANS::room];
    bool stored[CELL::saves > 0 ? CELL::saves : 1]; /* saved values, by this stage */
};

template <class CELL, class MEANS>
ECO_DEVICE void store_mean(struct normed_element<CELL, MEANS> *at, int m, vec v)
{
    at->summand[m] = v;
}
template <class CELL, class MEANS>
ECO_DEVICE vec load_mean(struct normed_element<CELL, MEANS> *at, int m)
{
    return at->mean[m];
}

template <int NUMBER, int STAGE, class ELEMENT> ECO_DEVICE void finish_stage(ELEMENT *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k)                                                                     \
        name(at);
    if constexpr (STAGE == 0) {
        CELLS_STAGE_0(CELLS_CASE)
    } else if constexpr (STAGE == 1) {
        CELLS_STAGE_1(CELLS_CASE)
    } else if constexpr (STAGE == 2) {
        CELLS_STAGE_2(CELLS_CASE)
    } else if constexpr (STAGE == 3) {
        CELLS_STAGE_3(CELLS_CASE)
    } else if constexpr (STAGE == 4) {
        CELLS_STAGE_4(CELLS_CASE)
    } else if constexpr (STAGE == 5) {
        CELLS_STAGE_5(CELLS_CASE)
    } else if constexpr (STAGE == 6) {
        CELLS_STAGE_6(CELLS_CASE)
    } else {
        CELLS_STAGE_7(CELLS_CASE)
    }
#undef CELLS_CASE
}

/* ---- partial sums ---------------------------------------------------------------------------- */

/* Of a group in a step: [means, rows, parts], parts in whole vectors of four.  A block has one for
 * each warp's width of units. */
template <class MEANS, class DIVISION> struct partial_sums {
    enum {
        UNITS = 1 << DIVISION::shift,
        LANES = UNITS < WARP ? UNITS : WARP, /* that have units of one row */
        OF_BLOCK = UNITS / LANES
    };
    int parts, vectors, rows;

    __device__ __forceinline__ partial_sums(const struct eco_persistent_call *call,
                                            const struct memory *memory)
    {
        parts = call->shape.members * OF_BLOCK;
        vectors = (parts + 3) / 4;
        rows = memory->row_tiles * ECO_PERSISTENT_N;
    }

    /* Of 16 bytes. */
    __device__ __forceinline__ int pieces(void) const
    {
        return MEANS::means * rows * vectors;
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
template <class MEANS, class DIVISION>
ECO_DEVICE int64_t exchanged_of(const struct eco_persistent_call *call, const struct memory *memory)
{
    return sent_of<DIVISION>(call, memory) + partial_sums<MEANS, DIVISION>(call, memory).pieces();
}

/* After a step: the next one's part of the exchange. */
template <class MEANS, class DIVISION>
ECO_DEVICE void advance_with_means(const struct eco_persistent_call *call,
                                   const struct memory *memory, struct thread *thread, int step)
{
    const int64_t all = call->shape.groups * exchanged_of<MEANS, DIVISION>(call, memory);
    thread->sent += all * PIECE;
    if (step > 0)
        thread->received += all;
}

/* Of row n, by all lanes that have units of it: what they have stored in this stage. */
template <class MEANS, int STAGE, class DIVISION, class ELEMENT>
ECO_DEVICE void send_sums(const struct eco_persistent_call *call, const struct block *block,
                          const struct memory *memory, const struct thread *thread, int n,
                          const ELEMENT *at)
{
    typedef partial_sums<MEANS, DIVISION> sums;
    const sums all(call, memory);
    const int u = (int)threadIdx.x & (sums::UNITS - 1);
    unsigned *const to = sent_sums<DIVISION>(call, memory, thread) + n * all.vectors * 4 +
                         block->member * sums::OF_BLOCK + u / WARP;
#pragma unroll
    for (int m = 0; m < MEANS::means; m++) {
        if (MEANS::stage(m) != STAGE)
            continue;
        float sum = at->there ? at->summand[m] : 0;
#pragma unroll
        for (int lanes = 1; lanes < sums::LANES; lanes *= 2) /* a NaN becomes that of additions */
            sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        store_relaxed_if(n < all.rows && u % sums::LANES == m % sums::LANES,
                         to + MEANS::place(m) * all.rows * all.vectors * 4, __float_as_uint(sum));
    }
}

/* A word of all ones that somebody will write. */
ECO_DEVICE bool misses_sum(uint4 v, int parts)
{
    return (parts > 0 && v.x == ~0u) | (parts > 1 && v.y == ~0u) | (parts > 2 && v.z == ~0u) |
           (parts > 3 && v.w == ~0u);
}
ECO_DEVICE float sum_of_parts(uint4 v, int parts)
{
    return (__uint_as_float(v.x) + (parts > 1 ? __uint_as_float(v.y) : 0)) +
           ((parts > 2 ? __uint_as_float(v.z) : 0) + (parts > 3 ? __uint_as_float(v.w) : 0));
}

/* Means of a stage to shared memory, [means, rows] from `means` on, for all threads: some lanes
 * together add up one of them. */
template <class MEANS, int STAGE, class DIVISION>
ECO_DEVICE void gather_means(const struct eco_persistent_call *call, const struct block *block,
                             const struct memory *memory, struct spin_timeout *spin_timeout,
                             const struct thread *thread, int means)
{
    enum {
        FIRST = MEANS::before(STAGE),
        COUNT = MEANS::before(STAGE + 1) - FIRST,
        LANES = 8,
        ROUND = PERSISTENT_THREADS / LANES,
        AT_ONCE = 4
    };
    const partial_sums<MEANS, DIVISION> sums(call, memory);
    const int items = COUNT * sums.rows, lane = block->lane % LANES, own = (int)threadIdx.x / LANES;
    const uint4 *const from =
        (const uint4 *)sent_sums<DIVISION>(call, memory, thread) + FIRST * sums.rows * sums.vectors;
#pragma unroll 1
    for (int first = own; first - own < items; first += AT_ONCE * ROUND) {
        float sum[AT_ONCE] = {};
#pragma unroll 1
        for (int at = lane; at - lane < sums.vectors; at += LANES) {
            const int parts = sums.parts - 4 * at;
            uint4 v[AT_ONCE];
            const auto ask = [&] {
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    v[i] = load_16_relaxed_if(parts > 0 && first + i * ROUND < items,
                                              from + (first + i * ROUND) * sums.vectors + at);
            };
            for (bool missing = true; missing;) {
                ask();
                missing = false;
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    missing |= misses_sum(v[i], parts);
                missing = !warp_agrees(!missing || !keep_waiting(spin_timeout, call));
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                sum[i] += sum_of_parts(v[i], parts);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
#pragma unroll
            for (int lanes = 1; lanes < LANES; lanes *= 2)
                sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], lanes);
            if (lane == 0 && first + i * ROUND < items)
                *floats(means + FIRST * sums.rows + first + i * ROUND) =
                    sum[i] / (float)call->hidden;
        }
    }
    __syncthreads();
}

/* Of row n, those that stages before this one have stored. */
template <class MEANS, int STAGE, class ELEMENT>
ECO_DEVICE void read_means(const struct memory *memory, int means, int n, ELEMENT *at)
{
    const int rows = memory->row_tiles * ECO_PERSISTENT_N, row = n < rows ? n : rows - 1;
#pragma unroll
    for (int m = 0; m < MEANS::means; m++)
        if (MEANS::stage(m) < STAGE)
            at->mean[m] = *floats(means + MEANS::place(m) * rows + row);
}

/* ---- the stages of a step -------------------------------------------------------------------- */

/* One stage of `P` elements of this thread, from batch row n on: text, sums, and what else. */
template <int NUMBER, class DIVISION, int STAGE, int P, class FINISH>
ECO_DEVICE void
run_elements(const struct eco_persistent_call *call, const struct block *block,
             const struct memory *memory, const struct thread *thread, int means, int n, int round,
             struct normed_element<cell_traits<NUMBER>, means_of<NUMBER>> at[P], FINISH finish)
{
    typedef means_of<NUMBER> of_means;
#pragma unroll
    for (int p = 0; p < P; p++) {
        read_means<of_means, STAGE>(memory, means, n + p * DIVISION::element_rows, &at[p]);
        finish_stage<NUMBER, STAGE>(&at[p]);
    }
    if constexpr (STAGE + 1 < of_means::stages)
#pragma unroll
        for (int p = 0; p < P; p++)
            send_sums<of_means, STAGE, DIVISION>(call, block, memory, thread,
                                                 n + p * DIVISION::element_rows, &at[p]);
    finish(count<STAGE>(), count<P>(), n, round, at);
}

/* Stages from STAGE on, each of all elements; these are read anew for each. */
template <int NUMBER, class DIVISION, int STAGE, class READ, class FINISH>
ECO_DEVICE void run_stages(const struct eco_persistent_call *call, const struct block *block,
                           const struct memory *memory, struct spin_timeout *spin_timeout,
                           const struct thread *thread, int means, bool idle, READ read,
                           FINISH finish)
{
    typedef means_of<NUMBER> of_means;
    for_elements<DIVISION>(memory, thread, [&](auto elements, int n, int round) {
        enum { P = decltype(elements)::value };
        struct normed_element<cell_traits<NUMBER>, of_means> at[P];
#pragma unroll
        for (int p = 0; p < P; p++)
            read(count<STAGE>(), n + p * DIVISION::element_rows, round + p, &at[p]);
        run_elements<NUMBER, DIVISION, STAGE, P>(call, block, memory, thread, means, n, round, at,
                                                 finish);
    });
    if constexpr (STAGE + 1 < of_means::stages) {
        if (!idle)
            gather_means<of_means, STAGE, DIVISION>(call, block, memory, spin_timeout, thread,
                                                    means);
        run_stages<NUMBER, DIVISION, STAGE + 1>(call, block, memory, spin_timeout, thread, means,
                                                idle, read, finish);
    }
}

/* The same of a thread's only element, which keeps what it has. */
template <int NUMBER, class DIVISION, int STAGE, class FINISH>
ECO_DEVICE void run_kept(const struct eco_persistent_call *call, const struct block *block,
                         const struct memory *memory, struct spin_timeout *spin_timeout,
                         const struct thread *thread, int means, bool idle,
                         struct normed_element<cell_traits<NUMBER>, means_of<NUMBER>> at[1],
                         FINISH finish)
{
    typedef means_of<NUMBER> of_means;
    run_elements<NUMBER, DIVISION, STAGE, 1>(call, block, memory, thread, means, thread->n, 0, at,
                                             finish);
    if constexpr (STAGE + 1 < of_means::stages) {
        if (!idle)
            gather_means<of_means, STAGE, DIVISION>(call, block, memory, spin_timeout, thread,
                                                    means);
        run_kept<NUMBER, DIVISION, STAGE + 1>(call, block, memory, spin_timeout, thread, means,
                                              idle, at, finish);
    }
}

/* All stages of a step.  Calls read(stage, n, round, element) for what the text finds at an element
 * of this thread in batch row n, some rounds of all threads on, and finish(stage, count, n, round,
 * elements) behind each stage's text.  `means`: where these lie in shared memory.  Between stages
 * sums are exchanged, but in idle steps, where no row reads them. */
template <int NUMBER, class DIVISION, class READ, class FINISH>
ECO_DEVICE void run_all_stages(const struct eco_persistent_call *call, const struct block *block,
                               const struct memory *memory, struct spin_timeout *spin_timeout,
                               const struct thread *thread, int means, bool idle, READ read,
                               FINISH finish)
{
    if (memory->elements == PERSISTENT_THREADS) {
        struct normed_element<cell_traits<NUMBER>, means_of<NUMBER>> at[1];
        read(count<0>(), thread->n, 0, &at[0]);
        run_kept<NUMBER, DIVISION, 0>(call, block, memory, spin_timeout, thread, means, idle, at,
                                      finish);
    } else {
        run_stages<NUMBER, DIVISION, 0>(call, block, memory, spin_timeout, thread, means, idle,
                                        read, finish);
    }
}

#endif /* ECO_GPU_PERSISTENT_ROW_MEANS_CUH */
