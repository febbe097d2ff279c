/*
 * Chunks of 64 steps by products, with a number for a gate (doc/internals/gpu.md).  With G_t the
 * product of the gates of a chunk up to t, ratio_ts = G_t / G_s, found without a division, b what
 * is read, and for s < t or, asked, s <= t,
 *
 *     heard_ts = scale_t ratio_(t-1)s b_t . k_s    asked_ts = ratio_ts q_t . k_s
 *     d = solved (v + scale G_(t-1) b S)           solved = 1 / (1 - heard)
 *     o_t = G_t q_t S + sum of asked_ts d_s        S' = G_64 S + sum of ratio_64s k_s d_s^T
 *
 * What does not need S, all chunks of the slab compute at once (pairs_of_chunks); then a block goes
 * through the chunks with 64 columns of S in registers (chunks_forward).  A step that does not
 * count has a gate of 1 and no key; a reset is a gate of 0 that is read, too.
 *
 * Products cannot leave out what is not finite, so a block whose numbers come near the end of the
 * range gives up, and its columns go by steps (retries).
 */
#ifndef ECO_GPU_MATRIX_CHUNK_CUH
#define ECO_GPU_MATRIX_CHUNK_CUH

#include "gpu/arch/memory.cuh"
#include "gpu/matrix/chunk_block.cuh"

/* What a chunk's steps put into S: d in registers and planes; with `other`, d is v, and u is in
 * planes. */
template <int KEYS, int COUNT>
ECO_DEVICE bool solve_chunk(const call_t &call, const chunk_block<KEYS> &own,
                            const chunk_place &chunk, planes_sums<2, 2> &d)
{
    const bool others = COUNT > 1 && has_term(call, ECO_GPU_MATRIX_OTHER);
    const planes to = others ? own.u : own.d;
    bool large = others ? store_steps(own, own.d, d) : false;
    planes_sums<2, 2> x;
    if (!has_term(call, ECO_GPU_MATRIX_READ))
        return store_steps(own, own.d, d);
    clear_sums(x);
    add_product<COUNT, PLANES, false, false>(x, own.read, own.tiles.row, own.S, own.tiles.column,
                                             {0, KEYS});
    scale_steps(x, own.tiles.row, own.number[BEFORE]);
    if (others) {
        add_lower(own, lower_of(call, call.heard, chunk), own.d, x, false);
    } else {
        scale_steps(x, own.tiles.row, own.number[SCALE]);
        add(x, d);
    }
    large |= store_steps(own, to, x);
    add_lower(own, lower_of(call, call.solved, chunk), to, x, true);
    __syncthreads();
    if (!others)
        d = x;
    return store_steps(own, to, x) || large;
}

/* y of a step, which is o, in the caller's other arrays of it. */
ECO_DEVICE void store_more(const call_t &call, const chunk_place &chunk, int32_t place,
                           int32_t column, const float x[4])
{
    if (call.args.states[0] != nullptr)
        store_row_four(narrow_at(call.args.states[0],
                                 head_of(call, mark_of(call, chunk.n, place), chunk.h), call.V) +
                           column,
                       call.V - column, x);
    narrow *last = stream_at<narrow>(call, call.args.final[0], chunk.n, chunk.h, call.V);
    if (last != nullptr && next_counted(call, chunk.n, place + 1) == call.args.T)
        store_row_four(last + column, call.V - column, x);
}

/* o, or y if it is o. */
template <int KEYS>
ECO_DEVICE void store_outs(const call_t &call, const chunk_block<KEYS> &own,
                           const chunk_place &chunk, planes_sums<2, 2> &o)
{
    const struct eco_gpu_matrix_rows y = {call.args.y, (size_t)call.heads * (size_t)call.V};
    const row_cursor rows = rows_from(call, call.direct ? nullptr : call.o, y, call.V, chunk, 0);
    if (!call.direct) {
        store_step_columns<float>(call, own, chunk, rows, o);
        return;
    }
    store_step_columns<narrow>(call, own, chunk, rows, o);
    if (call.args.states[0] == nullptr && call.args.final[0] == nullptr)
        return;
    each_row(own, o, [&](int t, float x[4]) {
        if (takes_part(call, chunk, t))
            store_more(call, chunk, chunk.first + t, first_column(own), x);
    });
}

/* o of the steps of a chunk. */
template <int KEYS, int COUNT>
ECO_DEVICE bool read_chunk(const call_t &call, const chunk_block<KEYS> &own,
                           const chunk_place &chunk)
{
    bool large = false;
    planes_sums<2, 2> o;
    clear_sums(o);
    add_product<COUNT, PLANES, false, false>(o, own.query, own.tiles.row, own.S, own.tiles.column,
                                             {0, KEYS});
    scale_steps(o, own.tiles.row, own.number[AFTER]);
    add_lower(own, lower_of(call, call.asked, chunk), own.d, o, false);
    if (COUNT > 1 && has_term(call, ECO_GPU_MATRIX_OTHER))
        add_lower(own, lower_of(call, call.asked_other, chunk), own.u, o, false);
    each_pair(o, own.tiles.row, own.tiles.column,
              [&](int, int, float &x, float &y) { large = large || is_large(x) || is_large(y); });
    store_outs(call, own, chunk, o);
    return large;
}

/* Asks for the triangles of a chunk, whose parts warps wait for one after the other. */
ECO_DEVICE void ask_for_pairs(const call_t &call, const chunk_place &chunk)
{
    enum { LINE = 128, LINES = LOWER_BYTES / LINE };
    const int i = (int)threadIdx.x % (CHUNK_THREADS / 2);
    const void *lower = threadIdx.x < CHUNK_THREADS / 2 ? call.asked : call.solved;
    if (lower != nullptr && i < LINES)
        load_ahead((const unsigned char *)lower_of(call, lower, chunk) + i * LINE);
}

/* Asks the L2 for the rows of the chunk after this one. */
template <int KEYS, int COUNT>
ECO_DEVICE void ask_for_next(const call_t &call, const chunk_block<KEYS> &own,
                             const chunk_place &chunk)
{
    enum { LINE = 128 };
    static const int terms[] = {ECO_GPU_MATRIX_QUERY, ECO_GPU_MATRIX_KEY, ECO_GPU_MATRIX_READ,
                                ECO_GPU_MATRIX_VALUE};
    const int k = terms[threadIdx.x / STEPS];
    const struct eco_gpu_matrix_source &term =
        call.gates_keys && k != ECO_GPU_MATRIX_VALUE ? call.gated[k] : call.term[k];
    const int32_t t = (int32_t)threadIdx.x % STEPS + STEPS,
                  first = k == ECO_GPU_MATRIX_VALUE ? own.b * BLOCK : 0,
                  width = k == ECO_GPU_MATRIX_VALUE ? BLOCK : call.K;
    if (term.node < 0 || term.width < first + width || !takes_part(call, chunk, t))
        return;
    const int32_t bytes = term.slots != nullptr ? sizeof(float) : sizeof(narrow);
    const unsigned char *row = rows_of_term(call, term, chunk, t).at + first * bytes;
    for (int byte = 0; byte < width * bytes; byte += LINE)
        prefetch_l2_if(true, row + byte);
}

/* The keys and the numbers of a chunk. */
template <int KEYS, int COUNT>
ECO_DEVICE void load_chunk(const call_t &call, const chunk_block<KEYS> &own,
                           const chunk_place &chunk)
{
    const bool gated = COUNT > 1 && call.gates_keys;
    load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_QUERY, gated, chunk, own.query);
    load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_KEY, gated, chunk, own.key);
    if (has_term(call, ECO_GPU_MATRIX_READ) && !call.same_key)
        load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_READ, gated, chunk, own.read);
    if (COUNT > 1 && has_term(call, ECO_GPU_MATRIX_OTHER))
        load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_OTHER, gated, chunk, own.other);
    for (int i = (int)threadIdx.x; i < CHUNK_NUMBERS * STEPS; i += CHUNK_THREADS)
        own.number[0][i] = numbers_at(call, chunk, 0)[i];
}

/* S, or its gradient, times all gates of a chunk. */
template <int COUNT, int KEYS>
ECO_DEVICE void decay_state(const call_t &call, const chunk_block<KEYS> &own,
                            const chunk_place &chunk, typename chunk_block<KEYS>::state &S)
{
    const bool gated = COUNT > 1 && call.gates_keys;
    const float same = own.number[AFTER][STEPS - 1];
    each_pair(S, own.row, own.column, [&](int i, int, float &x, float &y) {
        const float all = gated ? call.chunk_decay[chunk.at * ECO_GPU_MATRIX_CHUNK_KEYS + i] : same;
        x *= all, y *= all;
    });
}

/* One chunk: o, and S after it. */
template <int KEYS, int COUNT>
ECO_DEVICE bool chunk_forward(const call_t &call, const chunk_block<KEYS> &own,
                              const chunk_place &chunk, typename chunk_block<KEYS>::state &S)
{
    const bool gated = COUNT > 1 && call.gates_keys,
               others = COUNT > 1 && has_term(call, ECO_GPU_MATRIX_OTHER);
    bool large = call.chunk_large[chunk.at] != 0;
    planes_sums<2, 2> d;
    load_chunk<KEYS, COUNT>(call, own, chunk);
    load_values(call, own, chunk, d);
    ask_for_pairs(call, chunk);
    ask_for_next<KEYS, COUNT>(call, own, chunk);
    large |= store_planes(own.S, S, own.row, own.column, nullptr);
    cp_async_wait_all();
    __syncthreads();
    large |= solve_chunk<KEYS, COUNT>(call, own, chunk, d);
    large |= read_chunk<KEYS, COUNT>(call, own, chunk);
    __syncthreads();
    if (!gated)
        store_planes(own.d, d, own.tiles.row, own.tiles.column, own.number[TO_END]);
    decay_state<COUNT>(call, own, chunk, S);
    __syncthreads();
    add_to_state<COUNT>(own, S, own.key, own.d);
    if (others)
        add_to_state<COUNT>(own, S, own.other, own.u);
    __syncthreads();
    return large;
}

template <int KEYS, int COUNT>
static __global__ void __launch_bounds__(CHUNK_THREADS, COUNT == 1 ? 2 : 1)
    chunks_forward(const __grid_constant__ call_t call)
{
#if __CUDA_ARCH__ >= 800
    const chunk_block<KEYS> own = chunk_block_of<KEYS, COUNT>(call);
    const int s = call.matrix;
    const int32_t width = call.width[s];
    const size_t head = head_of(call, own.n, own.h);
    const bool begins = call.first == 0, ends = call.first + call.steps == call.args.T;
    bool large = false;
    typename chunk_block<KEYS>::state S;
    load_state_columns(call, own, S,
                       call.again ? kept_at(call, own.n, own.h, call.first)
                       : begins   ? stream_at<real>(call, call.args.initial[s], own.n, own.h, width)
                                  : real_at(call.carried[s], head, width),
                       (float)call.start[s]);
    for (int32_t c = 0; c < slab_chunks(call) && !large; c++) {
        const chunk_place chunk = chunk_at(call, own.n, own.h, c);
        if (call.training && !call.again)
            store_state_columns(call, own, S, kept_at(call, own.n, own.h, chunk.first));
        large = __syncthreads_or(chunk_forward<KEYS, COUNT>(call, own, chunk, S)) != 0;
    }
    if (!gives_up(call, S, large) && !call.again)
        store_state_columns(call, own, S,
                            ends ? stream_at<real>(call, call.args.final[s], own.n, own.h, width)
                                 : real_at(call.carried[s], head, width));
#endif
}

#endif /* ECO_GPU_MATRIX_CHUNK_CUH */
