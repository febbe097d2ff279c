/*
 * How an operand of floats gets into a stage of shared memory: split into three pieces of BF16
 * each, 24 bits together.  A stage is 64 of k, of 128 rows of the operand; it lies as squares.cuh
 * says, a plane for each piece.
 */
enum {
    TILE = ECO_SPLIT_TILE,   /* rows and columns of C that a block computes at a time */
    DEPTH = ECO_SPLIT_DEPTH, /* k of a stage */
    PIECES = 3,
    CONSUMERS = 256, /* threads: each half has half of the rows */
    PRODUCERS = 256,
    PLANE_BYTES = TILE * DEPTH * 2,
    OPERAND_BYTES = PIECES * PLANE_BYTES
};

/* What is multiplied in a stage.  Where something is not finite there are two instead of one: the
 * products that need small pieces, in which it is left out, then those of the large pieces alone.
 */
enum mode { ALL, SMALL, LARGE };

/* ---- reading --------------------------------------------------------------------------------- */

/* A thread's quads of an operand: one of every so many lines. */
enum { QUADS = TILE * DEPTH / 4 / PRODUCERS, BATCH = 4 };

template <bool turned> struct share {
    static constexpr int of_line = (turned ? TILE : DEPTH) / 4;
    static constexpr int lines = PRODUCERS / of_line;
    static_assert(lines % 8 == 0, "lines of a thread change places the same way");
};

/* Where a thread reads its quads of a stage. */
struct source {
    const float *from;
    size_t step;         /* from one of its lines to the next */
    int32_t line, lines; /* first, and end */
    int32_t there;       /* elements from the quad on */
    bool whole, vectors;
};

/* An operand in global memory: all that a stage's source follows from. */
struct operand {
    const float *data;
    size_t row;
    int32_t end;
    bool vectors;
};

template <bool turned>
WORD source source_of(const operand &o, int32_t first, int32_t k, int32_t k_end, int thread)
{
    typedef share<turned> mine;
    const int32_t line = (turned ? k : first) + thread / mine::of_line;
    const int32_t at = (turned ? first : k) + thread % mine::of_line * 4;
    source s;
    s.from = o.data + (size_t)line * o.row + at;
    s.step = mine::lines * o.row;
    s.line = line;
    s.lines = turned ? k_end : o.end;
    s.there = (turned ? o.end : k_end) - at;
    s.vectors = o.vectors;
    s.whole = o.vectors && first + TILE <= o.end && k + DEPTH <= k_end;
    return s;
}

template <bool turned> WORD float4 load(const source &s, int i)
{
    const float *from = s.from + i * s.step;
    if (s.whole)
        return __ldg((const float4 *)from);
    const int32_t there = s.line + i * share<turned>::lines < s.lines ? s.there : 0;
    if (s.vectors && there >= 4)
        return __ldg((const float4 *)from);
    float4 x;
    x.x = there > 0 ? __ldg(from) : 0;
    x.y = there > 1 ? __ldg(from + 1) : 0;
    x.z = there > 2 ? __ldg(from + 2) : 0;
    x.w = there > 3 ? __ldg(from + 3) : 0;
    return x;
}

/* ---- splitting ------------------------------------------------------------------------------- */

WORD unsigned round_two(float low, float high)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

WORD float low_of(unsigned both)
{
    return __uint_as_float(both << 16);
}

WORD float high_of(unsigned both)
{
    return __uint_as_float(both & 0xFFFF0000);
}

/* x and y = their pieces, largest first; the last is NaN where there are none. */
WORD void split_two(float x, float y, unsigned *piece)
{
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        piece[p] = round_two(x, y);
        x -= low_of(piece[p]);
        y -= high_of(piece[p]);
    }
}

WORD unsigned add_nans(unsigned sum, unsigned both)
{
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(both), "r"(0));
    return sum;
}

WORD bool is_nan_two(unsigned both)
{
    return (both & 0x7FFF) > 0x7F80 || (both & 0x7FFF0000) > 0x7F800000;
}

WORD bool is_finite(float x)
{
    return fabsf(x) <= __uint_as_float(0x7F7FFFFF);
}

/* Too large for a piece: the largest, the rest is in the next piece. */
WORD float within(float x)
{
    const float largest = __uint_as_float(0x7F7F0000);
    return fminf(fmaxf(x, -largest), largest);
}

/* The same, of any numbers.  What is not finite is left out; or the large piece as it is, then
 * others have no small ones.  True: something was left out. */
WORD bool split_odd(float x, float y, unsigned *piece, bool large)
{
    const bool xs = is_finite(x), ys = is_finite(y);
    const unsigned odd = round_two(xs ? 0 : x, ys ? 0 : y);
    x = xs ? x : 0;
    y = ys ? y : 0;
    piece[0] = round_two(within(x), within(y));
    x -= low_of(piece[0]);
    y -= high_of(piece[0]);
    piece[1] = large ? 0 : round_two(x, y);
    piece[2] = large ? 0 : round_two(x - low_of(piece[1]), y - high_of(piece[1]));
    if (large)
        piece[0] |= odd;
    return !large && !(xs && ys);
}

WORD void store(char *to, const unsigned *x, const unsigned *y)
{
#pragma unroll
    for (int p = 0; p < PIECES; p++)
        *(uint2 *)(to + p * PLANE_BYTES) = make_uint2(x[p], y[p]);
}

/* A batch of a thread's quads from i on, split into a stage.  True: something was left out. */
template <bool turned> WORD bool put(const float4 *raw, char *to, int mode)
{
    unsigned x[PIECES], y[PIECES], nans = 0;
    bool left_out = false;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        split_two(raw[i].x, raw[i].y, x);
        split_two(raw[i].z, raw[i].w, y);
        nans = add_nans(add_nans(nans, x[PIECES - 1]), y[PIECES - 1]);
        store(to + i * share<turned>::lines * LINE_BYTES, x, y);
    }
    if (is_nan_two(nans) || mode == LARGE) {
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            left_out |= split_odd(raw[i].x, raw[i].y, x, mode == LARGE);
            left_out |= split_odd(raw[i].z, raw[i].w, y, mode == LARGE);
            store(to + i * share<turned>::lines * LINE_BYTES, x, y);
        }
    }
    return left_out;
}

/* All of them; in their place come those of the next stage. */
template <bool turned>
WORD bool put_all(float4 (&raw)[QUADS], char *plane, int mode, const source &next, bool more,
                  int thread)
{
    typedef share<turned> mine;
    const int line = thread / mine::of_line, quad = thread % mine::of_line, group = quad / 2;
    char *to = plane + group / 8 * SQUARE_BYTES + line * LINE_BYTES + (group ^ line) % 8 * 16 +
               quad % 2 * 8;
    bool left_out = false;
#pragma unroll
    for (int i = 0; i < QUADS; i += BATCH) {
        left_out |= put<turned>(&raw[i], to + i * mine::lines * LINE_BYTES, mode);
        if (more) {
#pragma unroll
            for (int j = i; j < i + BATCH; j++)
                raw[j] = load<turned>(next, j);
        }
    }
    return left_out;
}
