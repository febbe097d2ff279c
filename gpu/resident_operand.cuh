/*
 * R as operands of matrix instructions: the part of a block, in registers and in shared memory.
 */
#if defined(SCALED_R)
#include "gpu/scaled.cuh"
#endif

/* Of two rows, 8 apart, what the matrix instructions for an item read: first one half of their
 * numbers, then the other, in each the rows in turn, as instructions take them.  In any other order
 * each instruction is preceded by four moves between registers. */
struct fragment {
    uint4 first, second;
};

WORD struct fragment fragment_of(uint4 low, uint4 high)
{
    return {make_uint4(low.x, high.x, low.y, high.y), make_uint4(low.z, high.z, low.w, high.w)};
}

WORD uint4 piece_from(const operand_bits bits[PIECE])
{
#if defined(ECO_OPERAND_PAIR)
    return in_order(make_uint4(bits[0], bits[1], bits[2], bits[3]));
#else
    return make_uint4(bits[0] | (unsigned)bits[1] << 16, bits[2] | (unsigned)bits[3] << 16,
                      bits[4] | (unsigned)bits[5] << 16, bits[6] | (unsigned)bits[7] << 16);
#endif
}

/* Neighbours of a row that begins at a multiple of 16 bytes, as operands. */
WORD uint4 operands_of(const narrow *row, float scale)
{
    const uint4 *from = (const uint4 *)row;
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
WORD uint4 read_piece(struct piece piece, float scale)
{
    const uint4 v = operands_of(piece.at, scale);
    const unsigned all = piece.there ? ~0u : 0;
    return make_uint4(v.x & all, v.y & all, v.z & all, v.w & all);
}

/* Half a fragment that this warp keeps here: the first numbers or the second. */
template <class CUT>
CELL_WORD uint4 *kept_half(const struct eco_resident_call *call, const struct share *share,
                           int item, int tile, int numbers)
{
    const struct eco_resident_part *part = call->shape.part;
    int kept = share->warp * part[CUT::product].kept + item - CUT::items;
    if constexpr (CUT::product == 1)
        kept += WARPS * part[0].kept;
    return shared + ((kept * TILES + tile) * 2 + numbers) * LANES + share->lane;
}

#if defined(SCALED_R)
WORD float greatest_of_piece(struct piece piece, float most)
{
    const float *from = (const float *)piece.at;
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        enlarge(&most, piece.there ? from[i] : 0);
    return most;
}

/* In a lane's share of R. */
template <class CUT>
CELL_WORD float greatest_of_fragments(const struct eco_resident_call *call,
                                      const struct share *share, float most)
{
    const int items = CUT::items + call->shape.part[CUT::product].kept;
#pragma unroll 2
    for (int i = 0; i < items; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                most = greatest_of_piece(piece_of<CUT>(call, share, i, t, half), most);
    return most;
}
#endif

/* Of up to two products: `SECOND` may be `FIRST`. */
template <class FIRST, class SECOND>
CELL_WORD struct scales scales_of_r(const struct eco_resident_call *call,
                                    const struct share *share_of_first,
                                    const struct share *share_of_second)
{
#if defined(SCALED_R)
    float most = greatest_of_fragments<FIRST>(call, share_of_first, 0);
    if ((int)FIRST::product != (int)SECOND::product)
        most = greatest_of_fragments<SECOND>(call, share_of_second, most);
    return {1, over(scale_for(greatest_of_block(share_of_first, most)))};
#else
    return {};
#endif
}

WORD float scale_of_r(const struct scales *scales)
{
#if defined(SCALED_R)
    return over(scales->sums);
#else
    return 1;
#endif
}

/* This block's part of R; the share of a lane: in registers and in shared memory. */
template <class CUT>
CELL_WORD void read_fragments(const struct eco_resident_call *call, const struct share *share,
                              const struct scales *scales, struct fragment r[CUT::items][TILES])
{
    const float scale = scale_of_r(scales);
    const auto read = [&](int item, int tile) {
        return fragment_of(read_piece(piece_of<CUT>(call, share, item, tile, 0), scale),
                           read_piece(piece_of<CUT>(call, share, item, tile, 1), scale));
    };
#pragma unroll
    for (int i = 0; i < CUT::items; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            r[i][t] = read(i, t);
#pragma unroll 2
    for (int i = CUT::items; i < CUT::items + call->shape.part[CUT::product].kept; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const struct fragment kept = read(i, t);
            *kept_half<CUT>(call, share, i, t, 0) = kept.first;
            *kept_half<CUT>(call, share, i, t, 1) = kept.second;
        }
}
