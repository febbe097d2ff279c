/*
 * Products with dense weights, through cuBLAS: one call for every run of neighbouring accumulators.
 * Sums are kept in float at least.
 */
#include "gpu/gpu.h"

/* As in a textbook, rows one behind the other: kind says which operand is transposed. */
enum kind {
    NT, /* C[m,n] += A[m,k] B[n,k]^T */
    NN, /* C[m,n] += A[m,k] B[k,n] */
    TN  /* C[m,n] += A[k,m]^T B[k,n] */
};

struct product {
    enum kind kind;
    int32_t m, n, k;
    const void *a, *b;
    void *c;
    size_t a_row, b_row, c_row;
    ecornn_type c_type; /* of A and B: that of rows */
    bool add;
};

cudaDataType eco_gpu_cuda_type(ecornn_type type)
{
    static const cudaDataType of[ECO_TYPES] = {[ECORNN_F32] = CUDA_R_32F,
                                               [ECORNN_F64] = CUDA_R_64F,
                                               [ECORNN_BF16] = CUDA_R_16BF,
                                               [ECORNN_F16] = CUDA_R_16F};
    return of[type];
}

/* Sums are kept in float at least; of F32 the operands, too, unless asked otherwise. */
cublasComputeType_t eco_gpu_compute_type(const struct eco_problem *problem)
{
    if (problem->type == ECORNN_F64)
        return CUBLAS_COMPUTE_64F_PEDANTIC;
    if (problem->type != ECORNN_F32)
        return CUBLAS_COMPUTE_32F;
    return problem->fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F_PEDANTIC;
}

/* ---- room ------------------------------------------------------------------------------------ */

bool eco_gpu_is_short(int32_t rows, double work)
{
    return rows <= 16 && work < 32e6;
}

/* Is the product faster with the kernels that cuBLAS takes where it has ECO_SPLITTING_BYTES?  Of
 * F32 only; measured (doc/performance.md). */
static bool splits(const struct eco_problem *problem, const struct product *p)
{
    enum { MANY_ROWS = 512 };
    if (p->kind == TN)
        return true;
    if (eco_gpu_is_short(p->m, (double)p->m * p->n * p->k))
        return false;
    if (problem->fast)
        return p->m <= MANY_ROWS && p->k > p->n;
    return p->m <= MANY_ROWS || p->kind == NN;
}

/* Below that limit it makes no difference how much. */
size_t eco_gpu_room_of_many(const struct eco_gpu_run *run)
{
    enum { ENOUGH = 2 << 20 };
    const size_t all = run->layout->wishes.product_bytes;
    return all <= ECO_SPLITTING_BYTES ? all - ECO_ROOM_ALIGNMENT : ENOUGH;
}

/* How much of the room it gets. */
static size_t room_for(const struct eco_gpu_run *run, const struct product *p)
{
    const bool has_more = run->layout->wishes.product_bytes > ECO_SPLITTING_BYTES;
    return has_more && splits(run->problem, p) ? ECO_SPLITTING_BYTES : eco_gpu_room_of_many(run);
}

static void give_room(struct eco_gpu_run *run, size_t bytes)
{
    if (run->status != ECORNN_OK || bytes == run->room_bytes)
        return;
    run->status = ECO_CUBLAS(cublasSetWorkspace(run->set->blas, run->room, bytes));
    run->room_bytes = bytes;
}

/* ---- one product ----------------------------------------------------------------------------- */

/*
 * A sum of floats loses with the number of its terms.  So in products of many rows in F32 in full
 * only so many are added at once, and the sums of pieces in C; measured (doc/performance.md), as is
 * that few rows need it not: there cuBLAS splits sums itself.
 */
int32_t eco_gpu_piece(const struct eco_gpu_run *run, int32_t rows, int32_t k, bool back)
{
    enum { MANY_ROWS = 512, WHOLE = 1024, FORWARD = 512, BACK = 256, MULTIPLE = 4 };
    const int32_t most = back ? BACK : FORWARD, whole = back ? BACK : WHOLE;
    if (run->layout->type != ECORNN_F32 || run->problem->fast || rows <= MANY_ROWS || k <= whole)
        return k;
    const int32_t pieces = (k + most - 1) / most, each = (k + pieces - 1) / pieces;
    return (each + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

/* cuBLAS counts columns first: what it calls C is our C^T = B A, so the operands change places. */
static void multiply_at_once(struct eco_gpu_run *run, const struct product *p)
{
    const double one = 1, zero = 0;
    const float onef = 1, zerof = 0;
    const ecornn_type type = run->layout->type;
    const bool wide = type == ECORNN_F64;
    const void *alpha = wide ? (const void *)&one : (const void *)&onef;
    const void *beta = p->add ? alpha : wide ? (const void *)&zero : (const void *)&zerof;
    if (run->status != ECORNN_OK || p->m == 0 || p->n == 0)
        return;
    give_room(run, room_for(run, p));
    if (run->status != ECORNN_OK)
        return;
    run->overlap = true;
    run->status = eco_cublas_status(
        cublasGemmEx(run->set->blas, p->kind == NT ? CUBLAS_OP_T : CUBLAS_OP_N,
                     p->kind == TN ? CUBLAS_OP_T : CUBLAS_OP_N, p->n, p->m, p->k, alpha, p->b,
                     eco_gpu_cuda_type(type), (int)p->b_row, p->a, eco_gpu_cuda_type(type),
                     (int)p->a_row, beta, p->c, eco_gpu_cuda_type(p->c_type), (int)p->c_row,
                     eco_gpu_compute_type(run->problem), CUBLAS_GEMM_DEFAULT),
        "a product");
}

static void multiply(struct eco_gpu_run *run, const struct product *p)
{
    const int32_t most = p->kind == TN ? p->k : eco_gpu_piece(run, p->m, p->k, p->kind == NN);
    struct product piece = *p;
    piece.k = most;
    for (int32_t k = most; k < p->k; k += most) {
        multiply_at_once(run, &piece);
        piece.k = p->k - k < most ? p->k - k : most;
        piece.a = eco_gpu_after(p->a, (size_t)k, run->layout->type);
        piece.b =
            eco_gpu_after(p->b, (size_t)k * (p->kind == NT ? 1 : p->b_row), run->layout->type);
        piece.add = true;
    }
    multiply_at_once(run, &piece);
}

/* Room of its own for every lane: what a graph keeps must not lie where another run writes. */
void *eco_gpu_room(const struct eco_gpu_run *run, const struct eco_op *op, size_t *bytes)
{
    const struct eco_array room =
        eco_layout_scratch(run->layout, run->args->backward, op->layer, op->d, ECO_SCRATCH_PRODUCT);
    const uintptr_t at = (uintptr_t)eco_gpu_at(run, &room, 0);
    const uintptr_t aligned =
        (at + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT * ECO_ROOM_ALIGNMENT;
    *bytes = run->layout->wishes.product_bytes - (aligned - at);
    return (void *)aligned;
}

void eco_gpu_point_at_stream(struct eco_gpu_run *run, const struct eco_op *op, cudaStream_t stream)
{
    size_t bytes;
    run->room = eco_gpu_room(run, op, &bytes);
    run->room_bytes = 0; /* a stream takes it away */
    run->stream = stream;
    run->overlap = false;
    if (run->status == ECORNN_OK)
        run->status = ECO_CUBLAS(cublasSetStream(run->set->blas, stream));
}

static void widen(struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const struct eco_array array =
        eco_layout_widened(run->layout, run->args->backward, op->layer, op->d, part);
    const struct eco_move_call call = {
        .to = eco_gpu_plane(run, &array, 0),
        .from = {.data = (char *)(uintptr_t)run->args->weights +
                         eco_layout_weights(run->layout, op->layer, op->d, part),
                 .row = array.row,
                 .type = run->layout->weight},
        .steps = 1,
        .rows = matrix->n * matrix->height,
        .width = matrix->row};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "widening weights");
}

static void turn(struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const struct eco_array array =
        eco_layout_turned(run->layout, run->args->backward, op->layer, op->d, part);
    const struct eco_turn_call call = {.to = eco_gpu_at(run, &array, 0),
                                       .from = eco_gpu_weights(run, op, part),
                                       .rows = matrix->n * matrix->height,
                                       .columns = matrix->row,
                                       .bytes = eco_type_bytes(array.type)};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_turn(&call, run->stream), "transposing R");
}

void eco_gpu_copy_weights(struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_wishes *wishes = &run->layout->wishes;
    for (int part = 0; part < ECO_PARTS && wishes->widened; part++)
        if (part != ECO_PART_VECTORS)
            widen(run, op, part);
    for (int part = ECO_PART_RECURRENT; part < ECO_PARTS && wishes->turned[run->args->backward];
         part++)
        turn(run, op, part);
}

static struct eco_matrix matrix_of(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    return *eco_layout_matrix(run->layout, m->op->layer, m->part);
}

/* Of the matrix, as products see it. */
int32_t eco_gpu_columns(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    return run->layout->wishes.filled && !m->narrow ? matrix.row : matrix.columns;
}

/* A part of the weights as products read it: transposed where there is such a copy. */
struct weights {
    const void *data;
    bool turned;
    size_t row;    /* elements from one of its rows to the next */
    size_t number; /* and from one of the matrix's n to the next */
};

static struct weights weights_of(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const bool backward = run->args->backward;
    const size_t height = (size_t)matrix.height, row = (size_t)matrix.row;
    if (!run->layout->wishes.turned[backward] || m->part < ECO_PART_RECURRENT)
        return (struct weights){eco_gpu_weights(run, m->op, m->part), false, row, height * row};
    const struct eco_array array =
        eco_layout_turned(run->layout, backward, m->op->layer, m->op->d, m->part);
    return (struct weights){eco_gpu_at(run, &array, 0), true, array.row, height};
}

void eco_gpu_multiply_span(struct eco_gpu_run *run, const struct eco_matmul *m,
                           const struct eco_span *span)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const struct weights weights = weights_of(run, m);
    struct product product = {.kind = weights.turned ? NN : NT,
                              .m = m->rows,
                              .k = eco_gpu_columns(run, m) - m->skip,
                              .a = eco_gpu_after(m->a, (size_t)m->skip, run->layout->type),
                              .a_row = m->a_row,
                              .b_row = weights.row,
                              .c_row = m->c_row,
                              .c_type = run->layout->sum,
                              .add = m->add};
    const size_t skipped = (size_t)m->skip * (weights.turned ? weights.row : 1);
    product.n = (span->end - span->first) * matrix.height;
    product.b = eco_gpu_after(weights.data, (size_t)span->before * weights.number + skipped,
                              run->layout->type);
    product.c = eco_gpu_after(m->c, (size_t)span->first * (size_t)matrix.height, run->layout->sum);
    multiply(run, &product);
}

void eco_gpu_multiply(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end)
        eco_gpu_multiply_span(run, m, &span);
}

void eco_gpu_multiply_back(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const struct weights weights = weights_of(run, m);
    struct product product = {.kind = weights.turned ? NT : NN,
                              .m = m->rows,
                              .n = eco_gpu_columns(run, m),
                              .a_row = m->a_row,
                              .b_row = weights.row,
                              .c = m->c,
                              .c_row = m->c_row,
                              .c_type =
                                  eco_type_bytes(m->c_type) == 2 ? m->c_type : run->layout->sum,
                              .add = m->add};
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end) {
        product.k = (span.end - span.first) * matrix.height;
        product.a =
            eco_gpu_after(m->a, (size_t)span.first * (size_t)matrix.height, run->layout->type);
        product.b =
            eco_gpu_after(weights.data, (size_t)span.before * weights.number, run->layout->type);
        multiply(run, &product);
        product.add = true;
    }
}

void eco_gpu_multiply_weights(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t height = (size_t)matrix.height, row = (size_t)matrix.row;
    char *gradient = (char *)run->args->dweights +
                     eco_layout_gradient(run->layout, m->op->layer, m->op->d, m->part);
    struct product product = {.kind = TN,
                              .n = eco_gpu_columns(run, m),
                              .k = m->rows,
                              .a_row = m->a_row,
                              .b = m->c,
                              .b_row = m->c_row,
                              .c_row = row,
                              .c_type = run->layout->sum,
                              .add = m->add};
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, m->part, a, &span); a = span.end) {
        product.m = (span.end - span.first) * matrix.height;
        product.a = eco_gpu_after(m->a, (size_t)span.first * height, run->layout->type);
        product.c = eco_gpu_after(gradient, (size_t)span.before * height * row, run->layout->sum);
        multiply(run, &product);
    }
}

void eco_gpu_clear_weights(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t elements = (size_t)matrix.n * (size_t)matrix.height * (size_t)matrix.row;
    char *gradient = (char *)run->args->dweights +
                     eco_layout_gradient(run->layout, m->op->layer, m->op->d, m->part);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(
            run,
            cudaMemsetAsync(gradient, 0, elements * eco_type_bytes(run->layout->sum), run->stream),
            "clearing gradients");
}
