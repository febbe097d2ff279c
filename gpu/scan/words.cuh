/*
 * The functions that a cell's generated text calls in a scan. They compute one step of one unit in
 * registers. They do not know the order of steps, and of the memory they read only the cell's
 * vectors.
 */
#ifndef ECO_GPU_SCAN_WORDS_CUH
#define ECO_GPU_SCAN_WORDS_CUH

#include "gpu/cell/draw.cuh"
#include "gpu/scan/args.h"

/* source_text.c defines the cell's numbers and functions; these let the header compile alone. */
#ifndef SCAN_ACCS
#define SCAN_ACCS                1
#define SCAN_DACCS               1
#define SCAN_SAVES               1
#define SCAN_STATES              1
#define SCAN_FACTORS             1
#define SCAN_VECTORS             0
#define SCAN_LINEAR              1u
#define SCAN_COUPLED             0x1u
#define SCAN_FACTOR_NUMBERS      0x0ull
#define SCAN_STEPS               4
#define SCAN_WARPS               8
#define SCAN_BLOCKS              2
#define SCAN_GIVES               false
#define SCAN_FORWARD(at)         ((void)(at))
#define SCAN_LINEAR_FORWARD(at)  ((void)(at))
#define SCAN_BACKWARD(at)        ((void)(at))
#define SCAN_LINEAR_BACKWARD(at) ((void)(at))
#endif

/* Does a state that a step reads depend on state v before it, and by which factor? */
ECO_DEVICE constexpr bool is_coupled(int s, int v)
{
    return SCAN_COUPLED >> (s * ECO_MAX_STATES + v) & 1;
}
ECO_DEVICE constexpr int factor_of(int s, int v)
{
    return (int)(SCAN_FACTOR_NUMBERS >> 4 * (s * ECO_MAX_STATES + v) & 15);
}

/* Is v the first state on which state s depends? */
ECO_DEVICE constexpr bool is_first(int s, int v)
{
    return (SCAN_COUPLED >> s * ECO_MAX_STATES & ((1u << v) - 1)) == 0;
}

/* The states, from the first on, of which the caller gives gradients of every step. */
enum { SCAN_GIVEN = SCAN_GIVES ? SCAN_STATES : 1 };

struct scan_step {
    const struct eco_scan_call *call;
    int32_t n, unit, t;
    vec acc[SCAN_ACCS + 1], dacc[SCAN_DACCS + 1], saved[SCAN_SAVES + 1];
    vec before[SCAN_STATES], next[SCAN_STATES];
    vec dnext[SCAN_STATES], dbefore[SCAN_STATES];
    vec factor[SCAN_FACTORS + 1], term[SCAN_STATES];
    vec vector[SCAN_VECTORS + 1]; /* where units never meet: read before the first step */
};

ECO_DEVICE vec load_acc(struct scan_step *at, int i)
{
    return at->acc[i];
}
ECO_DEVICE vec load_state(struct scan_step *at, int s)
{
    return at->before[s];
}
ECO_DEVICE vec load_next(struct scan_step *at, int s)
{
    return at->next[s];
}
ECO_DEVICE vec vector_of(const struct scan_step *at, int k)
{
    return ((const real *)at->call->vector)[(int64_t)at->call->hidden * k + at->unit];
}
ECO_DEVICE vec load_vector(struct scan_step *at, int k)
{
    return SCAN_VECTORS > 0 ? at->vector[k] : vector_of(at, k);
}
ECO_DEVICE vec load_saved(struct scan_step *at, int i)
{
    return at->saved[i];
}
ECO_DEVICE vec load_dnext(struct scan_step *at, int s)
{
    return at->dnext[s];
}
ECO_DEVICE void store_linear(struct scan_step *at, int s, vec factor, vec term)
{
    at->factor[s] = factor;
    at->term[s] = term;
}
/* pair: as of ECO_OP_STORE_COUPLED. */
ECO_DEVICE void store_coupled(struct scan_step *at, int pair, vec factor)
{
    at->factor[factor_of(pair / ECO_MAX_STATES, pair % ECO_MAX_STATES)] = factor;
}
ECO_DEVICE void store_save(struct scan_step *at, int i, vec v)
{
    at->saved[i] = v;
}
ECO_DEVICE void store_next(struct scan_step *at, int s, vec v)
{
    at->next[s] = v;
}
ECO_DEVICE void store_dacc(struct scan_step *at, int a, vec v)
{
    at->dacc[a] = v;
}
ECO_DEVICE void store_dstate(struct scan_step *at, int s, vec v)
{
    at->dbefore[s] = v;
}
ECO_DEVICE vec v_bernoulli(struct scan_step *at, int which, double probability)
{
    const struct drawn_for where = {(uint32_t)at->t, (uint32_t)at->n, (uint32_t)at->unit};
    return draw_mask(at->call, which, probability, where);
}

#define CELL(name)    name
#define CELL_FUNCTION ECO_DEVICE
#define CELL_AT       struct scan_step *

#endif /* ECO_GPU_SCAN_WORDS_CUH */
