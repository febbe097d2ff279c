/*
 * A step of a persistent kernel is a list of stages. Before a stage a block gathers what the stage
 * before it sent, and after the stage it sends what the next one needs:
 *
 *     one product     h, product | text                   (most cells)
 *     two products    h, product | text | a value, its product | text
 *     means           h, product | text | sums for means | text | sums for means ...
 *
 * Backward gathers dacc of a product's accumulators instead. With two products, both gather into
 * the same memory. Where one gathers less, the rest is left over from the same batch row and is
 * multiplied by zeros of R.
 */
#ifndef ECO_GPU_PERSISTENT_STAGES_CUH
#define ECO_GPU_PERSISTENT_STAGES_CUH

#include "gpu/persistent/gather.cuh"
#include "gpu/persistent/means_gather.cuh"
#include "gpu/persistent/product.cuh"

/* A kernel: its cell, its stages and their divisions. KEPT: a thread has at most one element, which
 * stays in registers from stage to stage; so does one that is read early. */
template <int NUMBER, int SHIFT, int CLUSTER_LOG2, int MAINLOOP, bool KEPT> struct kernel_of {
    typedef cell_traits<NUMBER> cell;
    enum {
        number = NUMBER,
        products = cell::products,
        stages = products > 1 ? (int)products : (int)means_of::stages,
        last = stages - 1
    };
    /* The product of a stage; in stages after means still the first. */
    static __device__ constexpr int product(int stage)
    {
        return stage < products ? stage : 0;
    }
    static __device__ constexpr int accs(int stage)
    {
        return product(stage) == 0 ? cell::first : cell::second;
    }
    template <int STAGE>
    using division_of =
        division<PERSISTENT_BACKWARD ? 1 : accs(STAGE), SHIFT, CLUSTER_LOG2, MAINLOOP,
                 PERSISTENT_BACKWARD ? accs(STAGE) : 1, product(STAGE), products>;
    typedef division_of<0> first;
    typedef division_of<products - 1> second; /* the first, if there is no other */
    enum { one_element = KEPT, kept = KEPT || first::reads_early };
};

/* ---- before the first step ------------------------------------------------------------------- */

/* All that a group exchanges in a step, in 16 bytes. */
template <class KERNEL> ECO_DEVICE int64_t exchanged(const struct block_context *block)
{
    int64_t pieces = sent_of<typename KERNEL::first>(block);
    if constexpr (KERNEL::products > 1)
        pieces += sent_of<typename KERNEL::second>(block);
    if constexpr (means_of::means > 0)
        pieces += sums_of_blocks<typename KERNEL::first>(block).pieces();
    return pieces;
}

/* Places the block, reads its rows of each R, and lays out shared memory. `second` is used if there
 * are two products. */
template <class KERNEL>
ECO_DEVICE void begin_block(struct block_context *block,
                            struct fragment first[KERNEL::first::k_blocks][KERNEL::first::wide],
                            struct fragment second[KERNEL::second::k_blocks][KERNEL::second::wide])
{
    typedef typename KERNEL::first first_cut;
    typedef typename KERNEL::second second_cut;
    place_warp<first_cut>(block);
    place_warp<second_cut>(block);
    block->scales = scales_of_r<first_cut, second_cut>(block);
    read_weights_in_registers<first_cut>(block, first);
    if constexpr (KERNEL::products > 1)
        read_weights_in_registers<second_cut>(block, second);
    __syncthreads();
    if constexpr (may_keep_in_shared<first_cut>())
        read_weights_in_shared<first_cut>(block);
    if constexpr (KERNEL::products > 1 && may_keep_in_shared<second_cut>())
        read_weights_in_shared<second_cut>(block);
    __syncthreads();
    block->memory = memory_of<first_cut>(block);
    begin_share<first_cut>(block);
    if constexpr (KERNEL::products > 1)
        begin_share<second_cut>(block);
    block->thread = thread_of<first_cut>(block, exchanged<KERNEL>(block));
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* From one product's part of the exchange, [steps, groups, products], to the next. */
template <class KERNEL, int PRODUCT> ECO_DEVICE void advance(struct block_context *block)
{
    enum { NEXT = (PRODUCT + 1) % KERNEL::products };
    const int64_t all = exchanged<KERNEL>(block);
    int64_t gathered = block->call->shape.groups * all, sent = gathered;
    if constexpr (KERNEL::products > 1) {
        const int64_t others = (block->call->shape.groups - 1) * all;
        gathered = sent_of<typename KERNEL::template division_of<PRODUCT>>(block) +
                   (PRODUCT == 0 ? others : 0);
        sent =
            sent_of<typename KERNEL::template division_of<NEXT>>(block) + (NEXT == 0 ? others : 0);
    }
    block->thread.sent += sent * PIECE;
    if (PRODUCT > 0 || block->step > 0)
        block->thread.received += gathered;
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* In forward.cuh and backward.cuh: reads `P` elements, from batch row n on, for a stage, runs its
 * text and sends and stores the results. `round` counts passes of the thread block over the rows.
 * A kept element is read for the first stage only, and then only what is not read early. */
template <class KERNEL, int STAGE, int P>
ECO_DEVICE void run_elements(const struct block_context *block, int n, int round,
                             struct element_of<typename KERNEL::cell> at[P]);
template <class KERNEL, int STAGE> ECO_DEVICE constexpr bool reads_elements(void)
{
    return STAGE == 0 || !KERNEL::kept;
}

/* Runs the text of a stage, and sends its sums for means. */
template <class KERNEL, int STAGE, int P>
ECO_DEVICE void run_texts(const struct block_context *block, int n,
                          struct element_of<typename KERNEL::cell> at[P])
{
    typedef typename KERNEL::template division_of<STAGE> divided;
#pragma unroll
    for (int p = 0; p < P; p++) {
        read_means<STAGE>(block, n + p * divided::element_rows, &at[p]);
        run_text<KERNEL::number, STAGE>(&at[p]);
    }
    if constexpr (means_of::means > 0 && STAGE < KERNEL::last)
#pragma unroll
        for (int p = 0; p < P; p++)
            send_sums<STAGE, divided>(block, n + p * divided::element_rows, &at[p]);
}

/* What a stage after the first waits for. */
template <class KERNEL, int STAGE>
ECO_DEVICE void begin_stage(struct block_context *block,
                            const struct fragment r[KERNEL::second::k_blocks][KERNEL::second::wide])
{
    typedef typename KERNEL::template division_of<STAGE> divided;
    if constexpr (KERNEL::products > 1)
        advance<KERNEL, STAGE - 1>(block);
    if (block->idle)
        return;
    if constexpr (KERNEL::products > 1) {
        gather<divided>(block, [] {});
        __syncthreads();
        multiply_gathered<divided>(block, r);
    } else {
        gather_means<STAGE - 1, divided>(block);
    }
}

/* Runs the stages of a step from STAGE on; the step after the last, which only backward has, ends
 * in the first of them. r: of the second product. An element that is kept is `first`. */
template <class KERNEL, int STAGE>
ECO_DEVICE void run_stages(struct block_context *block,
                           const struct fragment r[KERNEL::second::k_blocks][KERNEL::second::wide],
                           struct element_of<typename KERNEL::cell> first[1])
{
    typedef typename KERNEL::template division_of<STAGE> divided;
    if constexpr (KERNEL::kept)
        run_elements<KERNEL, STAGE, 1>(block, block->thread.n, 0, first);
    else
        for_elements<divided>(block, [&](auto elements, int n, int round) {
            enum { P = decltype(elements)::value };
            struct element_of<typename KERNEL::cell> at[P];
            run_elements<KERNEL, STAGE, P>(block, n, round, at);
        });
    if constexpr (STAGE < KERNEL::last) {
        if (PERSISTENT_BACKWARD && block->step == job_of(block)->steps)
            return;
        begin_stage<KERNEL, STAGE + 1>(block, r);
        run_stages<KERNEL, STAGE + 1>(block, r, first);
    }
}

#endif /* ECO_GPU_PERSISTENT_STAGES_CUH */
