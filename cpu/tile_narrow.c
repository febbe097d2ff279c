/*
 * The product kernel for BF16 weights in the vocabulary, compiled once per instruction set like
 * tile.c: weights are widened to float by a shift or a mask, two k from one vector.
 */
#include "cpu/isa.h"

#include "cpu/narrow.h"
#include "cpu/vec.h"
#include "cpu/vec_narrow.h"

enum { MANY_REGISTERS = VEC_REGISTERS == 32 };
enum { MOST_ROWS = 12, PAIR = 2 * VEC_LANES, VECTOR = ECO_NARROW_GROUP * VEC_LANES };
/* Rows of a block by vectors: sums, raw weights and widened ones share the registers. */
static const int32_t narrow_rows[ECO_NARROW_VECTORS] = {
    MANY_REGISTERS ? 12 : 10, MANY_REGISTERS ? 12 : 5, MANY_REGISTERS ? 7 : 3,
    MANY_REGISTERS ? 5 : 2};

ALWAYS_INLINE vec narrow_start(const struct eco_narrow *n, int v, const float *c)
{
    const float *from = n->start[v] ? n->start[v] : c + n->c_vector[v];
    if (n->count[v] == VEC_LANES)
        return v_load(from);
    return n->count[v] > 0 ? v_load_part(from, n->count[v]) : v_const(0);
}

ALWAYS_INLINE void narrow_store(const struct eco_narrow *n, int v, float *c, vec sum)
{
    float *to = c + n->c_vector[v];
    if (n->count[v] == VEC_LANES)
        v_store(to, sum);
    else if (n->count[v] > 0)
        v_store_part(to, sum, n->count[v]);
}

/* sum += a[k] times the widened vectors.  R and V are constants: the loops disappear. */
ALWAYS_INLINE void narrow_add(vec (*sum)[ECO_NARROW_VECTORS], const float *a, size_t a_row,
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

ALWAYS_INLINE void narrow_pair(vec (*sum)[ECO_NARROW_VECTORS], const float *a, size_t a_row,
                               const uint16_t *panel, const int R, const int V, const bool both)
{
    vecu raw[ECO_NARROW_VECTORS];
    vec weight[ECO_NARROW_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
        memcpy(&raw[v], panel + v * VECTOR, sizeof *raw);
        weight[v] = (vec)(raw[v] << 16);
    }
    narrow_add(sum, a, a_row, weight, R, V);
    if (!both)
        return;
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
        weight[v] = (vec)(raw[v] & 0xffff0000u);
    narrow_add(sum, a + 1, a_row, weight, R, V);
}

ALWAYS_INLINE void narrow_block(const struct eco_narrow *n, int32_t row, const char *prefetch,
                                const int R, const int V)
{
    vec sum[MOST_ROWS][ECO_NARROW_VECTORS];
    float *const c = n->c + (size_t)row * n->c_row;
    const size_t a_row = n->a_row;
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sum[r][v] = narrow_start(n, v, c + (size_t)r * n->c_row);
    const float *a = n->a + (size_t)row * a_row;
    const uint16_t *panel = n->panel;
    for (int32_t left = n->k; left > 0; left -= ECO_NARROW_GROUP, panel += n->group_step) {
        const int32_t k = left < ECO_NARROW_GROUP ? left : ECO_NARROW_GROUP;
        const uint16_t *at = panel;
        for (int32_t i = 1; i < k; i += 2, a += 2, at += PAIR) {
#pragma GCC unroll 4
            for (int v = 0; v < V; v++)
                __builtin_prefetch(prefetch + 64 * v, 0, 2);
            prefetch += 64 * V;
            narrow_pair(sum, a, a_row, at, R, V, true);
        }
        if (k % 2 != 0)
            narrow_pair(sum, a, a_row, at, R, V, false);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            narrow_store(n, v, c + (size_t)r * n->c_row, sum[r][v]);
}

/* clang-format off */
#define NARROW_BLOCK(R, V) \
    static void narrow_##R##_##V(const struct eco_narrow *n, int32_t row, const char *prefetch) \
    { narrow_block(n, row, prefetch, R, V); }
NARROW_BLOCK(1, 1) NARROW_BLOCK(2, 1) NARROW_BLOCK(3, 1) NARROW_BLOCK(4, 1) NARROW_BLOCK(5, 1) NARROW_BLOCK(6, 1)
NARROW_BLOCK(7, 1) NARROW_BLOCK(8, 1) NARROW_BLOCK(9, 1) NARROW_BLOCK(10, 1) NARROW_BLOCK(11, 1) NARROW_BLOCK(12, 1)
NARROW_BLOCK(1, 2) NARROW_BLOCK(2, 2) NARROW_BLOCK(3, 2) NARROW_BLOCK(4, 2) NARROW_BLOCK(5, 2) NARROW_BLOCK(6, 2)
NARROW_BLOCK(7, 2) NARROW_BLOCK(8, 2) NARROW_BLOCK(9, 2) NARROW_BLOCK(10, 2) NARROW_BLOCK(11, 2) NARROW_BLOCK(12, 2)
NARROW_BLOCK(1, 3) NARROW_BLOCK(2, 3) NARROW_BLOCK(3, 3) NARROW_BLOCK(4, 3) NARROW_BLOCK(5, 3) NARROW_BLOCK(6, 3)
NARROW_BLOCK(7, 3)
NARROW_BLOCK(1, 4) NARROW_BLOCK(2, 4) NARROW_BLOCK(3, 4) NARROW_BLOCK(4, 4) NARROW_BLOCK(5, 4)

typedef void (*narrow_function)(const struct eco_narrow *, int32_t, const char *);
static const narrow_function narrow_functions[ECO_NARROW_VECTORS][MOST_ROWS] = {
    {narrow_1_1, narrow_2_1, narrow_3_1, narrow_4_1, narrow_5_1, narrow_6_1, narrow_7_1, narrow_8_1, narrow_9_1, narrow_10_1, narrow_11_1, narrow_12_1},
    {narrow_1_2, narrow_2_2, narrow_3_2, narrow_4_2, narrow_5_2, narrow_6_2, narrow_7_2, narrow_8_2, narrow_9_2, narrow_10_2, narrow_11_2, narrow_12_2},
    {narrow_1_3, narrow_2_3, narrow_3_3, narrow_4_3, narrow_5_3, narrow_6_3, narrow_7_3},
    {narrow_1_4, narrow_2_4, narrow_3_4, narrow_4_4, narrow_5_4},
};
/* clang-format on */

/* All rows by vectors [first, first + vectors) of the panel, in near-equal blocks; the first block
 * fetches the next panel. */
static void narrow_part(const struct eco_narrow *whole, int32_t first, int32_t vectors)
{
    struct eco_narrow n = *whole;
    n.panel += (size_t)(first * VECTOR);
    for (int32_t v = 0; v < vectors; v++) {
        n.count[v] = whole->count[first + v];
        n.c_vector[v] = whole->c_vector[first + v];
        n.start[v] = whole->start[first + v];
    }
    const int32_t most = narrow_rows[vectors - 1];
    const int32_t blocks = (n.rows + most - 1) / most;
    for (int32_t i = 0; i < blocks; i++) {
        const int32_t from = (int32_t)((int64_t)n.rows * i / blocks);
        const int32_t to = (int32_t)((int64_t)n.rows * (i + 1) / blocks);
        const char *prefetch = (const char *)n.panel;
        if (i == 0 && n.prefetch != NULL)
            prefetch = (const char *)n.prefetch + (size_t)first * (size_t)n.k * VEC_LANES * 2;
        narrow_functions[vectors - 1][to - from - 1](&n, from, prefetch);
    }
}

static void narrow_multiply(const struct eco_narrow *n)
{
    if (n->rows <= narrow_rows[n->vectors - 1]) {
        narrow_part(n, 0, n->vectors);
        return;
    }
    for (int32_t v = 0; v < n->vectors; v += 2)
        narrow_part(n, v, n->vectors - v < 2 ? 1 : 2);
}

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

const struct eco_narrow_kernel JOIN(eco_narrow_, ECO_ISA) = {
    .lanes = VEC_LANES,
    .multiply = narrow_multiply,
    .widen = narrow_widen,
    .round = narrow_round,
};
