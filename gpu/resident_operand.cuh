/*
 * R as operands of matrix instructions: the part of a block, in registers and in shared memory.
 */
/* Of two rows, 8 apart, what the matrix instructions for an item read. */
struct fragment {
    uint4 low, high;
};

WORD uint4 piece_from(const operand_bits bits[PIECE])
{
#if defined(OPERAND_WORDS)
    return make_uint4(bits[0], bits[1], bits[2], bits[3]);
#else
    return make_uint4(bits[0] | (unsigned)bits[1] << 16, bits[2] | (unsigned)bits[3] << 16,
                      bits[4] | (unsigned)bits[5] << 16, bits[6] | (unsigned)bits[7] << 16);
#endif
}

/* Neighbours of a row that begins at a multiple of 16 bytes, as operands; pairs: as they are. */
WORD uint4 operands_of(const narrow *row)
{
    const uint4 *from = (const uint4 *)row;
#if defined(ECO_ROWS_F32) && !defined(ECO_OPERAND_PAIR)
    operand_bits bits[PIECE];
#pragma unroll
    for (int i = 0; i < PIECE / 4; i++) {
        const uint4 v = from[i];
        bits[4 * i] = to_operand(__uint_as_float(v.x));
        bits[4 * i + 1] = to_operand(__uint_as_float(v.y));
        bits[4 * i + 2] = to_operand(__uint_as_float(v.z));
        bits[4 * i + 3] = to_operand(__uint_as_float(v.w));
    }
    return piece_from(bits);
#else
    return *from;
#endif
}

/* As they are exchanged: of a row of the caller's, which begins anywhere, and zeros from the
 * `there`th on. */
WORD uint4 some_operands_of(const narrow *row, int there)
{
    operand_bits bits[PIECE];
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        bits[i] = i < there ? to_sent(to_real(row[i])) : (operand_bits)0;
    return piece_from(bits);
}

/* Row `first + 8 half` of the block's part of R, from k on; rows are filled up by zeros. */
struct piece {
    const narrow *at;
    bool there;
};

template <class CUT>
CELL_WORD struct piece piece_of(const struct eco_resident_call *call, const struct share *share,
                                int item, int tile, int half)
{
    const struct eco_resident_part *part = &call->shape.part[CUT::product];
    const int taken = share->across * part->items + item;
    const int k = (share->item0 + taken) * ITEM + share->lane % 4 * PIECE;
    const int r = (share->down * TILES + tile) * ECO_RESIDENT_M + half * 8 + share->lane / 4;
    const int owner = r / CUT::own - share->rank, own = r % CUT::own; /* of the row */
    const int unit = share->unit0 + (owner << CUT::shift) + (own & ((1 << CUT::shift) - 1));
    const int group = own >> CUT::shift;
    const bool there = r < CUT::rows && taken < part->slice && unit < call->hidden &&
                       k < call->width[CUT::product];
    const narrow *const first = (const narrow *)call->job[share->job].recurrent[CUT::product];
    struct piece piece = {first, there};
    if (there)
        piece.at =
            first + ((int64_t)group * call->column + unit) * call->recurrent_row[CUT::product] + k;
    return piece;
}

/* What is not there is read from where something is: no branches, so that reads need not wait for
 * each other. */
WORD uint4 read_piece(struct piece piece)
{
    const uint4 v = operands_of(piece.at);
    const unsigned all = piece.there ? ~0u : 0;
    return make_uint4(v.x & all, v.y & all, v.z & all, v.w & all);
}

/* Half a fragment that this warp keeps here: rows of a tile, or those 8 below. */
template <class CUT>
CELL_WORD uint4 *kept_half(const struct eco_resident_call *call, const struct share *share,
                           int item, int tile, int half)
{
    const struct eco_resident_part *part = call->shape.part;
    int kept = share->warp * part[CUT::product].kept + item - CUT::items;
    if constexpr (CUT::product == 1)
        kept += WARPS * part[0].kept;
    return shared + ((kept * TILES + tile) * 2 + half) * LANES + share->lane;
}

/* This block's part of R; the share of a lane: in registers and in shared memory. */
template <class CUT>
CELL_WORD void read_fragments(const struct eco_resident_call *call, const struct share *share,
                              struct fragment r[CUT::items][TILES])
{
    const auto read = [&](int item, int tile, int half) {
        return read_piece(piece_of<CUT>(call, share, item, tile, half));
    };
#pragma unroll
    for (int i = 0; i < CUT::items; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            r[i][t].low = read(i, t, 0);
            r[i][t].high = read(i, t, 1);
        }
#pragma unroll 2
    for (int i = CUT::items; i < CUT::items + call->shape.part[CUT::product].kept; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *kept_half<CUT>(call, share, i, t, half) = read(i, t, half);
}

#if defined(ECO_OPERAND_PAIR)
#include "gpu/pair.cuh"
#else
/* They are what they are to be. */
template <class FIRST, class SECOND>
CELL_WORD struct scales finish_fragments(const struct eco_resident_call *call,
                                         const struct share *share,
                                         struct fragment first[FIRST::items][TILES],
                                         struct fragment second[SECOND::items][TILES])
{
    return {};
}
#endif
