/*
 * The operands of the first step: states of the caller, or of the preceding launch.
 */
#ifndef ECO_GPU_PERSISTENT_INITIAL_STATE_CUH
#define ECO_GPU_PERSISTENT_INITIAL_STATE_CUH

#include "gpu/persistent/gather.cuh"
#include "gpu/persistent/weights.cuh"

#if defined(ECO_OPERAND_PAIR) && !defined(ECO_SCALED)
/* Gathers all states of the group, keeps those of this block, and returns the greatest. */
template <class DIVISION> ECO_DEVICE float gather_states(const struct block_context *block)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    const struct eco_persistent_job *job = job_of(block);
    const float *state = (const float *)(job->starts ? job->caller_state[0] : job->state[0]);
    const uint32_t row_step =
        job->starts ? (uint32_t)block->call->hidden : block->call->state_row[0];
    const int k_blocks = (block->call->hidden + K_BLOCK - 1) / K_BLOCK,
              tiles = block->memory.row_tiles;
    float most = 1; /* the value for zeros */
#pragma unroll 4
    for (int i = block->warp; i < k_blocks * tiles; i += PERSISTENT_WARPS) {
        const int n = i % tiles * ECO_PERSISTENT_N + block->lane / 4;
        const int k = i / tiles * K_BLOCK + block->lane % 4 * PIECE;
        const int there = state && n < block->rows ? block->call->hidden - k : 0;
        const float *const from = state + offset_at(block->row0 + n, row_step, k);
        float v[PIECE];
#pragma unroll
        for (int j = 0; j < PIECE; j++) {
            v[j] = j < there ? from[j] : 0;
            keep_greatest(&most, v[j]);
        }
        const int piece = i - share->k_block0 * tiles;
        if (piece >= 0 && piece < share->gathered)
            shared[block->memory.operand + piece * WARP + block->lane] =
                make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                           __float_as_uint(v[3]));
    }
    return most;
}

/* Rows may restart from larger states. */
ECO_DEVICE float greatest_start(const struct block_context *block)
{
    float most = 1;
    const float *const start = (const float *)starts_of(block->call, job_of(block))->start[0];
    const int n = start ? block->rows * block->call->hidden : 0;
    for (int i = (int)threadIdx.x; i < n; i += PERSISTENT_THREADS)
        keep_greatest(&most, start[(int64_t)block->row0 * block->call->hidden + i]);
    return most;
}

template <class DIVISION> ECO_DEVICE void load_initial_state(struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    const bool zeros = (job->starts ? job->caller_state[0] : job->state[0]) == NULL;
    float most = zeros ? 1 : gather_states<DIVISION>(block);
    if (HAS_RESETS && starts_of(block->call, job_of(block))->words)
        keep_greatest(&most, greatest_start(block));
    block->scales.state = scale_for(greatest_of_block(block, most));
    block->scales.sums *= reciprocal_pow2(block->scales.state);
    if (zeros)
        return; /* they are zero already (clear_operand) */
    for (int i = block->warp; i < share_of<DIVISION>(block)->gathered; i += PERSISTENT_WARPS) {
        uint4 *const at = &shared[block->memory.operand + i * WARP + block->lane];
        const uint4 v = piece_of_weights(at, block->scales.state);
        __syncwarp();
        put_piece<DIVISION>(at, block->lane, v);
    }
}
#elif defined(ECO_SCALED)
/* Calls use(number, value) for all existing numbers of this lane in row n of the group, for at most
 * `n_units` units from `first` on. */
template <class USE>
ECO_DEVICE void for_states(const struct block_context *block, int n, int first, int n_units,
                           USE use)
{
    const struct eco_persistent_job *job = job_of(block);
    const narrow *const state =
        (const narrow *)(job->starts ? job->caller_state[0] : job->state[0]);
    const uint32_t row_step =
        job->starts ? (uint32_t)block->call->hidden : block->call->state_row[0];
    const int there = n < block->rows ? min(block->call->hidden - first, n_units) : 0;
    for (int i = 0; i < there; i++)
        use(i, to_real(state[offset_at(block->row0 + n, row_step, first + i)]));
}

/* A row has one scale here, in all of its scale blocks. First the largest magnitude of each row is
 * stored where the scales of its first scale block belong. */
template <class DIVISION> ECO_DEVICE void load_initial_state(struct block_context *block)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    enum { RUN = 1 << DIVISION::scale_block::shift, ROUND = PIECE * 4, AT_ONCE = 4 };
    const struct eco_persistent_job *job = job_of(block);
    const int rows = block->memory.row_tiles * ECO_PERSISTENT_N, tiles = block->memory.row_tiles;
    unsigned *const most = (unsigned *)floats(block->memory.scales);
    if ((job->starts ? job->caller_state[0] : job->state[0]) == NULL)
        return; /* zero already (clear_operand) */
    for (int i = block->warp; i < (block->call->hidden + ROUND - 1) / ROUND * tiles;
         i += PERSISTENT_WARPS) {
        const int n = i % tiles * ECO_PERSISTENT_N + block->lane / 4;
        unsigned size = 0;
        for_states(block, n, i / tiles * ROUND + block->lane % 4 * PIECE, PIECE,
                   [&](int, float x) { size = larger_size(size, x); });
        atomicMax(&most[n], size);
    }
    __syncthreads();
#pragma unroll 1
    for (int i = block->warp; i < share->gathered; i += PERSISTENT_WARPS) {
        const int n = i % tiles * ECO_PERSISTENT_N + block->lane / 4;
        const float scale = scale_for(__uint_as_float(most[n]));
        operand_bits bits[PIECE] = {0};
#pragma unroll
        for (int x = 0; x < PIECE; x += AT_ONCE) {
            const int k = (share->k_block0 + i / tiles) * K_BLOCK +
                          (DIVISION::scale_block::halves ? x * 4 + block->lane % 4 * AT_ONCE
                                                         : block->lane % 4 * PIECE + x);
            const int in_scale_block = k % DIVISION::scale_block::numbers;
            for_states(block, n, k / DIVISION::scale_block::numbers * RUN + in_scale_block,
                       in_scale_block < RUN ? AT_ONCE : 0,
                       [&](int j, float v) { bits[x + j] = to_operand(scale * v); });
        }
        put_piece<DIVISION>(&shared[block->memory.operand + i * WARP + block->lane], block->lane,
                            piece_from(bits));
    }
    __syncthreads();
    for (int n = (int)threadIdx.x; n < rows; n += PERSISTENT_THREADS) {
        const float back = reciprocal_pow2(scale_for(__uint_as_float(most[n])));
        for (int b = 0; b < share->scale_blocks; b++)
            *floats(block->memory.scales + b * rows + n) = back;
    }
}
#else
/* A piece in the order of the exchange, of a row of any alignment; zeros from number `there` on. */
ECO_DEVICE uint4 piece_of_row(const narrow *row, int there)
{
    operand_bits bits[PIECE];
    __align__(16) narrow x[PIECE];
    if (there >= PIECE && (uintptr_t)row % 16 == 0)
#pragma unroll
        for (int i = 0; i < (int)(sizeof x / 16); i++)
            ((uint4 *)x)[i] = ((const uint4 *)row)[i];
    else
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            x[i] = i < there ? row[i] : to_narrow(0);
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        bits[i] = to_operand(to_real(x[i]));
    return piece_from(bits);
}

template <class DIVISION> ECO_DEVICE void load_initial_state(struct block_context *block)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    const struct eco_persistent_job *job = job_of(block);
    const narrow *state = (const narrow *)(job->starts ? job->caller_state[0] : job->state[0]);
    const uint32_t row_step =
        job->starts ? (uint32_t)block->call->hidden : block->call->state_row[0];
    const int width = state ? block->call->hidden : 0;
    if (width == 0)
        return; /* zero already (clear_operand) */
#pragma unroll 4
    for (int i = block->warp; i < share->gathered; i += PERSISTENT_WARPS) {
        const int n = i % block->memory.row_tiles * ECO_PERSISTENT_N + block->lane / 4;
        const int k =
            (share->k_block0 + i / block->memory.row_tiles) * K_BLOCK + block->lane % 4 * PIECE;
        const narrow *row = state + offset_at(block->row0 + n, row_step, 0);
        put_piece<DIVISION>(&shared[block->memory.operand + i * WARP + block->lane], block->lane,
                            in_order(piece_of_row(row + k, n < block->rows ? width - k : 0)));
    }
}
#endif

#endif /* ECO_GPU_PERSISTENT_INITIAL_STATE_CUH */
