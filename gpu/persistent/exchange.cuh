/*
 * The exchange between blocks, seen by a block that waits. Each number is written once, by one
 * thread. Until then all of its bits are set (exchange_init.cu), and no number that is sent has
 * that value. So each word shows whether it has been written, and no order among words is needed.
 */
#ifndef ECO_GPU_PERSISTENT_EXCHANGE_CUH
#define ECO_GPU_PERSISTENT_EXCHANGE_CUH

#include "gpu/arch/memory.cuh"
#include "gpu/persistent/block.cuh"

/* Is a number in the word still all ones? */
ECO_DEVICE unsigned is_unwritten(unsigned word)
{
#if defined(ECO_OPERAND_PAIR)
    return word == 0xFFFFFFFF;
#else
    const unsigned zero = ~word;
    return (zero - 0x00010001u) & ~zero & 0x80008000u;
#endif
}

/* For many words: note each, then test `seen`. An unwritten number is the greatest possible one, so
 * keeping the greatest suffices. */
ECO_DEVICE void note_word(unsigned *seen, unsigned word)
{
#if defined(ECO_OPERAND_PAIR)
    *seen = word > *seen ? word : *seen;
#elif __CUDA_ARCH__ >= 900
    *seen = max_of_halves(*seen, word);
#else
    *seen |= is_unwritten(word) ? ~0u : 0;
#endif
}

/* Counts unsuccessful reads. False from the timeout on, or when another block gave up. */
enum { NOT_YET = 0, GIVEN_UP = 1, OTHER_TIMES = 2 };

ECO_DEVICE bool keep_waiting(struct block_context *block)
{
    struct spin_timeout *const spin_timeout = &block->spin_timeout;
    const struct eco_persistent_call *const call = block->call;
    enum { LOOK_EVERY = 1 << 12, UNIT = 16 };
    if (++spin_timeout->tries % LOOK_EVERY != 0)
        return spin_timeout->until != GIVEN_UP;
    const unsigned time = (unsigned)(global_time() >> UNIT);
    if (spin_timeout->until == NOT_YET)
        spin_timeout->until = (time + (unsigned)(call->spin_timeout >> UNIT)) | OTHER_TIMES;
    if ((int)(time - spin_timeout->until) > 0)
        *(volatile unsigned *)call->failed = 1;
    if (*(volatile unsigned *)call->failed != 0)
        spin_timeout->until = GIVEN_UP;
    return spin_timeout->until != GIVEN_UP;
}

/* True in all lanes of the warp or in none. */
ECO_DEVICE bool warp_agrees(bool lane)
{
    return __all_sync(0xffffffffu, lane) != 0;
}

/* Repeats the N reads of 16 bytes until none of them has an unwritten number, in any lane of the
 * warp. After a timeout the mark is left as it is: a NaN, which makes every later result NaN. */
template <int N, class ASK>
ECO_DEVICE void wait_until_written(struct block_context *block, const uint4 (&v)[N], ASK ask)
{
    for (;;) {
        unsigned seen[2] = {0, 0}; /* two independent chains */
#pragma unroll
        for (int i = 0; i < N; i++) {
            note_word(&seen[0], v[i].x);
            note_word(&seen[1], v[i].y);
            note_word(&seen[0], v[i].z);
            note_word(&seen[1], v[i].w);
        }
        note_word(&seen[0], seen[1]);
        if (warp_agrees(!is_unwritten(seen[0]) || !keep_waiting(block)))
            return;
        ask();
    }
}

#endif /* ECO_GPU_PERSISTENT_EXCHANGE_CUH */
