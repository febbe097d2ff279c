/*
 * The words with which a printed cell accesses memory on a CPU: one vector of units of one row at a
 * time (doc/internals/stages.md, "the printed interface"). Used by the compiled kernels and by the
 * interpreter. Knows pointwise.h, no cell.
 */
#ifndef ECO_WORDS_H
#define ECO_WORDS_H

#include <string.h>

#include "common/number.h"
#include "cpu/isa/pointwise.h"

/* Row means are sums of this many partial sums in double, unit u in sum u % MEAN_LANES, in a fixed
 * order, so that they do not depend on the instruction set. */
enum { MEAN_LANES = 16 };
static_assert(MEAN_LANES % VEC_LANES == 0, "a vector's units are neighbours among the sums");

struct row_means {
    double sum[ECO_MAX_MEANS][MEAN_LANES];
    uint32_t stored; /* bit m: sum[m] has a share of mean m of the row */
};

/* The types of rows (elem) and of sums (real). */
#ifdef ECO_NARROW
#include "cpu/isa/vec_narrow.h"
enum { NARROW = 1 };
typedef uint16_t elem;
#define e_load       v_load_narrow
#define e_load_part  v_load_narrow_part
#define e_store      v_store_narrow
#define e_store_part v_store_narrow_part
#else
enum { NARROW = 0 };
typedef real elem;
#define e_load       v_load
#define e_load_part  v_load_part
#define e_store      v_store
#define e_store_part v_store_part
#endif

/* Units unit .. unit + count of a row. Pointers are to its first unit; void: elem or real. */
struct position {
    const struct eco_pointwise *call;
    struct row_means *means;
    int32_t row;
    int32_t count;       /* 1 .. VEC_LANES */
    size_t unit, hidden; /* hidden: distance of columns of a row */
    const real *vector, *acc, *dnext, *doperand;
    const void *dy, *state[ECO_MAX_STATES];
    void *next[ECO_MAX_STATES];
    real *carry[ECO_MAX_STATES], *mean, *factor, *term;
    elem *save, *operand, *y, *dacc;
    /* in a line: products by accumulator, of those in `summed`, and states as whole vectors */
    unsigned summed;
    const vec *sum;
    const real *before;
    real *after;
};

/* Is state s real? */
ALWAYS_INLINE bool is_wide(const struct eco_pointwise *call, int s)
{
    return !NARROW || (call->wide_states >> s & 1) != 0;
}

ALWAYS_INLINE size_t state_bytes(const struct eco_pointwise *call, int s)
{
    return is_wide(call, s) ? sizeof(real) : sizeof(elem);
}

/* stride: bytes. */
ALWAYS_INLINE const void *row_in(const void *base, size_t stride, int32_t row)
{
    return base ? (const char *)base + stride * (size_t)row : NULL;
}

ALWAYS_INLINE void *row_out(void *base, size_t stride, int32_t row)
{
    return base ? (char *)base + stride * (size_t)row : NULL;
}

ALWAYS_INLINE struct position place_of_row(const struct eco_pointwise *call, int32_t row,
                                           struct row_means *means)
{
    const int32_t outside = call->y_order ? call->y_order[row] : row;
    struct position at = {.call = call, .means = means, .row = row, .count = VEC_LANES};
    const size_t dy_bytes = !NARROW || call->wide_dy ? sizeof(real) : sizeof(elem);
    at.unit = (size_t)call->unit0;
    at.hidden = (size_t)call->hidden;
    at.vector = call->vector;
    at.acc = row_in(call->acc, call->acc_row * sizeof(real), row);
    at.dnext = row_in(call->dnext, call->dnext_row * sizeof(real), row);
    at.dy = row_in(call->dy, call->dy_row * dy_bytes, outside);
    at.doperand = row_in(call->doperand, call->doperand_row * sizeof(real), row);
#pragma GCC unroll 4
    for (int s = 0; s < ECO_MAX_STATES;
         s++) { /* the compiler removes states that the stage does not use */
        const size_t bytes = state_bytes(call, s);
        at.state[s] = row_in(call->state[s], call->state_row[s] * bytes, row);
        at.next[s] = row_out(call->next[s], call->next_row[s] * bytes, row);
        at.carry[s] = row_out(call->carry[s], call->carry_row[s] * sizeof(real), row);
    }
    at.save = row_out(call->save, call->save_row * sizeof(elem), row);
    at.operand = row_out(call->operand, call->operand_row * sizeof(elem), row);
    at.mean = row_out(call->mean, call->mean_row * sizeof(real), row);
    at.y = row_out(call->y, call->y_row * sizeof(elem), outside);
    at.dacc = row_out(call->dacc, call->dacc_row * sizeof(elem), row);
    at.factor = row_out(call->factor, call->factor_row * sizeof(real), row);
    at.term = row_out(call->term, call->term_row * sizeof(real), row);
    return at;
}

/* ---- memory words ---------------------------------------------------------------------------- */

ALWAYS_INLINE vec load_column(const struct position *at, const real *row, int column)
{
    const real *from = row + at->hidden * (size_t)column + at->unit;
    return at->count == VEC_LANES ? v_load(from) : v_load_part(from, at->count);
}

ALWAYS_INLINE void store_column(const struct position *at, real *row, int column, vec v)
{
    real *to = row + at->hidden * (size_t)column + at->unit;
    if (at->count == VEC_LANES)
        v_store(to, v);
    else
        v_store_part(to, v, at->count);
}

/* The same for elements. */
ALWAYS_INLINE vec fetch_column(const struct position *at, const elem *row, int column)
{
    const elem *from = row + at->hidden * (size_t)column + at->unit;
    return at->count == VEC_LANES ? e_load(from) : e_load_part(from, at->count);
}

ALWAYS_INLINE void place_keep(const struct position *at, elem *row, int column, vec v)
{
    elem *to = row + at->hidden * (size_t)column + at->unit;
    if (at->count == VEC_LANES)
        e_store(to, v);
    else
        e_store_part(to, v, at->count);
}

ALWAYS_INLINE vec load_acc(const struct position *at, int i)
{
    if (at->summed >> i & 1)
        return at->sum[i];
    const struct eco_pointwise *call = at->call;
    const size_t block = at->unit >> call->acc_shift;
    const real *from = at->acc + block * call->acc_block + (at->unit - (block << call->acc_shift)) +
                       call->acc_column * (size_t)i;
    return at->count == VEC_LANES ? v_load(from) : v_load_part(from, at->count);
}

ALWAYS_INLINE vec load_state(const struct position *at, int s)
{
    if (at->before)
        return v_load(at->before + s * ECO_LINE_UNITS + at->unit);
    return is_wide(at->call, s) ? load_column(at, at->state[s], 0)
                                : fetch_column(at, at->state[s], 0);
}

ALWAYS_INLINE vec load_next(const struct position *at, int s)
{
    return is_wide(at->call, s) ? load_column(at, at->next[s], 0)
                                : fetch_column(at, at->next[s], 0);
}

ALWAYS_INLINE vec load_vector(const struct position *at, int k)
{
    return load_column(at, at->vector, k);
}

ALWAYS_INLINE vec load_mean(const struct position *at, int m)
{
    return v_const(at->mean[m]);
}

ALWAYS_INLINE vec load_saved(const struct position *at, int i)
{
    return fetch_column(at, at->save, i);
}

ALWAYS_INLINE vec load_doperand(const struct position *at, int slot)
{
    return load_column(at, at->doperand, slot);
}

/* A gradient of y is added to that of the state before its backward step. */
ALWAYS_INLINE vec load_dy(const struct position *at, int s)
{
    const bool wide = !NARROW || at->call->wide_dy;
    return wide ? load_column(at, at->dy, s) : fetch_column(at, at->dy, s);
}

ALWAYS_INLINE vec load_dnext(const struct position *at, int s)
{
    if (s == 0 && at->dnext)
        return load_column(at, at->dnext, 0);
    const vec carry = load_column(at, at->carry[s], 0);
    return s > 0 || !at->dy ? carry : v_add(carry, load_dy(at, 0));
}

ALWAYS_INLINE void store_operand(const struct position *at, int slot, vec v)
{
    place_keep(at, at->operand, slot, v);
}

ALWAYS_INLINE void store_save(const struct position *at, int i, vec v)
{
    if (at->save)
        place_keep(at, at->save, i, v);
}

ALWAYS_INLINE void store_next(const struct position *at, int s, vec v)
{
    if (at->after)
        v_store(at->after + s * ECO_LINE_UNITS + at->unit, v);
    if (is_wide(at->call, s))
        store_column(at, at->next[s], 0, v);
    else
        place_keep(at, at->next[s], 0, v);
    if (s == 0 && at->y)
        place_keep(at, at->y, 0, v);
}

ALWAYS_INLINE void store_dacc(const struct position *at, int a, vec v)
{
    place_keep(at, at->dacc, a, v);
}

/* Adds a gradient of a vector, counted as in dacc, to the row's sum. */
ALWAYS_INLINE void add_dvector(const struct position *at, int a, vec v)
{
    const struct eco_pointwise *call = at->call;
    const int column = a - call->first_vector;
    real *row = row_out(call->dvector, call->dvector_row * sizeof(real), at->row);
    if (at->row < call->summed)
        v = v_add(load_column(at, row, column), v);
    store_column(at, row, column, v);
}

ALWAYS_INLINE void store_dstate(const struct position *at, int s, vec v)
{
    if (s > 0 || at->carry[0])
        store_column(at, at->carry[s], 0, v);
}

/* A factor of 0 gives 0, even times an infinite value; a NaN stays a NaN. */
ALWAYS_INLINE vec times(vec factor, vec value)
{
    return v_select(v_abs(factor), v_mul(factor, value), factor);
}

ALWAYS_INLINE void store_linear(const struct position *at, int s, vec factor, vec term)
{
    if (s == 0 && at->dy)
        term = v_add(v_mul(factor, load_dy(at, 0)), term);
    const vec factors = load_column(at, at->factor, s), terms = load_column(at, at->term, s);
    store_column(at, at->factor, s, times(factor, factors));
    store_column(at, at->term, s, v_add(v_mul(factor, terms), term));
}

/* A group of n states in a scan: [i][k]: the column of the factor of its k-th state in its i-th,
 * and [i][n] of the term. */
struct group_columns {
    int of[ECO_MAX_STATES][ECO_MAX_STATES + 1];
};

/* Multiplies the steps so far by the matrix factor [n,n] of one more, column by column, and adds
 * term [n].  Factors between states that do not depend on each other are 0: an infinite state
 * changes only those that read it. */
ALWAYS_INLINE void store_group(const struct position *at, const struct group_columns *columns,
                               const int n, const vec *factor, const vec *term)
{
    vec before[ECO_MAX_STATES], after[ECO_MAX_STATES];
#pragma GCC unroll 5
    for (int column = 0; column <= n; column++) {
        const bool terms = column == n;
        real *row = terms ? at->term : at->factor;
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            before[i] = load_column(at, row, columns->of[i][column]);
#pragma GCC unroll 4
        for (int i = 0; i < n; i++) {
            const vec first = times(factor[i * n], before[0]);
            after[i] = terms ? v_add(first, term[i]) : first;
#pragma GCC unroll 4
            for (int k = 1; k < n; k++)
                after[i] = v_add(times(factor[i * n + k], before[k]), after[i]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            store_column(at, row, columns->of[i][column], after[i]);
    }
}

/* ---- row means ------------------------------------------------------------------------------- */

ALWAYS_INLINE void store_mean(const struct position *at, int m, vec v)
{
    real lane[VEC_LANES];
    v_store(lane, v);
    double *sum = at->means->sum[m];
    if (!(at->means->stored >> m & 1))
        memset(sum, 0, sizeof at->means->sum[m]);
    if (at->count == VEC_LANES && at->unit % VEC_LANES == 0) {
        double *some = sum + at->unit % MEAN_LANES; /* neighbours, so that they are vectorized */
        for (int j = 0; j < (int)VEC_LANES; j++)
            some[j] += (double)lane[j];
    } else {
        for (int j = 0; j < at->count; j++)
            sum[(at->unit + (size_t)j) % MEAN_LANES] += (double)lane[j];
    }
    at->means->stored |= 1u << m;
}

ALWAYS_INLINE void means_begin(struct row_means *means)
{
    means->stored = 0;
}

/* Over `units` units. */
ALWAYS_INLINE void means_end(const struct row_means *means, const struct position *at, size_t units)
{
    if (!at->mean)
        return;
    for (int m = 0; m < ECO_MAX_MEANS; m++) {
        if (!(means->stored >> m & 1))
            continue;
        double total = 0;
        for (int j = 0; j < MEAN_LANES; j++)
            total += means->sum[m][j];
        at->mean[m] = (real)(total / (double)units);
    }
}

/* ---- numbers by coordinates ------------------------------------------------------------------ */

static inline vec bernoulli_draw(const struct position *at, int which, double probability)
{
    const struct eco_pointwise *call = at->call;
    const struct eco_coordinates where = {
        .seed = call->seed,
        .layer = call->layer,
        .direction = call->direction,
        .purpose = eco_draw_purpose(which),
        .t = eco_draw_step(which, call->first_step + (uint32_t)call->t),
        .n = call->first_row + (uint32_t)(call->order ? call->order[at->row] : at->row)};
    const uint64_t threshold = eco_random_threshold(probability);
    real lane[VEC_LANES] = {0};
    uint32_t word[4];
    for (int j = 0; j < at->count; j++) {
        const uint32_t unit = (uint32_t)at->unit + (uint32_t)j;
        if (j == 0 || unit % 4 == 0)
            eco_random_quad(&where, unit / 4, word);
        lane[j] = word[unit % 4] < threshold ? 1 : 0;
    }
    return v_load(lane);
}

ALWAYS_INLINE vec v_bernoulli(const struct position *at, int which, double probability)
{
    return at->call->training ? bernoulli_draw(at, which, probability) : v_const(probability);
}

#endif /* ECO_WORDS_H */
