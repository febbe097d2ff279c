/*
 * What is multiplied in the first step: states, from where the caller or the launch before has
 * them.
 */
#if defined(ECO_OPERAND_PAIR) && !defined(ECO_SCALED)
/* All of the group's, of which this block keeps what it gathers. */
WORD float gather_raw(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const float *state = (const float *)(job->starts ? job->given[0] : job->state[0]);
    const uint32_t row_step = job->starts ? (uint32_t)call->hidden : call->state_row[0];
    const int items = (call->hidden + ITEM - 1) / ITEM, tiles = memory->row_tiles;
    float most = 1; /* as of zeros */
#pragma unroll 4
    for (int i = share->warp; i < items * tiles; i += WARPS) {
        const int n = i % tiles * ECO_RESIDENT_N + share->lane / 4;
        const int k = i / tiles * ITEM + share->lane % 4 * PIECE;
        const int there = state && n < share->rows ? call->hidden - k : 0;
        const float *const from = state + element_at(share->row0 + n, row_step, k);
        float v[PIECE];
#pragma unroll
        for (int j = 0; j < PIECE; j++) {
            v[j] = j < there ? from[j] : 0;
            enlarge(&most, v[j]);
        }
        const int piece = i - share->item0 * tiles;
        if (piece >= 0 && piece < memory->gathered)
            shared[memory->operand + piece * LANES + share->lane] =
                make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                           __float_as_uint(v[3]));
    }
    return most;
}

template <class CUT>
CELL_WORD void begin_operands(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory, struct scales *scales)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const bool zeros = (job->starts ? job->given[0] : job->state[0]) == NULL;
    const float most = zeros ? 1 : gather_raw(call, share, memory);
    scales->state = scale_for(greatest_of_block(share, most));
    scales->sums *= over(scales->state);
    if (zeros)
        return; /* they lie there: clear_operand */
    for (int i = share->warp; i < memory->gathered; i += WARPS) {
        uint4 *const at = &shared[memory->operand + i * LANES + share->lane];
        const uint4 v = operands_of(at, scales->state);
        __syncwarp();
        put_piece<CUT>(at, share->lane, v);
    }
}
#else
/* As they are exchanged: of a row of the caller's, which begins anywhere, and zeros from the
 * `there`th on. */
WORD void read_some(const narrow *row, int there, uint4 v[READS])
{
    sent_bits bits[PIECE];
    __align__(16) narrow x[PIECE];
    if (there >= PIECE && (uintptr_t)row % 16 == 0)
#pragma unroll
        for (int i = 0; i < (int)(sizeof x / 16); i++)
            ((uint4 *)x)[i] = ((const uint4 *)row)[i];
    else
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            x[i] = i < there ? row[i] : to_narrow(0);
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        bits[i] = to_sent(to_real(x[i]));
#if defined(ECO_SCALED)
#pragma unroll
    for (int i = 0; i < READS; i++)
        v[i] = make_uint4(bits[4 * i], bits[4 * i + 1], bits[4 * i + 2], bits[4 * i + 3]);
#else
    v[0] = piece_from(bits);
#endif
}

template <class CUT>
CELL_WORD void begin_operands(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory, struct scales *scales)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const narrow *state = (const narrow *)(job->starts ? job->given[0] : job->state[0]);
    const uint32_t row_step = job->starts ? (uint32_t)call->hidden : call->state_row[0];
    const int width = state ? call->hidden : 0;
#if !defined(ECO_SCALED)
    if (width == 0)
        return; /* clear_operand's zeros */
#endif
#pragma unroll 4
    for (int i = share->warp; i < memory->gathered; i += WARPS) {
        const int n = i % memory->row_tiles * ECO_RESIDENT_N + share->lane / 4;
        const int k = (share->item0 + i / memory->row_tiles) * ITEM + share->lane % 4 * PIECE;
        const narrow *row = state + element_at(share->row0 + n, row_step, 0);
        uint4 v[1][READS];
        read_some(row + k, n < share->rows ? width - k : 0, v[0]);
        keep_pieces<CUT, 1>(memory, &shared[memory->operand + i * LANES + share->lane], i, 1,
                            share->lane, v);
    }
}
#endif
