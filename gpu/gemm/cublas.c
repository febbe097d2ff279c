/* Products through cuBLAS, some of them in pieces along k. */
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"

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
    if (eco_gpu_has_some_room(run, p) &&
        eco_gpu_product_splitting(run, p,
                                  run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT))
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
