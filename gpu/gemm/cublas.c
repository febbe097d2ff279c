/* Products through cuBLAS: how much memory and which share of the chip each gets, and which are cut
 * along k. */
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"

cudaDataType eco_gpu_cuda_type(ecornn_type type)
{
    static const cudaDataType of[ECO_TYPES] = {[ECORNN_F32] = CUDA_R_32F,
                                               [ECORNN_F64] = CUDA_R_64F,
                                               [ECORNN_BF16] = CUDA_R_16BF,
                                               [ECORNN_F16] = CUDA_R_16F};
    return of[type];
}

/* Sums are kept in F32 at least. F32 operands stay F32 too, unless the user allows fewer bits. */
cublasComputeType_t eco_gpu_compute_type(const struct eco_problem *problem,
                                         const struct eco_scaled_f16 *scaled)
{
    if (problem->type == ECORNN_F64)
        return CUBLAS_COMPUTE_64F_PEDANTIC;
    if (problem->type != ECORNN_F32 || scaled != NULL)
        return CUBLAS_COMPUTE_32F;
    return problem->fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F_PEDANTIC;
}

/* ---- room ------------------------------------------------------------------------------------ */

enum { MANY_ROWS = 512 }; /* of a product over many steps */

bool eco_gpu_is_short(int32_t rows, double work)
{
    return rows <= 16 && work < 32e6;
}

/* Is the product faster with the kernels that cuBLAS uses if it has ECO_SPLITTING_BYTES?
 * Only F32; measured on an H200. */
static bool splits(const struct eco_problem *problem, const struct eco_product *p)
{
    if (p->kind == ECO_TN)
        return true;
    if (eco_gpu_is_short(p->m, (double)p->m * p->n * p->k))
        return false;
    if (problem->fast)
        return p->m <= MANY_ROWS && p->k > p->n;
    return p->m <= MANY_ROWS || p->kind == ECO_NN;
}

/* Is there room for those kernels, at any alignment? */
static bool has_more(const struct eco_gpu_run *run)
{
    return run->layout->request.gpu.product_bytes >= ECO_SPLITTING_BYTES + ECO_ROOM_ALIGNMENT;
}

/* Below that limit the amount makes no difference. The operands of a product in F16 follow. */
size_t eco_gpu_room_of_many(const struct eco_gpu_run *run, const struct eco_scaled_f16 *scaled)
{
    return scaled != NULL || has_more(run)
               ? (size_t)ECO_ROOM_OF_MANY
               : run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT;
}

/* Is there less, which may be enough for the kernel that cuBLAS would choose? */
static bool has_some(const struct eco_gpu_run *run)
{
    return run->layout->request.gpu.steps_exchange && !has_more(run);
}

/* How much of the room the product gets. */
static size_t room_for(const struct eco_gpu_run *run, const struct eco_product *p)
{
    return p->scaled == NULL && has_more(run) && splits(run->problem, p)
               ? ECO_SPLITTING_BYTES
               : eco_gpu_room_of_many(run, p->scaled);
}

static void give_room(struct eco_gpu_run *run, size_t bytes)
{
    if (run->status != ECORNN_OK || bytes == run->blas.room_bytes)
        return;
    run->status = ECO_CUBLAS(cublasSetWorkspace(run->set->blas, run->blas.room, bytes));
    run->blas.room_bytes = bytes;
}

/* Every lane has room of its own: what a graph keeps must not be overwritten by another run. */
void *eco_gpu_room(const struct eco_gpu_run *run, const struct eco_op *op, size_t *bytes)
{
    const uintptr_t at =
        (uintptr_t)eco_bind_scratch(run->layout, run->args, op, ECO_SCRATCH_PRODUCT).first;
    const uintptr_t aligned =
        (at + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT * ECO_ROOM_ALIGNMENT;
    *bytes = run->layout->request.gpu.product_bytes - (aligned - at);
    return (void *)aligned;
}

void eco_gpu_point_at_stream(struct eco_gpu_run *run, const struct eco_op *op, cudaStream_t stream)
{
    size_t bytes;
    run->blas.room = eco_gpu_room(run, op, &bytes);
    run->blas.room_bytes = 0; /* setting the stream resets it */
    run->stream = stream;
    eco_launch_serialize(&run->launch, ECO_SERIALIZED_OP);
    if (run->status == ECORNN_OK)
        run->status = ECO_CUBLAS(cublasSetStream(run->set->blas, stream));
}

/* ---- a share of the chip --------------------------------------------------------------------- */

/* The share of the chip for a product, in shares of its lane; 0: all. Measured on an H200. */
struct shares {
    int8_t step[2]; /* [forward, backward] */
    int8_t many;    /* for products over the rows of many steps */
};
static const struct shares of_16_bits = {{1, 1}, 2}, of_tf32 = {{0, 2}, 2}, of_f32 = {{2, 2}, 0};

/*
 * cuBLAS chooses kernels with as many blocks as there are multiprocessors. Products of several
 * lanes run concurrently only if each leaves room for the others.
 */
int eco_gpu_share(const struct eco_gpu_run *run, bool many_rows)
{
    const bool backward = run->args->backward, f32 = run->layout->type == ECORNN_F32;
    const bool at_once = eco_gpu_is_batched(run, backward ? ECO_D_STEP : ECO_STEP);
    const struct shares *of = !f32 ? &of_16_bits : run->problem->fast ? &of_tf32 : &of_f32;
    const int all = run->plan->device->caps.threads;
    if (run->launch.lanes <= 1 || at_once || run->layout->type == ECORNN_F64)
        return 0;
    const int share = (many_rows ? of->many : of->step[backward]) * all / run->launch.lanes;
    return share < all ? share : 0;
}

static void take_share(struct eco_gpu_run *run, int share)
{
    if (run->status != ECORNN_OK || share == run->blas.share)
        return;
    run->status = ECO_CUBLAS(cublasSetSmCountTarget(run->set->blas, share));
    run->blas.share = share;
}

/* ---- a product ------------------------------------------------------------------------------- */

/*
 * A float sum loses precision with the number of its terms.  So products in full F32 with at least
 * `from` terms are cut along k, and the sums of the pieces are added in C.  The first line whose
 * `rows` and `results` the product exceeds applies.  Products with fewer rows or results need no
 * cut, because cuBLAS splits their sums itself.  Measured on an H200.
 */
static const struct pieces {
    enum eco_product_kind kind;
    int32_t rows;
    double results;            /* elements of C */
    int32_t widest;            /* columns of C */
    int32_t from, least, most; /* terms; pieces; terms of one */
} pieces[] = {
    {ECO_NT, 256, 0, INT32_MAX, 256, 2, 512},       /* inputs */
    {ECO_NN, MANY_ROWS, 0, 64, 129, 1, 128},        /* dx of few columns */
    {ECO_NN, MANY_ROWS, 0, INT32_MAX, 257, 1, 256}, /* dx */
    {ECO_TN, 0, 2e6, INT32_MAX, 513, 1, 512},       /* gradients of large matrices */
    {ECO_TN, 0, 5e5, INT32_MAX, 3073, 1, 3072},     /* other gradients */
};

int32_t eco_gpu_piece(const struct eco_gpu_run *run, const struct eco_product *p)
{
    enum { MULTIPLE = 4 };
    const struct pieces *line = pieces, *const end = pieces + sizeof pieces / sizeof *pieces;
    if (run->layout->type != ECORNN_F32 || run->problem->fast)
        return p->k;
    while (line < end && (line->kind != p->kind || p->m <= line->rows || p->n > line->widest ||
                          (double)p->m * p->n < line->results))
        line++;
    if (line == end || p->k < line->from)
        return p->k;
    const int32_t needed = (p->k + line->most - 1) / line->most;
    const int32_t n = needed < line->least ? line->least : needed;
    const int32_t each = (p->k + n - 1) / n;
    return (each + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

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
    if (p->scaled == NULL && run->layout->type == ECORNN_F32 && has_some(run) &&
        splits(run->problem, p) &&
        eco_gpu_product_splitting(run, p,
                                  run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT))
        return;
    give_room(run, room_for(run, p));
    take_share(run, eco_gpu_share(run, p->m > MANY_ROWS || p->kind == ECO_TN));
    if (run->status != ECORNN_OK)
        return;
    eco_launch_concurrent(&run->launch);
    run->status = ECO_CUBLAS(cublasSetPointerMode(run->set->blas, factors.mode));
    if (run->status == ECORNN_OK)
        run->status = ECO_CUBLAS(cublasSetMathMode(run->set->blas, math_of(p)));
    if (run->status != ECORNN_OK)
        return;
    run->status = eco_cublas_status(
        cublasGemmEx(run->set->blas, p->kind == ECO_NT ? CUBLAS_OP_T : CUBLAS_OP_N,
                     p->kind == ECO_TN ? CUBLAS_OP_T : CUBLAS_OP_N, p->n, p->m, p->k, factors.alpha,
                     p->b, type, (int)p->b_row, p->a, type, (int)p->a_row, factors.beta, p->c,
                     eco_gpu_cuda_type(p->c_type), (int)p->c_row,
                     eco_gpu_compute_type(run->problem, p->scaled), CUBLAS_GEMM_DEFAULT),
        "a product");
}

struct eco_product eco_gpu_product_after(const struct eco_gpu_run *run, const struct eco_product *p,
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

bool eco_gpu_product_cublas(struct eco_gpu_run *run, const struct eco_product *p)
{
    const int32_t most = p->piece > 0 ? p->piece : eco_gpu_piece(run, p);
    struct eco_product rest = *p;
    while (rest.k > most) {
        struct eco_product piece = rest;
        piece.k = most;
        multiply_whole(run, &piece);
        rest = eco_gpu_product_after(run, &rest, most);
    }
    multiply_whole(run, &rest);
    return true;
}
