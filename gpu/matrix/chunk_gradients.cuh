/*
 * The gradients of keys and numbers by products: all chunks of a slab at once, a block each, from S
 * before each chunk, which forward kept, and from G after it and e of its steps, which
 * chunks_backward left.  A block sums over the columns of S, 64 at a time,
 *
 *     dq0_t = S dout_t    db0_t = S e_t    dk0_s = G d_s
 *     dasked_ts = dout_t . d_s             dheard_ts = e_t . d_s
 *
 * and then goes on without columns (chunk_finish.cuh; with a gate for each row of S,
 * gate_gradients.cuh).
 */
#ifndef ECO_GPU_MATRIX_CHUNK_GRADIENTS_CUH
#define ECO_GPU_MATRIX_CHUNK_GRADIENTS_CUH

#include "gpu/matrix/gate_gradients.cuh"

/* Planes of 64 columns: what S and d share with chunks_forward, and what comes back. */
template <int KEYS> struct gradients_block {
    chunk_block<KEYS> own;
    planes dout, e;
    planes G; /* in the room of dout and e */
};

template <int KEYS, int COUNT, bool GATED>
ECO_DEVICE gradients_block<KEYS> gradient_block_of(const call_t &call, const chunk_place &chunk)
{
    struct eco_gpu_matrix_shape shape = shape_of<KEYS, COUNT>(call);
    shape.others = GATED && shape.others;
    const struct eco_gpu_matrix_gradients_room room = eco_gpu_matrix_gradients_room(shape);
    gradients_block<KEYS> block;
    chunk_block<KEYS> &own = block.own;
    own.n = chunk.n;
    own.h = chunk.h;
    own.b = 0;
    place_state_warp(own);
    for (int k = 0; k < CHUNK_NUMBERS; k++)
        own.number[k] = floats_at(room.number) + k * STEPS;
    own.S = planes_of(room.S, KEYS, BLOCK);
    own.d = planes_of(room.d, STEPS, BLOCK);
    own.u = planes_of(room.u, STEPS, BLOCK);
    own.read = own.query = own.key = own.other = planes_of(room.rows, STEPS, KEYS);
    block.dout = planes_of(room.dout, STEPS, BLOCK);
    block.e = planes_of(room.e, STEPS, BLOCK);
    block.G = planes_of(room.dout, KEYS, BLOCK);
    return block;
}

/* S before the chunk in planes, and a thread's parts of its product with G. */
template <int KEYS, bool GATED>
ECO_DEVICE bool load_before(const call_t &call, const chunk_block<KEYS> &own,
                            const chunk_place &chunk, sums_of_gradients<KEYS, GATED> &sum)
{
    typename chunk_block<KEYS>::state S, G;
    load_state_columns(call, own, S, kept_at(call, own.n, own.h, chunk.first), 0);
    if (has_term(call, ECO_GPU_MATRIX_DECAY) && !(GATED && call.of_other)) {
        load_state_columns(call, own, G, chunk_gradient_at(call, chunk), 0);
#pragma unroll
        for (int i = 0; i < chunk_block<KEYS>::TALL; i++)
#pragma unroll
            for (int j = 0; j < chunk_block<KEYS>::WIDE; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float &all = sum.all[GATED ? 2 * i + e / 2 : 0];
                    all = fmaf(S.at[i][j][e], G.at[i][j][e], all);
                }
    }
    return store_planes(own.S, S, own.row, own.column, nullptr);
}

/* A chunk's columns of an array of slots in planes. */
template <int KEYS>
ECO_DEVICE bool load_planes(const call_t &call, const chunk_block<KEYS> &own,
                            const chunk_place &chunk, const void *array, const planes &to)
{
    planes_sums<2, 2> x;
    load_step_columns<float>(call, own, chunk, slots_of(call, chunk, array, call.V), x);
    return store_planes(to, x, own.tiles.row, own.tiles.column, nullptr);
}

/* Adds the sums over 64 columns. */
template <int KEYS, int COUNT, bool GATED>
ECO_DEVICE bool add_columns(const call_t &call, const gradients_block<KEYS> &block,
                            const chunk_place &chunk, sums_of_gradients<KEYS, GATED> &sum)
{
    const chunk_block<KEYS> &own = block.own;
    const warp_tiles &at = own.tiles;
    const int keys = key_column<KEYS>();
    const bool reads = has_term(call, ECO_GPU_MATRIX_READ), second = GATED && call.of_other;
    const planes put = {second ? own.u.at : own.d.at, own.d.row_bytes, own.d.plane_bytes};
    planes_sums<2, 2> d;
    typename chunk_block<KEYS>::state G;
    bool large = load_before(call, own, chunk, sum);
    large |= load_planes(call, own, chunk, call.dout, block.dout);
    if (reads)
        large |= load_planes(call, own, chunk, call.du, block.e);
    load_values(call, own, chunk, d);
    cp_async_wait_all();
    __syncthreads();
    large |= solve_chunk<KEYS, COUNT>(call, own, chunk, d);
    if (!second)
        add_product<PLANES, PLANES, false, true>(sum.dquery, block.dout, at.row, own.S, keys,
                                                 {0, BLOCK});
    add_product<PLANES, PLANES, false, true>(sum.dasked, block.dout, at.row, put, at.column,
                                             {0, BLOCK});
    if (reads && !second)
        add_product<PLANES, PLANES, false, true>(sum.dread, block.e, at.row, own.S, keys,
                                                 {0, BLOCK});
    if (reads)
        add_product<PLANES, PLANES, false, true>(sum.dheard, block.e, at.row, put, at.column,
                                                 {0, BLOCK});
    __syncthreads();
    load_state_columns(call, own, G, chunk_gradient_at(call, chunk), 0);
    large |= store_planes(block.G, G, own.row, own.column, nullptr);
    __syncthreads();
    add_product<PLANES, PLANES, false, true>(sum.dkey, put, at.row, block.G, keys, {0, BLOCK});
    __syncthreads();
    return large;
}

/* Asks the L2 for all columns of the chunk: S, G, and rows of steps. */
ECO_DEVICE void ask_for_chunk_columns(const call_t &call, const chunk_place &chunk)
{
    enum { LINE = 128 };
    const int bytes = (int)matrix_numbers(call) * (int)sizeof(real),
              row = call.V * (int)sizeof(real);
    const unsigned char *S = (const unsigned char *)kept_at(call, chunk.n, chunk.h, chunk.first),
                        *G = (const unsigned char *)chunk_gradient_at(call, chunk);
    const row_cursor dout = slots_of(call, chunk, call.dout, call.V),
                     e = slots_of(call, chunk, call.du, call.V);
    for (int byte = (int)threadIdx.x * LINE; byte < bytes; byte += CHUNK_THREADS * LINE) {
        prefetch_l2_if(true, S + byte);
        prefetch_l2_if(true, G + byte);
    }
    const int t = (int)threadIdx.x / 4;
    for (int byte = (int)threadIdx.x % 4 * LINE; byte < row && takes_part(call, chunk, t);
         byte += 4 * LINE) {
        prefetch_l2_if(true, row_of_step(dout, t) + byte);
        prefetch_l2_if(true, row_of_step(e, t) + byte);
    }
}

template <int KEYS, int COUNT, bool GATED = false>
static __global__ void __launch_bounds__(CHUNK_THREADS, 1)
    gradients_of_chunks(const __grid_constant__ call_t call)
{
#if __CUDA_ARCH__ >= 800
    const chunk_place chunk = chunk_of_block(call);
    gradients_block<KEYS> block = gradient_block_of<KEYS, COUNT, GATED>(call, chunk);
    bool large = false;
    if (head_retries(call, chunk.n, chunk.h))
        return;
    ask_for_chunk_columns(call, chunk);
    sums_of_gradients<KEYS, GATED> sum = {};
    for (int i = (int)threadIdx.x; i < CHUNK_NUMBERS * STEPS; i += CHUNK_THREADS)
        block.own.number[0][i] = numbers_at(call, chunk, 0)[i];
    if (has_term(call, ECO_GPU_MATRIX_READ))
        load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_READ, GATED, chunk, block.own.read);
    for (int32_t b = 0; b < (call.V + BLOCK - 1) / BLOCK; b++) {
        block.own.b = b;
        large |= add_columns<KEYS, COUNT>(call, block, chunk, sum);
    }
    if constexpr (GATED)
        large |= finish_gated_chunk(call, chunk, sum);
    else
        large |= finish_chunk<KEYS, COUNT>(call, chunk, sum);
    large = __syncthreads_or(large) != 0;
    if (threadIdx.x == 0 && large)
        call.retries[head_of(call, chunk.n, chunk.h) * ((call.V + BLOCK - 1) / BLOCK)] = 1;
#endif
}

#endif /* ECO_GPU_MATRIX_CHUNK_GRADIENTS_CUH */
