/*
 * The forward kernel of algorithm resident.  A step: gather the output state of all units from the
 * other blocks of the group; multiply it by this block's rows of R; finish its units in the cell's
 * own text; send them to the others.  Blocks meet nowhere: every word that is exchanged is written
 * once and says itself that it is there.
 *
 * A warp spends more time on finding out where things are than on multiplying, unless that is known
 * before the first step: hence `mine` and `written`.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_CUH
#define ECO_GPU_PERSISTENT_FORWARD_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/persistent/cell.cuh"
#include "gpu/persistent/forward_stores.cuh"
#include "gpu/persistent/initial_state.cuh"
#include "gpu/persistent/input_prefetch.cuh"
#include "gpu/persistent/mainloop_direct.cuh"
#include "gpu/persistent/product.cuh"

/* ---- the words of a cell --------------------------------------------------------------------- */

/* One unit of one row: all that its text reads and writes is in registers, so that units do not
 * wait for each other. */
struct place {
    const struct eco_resident_call *call;
    const struct eco_resident_job *job;
    int row, unit; /* in all */
    int step, turn;
    bool there, masked;
};

template <class CELL> struct place_of : place {
    float acc[CELL::accs], state[CELL::states], next[CELL::states],
        save[CELL::saves > 0 ? CELL::saves : 1];
};

template <class PLACE> ECO_DEVICE vec load_acc(PLACE *at, int i)
{
    return at->acc[i];
}
template <class PLACE> ECO_DEVICE vec load_state(PLACE *at, int s)
{
    return at->state[s];
}
template <class PLACE> ECO_DEVICE void store_save(PLACE *at, int i, vec v)
{
    at->save[i] = v;
}
template <class PLACE> ECO_DEVICE void store_next(PLACE *at, int s, vec v)
{
    at->next[s] = v;
}

template <int NUMBER> ECO_DEVICE void finish_unit(struct place_of<numbers<NUMBER>> *at)
{
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k)                                                                     \
        name(at);
    CELLS_forward_0(CELLS_CASE)
#undef CELLS_CASE
}

/* Does the text of the step, or the stage of it, store a saved value? */
template <class CELL> ECO_DEVICE bool stores(const struct place_of<CELL> *at, int i)
{
    return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Of row n, what product `o` gathers. */
template <class BUNDLE>
ECO_DEVICE void send(const struct eco_resident_call *call, const struct memory *memory,
                     const struct mine *mine, int o, int n, bool there, float value)
{
#if defined(ECO_SCALED)
    const float scale = tell_power<BUNDLE>(call, memory, o, mine->sent, n, mine->unit, there,
                                           larger_size(0, value));
    const operand_bits bits = to_operand(scale * value);
#else
    const operand_bits bits = to_operand(scaled(&mine->scales, value));
#endif
    store_relaxed_if(there, mine->sent + mine->sent_unit + row_at(n), bits);
}

/* What a pair of this thread in batch row n, some rounds of all threads on, has; with what products
 * add, or before. */
template <class CELL, class CUT>
ECO_DEVICE void read_place(const struct eco_resident_call *call, const struct share *share,
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
    at->there = n < mine->rows;
    at->masked = at->there && is_masked(call, memory, at->job, step, n);
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
ECO_DEVICE void finish_places(const struct eco_resident_call *call, const struct memory *memory,
                              const struct mine *mine, int step, int n, int round,
                              struct place_of<CELL> at[P])
{
    const int next = acc_at(memory, CELL::accs + (~step & 1) * CELL::states) + (int)threadIdx.x +
                     round * THREADS;
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int sums = sums_at<CUT>(memory, mine, step, n + p * CUT::pair_rows);
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
            at[p].next[s] = at[p].masked ? at[p].state[s] : at[p].next[s];
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        send<typename CUT::bundle>(call, memory, mine, 0, n + p * CUT::pair_rows, at[p].there,
                                   at[p].next[0]);
#pragma unroll
    for (int p = 0; p < P; p++) {
#pragma unroll
        for (int s = 0; s < CELL::states; s++)
            *floats(next + s * memory->pairs + p * THREADS) = at[p].next[s];
        write_pair<CELL>(&at[p]);
    }
}

template <class CELL, class CUT>
ECO_DEVICE void read_biases(const struct eco_resident_call *call, const struct share *share,
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
ECO_DEVICE void read_states(const struct eco_resident_call *call, const struct share *share,
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

/* A step's products, of what others sent; ask() is done while that is on its way, read() when
 * accumulators are there.  Its sums are there for all threads when it returns. */
template <class CUT, class ASK, class READ>
ECO_DEVICE void multiply_step(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory, struct patience *patience,
                              const struct mine *mine,
                              const struct fragment r[CUT::items][CUT::wide], struct writer *writer,
                              int step, ASK ask, READ read)
{
    const bool last = step == call->job[share->job].steps - 1;
    if constexpr (CUT::direct) {
        tell(writer, step & 1, last);
        gather_and_multiply<CUT>(call, share, memory, patience, mine, r, step, ask, read);
    } else {
        /* Accumulators come while the exchange is waited for; where products take long, while
         * these run: what is asked for first comes first. */
        if (step > 0)
            gather<CUT>(call, share, memory, patience, mine, [&] {
                if (memory->row_tiles == 1)
                    ask();
            });
        show_pieces<CUT>();
        __syncthreads();
        if (memory->row_tiles > 1)
            ask();
        tell(writer, 0, last);
        multiply<CUT>(call, share, memory, mine, r, step);
    }
}

/* A step in which all rows have ended. */
template <class CUT> ECO_DEVICE void skip_products(struct writer *writer, int step, bool last)
{
    __syncthreads(); /* what others read of `written` is read */
    tell(writer, CUT::direct ? step & 1 : 0, last);
    __syncthreads();
}

template <int NUMBER, int SHIFT, int SPREAD, int FORM>
ECO_DEVICE void all_steps(const struct eco_resident_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    typedef numbers<NUMBER> cell;
    typedef division<cell::first, SHIFT, SPREAD, FORM, 1> cut;
    const struct share share = share_of<cut>(&call);
    const struct scales scales = scales_of_r<cut, cut>(&call, &share, &share);
    struct fragment r[cut::items][cut::wide];
    read_fragments<cut>(&call, &share, &scales, r);
    const struct memory memory = memory_of<cut>(&call, &share);
    const int steps = call.job[share.job].steps;
    struct mine mine = mine_of<cut>(&call, &share, &memory, sent_of<cut>(&call, &memory));
    struct writer writer = writer_of(&call, &share);
    struct patience patience = {0, 0};
    mine.scales = scales;
    read_biases<cell, cut>(&call, &share, &memory);
    clear_operand(&memory);
    wait_on_dependent_grids(); /* none of which writes weights */
    const struct span span = span_of(&call, &share, &memory);
    read_states<cell, cut>(&call, &share, &memory, &mine);
    if (SPREAD > 0)
        open_cluster();
    else
        __syncthreads();
    begin_operands<cut>(&call, &share, &memory, &mine.scales);
    struct accs<cell, cut> accs(&call, &share, &memory, span.first);
    if (!is_idle(&span, 0))
        accs.ask(&call, &share, &memory);
    if (cut::direct)
        __syncthreads(); /* the first operands are there */
    for (int step = 0; step < steps; step++) {
        const auto ask = [&] {
            if (step > 0)
                accs.ask(&call, &share, &memory);
        };
        const auto read = [&](int n, int round, struct place_of<cell> *at) {
            read_place<cell, cut>(&call, &share, &memory, &mine, step, n, round, at);
        };
        struct place_of<cell> first[1];
        const auto read_first = [&] {
            if (cut::reads_early)
                read(mine.n, 0, first);
        };
        if (is_idle(&span, step)) {
            skip_products<cut>(&writer, step, step == steps - 1);
            read_first();
        } else {
            multiply_step<cut>(&call, &share, &memory, &patience, &mine, r, &writer, step, ask,
                               read_first);
        }
        finish_all<cell, cut>(&memory, &mine, first, read,
                              [&](auto pairs, int n, int round, struct place_of<cell> *at) {
                                  finish_places<cell, cut, decltype(pairs)::value>(
                                      &call, &memory, &mine, step, n, round, at);
                              });
        advance<cut>(&call, &memory, &mine, step);
    }
#endif
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_CUH */
