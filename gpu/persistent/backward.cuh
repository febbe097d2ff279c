/*
 * The backward kernel of algorithm resident.  A step, back in time: gather dacc of all units from
 * the other blocks of the group; multiply it by R^T, of which this block has the rows of its units;
 * finish its units in the cell's own text; send their dacc to the others.  The exchange is that of
 * the forward kernel.
 */
#ifndef ECO_GPU_PERSISTENT_BACKWARD_CUH
#define ECO_GPU_PERSISTENT_BACKWARD_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/persistent/backward_loads.cuh"
#include "gpu/persistent/gather.cuh"
#include "gpu/persistent/mainloop_direct.cuh"
#include "gpu/persistent/product.cuh"

/* ---- a step ---------------------------------------------------------------------------------- */

/* After the last step: gradients of the states before it. */
template <class CELL> ECO_DEVICE void end(const struct place_of<CELL> *at)
{
    const struct eco_resident_call *call = at->call;
    for (int s = 0; s < CELL::states && at->there; s++)
        ((real *)at->job->carry[s])[element_at(at->row, call->carry_row[s], at->unit)] =
            at->carried[s * at->memory->pairs] + (s == 0 ? at->dstate : 0);
}

template <class CELL, class CUT>
ECO_DEVICE void begin(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, const struct mine *mine)
{
    const struct eco_resident_job *job = &call->job[share->job];
    int to = carry_at(memory, 0) + (int)threadIdx.x;
    for (int n = mine->n; n < mine->rows; n += CUT::pair_rows, to += THREADS)
        for (int s = 0; s < CELL::states; s++)
            *floats(to + s * memory->pairs) =
                job->starts
                    ? given_at(call, job, s, share->row0 + n, mine->unit)
                    : ((const real *)job
                           ->carry[s])[element_at(share->row0 + n, call->carry_row[s], mine->unit)];
}

/* A pair of this thread, in batch row n, some rounds of all threads on. */
template <class CELL, class CUT>
ECO_DEVICE void begin_place(const struct eco_resident_call *call, const struct share *share,
                            const struct memory *memory, const struct mine *mine, int step, int n,
                            int round, struct place_of<CELL> *at)
{
    at->call = call;
    at->job = &call->job[share->job];
    at->memory = memory;
    at->step = step;
    at->unit = mine->unit;
    at->row = share->row0 + n;
    at->there = n < mine->rows;
    at->sent = mine->sent;
    at->sent_row = n;
    at->dacc = bases_of(step)[AT_DACC];
    at->carried = floats(carry_at(memory, 0) + (int)threadIdx.x + round * THREADS);
    at->masked = at->there && step < at->job->steps && is_masked(call, memory, at->job, step, n);
}

/* `P` of them, from batch row n on, side by side; of kernels that read early fields are there. */
template <class CELL, class CUT, int P>
ECO_DEVICE void finish_places(const struct memory *memory, const struct mine *mine, int step,
                              bool idle, int n, int round, struct place_of<CELL> at[P])
{
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int sums = sums_at<CUT>(memory, mine, step, n + p * CUT::pair_rows);
        at[p].dstate = idle ? 0 : sum_of<CUT>(memory, sums, 0);
    }
    if (step == at[0].job->steps) {
        for (int p = 0; p < P; p++)
            end(&at[p]);
        return;
    }
#pragma unroll
    for (int p = 0; p < P; p++) {
        if (!CUT::reads_early)
            read_fields(memory, &at[p], (int)threadIdx.x + (round + p) * THREADS);
        add_dstate(&at[p]);
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        finish_unit(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
        send_dacc<0, typename CUT::bundle>(&at[p]);
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int a = 0; a < CELL::accs; a++)
            write_dacc(&at[p], a, at[p].dacc_of[a]);
}

/* A step's products, of what others sent; read_ahead() is done while that is on its way, read()
 * when it is over.  Its sums are there for all threads when it returns. */
template <class CUT, class AHEAD, class READ>
ECO_DEVICE void
multiply_step(const struct eco_resident_call *call, const struct share *share,
              const struct memory *memory, struct patience *patience, const struct mine *mine,
              const struct fragment r[CUT::items][CUT::wide], int step, AHEAD read_ahead, READ read)
{
    if constexpr (CUT::direct) {
        tell(step + 1);
        gather_and_multiply<CUT>(call, share, memory, patience, mine, r, step, read_ahead, read);
    } else {
        if (step > 0)
            gather<CUT>(call, share, memory, patience, mine, read_ahead);
        else
            read_ahead();
        show_pieces<CUT>();
        __syncthreads();
        tell(step + 1);
        multiply<CUT>(call, share, memory, mine, r, step);
    }
}

template <int NUMBER, int SHIFT, int SPREAD, int FORM>
ECO_DEVICE void all_steps(const struct eco_resident_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    typedef numbers<NUMBER> cell;
    typedef division<1, SHIFT, SPREAD, FORM, cell::first> cut;
    const struct share share = share_of<cut>(&call);
    wait_on_dependent_grids(); /* one of which may transpose R */
    const struct scales scales = scales_of_r<cut, cut>(&call, &share, &share);
    struct fragment r[cut::items][cut::wide];
    read_fragments<cut>(&call, &share, &scales, r);
    const struct memory memory = memory_of<cut>(&call, &share);
    const struct eco_resident_job *job = &call.job[share.job];
    struct mine mine = mine_of<cut>(&call, &share, &memory, sent_of<cut>(&call, &memory));
    begin_walk(&call, &share);
    struct patience patience = {0, 0};
    mine.scales = scales;
    clear_operand(&memory); /* what comes after the last step */
    const struct span span = span_of(&call, &share, &memory);
    if (SPREAD > 0)
        open_cluster();
    begin<cell, cut>(&call, &share, &memory, &mine);
    tell(0);
    __syncthreads();
    for (int step = 0; step <= job->steps; step++) {
        const auto read_ahead = [&] { fetch<cell, cut>(&call, &share, &memory, &mine, step); };
        const auto begin = [&](int n, int round, struct place_of<cell> *at) {
            begin_place<cell, cut>(&call, &share, &memory, &mine, step, n, round, at);
        };
        struct place_of<cell> first[1];
        const auto read_first = [&] {
            if (!cut::reads_early)
                return;
            begin(mine.n, 0, first);
            if (step < job->steps)
                read_fields(&memory, first, (int)threadIdx.x);
        };
        const bool idle = is_idle(&span, step);
        if (idle) {
            tell(step + 1);
            __syncthreads();
            read_first();
        } else {
            multiply_step<cut>(&call, &share, &memory, &patience, &mine, r, step, read_ahead,
                               read_first);
        }
        finish_all<cell, cut>(&memory, &mine, first, begin,
                              [&](auto pairs, int n, int round, struct place_of<cell> *at) {
                                  finish_places<cell, cut, decltype(pairs)::value>(
                                      &memory, &mine, step, idle, n, round, at);
                              });
        advance<cut>(&call, &memory, &mine, step);
    }
#endif
}

#endif /* ECO_GPU_PERSISTENT_BACKWARD_CUH */
