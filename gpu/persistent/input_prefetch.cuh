/*
 * Copies the accumulators of a step (W x) to shared memory ahead of time. Each warp copies those of
 * its own threads in pieces of four floats; a batch row and an accumulator take the pieces of some
 * lanes.
 */
#ifndef ECO_GPU_PERSISTENT_INPUT_PREFETCH_CUH
#define ECO_GPU_PERSISTENT_INPUT_PREFETCH_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/elements.cuh"

/* In shared memory: [accs, elements]; [2, states, elements], alternating; biases [accs, units]. */
ECO_DEVICE int acc_at(const struct block_context *block, int i)
{
    return block->memory.rest + i * block->memory.elements;
}

template <class CELL, class DIVISION>
ECO_DEVICE int bias_at(const struct block_context *block, int i, int u)
{
    return acc_at(block, CELL::accs + 2 * CELL::states) + (i << DIVISION::shift) + u;
}

template <class CELL, class DIVISION> struct input_prefetch {
    enum {
        PIECE = 4,
        PIECES = WARP / PIECE, /* of an accumulator, in a warp */
        UNITS = 1 << DIVISION::shift,
        AT_ONCE = WARP / PIECES, /* accumulators */
        ROUNDS = (CELL::accs + AT_ONCE - 1) / AT_ONCE,
        STEPS_AHEAD = 3 /* steps by which the L2 prefetches what it may have lost */
    };
    const float *from; /* the first accumulator of this lane, in the next step */
    int to, n, first;  /* in shared memory; batch row; accumulator */
    int left;          /* steps that the L2 has not prefetched yet */

    /* step: the first one that asks. */
    __device__ __forceinline__ input_prefetch(const struct block_context *block, int step)
    {
        const int element = block->warp * WARP + block->lane % PIECES * PIECE;
        const int unit = block->unit0 + element % UNITS;
        const struct eco_persistent_job *const job = job_of(block);
        first = block->lane / PIECES;
        left = block->call->beyond_l2 ? job->steps - step - STEPS_AHEAD : 0;
        n = pinned(unit < block->call->column ? element / UNITS : block->rows);
        from = (const float *)job->acc + step * job->acc_step +
               offset_at(block->row0 + element / UNITS, block->call->acc_row,
                         first * block->call->column + unit);
        to = pinned(acc_at(block, first) + element);
    }

    /* Called by all lanes, after they have read the previous values. The copies are complete after
     * cp_async_wait_all() and a barrier of the warp. */
    __device__ __forceinline__ void ask(const struct block_context *block)
    {
        const float *row = from;
        const int64_t step = job_of(block)->acc_step;
        const bool ahead = left-- > 0;
        from += step;
        __syncwarp();
        for (int at = n, put = to;; put += PERSISTENT_THREADS) {
#pragma unroll
            for (int i = 0; i < ROUNDS; i++) {
                const int a = first + i * AT_ONCE;
                const bool there =
                    at < block->rows && a < CELL::accs && block->call->inputs >> a & 1;
                const float *const four = row + i * AT_ONCE * block->call->column;
                prefetch_l2_if(there && ahead, four + STEPS_AHEAD * step);
                cp_async_16_if(there, floats(put + i * AT_ONCE * block->memory.elements), four);
            }
            at += DIVISION::element_rows;
            if (at - n >= block->rows)
                break;
            row += DIVISION::element_rows * block->call->acc_row;
        }
    }
};

#endif /* ECO_GPU_PERSISTENT_INPUT_PREFETCH_CUH */
