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

/* In shared memory: [accs, pairs], then [2, states, pairs], of this step and of the next in turn.
 */
WORD int acc_at(const struct memory *memory, int i)
{
    return memory->rest + i * memory->pairs;
}

/* ---- where a step writes --------------------------------------------------------------------- */

/* Arrays that a step writes outside the chip.  One thread to each knows where the step at hand
 * begins and tells the others; NULL: nothing is written there. */
enum {
    TO_Y,
    TO_SAVE,
    TO_STATE,
    TO_KEPT = TO_STATE + ECO_MAX_STATES,
    ARRAYS = TO_KEPT + ECO_MAX_STATES
};
static __shared__ char *written[ARRAYS];

struct writer {
    char *at;
    int64_t step; /* bytes */
    bool last_only;
};

WORD struct writer writer_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int k = (int)threadIdx.x, s = (k - TO_STATE) % ECO_MAX_STATES;
    struct writer writer = {NULL, 0, false};
    if (k == TO_Y) {
        writer.at = (char *)job->y;
        writer.step = job->y_step * (int64_t)sizeof(narrow);
    } else if (k == TO_SAVE) {
        writer.at = (char *)job->save;
        writer.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k >= TO_KEPT && k < ARRAYS && s < call->n_states) {
        writer.at = (char *)job->kept[s];
        writer.step = job->kept_step[s] * (int64_t)sizeof(narrow);
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
    const float acc = *floats(at->acc + i * m->pairs);
    return row < 0 ? acc : acc + sum_of<PLACE::ACROSS>(at->call, m, at->sums, row);
}
WORD vec load_state(struct place *at, int s)
{
    return *floats(at->state + s * at->memory->pairs);
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
    char *const base = written[TO_STATE + s], *const kept = written[TO_KEPT + s];
    const int64_t where = (int64_t)at->row * at->call->state_row[s] + at->unit;
    if (s > 0 && kept)
        ((narrow *)kept)[where] = to_narrow(v);
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
                         const struct memory *memory, const struct mine *mine, const float **acc)
{
    const int rows = THREADS >> call->shape.unit_shift;
    const float *from = *acc;
    int to = acc_at(memory, 0) + (int)threadIdx.x;
    if (mine->unit < call->hidden)
        for (int n = mine->n; n < share->rows; n += rows) {
#pragma unroll
            for (int a = 0; a < numbers<CELL>::accs; a++)
                copy_later(floats(to + a * memory->pairs), from + a * call->hidden);
            from += (int64_t)rows * call->acc_row;
            to += THREADS;
        }
    *acc += call->job[share->job].acc_step;
}

template <int CELL, int ACROSS>
CELL_WORD void finish(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, const struct mine *mine, int step)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int rows = THREADS >> call->shape.unit_shift;
    const int states = acc_at(memory, numbers<CELL>::accs),
              other = numbers<CELL>::states * memory->pairs;
    struct place_of<CELL, ACROSS> at;
    at.call = call;
    at.job = job;
    at.memory = memory;
    at.step = step;
    at.unit = mine->unit;
    at.acc = acc_at(memory, 0) + (int)threadIdx.x;
    at.sums = mine->pair_sums;
    at.state = states + (step & 1) * other + (int)threadIdx.x;
    at.next = states + (~step & 1) * other + (int)threadIdx.x;
    for (int n = mine->n; n < share->rows && at.unit < call->hidden; n += rows) {
        at.row = share->row0 + n;
        at.sent = mine->sent + exchanged_at(call, (unsigned)n, (unsigned)at.unit);
        if (call->lengths && job->t + step * job->t_step >= call->lengths[at.row])
            mask(&at);
        else
            finish_unit(&at);
        send_padding(call, mine, n);
        at.acc += THREADS;
        at.state += THREADS;
        at.next += THREADS;
        at.sums += rows * memory->sum_row;
    }
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
            *floats(acc_at(memory, call->n_accs + s) + pair) =
                s > 0 ? ((const real *)job->state[s])[where]
                      : to_real(((const narrow *)job->state[0])[where]);
        }
    }
}

template <int CELL, int SHIFT>
static __global__ void __launch_bounds__(THREADS, 1)
    resident_forward(const __grid_constant__ struct eco_resident_call call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    const struct share share = share_of(&call);
    const struct memory memory = memory_of(&call);
    const struct eco_resident_job *job = &call.job[share.job];
    struct mine mine = mine_of(&call, &share, &memory);
    struct writer writer = writer_of(&call, &share);
    struct fragment r[ITEMS][TILES];
    struct patience patience = {0, 0};
    const float *acc =
        (const float *)job->acc + (int64_t)(share.row0 + mine.n) * call.acc_row + mine.unit;
    read_fragments(&call, &share, r);
    read_states(&call, &share, &memory);
    for (int step = 0; step < job->steps; step++) {
        if (step > 0) {
            gather(&call, &share, &memory, &patience, &mine,
                   [&] { fetch_acc<CELL>(&call, &share, &memory, &mine, &acc); });
        } else {
            gather_initial(&call, &share, &memory);
            fetch_acc<CELL>(&call, &share, &memory, &mine, &acc);
        }
        __syncthreads();
        tell(&writer, step == job->steps - 1);
        multiply(&call, &share, &memory, &mine, r);
        wait_for_copies();
        __syncthreads();
        finish<CELL, division<numbers<CELL>::products, SHIFT>::across>(&call, &share, &memory,
                                                                       &mine, step);
        advance(&call, &memory, &mine, step);
    }
#endif
}
#define RESIDENT_KERNEL resident_forward
