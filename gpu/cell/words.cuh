/*
 * The words of the printed text (doc/internals/stages.md, "the printed interface") for one type of
 * rows, with one unit in each thread. Compiled with the module for built-in cells (stages.cuh) and
 * at run time for others (jit/user_cells.c), so only embedded headers are included (gpu.am).
 */
#ifndef ECO_GPU_CELL_WORDS_CUH
#define ECO_GPU_CELL_WORDS_CUH

#include "gpu/cell/args.h"
#include "gpu/cell/draw.cuh"

/* ---- memory ---------------------------------------------------------------------------------- */

/* One unit of one row. */
struct element {
    const struct eco_stage_call *call;
    size_t row, unit, hidden, column;
    double *sum;       /* this thread's share of the row means */
#if defined(ECO_FUSED) /* in fused_step/kernel.cuh: values that were loaded before */
    const vec *acc, *before;
#endif
};

/* An element in column k of its row. SAVED: in the reserve, where columns are contiguous. */
#define AT(type, base, stride, k)                                                                  \
    ((type *)(base))[at->row * (stride) + at->column * (size_t)(k) + at->unit]
#define SAVED(k)                                                                                   \
    (((narrow *)at->call->save)[at->row * at->call->save_row + at->hidden * (size_t)(k) + at->unit])
#define READ(base, stride, k)                AT(const real, base, stride, k)
#define READ_NARROW(base, stride, k)         to_real(AT(const narrow, base, stride, k))
#define WRITE(base, stride, k, value)        (AT(real, base, stride, k) = (value))
#define WRITE_NARROW(base, stride, k, value) (AT(narrow, base, stride, k) = to_narrow(value))

ECO_DEVICE bool is_wide(uint16_t states, int s)
{
    return sizeof(narrow) < sizeof(real) && (states >> s & 1);
}

ECO_DEVICE vec read_state(const struct element *at, const void *state, size_t stride, bool wide)
{
    return wide ? READ(state, stride, 0) : READ_NARROW(state, stride, 0);
}

/* ---- resets ---------------------------------------------------------------------------------- */

/* Is the element's row reset in its step, or `later` steps later? */
ECO_DEVICE bool element_resets(const struct element *at, int32_t later)
{
    const struct eco_stage_call *call = at->call;
    if (!HAS_RESETS || !call->resets)
        return false;
    const uint32_t row = (uint32_t)at->row, batch = (uint32_t)call->batch;
    const int32_t n = (int32_t)(row % batch), t = call->reset_t + (int32_t)(row / batch) + later;
    const int32_t ahead = call->then < 0 ? 1 : 0,
                  told = t + ahead; /* with falling t the byte of the later step decides */
    if (t < 0 || told >= call->reset_end || (call->lengths && told >= call->lengths[n]))
        return false;
    return call->resets[(int64_t)at->row + (int64_t)(later + ahead) * call->batch] != 0;
}

/* With a projection a stage does not have the output state. */
ECO_DEVICE bool has_start(const struct element *at, int s)
{
    return s > 0 || !at->call->projected;
}

ECO_DEVICE vec element_start(const struct element *at, int s)
{
    const struct eco_stage_call *call = at->call;
    const size_t n = (uint32_t)at->row % (uint32_t)call->batch;
    return call->start[s] ? to_real(((const narrow *)call->start[s])[n * at->hidden + at->unit])
                          : 0;
}

/* Moves gradients that go back to a start; the thread that reads them then calls this. */
ECO_DEVICE void cut_carries(const struct element *at)
{
    const struct eco_stage_call *call = at->call;
    if (!element_resets(at, call->then))
        return;
    for (int32_t s = 0; s < call->n_states; s++)
        if (has_start(at, s)) {
            real *const carry = &AT(real, call->carry[s], call->carry_row[s], 0);
            if (call->dstart[s])
                AT(real, call->dstart[s], call->carry_row[s], 0) += *carry;
            *carry = 0;
        }
}

ECO_DEVICE vec state_before(const struct element *at, int s)
{
    const vec state = read_state(at, at->call->state[s], at->call->state_row[s],
                                 is_wide(at->call->wide_states, s));
    if (element_resets(at, 0) && has_start(at, s))
        return element_start(at, s);
    return at->call->zero_states >> s & 1 ? 0 : state;
}

#if defined(ECO_FUSED)
ECO_DEVICE vec load_acc(struct element *at, int i)
{
    return at->acc[i];
}
ECO_DEVICE vec load_state(struct element *at, int s)
{
    return at->before[s];
}
#else
ECO_DEVICE vec load_acc(struct element *at, int i)
{
    return READ(at->call->acc, at->call->acc_row, i);
}
ECO_DEVICE vec load_state(struct element *at, int s)
{
    return state_before(at, s);
}
#endif
ECO_DEVICE vec load_next(struct element *at, int s)
{
    return read_state(at, at->call->next[s], at->call->next_row[s],
                      is_wide(at->call->wide_next, s));
}
ECO_DEVICE vec load_vector(struct element *at, int k)
{
    return ((const real *)at->call->vector)[at->hidden * (size_t)k + at->unit];
}
ECO_DEVICE vec load_mean(struct element *at, int m)
{
    const struct eco_stage_call *call = at->call;
    const real *mean = (const real *)call->mean + at->row * call->mean_row + (size_t)m;
    return mean[call->heads > 1 ? (uint32_t)at->unit / (uint32_t)call->head * call->head_means : 0];
}
ECO_DEVICE vec load_saved(struct element *at, int i)
{
    return to_real(SAVED(i));
}
ECO_DEVICE vec load_doperand(struct element *at, int slot)
{
    return READ(at->call->doperand, at->call->doperand_row, slot);
}
/* Selects an address instead of branching: unwanted values are read from a valid address. */
ECO_DEVICE vec load_dnext(struct element *at, int s)
{
    const struct eco_stage_call *call = at->call;
    const bool computed = s == 0 && call->dnext, output = s == 0 && !call->dnext && call->dy;
    const void *from = computed ? call->dnext : call->carry[s], *dy = output ? call->dy : from;
    const size_t row = computed ? call->dnext_row : call->carry_row[s];
    const size_t dy_row = output ? call->dy_row : row;
    const bool zero = !computed && (call->zero_carry >> s & 1);
    const vec there = READ(from, row, 0), sum = zero ? 0 : there;
    const vec more = call->wide_dy ? READ(dy, dy_row, 0) : READ_NARROW(dy, dy_row, 0);
    return output ? v_add(sum, more) : sum;
}
ECO_DEVICE void store_operand(struct element *at, int slot, vec v)
{
    WRITE_NARROW(at->call->operand, at->call->operand_row, slot, v);
}
ECO_DEVICE void store_save(struct element *at, int i, vec v)
{
    if (at->call->save)
        SAVED(i) = to_narrow(v);
}
ECO_DEVICE void write_next(struct element *at, int s, vec v)
{
    const struct eco_stage_call *call = at->call;
    const vec next = has_start(at, s) && element_resets(at, call->then) ? element_start(at, s) : v;
    if (!call->next[s])
        (void)0;
    else if (is_wide(call->wide_next, s))
        WRITE(call->next[s], call->next_row[s], 0, next);
    else
        WRITE_NARROW(call->next[s], call->next_row[s], 0, next);
    if (s > 0 && call->kept[s])
        WRITE_NARROW(call->kept[s], call->kept_row[s], 0, v);
}
ECO_DEVICE void store_next(struct element *at, int s, vec v)
{
    write_next(at, s, v);
    if (s == 0 && at->call->y)
        WRITE_NARROW(at->call->y, at->call->y_row, 0, v);
}
ECO_DEVICE void store_dacc(struct element *at, int a, vec v)
{
    WRITE_NARROW(at->call->dacc, at->call->dacc_row, a, v);
}
ECO_DEVICE void store_dstate(struct element *at, int s, vec v)
{
    if (s > 0 || at->call->carry[0])
        WRITE(at->call->carry[s], at->call->carry_row[s], 0, v);
}
ECO_DEVICE void store_mean(struct element *at, int m, vec v)
{
    at->sum[m] += (double)v;
}

ECO_DEVICE vec v_bernoulli(struct element *at, int which, double probability)
{
    const struct drawn_for where = {(uint32_t)at->call->t, (uint32_t)at->row, (uint32_t)at->unit};
    return draw_mask(at->call, which, probability, where);
}

/* ---- masked rows ----------------------------------------------------------------------------- */

ECO_DEVICE bool row_masked(const struct eco_stage_call *call, int32_t row, int32_t t)
{
    return call->lengths && t >= call->lengths[row];
}

ECO_DEVICE void mask_forward(struct element *at)
{
    const struct eco_stage_call *call = at->call;
    for (int32_t k = 0; call->operand && k < call->n_slots; k++)
        store_operand(at, k, 0);
    if (!call->last)
        return;
    for (int32_t s = 0; s < call->n_states; s++)
        write_next(at, s, s == 0 && call->projected ? (real)0 : load_state(at, s));
    if (call->y)
        WRITE_NARROW(call->y, call->y_row, 0, (real)0);
}

ECO_DEVICE void mask_backward(struct element *at)
{
    const struct eco_stage_call *call = at->call;
    for (int32_t k = 0; k < call->n_dacc; k++)
        store_dacc(at, k, 0);
    for (int32_t k = 0; call->operand && k < call->n_slots; k++)
        store_operand(at, k, 0);
    for (int32_t s = 0; call->last && s < call->n_states; s++)
        if (call->zero_carry >> s & 1)
            store_dstate(at, s, 0);
}

/* ---- the printed text ------------------------------------------------------------------------ */

#define CELL(name)    name
#define CELL_FUNCTION ECO_DEVICE
#define CELL_AT       struct element *

#endif /* ECO_GPU_CELL_WORDS_CUH */
