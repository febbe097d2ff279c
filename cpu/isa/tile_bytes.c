/*
 * The product kernels for weights of 8 bits, compiled once for each instruction set like tile.c,
 * and once more for VNNI and NEON's dot product: rows of 8 bits, whose sums are exact integers, and
 * rows of floats. Also makes rows of 8 bits. common/quantise.h tells what the integers mean.
 */
#include "cpu/isa/isa.h"

#include "common/quantise.h"
#include "cpu/isa/tile_blocks.h"
#include "cpu/isa/vec.h"
#include "cpu/isa/vec_dots.h"

enum { QUAD = 4, GROUP = ECO_BYTE_GROUP, VECTOR = GROUP * VEC_LANES, QUADS = QUAD * VEC_LANES };
enum { MOST_ROWS = 12, LINE = 64 };
/* Sums of a block of floats, rows times vectors. */
enum { FLOAT_SUMS = VEC_REGISTERS == 32 ? 20 : 8 };

/* ---- the end of a product -------------------------------------------------------------------- */

/* start + (scale of the row) * (scale of the unit) * sum, each step rounded by itself: the same on
 * all sets. */
ALWAYS_INLINE void put_sum(float *c, const float *start, int32_t count, vec sum, vec scale)
{
    const vec product = v_mul(sum, scale);
    if (count == VEC_LANES)
        v_store(c, v_add(v_load(start ? start : c), product));
    else if (count > 0)
        v_store_part(c, v_add(v_load_part(start ? start : c, count), product), count);
}

/* Scales of vector v, and sums of its integers. */
ALWAYS_INLINE vec scales_of(const char *scales, int v)
{
    return v_load((const float *)(const void *)(scales + (size_t)v * 2 * sizeof(vec)));
}

ALWAYS_INLINE veci sums_of(const char *scales, int v)
{
    veci sums;
    memcpy(&sums, scales + ((size_t)v * 2 + 1) * sizeof(vec), sizeof sums);
    return sums;
}

/* What rows of integers were multiplied to, as floats without their scales. */
ALWAYS_INLINE vec whole_of(dots sum, struct eco_row_scale row, veci weights)
{
    return __builtin_convertvector(d_sums(sum) - (row.zero - DOTS_MIDDLE) * weights, vec);
}

/* ---- blocks of rows -------------------------------------------------------------------------- */

/* The current block of rows: vectors from `first` on; some blocks prefetch the next panel. */
struct block {
    int32_t row, first;
    bool fetch;
};

/* The next lines of the next panel, for each quad.  With few rows the processor's own prefetch of
 * streams is faster. */
ALWAYS_INLINE const char *fetch_lines(const char *next, const int V)
{
    for (int v = 0; next != NULL && v < V; v++)
        __builtin_prefetch(next + LINE * v, 0, 2);
    return next != NULL ? next + LINE * V : NULL;
}

ALWAYS_INLINE const char *next_panel(const struct eco_tile_pair *pair, const struct block *block,
                                     const int R)
{
    enum { FEW = 4 };
    const size_t before = (size_t)block->first * (size_t)pair->k * VEC_LANES;
    return R > FEW && block->fetch && pair->prefetch ? (const char *)pair->prefetch + before : NULL;
}

ALWAYS_INLINE void bytes_block(const struct eco_tile *tile, const struct eco_tile_pair *pair,
                               const struct block *block, const int R, const int V)
{
    dots sum[MOST_ROWS][ECO_TILE_VECTORS];
    const uint8_t *a = (const uint8_t *)pair->a + (size_t)block->row * pair->a_row;
    const int8_t *panel = (const int8_t *)pair->panel + block->first * VECTOR;
    const char *next = next_panel(pair, block, R);
    if (R * V > DOTS_SUMS) /* never called */
        return;
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sum[r][v] = d_zero();
    for (int32_t left = pair->k; left > 0; left -= GROUP, panel += pair->panel_k) {
        const int8_t *at = panel;
        for (int32_t i = left < GROUP ? left : GROUP; i > 0; i -= QUAD, a += QUAD, at += QUADS) {
            next = fetch_lines(next, V);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) {
                const quad x = d_quad(a + (size_t)r * pair->a_row);
#pragma GCC unroll 4
                for (int v = 0; v < V; v++)
                    sum[r][v] = d_add(sum[r][v], x, at + v * VECTOR);
            }
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
        const int at = block->first + v;
        const vec scale = scales_of(pair->scales, at);
        const veci weights = sums_of(pair->scales, at);
        float *c = tile->c + (size_t)block->row * tile->c_row + tile->c_vector[at];
        const float *start = pair == tile->pair ? tile->start[at] : NULL;
#pragma GCC unroll 12
        for (int r = 0; r < R; r++, c += tile->c_row) {
            const struct eco_row_scale row = pair->rows[block->row + r];
            put_sum(c, start, tile->count[at], whole_of(sum[r][v], row, weights),
                    v_mul(v_const((double)row.scale), scale));
        }
    }
}

/* Weight j of each quad. */
ALWAYS_INLINE vec weights_of(vecu quads, int j)
{
    return __builtin_convertvector((veci)(quads << (24 - 8 * j)) >> 24, vec);
}

ALWAYS_INLINE void float_block(const struct eco_tile *tile, const struct eco_tile_pair *pair,
                               const struct block *block, const int R, const int V)
{
    vec sum[MOST_ROWS][ECO_TILE_VECTORS];
    const float *a = (const float *)pair->a + (size_t)block->row * pair->a_row;
    const int8_t *panel = (const int8_t *)pair->panel + block->first * VECTOR;
    const char *next = next_panel(pair, block, R);
    if (R * V > FLOAT_SUMS) /* never called */
        return;
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sum[r][v] = v_const(0);
    for (int32_t left = pair->k; left > 0; left -= GROUP, panel += pair->panel_k) {
        const int8_t *at = panel;
        for (int32_t i = left < GROUP ? left : GROUP; i > 0; i -= QUAD, at += QUADS) {
            vecu quads[ECO_TILE_VECTORS];
            next = fetch_lines(next, V);
#pragma GCC unroll 4
            for (int v = 0; v < V; v++)
                memcpy(&quads[v], at + v * VECTOR, sizeof *quads);
#pragma GCC unroll 4
            for (int j = 0; j < QUAD && j < i; j++, a++)
#pragma GCC unroll 12
                for (int r = 0; r < R; r++) {
                    const vec x = v_const((double)a[(size_t)r * pair->a_row]);
#pragma GCC unroll 4
                    for (int v = 0; v < V; v++)
                        sum[r][v] = v_fma(x, weights_of(quads[v], j), sum[r][v]);
                }
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
        const int at = block->first + v;
        float *c = tile->c + (size_t)block->row * tile->c_row + tile->c_vector[at];
        const float *start = pair == tile->pair ? tile->start[at] : NULL;
#pragma GCC unroll 12
        for (int r = 0; r < R; r++, c += tile->c_row)
            put_sum(c, start, tile->count[at], sum[r][v], scales_of(pair->scales, at));
    }
}

/* clang-format off */
/* R and V are constants, so that every loop over them is unrolled. */
#define BLOCK(R, V) \
    static void bytes_##R##_##V(const struct eco_tile *t, const struct eco_tile_pair *p, const struct block *b) \
    { bytes_block(t, p, b, R, V); } \
    static void float_##R##_##V(const struct eco_tile *t, const struct eco_tile_pair *p, const struct block *b) \
    { float_block(t, p, b, R, V); }
BLOCKS(BLOCK)

typedef void (*block_function)(const struct eco_tile *, const struct eco_tile_pair *, const struct block *);
/* Blocks with more sums are not built. */
#define BYTES(R, V) (R) * (V) <= DOTS_SUMS ? bytes_##R##_##V : NULL,
#define FLOATS(R, V) (R) * (V) <= FLOAT_SUMS ? float_##R##_##V : NULL,
static const block_function bytes_functions[ECO_TILE_VECTORS][MOST_ROWS] = BLOCK_TABLE(BYTES);
static const block_function float_functions[ECO_TILE_VECTORS][MOST_ROWS] = BLOCK_TABLE(FLOATS);
/* clang-format on */

static int32_t most_rows(int32_t sums, int32_t vectors)
{
    const int32_t rows = sums / vectors;
    return rows < MOST_ROWS ? rows : MOST_ROWS;
}

/* All rows by vectors [first, first + vectors), in near-equal blocks; the first one prefetches. */
static void multiply_part(const struct eco_tile *tile, int32_t first, int32_t vectors, int32_t sums,
                          const block_function (*function)[MOST_ROWS])
{
    const int32_t most = most_rows(sums, vectors), blocks = (tile->rows + most - 1) / most;
    for (int32_t i = 0; i < blocks; i++) {
        const int32_t from = (int32_t)((int64_t)tile->rows * i / blocks);
        const int32_t to = (int32_t)((int64_t)tile->rows * (i + 1) / blocks);
        const struct block block = {from, first, i == 0};
        for (int32_t p = 0; p < tile->pairs; p++)
            function[vectors - 1][to - from - 1](tile, &tile->pair[p], &block);
    }
}

static void multiply_by(const struct eco_tile *tile, int32_t sums,
                        const block_function (*function)[MOST_ROWS])
{
    const int32_t together = tile->rows <= most_rows(sums, tile->vectors) ? ECO_TILE_VECTORS : 2;
    for (int32_t v = 0, some; v < tile->vectors; v += some) {
        some = tile->vectors - v < together ? tile->vectors - v : together;
        multiply_part(tile, v, some, sums, function);
    }
}

static void multiply_bytes(const struct eco_tile *tile)
{
    multiply_by(tile, DOTS_SUMS, bytes_functions);
}

static void multiply_floats(const struct eco_tile *tile)
{
    multiply_by(tile, FLOAT_SUMS, float_functions);
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Sums of one row. */
enum { ROW_SUMS = (int)DOTS_SUMS > (int)ECO_ROW_VECTORS ? (int)ECO_ROW_VECTORS : (int)DOTS_SUMS };

/* P and V are constants, so that every loop over them is unrolled. */
ALWAYS_INLINE void row_block(const struct eco_row *row, const int P, const int V)
{
    dots sum[ECO_ROW_VECTORS];
    const uint8_t *a = row->a;
    const int8_t *panel = row->panel;
    if (P * V > ROW_SUMS) /* never called */
        return;
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++)
        sum[i] = d_zero();
    for (int32_t left = row->k; left > 0; left -= GROUP, panel += row->panel_k) {
        const int8_t *at = panel;
        for (int32_t k = left < GROUP ? left : GROUP; k > 0; k -= QUAD, a += QUAD, at += QUADS) {
            const quad x = d_quad(a);
#pragma GCC unroll 16
            for (int i = 0; i < P * V; i++)
                sum[i] = d_add(sum[i], x, at + (size_t)(i / V) * row->panel_step + i % V * VECTOR);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++) {
        const struct eco_vector *vector = &row->vector[i];
        put_sum(row->c + vector->c_vector, vector->start, vector->count,
                whole_of(sum[i], *row->rows, sums_of(row->scales, i)),
                v_mul(v_const((double)row->rows->scale), scales_of(row->scales, i)));
    }
}

#include "cpu/isa/tile_row.inc"

/* ---- rows of 8 bits -------------------------------------------------------------------------- */

ALWAYS_INLINE vec floats_at(const float *from, int32_t n, int32_t k)
{
    return n - k >= VEC_LANES ? v_load(from + k)
           : n > k            ? v_load_part(from + k, n - k)
                              : v_const(0);
}

/* Prefetches what follows, usually the next row: the processor stops at the end of a page. */
static struct eco_row_scale scale_of(const float *from, int32_t n)
{
    enum { CHAINS = 4, AHEAD = 4096 };
    vec least = v_const(0), most = v_const(0), odd = v_const(0);
    vec low4[CHAINS], high4[CHAINS], odd4[CHAINS];
    float low[VEC_LANES], high[VEC_LANES], other[VEC_LANES];
    int32_t k = 0;
#pragma GCC unroll 4
    for (int i = 0; i < CHAINS; i++)
        low4[i] = high4[i] = odd4[i] = v_const(0);
    for (; n - k >= CHAINS * VEC_LANES; k += CHAINS * VEC_LANES)
#pragma GCC unroll 4
        for (int i = 0; i < CHAINS; i++) {
            const vec x = v_load(from + k + i * VEC_LANES);
            __builtin_prefetch((const char *)(from + k + i * VEC_LANES) + AHEAD);
            low4[i] = v_min(x, low4[i]);
            high4[i] = v_max(x, high4[i]);
            odd4[i] = v_fma(x, v_const(0), odd4[i]);
        }
#pragma GCC unroll 4
    for (int i = 0; i < CHAINS; i++) {
        least = v_min(low4[i], least);
        most = v_max(high4[i], most);
        odd = v_add(odd, odd4[i]);
    }
    for (; k < n; k += VEC_LANES) {
        const vec x = floats_at(from, n, k);
        least = v_min(x, least);
        most = v_max(x, most);
        odd = v_fma(x, v_const(0), odd);
    }
    v_store(low, least);
    v_store(high, most);
    v_store(other, odd);
    for (int j = 1; j < VEC_LANES; j++) {
        low[0] = low[j] < low[0] ? low[j] : low[0];
        high[0] = high[j] > high[0] ? high[j] : high[0];
        other[0] += other[j];
    }
    return eco_row_scale(low[0], high[0], other[0]);
}

static void quantise(uint8_t *to, size_t group, const float *from, int32_t n,
                     struct eco_row_scale *scale)
{
    const struct eco_row_scale row = *scale = scale_of(from, n);
    const vec factor = v_const((double)eco_row_factor(row.scale)), low = v_const(-row.zero),
              high = v_const(255 - row.zero), shift = v_const(VEC_SHIFT);
    const veci offset = row.zero - (veci)shift;
    int32_t k = 0;
    for (; n - k >= GROUP; to += group)
#pragma GCC unroll 4
        for (int32_t i = 0; i < GROUP; i += VEC_LANES, k += VEC_LANES) {
            const vec at = v_mul(v_load(from + k), factor);
            v_store_bytes(to + i, (veci)v_add(v_min(v_max(at, low), high), shift) + offset);
        }
    const bool more = k < n;
    for (int32_t i = 0; more && i < GROUP; i += VEC_LANES, k += VEC_LANES) {
        const vec at = v_mul(floats_at(from, n, k), factor);
        v_store_bytes(to + i, (veci)v_add(v_min(v_max(at, low), high), shift) + offset);
    }
}

#ifndef ECO_BYTES
#define ECO_BYTES ECO_ISA
#endif
const struct eco_byte_kernels JOIN(eco_bytes_, ECO_BYTES) = {
    .bytes = {.lanes = VEC_LANES,
              .most = {MOST_ROWS, MOST_ROWS, MOST_ROWS, MOST_ROWS},
              .multiply = multiply_bytes,
              .row = multiply_row,
              .row_panels = {1, ROW_SUMS / 2, ROW_SUMS / 3, ROW_SUMS / 4}},
    .floats = {.lanes = VEC_LANES,
               .most = {MOST_ROWS, MOST_ROWS, MOST_ROWS, MOST_ROWS},
               .multiply = multiply_floats},
    .quantise = quantise,
};
