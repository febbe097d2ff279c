/*
 * The product kernel in the vocabulary, compiled once for each instruction set like isa.c: blocks
 * of rows times a panel's vectors, with all sums in registers. Weights are loaded as whole vectors,
 * activations one by one; the next panel is prefetched meanwhile.
 */
#include "cpu/isa/isa.h"

#include "cpu/isa/tile_blocks.h"
#include "cpu/isa/vec.h"

/* Registers for sums, of 16 or 32; the others hold a panel's vectors of one k and a broadcast. */
enum { TILE_SUMS = VEC_REGISTERS == 32 ? 24 : 12 };
enum { TILE_ROWS = 12 }; /* most rows of a block */
/* Vectors of a panel: usually two; four where a broadcast takes an instruction between the sums. */
enum { RULE_VECTORS = VEC_FUSED ? 2 : 4 };

/* A vector in a register: the compiler would rather load it again for each of a few rows. */
#ifndef VEC_HAS_HOLD
ALWAYS_INLINE vec v_hold(vec v)
{
    return v;
}
#endif

ALWAYS_INLINE vec tile_load(const float *from, int32_t count)
{
    if (count == VEC_LANES)
        return v_load(from);
    return count > 0 ? v_load_part(from, count) : v_const(0);
}

ALWAYS_INLINE void tile_store(float *to, vec v, int32_t count)
{
    if (count == VEC_LANES)
        v_store(to, v);
    else if (count > 0)
        v_store_part(to, v, count);
}

/* One or two rows read panels as fast as memory delivers them; prefetching only disturbs. */
enum { FETCH_ROWS = 3 };

/*
 * Several blocks of rows read the same panel, so they go through one pair after the other together,
 * and through a pair in parts if that pays: PART_BYTES of a panel stay in the first-level cache for
 * all of them. In between the sums of up to PART_BLOCKS blocks are kept. Example: AVX2, 32 rows,
 * k = 512 of x and of h, panels of two vectors. Six blocks read k 0 .. 255 of the panel of x from
 * the cache, then 256 .. 511, then the two parts of the panel of h. If each block read both panels
 * to their ends, no first-level cache would hold the 64 KB until the next block.
 *
 * A part takes about 50 cycles more. With first-level caches of SMALL_FIRST that pays if blocks
 * read lines of a panel in less than LINE_CYCLES each: in the caches of a Zen 3 AVX2's blocks of
 * six rows have a miss every 3.9 cycles without parts, which is nearly the rate of the second
 * level, and every 10 with them. Larger ones deliver lines as fast as blocks read them.
 */
enum { PART_BYTES = 16 << 10, PART_BLOCKS = 8, SMALL_FIRST = 32 << 10, LINE_CYCLES = 8 };
enum { LINE_VECTORS = 64 / sizeof(vec) }; /* of a cache line */

struct tile_part {
    const struct eco_tile_pair *pair; /* with the part's k alone */
    bool begins, ends;                /* the chains of the pair */
    bool first;                       /* of the pairs */
    float *sums;                      /* of the blocks between parts, NULL without parts */
};

/* What row block i prefetches, a line at each k: the first blocks the next panel, others
 * nothing. */
ALWAYS_INLINE const char *tile_prefetch(const struct eco_tile_pair *pair, int32_t i, const int R,
                                        const int V)
{
    if (R < FETCH_ROWS)
        return NULL;
    const size_t offset = (size_t)i * (size_t)pair->k * 64;
    const size_t panel = (size_t)pair->k * (size_t)V * sizeof(vec);
    return pair->prefetch && offset < panel ? (const char *)pair->prefetch + offset : NULL;
}

/* Bytes by which many rows prefetch their own panel; few rows read it at the rate of memory. */
enum { AHEAD = 2048, AHEAD_ROWS = 6 };

/* The sums of a block over the k of a pair. */
ALWAYS_INLINE void tile_sums(vec sum[TILE_ROWS][ECO_TILE_VECTORS], const struct eco_tile_pair *pair,
                             int32_t row, const char *prefetch, const int R, const int V)
{
    const bool fetch = prefetch != NULL;
    const size_t a_row = pair->a_row, a_k = pair->a_k, panel_k = pair->panel_k;
    const float *a[TILE_ROWS / 4]; /* every fourth row, so that the addresses fit in registers */
#pragma GCC unroll 3
    for (int q = 0; q < TILE_ROWS / 4; q++)
        a[q] = (const float *)pair->a + (size_t)(row + 4 * q) * a_row;
    const float *panel = pair->panel;
    for (int32_t k = pair->k; k > 0; k--, panel += panel_k) {
        vec weight[ECO_TILE_VECTORS];
        if (fetch) {
            __builtin_prefetch(prefetch, 0, 2);
            prefetch += 64;
        }
#pragma GCC unroll 4
        for (int v = 0; v < V && R >= AHEAD_ROWS; v += LINE_VECTORS)
            __builtin_prefetch((const char *)(panel + v * VEC_LANES) + AHEAD, 0, 3);
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            weight[v] = v_load(panel + v * VEC_LANES);
            if (R > 1 && R * V + V < VEC_REGISTERS)
                weight[v] = v_hold(weight[v]);
        }
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            const vec x = v_const((double)a[r / 4][(size_t)(r % 4) * a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < V; v++)
                sum[r][v] = v_fma(x, weight[v], sum[r][v]);
        }
#pragma GCC unroll 3
        for (int q = 0; q < TILE_ROWS / 4; q++)
            a[q] += a_k;
    }
}

/* The next block adds to C too: prefetches its rows, or those of the next tile. */
ALWAYS_INLINE void tile_fetch(const struct eco_tile *tile, int32_t row, const int R, const int V)
{
    const bool last = row + R >= tile->rows;
    const float *next = last ? tile->next : tile->c + (size_t)(row + R) * tile->c_row;
    if (next == NULL || tile->start[0] != NULL)
        return;
    if (!last)
        next += tile->c_vector[0];
    for (int r = 0; r < R; r++, next += tile->c_row)
        for (int v = 0; v < V; v += LINE_VECTORS)
            __builtin_prefetch(next + v * VEC_LANES, 0, 3);
}

/* C is needed at the end; with few rows it has not been prefetched. */
ALWAYS_INLINE void tile_fetch_own(const struct eco_tile *tile, const float *c, const int R,
                                  const int V)
{
    for (int r = 0; r < R && R < AHEAD_ROWS; r++, c += tile->c_row)
        for (int v = 0; v < V; v++)
            if (tile->start[v] == NULL)
                __builtin_prefetch(c + tile->c_vector[v], 0, 3);
}

ALWAYS_INLINE void tile_clear(vec sum[TILE_ROWS][ECO_TILE_VECTORS], const int R, const int V)
{
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sum[r][v] = v_const(0);
}

/* The place of the sums of block i between parts. */
ALWAYS_INLINE float *tile_kept(const struct tile_part *part, int32_t i)
{
    return part->sums + i % PART_BLOCKS * TILE_SUMS * VEC_LANES;
}

/* Keeps the sums, or takes them from there. */
ALWAYS_INLINE void tile_keep(vec sum[TILE_ROWS][ECO_TILE_VECTORS], float *kept, const int R,
                             const int V, const bool keeps)
{
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++, kept += VEC_LANES)
            if (keeps)
                v_store(kept, sum[r][v]);
            else
                sum[r][v] = v_load(kept);
}

/* The sums of a block are added to C; those of the first pair are added to `start`. */
struct tile_result {
    const struct eco_tile *tile;
    float *c;
    bool first;
};

/* whole: all vectors exist in C, which is the usual case, without tests between loads and stores.
 */
ALWAYS_INLINE void tile_add(vec sum[TILE_ROWS][ECO_TILE_VECTORS], const struct tile_result *to,
                            const int R, const int V, const bool whole)
{
    const struct eco_tile *tile = to->tile;
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
        const int32_t count = whole ? VEC_LANES : tile->count[v];
        if (to->first && tile->start[v]) {
            const vec start = tile_load(tile->start[v], count);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++)
                sum[r][v] = v_add(start, sum[r][v]);
            continue;
        }
#pragma GCC unroll 12
        for (int r = 0; r < R; r++)
            sum[r][v] = v_add(tile_load(to->c + (size_t)r * tile->c_row + tile->c_vector[v], count),
                              sum[r][v]);
    }
}

ALWAYS_INLINE void tile_end(vec sum[TILE_ROWS][ECO_TILE_VECTORS], const struct tile_result *to,
                            const int R, const int V, const bool whole)
{
    const struct eco_tile *tile = to->tile;
    tile_add(sum, to, R, V, whole);
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            tile_store(to->c + (size_t)r * tile->c_row + tile->c_vector[v], sum[r][v],
                       whole ? VEC_LANES : tile->count[v]);
}

/* A part of row block i, from row `row` on. R and V are constants, so that every loop over them is
 * unrolled. */
ALWAYS_INLINE void tile_block(const struct eco_tile *tile, const struct tile_part *part,
                              int32_t row, int32_t i, const int R, const int V)
{
    vec sum[TILE_ROWS][ECO_TILE_VECTORS];
    const struct tile_result to = {tile, tile->c + (size_t)row * tile->c_row, part->first};
    const char *prefetch = tile_prefetch(part->pair, i, R, V);
    bool whole = true;
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
        whole &= tile->count[v] == VEC_LANES;
    if (part->begins)
        tile_clear(sum, R, V);
    else
        tile_keep(sum, tile_kept(part, i), R, V, false);
    if (part->ends) {
        tile_fetch(tile, row, R, V);
        tile_fetch_own(tile, to.c, R, V);
    }
    if (prefetch) /* a loop of its own, because even prefetching cached data takes time */
        tile_sums(sum, part->pair, row, prefetch, R, V);
    else
        tile_sums(sum, part->pair, row, NULL, R, V);
    if (!part->ends)
        tile_keep(sum, tile_kept(part, i), R, V, true);
    else if (whole)
        tile_end(sum, &to, R, V, true);
    else
        tile_end(sum, &to, R, V, false);
}

/* clang-format off */
#define TILE_BLOCK(R, V) \
    static void tile_##R##_##V(const struct eco_tile *tile, const struct tile_part *part, \
                               int32_t row, int32_t i) \
    { tile_block(tile, part, row, i, R, V); }
BLOCKS(TILE_BLOCK)

typedef void (*tile_function)(const struct eco_tile *, const struct tile_part *, int32_t row,
                              int32_t i);
/* Blocks with more sums than registers are not built. */
#define TILE(R, V) (R) * (V) <= TILE_SUMS ? tile_##R##_##V : NULL,
static const tile_function tile_functions[ECO_TILE_VECTORS][TILE_ROWS] = BLOCK_TABLE(TILE);
/* clang-format on */
static const int32_t tile_most[ECO_TILE_VECTORS] = {TILE_ROWS, TILE_SUMS / 2, TILE_SUMS / 3,
                                                    TILE_SUMS / 4};

/* The first row of block i of `blocks`, which are near-equal: 20 rows are 10 and 10, not 12 and
 * 8. */
static int32_t tile_row(const struct eco_tile *tile, int32_t i, int32_t blocks)
{
    return (int32_t)((int64_t)tile->rows * i / blocks);
}

/* Some of the k of a pair. */
static struct eco_tile_pair tile_some(const struct eco_tile_pair *pair, int32_t from, int32_t to)
{
    struct eco_tile_pair some = *pair;
    some.k = to - from;
    some.a = (const float *)pair->a + (size_t)from * pair->a_k;
    some.panel = (const float *)pair->panel + (size_t)from * pair->panel_k;
    some.prefetch =
        pair->prefetch ? (const float *)pair->prefetch + (size_t)from * pair->panel_k : NULL;
    return some;
}

/* The most k of a part of a panel that blocks of `rows` rows read. */
static int32_t tile_part_k(const struct eco_tile *tile, int32_t rows)
{
    const int32_t cycles = rows * LINE_VECTORS / 2; /* two multiply-adds in each */
    const bool pays = tile->first_bytes <= SMALL_FIRST && cycles < LINE_CYCLES;
    return pays ? PART_BYTES / (int32_t)sizeof(vec) / tile->vectors : INT32_MAX;
}

/* Row blocks first .. end of `blocks`. */
static void tile_blocks(const struct eco_tile *tile, int32_t first, int32_t end, int32_t blocks)
{
    float sums[PART_BLOCKS * TILE_SUMS * VEC_LANES];
    const tile_function *const functions = tile_functions[tile->vectors - 1];
    const int32_t most = tile_part_k(tile, tile->rows / blocks);
    for (int32_t p = 0; p < tile->pairs; p++) {
        const int32_t k = tile->pair[p].k, parts = k > most ? (k - 1) / most + 1 : 1;
        for (int32_t j = 0; j < parts; j++) {
            const int32_t from = (int32_t)((int64_t)k * j / parts),
                          to = (int32_t)((int64_t)k * (j + 1) / parts);
            const struct eco_tile_pair some = tile_some(&tile->pair[p], from, to);
            const struct tile_part part = {&some, j == 0, j == parts - 1, p == 0, sums};
            for (int32_t i = first, row = tile_row(tile, i, blocks); i < end; i++) {
                const int32_t next = tile_row(tile, i + 1, blocks);
                functions[next - row - 1](tile, &part, row, i);
                row = next;
            }
        }
    }
}

static void tile_multiply(const struct eco_tile *tile)
{
    const int32_t most = tile_most[tile->vectors - 1];
    if (tile->rows <= most) { /* without divisions, which few rows would notice */
        const tile_function function = tile_functions[tile->vectors - 1][tile->rows - 1];
        for (int32_t p = 0; p < tile->pairs; p++)
            function(tile, &(struct tile_part){&tile->pair[p], true, true, p == 0, NULL}, 0, 0);
        return;
    }
    const int32_t blocks = (tile->rows + most - 1) / most;
    for (int32_t i = 0; i < blocks; i += PART_BLOCKS)
        tile_blocks(tile, i, i + PART_BLOCKS < blocks ? i + PART_BLOCKS : blocks, blocks);
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Registers for sums; one more holds A, weights come from memory. */
enum { ROW_SUMS = VEC_REGISTERS == 32 ? ECO_ROW_VECTORS : 12 };

/* If the rule is four vectors, narrower panels have no neighbours. */
enum { ROW_PANELS_2 = RULE_VECTORS == 4 ? 1 : ROW_SUMS / 2 };
enum { ROW_PANELS_3 = RULE_VECTORS == 4 ? 1 : ROW_SUMS / 3 };

ALWAYS_INLINE void row_sums(vec *sum, const struct eco_row *row, const int P, const int V)
{
    const float *a = row->a, *const end = a + row->k;
    const float *panel = row->panel;
    const size_t panel_k = row->panel_k, step = row->panel_step;
    for (; a < end; a++, panel += panel_k) {
        const vec x = v_const((double)*a);
#pragma GCC unroll 16
        for (int i = 0; i < P * V; i++)
            sum[i] = v_fma(x, v_load(panel + (size_t)(i / V) * step + i % V * VEC_LANES), sum[i]);
    }
}

ALWAYS_INLINE void row_end(const vec *sum, const struct eco_row *row, const int n, const bool whole)
{
#pragma GCC unroll 16
    for (int i = 0; i < n; i++) {
        const struct eco_vector *vector = &row->vector[i];
        const int32_t count = whole ? VEC_LANES : vector->count;
        float *const c = row->c + vector->c_vector;
        const vec start = tile_load(vector->start ? vector->start : c, count);
        tile_store(c, v_add(start, sum[i]), count);
    }
}

/* P and V are constants, so that every loop over them is unrolled. */
ALWAYS_INLINE void row_block(const struct eco_row *row, const int P, const int V)
{
    vec sum[ECO_ROW_VECTORS];
    bool whole = true;
    if (P * V > ROW_SUMS || (V == 2 && P > ROW_PANELS_2) || (V == 3 && P > ROW_PANELS_3))
        return; /* never called */
#pragma GCC unroll 16
    for (int i = 0; i < P * V; i++) {
        sum[i] = v_const(0);
        whole &= row->vector[i].count == VEC_LANES;
    }
    row_sums(sum, row, P, V);
    if (whole)
        row_end(sum, row, P * V, true);
    else
        row_end(sum, row, P * V, false);
}

#include "cpu/isa/tile_row.inc"

/* ---- copies of rows -------------------------------------------------------------------------- */

enum {
    COPY_AHEAD = 6
}; /* rows: each may begin in a page of its own, which the hardware does not prefetch */

ALWAYS_INLINE void copy_row(float *to, const float *from, const float *later, int32_t count,
                            int32_t width)
{
    for (int32_t j = 0; j < count; j += 64 / (int32_t)sizeof *later)
        __builtin_prefetch(later + j, 0, 3);
    for (int32_t j = 0; j < width; j += VEC_LANES) {
        const int32_t left = count - j, room = width - j;
        tile_store(to + j, tile_load(from + j, left < VEC_LANES ? left : VEC_LANES),
                   room < VEC_LANES ? room : VEC_LANES);
    }
}

static void tile_copy(struct eco_tile_copy *copy, const float *from, size_t row, int32_t rows)
{
    for (int32_t r = 0; r < rows; r++, from += row)
        for (int32_t i = 0; i < copy->n; i++) {
            const float *first = from + copy->first[i];
            copy_row(copy->to[i], first, first + COPY_AHEAD * row, copy->count[i], copy->width[i]);
            copy->to[i] += copy->width[i];
        }
}

const struct eco_tile_kernel JOIN(eco_tile_, ECO_ISA) = {
    .lanes = VEC_LANES,
    .rows = TILE_SUMS / RULE_VECTORS,
    .vectors = RULE_VECTORS,
    .sums = TILE_SUMS,
    .most = {TILE_ROWS, TILE_SUMS / 2, TILE_SUMS / 3, TILE_SUMS / 4},
    .multiply = tile_multiply,
    .row = multiply_row,
    .row_panels = {1, ROW_PANELS_2, ROW_PANELS_3, ROW_SUMS / 4},
    .copy = tile_copy,
};
