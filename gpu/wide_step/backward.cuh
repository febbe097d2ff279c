/*
 * The cell of a step back, for many rows: four neighbouring units of a row in each thread, all of
 * whose numbers are read and written as one vector. The cell's text runs for one unit after the
 * other; the first one loads.
 */
#ifndef ECO_GPU_WIDE_STEP_BACKWARD_CUH
#define ECO_GPU_WIDE_STEP_BACKWARD_CUH

#include <cuda_fp16.h>

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/cell/args.h"
#include "gpu/cell/draw.cuh"
#include "gpu/cell/templates.cuh"
#include "gpu/tile/pow2_scale.cuh"
#include "gpu/wide_step/args.h"
#include "gpu/view/back.h"

/* ---- four units in memory -------------------------------------------------------------------- */

enum { QUAD = ECO_WIDE_QUAD };
/* May rows of dacc be F16? */
static constexpr bool MAY_HALVE = sizeof(narrow) == sizeof(float);

struct __align__(QUAD * sizeof(real)) quad
{
    real of[QUAD];
};
struct __align__(QUAD * sizeof(narrow)) narrow_quad
{
    narrow of[QUAD];
};

/* Rows have the type of sums (wide) or of rows. */
ECO_DEVICE quad load_quad(const void *base, size_t at, bool wide)
{
    if (wide)
        return *(const quad *)((const real *)base + at);
    const narrow_quad from = *(const narrow_quad *)((const narrow *)base + at);
    quad to;
#pragma unroll
    for (int e = 0; e < QUAD; e++)
        to.of[e] = to_real(from.of[e]);
    return to;
}

ECO_DEVICE void store_narrow_quad(void *base, size_t at, const quad &from)
{
    narrow_quad to;
#pragma unroll
    for (int e = 0; e < QUAD; e++)
        to.of[e] = to_narrow(from.of[e]);
    *(narrow_quad *)((narrow *)base + at) = to;
}

/* ---- words ----------------------------------------------------------------------------------- */

template <int STATES, int SAVES> struct back_units {
    const struct eco_stage_call *call;
    const struct eco_wide_back *back;
    float inverse;    /* of the factor of state 0's gradient after the step */
    size_t row, unit; /* the first of four */
    quad saved[SAVES > 0 ? SAVES : 1], before[STATES], next[STATES], dnext[STATES], dstate[STATES],
        dacc[ECO_WIDE_DACCS];
};
template <int STATES, int SAVES> struct back_element {
    back_units<STATES, SAVES> *units;
    int e;
};

ECO_DEVICE void store_dacc_quad(const struct eco_stage_call *call, size_t row, size_t unit, int a,
                                const quad &dacc)
{
    store_narrow_quad(call->dacc, row * call->dacc_row + (size_t)(call->column * a) + unit, dacc);
}

#define BACK_WORD template <int STATES, int SAVES> ECO_DEVICE
#define BACK_AT   back_element<STATES, SAVES> *at
BACK_WORD vec load_saved(BACK_AT, int i)
{
    const struct eco_stage_call *call = at->units->call;
    if (at->e == 0)
        at->units->saved[i] = load_quad(
            call->save,
            at->units->row * call->save_row + (size_t)(call->hidden * i) + at->units->unit, false);
    return at->units->saved[i].of[at->e];
}
/* The caller's states before the first step may be missing. */
BACK_WORD vec load_state(BACK_AT, int s)
{
    const struct eco_stage_call *call = at->units->call;
    if (at->e == 0)
        at->units->before[s] =
            load_quad(call->state[s], at->units->row * call->state_row[s] + at->units->unit, false);
    return call->zero_states >> s & 1 ? 0 : at->units->before[s].of[at->e];
}
BACK_WORD vec load_next(BACK_AT, int s)
{
    const struct eco_stage_call *call = at->units->call;
    if (at->e == 0)
        at->units->next[s] =
            load_quad(call->next[s], at->units->row * call->next_row[s] + at->units->unit, false);
    return at->units->next[s].of[at->e];
}
BACK_WORD vec load_dnext(BACK_AT, int s)
{
    const struct eco_stage_call *call = at->units->call;
    quad *const sum = &at->units->dnext[s];
    if (at->e == 0) {
        const size_t place = at->units->row * call->carry_row[s] + at->units->unit;
        *sum = load_quad(call->carry[s], place, true);
#pragma unroll
        for (int e = 0; e < QUAD; e++)
            sum->of[e] = call->zero_carry >> s & 1 ? 0 : sum->of[e];
#pragma unroll
        for (int k = 1; k < ECO_WIDE_PLANES; k++)
            if (s == 0 && k < at->units->back->planes) {
                const quad part =
                    load_quad(call->carry[0], place + at->units->back->plane * k, true);
#pragma unroll
                for (int e = 0; e < QUAD; e++)
                    sum->of[e] = v_add(sum->of[e], part.of[e]);
            }
        if constexpr (MAY_HALVE)
#pragma unroll
            for (int e = 0; e < QUAD; e++)
                sum->of[e] = s == 0 ? sum->of[e] * at->units->inverse : sum->of[e];
        if (s == 0 && call->dy) {
            const quad dy =
                load_quad(call->dy, at->units->row * call->dy_row + at->units->unit, call->wide_dy);
#pragma unroll
            for (int e = 0; e < QUAD; e++)
                sum->of[e] = v_add(sum->of[e], dy.of[e]);
        }
    }
    return sum->of[at->e];
}
BACK_WORD vec load_vector(BACK_AT, int k)
{
    const struct eco_stage_call *call = at->units->call;
    return ((const real *)
                call->vector)[(size_t)call->hidden * (size_t)k + at->units->unit + (size_t)at->e];
}
BACK_WORD void store_dacc(BACK_AT, int a, vec v)
{
    at->units->dacc[a].of[at->e] = v;
    if (at->e == QUAD - 1 && !(MAY_HALVE && at->units->back->scales != nullptr))
        store_dacc_quad(at->units->call, at->units->row, at->units->unit, a, at->units->dacc[a]);
}
BACK_WORD void store_dstate(BACK_AT, int s, vec v)
{
    at->units->dstate[s].of[at->e] = v;
}
BACK_WORD vec v_bernoulli(BACK_AT, int which, double probability)
{
    const struct eco_stage_call *call = at->units->call;
    const struct drawn_for where = {(uint32_t)call->t, (uint32_t)at->units->row,
                                    (uint32_t)(at->units->unit + (size_t)at->e)};
    return draw_mask(call, which, probability, where);
}
#undef BACK_WORD
#undef BACK_AT

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int NUMBER, class ELEMENT> ECO_DEVICE void element_back(ELEMENT *at)
{
#define CELLS_CASE(cell, stage, name)                                                              \
    if constexpr (NUMBER == cell && stage == 0)                                                    \
        name(at);
    CELLS_backward(CELLS_CASE)
#undef CELLS_CASE
}

/* A row that has ended: no gradient, and carries stay. */
ECO_DEVICE void mask_quads(const struct eco_stage_call *call, size_t row, size_t unit)
{
    const quad zeros = {};
    for (int a = 0; a < call->n_dacc; a++)
        store_dacc_quad(call, row, unit, a, zeros);
    for (int s = 0; s < call->n_states; s++)
        if (call->zero_carry >> s & 1)
            *(quad *)((real *)call->carry[s] + row * call->carry_row[s] + unit) = zeros;
}

template <int NUMBER, class UNITS>
ECO_DEVICE void compute_units(UNITS *units, const struct eco_stage_call *call,
                              const struct eco_wide_back *back, size_t row, size_t unit)
{
    typedef cell_traits<NUMBER> cell;
    units->call = call;
    units->back = back;
    units->row = row;
    units->unit = unit;
    units->inverse = back->before == nullptr ? 1 : reciprocal_pow2(back->before[row]);
#pragma unroll
    for (int e = 0; e < QUAD; e++) {
        back_element<cell::states, cell::saves> at = {units, e};
        element_back<NUMBER>(&at);
    }
}

template <int NUMBER>
ECO_DEVICE void units_back(const struct eco_stage_call *call, const struct eco_wide_back *back,
                           size_t row, size_t unit)
{
    typedef cell_traits<NUMBER> cell;
    back_units<cell::states, cell::saves> units;
    compute_units<NUMBER>(&units, call, back, row, unit);
#pragma unroll
    for (int s = 0; s < cell::states; s++)
        if (!(call->replaced >> s & 1))
            *(quad *)((real *)call->carry[s] + row * call->carry_row[s] + unit) = units.dstate[s];
}

/* ---- with rows of dacc in F16 ---------------------------------------------------------------- */

ECO_DEVICE void store_half_quad(const struct eco_stage_call *call, size_t row, size_t unit, int a,
                                const quad &dacc, float scale)
{
    const __half2 low = __floats2half2_rn(dacc.of[0] * scale, dacc.of[1] * scale),
                  high = __floats2half2_rn(dacc.of[2] * scale, dacc.of[3] * scale);
    __half *const to =
        (__half *)call->dacc + row * call->dacc_row * 2 + (size_t)(call->column * a) + unit;
    *(uint2 *)to = make_uint2(*(const unsigned *)&low, *(const unsigned *)&high);
}

/* The largest number of the row that has this thread's units; called by all threads of a block,
 * which has whole rows of `quads` threads each. */
ECO_DEVICE float largest_of_threads(float most, uint32_t quads)
{
    __shared__ unsigned of_row[ECO_STAGE_THREADS];
    of_row[threadIdx.x] = 0;
    __syncthreads();
    unsigned bits = __float_as_uint(most); /* of floats >= 0, in their order */
    const bool whole = quads % WARP == 0;
    if (whole)
        bits = __reduce_max_sync(~0u, bits);
    if (!whole || threadIdx.x % WARP == 0)
        atomicMax(&of_row[threadIdx.x / quads], bits);
    __syncthreads();
    return __uint_as_float(of_row[threadIdx.x / quads]);
}

template <int NUMBER>
ECO_DEVICE void halves_back(const struct eco_stage_call *call, const struct eco_wide_back *back,
                            size_t row, size_t unit)
{
    /* the factor of rows of zeros or tiny numbers: carries of this factor stay finite */
    const float limit = 0x1p60f, infinity = __uint_as_float(0x7F800000);
    typedef cell_traits<NUMBER> cell;
    back_units<cell::states, cell::saves> units;
    const bool exists = row < (size_t)call->rows;
    float most = 0;
    if (exists) {
        compute_units<NUMBER>(&units, call, back, row, unit);
#pragma unroll
        for (int a = 0; a < ECO_WIDE_DACCS; a++)
#pragma unroll
            for (int e = 0; e < QUAD && a < call->n_dacc; e++) {
                const float size = fabsf(units.dacc[a].of[e]);
                most = size < infinity ? fmaxf(most, size) : most;
            }
    }
    const float scale =
        fminf(scale_for(largest_of_threads(most, (uint32_t)call->hidden / QUAD)), limit);
    if (!exists)
        return;
    if (unit == 0)
        back->scales[row] = back->after[row] = scale;
#pragma unroll
    for (int a = 0; a < ECO_WIDE_DACCS; a++)
        if (a < call->n_dacc)
            store_half_quad(call, row, unit, a, units.dacc[a], scale);
#pragma unroll
    for (int s = 0; s < cell::states; s++)
        if (!(call->replaced >> s & 1)) {
#pragma unroll
            for (int e = 0; e < QUAD; e++)
                units.dstate[s].of[e] *= s == 0 ? scale : 1;
            *(quad *)((real *)call->carry[s] + row * call->carry_row[s] + unit) = units.dstate[s];
        }
}

/* Threads are numbered along the units of all rows. */
template <int NUMBER>
static __global__ void __launch_bounds__(ECO_STAGE_THREADS, 4)
    wide_back(const __grid_constant__ struct eco_stage_call call,
              const __grid_constant__ struct eco_wide_back back)
{
    const uint32_t quads = (uint32_t)call.hidden / QUAD, i = blockIdx.x * blockDim.x + threadIdx.x,
                   row = i / quads;
    wait_on_dependent_grids();
    launch_dependent_grids();
    const size_t unit = i % quads * QUAD;
    if constexpr (MAY_HALVE)
        if (back.scales != nullptr) {
            halves_back<NUMBER>(&call, &back, row, unit);
            return;
        }
    if (row >= (uint32_t)call.rows)
        return;
    if (call.lengths && call.t >= call.lengths[row])
        mask_quads(&call, row, unit);
    else
        units_back<NUMBER>(&call, &back, row, unit);
}

#endif /* ECO_GPU_WIDE_STEP_BACKWARD_CUH */
