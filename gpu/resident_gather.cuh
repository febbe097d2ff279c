/*
 * What a step of algorithm resident multiplies: what other blocks sent goes to shared memory, as
 * soon as all of it is there, as operands of matrix instructions.
 */
/* What no piece ever fills, and what comes before the first step. */
WORD void clear_operand(const struct memory *memory)
{
    for (int i = memory->operand + (int)threadIdx.x; i < memory->parts / 4; i += THREADS)
        shared[i] = make_uint4(0, 0, 0, 0);
}

/* True in all lanes of the warp or in none. */
WORD bool warp_agrees(bool lane)
{
    return __all_sync(0xffffffffu, lane) != 0;
}

/* A piece, to be multiplied, to where this lane's lies. */
template <class CUT> CELL_WORD void put_piece(uint4 *to, int lane, uint4 v)
{
    if (CUT::square)
        put_words(to, lane, v);
    else
        *to = v;
}

/* Before a barrier, behind which all of them are multiplied. */
template <class CUT> CELL_WORD void show_pieces(void)
{
    if (CUT::square)
        show_to_squares();
}

/* Pieces that came, a round of warps apart, the first so many from `piece` on that are left, to be
 * multiplied; all made ready side by side, without a branch between them.  `to`: the first one's
 * place of this lane. */
template <class CUT, int N>
CELL_WORD void keep_pieces(const struct memory *memory, uint4 *to, int piece, int left, int lane,
                           const uint4 v[N][READS])
{
    uint4 kept[N];
#if defined(ECO_SCALED)
    float *const scales = floats(memory->scales + piece * ECO_RESIDENT_N + lane / 4);
    float scale[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        kept[i] = scaled_piece(v[i], &scale[i]);
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i * WARPS < left && lane % 4 == 0)
            scales[i * WARPS * ECO_RESIDENT_N] = scale[i];
#else
#pragma unroll
    for (int i = 0; i < N; i++)
        kept[i] = in_order(v[i][0]);
#endif
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i * WARPS < left)
            put_piece<CUT>(to + i * WARPS * LANES, lane, kept[i]);
}

/* Reads `AT_ONCE` pieces a round of warps apart, from this warp's first one and `on` more on, until
 * all of them are there, and puts them into shared memory; what never came is NaN, and makes NaN of
 * everything after it. meanwhile() is done while they are on their way. */
template <class CUT, int AT_ONCE, class MEANWHILE>
CELL_WORD void gather_some(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory, struct patience *patience,
                           const struct mine *mine, int on, MEANWHILE meanwhile)
{
    const int left = memory->gathered - share->warp - on;
    const uint4 *const from = mine->received + on * (READS * LANES);
    uint4 v[AT_ONCE][READS];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
        for (int r = 0; r < READS; r++) {
            v[i][r] = make_uint4(0, 0, 0, 0);
            if (i * WARPS < left)
                v[i][r] = read_shared_by_all(from + (i * WARPS * READS + r) * LANES);
        }
    meanwhile();
    for (;;) {
        unsigned seen[2] = {0, 0}; /* two that do not wait for each other */
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < READS; r++) {
                look(&seen[0], v[i][r].x);
                look(&seen[1], v[i][r].y);
                look(&seen[0], v[i][r].z);
                look(&seen[1], v[i][r].w);
            }
        look(&seen[0], seen[1]);
        if (warp_agrees(!missing(seen[0]) || !wait_more(patience, call)))
            break;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < READS; r++)
                if (i * WARPS < left)
                    v[i][r] = read_shared_by_all(from + (i * WARPS * READS + r) * LANES);
    }
    keep_pieces<CUT, AT_ONCE>(memory, &shared[mine->came + on * LANES], share->warp + on, left,
                              share->lane, v);
}

/* At once: more of them in flight cost other code of the kernel registers. */
template <class CUT> CELL_WORD constexpr int pieces_at_once(void)
{
#if defined(SENT_WORDS) || defined(ECO_ROWS_F32) || RESIDENT_BACKWARD
    return 8 / READS;
#else
    return CUT::square ? 8 : 4;
#endif
}

template <class CUT, class MEANWHILE>
CELL_WORD void gather(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct patience *patience,
                      const struct mine *mine, MEANWHILE meanwhile)
{
    enum { FEW = 2, SOME = 4, MANY = pieces_at_once<CUT>() };
    const int all = memory->gathered;
    const auto nothing = [] {};
    if (all <= FEW * WARPS) {
        gather_some<CUT, FEW>(call, share, memory, patience, mine, 0, meanwhile);
        return;
    }
    if (MANY > SOME && all <= SOME * WARPS) {
        gather_some<CUT, SOME>(call, share, memory, patience, mine, 0, meanwhile);
        return;
    }
    gather_some<CUT, MANY>(call, share, memory, patience, mine, 0, meanwhile);
#pragma unroll 1
    for (int on = MANY * WARPS; share->warp + on < all; on += MANY * WARPS)
        gather_some<CUT, MANY>(call, share, memory, patience, mine, on, nothing);
}
