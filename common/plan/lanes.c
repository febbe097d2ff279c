/*
 * Lanes of panels: see lanes.h.  Without a way of its own, an element is converted and put alone;
 * words of 32 bits, be they floats or pairs of BF16, are written together, whole lines at a time.
 */
#include "common/plan/lanes.h"

#include <string.h>

#include "common/fours.h"
#include "common/util.h"

enum { K_AT_A_TIME = 32 };
/* What is read later is fetched: rows lie far apart, and a processor follows few of them by itself.
 */
enum { LINE = 64, WORDS_OF_LINE = LINE / sizeof(uint32_t), ROWS_AHEAD = 8 };

static const char *source_at(const struct eco_lanes_source *source, size_t row, size_t column)
{
    return source->data + (row * source->cols + column) * eco_type_bytes(source->type);
}

/* ---- one element ----------------------------------------------------------------------------- */

/* Lane 0 of k; lanes are `pair` elements apart. */
static char *lane_at(const struct eco_lanes *lanes, size_t k)
{
    if (lanes->group == 1)
        return lanes->to + k * lanes->stride;
    const size_t inside = k % lanes->group;
    const size_t element = inside / lanes->pair * lanes->width * lanes->pair + inside % lanes->pair;
    return lanes->to + k / lanes->group * lanes->stride + element * eco_type_bytes(lanes->type);
}

/* Constant sizes are one move. */
static inline void move_element(char *to, const char *from, size_t element)
{
    if (element == sizeof(uint16_t))
        memcpy(to, from, sizeof(uint16_t));
    else if (element == sizeof(uint32_t))
        memcpy(to, from, sizeof(uint32_t));
    else
        memcpy(to, from, sizeof(uint64_t));
}

/* Lane j, converted some k at a time. */
static void put_lane(const struct eco_lanes *lanes, const struct eco_lanes_source *source, size_t j)
{
    const size_t element = eco_type_bytes(lanes->type), step = lanes->pair * element;
    double converted[K_AT_A_TIME];
    for (size_t k = 0; k < source->cols; k += K_AT_A_TIME) {
        const size_t left = source->cols - k, n = left < K_AT_A_TIME ? left : K_AT_A_TIME;
        eco_type_move(converted, lanes->type, source_at(source, lanes->unit + j, k), source->type,
                      n);
        for (size_t i = 0; i < n; i++)
            move_element(lane_at(lanes, k + i) + j * step, (const char *)converted + i * element,
                         element);
    }
}

/* All lanes of k. */
static void put_k(const struct eco_lanes *lanes, size_t k, const struct eco_lanes_source *source,
                  size_t row)
{
    const size_t element = eco_type_bytes(lanes->type), step = lanes->pair * element;
    const char *from = source_at(source, row, lanes->unit);
    char *to = lane_at(lanes, k);
    if (lanes->group == 1) {
        eco_type_move(to, lanes->type, from, source->type, lanes->count);
        return;
    }
    double converted[ECO_MOST_LANES];
    eco_type_move(converted, lanes->type, from, source->type, lanes->count);
    for (size_t j = 0; j < lanes->count; j++)
        move_element(to + j * step, (const char *)converted + j * element, element);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Two groups of k after this one, of floats: a constant, since this is done for every group. */
static inline void fetch_group(const char *from)
{
    enum { GROUP = K_AT_A_TIME * sizeof(float) };
    for (size_t at = 2 * GROUP; at < 3 * GROUP; at += LINE)
        ECO_FETCH_NEAR(from + at);
}

/* Four words of each of 16 rows `row` bytes apart, as four lines `stride` bytes apart. */
static inline void transpose_fours(char *to, size_t stride, const char *from, size_t row)
{
    enum { ROWS = 16 };
#pragma GCC unroll 4
    for (size_t u = 0; u < ROWS; u += ECO_FOUR) {
        eco_four words[ECO_FOUR];
#pragma GCC unroll 4
        for (size_t i = 0; i < ECO_FOUR; i++)
            words[i] = eco_four_load(from + (u + i) * row);
        eco_four_transpose(words);
#pragma GCC unroll 4
        for (size_t k = 0; k < ECO_FOUR; k++)
            eco_four_store(to + k * stride + u * sizeof(uint32_t), words[k]);
    }
}

/* n words of each of `units` rows `row` bytes apart, as n lines `stride` bytes apart. */
static inline void transpose_words(char *to, size_t stride, size_t n, const char *from, size_t row,
                                   const size_t units)
{
    for (size_t k = 0; k < n; k++, to += stride, from += sizeof(uint32_t)) {
        for (size_t u = 0; k % WORDS_OF_LINE == 0 && u < units; u++)
            ECO_FETCH_NEAR(from + u * row + LINE);
#pragma GCC unroll 16
        for (size_t u = 0; u < units; u++)
            memcpy(to + u * sizeof(uint32_t), from + u * row, sizeof(uint32_t));
    }
}

static void transpose_sixteen(char *to, size_t stride, size_t n, const char *from, size_t row)
{
    size_t k = 0;
    for (; k + ECO_FOUR <= n; k += ECO_FOUR, to += ECO_FOUR * stride, from += sizeof(eco_four)) {
        for (size_t u = 0; k % WORDS_OF_LINE == 0 && u < 16; u++)
            ECO_FETCH_NEAR(from + u * row + LINE);
        transpose_fours(to, stride, from, row);
    }
    transpose_words(to, stride, n - k, from, row, 16);
}

/* The same of any number of units; constant numbers are written together. */
static void transpose(char *to, size_t stride, size_t n, const char *from, size_t row, size_t units)
{
    size_t j = 0;
    for (; j + 16 <= units; j += 16)
        transpose_sixteen(to + j * sizeof(uint32_t), stride, n, from + j * row, row);
    for (; j + 4 <= units; j += 4)
        transpose_words(to + j * sizeof(uint32_t), stride, n, from + j * row, row, 4);
    for (; j < units; j++)
        transpose_words(to + j * sizeof(uint32_t), stride, n, from + j * row, row, 1);
}

static bool are_floats(const struct eco_lanes *lanes, const struct eco_lanes_source *source)
{
    return source->type == lanes->type && lanes->group == 1 && eco_type_bytes(lanes->type) == 4;
}

static bool are_pairs(const struct eco_lanes *lanes)
{
    return lanes->type == ECORNN_BF16 && lanes->pair == 2 && lanes->group == K_AT_A_TIME;
}

/* low and, above it, high, in BF16: four words; one. */
static inline eco_four pairs_of(eco_four low, eco_four high, eco_four *nan)
{
    return (eco_four_rounded(high, nan) & 0xffff0000u) | eco_four_rounded(low, nan) >> 16;
}

static inline uint32_t pair_of(float low, float high)
{
    return (uint32_t)eco_bf16_of_float(high) << 16 | eco_bf16_of_float(low);
}

/* to[i]: the pair of low[i] and high[i]. */
static void pair_floats(uint32_t *to, const float *low, const float *high, size_t n)
{
    eco_four nan = {0};
    size_t i = 0;
    for (; i + ECO_FOUR <= n; i += ECO_FOUR)
        eco_four_store(to + i, pairs_of(eco_four_load(low + i), eco_four_load(high + i), &nan));
    for (i = eco_four_any(nan) ? 0 : i; i < n; i++)
        to[i] = pair_of(low[i], high[i]);
}

/* The same of any numbers. */
static void pair_numbers(uint32_t *to, const char *low, const char *high, ecornn_type type,
                         size_t n)
{
    uint16_t narrow[2][ECO_MOST_LANES];
    eco_type_move(narrow[0], ECORNN_BF16, low, type, n);
    eco_type_move(narrow[1], ECORNN_BF16, high, type, n);
    for (size_t i = 0; i < n; i++)
        to[i] = (uint32_t)narrow[1][i] << 16 | narrow[0][i];
}

/* Eight floats of a row as four pairs. */
static inline eco_four pairs_of_eight(const float *from, eco_four *nan)
{
    const eco_four first = eco_four_load(from), last = eco_four_load(from + ECO_FOUR);
    return pairs_of(ECO_FOUR_OF(first, last, 0, 2, 4, 6), ECO_FOUR_OF(first, last, 1, 3, 5, 7),
                    nan);
}

/* Those of four rows, `row` elements apart; pairs of a k are `width` words from those of the next.
 * False: there is a NaN among them. */
static inline bool put_four(uint32_t *to, size_t width, const float *from, size_t row)
{
    eco_four nan = {0};
    for (size_t k = 0; k < K_AT_A_TIME / 2; k += ECO_FOUR) {
        eco_four words[ECO_FOUR];
#pragma GCC unroll 4
        for (size_t i = 0; i < ECO_FOUR; i++)
            words[i] = pairs_of_eight(from + i * row + 2 * k, &nan);
        eco_four_transpose(words);
#pragma GCC unroll 4
        for (size_t i = 0; i < ECO_FOUR; i++)
            eco_four_store(to + (k + i) * width, words[i]);
    }
    return !eco_four_any(nan);
}

static void put_one(uint32_t *to, size_t width, const float *from)
{
    for (size_t k = 0; k < K_AT_A_TIME / 2; k++)
        to[k * width] = pair_of(from[2 * k], from[2 * k + 1]);
}

/* A group of k of some rows. */
static void put_group(uint32_t *to, size_t width, const float *from, size_t row, size_t units)
{
    size_t u = 0;
    for (; u + ECO_FOUR <= units; u += ECO_FOUR)
        if (!put_four(to + u, width, from + u * row, row))
            for (size_t i = u; i < u + ECO_FOUR; i++)
                put_one(to + i, width, from + i * row);
    for (; u < units; u++)
        put_one(to + u, width, from + u * row);
}

/* Rows of pairs, a group of k at a time; past the last k there are zeros. */
static void put_floats_as_pairs(const struct eco_lanes *lanes,
                                const struct eco_lanes_source *source)
{
    const size_t whole = source->cols / K_AT_A_TIME * K_AT_A_TIME, left = source->cols - whole;
    char *to = lanes->to;
    for (size_t k = 0; k < whole; k += K_AT_A_TIME, to += lanes->stride) {
        for (size_t j = 0; j < lanes->count; j++)
            fetch_group(source_at(source, lanes->unit + j, k));
        put_group((void *)to, lanes->width, (const void *)source_at(source, lanes->unit, k),
                  source->cols, lanes->count);
    }
    if (left > 0) {
        float last[ECO_MOST_LANES][K_AT_A_TIME] = {{0}};
        for (size_t j = 0; j < lanes->count; j++)
            memcpy(last[j], source_at(source, lanes->unit + j, whole), left * sizeof **last);
        put_group((void *)to, lanes->width, *last, K_AT_A_TIME, lanes->count);
    }
}

static void put_rows_of_pairs(const struct eco_lanes *lanes, const struct eco_lanes_source *source)
{
    uint16_t group[ECO_MOST_LANES][K_AT_A_TIME];
    char *to = lanes->to;
    for (size_t k = 0; k < source->cols; k += K_AT_A_TIME, to += lanes->stride) {
        const size_t left = source->cols - k, n = left < K_AT_A_TIME ? left : K_AT_A_TIME;
        for (size_t j = 0; j < lanes->count; j++) {
            const char *from = source_at(source, lanes->unit + j, k);
            fetch_group(from);
            memset(group[j], 0, sizeof *group);
            eco_type_move(group[j], lanes->type, from, source->type, n);
        }
        transpose(to, lanes->width * sizeof(uint32_t), K_AT_A_TIME / 2, (const char *)group,
                  sizeof *group, lanes->count);
    }
}

/* Rows r and r + 1 of the parameter as the pair from k on, which is even. */
static void put_pair(const struct eco_lanes *lanes, size_t k, const struct eco_lanes_source *source,
                     size_t r)
{
    uint32_t *const to = (void *)lane_at(lanes, k);
    const char *const low = source_at(source, r, lanes->unit);
    const char *const high = source_at(source, r + 1, lanes->unit);
    if (source->type == ECORNN_F32)
        pair_floats(to, (const void *)low, (const void *)high, lanes->count);
    else
        pair_numbers(to, low, high, source->type, lanes->count);
}

void eco_lanes_put_rows(const struct eco_lanes *lanes, const struct eco_lanes_source *source)
{
    if (are_pairs(lanes) && source->type == ECORNN_F32)
        put_floats_as_pairs(lanes, source);
    else if (are_pairs(lanes))
        put_rows_of_pairs(lanes, source);
    else if (are_floats(lanes, source))
        transpose(lanes->to, lanes->stride, source->cols, source_at(source, lanes->unit, 0),
                  source->cols * sizeof(uint32_t), lanes->count);
    else
        for (size_t j = 0; j < lanes->count; j++)
            put_lane(lanes, source, j);
}

void eco_lanes_put_columns(const struct eco_lanes *lanes, const struct eco_lanes_source *source,
                           size_t first)
{
    size_t k = 0;
    if (are_pairs(lanes)) {
        if (first % 2 != 0)
            put_k(lanes, first, source, k++);
        for (; k + 1 < source->rows; k += 2) {
            ECO_FETCH_NEAR(source_at(source, k + ROWS_AHEAD, lanes->unit));
            ECO_FETCH_NEAR(source_at(source, k + 1 + ROWS_AHEAD, lanes->unit));
            put_pair(lanes, first + k, source, k);
        }
    }
    for (; k < source->rows; k++) {
        ECO_FETCH_NEAR(source_at(source, k + ROWS_AHEAD, lanes->unit));
        put_k(lanes, first + k, source, k);
    }
}
