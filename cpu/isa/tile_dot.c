/*
 * The product kernel for BF16 rows and weights by an instruction that multiplies two pairs and adds
 * both to a float, twice as fast as tile_narrow.c. Compiled with flags of its own; run/cpuid.c
 * decides when it is used.
 */
#include <string.h>

#include "cpu/isa/isa.h"
#include "cpu/isa/tile_blocks.h"
#include "cpu/isa/vec_pairs.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 16, PAIR = 2 * LANES, VECTOR = ECO_NARROW_GROUP * LANES, MOST_ROWS = 12 };
enum { LINE = 64 };
/* Rows of a block by vectors: 24 sums, or as many as a chain's latency needs. */
enum { ROWS_1 = 12, ROWS_2 = 12, ROWS_3 = 8, ROWS_4 = 6 };
static const int32_t dot_rows[ECO_TILE_VECTORS] = {ROWS_1, ROWS_2, ROWS_3, ROWS_4};

ALWAYS_INLINE __mmask16 lanes_of(const struct eco_tile *tile, int v)
{
    return (__mmask16)((1u << tile->count[v]) - 1);
}

ALWAYS_INLINE __m512i two_of_a(const uint16_t *a)
{
    int32_t both;
    memcpy(&both, a, sizeof both);
    return _mm512_set1_epi32(both);
}

/* The current block of rows: vectors from `first` on; some blocks prefetch the next panel. */
struct block {
    int32_t row, first;
    bool fetch;
};

/* The sums over all k of a pair; fetch: also prefetches as much of the next panel. */
ALWAYS_INLINE void dot_sums(__m512 (*sum)[ECO_TILE_VECTORS], const struct eco_tile_pair *pair,
                            const struct block *block, const int R, const int V, const bool fetch)
{
    const size_t a_row = pair->a_row, a_k = 2 * pair->a_k;
    const uint16_t *a[MOST_ROWS / 4]; /* every fourth row, so that the addresses fit in registers */
#pragma GCC unroll 3
    for (int q = 0; q < MOST_ROWS / 4; q++)
        a[q] = (const uint16_t *)pair->a + (size_t)(block->row + 4 * q) * a_row;
    const uint16_t *panel = (const uint16_t *)pair->panel + block->first * VECTOR;
    const char *next = pair->prefetch;
    if (fetch)
        next += (size_t)block->first * (size_t)pair->k * LANES * sizeof *panel;
    for (int32_t left = pair->k; left > 0; left -= ECO_NARROW_GROUP, panel += pair->panel_k) {
        const uint16_t *at = panel;
        for (int32_t i = left < ECO_NARROW_GROUP ? left : ECO_NARROW_GROUP; i > 0; i -= 2) {
            __m512i weight[ECO_TILE_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) {
                if (fetch)
                    __builtin_prefetch(next + LINE * v, 0, 2);
                weight[v] = _mm512_load_si512(at + v * VECTOR);
            }
            if (fetch)
                next += LINE * V;
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) {
                const __m512i x = two_of_a(a[r / 4] + (size_t)(r % 4) * a_row);
#pragma GCC unroll 4
                for (int v = 0; v < V; v++)
                    sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)x, (__m512bh)weight[v]);
            }
            at += PAIR;
#pragma GCC unroll 3
            for (int q = 0; q < MOST_ROWS / 4; q++)
                a[q] += a_k;
        }
    }
}

/* The next block starts from C too: prefetches its rows and vectors, or those of the next tile. */
ALWAYS_INLINE void dot_fetch(const struct eco_tile *tile, const struct block *block, const int R,
                             const int V)
{
    const int32_t row = block->row + R, v = block->first + V;
    const float *next = row < tile->rows    ? tile->c + (size_t)row * tile->c_row
                        : v < tile->vectors ? tile->c
                                            : tile->next;
    if (next == NULL || tile->start[block->first] != NULL)
        return;
    const size_t *at = &tile->c_vector[block->first];
    next += row < tile->rows ? at[0] : v < tile->vectors ? at[V] : 0;
    for (int r = 0; r < R; r++, next += tile->c_row)
        for (int k = 0; k < V; k++)
            __builtin_prefetch(next + (at[k] - at[0]), 0, 3);
}

/* R and V are constants, so that every loop over them is unrolled. */
ALWAYS_INLINE void dot_block(const struct eco_tile *tile, const struct block *block, const int R,
                             const int V)
{
    __m512 sum[MOST_ROWS][ECO_TILE_VECTORS];
    float *const c = tile->c + (size_t)block->row * tile->c_row;
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
        const int at = block->first + v;
        const float *const start = tile->start[at];
        const __mmask16 mask = lanes_of(tile, at);
        const __m512 first = start ? _mm512_maskz_loadu_ps(mask, start) : _mm512_setzero_ps();
#pragma GCC unroll 12
        for (int r = 0; r < R; r++)
            sum[r][v] =
                start
                    ? first
                    : _mm512_maskz_loadu_ps(mask, c + (size_t)r * tile->c_row + tile->c_vector[at]);
    }
    dot_fetch(tile, block, R, V);
    for (int32_t p = 0; p < tile->pairs; p++) {
        const struct eco_tile_pair *pair = &tile->pair[p];
        if (block->fetch && pair->prefetch) /* see tile.c */
            dot_sums(sum, pair, block, R, V, true);
        else
            dot_sums(sum, pair, block, R, V, false);
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
        const int at = block->first + v;
        const __mmask16 mask = lanes_of(tile, at);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++)
            _mm512_mask_storeu_ps(c + (size_t)r * tile->c_row + tile->c_vector[at], mask,
                                  sum[r][v]);
    }
}

/* clang-format off */
#define DOT_BLOCK(R, V) \
    static void dot_##R##_##V(const struct eco_tile *tile, const struct block *block) \
    { dot_block(tile, block, R, V); }
BLOCKS(DOT_BLOCK)

typedef void (*dot_function)(const struct eco_tile *, const struct block *);
#define DOT(R, V) dot_##R##_##V,
static const dot_function dot_functions[ECO_TILE_VECTORS][MOST_ROWS] = BLOCK_TABLE(DOT);
/* clang-format on */

/* All rows by vectors [first, first + vectors), in near-equal blocks; the first one prefetches. */
static void dot_part(const struct eco_tile *tile, int32_t first, int32_t vectors)
{
    const int32_t most = dot_rows[vectors - 1];
    const int32_t blocks = (tile->rows + most - 1) / most;
    for (int32_t i = 0; i < blocks; i++) {
        const int32_t from = (int32_t)((int64_t)tile->rows * i / blocks);
        const int32_t to = (int32_t)((int64_t)tile->rows * (i + 1) / blocks);
        const struct block block = {from, first, i == 0};
        dot_functions[vectors - 1][to - from - 1](tile, &block);
    }
}

static void multiply(const struct eco_tile *tile)
{
    if (tile->rows <= dot_rows[tile->vectors - 1] || tile->vectors < ECO_TILE_VECTORS) {
        dot_part(tile, 0, tile->vectors);
        return;
    }
    dot_part(tile, 0, 2);
    dot_part(tile, 2, 2);
}

/* ---- one row --------------------------------------------------------------------------------- */

/* P and V are constants, so that every loop over them is unrolled. */
ALWAYS_INLINE void row_block(const struct eco_row *row, const int P, const int V)
{
    __m512 sum[ECO_ROW_VECTORS];
    __mmask16 mask[ECO_ROW_VECTORS];
    const uint16_t *a = row->a, *panel = row->panel;
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++) {
        const struct eco_vector *vector = &row->vector[i];
        mask[i] = (__mmask16)((1u << vector->count) - 1);
        sum[i] = _mm512_maskz_loadu_ps(mask[i],
                                       vector->start ? vector->start : row->c + vector->c_vector);
    }
    for (int32_t left = row->k; left > 0; left -= ECO_NARROW_GROUP, panel += row->panel_k) {
        const uint16_t *at = panel;
        for (int32_t k = left < ECO_NARROW_GROUP ? left : ECO_NARROW_GROUP; k > 0; k -= 2) {
            const __m512i x = two_of_a(a);
#pragma GCC unroll 16
            for (int i = 0; i < P * V; i++) {
                const uint16_t *from = at + (size_t)(i / V) * row->panel_step + i % V * VECTOR;
                const __m512i weight = _mm512_load_si512(from);
                sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)weight);
            }
            a += 2;
            at += PAIR;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++)
        _mm512_mask_storeu_ps(row->c + row->vector[i].c_vector, mask[i], sum[i]);
}

#include "cpu/isa/tile_row.inc"

const struct eco_tile_kernel eco_tile_avx512bf16 = {.lanes = LANES,
                                                    .most = {ROWS_1, ROWS_2, ROWS_3, ROWS_4},
                                                    .multiply = multiply,
                                                    .row = multiply_row,
                                                    .row_panels = {1, 8, 5, 4}};

const struct eco_pair_rows eco_rows_avx512bf16 = {pair, pair};
