/*
 * The recurrent step of a layer in inference, a product and the cell's kernel, in the layouts that
 * one may choose from: rows [N,H] or batch-minor [H,N], R as it is or transposed; products by
 * cuBLAS's own choice, and by the best of what cuBLASLt offers first.  For each a graph of
 * dependent steps.
 */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "gpu.h"
}

namespace
{
/* Accumulators of so many steps take turns; every product is subtracted again a turn later, which
 * an odd number makes sure of, so they stay what they were. */
enum { STEPS = 100, RING = 5, ACCS = 4, THREADS = 256, CHOICES = 8 };
const size_t workspace_bytes = 32 << 20;

/* Products go to accumulators `first` and on, `products` of them; H each. */
struct cell {
    const char *name;
    int first, products;
};
const cell cells[] = {{"lstm", 0, 4}, {"gru", 1, 3}};

struct chain {
    const ecornn_desc *desc;
    const struct cell *cell;
    cublasHandle_t blas;
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t multiply;
    cublasLtMatrixLayout_t shape[3];  /* of A, B, C */
    const cublasLtMatmulAlgo_t *algo; /* NULL: cuBLAS */
    bool minor, turned;
    char *r, *h[2], *y, *workspace; /* R or R^T; two planes; all steps */
    float *acc, *c;                 /* [RING,N,4H] or [RING,4H,N]; [N,H] or [H,N] */
};

/* ---- the cell -------------------------------------------------------------------------------- */

/* Rows of `width` elements: N of H, or batch-minor one of all. */
struct pass {
    const float *acc;
    const void *h;
    float *c;
    void *next, *y;
    int width, acc_row, gate; /* elements from an accumulator to the next */
};

__device__ float sigmoid(float x)
{
    return 1 / (1 + __expf(-x));
}

template <typename type, bool GRU> __global__ void pointwise(const pass p)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= p.width)
        return;
    const float *acc = p.acc + (size_t)blockIdx.y * p.acc_row + i;
    const size_t at = (size_t)blockIdx.y * p.width + i;
    const float a = acc[0], b = acc[p.gate], c = acc[2 * p.gate], d = acc[3 * p.gate];
    float h;
    if (GRU) {
        const float n = tanhf(a + sigmoid(b) * d), z = sigmoid(c);
        h = (1 - z) * n + z * (float)((const type *)p.h)[at];
    } else {
        const float next = sigmoid(b) * p.c[at] + sigmoid(a) * tanhf(c);
        p.c[at] = next;
        h = sigmoid(d) * tanhf(next);
    }
    ((type *)p.next)[at] = (type)h;
    ((type *)p.y)[at] = (type)h;
}

template <typename type, bool GRU> bool run(const pass &p, int rows, cudaStream_t stream)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((p.width + THREADS - 1) / THREADS, rows);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, pointwise<type, GRU>, p) == cudaSuccess;
}

bool run_cell(const chain *l, int t, cudaStream_t stream)
{
    const int N = l->desc->batch, H = l->desc->hidden;
    const bool gru = l->cell->first > 0, wide = l->desc->type == ECORNN_F32;
    const size_t bytes = (size_t)N * H * gpu_element(l->desc->type);
    const pass p = {l->acc + (size_t)(t % RING) * N * ACCS * H,
                    l->h[t % 2],
                    l->c,
                    l->h[(t + 1) % 2],
                    l->y + t * bytes,
                    l->minor ? N * H : H,
                    ACCS * H,
                    l->minor ? N * H : H};
    const int rows = l->minor ? 1 : N;
    return wide ? (gru ? run<float, true>(p, rows, stream) : run<float, false>(p, rows, stream))
                : (gru ? run<__nv_bfloat16, true>(p, rows, stream)
                       : run<__nv_bfloat16, false>(p, rows, stream));
}

/* ---- the product ----------------------------------------------------------------------------- */

/* As cuBLAS counts, columns first: C[m,n] += A B. */
struct product {
    cublasOperation_t a_op, b_op;
    int m, n, k, a_row, b_row, c_row;
};

product product_of(const chain *l)
{
    const int N = l->desc->batch, H = l->desc->hidden, all = l->cell->products * H;
    const int r_row = l->turned ? all : H;
    const product rows = {
        l->turned ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, all, N, H, r_row, H, ACCS * H};
    const product minor = {
        CUBLAS_OP_N, l->turned ? CUBLAS_OP_T : CUBLAS_OP_N, N, all, H, N, r_row, N};
    return l->minor ? minor : rows;
}

cudaDataType data_type(const chain *l)
{
    return l->desc->type == ECORNN_F32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasComputeType_t compute_type(const chain *l)
{
    if (l->desc->type != ECORNN_F32)
        return CUBLAS_COMPUTE_32F;
    return l->desc->flags & ECORNN_FAST_MATH ? CUBLAS_COMPUTE_32F_FAST_TF32
                                             : CUBLAS_COMPUTE_32F_PEDANTIC;
}

bool multiply(const chain *l, int t, cudaStream_t stream)
{
    const int N = l->desc->batch, H = l->desc->hidden;
    const float sign = t / RING % 2 == 0 ? 1 : -1, one = 1;
    const product p = product_of(l);
    const void *h = l->h[t % 2], *a = l->minor ? h : l->r, *b = l->minor ? l->r : h;
    float *c = l->acc + (size_t)(t % RING) * N * ACCS * H +
               (size_t)l->cell->first * H * (l->minor ? N : 1);
    if (l->algo)
        return cublasLtMatmul(l->lt, l->multiply, &sign, a, l->shape[0], b, l->shape[1], &one, c,
                              l->shape[2], c, l->shape[2], l->algo, l->workspace, workspace_bytes,
                              stream) == CUBLAS_STATUS_SUCCESS;
    return cublasGemmEx(l->blas, p.a_op, p.b_op, p.m, p.n, p.k, &sign, a, data_type(l), p.a_row, b,
                        data_type(l), p.b_row, &one, c, CUDA_R_32F, p.c_row, compute_type(l),
                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

bool queue(void *self, cudaStream_t stream)
{
    const chain *l = (const chain *)self;
    bool good = cublasSetStream(l->blas, stream) == CUBLAS_STATUS_SUCCESS &&
                cublasSetWorkspace(l->blas, l->workspace, workspace_bytes) == CUBLAS_STATUS_SUCCESS;
    for (int t = 0; good && t < STEPS; t++)
        good = multiply(l, t, stream) && run_cell(l, t, stream);
    return good;
}

/* What cuBLASLt offers for the chain's product; how many. */
int offers(chain *l, cublasLtMatmulHeuristicResult_t offer[CHOICES])
{
    const product p = product_of(l);
    cublasLtMatmulPreference_t preference;
    int n = 0;
    const int rows[] = {p.a_op == CUBLAS_OP_N ? p.m : p.k, p.b_op == CUBLAS_OP_N ? p.k : p.n, p.m};
    const int columns[] = {p.a_op == CUBLAS_OP_N ? p.k : p.m, p.b_op == CUBLAS_OP_N ? p.n : p.k,
                           p.n};
    const int row[] = {p.a_row, p.b_row, p.c_row};
    cublasLtMatmulDescCreate(&l->multiply, compute_type(l), CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(l->multiply, CUBLASLT_MATMUL_DESC_TRANSA, &p.a_op,
                                   sizeof p.a_op);
    cublasLtMatmulDescSetAttribute(l->multiply, CUBLASLT_MATMUL_DESC_TRANSB, &p.b_op,
                                   sizeof p.b_op);
    for (int i = 0; i < 3; i++)
        cublasLtMatrixLayoutCreate(&l->shape[i], i < 2 ? data_type(l) : CUDA_R_32F, rows[i],
                                   columns[i], row[i]);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace_bytes, sizeof workspace_bytes);
    if (cublasLtMatmulAlgoGetHeuristic(l->lt, l->multiply, l->shape[0], l->shape[1], l->shape[2],
                                       l->shape[2], preference, CHOICES, offer,
                                       &n) != CUBLAS_STATUS_SUCCESS)
        n = 0;
    cublasLtMatmulPreferenceDestroy(preference);
    return n;
}

/* ---- one layout ------------------------------------------------------------------------------ */

template <typename type> __global__ void turn(type *to, const type *from, int rows, int columns)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, all = (size_t)rows * columns;
    if (i < all)
        to[i % columns * rows + i / columns] = from[i];
}

/* [rows,columns] of elements of so many bytes, transposed or as it is. */
void put(void *to, const void *from, int rows, int columns, size_t bytes, bool turned)
{
    const size_t all = (size_t)rows * columns, blocks = (all + THREADS - 1) / THREADS;
    if (!turned)
        gpu_check(cudaMemcpy(to, from, all * bytes, cudaMemcpyDeviceToDevice), "copy");
    else if (bytes == 4)
        turn<<<(unsigned)blocks, THREADS>>>((float *)to, (const float *)from, rows, columns);
    else
        turn<<<(unsigned)blocks, THREADS>>>((short *)to, (const short *)from, rows, columns);
    gpu_check(cudaDeviceSynchronize(), "transposing");
}

/* What every layout begins with, in rows. */
struct start {
    char *r, *h;
    float *acc, *c;
};

void set(chain *l, const start *from)
{
    const int N = l->desc->batch, H = l->desc->hidden;
    const size_t bytes = gpu_element(l->desc->type);
    put(l->r, from->r, l->cell->products * H, H, bytes, l->turned);
    put(l->h[0], from->h, N, H, bytes, l->minor);
    put(l->c, from->c, N, H, sizeof(float), l->minor);
    for (int k = 0; k < RING; k++) {
        const size_t at = (size_t)k * N * ACCS * H;
        put(l->acc + at, from->acc + at, N, ACCS * H, sizeof(float), l->minor);
    }
}

float value(const void *array, size_t i, ecornn_type type)
{
    if (type == ECORNN_F32)
        return ((const float *)array)[i];
    const unsigned bits = (unsigned)((const unsigned short *)array)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The last h, in rows, after one run from the start; the caller frees. */
float *last_state(chain *l, const start *from, cudaStream_t stream)
{
    const size_t N = (size_t)l->desc->batch, H = (size_t)l->desc->hidden, all = N * H;
    char *raw = (char *)malloc(all * gpu_element(l->desc->type));
    float *h = (float *)malloc(all * sizeof *h);
    set(l, from);
    queue(l, stream);
    gpu_check(cudaStreamSynchronize(stream), "a run");
    gpu_check(
        cudaMemcpy(raw, l->h[STEPS % 2], all * gpu_element(l->desc->type), cudaMemcpyDeviceToHost),
        "download");
    for (size_t i = 0; i < all; i++)
        h[i] = value(raw, l->minor ? i % H * N + i / H : i, l->desc->type);
    free(raw);
    return h;
}

/* Seconds of a step; says where a layout computes something else than the first did. */
double step_time(chain *l, const start *from, const float *should, cudaStream_t stream)
{
    float *h = last_state(l, from, stream), most = 0;
    for (size_t i = 0; i < (size_t)l->desc->batch * l->desc->hidden; i++)
        most = fmaxf(most, fabsf(h[i] - should[i]));
    free(h);
    if (!(most < 0.05f))
        fprintf(stderr, "bench_gpu: a layout's h is off by %g\n", (double)most);
    set(l, from);
    const gpu_work work = {queue, l};
    return gpu_time_graph(&work, stream).median / STEPS;
}

layout_time measure(chain *l, const start *from, const float *should, cudaStream_t stream)
{
    cublasLtMatmulHeuristicResult_t offer[CHOICES];
    layout_time time = {step_time(l, from, should, stream), -1};
    const int n = offers(l, offer);
    for (int k = 0; k < n; k++) {
        l->algo = &offer[k].algo;
        const double seconds = step_time(l, from, should, stream);
        if (seconds > 0 && (time.best < 0 || seconds < time.best))
            time.best = seconds;
    }
    l->algo = NULL;
    for (int i = 0; i < 3; i++)
        cublasLtMatrixLayoutDestroy(l->shape[i]);
    cublasLtMatmulDescDestroy(l->multiply);
    return time;
}
} // namespace

extern "C" bool layouts_measure(const ecornn_desc *desc, const char *name, cudaStream_t stream,
                                layout_time time[LAYOUTS])
{
    const size_t N = (size_t)desc->batch, H = (size_t)desc->hidden;
    chain l = {desc};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if (strcmp(cells[i].name, name) == 0)
            l.cell = &cells[i];
    if (!l.cell || (desc->type != ECORNN_F32 && desc->type != ECORNN_BF16) ||
        cublasCreate(&l.blas) != CUBLAS_STATUS_SUCCESS ||
        cublasLtCreate(&l.lt) != CUBLAS_STATUS_SUCCESS)
        return false;
    const start from = {(char *)gpu_random(desc->type, ACCS * H * H, 1 / sqrt((double)H)),
                        (char *)gpu_random(desc->type, N * H, 1),
                        (float *)gpu_random(ECORNN_F32, RING * N * ACCS * H, 1),
                        (float *)gpu_random(ECORNN_F32, N * H, 1)};
    l.r = (char *)gpu_random(desc->type, ACCS * H * H, 1);
    l.h[0] = (char *)gpu_random(desc->type, N * H, 1);
    l.h[1] = (char *)gpu_random(desc->type, N * H, 1);
    l.y = (char *)gpu_random(desc->type, STEPS * N * H, 1);
    l.acc = (float *)gpu_random(ECORNN_F32, RING * N * ACCS * H, 1);
    l.c = (float *)gpu_random(ECORNN_F32, N * H, 1);
    gpu_check(cudaMalloc(&l.workspace, workspace_bytes), "memory");
    float *should = last_state(&l, &from, stream);
    for (int k = 0; k < LAYOUTS; k++) {
        l.minor = k / 2;
        l.turned = k % 2;
        time[k] = measure(&l, &from, should, stream);
    }
    free(should);
    void *const block[] = {from.r, from.h, from.acc, from.c, l.r,        l.h[0],
                           l.h[1], l.y,    l.acc,    l.c,    l.workspace};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        cudaFree(block[i]);
    cublasLtDestroy(l.lt);
    cublasDestroy(l.blas);
    return true;
}
