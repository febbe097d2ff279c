/*
 * Products of a fused step: a warp multiplies its tiles of 16 matrix rows and 8 batch rows over its
 * share of k. Rows of 16 bits are operands as they are. F32 is rounded to TF32 with ECO_FAST;
 * otherwise each number is split into three BF16 numbers, and the six largest of their nine
 * products are added, which leaves out less than the last bit of a float.
 */
#ifndef ECO_GPU_TILE_WARP_MAINLOOP_CUH
#define ECO_GPU_TILE_WARP_MAINLOOP_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/arch/mma.cuh"
#include "gpu/tile/rows.cuh"

enum {
    ROW_PIECE = 16 / sizeof(narrow), /* elements that a lane loads at once */
    ROW_K_BLOCK = 4 * ROW_PIECE,
#if defined(ECO_ROWS_F32) && !defined(ECO_FAST)
    IN_PARTS = 1
#else
    IN_PARTS = 0
#endif
};
#define INFINITY_BEGINS __uint_as_float(0x7F800000)

template <int TILES, int ACROSS> struct warp_sums {
    float d[TILES][ACROSS][4];
};

/* The addresses of a lane: matrix rows, 8 apart in a tile, and batch rows. whole: rows are aligned
 * to pieces, and k is a multiple of them. */
template <int TILES, int ACROSS> struct warp_operands {
    enum { whole = false };
    const narrow *matrix[TILES][2], *row[ACROSS];
    int first, end; /* k blocks */
    int k, matrix_row, quarter;
    bool aligned;
};

template <int TILES, int ACROSS> struct fetched {
    uint4 a[TILES][2], b[ACROSS];
};

/* Loads the first `there` elements, and zeros for the rest. */
ECO_DEVICE uint4 read_row_piece(const narrow *from, int there)
{
    __align__(16) narrow x[ROW_PIECE];
#pragma unroll
    for (int i = 0; i < ROW_PIECE; i++)
        x[i] = i < there ? from[i] : to_narrow(0);
    return *(const uint4 *)x;
}

template <int TILES, int ACROSS>
ECO_DEVICE void fetch_matrix(const struct warp_operands<TILES, ACROSS> &at, int k_block,
                             struct fetched<TILES, ACROSS> *to)
{
    const int k = k_block * ROW_K_BLOCK + at.quarter * ROW_PIECE;
    const bool there = k_block < at.end && k < at.matrix_row;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            to->a[t][half] =
                there ? __ldg((const uint4 *)(at.matrix[t][half] + k)) : make_uint4(0, 0, 0, 0);
}

/* Loads as many batch rows as V holds. */
template <class AT, class V> ECO_DEVICE void fetch_rows(const AT &at, int k_block, V *to)
{
    enum { ACROSS = sizeof to->b / sizeof to->b[0] };
    const int k = k_block * ROW_K_BLOCK + at.quarter * ROW_PIECE,
              there = k_block < at.end ? at.k - k : 0;
    if (AT::whole || (at.aligned && (there >= ROW_PIECE || there <= 0))) {
#pragma unroll
        for (int t = 0; t < ACROSS; t++)
            to->b[t] = there > 0 ? *(const uint4 *)(at.row[t] + k) : make_uint4(0, 0, 0, 0);
    } else {
#pragma unroll
        for (int t = 0; t < ACROSS; t++)
            to->b[t] = read_row_piece(at.row[t] + k, there);
    }
}

/* ---- a k block ------------------------------------------------------------------------------- */

/* d += a b, as in arch/mma.cuh. */
ECO_DEVICE void add_narrow(float d[4], uint4 a, unsigned b0, unsigned b1)
{
#if defined(ECO_ROWS_F16)
    mma_f16(d, a, b0, b1);
#else
    mma_bf16(d, a, b0, b1);
#endif
}

#if !defined(ECO_ROWS_F32)
template <int TILES, int ACROSS>
ECO_DEVICE void multiply_fetched(const struct fetched<TILES, ACROSS> &v,
                                 struct warp_sums<TILES, ACROSS> *sums)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        const uint4 low = v.a[t][0], high = v.a[t][1];
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
            add_narrow(sums->d[t][n], make_uint4(low.x, high.x, low.y, high.y), v.b[n].x, v.b[n].y);
            add_narrow(sums->d[t][n], make_uint4(low.z, high.z, low.w, high.w), v.b[n].z, v.b[n].w);
        }
    }
}
#elif defined(ECO_FAST)
ECO_DEVICE unsigned to_tf32(unsigned x)
{
    return float_to_tf32(__uint_as_float(x));
}

ECO_DEVICE uint4 all_to_tf32(uint4 v)
{
    return make_uint4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w));
}

template <int TILES, int ACROSS>
ECO_DEVICE void multiply_fetched(const struct fetched<TILES, ACROSS> &v,
                                 struct warp_sums<TILES, ACROSS> *sums)
{
    uint4 b[ACROSS];
#pragma unroll
    for (int n = 0; n < ACROSS; n++)
        b[n] = all_to_tf32(v.b[n]);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        const uint4 low = all_to_tf32(v.a[t][0]), high = all_to_tf32(v.a[t][1]);
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
            mma_tf32(sums->d[t][n], make_uint4(low.x, high.x, low.y, high.y), b[n].x, b[n].y);
            mma_tf32(sums->d[t][n], make_uint4(low.z, high.z, low.w, high.w), b[n].z, b[n].w);
        }
    }
}
#else
/* Subtracts the rounded numbers. */
ECO_DEVICE void leave(float *x, float *y, unsigned rounded)
{
    *x -= __uint_as_float(rounded << 16);
    *y -= __uint_as_float(rounded & 0xFFFF0000);
}

/* Two neighbours, each as the sum of three numbers. */
struct parts {
    unsigned of[3];
};
ECO_DEVICE struct parts parts_of(unsigned x, unsigned y)
{
    float a = __uint_as_float(x), b = __uint_as_float(y);
    struct parts parts;
    parts.of[0] = floats_to_bf16(a, b);
    leave(&a, &b, parts.of[0]);
    parts.of[1] = floats_to_bf16(a, b);
    leave(&a, &b, parts.of[1]);
    parts.of[2] = floats_to_bf16(a, b);
    return parts;
}

/* Matrix instructions truncate, so the sums of each k block start at zero, smallest products
 * first. */
template <int TILES, int ACROSS>
ECO_DEVICE void multiply_fetched(const struct fetched<TILES, ACROSS> &v,
                                 struct warp_sums<TILES, ACROSS> *sums)
{
    static constexpr int order[6][2] = {{0, 2}, {2, 0}, {1, 1}, {0, 1}, {1, 0}, {0, 0}};
    uint4 a[TILES][3];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        const uint4 low = v.a[t][0], high = v.a[t][1];
        const struct parts x = parts_of(low.x, low.y), y = parts_of(high.x, high.y),
                           z = parts_of(low.z, low.w), w = parts_of(high.z, high.w);
#pragma unroll
        for (int p = 0; p < 3; p++)
            a[t][p] = make_uint4(x.of[p], y.of[p], z.of[p], w.of[p]);
    }
#pragma unroll
    for (int n = 0; n < ACROSS; n++) {
        const struct parts x = parts_of(v.b[n].x, v.b[n].y), z = parts_of(v.b[n].z, v.b[n].w);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float d[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 6; i++)
                add_narrow(d, a[t][order[i][0]], x.of[order[i][1]], z.of[order[i][1]]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums->d[t][n][i] += d[i];
        }
    }
}
#endif

/* ---- all k blocks of a warp ------------------------------------------------------------------ */

/* K blocks in flight: as many as registers allow, fewer where floats are split. */
template <class V> struct ahead {
    enum {
        registers = sizeof(narrow) == 2 ? 63 : 55,
        held = sizeof(V) / sizeof(unsigned),
        k_blocks = held < registers ? registers / held : 1
    };
};

/* ready() is called while matrix rows are in flight, and returns when preceding kernels have ended.
 * V: what fetch_matrix and fetch_rows fetch of a k block. */
template <class V, int AHEAD, class AT, class SUMS, class READY>
ECO_DEVICE void warp_mainloop(const AT at, SUMS *sums, READY ready)
{
    V v[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        fetch_matrix(at, at.first + j, &v[j]);
    wait_on_dependent_grids();
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        fetch_rows(at, at.first + j, &v[j]);
    ready();
#pragma unroll 1
    for (int i = at.first; i < at.end; i += AHEAD)
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            multiply_fetched(v[j], sums);
            fetch_matrix(at, i + j + AHEAD, &v[j]);
            fetch_rows(at, i + j + AHEAD, &v[j]);
        }
}

/* Stores the sums of a warp as [8 * ACROSS, LINE], one row of D after the other. */
template <int LINE, int TILES, int ACROSS>
ECO_DEVICE void put_warp_sums(const struct warp_sums<TILES, ACROSS> &sums, float *to, int lane)
{
    to += lane % 4 * 2 * LINE + lane / 4;
#pragma unroll
    for (int n = 0; n < ACROSS; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float *const at = to + n * 8 * LINE + t * 16;
            const float *const d = sums.d[t][n];
            at[0] = d[0];
            at[LINE] = d[1];
            at[8] = d[2];
            at[LINE + 8] = d[3];
        }
}

/* ---- sums that are not finite ---------------------------------------------------------------- */

/* A sum of split floats that is not finite is added again, term by term. */
ECO_DEVICE float recompute_in_f32(const narrow *a, size_t a_step, const narrow *b, size_t b_step,
                                  int k)
{
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum = __fmaf_rn(to_real(a[(size_t)i * a_step]), to_real(b[(size_t)i * b_step]), sum);
    return sum;
}

ECO_DEVICE bool is_finite(float sum)
{
    return !IN_PARTS || fabsf(sum) < INFINITY_BEGINS;
}

#endif /* ECO_GPU_TILE_WARP_MAINLOOP_CUH */
