/*
 * Products of one batch row: of its rows with each other, or of weights with its rows. A block
 * computes a tile of the result, a thread computes four by four of its numbers, and sums over k are
 * in order.
 */
#ifndef ECO_GPU_ATTENTION_PRODUCT_CUH
#define ECO_GPU_ATTENTION_PRODUCT_CUH

#include "gpu/attention/words.cuh"

enum { SIDE = ECO_ATTENTION_PRODUCT_TILE, THREADS = ECO_ATTENTION_PRODUCT_THREADS };

/* An operand's part of a pass: [k][side]; rows are padded so that groups of four stay aligned. */
struct product_tile {
    real_four at[SIDE][SIDE / 4 + 1];
};

ECO_DEVICE void put(product_tile *tile, int k, int i, real value)
{
    tile->at[k][i / 4].x[i % 4] = value;
}

template <typename element> struct operand {
    const element *at;
    size_t step;
    int rows, columns; /* how many i and k exist */
};

/* Element (i, k) at i*step + k. */
template <typename element>
ECO_DEVICE void load_along_k(product_tile *tile, const operand<element> &from, int i0, int k0,
                             bool whole)
{
    const int i = (int)threadIdx.x % SIDE;
    const bool there = i0 + i < from.rows;
    const element *row = from.at + (there ? (size_t)(i0 + i) * from.step : 0);
    for (int k = (int)threadIdx.x / SIDE * 4; k < SIDE; k += THREADS / SIDE * 4) {
        const real_four four = load_four(row, k0 + k, there ? from.columns : 0, whole);
#pragma unroll
        for (int q = 0; q < 4; q++)
            put(tile, k + q, i, four.x[q]);
    }
}

/* Element (i, k) at k*step + i. */
template <typename element>
ECO_DEVICE void load_across_k(product_tile *tile, const operand<element> &from, int i0, int k0,
                              bool whole)
{
    const int i = (int)threadIdx.x % (SIDE / 4);
    for (int k = (int)threadIdx.x / (SIDE / 4); k < SIDE; k += THREADS / (SIDE / 4)) {
        const bool there = k0 + k < from.columns;
        const element *row = from.at + (there ? (size_t)(k0 + k) * from.step : 0);
        tile->at[k][i] = load_four(row, i0 + i * 4, there ? from.rows : 0, whole);
    }
}

ECO_DEVICE void multiply(real sum[4][4], const product_tile *a, const product_tile *b)
{
    const int i = (int)threadIdx.x / (SIDE / 4), j = (int)threadIdx.x % (SIDE / 4);
#pragma unroll 8
    for (int k = 0; k < SIDE; k++) {
        const real_four x = a->at[k][i], y = b->at[k][j];
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                sum[p][q] = REAL(fma)(x.x[p], y.x[q], sum[p][q]);
    }
}

template <int KIND>
static __global__ void __launch_bounds__(THREADS)
    product(const __grid_constant__ struct eco_attention_product call)
{
    enum {
        REAL_C = KIND == ECO_ATTENTION_ROWS_BY_ROWS,
        TRANSPOSED = KIND == ECO_ATTENTION_WEIGHTS_TRANSPOSED
    };
    __shared__ product_tile tile[2];
    const int down = (call.I + SIDE - 1) / SIDE, across = (call.J + SIDE - 1) / SIDE;
    const int which = (int)(blockIdx.x % (unsigned)(down * across));
    const int n = (int)(blockIdx.x / (unsigned)(down * across));
    const int i0 = which / across * SIDE, j0 = which % across * SIDE;
    const int length = length_of(call.lengths, n, call.source);
    const int I = TRANSPOSED ? length : call.I, J = REAL_C ? length : call.J;
    const int K = KIND == ECO_ATTENTION_WEIGHTS_BY_ROWS ? length : call.K;
    const bool work = i0 < I && j0 < J;
    real sum[4][4] = {};
    for (int k0 = 0; work && k0 < K; k0 += SIDE) {
        if (REAL_C) {
            load_along_k<narrow>(&tile[0], {row_of(&call.a, 0, n), call.a.step, I, K}, i0, k0,
                                 call.whole);
            load_along_k<narrow>(&tile[1], {row_of(&call.b, 0, n), call.b.step, J, K}, j0, k0,
                                 call.whole);
        } else {
            const real *weights = (const real *)call.a.data + (size_t)n * call.a.row;
            if (TRANSPOSED)
                load_across_k<real>(&tile[0], {weights, call.a.step, I, K}, i0, k0, false);
            else
                load_along_k<real>(&tile[0], {weights, call.a.step, I, K}, i0, k0, false);
            load_across_k<narrow>(&tile[1], {row_of(&call.b, 0, n), call.b.step, J, K}, j0, k0,
                                  call.whole);
        }
        __syncthreads();
        multiply(sum, &tile[0], &tile[1]);
        __syncthreads();
    }
    const int i = i0 + (int)threadIdx.x / (SIDE / 4) * 4;
    const int j = j0 + (int)threadIdx.x % (SIDE / 4) * 4;
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const real value = (real)call.scale * sum[p][q];
            if (REAL_C && i + p < I && j + q < J)
                ((real *)call.c
                     .data)[(size_t)n * call.c.row + (size_t)(i + p) * call.c.step + (j + q)] =
                    value;
            if (!REAL_C && i + p < call.I && j + q < call.J)
                row_of(&call.c, i + p, n)[j + q] = to_narrow(value);
        }
}

#endif /* ECO_GPU_ATTENTION_PRODUCT_CUH */
