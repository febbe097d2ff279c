/*
 * What a step back of algorithm resident reads and writes, and the words of a cell over it.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_LOADS_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_LOADS_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/block_scales.cuh"
#include "gpu/persistent/cell.cuh"
#include "gpu/persistent/cluster_sums.cuh"
#include "gpu/persistent/elements.cuh"

/* In shared memory: [states, pairs] the gradients of states between steps, then [fields, pairs]
 * words that hold what the next step reads. */
ECO_DEVICE int carry_at(const struct memory *memory, int s)
{
    return memory->rest + s * memory->pairs;
}

/* ---- where a step reads and writes ----------------------------------------------------------- */

/* Arrays outside the chip.  One thread to each knows where the step at hand begins and tells the
 * others, in turns. */
enum {
    AT_SAVE,
    AT_DY,
    AT_DACC,
    AT_OPERAND,
    AT_STATE,
    AT_NEXT = AT_STATE + ECO_MAX_STATES,
    ARRAYS = AT_NEXT + ECO_MAX_STATES
};
enum { TURNS = 4 }; /* where blocks meet once in a step some are as far behind */
static __shared__ char *bases[TURNS][ARRAYS];

ECO_DEVICE char **bases_of(int step)
{
    return bases[step & (TURNS - 1)];
}

/* What a thread knows of its array; not in registers, of which all threads would have as many. */
struct walker {
    char *at;
    int64_t step; /* bytes */
    char *initial;
    int last; /* the step that finds the array at `initial`; -1: none */
};
static __shared__ struct walker walkers[ARRAYS];
static_assert(sizeof bases + sizeof walkers + sizeof arrivals <= ECO_RESIDENT_STATIC_BYTES(true),
              "no more room");

ECO_DEVICE struct walker walker_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int k = (int)threadIdx.x, s = (k - AT_STATE) % ECO_MAX_STATES;
    struct walker walker = {NULL, 0, NULL, -1};
    if (k == AT_SAVE) {
        walker.at = (char *)job->save;
        walker.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k == AT_DY) {
        walker.at = (char *)job->y;
        walker.step = job->y_step * (int64_t)(call->wide_dy ? sizeof(real) : sizeof(narrow));
    } else if (k == AT_DACC) {
        walker.at = (char *)job->dacc;
        walker.step = job->acc_step * (int64_t)sizeof(narrow);
    } else if (k == AT_OPERAND) {
        walker.at = (char *)job->operand;
        walker.step = job->operand_step * (int64_t)sizeof(narrow);
    } else if (k >= AT_STATE && k < ARRAYS && s < call->n_states) {
        walker.at = k < AT_NEXT ? (char *)job->state[s] : (char *)job->next[s];
        walker.step = job->next_step[s] * (int64_t)sizeof(narrow);
        walker.last = k < AT_NEXT && (job->begins >> s & 1) ? job->steps - 1 : -1;
        walker.initial = (char *)job->initial[s];
    }
    return walker;
}

ECO_DEVICE void begin_walk(const struct eco_resident_call *call, const struct share *share)
{
    if (threadIdx.x < ARRAYS)
        walkers[threadIdx.x] = walker_of(call, share);
}

ECO_DEVICE void tell(int step)
{
    if (threadIdx.x < ARRAYS) {
        struct walker *const walker = &walkers[threadIdx.x];
        bases_of(step)[threadIdx.x] = step == walker->last ? walker->initial : walker->at;
        if (walker->at)
            walker->at += walker->step;
    }
}

/* ---- the words of a cell --------------------------------------------------------------------- */

/* One unit of one row: what its text reads is in registers. */
struct place {
    const struct eco_resident_call *call;
    const struct eco_resident_job *job;
    int row, unit, step;
    bool there, masked;
    operand_bits *sent; /* of the group */
    int sent_row;       /* of the group's */
    const struct memory *memory;
    char *dacc;
    float *carried;   /* in shared memory */
    float dstate, dy; /* R^T dacc of the step after; 0: there is no dy */
};

template <class CELL> struct place_of : place {
    float saved[CELL::saves > 0 ? CELL::saves : 1], state[CELL::states], next[CELL::states],
        dnext[CELL::states], carry[CELL::states];
    narrow dacc_of[CELL::accs];
};

template <class PLACE> ECO_DEVICE vec load_saved(PLACE *at, int i)
{
    return at->saved[i];
}
template <class PLACE> ECO_DEVICE vec load_state(PLACE *at, int s)
{
    return at->state[s];
}
template <class PLACE> ECO_DEVICE vec load_next(PLACE *at, int s)
{
    return at->next[s];
}
template <class PLACE> ECO_DEVICE vec load_dnext(PLACE *at, int s)
{
    return at->dnext[s];
}

/* Gradients of accumulators, and of vectors behind them. */
template <class CELL>
ECO_DEVICE void write_dacc(const struct place_of<CELL> *at, int a, narrow dacc)
{
    const struct eco_resident_call *call = at->call;
    write_row(at->there,
              (narrow *)at->dacc + element_at(at->row, call->acc_row, a * call->column + at->unit),
              dacc);
}

/* Others wait for those of accumulators, so they go out together, before anything is written. */
template <class CELL> ECO_DEVICE void store_dacc(struct place_of<CELL> *at, int a, vec v)
{
    const narrow rounded = to_narrow(at->masked ? 0 : v);
    if (a < CELL::accs)
        at->dacc_of[a] = rounded;
    else
        write_dacc(at, a, rounded);
}
/* What the product gathers. */
template <int PRODUCT, class BUNDLE, class CELL>
ECO_DEVICE void send_dacc(const struct place_of<CELL> *at)
{
    float scale = 1;
#if defined(ECO_SCALED)
    unsigned size = 0;
#pragma unroll
    for (int a = 0; a < CELL::accs; a++)
        if (CELL::row(a, PRODUCT) >= 0)
            size = larger_size(size, to_real(at->dacc_of[a]));
    scale = tell_power<BUNDLE>(at->call, at->memory, PRODUCT, at->sent, at->sent_row, at->unit,
                               at->there, size);
#endif
#pragma unroll
    for (int a = 0; a < CELL::accs; a++)
        if (CELL::row(a, PRODUCT) >= 0)
            store_relaxed_if(
                at->there,
                at->sent + row_at(at->sent_row) +
                    number_at<BUNDLE>(at->memory,
                                      number_of<BUNDLE>(at->call, CELL::row(a, PRODUCT), at->unit)),
                to_operand(scale * to_real(at->dacc_of[a])));
}
template <class CELL> ECO_DEVICE void store_dstate(struct place_of<CELL> *at, int s, vec v)
{
    const float kept = at->carry[s] + (s == 0 ? at->dstate : 0);
    at->carried[s * at->memory->pairs] = at->masked ? kept : v;
}

template <int NUMBER> ECO_DEVICE void finish_unit(struct place_of<numbers<NUMBER>> *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k)                                                                     \
        name(at);
    CELLS_backward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* ---- what a step reads ----------------------------------------------------------------------- */

/* The fields of a step, in this order: saved values, states before it and after it, dy. */
template <class CELL> struct field {
    enum { state = CELL::saves, next = state + CELL::states, dy = next + CELL::states };
};

/* Calls what(field, base, element, wide) for each of them, in a row of a unit.  Before the last
 * step some states are the caller's. */
template <class CELL, class WHAT>
ECO_DEVICE void for_fields(const struct eco_resident_call *call, const struct eco_resident_job *job,
                           int step, int row, int unit, WHAT what)
{
    char *const *const base = bases_of(step);
    const uint32_t begins = step == job->steps - 1 ? job->begins : 0;
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        what(i, base[AT_SAVE], element_at(row, call->save_row, i * call->hidden + unit), false);
#pragma unroll
    for (int s = 0; s < CELL::states; s++) {
        const uint32_t width = call->state_row[s];
        what(field<CELL>::state + s, base[AT_STATE + s],
             element_at(row, begins >> s & 1 ? (uint32_t)call->hidden : width, unit), false);
        what(field<CELL>::next + s, base[AT_NEXT + s], element_at(row, width, unit), false);
    }
    what(field<CELL>::dy, base[AT_DY], element_at(row, call->y_row, unit), call->wide_dy);
}

template <class CELL> ECO_DEVICE int field_at(const struct memory *memory, int field, int pair)
{
    return carry_at(memory, CELL::states + field) + pair;
}

/* What the step reads of this thread's pairs, on its way: the words that hold the elements. */
template <class CELL, class CUT>
ECO_DEVICE void fetch(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, const struct mine *mine, int step)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const bool wanted = call->words && step < job->steps;
    const uint32_t fields =
        bases_of(step)[AT_DY] ? call->fields : call->fields & ~(1u << field<CELL>::dy);
    int pair = (int)threadIdx.x;
    for (int n = mine->n; wanted; n += CUT::pair_rows, pair += THREADS) {
        for_fields<CELL>(
            call, job, step, share->row0 + n, mine->unit,
            [&](int field, const char *from, uint32_t element, bool wide) {
                const size_t at = (size_t)element * (wide ? sizeof(real) : sizeof(narrow));
                const uintptr_t word = (uintptr_t)(from + at) & ~(uintptr_t)3;
                cp_async_4_if(n < mine->rows && fields >> field & 1,
                              floats(field_at<CELL>(memory, field, pair)), (const void *)word);
            });
        if (n - mine->n + CUT::pair_rows >= share->rows)
            break;
    }
}

/* The element that a word holds; odd: in its upper half. */
ECO_DEVICE vec element_of(float word, unsigned odd)
{
#if defined(ECO_ROWS_F32)
    return word;
#else
    narrow half;
    half.bits = (unsigned short)(__float_as_uint(word) >> (odd & 1) * 16);
    return to_real(half);
#endif
}

/* The fields of a pair, from where fetch() put them. */
template <class CELL>
ECO_DEVICE void read_fetched(const struct memory *memory, const struct place_of<CELL> *at, int pair,
                             float value[])
{
#pragma unroll
    for (int i = 0; i <= field<CELL>::dy; i++) {
        const float word = *floats(field_at<CELL>(memory, i, pair));
        const bool wide = i == field<CELL>::dy && at->call->wide_dy;
        value[i] = wide ? word : element_of(word, at->unit);
    }
}

/* The same where H is odd: rows begin in the middle of words, too. */
template <class CELL>
ECO_DEVICE void read_odd(const struct memory *memory, const struct place_of<CELL> *at, int pair,
                         float value[])
{
    for_fields<CELL>(at->call, at->job, at->step, at->row, at->unit,
                     [&](int field, const char *from, uint32_t element, bool wide) {
                         const float word = *floats(field_at<CELL>(memory, field, pair));
                         const unsigned half = (unsigned)((uintptr_t)from / sizeof(narrow));
                         value[field] = wide ? word : element_of(word, half + element);
                     });
}

/* And from outside the chip, where words could not be copied. */
template <class CELL> ECO_DEVICE void read_outside(const struct place_of<CELL> *at, float value[])
{
    for_fields<CELL>(at->call, at->job, at->step, at->row, at->unit,
                     [&](int field, const char *from, uint32_t element, bool wide) {
                         if (!at->there || !(at->call->fields >> field & 1) || !from)
                             value[field] = 0;
                         else
                             value[field] = wide ? ((const real *)from)[element]
                                                 : to_real(((const narrow *)from)[element]);
                     });
}

/* All but what products add. */
template <class CELL>
ECO_DEVICE void read_fields(const struct memory *memory, struct place_of<CELL> *at, int pair)
{
    const struct eco_resident_call *call = at->call;
    const uint32_t zeros = at->step == at->job->steps - 1 ? at->job->zeros : 0;
    float value[field<CELL>::dy + 1];
    if (!call->words)
        read_outside(at, value);
    else if (call->hidden & 1)
        read_odd(memory, at, pair, value);
    else
        read_fetched(memory, at, pair, value);
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        at->saved[i] = value[i];
#pragma unroll
    for (int s = 0; s < CELL::states; s++) {
        at->state[s] = zeros >> s & 1 ? 0 : value[field<CELL>::state + s];
        at->next[s] = value[field<CELL>::next + s];
        at->carry[s] = at->carried[s * memory->pairs];
        at->dnext[s] = at->carry[s];
    }
    at->dy = bases_of(at->step)[AT_DY] ? value[field<CELL>::dy] : 0;
}

/* And that, which comes last. */
template <class CELL> ECO_DEVICE void add_dstate(struct place_of<CELL> *at)
{
    at->dnext[0] += at->dstate;
    at->dnext[0] += at->dy;
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_LOADS_CUH */
