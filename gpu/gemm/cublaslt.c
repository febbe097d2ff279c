/*
 * Products through cuBLASLt: it adds a bias as it writes the sums, and says how much room the
 * kernel that it chooses needs.
 */
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"

#include <cublasLt.h>

/* The arguments of a search; like cuBLAS, cuBLASLt counts columns first. */
struct question {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

static bool describe(const struct eco_gpu_run *run, const struct eco_product *p, struct question *q)
{
    const cublasOperation_t first = p->kind == ECO_NT ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = p->kind == ECO_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        p->bias != NULL ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const int32_t share = eco_gpu_share(run, true),
                  mode = p->scaled ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST,
                  type = CUDA_R_32F;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t bytes;
    } all[] = {{CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode},
               {CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first},
               {CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second},
               {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
               {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias},
               {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type},
               {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &share, sizeof share}};
    bool good = cublasLtMatmulDescInit(&q->product, eco_gpu_compute_type(run->problem, p->scaled),
                                       CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        good = good && cublasLtMatmulDescSetAttribute(&q->product, all[i].attribute, all[i].value,
                                                      all[i].bytes) == CUBLAS_STATUS_SUCCESS;
    return good;
}

/* The first k terms. */
static bool arrange(const struct eco_gpu_run *run, const struct eco_product *p, int32_t k,
                    struct question *q)
{
    const cudaDataType type = eco_gpu_cuda_type(p->scaled ? ECORNN_F16 : run->layout->type);
    const uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, terms = (uint64_t)k;
    const bool nt = p->kind == ECO_NT, tn = p->kind == ECO_TN;
    return cublasLtMatrixLayoutInit(&q->a, type, nt ? terms : n, nt ? n : terms,
                                    (int64_t)p->b_row) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&q->b, type, tn ? m : terms, tn ? terms : m,
                                    (int64_t)p->a_row) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&q->c, CUDA_R_32F, n, m, (int64_t)p->c_row) ==
               CUBLAS_STATUS_SUCCESS;
}

/* The largest power of two that divides the address, as far as it matters. */
static uint32_t alignment(const void *data)
{
    const uintptr_t at = (uintptr_t)data | ECO_ROOM_ALIGNMENT;
    return (uint32_t)(at & -at);
}

static bool choose(const struct eco_product *p, const struct question *q, cublasLtHandle_t handle,
                   size_t room, cublasLtMatmulHeuristicResult_t *choice)
{
    const uint32_t a = alignment(p->b), b = alignment(p->a), c = alignment(p->c);
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } request[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c}};
    cublasLtMatmulPreferenceOpaque_t preference;
    int count = 0;
    bool good = cublasLtMatmulPreferenceInit(&preference) == CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof request / sizeof *request; i++)
        good = good && cublasLtMatmulPreferenceSetAttribute(&preference, request[i].attribute,
                                                            request[i].value, request[i].bytes) ==
                           CUBLAS_STATUS_SUCCESS;
    struct question asked = *q; /* not modified, although not declared const */
    return good &&
           cublasLtMatmulAlgoGetHeuristic(handle, &asked.product, &asked.a, &asked.b, &asked.c,
                                          &asked.c, &preference, 1, choice,
                                          &count) == CUBLAS_STATUS_SUCCESS &&
           count > 0;
}

bool eco_gpu_product_splitting(struct eco_gpu_run *run, const struct eco_product *p, size_t room)
{
    const cublasLtHandle_t handle = (cublasLtHandle_t)run->set->blas;
    const float one = 1, beta = p->add ? 1 : 0;
    struct question q;
    cublasLtMatmulHeuristicResult_t choice;
    if (p->c_type != ECORNN_F32 || !describe(run, p, &q) || !arrange(run, p, p->k, &q) ||
        !choose(p, &q, handle, ECO_SPLITTING_BYTES, &choice) || choice.workspaceSize > room)
        return false;
    eco_launch_concurrent(&run->launch);
    run->status = eco_cublas_status(
        cublasLtMatmul(handle, &q.product, &one, p->b, &q.a, p->a, &q.b, &beta, p->c, &q.c, p->c,
                       &q.c, &choice.algo, run->blas.room, choice.workspaceSize, run->stream),
        "a product");
    return true;
}

bool eco_gpu_product_lt(struct eco_gpu_run *run, const struct eco_product *p)
{
    /* A cuBLAS handle is also a cuBLASLt handle. */
    const cublasLtHandle_t handle = (cublasLtHandle_t)run->set->blas;
    const float one = 1, zero = 0;
    const struct eco_scaled_f16_scalars *scalars = p->scaled ? p->scaled->scalars : NULL;
    struct question q;
    cublasLtMatmulHeuristicResult_t choice;
    const size_t bytes = eco_gpu_room_of_many(run, p->scaled);
    const int32_t piece = eco_gpu_piece(run, p);
    if (p->bias == NULL || p->kind != ECO_NT || p->c_type != ECORNN_F32 || !describe(run, p, &q) ||
        !arrange(run, p, piece, &q) || !choose(p, &q, handle, bytes, &choice))
        return false;
    run->status = eco_cublas_status(
        cublasLtMatmul(handle, &q.product, scalars ? &scalars->inverse[p->scaled->k] : &one, p->b,
                       &q.a, p->a, &q.b, scalars ? &scalars->zero : &zero, p->c, &q.c, p->c, &q.c,
                       &choice.algo, run->blas.room, bytes, run->stream),
        "an input product");
    eco_launch_concurrent(&run->launch);
    return true;
}
