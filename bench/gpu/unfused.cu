/*
 * What one writes first on a GPU, for LSTM in inference: products by cuBLAS in every step, and a
 * kernel for each elementwise operation.  Two products a step (all gates of x, all of h), or
 * naively eight, one for each gate.
 */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

extern "C" {
#include "gpu.h"
}

namespace
{
enum { GATES = 4, THREADS = 256 };

struct loop {
    const ecornn_desc *desc;
    cublasHandle_t blas;
    bool naive;
    char *x, *y, *w, *r, *bias;            /* [T,N,I] [T,N,H] [4H,I] [4H,H] [4H] */
    char *of_x, *of_h, *gates, *c, *a, *b; /* [N,4H] three times, [N,H] three times */
};

template <typename type> __device__ float get(type x)
{
    return (float)x;
}

/* One operation over [N,columns], rows of a, b and `to` so far apart; by its number. */
enum operation { ADD, MULTIPLY, SIGMOID, TANH, ADD_BIAS };
struct pass {
    const void *a, *b;
    void *to;
    int a_row, b_row, to_row, rows, columns;
};
template <typename type, operation OPERATION> __global__ void elementwise(const pass p)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = i / p.columns,
              j = i % p.columns;
    if (n >= p.rows)
        return;
    const float a = get(((const type *)p.a)[n * p.a_row + j]);
    const float b =
        p.b == NULL ? 0 : get(((const type *)p.b)[OPERATION == ADD_BIAS ? j : n * p.b_row + j]);
    ((type *)p.to)[n * p.to_row + j] = (type)(OPERATION == MULTIPLY  ? a * b
                                              : OPERATION == SIGMOID ? 1 / (1 + expf(-a))
                                              : OPERATION == TANH    ? tanhf(a)
                                                                     : a + b);
}

template <typename type, operation OPERATION> void run(const pass &p, cudaStream_t stream)
{
    const int all = p.rows * p.columns;
    elementwise<type, OPERATION><<<(all + THREADS - 1) / THREADS, THREADS, 0, stream>>>(p);
}

cudaDataType data_type(ecornn_type type)
{
    return type == ECORNN_BF16 ? CUDA_R_16BF : type == ECORNN_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* to[N,columns] = a[N,k] b[columns,k]^T; rows of `to` are 4H apart */
bool multiply(const loop *l, const char *a, const char *b, char *to, int columns, int k)
{
    const float one = 1, zero = 0;
    const cudaDataType type = data_type(l->desc->type);
    const cublasComputeType_t sums =
        l->desc->type == ECORNN_F32 && (l->desc->flags & ECORNN_FAST_MATH)
            ? CUBLAS_COMPUTE_32F_FAST_TF32
            : CUBLAS_COMPUTE_32F;
    return cublasGemmEx(l->blas, CUBLAS_OP_T, CUBLAS_OP_N, columns, l->desc->batch, k, &one, b,
                        type, k, a, type, k, &zero, to, type, GATES * l->desc->hidden, sums,
                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

bool products(const loop *l, const char *x, const char *h)
{
    const int H = l->desc->hidden, I = l->desc->input, calls = l->naive ? GATES : 1;
    const size_t bytes = gpu_element(l->desc->type), each = (size_t)GATES * H / calls;
    bool good = true;
    for (int k = 0; k < calls; k++)
        good =
            good &&
            multiply(l, x, l->w + k * each * I * bytes, l->of_x + k * each * bytes, (int)each, I) &&
            multiply(l, h, l->r + k * each * H * bytes, l->of_h + k * each * bytes, (int)each, H);
    return good;
}

template <typename type> bool step(const loop *l, int t, cudaStream_t stream)
{
    const int N = l->desc->batch, H = l->desc->hidden, I = l->desc->input;
    const size_t bytes = sizeof(type);
    char *const y = l->y + (size_t)t * N * H * bytes;
    const char *const h = l->y + (size_t)(t > 0 ? t - 1 : 0) * N * H * bytes;
    char *gate[GATES];
    if (!products(l, l->x + (size_t)t * N * I * bytes, h))
        return false;
    for (int k = 0; k < GATES; k++)
        gate[k] = l->gates + (size_t)k * H * bytes;
    const int sums = l->naive ? GATES : 1, columns = GATES * H / sums;
    for (int k = 0; k < sums; k++) {
        const size_t at = (size_t)k * H * bytes;
        run<type, ADD>(
            {l->of_x + at, l->of_h + at, gate[k], GATES * H, GATES * H, GATES * H, N, columns},
            stream);
        run<type, ADD_BIAS>({gate[k], l->bias + at, gate[k], GATES * H, 0, GATES * H, N, columns},
                            stream);
    }
    for (int k = 0; k < GATES; k++) {
        const pass p = {gate[k], NULL, gate[k], GATES * H, 0, GATES * H, N, H};
        if (k == 2)
            run<type, TANH>(p, stream);
        else
            run<type, SIGMOID>(p, stream);
    }
    run<type, MULTIPLY>({gate[1], l->c, l->a, GATES * H, H, H, N, H}, stream);
    run<type, MULTIPLY>({gate[0], gate[2], l->b, GATES * H, GATES * H, H, N, H}, stream);
    run<type, ADD>({l->a, l->b, l->c, H, H, H, N, H}, stream);
    run<type, TANH>({l->c, NULL, l->a, H, 0, H, N, H}, stream);
    run<type, MULTIPLY>({gate[3], l->a, y, GATES * H, H, H, N, H}, stream);
    return cudaGetLastError() == cudaSuccess;
}

bool queue(void *self, cudaStream_t stream)
{
    const loop *l = (const loop *)self;
    bool good = cublasSetStream(l->blas, stream) == CUBLAS_STATUS_SUCCESS;
    for (int t = 0; good && t < l->desc->steps; t++)
        good = l->desc->type == ECORNN_BF16  ? step<__nv_bfloat16>(l, t, stream)
               : l->desc->type == ECORNN_F16 ? step<__half>(l, t, stream)
                                             : step<float>(l, t, stream);
    return good;
}
} // namespace

extern "C" bool unfused_measure(const ecornn_desc *desc, bool naive, cudaStream_t stream,
                                double *eager, double *graph)
{
    enum { WORKSPACE = 8 << 20 };
    const size_t N = (size_t)desc->batch, H = (size_t)desc->hidden, I = (size_t)desc->input;
    const size_t T = (size_t)desc->steps;
    loop l = {desc, NULL, naive};
    char *room = NULL;
    char **const block[] = {&l.x,    &l.y,     &l.w, &l.r, &l.bias, &l.of_x,
                            &l.of_h, &l.gates, &l.c, &l.a, &l.b};
    const size_t elements[] = {T * N * I, T * N * H,     GATES * H * I, GATES * H * H,
                               GATES * H, GATES * N * H, GATES * N * H, GATES * N * H,
                               N * H,     N * H,         N * H};
    if (desc->type == ECORNN_F64 || cublasCreate(&l.blas) != CUBLAS_STATUS_SUCCESS)
        return false;
    gpu_check(cudaMalloc(&room, WORKSPACE), "memory");
    cublasSetWorkspace(l.blas, room, WORKSPACE);
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        *block[i] = (char *)gpu_random(desc->type, elements[i], 1 / sqrt((double)H));
    const gpu_work work = {queue, &l};
    *eager = gpu_time(&work, stream).median;
    *graph = gpu_time_graph(&work, stream).median;
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        cudaFree(*block[i]);
    cudaFree(room);
    cublasDestroy(l.blas);
    return *eager > 0;
}
