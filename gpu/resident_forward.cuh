/*
 * The forward kernel of algorithm resident.  A step: gather the output state of all units from the
 * other blocks of the group; multiply it by this block's rows of R; finish its units in the cell's
 * own text; send them to the others.  Blocks meet nowhere: every word that is exchanged is written
 * once and says itself that it is there.
 *
 * A warp spends more time on finding out where things are than on multiplying, unless that is known
 * before the first step: hence `mine` and `written`.
 */
#define RESIDENT_BACKWARD 0
#include "gpu/resident.cuh"
#include "gpu/resident_operand.cuh"

#include "gpu/resident_gather.cuh"
#include "gpu/resident_product.cuh"

#include "gpu/resident_initial.cuh"

/* In shared memory: [accs, pairs], then [2, states, pairs], of this step and of the next in turn;
 * then biases, [accs, units]. */
WORD int acc_at(const struct memory *memory, int i)
{
    return memory->rest + i * memory->pairs;
}

template <class CELL, class CUT> CELL_WORD int bias_at(const struct memory *memory, int i, int u)
{
    return acc_at(memory, CELL::accs + 2 * CELL::states) + (i << CUT::shift) + u;
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
static __shared__ char *written[2][ARRAYS]; /* of steps in turn, where blocks meet once in each */

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
        writer.step = job->next_step[s] * (int64_t)sizeof(narrow);
    } else if (k < ARRAYS && s < call->n_states) {
        const int64_t bytes = (int64_t)(s == 0 ? sizeof(narrow) : sizeof(real));
        writer.last_only = !(job->kept_states >> s & 1);
        writer.at = (char *)job->next[s];
        writer.step = writer.last_only ? 0 : job->next_step[s] * bytes;
    }
    return writer;
}

WORD void tell(struct writer *writer, int turn, bool last)
{
    if (threadIdx.x < ARRAYS) {
        written[turn][threadIdx.x] = last || !writer->last_only ? writer->at : NULL;
        if (writer->at)
            writer->at += writer->step;
    }
}

/* ---- the words of a cell --------------------------------------------------------------------- */

/* One unit of one row: all that its text reads and writes is in registers, so that units do not
 * wait for each other. */
struct place {
    const struct eco_resident_call *call;
    const struct eco_resident_job *job;
    int row, unit; /* in all */
    int step, turn;
};

template <class CELL> struct place_of : place {
    float acc[CELL::accs], state[CELL::states], next[CELL::states],
        save[CELL::saves > 0 ? CELL::saves : 1];
};

template <class PLACE> CELL_WORD vec load_acc(PLACE *at, int i)
{
    return at->acc[i];
}
template <class PLACE> CELL_WORD vec load_state(PLACE *at, int s)
{
    return at->state[s];
}
template <class PLACE> CELL_WORD void store_save(PLACE *at, int i, vec v)
{
    at->save[i] = v;
}
template <class PLACE> CELL_WORD void store_next(PLACE *at, int s, vec v)
{
    at->next[s] = v;
}

#define CELL_TEMPLATE "gpu/nothing.cuh"
#include "gpu/cells.inc"
CELLS_RESIDENT(CELLS_STRUCT)

template <int NUMBER> CELL_WORD void finish_unit(struct place_of<numbers<NUMBER>> *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k)                                                                     \
        name(at);
    CELLS_forward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* ---- what a step writes outside the chip ----------------------------------------------------- */

/* Predicates, no branches but where all threads agree: every one of them would be waited for. */

/* Does the text of the step, or the stage of it, store a saved value? */
template <class CELL> CELL_WORD bool stores(const struct place_of<CELL> *at, int i)
{
    return true;
}

template <class PLACE>
CELL_WORD void write_saves(const PLACE *at, int saves, bool there, bool masked)
{
    char *const save = written[at->turn][TO_SAVE];
    narrow *to = (narrow *)save + element_at(at->row, at->call->save_row, at->unit);
#pragma unroll
    for (int i = 0; i < saves; i++) {
        write_row(there && !masked && save && stores(at, i), to, to_narrow(at->save[i]));
        to += at->call->hidden;
    }
}

template <class CELL, class PLACE>
CELL_WORD void write_pair(const PLACE *at, bool there, bool masked)
{
    const struct eco_resident_call *call = at->call;
    char *const y = written[at->turn][TO_Y];
    const narrow h = to_narrow(at->next[0]);
    write_row(there && y, (narrow *)y + element_at(at->row, call->y_row, at->unit),
              masked ? to_narrow(0) : h);
    if (call->training) {
        write_saves(at, CELL::saves, there, masked);
#pragma unroll
        for (int s = 1; s < CELL::states; s++) {
            char *const kept = written[at->turn][TO_KEPT + s];
            write_row(there && kept,
                      (narrow *)kept + element_at(at->row, call->state_row[s], at->unit),
                      to_narrow(at->next[s]));
        }
    }
    if (at->job->kept_states != 0 || at->step == at->job->steps - 1)
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            char *const base = written[at->turn][TO_STATE + s];
            const uint32_t where = element_at(at->row, call->state_row[s], at->unit);
            if (s == 0)
                write_row(there && base, (narrow *)base + where, h);
            else
                write_word_if(there && base, (real *)base + where, __float_as_uint(at->next[s]));
        }
}

#include "gpu/resident_accs.cuh"

/* ---- a step ---------------------------------------------------------------------------------- */

/* Of row n, what product `o` gathers. */
template <class BUNDLE>
CELL_WORD void send(const struct eco_resident_call *call, const struct memory *memory,
                    const struct mine *mine, int o, int n, bool there, float value)
{
#if defined(ECO_SCALED)
    const float scale = tell_power<BUNDLE>(call, memory, o, mine->sent, n, mine->unit, there,
                                           larger_size(0, value));
    const operand_bits bits = to_operand(scale * value);
#else
    const operand_bits bits = to_operand(scaled(&mine->scales, value));
#endif
    write_shared_by_all_if(there, mine->sent + mine->sent_unit + row_at(n), bits);
}

/* What a pair of this thread in batch row n, some rounds of all threads on, has; with what products
 * add, or before. */
template <class CELL, class CUT>
CELL_WORD void read_place(const struct eco_resident_call *call, const struct share *share,
                          const struct memory *memory, const struct mine *mine, int step, int n,
                          int round, struct place_of<CELL> *at)
{
    const int acc = acc_at(memory, 0) + (int)threadIdx.x + round * THREADS;
    const int state = acc + (CELL::accs + (step & 1) * CELL::states) * memory->pairs;
    const int sums = sums_at<CUT>(memory, mine, step, n);
    at->call = call;
    at->job = &call->job[share->job];
    at->step = step;
    at->turn = CUT::direct ? step & 1 : 0;
    at->unit = mine->unit;
    at->row = share->row0 + n;
#pragma unroll
    for (int i = 0; i < CELL::accs; i++) {
        const float wx = *floats(acc + i * memory->pairs);
        at->acc[i] = *floats(bias_at<CELL, CUT>(memory, i, mine->unit - share->unit0)) +
                     (call->inputs >> i & 1 ? wx : 0);
        if (!CUT::reads_early && CELL::row(i) >= 0)
            at->acc[i] += sum_of<CUT>(memory, sums, CELL::row(i));
    }
#pragma unroll
    for (int s = 0; s < CELL::states; s++)
        at->state[s] = *floats(state + s * memory->pairs);
}

/* `P` of them, from batch row n on, side by side; what does not exist is calculated like the
 * others, and written nowhere. */
template <class CELL, class CUT, int P>
CELL_WORD void finish_places(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine, int step, int n,
                             int round, struct place_of<CELL> at[P])
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int next = acc_at(memory, CELL::accs + (~step & 1) * CELL::states) + (int)threadIdx.x +
                     round * THREADS;
    const int t = job->t + step * job->t_step;
    bool there[P], masked[P];
#pragma unroll
    for (int p = 0; p < P; p++) {
        there[p] = n + p * CUT::pair_rows < mine->rows;
        const int sums = sums_at<CUT>(memory, mine, step, n + p * CUT::pair_rows);
        masked[p] = there[p] && call->lengths && t >= call->lengths[at[p].row];
#pragma unroll
        for (int i = 0; i < CELL::accs; i++)
            if (CUT::reads_early && CELL::row(i) >= 0)
                at[p].acc[i] += sum_of<CUT>(memory, sums, CELL::row(i));
    }
#pragma unroll
    for (int p = 0; p < P; p++) {
        finish_unit(&at[p]);
        /* The output state is an operand, hence of the type of rows; others are kept as sums. */
        at[p].next[0] = as_kept(at[p].next[0]);
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            at[p].next[s] = masked[p] ? at[p].state[s] : at[p].next[s];
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename CUT::bundle>(call, memory, mine, 0, n + p * CUT::pair_rows, there[p],
                                   at[p].next[0]);
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            *floats(next + s * memory->pairs + p * THREADS) = at[p].next[s];
        write_pair<CELL>(&at[p], there[p], masked[p]);
    }
}

template <class CELL, class CUT>
CELL_WORD void read_biases(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory)
{
    for (int i = (int)threadIdx.x; i < CELL::accs << CUT::shift; i += THREADS) {
        const int a = i >> CUT::shift, u = i & ((1 << CUT::shift) - 1), unit = share->unit0 + u;
        const real *const vectors = (const real *)call->job[share->job].vector;
        *floats(bias_at<CELL, CUT>(memory, a, u)) =
            call->bias[a] >= 0 && unit < call->hidden
                ? vectors[(int64_t)call->bias[a] * call->hidden + unit]
                : 0;
    }
}

template <class CELL, class CUT>
CELL_WORD void read_states(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory, const struct mine *mine)
{
    const struct eco_resident_job *job = &call->job[share->job];
    int to = acc_at(memory, CELL::accs) + (int)threadIdx.x;
    for (int n = mine->n; n < mine->rows; n += CUT::pair_rows, to += THREADS) {
        float state[CELL::states]; /* all asked for before one is waited for */
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            const uint32_t where = element_at(share->row0 + n, call->state_row[s], mine->unit);
            state[s] = job->starts ? given_at(call, job, s, share->row0 + n, mine->unit)
                       : s > 0     ? ((const real *)job->state[s])[where]
                                   : to_real(((const narrow *)job->state[0])[where]);
        }
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * memory->pairs) = state[s];
    }
}

template <int NUMBER, int SHIFT, int SPREAD, int FORM>
CELL_WORD void all_steps(const struct eco_resident_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    typedef numbers<NUMBER> cell;
    typedef division<cell::first, SHIFT, SPREAD, FORM, 1> cut;
    const struct share share = share_of<cut>(&call);
    const struct scales scales = scales_of_r<cut, cut>(&call, &share, &share);
    struct fragment r[cut::items][cut::wide];
    read_fragments<cut>(&call, &share, &scales, r);
    const struct memory memory = memory_of<cut>(&call, &share);
    const struct eco_resident_job *job = &call.job[share.job];
    struct mine mine = mine_of<cut>(&call, &share, &memory, sent_of<cut>(&call, &memory));
    struct writer writer = writer_of(&call, &share);
    struct patience patience = {0, 0};
    mine.scales = scales;
    read_biases<cell, cut>(&call, &share, &memory);
    clear_operand(&memory);
    wait_for_kernels_ahead(); /* none of which writes weights */
    read_states<cell, cut>(&call, &share, &memory, &mine);
    if (SPREAD > 0)
        open_cluster();
    else
        __syncthreads();
    begin_operands<cut>(&call, &share, &memory, &mine.scales);
    struct accs<cell, cut> accs(&call, &share, &memory);
    accs.ask(&call, &share, &memory);
    if (cut::direct)
        __syncthreads(); /* the first operands are there */
    for (int step = 0; step < job->steps; step++) {
        const bool last = step == job->steps - 1;
        const auto read = [&](int n, int round, struct place_of<cell> *at) {
            read_place<cell, cut>(&call, &share, &memory, &mine, step, n, round, at);
        };
        struct place_of<cell> first[1];
        if constexpr (cut::direct) {
            tell(&writer, step & 1, last);
            const auto ask = [&] {
                if (step > 0)
                    accs.ask(&call, &share, &memory);
            };
            gather_and_multiply<cut>(&call, &share, &memory, &patience, &mine, r, step, ask, [&] {
                if (cut::reads_early)
                    read(mine.n, 0, first);
            });
        } else {
            /* Accumulators come while the exchange is waited for; where products take long, while
             * these run: what is asked for first comes first. */
            if (step > 0)
                gather<cut>(&call, &share, &memory, &patience, &mine, [&] {
                    if (memory.row_tiles == 1)
                        accs.ask(&call, &share, &memory);
                });
            show_pieces<cut>();
            __syncthreads();
            if (step > 0 && memory.row_tiles > 1)
                accs.ask(&call, &share, &memory);
            tell(&writer, 0, last);
            multiply<cut>(&call, &share, &memory, &mine, r, step);
        }
        if constexpr (cut::reads_early)
            finish_places<cell, cut, 1>(&call, &share, &memory, &mine, step, mine.n, 0, first);
        else
            for_pairs<cut>(&memory, &mine, [&](auto pairs, int n, int round) {
                enum { P = decltype(pairs)::value };
                struct place_of<cell> at[P];
#pragma unroll
                for (int p = 0; p < P; p++)
                    read(n + p * cut::pair_rows, round + p, &at[p]);
                finish_places<cell, cut, P>(&call, &share, &memory, &mine, step, n, round, at);
            });
        advance<cut>(&call, &memory, &mine, step);
    }
#endif
}
#include "gpu/resident_forward_two.cuh"

#include "gpu/resident_list.cuh"
