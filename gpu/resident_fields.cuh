/*
 * What a step back of algorithm resident reads and writes, and the words of a cell over it.
 */
#include "gpu/resident.cuh"
#include "gpu/resident_operand.cuh"
#include "gpu/resident_product.cuh"

/* In shared memory: [states, pairs] the gradients of states between steps, then [fields, pairs]
 * words that hold what the next step reads. */
WORD int carry_at(const struct memory *memory, int s)
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
    AT_STATE,
    AT_NEXT = AT_STATE + ECO_MAX_STATES,
    ARRAYS = AT_NEXT + ECO_MAX_STATES
};
static __shared__ char *bases[2][ARRAYS];

struct walker {
    char *at;
    int64_t step; /* bytes */
    int last;     /* the step that finds the array at `initial`; -1: none */
    char *initial;
};

WORD struct walker walker_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int k = (int)threadIdx.x, s = (k - AT_STATE) % ECO_MAX_STATES;
    struct walker walker = {NULL, 0, -1, NULL};
    if (k == AT_SAVE) {
        walker.at = (char *)job->save;
        walker.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k == AT_DY) {
        walker.at = (char *)job->y;
        walker.step = job->y_step * (int64_t)(call->wide_dy ? sizeof(real) : sizeof(narrow));
    } else if (k == AT_DACC) {
        walker.at = (char *)job->dacc;
        walker.step = job->acc_step * (int64_t)sizeof(narrow);
    } else if (k >= AT_STATE && k < ARRAYS && s < call->n_states) {
        walker.at = k < AT_NEXT ? (char *)job->state[s] : (char *)job->next[s];
        walker.step = job->next_step[s] * (int64_t)sizeof(narrow);
        walker.last = k < AT_NEXT && (job->begins >> s & 1) ? job->steps - 1 : -1;
        walker.initial = (char *)job->initial[s];
    }
    return walker;
}

WORD void tell(struct walker *walker, int step)
{
    if (threadIdx.x < ARRAYS) {
        bases[step & 1][threadIdx.x] = step == walker->last ? walker->initial : walker->at;
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
    operand_bits *sent; /* of the row and unit 0 */
    const struct memory *memory;
    char *dacc;
    float *carried; /* in shared memory */
    float dstate;   /* R^T dacc of the step after */
};

template <class CELL> struct place_of : place {
    float saved[CELL::saves > 0 ? CELL::saves : 1], state[CELL::states], next[CELL::states],
        dnext[CELL::states], carry[CELL::states];
};

template <class PLACE> CELL_WORD vec load_saved(PLACE *at, int i)
{
    return at->saved[i];
}
template <class PLACE> CELL_WORD vec load_state(PLACE *at, int s)
{
    return at->state[s];
}
template <class PLACE> CELL_WORD vec load_next(PLACE *at, int s)
{
    return at->next[s];
}
template <class PLACE> CELL_WORD vec load_dnext(PLACE *at, int s)
{
    return at->dnext[s];
}

template <class CELL> CELL_WORD void store_dacc(struct place_of<CELL> *at, int a, vec v)
{
    const struct eco_resident_call *call = at->call;
    const narrow rounded = to_narrow(at->masked ? 0 : v);
    const int row = CELL::row(a);
    if (row >= 0)
        write_shared_by_all_if(
            at->there, at->sent + unit_at(at->memory, (unsigned)(row * call->hidden + at->unit)),
            to_operand(to_real(rounded)));
    write_row(at->there,
              (narrow *)at->dacc +
                  ((int64_t)at->row * call->acc_row + (a * call->hidden + at->unit)),
              rounded);
}
template <class CELL> CELL_WORD void store_dstate(struct place_of<CELL> *at, int s, vec v)
{
    const float kept = at->carry[s] + (s == 0 ? at->dstate : 0);
    at->carried[s * at->memory->pairs] = at->masked ? kept : v;
}

#define CELL_TEMPLATE "gpu/nothing.cuh"
#include "gpu/cells.inc"
CELLS_ONE_PRODUCT(CELLS_STRUCT)

template <int NUMBER> CELL_WORD void finish_unit(struct place_of<numbers<NUMBER>> *at)
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
 * step some states are the caller's; rows of so many elements that an int does not hold them are of
 * a batch of one. */
template <class CELL, class WHAT>
CELL_WORD void for_fields(const struct eco_resident_call *call, const struct eco_resident_job *job,
                          int step, int64_t row, int unit, WHAT what)
{
    char *const *const base = bases[step & 1];
    const uint32_t begins = step == job->steps - 1 ? job->begins : 0;
#pragma unroll
    for (int i = 0; i < CELL::saves; i++)
        what(i, base[AT_SAVE], row * (int64_t)call->save_row + (i * call->hidden + unit), false);
#pragma unroll
    for (int s = 0; s < CELL::states; s++) {
        const int width = (int)call->state_row[s];
        what(field<CELL>::state + s, base[AT_STATE + s],
             row * (begins >> s & 1 ? call->hidden : width) + unit, false);
        what(field<CELL>::next + s, base[AT_NEXT + s], row * width + unit, false);
    }
    what(field<CELL>::dy, base[AT_DY], row * (int64_t)call->y_row + unit, call->wide_dy);
}

template <class CELL> CELL_WORD int field_at(const struct memory *memory, int field, int pair)
{
    return carry_at(memory, CELL::states + field) + pair;
}

/* What the step reads of this thread's pairs, on its way: the words that hold the elements. */
template <class CELL, class CUT>
CELL_WORD void fetch(const struct eco_resident_call *call, const struct share *share,
                     const struct memory *memory, const struct mine *mine, int step)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const bool wanted = call->even && step < job->steps;
    const uint32_t fields =
        bases[step & 1][AT_DY] ? call->fields : call->fields & ~(1u << field<CELL>::dy);
    int pair = (int)threadIdx.x;
    for (int n = mine->n; wanted; n += CUT::pair_rows, pair += THREADS) {
        for_fields<CELL>(
            call, job, step, share->row0 + n, mine->unit,
            [&](int field, char *from, int64_t element, bool wide) {
                const uintptr_t address =
                    (uintptr_t)(from + element * (int)(wide ? sizeof(real) : sizeof(narrow))) &
                    ~(uintptr_t)3;
                copy_later_if(n < mine->rows && fields >> field & 1,
                              floats(field_at<CELL>(memory, field, pair)), (const void *)address);
            });
        if (n - mine->n + CUT::pair_rows >= share->rows)
            break;
    }
}

/* The element of a row that a word of it holds. */
WORD vec element_of(float word, int unit)
{
#if defined(ECO_ROWS_F32)
    return word;
#else
    narrow half;
    half.bits = (unsigned short)(__float_as_uint(word) >> (unit & 1) * 16);
    return to_real(half);
#endif
}

/* To registers; from outside the chip where words could not be copied. */
template <class CELL>
CELL_WORD void read_fields(const struct memory *memory, struct place_of<CELL> *at, int pair)
{
    const struct eco_resident_call *call = at->call;
    const uint32_t zeros = at->step == at->job->steps - 1 ? at->job->zeros : 0;
    const int unit = at->unit;
    float value[field<CELL>::dy + 1];
    for_fields<CELL>(call, at->job, at->step, at->row, unit,
                     [&](int field, char *from, int64_t element, bool wide) {
                         if (call->even) {
                             const float word = *floats(field_at<CELL>(memory, field, pair));
                             value[field] = wide ? word : element_of(word, unit);
                         } else if (at->there && call->fields >> field & 1 && from)
                             value[field] = wide ? ((const real *)from)[element]
                                                 : to_real(((const narrow *)from)[element]);
                         else
                             value[field] = 0;
                     });
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
    at->dnext[0] += at->dstate;
    if (bases[at->step & 1][AT_DY])
        at->dnext[0] += value[field<CELL>::dy];
}
