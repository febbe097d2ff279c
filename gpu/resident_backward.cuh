/*
 * The backward kernel of algorithm resident.  A step, back in time: gather dacc of all units from
 * the other blocks of the group; multiply it by R^T, of which this block has the rows of its units;
 * finish its units in the cell's own text; send their dacc to the others.  The exchange is that of
 * the forward kernel.
 */
#include "gpu/resident.cuh"

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

struct place {
    const struct eco_resident_call *call;
    const struct eco_resident_job *job;
    const struct memory *memory;
    int pair, n; /* in the block, in the group */
    int row, unit, step;
    int rows[ECO_MAX_STATES]; /* elements from one row of the state before the step to the next */
    uint32_t zeros;           /* states before it that are 0, whatever lies there */
    float dstate;             /* R^T dacc of the step after */
    operand_bits *sent;       /* of the group */
};

template <int CELL_> struct place_of : place {
    enum { CELL = CELL_ };
};

WORD char *base_of(const struct place *at, int array)
{
    return bases[at->step & 1][array];
}

WORD float *fetched(const struct place *at, int field)
{
    return floats(carry_at(at->memory, at->call->n_states + field) + at->pair);
}

/* A value that was fetched ahead, or is read now where words cannot be copied. */
WORD vec read_narrow(struct place *at, int field, const void *base, int64_t element)
{
    if (!at->call->even)
        return to_real(((const narrow *)base)[element]);
    narrow half;
    half.bits = (unsigned short)(__float_as_uint(*fetched(at, field)) >> (at->unit & 1) * 16);
    return to_real(half);
}

WORD vec read_real(struct place *at, int field, const void *base, int64_t element)
{
    return at->call->even ? *fetched(at, field) : ((const real *)base)[element];
}

/* The fields of a step, in this order: saved values, states before it and after it, dy. */
WORD int64_t saved_at(const struct place *at, int i)
{
    return (int64_t)at->row * at->call->save_row + (i * at->call->hidden + at->unit);
}
/* Rows of so many elements that an int does not hold them are of a batch of one. */
WORD int64_t next_at(const struct place *at, int s)
{
    return (int64_t)at->row * (int)at->call->state_row[s] + at->unit;
}
WORD int64_t state_at(const struct place *at, int s)
{
    return (int64_t)at->row * at->rows[s] + at->unit;
}
WORD int64_t dy_at(const struct place *at)
{
    return (int64_t)at->row * at->call->y_row + at->unit;
}

template <class PLACE> CELL_WORD vec load_saved(PLACE *at, int i)
{
    return read_narrow(at, i, base_of(at, AT_SAVE), saved_at(at, i));
}
template <class PLACE> CELL_WORD vec load_state(PLACE *at, int s)
{
    const int field = numbers<PLACE::CELL>::saves + s;
    const vec state = read_narrow(at, field, base_of(at, AT_STATE + s), state_at(at, s));
    return at->zeros >> s & 1 ? 0 : state;
}
template <class PLACE> CELL_WORD vec load_next(PLACE *at, int s)
{
    const int field = numbers<PLACE::CELL>::saves + numbers<PLACE::CELL>::states + s;
    return read_narrow(at, field, base_of(at, AT_NEXT + s), next_at(at, s));
}
template <class PLACE> CELL_WORD vec load_dnext(PLACE *at, int s)
{
    const int field = numbers<PLACE::CELL>::saves + 2 * numbers<PLACE::CELL>::states;
    const vec carry = *floats(carry_at(at->memory, s) + at->pair);
    char *const dy = base_of(at, AT_DY);
    if (s > 0 || !dy)
        return s > 0 ? carry : carry + at->dstate;
    return carry + at->dstate +
           (at->call->wide_dy ? read_real(at, field, dy, dy_at(at))
                              : read_narrow(at, field, dy, dy_at(at)));
}

template <class PLACE> CELL_WORD void store_dacc(PLACE *at, int a, vec v)
{
    const struct eco_resident_call *call = at->call;
    const narrow rounded = to_narrow(v);
    const int row = numbers<PLACE::CELL>::row(a);
    if (row >= 0)
        write_shared_by_all(at->sent + exchanged_at(call, (unsigned)at->n,
                                                    (unsigned)(row * call->hidden + at->unit)),
                            to_operand(to_real(rounded)));
    ((narrow *)base_of(
        at, AT_DACC))[(int64_t)at->row * call->acc_row + (a * call->hidden + at->unit)] = rounded;
}
WORD void store_dstate(struct place *at, int s, vec v)
{
    *floats(carry_at(at->memory, s) + at->pair) = v;
}

#define CELL_TEMPLATE "gpu/nothing.cuh"
#include "gpu/cells.inc"
CELLS_ONE_PRODUCT(CELLS_STRUCT)

template <class PLACE> CELL_WORD void mask(PLACE *at)
{
#pragma unroll
    for (int a = 0; a < numbers<PLACE::CELL>::accs; a++)
        store_dacc(at, a, 0);
    for (int a = numbers<PLACE::CELL>::accs; a < at->call->n_accs; a++)
        store_dacc(at, a, 0);
    *floats(carry_at(at->memory, 0) + at->pair) += at->dstate;
}

template <class PLACE> CELL_WORD void finish_unit(PLACE *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (PLACE::CELL == k)                                                                \
        name(at);
    CELLS_backward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The word that holds the element, on its way to where read_narrow or read_real look for it. */
template <class TYPE>
CELL_WORD void fetch_field(const struct place *at, int field, const void *base, int64_t element)
{
    const uintptr_t address = (uintptr_t)((const TYPE *)base + element);
    if (at->call->fields >> field & 1)
        copy_later(fetched(at, field), (const void *)(address & ~(uintptr_t)3));
}

/* What the step reads of a pair. */
template <int CELL> CELL_WORD void fetch(const struct place_of<CELL> *at)
{
    enum { SAVES = numbers<CELL>::saves, STATES = numbers<CELL>::states };
    char *const dy = base_of(at, AT_DY);
    if (!at->call->even || at->step >= at->job->steps)
        return;
#pragma unroll
    for (int i = 0; i < SAVES; i++)
        fetch_field<narrow>(at, i, base_of(at, AT_SAVE), saved_at(at, i));
#pragma unroll
    for (int s = 0; s < STATES; s++) {
        fetch_field<narrow>(at, SAVES + s, base_of(at, AT_STATE + s), state_at(at, s));
        fetch_field<narrow>(at, SAVES + STATES + s, base_of(at, AT_NEXT + s), next_at(at, s));
    }
    if (dy && at->call->wide_dy)
        fetch_field<real>(at, SAVES + 2 * STATES, dy, dy_at(at));
    else if (dy)
        fetch_field<narrow>(at, SAVES + 2 * STATES, dy, dy_at(at));
}

/* After the last step: gradients of the states before it. */
WORD void end(struct place *at)
{
    const struct eco_resident_call *call = at->call;
    for (int s = 0; s < call->n_states; s++)
        ((real *)at->job->carry[s])[(int64_t)at->row * call->carry_row[s] + at->unit] =
            *floats(carry_at(at->memory, s) + at->pair) + (s == 0 ? at->dstate : 0);
}

/* Calls what(at) for every pair of this thread that exists. */
template <int CELL, class WHAT>
CELL_WORD void for_pairs(struct place_of<CELL> *at, const struct share *share, WHAT what)
{
    at->unit = share->unit0 + unit_of_thread(at->call);
    for (int pair = (int)threadIdx.x; pair < at->memory->pairs; pair += THREADS) {
        at->pair = pair;
        at->n = pair >> at->call->shape.unit_shift;
        at->row = share->row0 + at->n;
        if (at->n < share->rows && at->unit < at->call->hidden)
            what(at);
    }
}

template <int CELL, int SHIFT>
static __global__ void __launch_bounds__(THREADS, 1)
    resident_backward(const __grid_constant__ struct eco_resident_call call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    enum { ACROSS = division<1, SHIFT>::across };
    const struct share share = share_of(&call);
    const struct memory memory = memory_of(&call);
    const struct eco_resident_job *job = &call.job[share.job];
    struct mine mine = mine_of(&call, &share, &memory);
    struct walker walker = walker_of(&call, &share);
    struct fragment r[ITEMS][TILES];
    struct patience patience = {0, 0};
    struct place_of<CELL> at;
    at.call = &call;
    at.job = job;
    at.memory = &memory;
    read_fragments(&call, &share, r);
    for (int i = (int)threadIdx.x; i < memory.sums / 4 - memory.operand; i += THREADS)
        shared[memory.operand + i] = make_uint4(0, 0, 0, 0); /* what comes after the last step */
    for_pairs(&at, &share, [&](struct place_of<CELL> *p) {
        for (int s = 0; s < call.n_states; s++)
            *floats(carry_at(&memory, s) + p->pair) =
                ((const real *)job->carry[s])[(int64_t)p->row * call.carry_row[s] + p->unit];
    });
    tell(&walker, 0);
    __syncthreads();
    for (int step = 0; step <= job->steps; step++) {
        const auto read_ahead = [&] {
            const uint32_t last = step == job->steps - 1 ? UINT32_MAX : 0;
            at.step = step;
            at.zeros = last & job->zeros;
#pragma unroll
            for (int s = 0; s < numbers<CELL>::states; s++)
                at.rows[s] = last & job->begins & 1u << s ? call.hidden : (int)call.state_row[s];
            for_pairs(&at, &share, [&](struct place_of<CELL> *p) { fetch(p); });
        };
        if (step > 0)
            gather(&call, &share, &memory, &patience, &mine, read_ahead);
        else
            read_ahead();
        __syncthreads();
        tell(&walker, step + 1);
        multiply(&call, &share, &memory, &mine, r);
        wait_for_copies();
        __syncthreads();
        for_pairs(&at, &share, [&](struct place_of<CELL> *p) {
            const int sums = mine.pair_sums + (p->n - mine.n) * memory.sum_row;
            p->dstate = sum_of<ACROSS>(&call, &memory, sums, 0);
            p->sent = mine.sent;
            if (step == job->steps)
                end(p);
            else if (call.lengths && job->t + step * job->t_step >= call.lengths[p->row])
                mask(p);
            else
                finish_unit(p);
            if (step < job->steps)
                send_padding(&call, &mine, p->n);
        });
        advance(&call, &memory, &mine, step);
    }
#endif
}
#define RESIDENT_KERNEL resident_backward
