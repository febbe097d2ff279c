/*
 * The product kernel for BF16 weights in the vocabulary, compiled once for each instruction set
 * like tile.c: a shift or a mask widens weights to float, two k from one vector.
 */
#include "cpu/isa/isa.h"

#include "cpu/isa/tile_blocks.h"
#include "cpu/isa/vec.h"
#include "cpu/isa/vec_narrow.h"

enum { MANY_REGISTERS = VEC_REGISTERS == 32 };
enum { MOST_ROWS = 12, PAIR = 2 * VEC_LANES, VECTOR = ECO_NARROW_GROUP * VEC_LANES };
/* Bytes by which one or two rows prefetch their panel: the processor does not cross pages. */
enum { AHEAD = 4096, AHEAD_ROWS = 2, LINE = 64 };
/* Rows of a block by vectors: sums, packed weights and widened ones share the registers. */
enum {
    ROWS_1 = MANY_REGISTERS ? 12 : 10,
    ROWS_2 = MANY_REGISTERS ? 12 : 5,
    ROWS_3 = MANY_REGISTERS ? 7 : 3,
    ROWS_4 = MANY_REGISTERS ? 5 : 2
};
static const int32_t narrow_rows[ECO_TILE_VECTORS] = {ROWS_1, ROWS_2, ROWS_3, ROWS_4};

ALWAYS_INLINE vec narrow_start(const struct eco_tile *tile, int v, const float *c, bool starts)
{
    const float *from = starts && tile->start[v] ? tile->start[v] : c + tile->c_vector[v];
    if (tile->count[v] == VEC_LANES)
        return v_load(from);
    return tile->count[v] > 0 ? v_load_part(from, tile->count[v]) : v_const(0);
}

ALWAYS_INLINE void narrow_store(const struct eco_tile *tile, int v, float *c, vec sum)
{
    float *to = c + tile->c_vector[v];
    if (tile->count[v] == VEC_LANES)
        v_store(to, sum);
    else if (tile->count[v] > 0)
        v_store_part(to, sum, tile->count[v]);
}

/* sum += a[k] times the widened vectors. R and V are constants, so that the loops are unrolled. */
ALWAYS_INLINE void narrow_add(vec (*sum)[ECO_TILE_VECTORS], const float *a, size_t a_row,
                              const vec *weight, const int R, const int V)
{
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
        const vec x = v_const((double)a[(size_t)r * a_row]);
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sum[r][v] = v_fma(x, weight[v], sum[r][v]);
    }
}

ALWAYS_INLINE void narrow_load(vecu *raw, const uint16_t *panel, const int V)
{
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
        memcpy(&raw[v], panel + v * VECTOR, sizeof *raw);
}

/* The weights of the first or the second k of pairs. */
ALWAYS_INLINE void narrow_widened(vec *weight, const vecu *raw, const int V, const bool second)
{
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
        weight[v] = (vec)(second ? raw[v] & 0xffff0000u : raw[v] << 16);
}

/* n of k of a panel, from k and vector `first` on. */
struct part {
    int32_t k, n, first;
    bool starts; /* C starts here */
};

/* Keeps widened weights, and returns where the next ones go. */
ALWAYS_INLINE float *narrow_keep(float *to, const vec *weight, const int V)
{
#pragma GCC unroll 2
    for (int v = 0; to != NULL && v < V; v++)
        v_store(to + v * VEC_LANES, weight[v]);
    return to != NULL ? to + V * VEC_LANES : NULL;
}

/* The sums over the k of a part, from row 0 on; fetch: also prefetches as much of the next panel.
 * wide: gets the widened weights [n, vectors, lanes], or NULL. */
ALWAYS_INLINE void narrow_sums(vec (*sum)[ECO_TILE_VECTORS], const struct eco_tile_pair *pair,
                               const struct part *part, float *wide, const int R, const int V,
                               const bool fetch)
{
    const size_t a_row = pair->a_row;
    const float *a = (const float *)pair->a + part->k;
    const uint16_t *panel = (const uint16_t *)pair->panel + part->first * VECTOR +
                            (size_t)(part->k / ECO_NARROW_GROUP) * pair->panel_k;
    const char *next = pair->prefetch;
    if (fetch)
        next += ((size_t)part->first * (size_t)pair->k + (size_t)(part->k * V)) * VEC_LANES *
                sizeof *panel;
    for (int32_t left = part->n; left > 0; left -= ECO_NARROW_GROUP, panel += pair->panel_k) {
        const int32_t k = left < ECO_NARROW_GROUP ? left : ECO_NARROW_GROUP;
        const uint16_t *at = panel;
        vecu raw[ECO_TILE_VECTORS];
        vec weight[ECO_TILE_VECTORS];
        for (int32_t i = 1; i < k; i += 2, a += 2, at += PAIR) {
#pragma GCC unroll 4
            for (int v = 0; fetch && v < V; v++)
                __builtin_prefetch(next + LINE * v, 0, 2);
            if (fetch)
                next += LINE * V;
#pragma GCC unroll 4
            for (int v = 0; R <= AHEAD_ROWS && v < V; v++)
                __builtin_prefetch((const void *)((uintptr_t)(at + v * VECTOR) + AHEAD), 0, 3);
            narrow_load(raw, at, V);
            narrow_widened(weight, raw, V, false);
            wide = narrow_keep(wide, weight, V);
            narrow_add(sum, a, a_row, weight, R, V);
            narrow_widened(weight, raw, V, true);
            wide = narrow_keep(wide, weight, V);
            narrow_add(sum, a + 1, a_row, weight, R, V);
        }
        if (k % 2 == 0)
            continue;
        narrow_load(raw, at, V);
        narrow_widened(weight, raw, V, false);
        wide = narrow_keep(wide, weight, V);
        narrow_add(sum, a, a_row, weight, R, V);
    }
}

/* R and V are constants, so that every loop over them is unrolled. */
ALWAYS_INLINE void narrow_block(const struct eco_tile *tile, int32_t first, const int R,
                                const int V)
{
    vec sum[MOST_ROWS][ECO_TILE_VECTORS];
    float *const c = tile->c;
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sum[r][v] = narrow_start(tile, first + v, c + (size_t)r * tile->c_row, true);
    for (int32_t p = 0; p < tile->pairs; p++) {
        const struct eco_tile_pair *pair = &tile->pair[p];
        const struct part part = {0, pair->k, first, p == 0};
        if (pair->prefetch) /* see tile.c */
            narrow_sums(sum, pair, &part, NULL, R, V, true);
        else
            narrow_sums(sum, pair, &part, NULL, R, V, false);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            narrow_store(tile, first + v, c + (size_t)r * tile->c_row, sum[r][v]);
}

/* clang-format off */
#define NARROW_BLOCK(R, V) \
    static void narrow_##R##_##V(const struct eco_tile *tile, int32_t first) \
    { narrow_block(tile, first, R, V); }
BLOCKS(NARROW_BLOCK)

typedef void (*narrow_function)(const struct eco_tile *, int32_t first);
/* Blocks with more rows are not built. */
#define NARROW(R, V) (R) <= ROWS_##V ? narrow_##R##_##V : NULL,
static const narrow_function narrow_functions[ECO_TILE_VECTORS][MOST_ROWS] = BLOCK_TABLE(NARROW);
/* clang-format on */

/* All rows, which are one block, by vectors [first, first + vectors). */
static void narrow_part(const struct eco_tile *tile, int32_t first, int32_t vectors)
{
    narrow_functions[vectors - 1][tile->rows - 1](tile, first);
}

/* ---- more rows than one block ---------------------------------------------------------------- */

/* The first block of rows widens WIDE_K k of the weights into a buffer, which the other blocks
 * read. Between two buffers the sums are stored in C and read again, which does not change them. */
enum { WIDE_K = 512, WIDE_ROWS_1 = ROWS_1, WIDE_ROWS_2 = ROWS_2 };

/* Sums over the k of a part by widened weights; even numbers of k, of which the last may be 0. */
ALWAYS_INLINE void wide_sums(vec (*sum)[ECO_TILE_VECTORS], const float *a, size_t a_row,
                             const float *weights, int32_t n, const int R, const int V)
{
    const float *at[MOST_ROWS / 4]; /* see tile.c */
#pragma GCC unroll 3
    for (int q = 0; q < MOST_ROWS / 4; q++)
        at[q] = a + (size_t)(4 * q) * a_row;
    for (; n > 0; n--, weights += V * VEC_LANES) {
        vec weight[2];
#pragma GCC unroll 2
        for (int v = 0; v < V; v++)
            weight[v] = v_load(weights + v * VEC_LANES);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            const vec x = v_const((double)at[r / 4][(size_t)(r % 4) * a_row]);
#pragma GCC unroll 2
            for (int v = 0; v < V; v++)
                sum[r][v] = v_fma(x, weight[v], sum[r][v]);
        }
#pragma GCC unroll 3
        for (int q = 0; q < MOST_ROWS / 4; q++)
            at[q]++;
    }
}

/* R and V are constants, so that every loop over them is unrolled. wide: widened weights
 * [n, vectors, lanes], which the first block writes. */
ALWAYS_INLINE void wide_block(const struct eco_tile *tile, const struct eco_tile_pair *pair,
                              const struct part *part, float *wide, int32_t row, const int R,
                              const int V)
{
    vec sum[MOST_ROWS][ECO_TILE_VECTORS];
    float *const c = tile->c + (size_t)row * tile->c_row;
    const float *a = (const float *)pair->a + (size_t)row * pair->a_row + part->k;
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++)
            sum[r][v] =
                narrow_start(tile, part->first + v, c + (size_t)r * tile->c_row, part->starts);
    if (row == 0 && pair->prefetch)
        narrow_sums(sum, pair, part, wide, R, V, true);
    else if (row == 0)
        narrow_sums(sum, pair, part, wide, R, V, false);
    else
        wide_sums(sum, a, pair->a_row, wide, part->n, R, V);
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++)
            narrow_store(tile, part->first + v, c + (size_t)r * tile->c_row, sum[r][v]);
}

/* clang-format off */
#define WIDE_BLOCK(R, V) \
    static void wide_##R##_##V(const struct eco_tile *t, const struct eco_tile_pair *p, const struct part *a, float *w, int32_t row) \
    { wide_block(t, p, a, w, row, R, V); }
BLOCKS_1(WIDE_BLOCK) BLOCKS_2(WIDE_BLOCK)

typedef void (*wide_function)(const struct eco_tile *, const struct eco_tile_pair *, const struct part *, float *, int32_t);
#define WIDE(R, V) (R) <= WIDE_ROWS_##V ? wide_##R##_##V : NULL,
static const wide_function wide_functions[2][MOST_ROWS] = {{BLOCKS_1(WIDE)}, {BLOCKS_2(WIDE)}};
/* clang-format on */

/* All rows by one or two vectors, in near-equal blocks. */
static void wide_part(const struct eco_tile *tile, int32_t first, int32_t vectors)
{
    _Alignas(LINE) float wide[WIDE_K * 2 * VEC_LANES];
    const int32_t most = narrow_rows[vectors - 1], blocks = (tile->rows + most - 1) / most;
    struct part part = {.first = first, .starts = true};
    for (const struct eco_tile_pair *pair = tile->pair; pair < tile->pair + tile->pairs; pair++)
        for (part.k = 0; part.k < pair->k; part.k += WIDE_K, part.starts = false) {
            part.n = pair->k - part.k < WIDE_K ? pair->k - part.k : WIDE_K;
            for (int32_t i = 0; i < blocks; i++) {
                const int32_t from = (int32_t)((int64_t)tile->rows * i / blocks);
                const int32_t to = (int32_t)((int64_t)tile->rows * (i + 1) / blocks);
                wide_functions[vectors - 1][to - from - 1](tile, pair, &part, wide, from);
            }
        }
}

static void narrow_multiply(const struct eco_tile *tile)
{
    if (tile->rows <= narrow_rows[tile->vectors - 1]) {
        narrow_part(tile, 0, tile->vectors);
        return;
    }
    for (int32_t v = 0, some; v < tile->vectors; v += some) {
        some = tile->vectors - v < 2 ? 1 : 2;
        (tile->rows <= narrow_rows[some - 1] ? narrow_part : wide_part)(tile, v, some);
    }
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Registers for sums; others have packed weights, widened ones and two of A. */
enum { ROW_SUMS = MANY_REGISTERS ? ECO_ROW_VECTORS : 8 };

/* Numbers of A and the weights that they are multiplied by, in panels `step` apart. */
struct row_terms {
    const float *a;
    const uint16_t *panel;
    size_t step;
};

/* sum += two of A, or one, times pairs of weights. */
ALWAYS_INLINE void row_pair(vec *sum, const struct row_terms *at, const int P, const int V,
                            const bool both)
{
    const vec even = v_const((double)at->a[0]), odd = v_const(both ? (double)at->a[1] : 0);
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++) {
        vecu raw;
        memcpy(&raw, at->panel + (size_t)(i / V) * at->step + i % V * VECTOR, sizeof raw);
        sum[i] = v_fma(even, (vec)(raw << 16), sum[i]);
        if (both)
            sum[i] = v_fma(odd, (vec)(raw & 0xffff0000u), sum[i]);
    }
}

/* P and V are constants, so that every loop over them is unrolled. */
ALWAYS_INLINE void row_block(const struct eco_row *row, const int P, const int V)
{
    vec sum[ECO_ROW_VECTORS];
    struct row_terms at = {row->a, row->panel, row->panel_step};
    const uint16_t *panel = row->panel;
    if (P * V > ROW_SUMS) /* never called */
        return;
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++) {
        const struct eco_vector *vector = &row->vector[i];
        const float *start = vector->start ? vector->start : row->c + vector->c_vector;
        sum[i] = vector->count == VEC_LANES ? v_load(start)
                 : vector->count > 0        ? v_load_part(start, vector->count)
                                            : v_const(0);
    }
    for (int32_t left = row->k; left > 0; left -= ECO_NARROW_GROUP, panel += row->panel_k) {
        const int32_t k = left < ECO_NARROW_GROUP ? left : ECO_NARROW_GROUP;
        at.panel = panel;
        for (int32_t i = 1; i < k; i += 2, at.a += 2, at.panel += PAIR)
            row_pair(sum, &at, P, V, true);
        if (k % 2 != 0)
            row_pair(sum, &at, P, V, false);
    }
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++) {
        const struct eco_vector *vector = &row->vector[i];
        if (vector->count == VEC_LANES)
            v_store(row->c + vector->c_vector, sum[i]);
        else if (vector->count > 0)
            v_store_part(row->c + vector->c_vector, sum[i], vector->count);
    }
}

#include "cpu/isa/tile_row.inc"

/* ---- rows ------------------------------------------------------------------------------------ */

static void narrow_widen(float *to, const uint16_t *from, int32_t n)
{
    int32_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        v_store(to + j, v_load_narrow(from + j));
    if (j < n)
        v_store_part(to + j, v_load_narrow_part(from + j, n - j), n - j);
}

static void narrow_round(uint16_t *to, const float *from, int32_t n, bool add)
{
    for (int32_t j = 0; j < n; j += VEC_LANES) {
        const int32_t left = n - j, count = left < VEC_LANES ? left : VEC_LANES;
        const bool whole = count == VEC_LANES;
        vec v = whole ? v_load(from + j) : v_load_part(from + j, count);
        if (add)
            v = v_add(whole ? v_load_narrow(to + j) : v_load_narrow_part(to + j, count), v);
        if (whole)
            v_store_narrow(to + j, v);
        else
            v_store_narrow_part(to + j, v, count);
    }
}

const struct eco_tile_kernel JOIN(eco_narrow_, ECO_ISA) = {
    .lanes = VEC_LANES,
    .most = {ROWS_1, ROWS_2, ROWS_3, ROWS_4},
    .multiply = narrow_multiply,
    .row = multiply_row,
    .row_panels = {1, ROW_SUMS / 2, ROW_SUMS / 3, ROW_SUMS / 4},
};

const struct eco_narrow_rows JOIN(eco_rows_, ECO_ISA) = {
    .widen = narrow_widen,
    .round = narrow_round,
};
