/*
 * Products of a step by warps that gather themselves what they multiply: what other blocks sent
 * goes from the exchange straight into the registers of matrix instructions, of up to 8 batch rows.
 * Warps that stand below each other read the same.  A block meets once in a step, where its warps'
 * sums are added; these lie in two places in turn.  Items have no scales here.
 */
template <int COUNT> CELL_WORD void ask(const uint4 *from, int left, uint4 v[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        v[i] = read_shared_by_all_if(i < left, from + i * LANES);
}

/* `COUNT` items of this warp, of which the first `left` are there for this lane; meanwhile() is
 * done while they are on their way. */
template <int COUNT, class MEANWHILE>
CELL_WORD void receive(const struct eco_resident_call *call, struct patience *patience,
                       const uint4 *from, int left, uint4 v[COUNT], MEANWHILE meanwhile)
{
    ask<COUNT>(from, left, v);
    meanwhile();
    for (;;) {
        unsigned seen[2] = {0, 0}; /* two that do not wait for each other */
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            look(&seen[0], v[i].x);
            look(&seen[1], v[i].y);
            look(&seen[0], v[i].z);
            look(&seen[1], v[i].w);
        }
        look(&seen[0], seen[1]);
        if (warp_agrees(!missing(seen[0]) || !wait_more(patience, call)))
            break;
        ask<COUNT>(from, left, v);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        v[i] = in_order(v[i]);
}

/* What is multiplied in the first step lies in shared memory. */
template <class CUT, int COUNT, class MEANWHILE>
CELL_WORD void
multiply_received(const struct eco_resident_call *call, const struct share *share,
                  const struct memory *memory, struct patience *patience, const struct mine *mine,
                  const struct fragment r[CUT::items][TILES], int step, MEANWHILE meanwhile)
{
    uint4 v[COUNT];
    struct sums d[TILES] = {};
    if (step > 0) {
        const int left = memory->gathered - share->across * call->shape.part[CUT::product].items;
        receive<COUNT>(call, patience, mine->received, share->lane / 4 < share->rows ? left : 0, v,
                       meanwhile);
    } else {
        meanwhile();
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            v[i] = shared[mine->operand + i * LANES];
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            multiply_item<2>(&d[t], r[i][t], v[i], make_float2(1, 1));
            end_chain(&d[t], i);
        }
    const int at = mine->sums + turn_of<CUT>(memory, step);
#pragma unroll
    for (int t = 0; t < TILES; t++)
        put_sums<CUT, 2>(at + t * ECO_RESIDENT_M, &d[t], &mine->scales);
}

/* A step's; its sums are there for all threads when it returns. */
template <class CUT, class MEANWHILE>
CELL_WORD void
gather_and_multiply(const struct eco_resident_call *call, const struct share *share,
                    const struct memory *memory, struct patience *patience, const struct mine *mine,
                    const struct fragment r[CUT::items][TILES], int step, MEANWHILE meanwhile)
{
    const int items = call->shape.part[CUT::product].items;
    if (CUT::blocks > 1 && threadIdx.x == 0)
        expect_bytes(step, CUT::blocks * ECO_RESIDENT_N * CUT::own * sizeof(float));
    if (CUT::across * CUT::down < WARPS && share->across >= CUT::across)
        meanwhile();
    else if (items > 4)
        multiply_received<CUT, 8>(call, share, memory, patience, mine, r, step, meanwhile);
    else if (items > 2)
        multiply_received<CUT, 4>(call, share, memory, patience, mine, r, step, meanwhile);
    else if (items > 1)
        multiply_received<CUT, 2>(call, share, memory, patience, mine, r, step, meanwhile);
    else
        multiply_received<CUT, 1>(call, share, memory, patience, mine, r, step, meanwhile);
    if (CUT::blocks == 1) {
        wait_for_copies();
        __syncthreads();
        return;
    }
    __syncthreads();
    share_sums<CUT>(share, memory, step, 0, 1);
    wait_for_copies();
    __syncwarp();
    wait_for_bytes(step);
}
