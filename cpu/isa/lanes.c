/*
 * Fills vectors of panels from the rows of a parameter (common/plan/lanes.h), compiled once for
 * each instruction set. Moves words of 32 bits, which are floats or pairs of BF16: whole vectors
 * where possible, everything else through a copy.
 */
#include "common/plan/lanes.h"

#include "common/util.h"
#include "cpu/isa/isa.h"

#include "cpu/isa/vec.h"
#include "cpu/isa/vec_narrow.h"
#include "cpu/isa/vec_transpose.h"

enum { GROUP = ECO_LANES_GROUP, GROUP_LINES = GROUP / 2 };
enum { LINE = VEC_LANES * sizeof(uint32_t), VECTOR = GROUP_LINES * LINE };
/* Rows are far apart and the hardware prefetches few of them, so their next lines are
 * prefetched. */
enum { CACHE_LINE = 64, WORDS = CACHE_LINE / sizeof(uint32_t), TOGETHER = CACHE_LINE / LINE };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static const char *element_of(const struct eco_lanes_source *source, size_t row, size_t column)
{
    return source->data + (row * source->cols + column) * eco_type_bytes(source->type);
}

/* The k of a row's first element. */
static size_t first_k(const struct eco_lanes_source *source, size_t row)
{
    return source->head > 0 ? (source->unit + row) / source->head * source->cols : 0;
}

/* low and, in the upper halves, high, rounded. */
ALWAYS_INLINE vecu pairs_of(vecu low, vecu high)
{
    return (v_rounded((vec)high) & 0xffff0000u) | v_rounded((vec)low) >> 16;
}

ALWAYS_INLINE void put_line(char *to, vecu line, const bool rounded)
{
    if (rounded)
        line = v_rounded((vec)line) & 0xffff0000u;
    memcpy(to, &line, sizeof line);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Words of rows that are `row` bytes apart; their lines go `stride` bytes apart. */
struct transposition {
    char *to;
    size_t stride;
    const char *from;
    size_t row;
};

ALWAYS_INLINE void fetch_rows(const char *from, size_t row, const size_t rows)
{
#pragma GCC unroll 4
    for (size_t u = 0; u < rows; u++, from += row)
        ECO_FETCH_NEAR(from);
}

/* As many words as are fetched at a time, for `vectors` vectors. */
ALWAYS_INLINE void transpose_words(const struct transposition *at, const size_t vectors,
                                   const bool rounded)
{
    const size_t stride = at->stride, row = at->row;
    const char *from = at->from;
    char *to = at->to;
    fetch_rows(from + CACHE_LINE, row, vectors * VEC_LANES);
#pragma GCC unroll 1 /* if unrolled, the addresses of all rows do not fit in registers */
    for (size_t k = 0; k < WORDS;
         k += ECO_SIMD4, from += sizeof(eco_simd4), to += ECO_SIMD4 * stride)
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++) {
            vecu line[ECO_SIMD4];
            v_transpose(line, from + v * VEC_LANES * row, row);
#pragma GCC unroll 4
            for (size_t i = 0; i < ECO_SIMD4; i++)
                put_line(to + i * stride + v * LINE, line[i], rounded);
        }
}

/* The first n words, which takes longer. */
static void transpose_some_words(const struct transposition *at, size_t n, bool rounded)
{
    for (size_t k = 0; k < n; k += ECO_SIMD4) {
        vecu line[ECO_SIMD4];
        v_transpose(line, at->from + k * sizeof(uint32_t), at->row);
        for (size_t i = 0; i < least(n - k, ECO_SIMD4); i++)
            put_line(at->to + (k + i) * at->stride, line[i], rounded);
    }
}

/* A group of floats as pairs. */
ALWAYS_INLINE void transpose_floats(const struct transposition *at)
{
    const char *from = at->from;
    char *to = at->to;
    fetch_rows(from + GROUP * sizeof(float), at->row, VEC_LANES);
    fetch_rows(from + GROUP * sizeof(float) + CACHE_LINE, at->row, VEC_LANES);
#pragma GCC unroll 1
    for (size_t k = 0; k < GROUP; k += ECO_SIMD4, from += sizeof(eco_simd4), to += 2 * LINE) {
        vecu line[ECO_SIMD4];
        v_transpose(line, from, at->row);
        put_line(to, pairs_of(line[0], line[1]), false);
        put_line(to + LINE, pairs_of(line[2], line[3]), false);
    }
}

/* The type in which rows are transposed: BF16 if both sides have it, else F32. */
static ecornn_type transposed_type(const struct eco_lanes *lanes,
                                   const struct eco_lanes_source *source)
{
    return lanes->type == ECORNN_BF16 && source->type == ECORNN_BF16 ? ECORNN_BF16 : ECORNN_F32;
}

/* k that are transposed at a time. */
static size_t transposed_k(const struct eco_lanes *lanes)
{
    return lanes->type == ECORNN_F32 ? WORDS : GROUP;
}

/* The next k of a vector. type: of the rows. */
static void transpose_k(const struct eco_lanes *lanes, const struct transposition *at,
                        ecornn_type type)
{
    if (lanes->type == ECORNN_BF16 && type == ECORNN_F32)
        transpose_floats(at);
    else if (lanes->rounded)
        transpose_words(at, 1, true);
    else
        transpose_words(at, 1, false);
}

/* Vector v's lines from k on. */
static struct transposition transposition_of(const struct eco_lanes *lanes, size_t v, size_t k)
{
    if (lanes->type == ECORNN_F32)
        return (struct transposition){.to = lanes->to + k * lanes->stride + v * LINE,
                                      .stride = lanes->stride};
    return (struct transposition){.to = lanes->to + k / GROUP * lanes->stride + v * VECTOR,
                                  .stride = LINE};
}

/* n elements of a row from k on. */
static void copy_some(void *to, ecornn_type type, const struct eco_lanes_source *source, size_t row,
                      size_t k, size_t n)
{
    const size_t begin = first_k(source, row), end = begin + source->cols;
    const size_t from = k < begin ? begin : k, until = least(k + n, end);
    if (from < until)
        eco_type_move((char *)to + (from - k) * eco_type_bytes(type), type,
                      element_of(source, row, from - begin), source->type, until - from);
}

/* Vector v from k `first` on, through a zero-padded copy. */
static void transpose_copies(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                             size_t v, size_t first)
{
    const ecornn_type type = transposed_type(lanes, source);
    const size_t row = v * VEC_LANES, rows = source->rows > row ? source->rows - row : 0;
    const size_t some = transposed_k(lanes);
    for (size_t k = first; k < lanes->k; k += some) {
        uint32_t copy[VEC_LANES][GROUP] = {{0}};
        const size_t n = least(lanes->k - k, some);
        struct transposition at = transposition_of(lanes, v, k);
        at.from = (const char *)copy;
        at.row = sizeof *copy;
        for (size_t u = 0; u < least(rows, VEC_LANES); u++)
            copy_some(copy[u], type, source, row + u, k, n);
        if (lanes->type == ECORNN_F32 && n < WORDS)
            transpose_some_words(&at, n, lanes->rounded);
        else
            transpose_k(lanes, &at, type);
    }
}

/* M: rows are lanes. */
static void put_rows(const struct eco_lanes *lanes, const struct eco_lanes_source *source)
{
    const ecornn_type type = transposed_type(lanes, source);
    const size_t some = transposed_k(lanes), vectors = source->rows / VEC_LANES;
    const bool straight = source->type == type && vectors > 0 && source->head == 0;
    const size_t whole = straight ? lanes->k / some * some : 0;
    const bool plain = lanes->type == ECORNN_F32 && !lanes->rounded;
    for (size_t v = 0, next; v < vectors; v = next) {
        const bool together = plain && vectors - v >= TOGETHER;
        next = v + (together ? TOGETHER : 1);
        for (size_t k = 0; k < whole; k += some) {
            struct transposition at = transposition_of(lanes, v, k);
            at.from = element_of(source, v * VEC_LANES, k);
            at.row = source->cols * eco_type_bytes(type);
            if (together)
                transpose_words(&at, TOGETHER, false);
            else
                transpose_k(lanes, &at, type);
        }
    }
    for (size_t v = 0; v < lanes->vectors; v++)
        transpose_copies(lanes, source, v, v < vectors ? whole : 0);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Some rows by the columns of a vector's lanes, and how they are read. */
enum kind { FLOATS, SOME_FLOATS, NARROW, NOTHING, OTHERS };
struct columns {
    enum kind kind;
    const char *from;
    size_t row, rows; /* row: bytes */
    size_t n;         /* columns that exist, */
    size_t skipped;   /* from this lane on */
    ecornn_type type;
};

static enum kind kind_of(ecornn_type type, size_t n)
{
    if (n == 0)
        return NOTHING;
    if (type == ECORNN_F32)
        return n < VEC_LANES ? SOME_FLOATS : FLOATS;
    return type == ECORNN_BF16 && n == VEC_LANES ? NARROW : OTHERS;
}

static struct columns columns_at(const struct eco_lanes_source *source, size_t j)
{
    const size_t at = least(j, source->cols), n = least(source->cols - at, VEC_LANES);
    return (struct columns){.kind = kind_of(source->type, n),
                            .from = element_of(source, 0, at),
                            .row = source->cols * eco_type_bytes(source->type),
                            .rows = source->rows,
                            .n = n,
                            .type = source->type};
}

/* The same for rows of one head, whose elements begin at column `begin`. */
static struct columns columns_of_head(const struct eco_lanes_source *source, size_t j, size_t begin)
{
    const size_t from = j < begin ? begin : j;
    const size_t until = least(j + VEC_LANES, begin + source->cols);
    const size_t n = from < until ? until - from : 0, at = n > 0 ? from - begin : 0;
    return (struct columns){.kind = n > 0 ? OTHERS : NOTHING,
                            .from = element_of(source, 0, at),
                            .row = source->cols * eco_type_bytes(source->type),
                            .rows = source->rows,
                            .n = n,
                            .skipped = n > 0 ? from - j : 0,
                            .type = source->type};
}

static vecu others(const struct columns *columns, const void *from)
{
    float lane[VEC_LANES] = {0};
    eco_type_move(lane + columns->skipped, ECORNN_F32, from, columns->type, columns->n);
    return (vecu)v_load(lane);
}

/* A row as bits of floats, zero-padded. kind: the columns' kind as a constant. */
ALWAYS_INLINE vecu row_of(const struct columns *columns, size_t r, const enum kind kind)
{
    const void *from = columns->from + r * columns->row;
    return kind == FLOATS        ? (vecu)v_load(from)
           : kind == SOME_FLOATS ? (vecu)v_load_part(from, (int)columns->n)
           : kind == NARROW      ? (vecu)v_load_narrow(from)
           : kind == NOTHING     ? (vecu)v_const(0)
                                 : others(columns, from);
}

ALWAYS_INLINE void put_floats(char *to, size_t stride, const struct columns *columns,
                              const enum kind kind, const bool rounded)
{
    for (size_t r = 0; r < columns->rows; r++, to += stride)
        put_line(to, row_of(columns, r, kind), rounded);
}

static void put_vector_of_floats(char *to, size_t stride, const struct columns *columns,
                                 bool rounded)
{
    switch (columns->kind) {
    case FLOATS:
        if (rounded)
            put_floats(to, stride, columns, FLOATS, true);
        else
            put_floats(to, stride, columns, FLOATS, false);
        break;
    case SOME_FLOATS:
        put_floats(to, stride, columns, SOME_FLOATS, rounded);
        break;
    case NARROW:
        put_floats(to, stride, columns, NARROW, false);
        break;
    case NOTHING:
        put_floats(to, stride, columns, NOTHING, false);
        break;
    default:
        put_floats(to, stride, columns, OTHERS, rounded);
    }
}

/* Address of the pair of k in a vector. */
static char *pair_at(char *to, size_t stride, size_t k)
{
    return to + k / GROUP * stride + k % GROUP / 2 * LINE;
}

/* Row r alone, as half of a pair: another thread may write the other half. */
static void put_half(char *to, size_t stride, const struct columns *columns, size_t r, size_t k)
{
    uint16_t *pair = (void *)pair_at(to, stride, k), half[VEC_LANES] = {0};
    if (columns->n > 0)
        eco_type_move(half + columns->skipped, ECORNN_BF16, columns->from + r * columns->row,
                      columns->type, columns->n);
    for (size_t u = 0; u < VEC_LANES; u++)
        pair[2 * u + k % 2] = half[u];
}

/* Pairs of rows from r on, an even k. */
ALWAYS_INLINE void put_pairs(char *to, size_t stride, const struct columns *columns, size_t r,
                             size_t k, const enum kind kind)
{
    for (; r + 1 < columns->rows; r += 2, k += 2) {
        const vecu low = row_of(columns, r, kind), high = row_of(columns, r + 1, kind);
        const bool narrow = kind == NARROW || columns->type == ECORNN_BF16; /* NaNs stay */
        put_line(pair_at(to, stride, k), narrow ? high | low >> 16 : pairs_of(low, high), false);
    }
}

static void put_vector_of_pairs(char *to, size_t stride, const struct columns *columns,
                                size_t first)
{
    const size_t odd = least(first % 2, columns->rows), end = first + columns->rows;
    if (odd)
        put_half(to, stride, columns, 0, first);
    switch (columns->kind) {
    case FLOATS:
        put_pairs(to, stride, columns, odd, first + odd, FLOATS);
        break;
    case NARROW:
        put_pairs(to, stride, columns, odd, first + odd, NARROW);
        break;
    case NOTHING:
        put_pairs(to, stride, columns, odd, first + odd, NOTHING);
        break;
    default:
        put_pairs(to, stride, columns, odd, first + odd, OTHERS);
    }
    if (end % 2 != 0 && end > first + odd)
        put_half(to, stride, columns, columns->rows - 1, end - 1);
}

/* Clears from k to the end of its group. */
static void clear_pairs(char *to, size_t stride, size_t k)
{
    for (; k % GROUP != 0; k++)
        put_half(to, stride, &(struct columns){.type = ECORNN_BF16}, 0, k);
}

/* The vectors of all blocks; with heads those of the rows of one head. */
static void put_columns_of(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                           size_t first)
{
    for (size_t b = 0; b < lanes->blocks; b++)
        for (size_t v = 0; v < lanes->vectors; v++) {
            const size_t j = (b * lanes->vectors + v) * VEC_LANES;
            const struct columns columns = source->head > 0
                                               ? columns_of_head(source, j, first_k(source, 0))
                                               : columns_at(source, j);
            char *const to = lanes->to + b * lanes->block;
            if (lanes->type == ECORNN_F32) {
                put_vector_of_floats(to + v * LINE + first * lanes->stride, lanes->stride, &columns,
                                     lanes->rounded);
                continue;
            }
            put_vector_of_pairs(to + v * VECTOR, lanes->stride, &columns, first);
            if (first + source->rows == lanes->k)
                clear_pairs(to + v * VECTOR, lanes->stride, lanes->k);
        }
}

/* M^T: columns are lanes. */
static void put_columns(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                        size_t first)
{
    struct eco_lanes_source some = *source;
    for (size_t row = 0; source->head > 0 && row < source->rows; row += some.rows) {
        const size_t left = source->head - (source->unit + row) % source->head;
        some.unit = source->unit + row;
        some.data = element_of(source, row, 0);
        some.rows = least(left, source->rows - row);
        put_columns_of(lanes, &some, first + row);
    }
    if (source->head == 0)
        put_columns_of(lanes, source, first);
}

const struct eco_lanes_code JOIN(eco_lanes_, ECO_ISA) = {put_rows, put_columns};
