/*
 * The backward kernel of algorithm resident.  A step, back in time: add up what the blocks of the
 * group sent for this block's units, R^T dacc in parts; the cell's own text; multiply dacc of this
 * block's units by their rows of R, for the units of all blocks; send the parts to their owners.
 * What is multiplied is at hand, so one exchange a step is waited for, as forward.
 *
 * A part is a float whose last bit is the phase: which of two rounds through a ring of two steps it
 * belongs to.  A block sends step i + 2 only after all others sent it theirs of step i + 1, that
 * is, after they read step i: nobody overwrites what is still wanted.
 */
#include "gpu/resident.cuh"

enum { ROUND = 2 /* steps in the ring */ };

/* ---- shared memory --------------------------------------------------------------------------- */

/* Where the arrays begin, in floats or in groups of four; as eco_resident_shape counts them. */
struct memory {
    int operand; /* [2, tiles of 8 rows, items, lanes] uint4: dacc; before it kept fragments */
    int carry;   /* [states, pairs] */
    int fetched; /* [fields, pairs]: words that hold what the next step reads */
    int parts;   /* [shares, pairs] */
    int pairs, row_tiles;
};

WORD struct memory memory_of(const struct eco_resident_call *call)
{
    const struct eco_resident_shape *shape = &call->shape;
    struct memory m;
    m.row_tiles = (shape->group_rows + ECO_RESIDENT_N - 1) / ECO_RESIDENT_N;
    m.pairs = shape->group_rows << shape->unit_shift;
    m.operand = WARPS * shape->kept * shape->items * LANES * 2;
    m.carry = (m.operand + 2 * m.row_tiles * shape->items * LANES) * 4;
    m.fetched = m.carry + call->n_states * m.pairs;
    m.parts = m.fetched + call->n_fields * m.pairs;
    return m;
}

/* A fragment that this warp keeps here. */
WORD struct fragment *kept_fragment(const struct eco_resident_call *call, const struct share *share,
                                    int tile, int item)
{
    return (struct fragment *)shared +
           ((share->warp * call->shape.kept + tile) * call->shape.items + item) * LANES +
           share->lane;
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
};

WORD struct walker walker_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int k = (int)threadIdx.x, s = (k - AT_STATE) % ECO_MAX_STATES;
    struct walker walker = {NULL, 0};
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
        walker.step = job->next_step[s] * (int64_t)(s == 0 ? sizeof(narrow) : sizeof(real));
    }
    return walker;
}

WORD void tell(struct walker *walker, int step)
{
    if (threadIdx.x < ARRAYS) {
        bases[step & 1][threadIdx.x] = walker->at;
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
    float sent; /* R^T dacc of the step after */
    operand_bits *operand;
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
    return floats(at->memory->fetched + field * at->memory->pairs + at->pair);
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
WORD int64_t state_at(const struct place *at, int s)
{
    return (int64_t)at->row * at->call->state_row[s] + at->unit;
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
    return s > 0 ? read_real(at, field, base_of(at, AT_STATE + s), state_at(at, s))
                 : read_narrow(at, field, base_of(at, AT_STATE), state_at(at, 0));
}
template <class PLACE> CELL_WORD vec load_next(PLACE *at, int s)
{
    const int field = numbers<PLACE::CELL>::saves + numbers<PLACE::CELL>::states + s;
    return s > 0 ? read_real(at, field, base_of(at, AT_NEXT + s), state_at(at, s))
                 : read_narrow(at, field, base_of(at, AT_NEXT), state_at(at, 0));
}
WORD vec load_vector(struct place *at, int k)
{
    return ((const real *)at->job->vector)[(int64_t)k * at->call->hidden + at->unit];
}
template <class PLACE> CELL_WORD vec load_dnext(PLACE *at, int s)
{
    const int field = numbers<PLACE::CELL>::saves + 2 * numbers<PLACE::CELL>::states;
    const vec carry = *floats(at->memory->carry + s * at->memory->pairs + at->pair);
    char *const dy = base_of(at, AT_DY);
    if (s > 0 || !dy)
        return s > 0 ? carry : carry + at->sent;
    return carry + at->sent +
           (at->call->wide_dy ? read_real(at, field, dy, dy_at(at))
                              : read_narrow(at, field, dy, dy_at(at)));
}

template <class PLACE> CELL_WORD void store_dacc(PLACE *at, int a, vec v)
{
    const struct eco_resident_call *call = at->call;
    const narrow rounded = to_narrow(v);
    const int row = numbers<PLACE::CELL>::row(a), shift = call->shape.unit_shift;
    if (row >= 0) {
        const unsigned k = (unsigned)(row << shift) + ((unsigned)at->unit & ((1u << shift) - 1));
        at->operand[(k / ECO_RESIDENT_K * LANES + k % ECO_RESIDENT_K / 8) * 8 + k % 8] =
            to_operand(to_real(rounded));
    }
    ((narrow *)base_of(
        at, AT_DACC))[(int64_t)at->row * call->acc_row + (a * call->hidden + at->unit)] = rounded;
}
WORD void store_dstate(struct place *at, int s, vec v)
{
    *floats(at->memory->carry + s * at->memory->pairs + at->pair) = v;
}

WORD vec v_bernoulli(struct place *at, int which, double probability)
{
    const struct eco_resident_call *call = at->call;
    const struct eco_coordinates where = {call->seed,
                                          at->job->layer,
                                          at->job->direction,
                                          1u + which,
                                          (uint32_t)(at->job->t + at->step * at->job->t_step),
                                          (uint32_t)at->row};
    return draw(&where, (uint32_t)at->unit, probability);
}

#define CELL_TEMPLATE "gpu/nothing.cuh"
#include "gpu/cells.inc"
CELLS_ONE_PRODUCT(CELLS_STRUCT)

template <class PLACE> CELL_WORD void mask(PLACE *at)
{
    for (int a = 0; a < at->call->n_accs; a++)
        store_dacc(at, a, 0);
    *floats(at->memory->carry + at->pair) += at->sent;
}

template <class PLACE> CELL_WORD void finish_unit(PLACE *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (PLACE::CELL == k)                                                                \
        name(at);
    CELLS_backward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* ---- R --------------------------------------------------------------------------------------- */

/* Tile `tile` (16 of all units) by item `item` (32 of this block's rows of R), transposed. */
static __device__ __noinline__ struct fragment
read_fragment(const struct eco_resident_call *call, const struct share *share, int tile, int item)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int units = 1 << shape->unit_shift;
    const int k = item * ECO_RESIDENT_K + share->lane % 4 * 8, acc = k >> shape->unit_shift;
    uint4 half[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int to = (tile * WARPS + share->warp) * ECO_RESIDENT_M + share->lane / 4 + i * 8;
        operand_bits bits[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int unit = share->unit0 + ((k + j) & (units - 1));
            const bool there = to < call->hidden && unit < call->hidden && acc < call->n_recurrent;
            const narrow *at = (const narrow *)call->job[share->job].recurrent +
                               ((int64_t)acc * call->hidden + unit) * call->hidden + to;
            bits[j] = there ? to_operand(to_real(*at)) : (operand_bits)0;
        }
        half[i] = make_uint4(pair_of(bits[0], bits[1]), pair_of(bits[2], bits[3]),
                             pair_of(bits[4], bits[5]), pair_of(bits[6], bits[7]));
    }
    struct fragment fragment = {half[0], half[1]};
    return fragment;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* The parts of this block's group in a step: [to, from, rows, units] of [round, groups]. */
WORD float *parts_of(const struct eco_resident_call *call, const struct share *share,
                     const struct memory *memory, int step)
{
    const int64_t group = (int64_t)call->shape.members * call->shape.members * memory->pairs;
    return (float *)call->job[share->job].exchange +
           ((int64_t)(step % ROUND) * call->shape.groups + share->group) * group;
}

WORD unsigned phase_of(int step)
{
    return step / ROUND & 1;
}

/* The sum of the parts for a pair from senders [from, end), in their order. */
WORD float read_parts(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct patience *patience, int step, int pair,
                      int from, int end)
{
    enum { AT_ONCE = 16 };
    const unsigned phase = phase_of(step);
    const float *base = parts_of(call, share, memory, step) +
                        ((int64_t)share->member * call->shape.members + from) * memory->pairs +
                        pair;
    float sum = 0;
    for (; from < end; from += AT_ONCE) {
        unsigned v[AT_ONCE];
        for (;;) {
            bool all = true;
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (from + i < end)
                    v[i] = read_word_shared_by_all(base + i * memory->pairs);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                all &= from + i >= end || (v[i] & 1) == phase;
            if (all)
                break;
            if (!wait_more(patience, call))
                return __uint_as_float(0x7FFFFFFF);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (from + i < end)
                sum += __uint_as_float(v[i]);
        base += AT_ONCE * memory->pairs;
    }
    return sum;
}

/* Threads that share a pair's parts: as many as there are for each, a power of two. */
WORD int shares_of(const struct memory *memory)
{
    int shares = 1;
    while (2 * shares * memory->pairs <= THREADS && shares < 16)
        shares *= 2;
    return shares;
}

/* Where several threads share a pair's parts: their sums, to shared memory. */
WORD void gather_shared(const struct eco_resident_call *call, const struct share *share,
                        const struct memory *memory, struct patience *patience, int step,
                        int shares)
{
    const int pair = (int)threadIdx.x % memory->pairs, which = (int)threadIdx.x / memory->pairs;
    const int each = (call->shape.members + shares - 1) / shares, end = (which + 1) * each;
    if (which < shares && pair >> call->shape.unit_shift < share->rows)
        *floats(memory->parts + which * memory->pairs + pair) =
            read_parts(call, share, memory, patience, step, pair, which * each,
                       end < call->shape.members ? end : call->shape.members);
    __syncthreads();
}

WORD float sum_of(const struct eco_resident_call *call, const struct share *share,
                  const struct memory *memory, struct patience *patience, int step, int pair,
                  int shares)
{
    float sum = 0;
    if (step < 0)
        return 0;
    if (shares == 1)
        return read_parts(call, share, memory, patience, step, pair, 0, call->shape.members);
    for (int i = 0; i < shares; i++)
        sum += *floats(memory->parts + i * memory->pairs + pair);
    return sum;
}

/* Where this lane's parts go: a warp's tiles are 128 units apart, which is whole blocks. */
struct route {
    int64_t first; /* of tile 0, in a step */
    int tile;      /* from a tile to the next */
    int eight;     /* from a unit to the eighth after it */
    int tiles;     /* of this warp, */
    int low, high; /* of them with a unit that exists: of the first eight, of the others */
};

WORD struct route route_of(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory)
{
    const int shift = call->shape.unit_shift, unit = share->warp * ECO_RESIDENT_M + share->lane / 4;
    const int block = call->shape.members * memory->pairs;
    struct route route;
    route.first = (int64_t)(unit >> shift) * block + share->member * memory->pairs +
                  (share->lane % 4 * 2 << shift) + (unit & ((1 << shift) - 1));
    route.tile = (WARPS * ECO_RESIDENT_M >> shift) * block;
    route.eight = shift > 3 ? 8 : block;
    route.tiles = (call->shape.k / ECO_RESIDENT_M - share->warp + WARPS - 1) / WARPS;
    route.low = route.high = 0;
    for (int t = 0; t < route.tiles; t++) {
        const int tile = t * WARPS * ECO_RESIDENT_M;
        route.low += (unit + tile) >> shift < call->shape.members;
        route.high += (unit + tile + 8) >> shift < call->shape.members;
    }
    return route;
}

WORD void send_part(float *to, float sum, unsigned phase)
{
    write_word_shared_by_all(to, (__float_as_uint(sum) & ~1u) | phase);
}

/* The parts of tile `t` of units and two batch rows. */
WORD void send_parts(const struct route *route, float *to, int t, int units, int rows,
                     unsigned phase, const float even[4], const float odd[4])
{
    if (rows > 0 && t < route->low)
        send_part(to, even[0] + odd[0], phase);
    if (rows > 0 && t < route->high)
        send_part(to + route->eight, even[2] + odd[2], phase);
    if (rows > 1 && t < route->low)
        send_part(to + units, even[1] + odd[1], phase);
    if (rows > 1 && t < route->high)
        send_part(to + units + route->eight, even[3] + odd[3], phase);
}

/* ---- a step ---------------------------------------------------------------------------------- */

template <int HELD, int K_ITEMS>
CELL_WORD void multiply(const struct eco_resident_call *call, const struct share *share,
                        const struct memory *memory, const struct route *route,
                        const struct fragment r[HELD][K_ITEMS], int step)
{
    const int units = 1 << call->shape.unit_shift;
    const unsigned phase = phase_of(step);
    float *const first = parts_of(call, share, memory, step) + route->first;
    for (int row_tile = 0; row_tile < memory->row_tiles; row_tile++) {
        const uint4 *b = shared + memory->operand +
                         ((step & 1) * memory->row_tiles + row_tile) * K_ITEMS * LANES +
                         share->lane;
        const int rows = share->rows - row_tile * ECO_RESIDENT_N - share->lane % 4 * 2;
        float *to = first + row_tile * ECO_RESIDENT_N * units;
        uint4 v[K_ITEMS];
#pragma unroll
        for (int k = 0; k < K_ITEMS; k++)
            v[k] = b[k * LANES];
#pragma unroll
        for (int t = 0; t < HELD; t++) {
            if (t >= route->tiles)
                break;
            float even[4] = {}, odd[4] = {};
#pragma unroll
            for (int k = 0; k < K_ITEMS; k++)
                multiply_item(even, odd, &r[t][k], v[k]);
            send_parts(route, to, t, units, rows, phase, even, odd);
            to += route->tile;
        }
#pragma unroll 1
        for (int t = 0; t < route->tiles - HELD; t++) {
            float even[4] = {}, odd[4] = {};
#pragma unroll
            for (int k = 0; k < K_ITEMS; k++) {
                const struct fragment kept = *kept_fragment(call, share, t, k);
                multiply_item(even, odd, &kept, v[k]);
            }
            send_parts(route, to, HELD + t, units, rows, phase, even, odd);
            to += route->tile;
        }
    }
}

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
    fetch_field<narrow>(at, SAVES, base_of(at, AT_STATE), state_at(at, 0));
    fetch_field<narrow>(at, SAVES + STATES, base_of(at, AT_NEXT), state_at(at, 0));
#pragma unroll
    for (int s = 1; s < STATES; s++) {
        fetch_field<real>(at, SAVES + s, base_of(at, AT_STATE + s), state_at(at, s));
        fetch_field<real>(at, SAVES + STATES + s, base_of(at, AT_NEXT + s), state_at(at, s));
    }
    if (dy && at->call->wide_dy)
        fetch_field<real>(at, SAVES + 2 * STATES, dy, dy_at(at));
    else if (dy)
        fetch_field<narrow>(at, SAVES + 2 * STATES, dy, dy_at(at));
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

/* Items of 32 rows of R, and tiles of 16 units that a warp has in registers. */
template <int CELL, int SHIFT> struct division {
    enum {
        items = ((numbers<CELL>::products << SHIFT) + ECO_RESIDENT_K - 1) / ECO_RESIDENT_K,
        held = ECO_RESIDENT_FRAGMENTS / items
    };
};

template <int CELL, int SHIFT>
static __global__ void __launch_bounds__(THREADS, 1)
    resident_backward(const __grid_constant__ struct eco_resident_call call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    enum { HELD = division<CELL, SHIFT>::held, K_ITEMS = division<CELL, SHIFT>::items };
    const struct share share = share_of(&call);
    const struct memory memory = memory_of(&call);
    const struct route route = route_of(&call, &share, &memory);
    const struct eco_resident_job *job = &call.job[share.job];
    const int shares = shares_of(&memory);
    struct walker walker = walker_of(&call, &share);
    struct fragment r[HELD][K_ITEMS];
    struct patience patience = {0, 0};
    struct place_of<CELL> at;
    at.call = &call;
    at.job = job;
    at.memory = &memory;
#pragma unroll
    for (int t = 0; t < HELD; t++)
#pragma unroll
        for (int k = 0; k < K_ITEMS; k++)
            r[t][k] = read_fragment(&call, &share, t, k);
    for (int t = 0; t < call.shape.kept; t++)
        for (int k = 0; k < K_ITEMS; k++)
            *kept_fragment(&call, &share, t, k) = read_fragment(&call, &share, HELD + t, k);
    for (int i = (int)threadIdx.x; i < 2 * memory.row_tiles * K_ITEMS * LANES; i += THREADS)
        shared[memory.operand + i] = make_uint4(0, 0, 0, 0);
    for_pairs(&at, &share, [&](struct place_of<CELL> *p) {
        for (int s = 0; s < call.n_states; s++)
            *floats(memory.carry + s * memory.pairs + p->pair) =
                ((const real *)job->carry[s])[(int64_t)p->row * call.carry_row[s] + p->unit];
    });
    tell(&walker, 0);
    __syncthreads();
    at.step = 0;
    for_pairs(&at, &share, [&](struct place_of<CELL> *p) { fetch(p); });
    for (int step = 0; step < job->steps; step++) {
        if (step > 0 && shares > 1)
            gather_shared(&call, &share, &memory, &patience, step - 1, shares);
        wait_for_copies();
        for_pairs(&at, &share, [&](struct place_of<CELL> *p) {
            const unsigned n = (unsigned)p->n;
            p->sent = sum_of(&call, &share, &memory, &patience, step - 1, p->pair, shares);
            p->operand = (operand_bits *)(shared + memory.operand +
                                          ((step & 1) * memory.row_tiles + n / ECO_RESIDENT_N) *
                                              K_ITEMS * LANES) +
                         n % ECO_RESIDENT_N * 32;
            if (call.lengths && job->t + step * job->t_step >= call.lengths[p->row])
                mask(p);
            else
                finish_unit(p);
        });
        at.step = step + 1;
        tell(&walker, step + 1);
        __syncthreads();
        multiply<HELD, K_ITEMS>(&call, &share, &memory, &route, r, step);
        for_pairs(&at, &share, [&](struct place_of<CELL> *p) { fetch(p); });
    }
    if (shares > 1)
        gather_shared(&call, &share, &memory, &patience, job->steps - 1, shares);
    for_pairs(&at, &share, [&](struct place_of<CELL> *p) {
        const float sent =
            sum_of(&call, &share, &memory, &patience, job->steps - 1, p->pair, shares);
        for (int s = 0; s < call.n_states; s++)
            ((real *)job->carry[s])[(int64_t)p->row * call.carry_row[s] + p->unit] =
                *floats(memory.carry + s * memory.pairs + p->pair) + (s == 0 ? sent : 0);
    });
#endif
}
#define RESIDENT_KERNEL resident_backward
