/*
 * The product kernels in AMX tiles: two tiles of rows by two of units at a time, or one by four;
 * BF16 with sums in float, and bytes with sums in int32_t. A float is split into three numbers in
 * BF16 (split_group), whose products with BF16 weights are exact. Compiled with flags of its own;
 * run/cpuid.c decides when it is used.
 */
#include <immintrin.h>

#include "cpu/isa/isa.h"

#include "common/quantise.h"
#include "cpu/isa/vec_pairs.h"

enum { LANES = 16, ROW_BYTES = 64, TILE = ECO_NARROW_TALL * ROW_BYTES };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Tile registers: 0 to 3 sums, 4 and 5 A, 6 and 7 weights. */
enum { TILES = 8, FIRST_WEIGHT = 6 };
enum { TALLEST = 2 * ECO_NARROW_TALL }; /* rows of two tiles */

struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void begin(int32_t height)
{
    _Alignas(64) struct config config = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        config.row_bytes[i] = ROW_BYTES;
        config.rows[i] = (uint8_t)(i < FIRST_WEIGHT ? height : ECO_NARROW_TALL);
    }
    /* gcc 12 takes the operand of _tile_loadconfig for 8 bytes and drops stores to the rest */
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static void end(void)
{
    _tile_release();
}

/* Tiles of A from one block of rows on, and weights from one vector on, for each pair. The hardware
 * prefetches panels, which are one stream, faster than instructions could. */
struct walk {
    struct stream {
        const char *a, *b;
        size_t a_block; /* bytes between tiles of rows */
        size_t b_group; /* bytes between groups of weights */
        int32_t groups;
    } pair[ECO_TILE_PAIRS];
    int32_t pairs;
};

/* What rows of A are. */
enum form { BF16, SPLIT, BYTES };
enum { PARTS = ECO_SPLIT_PARTS };
#define PARTS_OF(form) ((form) == SPLIT ? (int)PARTS : 1)

/* sum: floats or int32_t. The instruction needs numbers of tiles as constants. */
typedef float tile_sums[ECO_NARROW_TALL * LANES];
/* clang-format off */
#define ADD(form, sum, a, b)                                                                       \
    do                                                                                             \
        if ((form) == BYTES)                                                                       \
            _tile_dpbusd(sum, a, b);                                                               \
        else                                                                                       \
            _tile_dpbf16ps(sum, a, b);                                                             \
    while (0)
/* clang-format on */

/* Sums of tile i are stored in sum[i]. */
ALWAYS_INLINE void two_by_two(const struct walk *w, tile_sums *sum, const enum form form)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (const struct stream *s = w->pair; s < w->pair + w->pairs; s++) {
        const char *a = s->a, *b = s->b;
        for (int32_t g = 0; g < s->groups; g++, b += s->b_group)
            for (int part = 0; part < PARTS_OF(form); part++, a += TILE) {
                _tile_loadd(6, b, ROW_BYTES);
                _tile_loadd(4, a, ROW_BYTES);
                ADD(form, 0, 4, 6);
                _tile_loadd(7, b + TILE, ROW_BYTES);
                ADD(form, 1, 4, 7);
                _tile_loadd(5, a + s->a_block, ROW_BYTES);
                ADD(form, 2, 5, 6);
                ADD(form, 3, 5, 7);
            }
    }
    _tile_stored(0, sum[0], ROW_BYTES);
    _tile_stored(1, sum[1], ROW_BYTES);
    _tile_stored(2, sum[2], ROW_BYTES);
    _tile_stored(3, sum[3], ROW_BYTES);
}

ALWAYS_INLINE void two_by_one(const struct walk *w, tile_sums *sum, const enum form form)
{
    _tile_zero(0);
    _tile_zero(2);
    for (const struct stream *s = w->pair; s < w->pair + w->pairs; s++) {
        const char *a = s->a, *b = s->b;
        for (int32_t g = 0; g < s->groups; g++, b += s->b_group)
            for (int part = 0; part < PARTS_OF(form); part++, a += TILE) {
                _tile_loadd(6, b, ROW_BYTES);
                _tile_loadd(4, a, ROW_BYTES);
                _tile_loadd(5, a + s->a_block, ROW_BYTES);
                ADD(form, 0, 4, 6);
                ADD(form, 2, 5, 6);
            }
    }
    _tile_stored(0, sum[0], ROW_BYTES);
    _tile_stored(2, sum[2], ROW_BYTES);
}

ALWAYS_INLINE void one_by(const struct walk *w, tile_sums *sum, const int wide,
                          const enum form form)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (const struct stream *s = w->pair; s < w->pair + w->pairs; s++) {
        const char *a = s->a, *b = s->b;
        for (int32_t g = 0; g < s->groups; g++, b += s->b_group)
            for (int part = 0; part < PARTS_OF(form); part++, a += TILE) {
                _tile_loadd(4, a, ROW_BYTES);
                _tile_loadd(6, b, ROW_BYTES);
                ADD(form, 0, 4, 6);
                if (wide > 1) {
                    _tile_loadd(7, b + TILE, ROW_BYTES);
                    ADD(form, 1, 4, 7);
                }
                if (wide > 2) {
                    _tile_loadd(6, b + 2 * TILE, ROW_BYTES);
                    ADD(form, 2, 4, 6);
                }
                if (wide > 3) {
                    _tile_loadd(7, b + 3 * TILE, ROW_BYTES);
                    ADD(form, 3, 4, 7);
                }
            }
    }
    _tile_stored(0, sum[0], ROW_BYTES);
    _tile_stored(1, sum[1], ROW_BYTES);
    _tile_stored(2, sum[2], ROW_BYTES);
    _tile_stored(3, sum[3], ROW_BYTES);
}

/* C of vector v, rows [row, row + height) as far as they exist, = start + sum. */
static void add_up(const struct eco_tile *n, int32_t row, int32_t v, const float *sum)
{
    const int32_t left = n->rows - row, rows = left < n->height ? left : n->height;
    const __mmask16 mask = (__mmask16)((1u << n->count[v]) - 1);
    const float *start = n->start[v];
    const __m512 first = start ? _mm512_maskz_loadu_ps(mask, start) : _mm512_setzero_ps();
    float *c = n->c + (size_t)row * n->c_row + n->c_vector[v];
    for (int32_t r = 0; r < rows; r++, c += n->c_row) {
        const __m512 before = start ? first : _mm512_maskz_loadu_ps(mask, c);
        const __m512 s = _mm512_load_ps(sum + (size_t)r * LANES);
        _mm512_mask_storeu_ps(c, mask, _mm512_add_ps(before, s));
    }
}

/* The same for the integers of a pair, with their scales; put_sum of tile_bytes.c. */
ALWAYS_INLINE void add_integers(const struct eco_tile *n, const struct eco_tile_pair *pair,
                                int32_t row, int32_t v, const int32_t *sum, const float *start)
{
    const int32_t left = n->rows - row, rows = left < n->height ? left : n->height;
    const __mmask16 mask = (__mmask16)((1u << n->count[v]) - 1);
    const char *scales = pair->scales + (size_t)v * 2 * ROW_BYTES;
    const struct eco_row_scale *const of = pair->rows + row;
    const size_t c_row = n->c_row;
    const __m512 first = start ? _mm512_maskz_loadu_ps(mask, start) : _mm512_setzero_ps(),
                 scale = _mm512_loadu_ps(scales);
    const __m512i weights = _mm512_loadu_si512(scales + ROW_BYTES);
    float *c = n->c + (size_t)row * c_row + n->c_vector[v];
    for (int32_t r = 0; r < rows; r++, c += c_row) {
        const __m512 before = start ? first : _mm512_maskz_loadu_ps(mask, c);
        const __m512i zero = _mm512_mullo_epi32(_mm512_set1_epi32(of[r].zero), weights);
        const __m512i s = _mm512_sub_epi32(_mm512_load_si512(sum + (size_t)r * LANES), zero);
        const __m512 product =
            _mm512_mul_ps(_mm512_cvtepi32_ps(s), _mm512_mul_ps(_mm512_set1_ps(of[r].scale), scale));
        _mm512_mask_storeu_ps(c, mask, _mm512_add_ps(before, product));
    }
}

static void add_up_bytes(const struct eco_tile *n, const struct eco_tile_pair *pair, int32_t row,
                         int32_t v, const int32_t *sum)
{
    const float *start = pair == n->pair ? n->start[v] : NULL;
    if (start != NULL)
        add_integers(n, pair, row, v, sum, start);
    else
        add_integers(n, pair, row, v, sum, NULL);
}

ALWAYS_INLINE void put_sums(const struct eco_tile *n, const struct eco_tile_pair *pair, int32_t row,
                            int32_t v, const float *sum, const enum form form)
{
    if (form == BYTES)
        add_up_bytes(n, pair, row, v, (const int32_t *)(const void *)sum);
    else
        add_up(n, row, v, sum);
}

/* From tile `block` of rows and vector v on. Filled in place, because a copy would wait for
 * stores. */
ALWAYS_INLINE void start_stream(const struct eco_tile_pair *pair, int32_t block, int32_t v,
                                struct stream *s, const enum form form)
{
    const int32_t group = form == BYTES ? (int)ECO_BYTE_GROUP : (int)ECO_NARROW_GROUP;
    s->groups = (pair->k + group - 1) / group;
    s->a_block = (size_t)(s->groups * PARTS_OF(form)) * TILE;
    s->b_group = pair->panel_k * (form == BYTES ? sizeof(int8_t) : sizeof(uint16_t));
    s->a = (const char *)pair->a + (size_t)block * s->a_block;
    s->b = (const char *)pair->panel + (size_t)v * TILE;
}

/* All rows of some pairs; BF16 adds them up in one sum. */
ALWAYS_INLINE void multiply_pairs(const struct eco_tile *n, const struct eco_tile_pair *pair,
                                  int32_t pairs, const enum form form)
{
    _Alignas(64) tile_sums sum[4];
    struct walk w = {.pairs = pairs};
    const int32_t blocks = (n->rows + n->height - 1) / n->height;
    for (int32_t block = 0; block < blocks; block += 2) {
        const bool two = block + 1 < blocks;
        const int32_t row = block * n->height, most = two ? 2 : 4;
        for (int32_t v = 0, wide; v < n->vectors; v += wide) {
            for (int32_t p = 0; p < pairs; p++)
                start_stream(&pair[p], block, v, &w.pair[p], form);
            wide = n->vectors - v < most ? n->vectors - v : most;
            if (two && wide == 2)
                two_by_two(&w, sum, form);
            else if (two)
                two_by_one(&w, sum, form);
            else if (wide == 4)
                one_by(&w, sum, 4, form);
            else if (wide == 2)
                one_by(&w, sum, 2, form);
            else
                one_by(&w, sum, wide == 1 ? 1 : 3, form);
            for (int32_t i = 0; i < wide; i++)
                put_sums(n, pair, row, v + i, sum[i], form);
            for (int32_t i = 0; two && i < wide; i++)
                put_sums(n, pair, row + n->height, v + i, sum[2 + i], form);
        }
    }
}

static void multiply(const struct eco_tile *n)
{
    multiply_pairs(n, n->pair, n->pairs, BF16);
}

static void multiply_split(const struct eco_tile *n)
{
    multiply_pairs(n, n->pair, n->pairs, SPLIT);
}

static void multiply_bytes(const struct eco_tile *n)
{
    for (int32_t p = 0; p < n->pairs; p++)
        multiply_pairs(n, &n->pair[p], 1, BYTES);
}

/* ---- floats in parts ------------------------------------------------------------------------- */

/* The first 8 bits of the fraction, the next 8, and the last 8: x is their sum from 2^-103 on.
 * Below, parts may be denormal, which AMX takes for 0. An infinity is its first part. */
static void split_group(uint16_t *to, const float *from)
{
    const __m512i first_bits = _mm512_set1_epi32((int32_t)0xffff0000);
    for (int half = 0; half < ECO_NARROW_GROUP; half += LANES) {
        __m512 x = _mm512_loadu_ps(from + half);
        for (int part = 0; part < PARTS; part++) {
            const __m512i bits = _mm512_castps_si512(x);
            const __m512 first = _mm512_castsi512_ps(_mm512_and_si512(bits, first_bits));
            const __mmask16 more = _mm512_cmp_ps_mask(x, first, _CMP_NEQ_UQ);
            _mm256_storeu_si256((__m256i *)(void *)(to + part * ECO_NARROW_TILE + half),
                                _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
            x = _mm512_maskz_sub_ps(more, x, first);
        }
    }
}

/* ---- copies for gradients -------------------------------------------------------------------- */

/* Transposes the pairs as a matrix of 32-bit numbers: by 1, 2, 4 and 8. */
static void transpose(uint16_t *tile, const uint16_t *from, size_t row, int32_t rows,
                      int32_t columns)
{
    const __mmask16 mask = (__mmask16)((1u << columns) - 1);
    __m512i a[16], b[16];
#pragma GCC unroll 16
    for (int32_t p = 0; p < 16; p++)
        a[p] = load_pair(from, row, p, rows, mask);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    /* a[4 q + i], quarter j: column 4 j + i, rows of q; now transposes quarters as a 4 x 4
     * matrix */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512i low = _mm512_shuffle_i32x4(a[i], a[4 + i], 0x44);
        const __m512i high = _mm512_shuffle_i32x4(a[i], a[4 + i], 0xee);
        const __m512i low2 = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0x44);
        const __m512i high2 = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0xee);
        _mm512_store_si512(tile + (0 + i) * 32, _mm512_shuffle_i32x4(low, low2, 0x88));
        _mm512_store_si512(tile + (4 + i) * 32, _mm512_shuffle_i32x4(low, low2, 0xdd));
        _mm512_store_si512(tile + (8 + i) * 32, _mm512_shuffle_i32x4(high, high2, 0x88));
        _mm512_store_si512(tile + (12 + i) * 32, _mm512_shuffle_i32x4(high, high2, 0xdd));
    }
}

const struct eco_tile_kernel eco_tile_amx = {.lanes = LANES,
                                             .most = {TALLEST, TALLEST, TALLEST, TALLEST},
                                             .multiply = multiply,
                                             .begin = begin,
                                             .end = end};

const struct eco_split_kernel eco_split_amx = {{.lanes = LANES,
                                                .most = {TALLEST, TALLEST, TALLEST, TALLEST},
                                                .multiply = multiply_split,
                                                .begin = begin,
                                                .end = end},
                                               split_group};

const struct eco_tile_kernel eco_bytes_amx = {.lanes = LANES,
                                              .most = {TALLEST, TALLEST, TALLEST, TALLEST},
                                              .multiply = multiply_bytes,
                                              .begin = begin,
                                              .end = end};

const struct eco_pair_rows eco_rows_amx = {pair, transpose};
