/*
 * What a backward step of a persistent kernel reads and writes, and the cell's words for it.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_LOADS_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_LOADS_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/block_scales.cuh"
#include "gpu/persistent/cluster_sums.cuh"
#include "gpu/persistent/means_element.cuh"

/* In shared memory: [states, elements] gradients of states between steps, then [fields, elements]
 * words with the values that the next step reads. */
ECO_DEVICE int carry_at(const struct block_context *block, int s)
{
    return block->memory.rest + s * block->memory.elements;
}

/* ---- addresses of a step --------------------------------------------------------------------- */

/* Arrays in device memory. For each one thread computes where the current step begins and publishes
 * it in shared memory, for several steps in turn. */
enum {
    AT_SAVE,
    AT_DY,
    AT_DACC,
    AT_OPERAND,
    AT_STATE,
    AT_NEXT = AT_STATE + ECO_MAX_STATES,
    ARRAYS = AT_NEXT + ECO_MAX_STATES
};
enum { TURNS = 4 }; /* blocks that meet once in a step have threads as far behind */
static __shared__ char *bases[TURNS][ARRAYS];

ECO_DEVICE char **bases_of(int step)
{
    return bases[step & (TURNS - 1)];
}

/* An array's address for the current step; not in registers, which all threads would give up. */
struct address_walker {
    char *at;
    int64_t step; /* bytes */
    char *initial;
    int last; /* step in which the array is at `initial`; -1: none */
};
static __shared__ struct address_walker address_walkers[ARRAYS];
static_assert(sizeof bases + sizeof address_walkers + sizeof arrivals <=
                  eco_persistent_static_bytes(true),
              "no more room");

ECO_DEVICE struct address_walker address_walker_of(const struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    const int k = (int)threadIdx.x, s = (k - AT_STATE) % ECO_MAX_STATES;
    struct address_walker address_walker = {NULL, 0, NULL, -1};
    if (k == AT_SAVE) {
        address_walker.at = (char *)job->save;
        address_walker.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k == AT_DY) {
        address_walker.at = (char *)job->y;
        address_walker.step =
            job->y_step * (int64_t)(block->call->wide_dy ? sizeof(real) : sizeof(narrow));
    } else if (k == AT_DACC) {
        address_walker.at = (char *)job->dacc;
        address_walker.step = job->acc_step * (int64_t)sizeof(narrow);
    } else if (k == AT_OPERAND) {
        address_walker.at = (char *)job->operand;
        address_walker.step = job->operand_step * (int64_t)sizeof(narrow);
    } else if (k >= AT_STATE && k < ARRAYS && s < block->call->n_states) {
        address_walker.at = k < AT_NEXT ? (char *)job->state[s] : (char *)job->next[s];
        address_walker.step = job->next_step[s] * (int64_t)sizeof(narrow);
        address_walker.last = k < AT_NEXT && (job->begins >> s & 1) ? job->steps - 1 : -1;
        address_walker.initial = (char *)job->initial[s];
    }
    return address_walker;
}

ECO_DEVICE void begin_walk(const struct block_context *block)
{
    if (threadIdx.x < ARRAYS)
        address_walkers[threadIdx.x] = address_walker_of(block);
}

ECO_DEVICE void publish_addresses(int step)
{
    if (threadIdx.x < ARRAYS) {
        struct address_walker *const address_walker = &address_walkers[threadIdx.x];
        bases_of(step)[threadIdx.x] =
            step == address_walker->last ? address_walker->initial : address_walker->at;
        if (address_walker->at)
            address_walker->at += address_walker->step;
    }
}

/* ---- the words of a cell --------------------------------------------------------------------- */

/* One unit of one row; what its text reads is in registers. */
struct element {
    const struct eco_persistent_call *call;
    const struct eco_persistent_job *job;
    int row, unit, step;
    bool there, masked;
    int sent_row; /* row of the group */
    char *dacc;
    bool cut;       /* the step after this one restarted */
    float *carried; /* [states] in shared memory, `elements` apart */
    int elements;
    float dstate, dy; /* R^T dacc of the next step; 0 if there is no dy */
};

template <class CELL> struct element_of : element, row_means {
    float saved[CELL::saves > 0 ? CELL::saves : 1], state[CELL::states], next[CELL::states],
        dnext[CELL::states], carry[CELL::states];
    narrow dacc_of[CELL::accs];
    bool stored[CELL::accs]; /* which of `dacc_of` a stage has stored */
    float doperand;          /* of the second product */
    char *operand;           /* of the gradient of its R */
    narrow dvector[ECO_MAX_WRITTEN];
    bool has_dvector[ECO_MAX_WRITTEN]; /* of this stage, in a cell with means */
};

template <class ELEMENT> ECO_DEVICE vec load_saved(ELEMENT *at, int i)
{
    return at->saved[i];
}
template <class ELEMENT> ECO_DEVICE vec load_state(ELEMENT *at, int s)
{
    return at->state[s];
}
template <class ELEMENT> ECO_DEVICE vec load_next(ELEMENT *at, int s)
{
    return at->next[s];
}
template <class ELEMENT> ECO_DEVICE vec load_dnext(ELEMENT *at, int s)
{
    return at->dnext[s];
}

/* Stores the gradient of accumulator a, or of a vector. */
template <class CELL>
ECO_DEVICE void write_dacc(const struct element_of<CELL> *at, int a, narrow dacc)
{
    const struct eco_persistent_call *call = at->call;
    write_row(at->there,
              (narrow *)at->dacc + offset_at(at->row, call->acc_row, a * call->column + at->unit),
              dacc);
}

/* Other blocks wait for gradients of accumulators, so these are sent before anything is stored.
 * With means, blocks also wait for sums, so gradients of vectors are stored after the stage. */
template <class CELL> ECO_DEVICE void store_dacc(struct element_of<CELL> *at, int a, vec v)
{
    const narrow rounded = to_narrow(at->masked ? 0 : v);
    if (a < CELL::accs) {
        at->dacc_of[a] = rounded;
        at->stored[a] = true;
    } else if (means_of::means > 0) {
        at->dvector[a - CELL::accs] = rounded;
        at->has_dvector[a - CELL::accs] = true;
    } else {
        write_dacc(at, a, rounded);
    }
}
template <class CELL> ECO_DEVICE vec load_doperand(struct element_of<CELL> *at, int slot)
{
    return at->doperand;
}
template <class CELL> ECO_DEVICE void store_operand(struct element_of<CELL> *at, int slot, vec v)
{
    write_row(at->there,
              (narrow *)at->operand + offset_at(at->row, at->call->operand_row, at->unit),
              to_narrow(at->masked ? 0 : v));
}

/* Writes the gradients of vectors that the stage has stored, and begins another. */
template <class CELL> ECO_DEVICE void write_dvectors(struct element_of<CELL> *at, bool stored)
{
#pragma unroll
    for (int i = 0; i < ECO_MAX_WRITTEN && means_of::means > 0; i++) {
        if (stored && at->has_dvector[i])
            write_dacc(at, CELL::accs + i, at->dvector[i]);
        at->has_dvector[i] = false;
    }
}

/* Sends what product PRODUCT gathers. */
template <int PRODUCT, class SCALE_BLOCK, class CELL>
ECO_DEVICE void send_dacc(const struct block_context *block, const struct element_of<CELL> *at)
{
    float scale = 1;
#if defined(ECO_SCALED)
    unsigned size = 0;
#pragma unroll
    for (int a = 0; a < CELL::accs; a++)
        if (CELL::row(a, PRODUCT) >= 0)
            size = larger_size(size, to_real(at->dacc_of[a]));
    scale = publish_scale<SCALE_BLOCK>(block, PRODUCT, at->sent_row, at->there, size);
#endif
#pragma unroll
    for (int a = 0; a < CELL::accs; a++)
        if (CELL::row(a, PRODUCT) >= 0)
            store_relaxed_if(
                at->there,
                block->thread.sent + row_at(at->sent_row) +
                    number_at<SCALE_BLOCK>(
                        block, number_of<SCALE_BLOCK>(block, CELL::row(a, PRODUCT), at->unit)),
                to_operand(scale * to_real(at->dacc_of[a])));
}
template <class CELL> ECO_DEVICE void store_dstate(struct element_of<CELL> *at, int s, vec v)
{
    const float kept = at->carry[s] + (s == 0 ? at->dstate : 0);
    at->carried[s * at->elements] = at->masked ? kept : v;
}

/* ---- what a step reads ----------------------------------------------------------------------- */

/* The fields that a step reads, in this order: saved values, states before and after it, dy. */
template <class CELL> struct field {
    enum { state = CELL::saves, next = state + CELL::states, dy = next + CELL::states };
};

/* Calls what(field, base, element, wide) for each field of a row and unit. The last step reads some
 * of the caller's states. */
template <class CELL, class WHAT>
ECO_DEVICE void for_fields(const struct block_context *block, int row, int unit, WHAT what)
{
    const struct eco_persistent_job *job = job_of(block);
    char *const *const base = bases_of(block->step);
    const uint32_t begins = block->step == job->steps - 1 ? job->begins : 0;
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        what(i, base[AT_SAVE],
             offset_at(row, block->call->save_row, i * block->call->hidden + unit), false);
#pragma unroll
    for (int s = 0; s < CELL::states; s++) {
        const uint32_t width = block->call->state_row[s];
        what(field<CELL>::state + s, base[AT_STATE + s],
             offset_at(row, begins >> s & 1 ? (uint32_t)block->call->hidden : width, unit), false);
        what(field<CELL>::next + s, base[AT_NEXT + s], offset_at(row, width, unit), false);
    }
    what(field<CELL>::dy, base[AT_DY], offset_at(row, block->call->y_row, unit),
         block->call->wide_dy);
}

template <class CELL>
ECO_DEVICE int field_at(const struct block_context *block, int field, int element)
{
    return carry_at(block, CELL::states + field) + element;
}

/* Starts to copy the fields of this thread's elements to shared memory, in whole words. */
template <class CELL, class DIVISION> ECO_DEVICE void fetch(const struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    const bool wanted = block->call->words && block->step < job->steps;
    const uint32_t fields = bases_of(block->step)[AT_DY]
                                ? block->call->fields
                                : block->call->fields & ~(1u << field<CELL>::dy);
    int element = (int)threadIdx.x;
    for (int n = block->thread.n; wanted;
         n += DIVISION::element_rows, element += PERSISTENT_THREADS) {
        for_fields<CELL>(
            block, block->row0 + n, block->thread.unit,
            [&](int field, const char *from, uint32_t offset, bool wide) {
                const size_t at = (size_t)offset * (wide ? sizeof(real) : sizeof(narrow));
                const uintptr_t word = (uintptr_t)(from + at) & ~(uintptr_t)3;
                cp_async_4_if(n < block->thread.rows && fields >> field & 1,
                              floats(field_at<CELL>(block, field, element)), (const void *)word);
            });
        if (n - block->thread.n + DIVISION::element_rows >= block->rows)
            break;
    }
}

/* The value in a word; odd: in its upper half. */
ECO_DEVICE vec value_in_word(float word, unsigned odd)
{
#if defined(ECO_ROWS_F32)
    return word;
#else
    narrow half;
    half.bits = (unsigned short)(__float_as_uint(word) >> (odd & 1) * 16);
    return to_real(half);
#endif
}

/* Reads the fields of an element that fetch() copied. */
template <class CELL>
ECO_DEVICE void read_fetched(const struct block_context *block, const struct element_of<CELL> *at,
                             int element, float value[])
{
#pragma unroll
    for (int i = 0; i <= field<CELL>::dy; i++) {
        const float word = *floats(field_at<CELL>(block, i, element));
        const bool wide = i == field<CELL>::dy && at->call->wide_dy;
        value[i] = wide ? word : value_in_word(word, at->unit);
    }
}

/* The same for odd H, where rows may begin in the middle of a word. */
template <class CELL>
ECO_DEVICE void read_odd(const struct block_context *block, const struct element_of<CELL> *at,
                         int element, float value[])
{
    for_fields<CELL>(block, at->row, at->unit,
                     [&](int field, const char *from, uint32_t offset, bool wide) {
                         const float word = *floats(field_at<CELL>(block, field, element));
                         const unsigned half = (unsigned)((uintptr_t)from / sizeof(narrow));
                         value[field] = wide ? word : value_in_word(word, half + offset);
                     });
}

/* Reads the fields from device memory, where words could not be copied. */
template <class CELL>
ECO_DEVICE void read_outside(const struct block_context *block, const struct element_of<CELL> *at,
                             float value[])
{
    for_fields<CELL>(block, at->row, at->unit,
                     [&](int field, const char *from, uint32_t offset, bool wide) {
                         if (!at->there || !(at->call->fields >> field & 1) || !from)
                             value[field] = 0;
                         else
                             value[field] = wide ? ((const real *)from)[offset]
                                                 : to_real(((const narrow *)from)[offset]);
                     });
}

/* Adds the gradient of state s, of a row that restarts in the step after this one, to the gradient
 * of its start. No other thread adds to it. */
template <class ELEMENT> ECO_DEVICE void add_to_start(const ELEMENT *at, int s, float d)
{
    float *const sums = (float *)starts_of(at->call, at->job)->dstart[s];
    if (sums)
        atomicAdd(sums + offset_at(at->row, at->call->carry_row[s], at->unit), d);
}

/* If a row restarts: replaces the states before the step by the row's start, and drops gradients
 * that are carried across a restart. add_dstate() does the latter for state 0, to which a product
 * is added. */
template <class CELL>
ECO_DEVICE void reset_fields(const struct block_context *block, struct element_of<CELL> *at)
{
    const bool reset = at->there && is_reset(block, at->step, at->sent_row, 0);
    at->cut = at->there && is_reset(block, at->step - 1, at->sent_row, 1);
#pragma unroll
    for (int s = 0; s < CELL::states; s++) {
        if (reset)
            at->state[s] = start_at(at, s);
        if (!at->cut)
            continue;
        if (s > 0) {
            add_to_start(at, s, at->carry[s]);
            at->dnext[s] = 0;
        }
        at->carry[s] = at->carried[s * at->elements] = 0;
    }
}

/* Reads all but the sums of products. */
template <class CELL>
ECO_DEVICE void read_fields(const struct block_context *block, struct element_of<CELL> *at,
                            int element)
{
    const struct eco_persistent_call *call = at->call;
    const uint32_t zeros = at->step == at->job->steps - 1 ? at->job->zeros : 0;
    float value[field<CELL>::dy + 1];
    enum { NARROW = sizeof(narrow) < sizeof(real) }; /* others are whole words */
    if (NARROW && !call->words)
        read_outside(block, at, value);
    else if (NARROW && !usual.even && call->hidden & 1)
        read_odd(block, at, element, value);
    else
        read_fetched(block, at, element, value);
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        at->saved[i] = value[i];
#pragma unroll
    for (int s = 0; s < CELL::states; s++) {
        at->state[s] = zeros >> s & 1 ? 0 : value[field<CELL>::state + s];
        at->next[s] = value[field<CELL>::next + s];
        at->carry[s] = at->carried[s * at->elements];
        at->dnext[s] = at->carry[s];
    }
    at->dy = bases_of(at->step)[AT_DY] ? value[field<CELL>::dy] : 0;
    at->cut = false;
    if (HAS_RESETS)
        reset_fields(block, at);
}

/* Adds the sum of products, which arrives last. A gradient that goes to a start is one sum, as at
 * the beginning of a run, so a row of episodes gets the same bits as separate runs. */
template <class CELL> ECO_DEVICE void add_dstate(struct element_of<CELL> *at)
{
    at->dnext[0] += at->dstate;
    if (HAS_RESETS && at->cut) {
        add_to_start(at, 0, at->dnext[0]);
        at->dnext[0] = at->dstate = 0;
    }
    at->dnext[0] += at->dy;
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_LOADS_CUH */
