/*
 * One product: offered to several methods, the last of which is cuBLAS, for some in pieces along k.
 */
#include "gpu/gemm/bytes/bytes.h"
#include "gpu/gemm/emulated_f32/emulated_f32.h"
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"

#include <cublasLt.h>

/* Factors of a product and of the previous C, in host or in device memory. */
struct factors {
    const void *alpha, *beta;
    cublasPointerMode_t mode;
};

static struct factors factors_of(const struct eco_gpu_run *run, const struct eco_product *p)
{
    static const double ones = 1, zeros = 0;
    static const float one = 1, zero = 0;
    const struct eco_scaled_f16 *scaled = p->scaled;
    if (scaled != NULL)
        return (struct factors){&scaled->scalars->inverse[scaled->k],
                                p->add ? &scaled->scalars->one : &scaled->scalars->zero,
                                CUBLAS_POINTER_MODE_DEVICE};
    if (run->layout->type == ECORNN_F64)
        return (struct factors){&ones, p->add ? &ones : &zeros, CUBLAS_POINTER_MODE_HOST};
    return (struct factors){&one, p->add ? &one : &zero, CUBLAS_POINTER_MODE_HOST};
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

/* A product; like cuBLAS, cuBLASLt counts columns first. */
struct lt_product {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
};

static bool describe(const struct eco_gpu_run *run, const struct eco_product *p,
                     struct lt_product *lt)
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
               {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &share, sizeof share},
               {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
               {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias},
               {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type}};
    enum { ALL = sizeof all / sizeof *all, OF_BIAS = 3 };
    const size_t count = p->bias != NULL ? ALL : ALL - OF_BIAS;
    bool good = cublasLtMatmulDescInit(&lt->product, eco_gpu_compute_type(run->problem, p->scaled),
                                       CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < count; i++)
        good = good && cublasLtMatmulDescSetAttribute(&lt->product, all[i].attribute, all[i].value,
                                                      all[i].bytes) == CUBLAS_STATUS_SUCCESS;
    return good;
}

/* The first k terms. */
static bool arrange(const struct eco_gpu_run *run, const struct eco_product *p, int32_t k,
                    struct lt_product *lt)
{
    const cudaDataType type = eco_gpu_cuda_type(p->scaled ? ECORNN_F16 : run->layout->type);
    const uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, terms = (uint64_t)k;
    const bool nt = p->kind == ECO_NT, tn = p->kind == ECO_TN;
    return cublasLtMatrixLayoutInit(&lt->a, type, nt ? terms : n, nt ? n : terms,
                                    (int64_t)p->b_row) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&lt->b, type, tn ? m : terms, tn ? terms : m,
                                    (int64_t)p->a_row) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&lt->c, eco_gpu_cuda_type(p->c_type), n, m,
                                    (int64_t)p->c_row) == CUBLAS_STATUS_SUCCESS;
}

/* A cuBLAS handle is also one of cuBLASLt. */
static cublasLtHandle_t handle_of(const struct eco_gpu_run *run)
{
    return (cublasLtHandle_t)run->set->blas;
}

/*
 * The first k terms, with `bytes` of the run's room. cuBLASLt adds a bias as it writes the sums.
 * chosen: the kernel; NULL: cuBLASLt chooses it, by sizes and alignment, and remembers its choice.
 * False: it has none.
 */
static bool multiply_lt(struct eco_gpu_run *run, const struct eco_product *p, struct lt_product *lt,
                        const cublasLtMatmulAlgo_t *chosen, size_t bytes)
{
    const struct factors factors = factors_of(run, p);
    const cublasStatus_t status = cublasLtMatmul(
        handle_of(run), &lt->product, factors.alpha, p->b, &lt->a, p->a, &lt->b, factors.beta, p->c,
        &lt->c, p->c, &lt->c, chosen, run->blas.room, bytes, run->stream);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        return false;
    run->status = eco_cublas_status(status, "a product");
    eco_launch_concurrent(&run->launch);
    return true;
}

/* What a kernel may use. */
struct allowed {
    size_t room;
    uintptr_t alignment;
    uint32_t reductions; /* how sums that are split along k are added */
};

/* The largest power of two that divides the address, as far as it matters. */
static uint32_t alignment(const void *data, uintptr_t most)
{
    const uintptr_t at = (uintptr_t)data | most;
    return (uint32_t)(at & -at);
}

/* Asks for the kernel that cuBLAS would take. */
static bool choose(const struct eco_gpu_run *run, const struct eco_product *p,
                   struct lt_product *lt, const struct allowed *allowed,
                   cublasLtMatmulHeuristicResult_t *choice)
{
    const uint32_t a = alignment(p->b, allowed->alignment), b = alignment(p->a, allowed->alignment),
                   c = alignment(p->c, allowed->alignment);
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } request[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &allowed->room, sizeof allowed->room},
                   {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &allowed->reductions,
                    sizeof allowed->reductions},
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
    return good &&
           cublasLtMatmulAlgoGetHeuristic(handle_of(run), &lt->product, &lt->a, &lt->b, &lt->c,
                                          &lt->c, &preference, 1, choice,
                                          &count) == CUBLAS_STATUS_SUCCESS &&
           count > 0;
}

/* By that kernel, if it needs no more than `room` bytes: cuBLAS, given less, takes one that is up
 * to twice as slow. */
static bool multiply_splitting(struct eco_gpu_run *run, const struct eco_product *p, size_t room)
{
    static const struct allowed all = {ECO_SPLITTING_BYTES, ECO_ROOM_ALIGNMENT,
                                       CUBLASLT_REDUCTION_SCHEME_MASK};
    struct lt_product lt;
    cublasLtMatmulHeuristicResult_t choice;
    return p->c_type == ECORNN_F32 && describe(run, p, &lt) && arrange(run, p, p->k, &lt) &&
           choose(run, p, &lt, &all, &choice) && choice.workspaceSize <= room &&
           multiply_lt(run, p, &lt, &choice.algo, choice.workspaceSize);
}

enum { WHOLE = 16 /* bytes that a kernel loads at once */ };

/* An address that is aligned as all rows of a matrix are. */
static const void *as_aligned(const void *data, size_t row, ecornn_type type)
{
    return (const void *)((uintptr_t)data | row * eco_type_bytes(type));
}

/* The shortest rows of some columns that are aligned like `row`. */
static size_t shortest_row(int32_t columns, size_t row, ecornn_type type)
{
    const size_t whole = alignment(as_aligned(NULL, row, type), WHOLE) / eco_type_bytes(type);
    return ((size_t)columns + whole - 1) / whole * whole;
}

/* By the kernel for many rows, whatever their number and the distance between them, without sums
 * that are split. */
static void multiply_fixed(struct eco_gpu_run *run, const struct eco_product *p)
{
    enum { MANY = 4096 };
    static const struct allowed apart = {0, WHOLE, CUBLASLT_REDUCTION_SCHEME_NONE};
    struct eco_product many = *p;
    struct lt_product lt;
    cublasLtMatmulHeuristicResult_t choice;
    many.m = MANY;
    many.a_row = shortest_row(p->k, p->a_row, run->layout->type);
    many.c_row = shortest_row(p->n, p->c_row, p->c_type);
    many.a = as_aligned(p->a, p->a_row, run->layout->type);
    many.b = as_aligned(p->b, p->b_row, run->layout->type);
    many.c = (void *)(uintptr_t)as_aligned(p->c, p->c_row, p->c_type);
    if (run->status != ECORNN_OK || p->m == 0 || p->n == 0)
        return;
    if (!describe(run, p, &lt) || !arrange(run, &many, p->k, &lt) ||
        !choose(run, &many, &lt, &apart, &choice) || !arrange(run, p, p->k, &lt) ||
        !multiply_lt(run, p, &lt, &choice.algo, 0))
        run->status = eco_gpu_services->fail(
            ECORNN_UNSUPPORTED, "cuBLAS has no kernel for a row-invariant product of %d terms",
            p->k);
}

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

static void give_room(struct eco_gpu_run *run, size_t bytes)
{
    if (run->status != ECORNN_OK || bytes == run->blas.room_bytes)
        return;
    run->status = ECO_CUBLAS(cublasSetWorkspace(run->set->blas, run->blas.room, bytes));
    run->blas.room_bytes = bytes;
}

static void take_share(struct eco_gpu_run *run, int share)
{
    if (run->status != ECORNN_OK || share == run->blas.share)
        return;
    run->status = ECO_CUBLAS(cublasSetSmCountTarget(run->set->blas, share));
    run->blas.share = share;
}

/* With C in 16 bits, sums over parts of k are rounded once, instead of once for each part. Not for
 * F32, where cuBLAS would choose slower kernels. */
static cublasMath_t math_of(const struct eco_product *p)
{
    return eco_type_narrow(p->c_type)
               ? (cublasMath_t)((int)CUBLAS_DEFAULT_MATH |
                                (int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)
               : CUBLAS_DEFAULT_MATH;
}

/* cuBLAS counts columns first, so it computes our C^T = B A with exchanged operands. */
static void multiply_whole(struct eco_gpu_run *run, const struct eco_product *p)
{
    const struct factors factors = factors_of(run, p);
    const cudaDataType type = eco_gpu_cuda_type(p->scaled != NULL ? ECORNN_F16 : run->layout->type);
    if (run->status != ECORNN_OK || p->m == 0 || p->n == 0)
        return;
    if (eco_gpu_has_some_room(run, p) &&
        multiply_splitting(run, p, run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT))
        return;
    give_room(run, eco_gpu_room_for(run, p));
    take_share(run, eco_gpu_share(run, p->m > ECO_MANY_ROWS || p->kind == ECO_TN));
    if (run->status != ECORNN_OK)
        return;
    eco_launch_concurrent(&run->launch);
    run->status = ECO_CUBLAS(cublasSetPointerMode(run->set->blas, factors.mode));
    if (run->status == ECORNN_OK)
        run->status = ECO_CUBLAS(cublasSetMathMode(run->set->blas, math_of(p)));
    if (run->status != ECORNN_OK)
        return;
    const cublasOperation_t first = p->kind == ECO_NT ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = p->kind == ECO_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType c_type = eco_gpu_cuda_type(p->c_type);
    const cublasComputeType_t compute = eco_gpu_compute_type(run->problem, p->scaled);
    if (p->slices > 1) {
        const int32_t k = p->k / p->slices;
        const long long a_step = p->kind == ECO_TN ? k * (long long)p->a_row : k,
                        b_step = p->kind == ECO_NT ? k : k * (long long)p->b_row;
        run->status = eco_cublas_status(
            cublasGemmStridedBatchedEx(run->set->blas, first, second, p->n, p->m, k, factors.alpha,
                                       p->b, type, (int)p->b_row, b_step, p->a, type, (int)p->a_row,
                                       a_step, factors.beta, p->c, c_type, (int)p->c_row,
                                       p->m * (long long)p->c_row, p->slices, compute,
                                       CUBLAS_GEMM_DEFAULT),
            "a product in slices");
        return;
    }
    run->status = eco_cublas_status(cublasGemmEx(run->set->blas, first, second, p->n, p->m, p->k,
                                                 factors.alpha, p->b, type, (int)p->b_row, p->a,
                                                 type, (int)p->a_row, factors.beta, p->c, c_type,
                                                 (int)p->c_row, compute, CUBLAS_GEMM_DEFAULT),
                                    "a product");
}

/* The product without its first k terms, added to C. */
static struct eco_product without(const struct eco_gpu_run *run, const struct eco_product *p,
                                  int32_t k)
{
    const ecornn_type type = p->scaled != NULL ? ECORNN_F16 : run->layout->type;
    const size_t a_step = p->kind == ECO_TN ? p->a_row : 1,
                 b_step = p->kind == ECO_NT ? 1 : p->b_row;
    struct eco_product rest = *p;
    rest.k = p->k - k;
    rest.a = eco_gpu_after(p->a, (size_t)k * a_step, type);
    rest.b = eco_gpu_after(p->b, (size_t)k * b_step, type);
    rest.add = true;
    rest.bias = NULL;
    return rest;
}

static void multiply_pieces(struct eco_gpu_run *run, const struct eco_product *p)
{
    const int32_t most = p->piece > 0 ? p->piece : eco_gpu_piece(run, p);
    struct eco_product rest = *p;
    while (rest.k > most) {
        struct eco_product piece = rest;
        piece.k = most;
        multiply_whole(run, &piece);
        rest = without(run, &rest, most);
    }
    multiply_whole(run, &rest);
}

/* ---- all methods ----------------------------------------------------------------------------- */

/* Only the first piece adds the bias. */
static bool multiply_biased(struct eco_gpu_run *run, const struct eco_product *p)
{
    const int32_t piece = eco_gpu_piece(run, p);
    struct lt_product lt;
    if (run->status != ECORNN_OK || p->kind != ECO_NT || p->c_type != ECORNN_F32 ||
        !describe(run, p, &lt) || !arrange(run, p, piece, &lt) ||
        !multiply_lt(run, p, &lt, NULL, eco_gpu_room_of_many(run, p->scaled)))
        return false;
    if (piece < p->k) {
        struct eco_product rest = without(run, p, piece);
        rest.piece = piece;
        eco_gpu_product(run, &rest);
    }
    return true;
}

/* A kernel that others may overlap has itself waited for those that pack weights. */
static void multiply_bytes(struct eco_gpu_run *run, const struct eco_product *p)
{
    const bool overlap = eco_launch_after(&run->launch);
    const struct eco_bytes_product product = {.a = p->a,
                                              .scale = p->scales,
                                              .bias = p->bias,
                                              .b = p->b,
                                              .c = p->c,
                                              .a_row = p->a_row,
                                              .b_row = p->b_row,
                                              .c_row = p->c_row,
                                              .m = p->m,
                                              .n = p->n,
                                              .k = p->k,
                                              .add = p->add};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_bytes_product(&product, overlap, run->stream),
                          "a product with integers");
}

bool eco_gpu_product(struct eco_gpu_run *run, const struct eco_product *p)
{
    if (p->scales != NULL) {
        multiply_bytes(run, p);
        return true;
    }
    if (p->bias == NULL && eco_gpu_grouped_product(run, p))
        return true;
    if (eco_gpu_is_fixed(run, p)) {
        multiply_fixed(run, p);
        return true;
    }
    if (eco_gpu_product_emulated(run, p))
        return true;
    if (p->bias != NULL)
        return multiply_biased(run, p);
    multiply_pieces(run, p);
    return true;
}
