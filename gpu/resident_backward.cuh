/*
 * The backward kernel of algorithm resident.  A step, back in time: gather dacc of all units from
 * the other blocks of the group; multiply it by R^T, of which this block has the rows of its units;
 * finish its units in the cell's own text; send their dacc to the others.  The exchange is that of
 * the forward kernel.
 */
#define RESIDENT_BACKWARD 1
#include "gpu/resident_fields.cuh"

/* ---- a step ---------------------------------------------------------------------------------- */

/* After the last step: gradients of the states before it. */
template <class CELL> CELL_WORD void end(const struct place_of<CELL> *at)
{
    const struct eco_resident_call *call = at->call;
    for (int s = 0; s < CELL::states && at->there; s++)
        ((real *)at->job->carry[s])[element_at(at->row, call->carry_row[s], at->unit)] =
            at->carried[s * at->memory->pairs] + (s == 0 ? at->dstate : 0);
}

template <class CELL, class CUT>
CELL_WORD void begin(const struct eco_resident_call *call, const struct share *share,
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
CELL_WORD void begin_place(const struct eco_resident_call *call, const struct share *share,
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
    at->masked = at->there && call->lengths && step < at->job->steps &&
                 at->job->t + step * at->job->t_step >= call->lengths[at->row];
}

/* `P` of them, from batch row n on, side by side; of kernels that read early fields are there. */
template <class CELL, class CUT, int P>
CELL_WORD void finish_places(const struct memory *memory, const struct mine *mine, int step, int n,
                             int round, struct place_of<CELL> at[P])
{
#pragma unroll
    for (int p = 0; p < P; p++)
        at[p].dstate =
            sum_of<CUT>(memory, sums_at<CUT>(memory, mine, step, n + p * CUT::pair_rows), 0);
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

template <int NUMBER, int SHIFT, int SPREAD, int FORM>
CELL_WORD void all_steps(const struct eco_resident_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_RESIDENT_VERSION
    typedef numbers<NUMBER> cell;
    typedef division<1, SHIFT, SPREAD, FORM, cell::first> cut;
    const struct share share = share_of<cut>(&call);
    wait_for_kernels_ahead(); /* one of which may transpose R */
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
        if constexpr (cut::direct) {
            tell(step + 1);
            gather_and_multiply<cut>(&call, &share, &memory, &patience, &mine, r, step, read_ahead,
                                     [&] {
                                         begin(mine.n, 0, first);
                                         if (step < job->steps)
                                             read_fields(&memory, first, (int)threadIdx.x);
                                     });
        } else {
            if (step > 0)
                gather<cut>(&call, &share, &memory, &patience, &mine, read_ahead);
            else
                read_ahead();
            show_pieces<cut>();
            __syncthreads();
            tell(step + 1);
            multiply<cut>(&call, &share, &memory, &mine, r, step);
        }
        if constexpr (cut::reads_early)
            finish_places<cell, cut, 1>(&memory, &mine, step, mine.n, 0, first);
        else
            for_pairs<cut>(&memory, &mine, [&](auto pairs, int n, int round) {
                enum { P = decltype(pairs)::value };
                struct place_of<cell> at[P];
#pragma unroll
                for (int p = 0; p < P; p++)
                    begin(n + p * cut::pair_rows, round + p, &at[p]);
                finish_places<cell, cut, P>(&memory, &mine, step, n, round, at);
            });
        advance<cut>(&call, &memory, &mine, step);
    }
#endif
}
#include "gpu/resident_backward_two.cuh"

#include "gpu/resident_list.cuh"
