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

/* `P` pairs of this thread, from batch row n on, side by side. */
template <class CELL, class CUT, int P>
CELL_WORD void finish_pairs(const struct eco_resident_call *call, const struct share *share,
                            const struct memory *memory, const struct mine *mine, int step, int n,
                            int round)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int t = job->t + step * job->t_step, pair = (int)threadIdx.x + round * THREADS;
    struct place_of<CELL> at[P];
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int row = n + p * CUT::pair_rows;
        at[p].call = call;
        at[p].job = job;
        at[p].memory = memory;
        at[p].step = step;
        at[p].unit = mine->unit;
        at[p].row = share->row0 + row;
        at[p].there = row < mine->rows;
        at[p].sent = mine->sent;
        at[p].sent_row = row;
        at[p].dacc = bases_of(step)[AT_DACC];
        at[p].carried = floats(carry_at(memory, 0) + pair + p * THREADS);
        at[p].dstate = sum_of<CUT>(memory, sums_at<CUT>(memory, mine, step, row), 0);
        at[p].masked =
            at[p].there && call->lengths && step < job->steps && t >= call->lengths[at[p].row];
    }
    if (step == job->steps) {
        for (int p = 0; p < P; p++)
            end(&at[p]);
        return;
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        read_fields(memory, &at[p], pair + p * THREADS);
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
        if constexpr (cut::direct) {
            tell(step + 1);
            gather_and_multiply<cut>(&call, &share, &memory, &patience, &mine, r, step, read_ahead);
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
        for_pairs<cut>(&memory, &mine, [&](auto pairs, int n, int round) {
            finish_pairs<cell, cut, decltype(pairs)::value>(&call, &share, &memory, &mine, step, n,
                                                            round);
        });
        advance<cut>(&call, &memory, &mine, step);
    }
#endif
}
#include "gpu/resident_backward_two.cuh"

#include "gpu/resident_list.cuh"
