/*
 * Chunks back by products (chunk.cuh), from the last to the first: a block has 64 columns of G, the
 * gradient of S after a chunk, in registers.  With A' for the transpose of A,
 *
 *     e = solved' (asked' dout + ratio_64s k_s G)
 *     G <- G_64 G + sum of G_t q_t dout_t' + sum of scale_t G_(t-1) b_t e_t'
 *
 * e is the gradient of d, and so of v; with `other`, of u, to whose pairs and key it belongs, and v
 * has asked' dout + ratio_64s k_s G + heard' e.  G of each chunk is left for chunk_gradients.cuh.
 *
 * A block that gives up leaves G after its last chunk, from which its head goes by steps.
 */
#ifndef ECO_GPU_MATRIX_CHUNK_BACK_CUH
#define ECO_GPU_MATRIX_CHUNK_BACK_CUH

#include "gpu/matrix/backward.cuh"
#include "gpu/matrix/chunk.cuh"

ECO_DEVICE real *chunk_gradient_at(const call_t &call, const chunk_place &chunk)
{
    return real_at(call.chunk_gradients, chunk.at, matrix_numbers(call));
}

/* The rows of steps of an array [slots,width]. */
ECO_DEVICE row_cursor slots_of(const call_t &call, const chunk_place &chunk, const void *array,
                               int32_t width)
{
    return rows_from(call, array, call.part[0], width, chunk, 0);
}

/* The gradient of what a key is times: from G, and from dout, which is in planes, by pairs. */
template <int COUNT, int KEYS>
ECO_DEVICE void gather_back(const chunk_block<KEYS> &own, unsigned key, const void *asked,
                            planes_sums<2, 2> &x)
{
    const warp_tiles &at = own.tiles;
    clear_sums(x);
    add_product<COUNT, PLANES, false, false>(x, {key, own.key.row_bytes, own.key.plane_bytes},
                                             at.row, own.S, at.column, {0, KEYS});
    scale_steps(x, at.row, own.number[TO_END]);
    add_lower<true>(own, asked, own.d, x, false);
}

/* e of the steps of a chunk, which is stored, too.  With `other` it is that of u; v has its own. */
template <int KEYS, int COUNT>
ECO_DEVICE bool solve_back(const call_t &call, const chunk_block<KEYS> &own,
                           const chunk_place &chunk, planes_sums<2, 2> &e)
{
    const bool others = COUNT > 1 && has_term(call, ECO_GPU_MATRIX_OTHER);
    const planes to = {others ? own.u.at : own.d.at, own.d.row_bytes, own.d.plane_bytes};
    bool large = false;
    const auto see = [&](int, int, float &x, float &y) {
        large = large || is_large(x) || is_large(y);
    };
    gather_back<COUNT>(own, others ? own.other.at : own.key.at,
                       lower_of(call, others ? call.asked_other : call.asked, chunk), e);
    __syncthreads();
    if (has_term(call, ECO_GPU_MATRIX_READ)) {
        large = store_steps(own, to, e);
        add_lower<true>(own, lower_of(call, call.solved, chunk), to, e, true);
        __syncthreads();
    }
    each_pair(e, own.tiles.row, own.tiles.column, see);
    store_step_columns<float>(call, own, chunk, slots_of(call, chunk, call.du, call.V), e);
    if (!others)
        return large;
    planes_sums<2, 2> dv;
    large |= store_steps(own, to, e);
    gather_back<COUNT>(own, own.key.at, lower_of(call, call.asked, chunk), dv);
    add_lower<true>(own, lower_of(call, call.heard, chunk), to, dv, false);
    each_pair(dv, own.tiles.row, own.tiles.column, see);
    store_step_columns<float>(call, own, chunk, slots_of(call, chunk, call.dvalue, call.V), dv);
    __syncthreads();
    return large;
}

/* G += sum of by_t rows_t d_t^T. */
template <int KEYS, int COUNT>
ECO_DEVICE void add_outer(const chunk_block<KEYS> &own, typename chunk_block<KEYS>::state &G,
                          const planes &rows, planes_sums<2, 2> &d, const float *by)
{
    store_planes(own.d, d, own.tiles.row, own.tiles.column, by);
    __syncthreads();
    add_to_state<COUNT>(own, G, rows, own.d);
    __syncthreads();
}

/* One chunk: the gradient of values, and G before it. */
template <int KEYS, int COUNT>
ECO_DEVICE bool chunk_backward(const call_t &call, const chunk_block<KEYS> &own,
                               const chunk_place &chunk, typename chunk_block<KEYS>::state &G)
{
    const bool others = COUNT > 1 && has_term(call, ECO_GPU_MATRIX_OTHER);
    bool large = call.chunk_large[chunk.at] != 0;
    planes_sums<2, 2> dout, e;
    load_chunk<KEYS, COUNT>(call, own, chunk);
    load_step_columns<float>(call, own, chunk, slots_of(call, chunk, call.dout, call.V), dout);
    ask_for_pairs(call, chunk);
    large |= store_planes(own.S, G, own.row, own.column, nullptr);
    large |= store_planes(own.d, dout, own.tiles.row, own.tiles.column, nullptr);
    cp_async_wait_all();
    __syncthreads();
    large |= solve_back<KEYS, COUNT>(call, own, chunk, e);
    decay_state<COUNT>(call, own, chunk, G);
    load_step_columns<float>(call, own, chunk, slots_of(call, chunk, call.dout, call.V),
                             dout); /* again: there are too few registers */
    add_outer<KEYS, COUNT>(own, G, own.query, dout, own.number[AFTER]);
    if (has_term(call, ECO_GPU_MATRIX_READ)) {
        if (!others)
            scale_steps(e, own.tiles.row, own.number[SCALE]);
        add_outer<KEYS, COUNT>(own, G, own.read, e, own.number[BEFORE]);
    }
    return large;
}

template <int KEYS, int COUNT>
static __global__ void __launch_bounds__(CHUNK_THREADS, COUNT == 1 ? 2 : 1)
    chunks_backward(const __grid_constant__ call_t call)
{
#if __CUDA_ARCH__ >= 800
    const chunk_block<KEYS> own = chunk_block_of<KEYS, COUNT>(call);
    const int s = call.matrix;
    const size_t numbers = matrix_numbers(call), head = head_of(call, own.n, own.h);
    const bool last = call.first + call.steps == call.args.T;
    bool large = false;
    typename chunk_block<KEYS>::state G;
    load_state_columns(
        call, own, G, real_at(last ? final_gradient(call, s) : call.dcarried[s], head, numbers), 0);
    for (int32_t c = slab_chunks(call) - 1; c >= 0 && !large; c--) {
        const chunk_place chunk = chunk_at(call, own.n, own.h, c);
        store_state_columns(call, own, G, chunk_gradient_at(call, chunk));
        large = __syncthreads_or(chunk_backward<KEYS, COUNT>(call, own, chunk, G)) != 0;
    }
    if (!gives_up(call, G, large))
        store_state_columns(
            call, own, G,
            real_at(call.first == 0 ? initial_gradient(call, s) : call.dcarried[s], head, numbers));
#endif
}

#endif /* ECO_GPU_MATRIX_CHUNK_BACK_CUH */
