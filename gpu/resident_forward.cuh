/*
 * The forward kernel of algorithm resident.  A step: gather the output state of all units from the
 * other blocks of the group; multiply it by this block's rows of R; finish its units in the cell's
 * own text; send them to the others.  Blocks meet nowhere: every word that is exchanged is written
 * once and says itself that it is there.
 *
 * A warp spends more time on finding out where things are than on multiplying, unless that is known
 * before the first step: hence `mine` and `written`.
 */
#include "gpu/resident.cuh"

/* ---- shared memory --------------------------------------------------------------------------- */

/* Where the arrays begin, in floats or in groups of four; as eco_resident_shape counts them. */
struct memory {
    int operand; /* [tiles of 8 rows, k / 32, lanes] uint4; before it kept fragments of R */
    int sums;    /* [across, rows, sum_row] */
    int acc;     /* [accs, pairs] */
    int state;   /* [2, states, pairs]: of this step and of the next, in turn */
    int pairs, sum_row, sum_across, row_tiles;
};

WORD struct memory memory_of(const struct eco_resident_call *call)
{
    const struct eco_resident_shape *shape = &call->shape;
    struct memory m;
    m.row_tiles = (shape->group_rows + ECO_RESIDENT_N - 1) / ECO_RESIDENT_N;
    m.pairs = shape->group_rows << shape->unit_shift;
    m.sum_row = ECO_RESIDENT_SUM_ROW(shape->tiles);
    m.sum_across = m.row_tiles * ECO_RESIDENT_N * m.sum_row;
    m.operand = WARPS * shape->kept * TILES * LANES * 2;
    m.sums = (m.operand + m.row_tiles * (shape->k / ECO_RESIDENT_K) * LANES) * 4;
    m.acc = m.sums + shape->across * m.sum_across;
    m.state = m.acc + call->n_accs * m.pairs;
    return m;
}

/* A fragment that this warp keeps here. */
WORD struct fragment *kept_fragment(const struct eco_resident_call *call, const struct share *share,
                                    int item, int tile)
{
    return (struct fragment *)shared +
           ((share->warp * call->shape.kept + item - ITEMS) * TILES + tile) * LANES + share->lane;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Pieces are exchanged as they lie in shared memory: [steps, groups, rows / 8, k / 32, lanes] of 16
 * bytes. */
WORD operand_bits *exchange_of(const struct eco_resident_call *call, const struct share *share,
                               const struct memory *memory)
{
    return (operand_bits *)call->job[share->job].exchange +
           (int64_t)share->group * memory->row_tiles * ECO_RESIDENT_N * call->shape.k;
}

/* Where in a group's exchange one unit of one row lies. */
WORD int exchanged_at(const struct eco_resident_call *call, unsigned n, unsigned unit)
{
    const unsigned pieces = (unsigned)call->shape.k / ECO_RESIDENT_K;
    const unsigned piece = n / ECO_RESIDENT_N * pieces + unit / ECO_RESIDENT_K;
    const unsigned lane = n % ECO_RESIDENT_N * 4 + unit % ECO_RESIDENT_K / 8;
    return (int)((piece * LANES + lane) * 8 + unit % 8);
}

/* ---- where a step writes --------------------------------------------------------------------- */

/* Arrays that a step writes outside the chip.  One thread to each knows where the step at hand
 * begins and tells the others; NULL: nothing is written there. */
enum { TO_Y, TO_SAVE, TO_STATE, ARRAYS = TO_STATE + ECO_MAX_STATES };
static __shared__ char *written[ARRAYS];

struct writer {
    char *at;
    int64_t step; /* bytes */
    bool last_only;
};

WORD struct writer writer_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int k = (int)threadIdx.x, s = k - TO_STATE;
    struct writer writer = {NULL, 0, false};
    if (k == TO_Y) {
        writer.at = (char *)job->y;
        writer.step = job->y_step * (int64_t)sizeof(narrow);
    } else if (k == TO_SAVE) {
        writer.at = (char *)job->save;
        writer.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k < ARRAYS && s < call->n_states) {
        const int64_t bytes = (int64_t)(s == 0 ? sizeof(narrow) : sizeof(real));
        writer.last_only = !(call->kept_states >> s & 1);
        writer.at = (char *)job->next[s];
        writer.step = writer.last_only ? 0 : job->next_step[s] * bytes;
    }
    return writer;
}

WORD void tell(struct writer *writer, bool last)
{
    if (threadIdx.x < ARRAYS) {
        written[threadIdx.x] = last || !writer->last_only ? writer->at : NULL;
        if (writer->at)
            writer->at += writer->step;
    }
}

/* ---- what a thread has for all steps --------------------------------------------------------- */

/* Places of a thread's first pair, and of those of its warp's products. */
struct mine {
    int unit, n;
    int pair_sums, pair_acc; /* in shared memory */
    int items, operand, sums;
    operand_bits *sent;    /* of the step at hand */
    const uint4 *received; /* of the step before */
    const float *acc;      /* of the next step */
};

/* Kept in a register: the compiler would rather calculate it anew in every step. */
WORD int pinned(int value)
{
    asm volatile("" : "+r"(value));
    return value;
}

WORD struct mine mine_of(const struct eco_resident_call *call, const struct share *share,
                         const struct memory *memory)
{
    const struct eco_resident_shape *shape = &call->shape;
    const struct eco_resident_job *job = &call->job[share->job];
    const int pieces = shape->k / ECO_RESIDENT_K, first = share->across * shape->items;
    const int u = unit_of_thread(call);
    struct mine mine;
    mine.n = pinned((int)threadIdx.x >> shape->unit_shift);
    mine.unit = pinned(share->unit0 + u);
    mine.pair_sums = pinned(memory->sums + mine.n * memory->sum_row + u);
    mine.pair_acc = pinned(memory->acc + (int)threadIdx.x);
    mine.items = pinned(pieces - first < shape->items ? pieces - first : shape->items);
    mine.operand = pinned(memory->operand + first * LANES + share->lane);
    mine.sums = pinned(memory->sums + share->across * memory->sum_across +
                       share->lane % 4 * 2 * memory->sum_row +
                       share->down * TILES * ECO_RESIDENT_M + share->lane / 4);
    mine.received = (const uint4 *)exchange_of(call, share, memory);
    mine.sent = exchange_of(call, share, memory) +
                exchanged_at(call, (unsigned)mine.n, (unsigned)mine.unit);
    mine.acc =
        (const float *)job->acc + (int64_t)(share->row0 + mine.n) * call->acc_row + mine.unit;
    return mine;
}

/* ---- the words of a cell --------------------------------------------------------------------- */

struct place {
    const struct eco_resident_call *call;
    const struct eco_resident_job *job;
    const struct memory *memory;
    int acc, sums, state, next; /* in shared memory: where those of the pair begin */
    operand_bits *sent;
    int row, unit; /* in all */
    int step;
};

template <int CELL_, int ACROSS_> struct place_of : place {
    enum { CELL = CELL_, ACROSS = ACROSS_ };
};

template <class PLACE> CELL_WORD vec load_acc(PLACE *at, int i)
{
    const struct memory *m = at->memory;
    const int row = numbers<PLACE::CELL>::row(i);
    float sum = *floats(at->acc + i * m->pairs);
    if (row >= 0) {
        const int from = at->sums + (row << at->call->shape.unit_shift);
#pragma unroll
        for (int k = 0; k < PLACE::ACROSS; k++)
            sum += *floats(from + k * m->sum_across);
    }
    return sum;
}
WORD vec load_state(struct place *at, int s)
{
    return *floats(at->state + s * at->memory->pairs);
}
WORD vec load_vector(struct place *at, int k)
{
    return ((const real *)at->job->vector)[(int64_t)k * at->call->hidden + at->unit];
}
WORD void store_save(struct place *at, int i, vec v)
{
    char *const base = written[TO_SAVE];
    if (base)
        ((narrow *)
             base)[(int64_t)at->row * at->call->save_row + (i * at->call->hidden + at->unit)] =
            to_narrow(v);
}

/* What the other blocks see of the output state. */
WORD void send(struct place *at, vec v)
{
    write_shared_by_all(at->sent, to_operand(v));
}

/* The output state is an operand, hence of the type of rows; others are kept as sums. */
WORD void keep_state(struct place *at, int s, vec v)
{
    char *const base = written[TO_STATE + s];
    const int64_t where = (int64_t)at->row * at->call->state_row[s] + at->unit;
    *floats(at->next + s * at->memory->pairs) = s > 0 ? v : to_real(to_narrow(v));
    if (base && s > 0)
        ((real *)base)[where] = v;
    else if (base)
        ((narrow *)base)[where] = to_narrow(v);
}

WORD void store_y(struct place *at, vec v)
{
    char *const base = written[TO_Y];
    if (base)
        ((narrow *)base)[(int64_t)at->row * at->call->y_row + at->unit] = to_narrow(v);
}

WORD void store_next(struct place *at, int s, vec v)
{
    if (s == 0) {
        send(at, to_real(to_narrow(v)));
        store_y(at, v);
    }
    keep_state(at, s, v);
}

WORD vec v_bernoulli(struct place *at, int which, double probability)
{
    const struct eco_resident_call *call = at->call;
    if (!call->training)
        return (real)probability;
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
#pragma unroll
    for (int s = 0; s < numbers<PLACE::CELL>::states; s++)
        keep_state(at, s, load_state(at, s));
    send(at, load_state(at, 0));
    store_y(at, 0);
}

template <class PLACE> CELL_WORD void finish_unit(PLACE *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (PLACE::CELL == k)                                                                \
        name(at);
    CELLS_forward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* ---- R --------------------------------------------------------------------------------------- */

/* The share of this lane in item `item` of its warp, tile `tile` of its two. */
static __device__ __noinline__ struct fragment
read_fragment(const struct eco_resident_call *call, const struct share *share, int item, int tile)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int units = 1 << shape->unit_shift, rows = shape->tiles * ECO_RESIDENT_M;
    const int k = (share->across * shape->items + item) * ECO_RESIDENT_K + share->lane % 4 * 8;
    const int first = (share->down * TILES + tile) * ECO_RESIDENT_M + share->lane / 4;
    uint4 half[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = first + i * 8, unit = share->unit0 + (r & (units - 1));
        const int acc = r >> shape->unit_shift;
        const bool there = r < rows && acc < call->n_recurrent && unit < call->hidden &&
                           item < shape->items && share->across < shape->across;
        const narrow *row = (const narrow *)call->job[share->job].recurrent +
                            ((int64_t)acc * call->hidden + unit) * call->hidden;
        half[i] = operands_of(row, there ? k : call->hidden, call->hidden, call->even);
    }
    struct fragment fragment = {half[0], half[1]};
    return fragment;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The initial states, in pieces. */
WORD void gather_initial(const struct eco_resident_call *call, const struct share *share,
                         const struct memory *memory)
{
    const int pieces = call->shape.k / ECO_RESIDENT_K;
#pragma unroll 1
    for (int i = share->warp; i < memory->row_tiles * pieces; i += WARPS) {
        const int n = i / pieces * ECO_RESIDENT_N + share->lane / 4;
        const int k = i % pieces * ECO_RESIDENT_K + share->lane % 4 * 8;
        const narrow *row = (const narrow *)call->job[share->job].state[0] +
                            (int64_t)(share->row0 + n) * call->state_row[0];
        shared[memory->operand + i * LANES + share->lane] =
            operands_of(row, n < share->rows ? k : call->hidden, call->hidden, false);
    }
}

/* Accumulators of a step on their way to shared memory, each thread its own. */
template <int CELL>
CELL_WORD void fetch_acc(const struct eco_resident_call *call, const struct share *share,
                         const struct memory *memory, struct mine *mine)
{
    const int rows = THREADS >> call->shape.unit_shift;
    const float *from = mine->acc;
    int to = mine->pair_acc;
    if (mine->unit < call->hidden)
        for (int n = mine->n; n < share->rows; n += rows) {
#pragma unroll
            for (int a = 0; a < numbers<CELL>::accs; a++)
                copy_later(floats(to + a * memory->pairs), from + a * call->hidden);
            from += (int64_t)rows * call->acc_row;
            to += THREADS;
        }
    mine->acc += call->job[share->job].acc_step;
}

template <int CELL, int AT_ONCE>
CELL_WORD void gather_some(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory, struct patience *patience,
                           struct mine *mine)
{
    const int pieces = call->shape.k / ECO_RESIDENT_K, all = memory->row_tiles * pieces;
    const int full = share->rows / ECO_RESIDENT_N * pieces; /* pieces of which every row is there */
    const int limit = share->lane / 4 < share->rows % ECO_RESIDENT_N ? all : full;
#pragma unroll 1
    for (int piece = share->warp; piece < all; piece += AT_ONCE * WARPS) {
        const int at = piece * LANES + share->lane;
        unsigned wanted = 0;
        uint4 v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            wanted |= piece + i * WARPS < limit ? 1u << i : 0;
            v[i] = make_uint4(0, 0, 0, 0);
        }
        ask<AT_ONCE>(mine->received + at, wanted, v);
        if (piece == share->warp) /* what else there is to do while the answer comes */
            fetch_acc<CELL>(call, share, memory, mine);
        read_all<AT_ONCE>(call, patience, mine->received + at, wanted, v);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (piece + i * WARPS < all)
                shared[memory->operand + at + i * WARPS * LANES] = v[i];
    }
    if (share->warp >= all)
        fetch_acc<CELL>(call, share, memory, mine);
}

/* The operand of a step, from what all blocks of the group sent in the one before; meanwhile the
 * step's accumulators are sent for. */
template <int CELL>
CELL_WORD void gather(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct patience *patience, struct mine *mine)
{
    enum { FEW = 2, MANY = 4 };
    if (memory->row_tiles * (call->shape.k / ECO_RESIDENT_K) <= FEW * WARPS)
        gather_some<CELL, FEW>(call, share, memory, patience, mine);
    else
        gather_some<CELL, MANY>(call, share, memory, patience, mine);
}

/* Sums of one tile of R and 8 rows of the batch, to shared memory. */
WORD void put_sums(const struct memory *memory, int at, const float even[4], const float odd[4])
{
    *floats(at) = even[0] + odd[0];
    *floats(at + memory->sum_row) = even[1] + odd[1];
    *floats(at + 8) = even[2] + odd[2];
    *floats(at + memory->sum_row + 8) = even[3] + odd[3];
}

/* `N` tiles of 8 rows of the batch; what is read of them is fetched an item ahead. */
template <int N>
CELL_WORD void multiply_rows(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[ITEMS][TILES], int row_tile)
{
    const int pieces = call->shape.k / ECO_RESIDENT_K, items = mine->items;
    const uint4 *b = shared + mine->operand + row_tile * pieces * LANES;
    float even[N][TILES][4] = {}, odd[N][TILES][4] = {};
    uint4 v[N];
#pragma unroll
    for (int n = 0; n < N; n++)
        v[n] = b[n * pieces * LANES];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (i >= items)
            break;
#pragma unroll
        for (int n = 0; n < N; n++) {
            const uint4 here = v[n];
            v[n] = b[(n * pieces + i + 1) * LANES];
#pragma unroll
            for (int t = 0; t < TILES; t++)
                multiply_item(even[n][t], odd[n][t], &r[i][t], here);
        }
    }
#pragma unroll 1
    for (int i = ITEMS; i < items; i++) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const struct fragment kept = *kept_fragment(call, share, i, t);
#pragma unroll
            for (int n = 0; n < N; n++)
                multiply_item(even[n][t], odd[n][t], &kept, v[n]);
        }
#pragma unroll
        for (int n = 0; n < N; n++)
            v[n] = b[(n * pieces + i + 1) * LANES];
    }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            put_sums(memory,
                     mine->sums + (row_tile + n) * ECO_RESIDENT_N * memory->sum_row +
                         t * ECO_RESIDENT_M,
                     even[n][t], odd[n][t]);
}

WORD void multiply(const struct eco_resident_call *call, const struct share *share,
                   const struct memory *memory, const struct mine *mine,
                   const struct fragment r[ITEMS][TILES])
{
    int tile = 0;
    if (share->across >= call->shape.across)
        return;
    for (; tile + 1 < memory->row_tiles; tile += 2)
        multiply_rows<2>(call, share, memory, mine, r, tile);
    if (tile < memory->row_tiles)
        multiply_rows<1>(call, share, memory, mine, r, tile);
}

template <int CELL, int ACROSS>
CELL_WORD void finish(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct mine *mine, int step)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int rows = THREADS >> call->shape.unit_shift;
    const int other = numbers<CELL>::states * memory->pairs;
    struct place_of<CELL, ACROSS> at;
    at.call = call;
    at.job = job;
    at.memory = memory;
    at.step = step;
    at.unit = mine->unit;
    at.acc = mine->pair_acc;
    at.sums = mine->pair_sums;
    at.state = memory->state + (step & 1) * other + (int)threadIdx.x;
    at.next = memory->state + (~step & 1) * other + (int)threadIdx.x;
    at.sent = mine->sent;
    for (int n = mine->n; n < share->rows && at.unit < call->shape.k;) {
        at.row = share->row0 + n;
        if (at.unit >= call->hidden)
            send(&at, 0);
        else if (call->lengths && job->t + step * job->t_step >= call->lengths[at.row])
            mask(&at);
        else
            finish_unit(&at);
        n += rows;
        if (n >= share->rows)
            break;
        at.acc += THREADS;
        at.state += THREADS;
        at.next += THREADS;
        at.sums += rows * memory->sum_row;
        at.sent = mine->sent + exchanged_at(call, (unsigned)n, (unsigned)at.unit) -
                  exchanged_at(call, (unsigned)mine->n, (unsigned)at.unit);
    }
    const int64_t pieces =
        (int64_t)call->shape.groups * memory->row_tiles * (call->shape.k / ECO_RESIDENT_K) * LANES;
    mine->sent += pieces * 8;
    if (step > 0)
        mine->received += pieces;
}

WORD void read_states(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int unit = share->unit0 + unit_of_thread(call);
    for (int pair = (int)threadIdx.x; pair < memory->pairs; pair += THREADS) {
        const int n = pair >> call->shape.unit_shift;
        for (int s = 0; s < call->n_states && n < share->rows && unit < call->hidden; s++) {
            const int64_t where = (int64_t)(share->row0 + n) * call->state_row[s] + unit;
            *floats(memory->state + s * memory->pairs + pair) =
                s > 0 ? ((const real *)job->state[s])[where]
                      : to_real(((const narrow *)job->state[0])[where]);
        }
    }
}

/* Warps along k, as eco_resident_shape divides them. */
template <int CELL, int SHIFT> struct division {
    enum {
        tiles = ((numbers<CELL>::products << SHIFT) + ECO_RESIDENT_M - 1) / ECO_RESIDENT_M,
        across = WARPS / ((tiles + TILES - 1) / TILES)
    };
};

template <int CELL, int SHIFT>
static __global__ void __launch_bounds__(THREADS, 1)
    resident_forward(const __grid_constant__ struct eco_resident_call call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    const struct share share = share_of(&call);
    const struct memory memory = memory_of(&call);
    struct mine mine = mine_of(&call, &share, &memory);
    struct writer writer = writer_of(&call, &share);
    struct fragment r[ITEMS][TILES];
    struct patience patience = {0, 0};
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            r[i][t] = read_fragment(&call, &share, i, t);
    for (int i = ITEMS; i < ITEMS + call.shape.kept; i++)
        for (int t = 0; t < TILES; t++)
            *kept_fragment(&call, &share, i, t) = read_fragment(&call, &share, i, t);
    read_states(&call, &share, &memory);
    for (int step = 0, steps = call.job[share.job].steps; step < steps; step++) {
        if (step > 0) {
            gather<CELL>(&call, &share, &memory, &patience, &mine);
        } else {
            gather_initial(&call, &share, &memory);
            fetch_acc<CELL>(&call, &share, &memory, &mine);
        }
        __syncthreads();
        tell(&writer, step == steps - 1);
        multiply(&call, &share, &memory, &mine, r);
        wait_for_copies();
        __syncthreads();
        finish<CELL, division<CELL, SHIFT>::across>(&call, &share, &memory, &mine, step);
    }
#endif
}
#define RESIDENT_KERNEL resident_forward
