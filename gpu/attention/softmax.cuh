/*
 * Softmax over the positions of a source, forward and backward: one warp for each row.
 */
#ifndef ECO_GPU_ATTENTION_SOFTMAX_CUH
#define ECO_GPU_ATTENTION_SOFTMAX_CUH

#include "gpu/attention/words.cuh"

/* The row of this warp; -1: none. */
ECO_DEVICE int64_t warp_row(const struct eco_attention_softmax &call)
{
    const int64_t row = (int64_t)blockIdx.x * ECO_ATTENTION_ROWS + (int)threadIdx.x / WARP;
    return row < (int64_t)call.N * call.T ? row : -1;
}

static __global__ void __launch_bounds__(ECO_ATTENTION_ROWS *WARP)
    softmax_rows(const __grid_constant__ struct eco_attention_softmax call)
{
    const int64_t row = warp_row(call);
    if (row < 0)
        return;
    const int lane = (int)threadIdx.x % WARP, n = (int)(row / call.T), t = (int)(row % call.T);
    const int length = length_of(call.lengths, n, call.S);
    real *score = (real *)call.score + (size_t)row * call.S;
    narrow *weights = call.weights.data ? row_of(&call.weights, t, n) : nullptr;
    real most = -INFINITY, sum = 0;
    for (int s = lane; s < length; s += WARP)
        most = score[s] > most ? score[s] : most;
    most = warp_max(most);
    for (int s = lane; s < length; s += WARP)
        sum += score[s] = REAL(exp)(score[s] - most);
    sum = warp_sum(sum);
    for (int s = lane; s < call.S; s += WARP) {
        const real weight = s < length ? score[s] / sum : (real)0;
        score[s] = weight;
        if (weights)
            weights[s] = to_narrow(weight);
    }
}

static __global__ void __launch_bounds__(ECO_ATTENTION_ROWS *WARP)
    softmax_gradient_rows(const __grid_constant__ struct eco_attention_softmax call)
{
    const int64_t row = warp_row(call);
    if (row < 0)
        return;
    const int lane = (int)threadIdx.x % WARP, n = (int)(row / call.T), t = (int)(row % call.T);
    const int length = length_of(call.lengths, n, call.S);
    real *score = (real *)call.score + (size_t)row * call.S;
    const real *weight = (const real *)call.weight + (size_t)row * call.S;
    const narrow *dweights = call.dweights.data ? row_of(&call.dweights, t, n) : nullptr;
    real mean = 0;
    for (int s = lane; s < length; s += WARP) {
        real d = call.holds ? score[s] : (real)0;
        if (dweights)
            d += to_real(dweights[s]);
        score[s] = d;
        mean = REAL(fma)(weight[s], d, mean);
    }
    mean = warp_sum(mean);
    for (int s = lane; s < length; s += WARP)
        score[s] = (real)call.scale * weight[s] * (score[s] - mean);
}

#endif /* ECO_GPU_ATTENTION_SOFTMAX_CUH */
