/*
 * A unit of a batch row with all values in registers: the cell's words (doc/cells.md) for wide
 * steps, and loads and stores of pairs of units.
 */
#ifndef ECO_GPU_WIDE_STEP_ELEMENT_CUH
#define ECO_GPU_WIDE_STEP_ELEMENT_CUH

#include "gpu/cell/args.h"
#include "gpu/cell/draw.cuh"
#include "gpu/cell/templates.cuh"

/* ---- pairs of units in memory ---------------------------------------------------------------- */

struct __align__(2 * sizeof(narrow)) narrow_pair
{
    narrow of[2];
};

/* Rows of states have the type of sums (wide) or of rows. */
ECO_DEVICE float2 load_pair(const void *base, uint32_t at, bool wide)
{
    if (wide)
        return *(const float2 *)((const real *)base + at);
    const struct narrow_pair pair = *(const struct narrow_pair *)((const narrow *)base + at);
    return make_float2(to_real(pair.of[0]), to_real(pair.of[1]));
}

ECO_DEVICE void store_pair(void *base, uint32_t at, float2 v, bool wide)
{
    if (wide)
        *(float2 *)((real *)base + at) = v;
    else
        *(struct narrow_pair *)((narrow *)base + at) =
            (struct narrow_pair){{to_narrow(v.x), to_narrow(v.y)}};
}

/* ---- words ----------------------------------------------------------------------------------- */

template <int ACCS, int STATES, int SAVES> struct wide_element {
    const struct eco_stage_call *call;
    int row, unit;
    vec acc[ACCS], before[STATES], next[STATES], saved[SAVES > 0 ? SAVES : 1];
};

#define WIDE_WORD template <int ACCS, int STATES, int SAVES> ECO_DEVICE
#define WIDE_AT   wide_element<ACCS, STATES, SAVES> *at
WIDE_WORD vec load_acc(WIDE_AT, int i)
{
    return at->acc[i];
}
WIDE_WORD vec load_state(WIDE_AT, int s)
{
    return at->before[s];
}
WIDE_WORD vec load_vector(WIDE_AT, int k)
{
    const int unit = min(at->unit, at->call->hidden - 1); /* a thread may have one of the padding */
    return ((const real *)at->call->vector)[(size_t)at->call->hidden * (size_t)k + unit];
}
WIDE_WORD void store_next(WIDE_AT, int s, vec v)
{
    at->next[s] = v;
}
WIDE_WORD void store_save(WIDE_AT, int i, vec v)
{
    at->saved[i] = v;
}
WIDE_WORD vec v_bernoulli(WIDE_AT, int which, double probability)
{
    const struct drawn_for where = {(uint32_t)at->call->t, (uint32_t)at->row, (uint32_t)at->unit};
    return draw_mask(at->call, which, probability, where);
}
#undef WIDE_WORD
#undef WIDE_AT

#endif /* ECO_GPU_WIDE_STEP_ELEMENT_CUH */
