/*
 * The input product of many steps: accumulators = W x + b, through cuBLASLt, which adds biases
 * where it writes sums.  What it does not do is done in two: biases filled in, then a product that
 * adds.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/packed_weights.h"
#include "gpu/gemm/emulated_f32/emulated_f32.h"

#include <cublasLt.h>

/* ---- biases by themselves -------------------------------------------------------------------- */

int eco_gpu_bias(const struct eco_gpu_run *run, int a)
{
    const int param = run->lowered->acc[a].vector;
    return param < 0 ? -1 : eco_vector_number(&run->problem->cell->recipe, param);
}

/* acc = bias, 0 without one, of accumulators first to end - 1. */
static void fill_bias(struct eco_gpu_run *run, const struct eco_op *op, struct eco_plane acc,
                      int32_t rows, int first, int end)
{
    struct eco_columns_call call = {
        .rows_of = acc,
        .vectors = (void *)(uintptr_t)eco_gpu_weights(run, op, ECO_PART_VECTORS),
        .vector_type = acc.type,
        .rows = rows,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .groups = end - first};
    call.rows_of.data =
        eco_gpu_after(acc.data, (size_t)first * (size_t)eco_gpu_column(run), acc.type);
    for (int a = first; a < end; a++)
        call.place[a - first] = (int16_t)eco_gpu_bias(run, a);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_fill(&call, run->stream), "filling in biases");
}

/* ---- products with biases -------------------------------------------------------------------- */

/* The biases of the span, one behind the other; NULL: they are not as accumulators are, or some
 * have none. */
static const void *biases_of(const struct eco_gpu_run *run, const struct eco_op *op,
                             const struct eco_span *span)
{
    const int first = eco_gpu_bias(run, span->first);
    if (eco_gpu_column(run) != run->problem->H)
        return NULL;
    for (int a = span->first; a < span->end; a++)
        if (first < 0 || eco_gpu_bias(run, a) != first + a - span->first)
            return NULL;
    return eco_gpu_after(eco_gpu_weights(run, op, ECO_PART_VECTORS),
                         (size_t)first * (size_t)run->problem->H, run->layout->sum);
}

/* What cuBLASLt is asked: as cuBLAS, it counts columns first. */
struct question {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    const void *a_data, *b_data;
    void *c_data;
};

static bool describe(const struct eco_gpu_run *run, const struct eco_matmul *m, const void *biases,
                     struct question *q)
{
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const int32_t type = CUDA_R_32F, share = eco_gpu_share(run, true),
                  mode = m->half ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
    return cublasLtMatmulDescInit(&q->product, eco_gpu_compute_type(run->problem, m->half),
                                  CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(&q->product, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode,
                                          sizeof mode) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(&q->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                          sizeof transposed) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(&q->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                          sizeof epilogue) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(&q->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &biases,
                                          sizeof biases) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(&q->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                          sizeof type) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(&q->product, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &share,
                                          sizeof share) == CUBLAS_STATUS_SUCCESS;
}

static bool arrange(const struct eco_gpu_run *run, const struct eco_matmul *m,
                    const struct eco_span *span, int32_t columns, struct question *q)
{
    const struct eco_matrix matrix = *eco_layout_matrix(run->layout, m->op->layer, m->part);
    const uint64_t n = (uint64_t)(span->end - span->first) * (uint64_t)matrix.height;
    const uint64_t k = (uint64_t)columns, rows = (uint64_t)m->rows;
    const ecornn_type of = m->half ? ECORNN_F16 : run->layout->type;
    const cudaDataType type = eco_gpu_cuda_type(of);
    q->a_data =
        eco_gpu_after(m->half ? m->half->weights : eco_gpu_weights(run, m->op, m->part),
                      (size_t)span->before * (size_t)matrix.height * (size_t)matrix.row, of);
    q->b_data = m->a;
    q->c_data = eco_gpu_after(m->c, (size_t)span->first * (size_t)matrix.height, run->layout->sum);
    return cublasLtMatrixLayoutInit(&q->a, type, k, n, (int64_t)matrix.row) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&q->b, type, k, rows, (int64_t)m->a_row) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&q->c, CUDA_R_32F, n, rows, (int64_t)m->c_row) ==
               CUBLAS_STATUS_SUCCESS;
}

/* The largest power of two that the address is a multiple of, as far as it matters. */
static uint32_t alignment(const void *data)
{
    const uintptr_t at = (uintptr_t)data | ECO_ROOM_ALIGNMENT;
    return (uint32_t)(at & -at);
}

static bool choose(const struct question *q, cublasLtHandle_t handle, size_t room,
                   cublasLtMatmulHeuristicResult_t *choice)
{
    const uint32_t a = alignment(q->a_data), b = alignment(q->b_data), c = alignment(q->c_data);
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c}};
    cublasLtMatmulPreferenceOpaque_t preference;
    int count = 0;
    bool good = cublasLtMatmulPreferenceInit(&preference) == CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        good = good && cublasLtMatmulPreferenceSetAttribute(&preference, wishes[i].attribute,
                                                            wishes[i].value, wishes[i].bytes) ==
                           CUBLAS_STATUS_SUCCESS;
    struct question asked = *q; /* is not changed, but not declared so */
    return good &&
           cublasLtMatmulAlgoGetHeuristic(handle, &asked.product, &asked.a, &asked.b, &asked.c,
                                          &asked.c, &preference, 1, choice,
                                          &count) == CUBLAS_STATUS_SUCCESS &&
           count > 0;
}

/* With so many columns of the weights.  False: it has no such product. */
static bool multiply_biased(struct eco_gpu_run *run, const struct eco_matmul *m,
                            const struct eco_span *span, int32_t columns)
{
    /* A handle of cuBLAS is one of cuBLASLt, too. */
    const cublasLtHandle_t handle = (cublasLtHandle_t)run->set->blas;
    const void *biases = biases_of(run, m->op, span);
    const float one = 1, zero = 0;
    const struct eco_half_scalars *scalars = m->half ? m->half->scalars : NULL;
    struct question q;
    cublasLtMatmulHeuristicResult_t choice;
    const size_t bytes = eco_gpu_room_of_many(run, m->half);
    if (run->layout->sum != ECORNN_F32 || biases == NULL || !describe(run, m, biases, &q) ||
        !arrange(run, m, span, columns, &q) || !choose(&q, handle, bytes, &choice))
        return false;
    run->status = eco_cublas_status(
        cublasLtMatmul(handle, &q.product, scalars ? &scalars->inverse[m->half->k] : &one, q.a_data,
                       &q.a, q.b_data, &q.b, scalars ? &scalars->zero : &zero, q.c_data, &q.c,
                       q.c_data, &q.c, &choice.algo, run->room, bytes, run->stream),
        "an input product");
    eco_gpu_queued(run);
    return true;
}

/* The same in one go, of split operands. */
static bool multiply_split(struct eco_gpu_run *run, const struct eco_matmul *m,
                           const struct eco_span *span)
{
    const struct eco_matrix matrix = *eco_layout_matrix(run->layout, m->op->layer, m->part);
    const size_t height = (size_t)matrix.height, row = (size_t)matrix.row;
    const struct eco_product product = {
        .kind = ECO_NT,
        .m = m->rows,
        .n = (span->end - span->first) * matrix.height,
        .k = eco_gpu_columns(run, m),
        .a = m->a,
        .b = eco_gpu_after(eco_gpu_weights(run, m->op, m->part),
                           (size_t)span->before * height * row, run->layout->type),
        .c = eco_gpu_after(m->c, (size_t)span->first * height, run->layout->sum),
        .a_row = m->a_row,
        .b_row = row,
        .c_row = m->c_row};
    const float *biases = biases_of(run, m->op, span);
    return biases != NULL && eco_gpu_product_split(run, &product, biases);
}

/* All accumulators: those of a product, and those before, between and after them. */
static void multiply_all(struct eco_gpu_run *run, const struct eco_matmul *m, struct eco_plane acc)
{
    struct eco_matmul rest = *m;
    struct eco_half half;
    struct eco_span span;
    int done = 0;
    eco_gpu_half_input(run, &rest, &half);
    const int32_t columns = eco_gpu_columns(run, &rest);
    const int32_t piece =
        eco_gpu_piece(run, &(struct eco_product){.kind = ECO_NT, .m = m->rows, .k = columns});
    rest.add = true;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end) {
        fill_bias(run, m->op, acc, m->rows, done, span.first);
        done = span.end;
        if (run->status != ECORNN_OK || m->rows == 0)
            continue;
        rest.skip = multiply_split(run, m, &span)               ? columns
                    : multiply_biased(run, &rest, &span, piece) ? piece
                                                                : 0;
        if (rest.skip == 0)
            fill_bias(run, m->op, acc, m->rows, span.first, span.end);
        if (rest.skip < columns)
            eco_gpu_multiply_span(run, &rest, &span);
    }
    fill_bias(run, m->op, acc, m->rows, done, run->lowered->n_accs);
}

/* ---- the operation --------------------------------------------------------------------------- */

void eco_gpu_input(struct eco_gpu_run *run, const struct eco_op *op)
{
    /* What queues all steps at once adds the biases itself. */
    const bool biased = !eco_gpu_at_once(run, ECO_STEP);
    const struct eco_array array =
        eco_layout_scratch(run->layout, false, op->layer, op->d, ECO_SCRATCH_ACC);
    const struct eco_plane acc = eco_gpu_plane(run, &array, 0);
    const struct eco_plane x = eco_gpu_product_input(run, op);
    struct eco_matmul matmul = {.op = op,
                                .part = ECO_PART_INPUT,
                                .rows = (op->t1 - op->t0) * run->args->N,
                                .a = x.data,
                                .a_row = x.row,
                                .c = acc.data,
                                .c_row = acc.row};
    struct eco_half half;
    if (biased) {
        multiply_all(run, &matmul, acc);
    } else {
        eco_gpu_half_input(run, &matmul, &half);
        eco_gpu_multiply(run, &matmul);
    }
}
