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

/* Neighbours of a row as operands. */
WORD uint4 operands_of(const uint4 *from, float scale)
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

/* The rows of R of a lane: of its warp's tiles those 8 apart that make a fragment, each from the
 * first item of the warp on, and how many items of it there are. */
struct rows_of_r {
    const narrow *row[TILES][2];
    int items[TILES][2];
};

template <class CUT>
CELL_WORD struct rows_of_r rows_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_part *part = &call->shape.part[CUT::product];
    const narrow *const r = (const narrow *)call->job[share->job].recurrent[CUT::product];
    struct rows_of_r rows;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        const int first = across_of<CUT>(share, t) * part->items;
        const int k = (share->item0 + first) * ITEM + share->lane % 4 * PIECE;
        const int items = min(min(part->items, part->slice - first),
                              (call->width[CUT::product] - k + ITEM - 1) / ITEM);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = down_of<CUT>(share, t) * ECO_RESIDENT_M + half * 8 + share->lane / 4;
            const int owner = at / CUT::own - share->rank, own = at % CUT::own; /* of the row */
            const int unit = share->unit0 + (owner << CUT::shift) + (own & ((1 << CUT::shift) - 1));
            const int64_t row = (int64_t)(own >> CUT::shift) * call->column + unit;
            const bool there = at < CUT::rows && unit < call->hidden && items > 0;
            rows.items[t][half] = there ? items : 0;
            rows.row[t][half] = r + (there ? row * call->recurrent_row[CUT::product] + k : 0);
        }
    }
    return rows;
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

/* Where four warps keep 64 rows of an item together, as they have those of the batch. */
template <class CUT>
CELL_WORD uint4 *kept_square(const struct eco_resident_call *call, const struct share *share,
                             int item, int tile)
{
    const int kept = share->warp / FOUR * call->shape.part[CUT::product].kept + item - CUT::items;
    return shared + (kept * TILES + tile) * FOUR * 2 * LANES;
}

template <class CUT>
CELL_WORD void keep_fragment(const struct eco_resident_call *call, const struct share *share,
                             int item, int tile, const struct fragment *v)
{
    if (!CUT::square) {
        *kept_half<CUT>(call, share, item, tile, 0) = v->first;
        *kept_half<CUT>(call, share, item, tile, 1) = v->second;
        return;
    }
    uint4 *const to =
        kept_square<CUT>(call, share, item, tile) + share->warp % FOUR * 2 * LANES + share->lane;
    put_words(to, share->lane, make_uint4(v->first.x, v->first.z, v->second.x, v->second.z));
    put_words(to + LANES, share->lane,
              make_uint4(v->first.y, v->first.w, v->second.y, v->second.w));
}

/* ---- on its way ------------------------------------------------------------------------------ */

/* Items of a lane come as they are to shared memory, each lane's to places of its own, some while
 * another becomes fragments there: through registers they came one after the other, which took two
 * to four times as long, and steps lacked the registers that this took. */
enum {
    RAW = PIECE * sizeof(narrow) / 16, /* of 16 bytes that become a piece */
    PLACES = TILES * 2,                /* of an item, of two pieces */
    ITEM_PLACES = PLACES * RAW * LANES * WARPS,
    AT_LEAST = ECO_RESIDENT_READ_BYTES / 16 / ITEM_PLACES /* items that there is room for */
};

/* A lane's `n` items from item `first` on; each to [tiles, 2, raw, lanes] of 16 bytes, from `place`
 * on. */
struct items_of_r {
    const struct rows_of_r *rows;
    int first, n, place;
};

/* To the so manyth place.  What is no part of R is zeros. */
WORD void ask_for_item(const struct items_of_r *items, int i, int at)
{
#pragma unroll
    for (int x = 0; x < PLACES && i < items->n; x++) {
        const int item = items->first + i, to = items->place + (at * PLACES + x) * RAW * LANES;
        const uint4 *const from = (const uint4 *)(items->rows->row[x / 2][x % 2] + item * ITEM);
#pragma unroll
        for (int k = 0; k < RAW; k++)
            copy_four_or_zeros(item < items->rows->items[x / 2][x % 2], &shared[to + k * LANES],
                               from + k);
    }
    end_group_of_copies();
}

/* Calls use(i, where) when item i is there, while some more are on their way.  It is at the ith
 * place; or so many places are taken in turn. */
enum { AHEAD = AT_LEAST };
template <int SO_MANY, class USE>
CELL_WORD void bring_items(const struct items_of_r *items, USE use)
{
    const auto at = [](int i) { return SO_MANY > 0 ? i % SO_MANY : i; };
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++)
        ask_for_item(items, i, at(i));
#pragma unroll 1
    for (int i = 0; i < items->n; i++) {
        wait_for_groups<AHEAD - 1>();
        use(i, items->place + at(i) * PLACES * RAW * LANES);
        ask_for_item(items, i + AHEAD, at(i + AHEAD));
    }
    wait_for_copies();
}

/* Rows in 16 bits are there as they are, others as fragments, [n, tiles, 2, lanes]. */
WORD void bring_fragments(const struct items_of_r *items, float scale)
{
    bring_items<0>(items, [&](int i, int from) {
#if defined(ECO_ROWS_F32)
        struct fragment v[TILES];
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            uint4 piece[2][RAW];
#pragma unroll
            for (int x = 0; x < 2 * RAW; x++)
                piece[x / RAW][x % RAW] = shared[from + (t * 2 * RAW + x) * LANES];
            v[t] = fragment_of(operands_of(piece[0], scale), operands_of(piece[1], scale));
        }
#pragma unroll
        for (int x = 0; x < PLACES; x++)
            shared[items->place + (i * PLACES + x) * LANES] =
                x % 2 ? v[x / 2].second : v[x / 2].first;
#endif
    });
}

WORD struct fragment brought_fragment(int at)
{
#if defined(ECO_ROWS_F32)
    return {shared[at], shared[at + LANES]};
#else
    return fragment_of(shared[at], shared[at + LANES]);
#endif
}

#if defined(SCALED_R)
/* In a lane's share of R. */
template <class CUT>
CELL_WORD float greatest_of_fragments(const struct eco_resident_call *call,
                                      const struct share *share, float most)
{
    const struct rows_of_r rows = rows_of<CUT>(call, share);
    const struct items_of_r items = {&rows, 0, call->shape.part[CUT::product].items,
                                     share->warp * AHEAD * PLACES * RAW * LANES + share->lane};
    bring_items<AHEAD>(&items, [&](int, int from) {
#pragma unroll
        for (int x = 0; x < PLACES * RAW; x++) {
            const uint4 v = shared[from + x * LANES];
            enlarge(&most, __uint_as_float(v.x));
            enlarge(&most, __uint_as_float(v.y));
            enlarge(&most, __uint_as_float(v.z));
            enlarge(&most, __uint_as_float(v.w));
        }
    });
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

/* The items that registers hold, by way of all of shared memory. */
template <class CUT>
CELL_WORD void read_held(const struct eco_resident_call *call, const struct share *share,
                         const struct scales *scales, struct fragment r[CUT::items][TILES])
{
    const struct rows_of_r rows = rows_of<CUT>(call, share);
    const int room = (int)(call->shape.shared_bytes / 16) / ITEM_PLACES / AT_LEAST * AT_LEAST;
    const int some = room < CUT::items ? room : CUT::items; /* at a time */
    const int place = share->warp * some * PLACES * RAW * LANES + share->lane;
    int at = some; /* item in hand of those */
#pragma unroll
    for (int i = 0; i < CUT::items; i++, at++) {
        if (i % AT_LEAST == 0 && at == some) {
            const int left = call->shape.part[CUT::product].items - i;
            const struct items_of_r items = {&rows, i, min(some, left), place};
            bring_fragments(&items, scale_of_r(scales));
            at = 0;
        }
#pragma unroll
        for (int t = 0; t < TILES; t++)
            r[i][t] = brought_fragment(place + (at * TILES + t) * 2 * LANES);
    }
}

/* Those that shared memory keeps, by way of what nothing is kept in. */
template <class CUT>
CELL_WORD void read_kept(const struct eco_resident_call *call, const struct share *share,
                         const struct scales *scales)
{
    const struct rows_of_r rows = rows_of<CUT>(call, share);
    const int kept = call->shape.part[CUT::product].kept, other = kept_pieces(&call->shape);
    const int some = ((int)(call->shape.shared_bytes / 16) - other) / ITEM_PLACES; /* at a time */
    const int place = other + share->warp * some * PLACES * RAW * LANES + share->lane;
#pragma unroll 1
    for (int first = 0; first < kept; first += some) {
        const int n = min(some, kept - first);
        const struct items_of_r items = {&rows, CUT::items + first, n, place};
        bring_fragments(&items, scale_of_r(scales));
#pragma unroll 1
        for (int i = 0; i < n; i++)
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const struct fragment v = brought_fragment(place + (i * TILES + t) * 2 * LANES);
                keep_fragment<CUT>(call, share, CUT::items + first + i, t, &v);
            }
    }
}

/* This block's part of R. */
template <class CUT>
CELL_WORD void read_fragments(const struct eco_resident_call *call, const struct share *share,
                              const struct scales *scales, struct fragment r[CUT::items][TILES])
{
    read_held<CUT>(call, share, scales, r);
    __syncthreads();
    read_kept<CUT>(call, share, scales);
    __syncthreads();
}
