/*
 * R as operands of matrix instructions: a block's rows, in registers and in shared memory.
 */
#ifndef ECO_GPU_PERSISTENT_WEIGHTS_CUH
#define ECO_GPU_PERSISTENT_WEIGHTS_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/block_scales.cuh"

/* What the matrix instructions of a k block read of two rows, 8 apart: first one half of their
 * numbers, then the other, alternating between the rows. Any other order costs four register moves
 * for each instruction. */
struct fragment {
    uint4 first, second;
};

ECO_DEVICE struct fragment fragment_of(uint4 low, uint4 high)
{
    return {make_uint4(low.x, high.x, low.y, high.y), make_uint4(low.z, high.z, low.w, high.w)};
}

ECO_DEVICE uint4 piece_from(const operand_bits bits[PIECE])
{
#if defined(ECO_OPERAND_PAIR)
    return in_order(make_uint4(bits[0], bits[1], bits[2], bits[3]));
#else
    return make_uint4(bits[0] | (unsigned)bits[1] << 16, bits[2] | (unsigned)bits[3] << 16,
                      bits[4] | (unsigned)bits[5] << 16, bits[6] | (unsigned)bits[7] << 16);
#endif
}

/* Consecutive numbers of a row as operands. */
ECO_DEVICE uint4 piece_of_weights(const uint4 *from, float scale)
{
#if defined(ECO_ROWS_F32)
    operand_bits bits[PIECE];
#pragma unroll
    for (int i = 0; i < PIECE / 4; i++) {
        const uint4 v = from[i];
        bits[4 * i] = to_operand(scale * __uint_as_float(v.x));
        bits[4 * i + 1] = to_operand(scale * __uint_as_float(v.y));
        bits[4 * i + 2] = to_operand(scale * __uint_as_float(v.z));
        bits[4 * i + 3] = to_operand(scale * __uint_as_float(v.w));
    }
    return piece_from(bits);
#else
    return *from;
#endif
}

/* The rows of R of a lane: for each of its warp's tiles the two, 8 apart, that form a fragment, and
 * the number of the warp's k blocks. */
template <class DIVISION> struct rows_of_r {
    const narrow *row[DIVISION::wide][2];
    int k_blocks[DIVISION::wide][2];
    int first[DIVISION::wide]; /* k blocks of the rows before this warp's */
};

template <class DIVISION>
ECO_DEVICE struct rows_of_r<DIVISION> rows_of(const struct block_context *block) {
    const struct product_share *const share = share_of<DIVISION>(block);
    const struct eco_persistent_product *part = product_of<DIVISION>(block);
    const narrow *const r = (const narrow *)job_of(block)->recurrent[DIVISION::product];
    struct rows_of_r<DIVISION> rows;
#pragma unroll
    for (int t = 0; t < DIVISION::wide; t++) {
        const int first = across_of<DIVISION>(block, t) * part->k_blocks;
        const int k_blocks = min(min(part->k_blocks, part->slice - first),
                                 part->k / K_BLOCK - share->k_block0 - first);
        rows.first[t] = share->k_block0 + first;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at =
                down_of<DIVISION>(block, t) * ECO_PERSISTENT_M + half * 8 + block->lane / 4;
            const int owner = at / DIVISION::own - block->rank,
                      own = at % DIVISION::own; /* of the row */
            const int unit =
                block->unit0 + (owner << DIVISION::shift) + (own & ((1 << DIVISION::shift) - 1));
            const int64_t row = (int64_t)(own >> DIVISION::shift) * block->call->column + unit;
            const bool there = at < DIVISION::rows && unit < block->call->hidden && k_blocks > 0;
            rows.k_blocks[t][half] = there ? k_blocks : 0;
            rows.row[t][half] =
                r + (there ? row * block->call->recurrent_row[DIVISION::product] : 0);
        }
    }
    return rows;
}

/* Position in a row of R of the xth 16 bytes of a lane's piece of a k block; -1: padding. */
template <class DIVISION>
ECO_DEVICE int column_of(const struct block_context *block, int k_block, int x)
{
    enum { OF_RAW = 16 / sizeof(narrow), HALF = K_BLOCK / 2 };
    const int quarter = block->lane % 4, shift = DIVISION::scale_block::shift;
    const int k =
        k_block * K_BLOCK + (DIVISION::scale_block::halves ? x * HALF + quarter * (HALF / 4)
                                                           : quarter * PIECE + x * OF_RAW);
    if (!K_BLOCK_SCALES)
        return k < block->call->width[DIVISION::product] ? k : -1;
    const int in_scale_block = k % (int)DIVISION::scale_block::numbers,
              run = in_scale_block >> shift,
              unit = (k / (int)DIVISION::scale_block::numbers << shift) +
                     (in_scale_block & ((1 << shift) - 1));
    return run < DIVISION::scale_block::runs && unit < block->call->hidden
               ? run * block->call->column + unit
               : -1;
}

/* The part of a fragment that this warp keeps in shared memory: its first or second numbers. */
template <class DIVISION>
ECO_DEVICE uint4 *half_in_shared(const struct block_context *block, int k_block, int tile, int half)
{
    const struct eco_persistent_product *part = block->call->shape.product;
    int kept = block->warp * part[DIVISION::product].in_shared + k_block - DIVISION::k_blocks;
    if constexpr (DIVISION::product == 1)
        kept += PERSISTENT_WARPS * part[0].in_shared;
    return shared + ((kept * TILES + tile) * 2 + half) * WARP + block->lane;
}

/* Position of 64 rows of a k block that four warps share, ordered like the batch. */
template <class DIVISION>
ECO_DEVICE uint4 *wgmma_in_shared(const struct block_context *block, int k_block, int tile)
{
    const int kept = block->warp / WARPGROUP * product_of<DIVISION>(block)->in_shared + k_block -
                     DIVISION::k_blocks;
    return shared + (kept * TILES + tile) * WARPGROUP * 2 * WARP;
}

template <class DIVISION>
ECO_DEVICE void put_fragment(const struct block_context *block, int k_block, int tile,
                             const struct fragment *v)
{
    if (!DIVISION::wgmma) {
        *half_in_shared<DIVISION>(block, k_block, tile, 0) = v->first;
        *half_in_shared<DIVISION>(block, k_block, tile, 1) = v->second;
        return;
    }
    uint4 *const to = wgmma_in_shared<DIVISION>(block, k_block, tile) +
                      block->warp % WARPGROUP * 2 * WARP + block->lane;
    put_words(to, block->lane, make_uint4(v->first.x, v->first.z, v->second.x, v->second.z));
    put_words(to + WARP, block->lane, make_uint4(v->first.y, v->first.w, v->second.y, v->second.w));
}

/* ---- loading R ------------------------------------------------------------------------------- */

/* R passes through shared memory: each lane copies its k blocks there and forms fragments of some
 * while others are in flight. Through registers the copies were serialized, which took two to four
 * times as long, and left fewer registers to the steps. */
enum { RAW = PIECE * sizeof(narrow) / 16 /* reads of 16 bytes that become a piece */ };
template <class DIVISION> struct loading {
    enum {
        SLOTS = DIVISION::wide * 2, /* in a k block, of two pieces */
        K_BLOCK_SLOTS = SLOTS * RAW * WARP * PERSISTENT_WARPS,
        AHEAD = ECO_PERSISTENT_READ_BYTES / 16 / K_BLOCK_SLOTS /* k blocks that fit */
    };
};

/* A lane's `n` k blocks from `first` on, copied to [tiles, 2, raw, lanes] from `place` on. */
template <class DIVISION> struct k_blocks_of_r {
    const struct block_context *block;
    const struct rows_of_r<DIVISION> *rows;
    int first, n, place;
};

/* Starts to copy k block i to slot `at`. Padding of R becomes zeros. */
template <class DIVISION>
ECO_DEVICE void request_k_block(const struct k_blocks_of_r<DIVISION> *k_blocks, int i, int at)
{
#pragma unroll
    for (int x = 0; x < loading<DIVISION>::SLOTS && i < k_blocks->n; x++) {
        const int k_block = k_blocks->first + i,
                  to = k_blocks->place + (at * loading<DIVISION>::SLOTS + x) * RAW * WARP;
        const bool row = k_block < k_blocks->rows->k_blocks[x / 2][x % 2];
        const narrow *const from = k_blocks->rows->row[x / 2][x % 2];
#pragma unroll
        for (int k = 0; k < RAW; k++) {
            const int column =
                column_of<DIVISION>(k_blocks->block, k_blocks->rows->first[x / 2] + k_block, k);
            cp_async_16_or_zeros(row && column >= 0, &shared[to + k * WARP],
                                 from + (column >= 0 ? column : 0));
        }
    }
    cp_async_commit();
}

/* Calls use(i, where) when k block i has arrived, while more are in flight. There is a slot for
 * each, or IN_TURN slots are used in turn. */
template <class DIVISION, int IN_TURN, class USE>
ECO_DEVICE void load_k_blocks(const struct k_blocks_of_r<DIVISION> *k_blocks, USE use)
{
    const auto at = [](int i) { return IN_TURN > 0 ? i % IN_TURN : i; };
    enum { AHEAD = loading<DIVISION>::AHEAD };
#pragma unroll 1
    for (int asked = 0; asked < k_blocks->n + AHEAD; asked++) {
        const int i = asked - AHEAD;
        if (i >= 0) {
            cp_async_wait<AHEAD - 1>();
            use(i, k_blocks->place + at(i) * loading<DIVISION>::SLOTS * RAW * WARP);
        }
        request_k_block<DIVISION>(k_blocks, asked, at(asked));
    }
    cp_async_wait_all();
}

/* Rows of 16 bits stay as they are, others become fragments, [n, tiles, 2, lanes]. */
template <class DIVISION>
ECO_DEVICE void load_fragments(const struct k_blocks_of_r<DIVISION> *k_blocks, float scale)
{
    load_k_blocks<DIVISION, 0>(k_blocks, [&](int i, int from) {
#if defined(ECO_ROWS_F32)
        struct fragment v[DIVISION::wide];
#pragma unroll
        for (int t = 0; t < DIVISION::wide; t++) {
            uint4 piece[2][RAW];
#pragma unroll
            for (int x = 0; x < 2 * RAW; x++)
                piece[x / RAW][x % RAW] = shared[from + (t * 2 * RAW + x) * WARP];
            v[t] =
                fragment_of(piece_of_weights(piece[0], scale), piece_of_weights(piece[1], scale));
        }
#pragma unroll
        for (int x = 0; x < loading<DIVISION>::SLOTS; x++)
            shared[k_blocks->place + (i * loading<DIVISION>::SLOTS + x) * WARP] =
                x % 2 ? v[x / 2].second : v[x / 2].first;
#endif
    });
}

ECO_DEVICE struct fragment loaded_fragment(int at)
{
#if defined(ECO_ROWS_F32)
    return {shared[at], shared[at + WARP]};
#else
    return fragment_of(shared[at], shared[at + WARP]);
#endif
}

#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
/* The greatest magnitude in a lane's share of R. */
template <class DIVISION>
ECO_DEVICE float greatest_of_fragments(const struct block_context *block, float most)
{
    const struct rows_of_r<DIVISION> rows = rows_of<DIVISION>(block);
    const struct k_blocks_of_r<DIVISION> k_blocks = {
        block, &rows, 0, product_of<DIVISION>(block)->k_blocks,
            block->warp *loading<DIVISION>::AHEAD *loading<DIVISION>::SLOTS *RAW *WARP + block->lane
    };
    load_k_blocks<DIVISION, loading<DIVISION>::AHEAD>(&k_blocks, [&](int, int from) {
#pragma unroll
        for (int x = 0; x < loading<DIVISION>::SLOTS * RAW; x++) {
            const uint4 v = shared[from + x * WARP];
            keep_greatest(&most, __uint_as_float(v.x));
            keep_greatest(&most, __uint_as_float(v.y));
            keep_greatest(&most, __uint_as_float(v.z));
            keep_greatest(&most, __uint_as_float(v.w));
        }
    });
    return most;
}
#endif

/* The scales of all products: one for every R. */
template <class FIRST, class SECOND>
ECO_DEVICE struct scales scales_of_r(const struct block_context *block)
{
#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
    float most = greatest_of_fragments<FIRST>(block, 0);
    if ((int)FIRST::product != (int)SECOND::product)
        most = greatest_of_fragments<SECOND>(block, most);
    return {1, reciprocal_pow2(scale_for(greatest_of_block(block, most)))};
#else
    return {};
#endif
}

ECO_DEVICE float scale_of_r(const struct scales *scales)
{
#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
    return reciprocal_pow2(scales->sums);
#else
    return 1;
#endif
}

/* Reads the k blocks that stay in registers, through all of shared memory. */
template <class DIVISION>
ECO_DEVICE void read_weights_in_registers(const struct block_context *block,
                                          struct fragment r[DIVISION::k_blocks][DIVISION::wide])
{
    const struct rows_of_r<DIVISION> rows = rows_of<DIVISION>(block);
    const int room = (int)(block->call->shape.shared_bytes / 16) /
                     loading<DIVISION>::K_BLOCK_SLOTS / loading<DIVISION>::AHEAD *
                     loading<DIVISION>::AHEAD;
    const int some = room < DIVISION::k_blocks ? room : DIVISION::k_blocks; /* at a time */
    const int place = block->warp * some * loading<DIVISION>::SLOTS * RAW * WARP + block->lane;
    int at = some; /* k block in hand of those */
#pragma unroll     /* else a step copies registers before every mma */
    for (int i = 0; i < DIVISION::k_blocks; i++, at++) {
        if (i % loading<DIVISION>::AHEAD == 0 && at == some) {
            const int left = product_of<DIVISION>(block)->k_blocks - i;
            const struct k_blocks_of_r<DIVISION> k_blocks = {
                block, &rows, i, min(some, left), place
            };
            load_fragments<DIVISION>(&k_blocks, scale_of_r(&block->scales));
            at = 0;
        }
#pragma unroll
        for (int t = 0; t < DIVISION::wide; t++)
            r[i][t] = loaded_fragment(place + (at * DIVISION::wide + t) * 2 * WARP);
    }
}

/* Reads the k blocks that stay in shared memory, through the rest of it. */
template <class DIVISION> ECO_DEVICE void read_weights_in_shared(const struct block_context *block)
{
    const struct rows_of_r<DIVISION> rows = rows_of<DIVISION>(block);
    const int kept = product_of<DIVISION>(block)->in_shared,
              other = pieces_in_shared(&block->call->shape);
    const int some = ((int)(block->call->shape.shared_bytes / 16) - other) /
                     loading<DIVISION>::K_BLOCK_SLOTS; /* at a time */
    const int place =
        other + block->warp * some * loading<DIVISION>::SLOTS * RAW * WARP + block->lane;
#pragma unroll 1
    for (int first = 0; first < kept; first += some) {
        const int n = min(some, kept - first);
        const struct k_blocks_of_r<DIVISION> k_blocks = {
            block, &rows, DIVISION::k_blocks + first, n, place
        };
        load_fragments<DIVISION>(&k_blocks, scale_of_r(&block->scales));
#pragma unroll 1
        for (int i = 0; i < n; i++)
#pragma unroll
            for (int t = 0; t < DIVISION::wide; t++) {
                const struct fragment v =
                    loaded_fragment(place + (i * DIVISION::wide + t) * 2 * WARP);
                put_fragment<DIVISION>(block, DIVISION::k_blocks + first + i, t, &v);
            }
    }
}

#endif /* ECO_GPU_PERSISTENT_WEIGHTS_CUH */
