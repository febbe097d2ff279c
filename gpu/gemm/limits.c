/* What a product gets through cuBLAS: types, room, a share of the chip, and its pieces along k. */
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
        return p->m <= ECO_MANY_ROWS && p->k > p->n;
    return p->m <= ECO_MANY_ROWS || p->kind == ECO_NN;
}

/* Is there room for those kernels, at any alignment? */
static bool has_more(const struct eco_gpu_run *run)
{
    return run->layout->request.gpu.product_bytes >= ECO_SPLITTING_BYTES + ECO_ROOM_ALIGNMENT;
}

/* The operands of a product in F16 follow this part of the room. */
size_t eco_gpu_room_of_many(const struct eco_gpu_run *run, const struct eco_scaled_f16 *scaled)
{
    if (scaled != NULL)
        return eco_scaled_f16_room(run->problem);
    return has_more(run)
               ? (size_t)ECO_ROOM_OF_MANY
               : run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT - run->blas.lent;
}

bool eco_gpu_has_some_room(const struct eco_gpu_run *run, const struct eco_product *p)
{
    return p->scaled == NULL && run->layout->type == ECORNN_F32 &&
           run->layout->request.gpu.steps_exchange && !has_more(run) && splits(run->problem, p);
}

size_t eco_gpu_room_for(const struct eco_gpu_run *run, const struct eco_product *p)
{
    return p->scaled == NULL && has_more(run) && splits(run->problem, p)
               ? ECO_SPLITTING_BYTES
               : eco_gpu_room_of_many(run, p->scaled);
}

/* Every lane has room of its own: what a graph keeps must not be overwritten by another run. */
void *eco_gpu_room(const struct eco_gpu_run *run, const struct eco_op *op, size_t *bytes)
{
    const uintptr_t at =
        (uintptr_t)eco_bind_array(run->layout, run->args, op, ECO_INNER_PRODUCT, 0).first;
    const uintptr_t aligned =
        (at + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT * ECO_ROOM_ALIGNMENT;
    *bytes = run->layout->request.gpu.product_bytes - (aligned - at);
    return (void *)aligned;
}

void eco_gpu_point_at_stream(struct eco_gpu_run *run, const struct eco_op *op, cudaStream_t stream)
{
    size_t bytes;
    run->blas.room = eco_gpu_room(run, op, &bytes);
    run->blas.lent = 0;
    run->blas.room_bytes = 0; /* setting the stream forgets it */
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
    if (run->launch.lanes <= 1 || at_once || run->layout->type == ECORNN_F64 ||
        run->problem->row_invariant)
        return 0;
    const int share = (many_rows ? of->many : of->step[backward]) * all / run->launch.lanes;
    return share < all ? share : 0;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/*
 * A float sum loses precision with the number of its terms.  So products in full F32 with at
 * least `from` terms are cut along k, and the sums of the pieces are added in C.  The first
 * line whose `rows` and `results` the product exceeds applies.  Products with fewer rows or
 * results need no cut, because cuBLAS splits their sums itself.  Measured on an H200.
 */
static const struct pieces {
    enum eco_product_kind kind;
    int32_t rows;
    double results;            /* elements of C */
    int32_t widest;            /* columns of C */
    int32_t from, least, most; /* terms; pieces; terms of one */
} pieces[] = {
    {ECO_NT, 256, 0, INT32_MAX, 256, 2, 512},           /* inputs */
    {ECO_NN, ECO_MANY_ROWS, 0, 64, 129, 1, 128},        /* dx of few columns */
    {ECO_NN, ECO_MANY_ROWS, 0, INT32_MAX, 257, 1, 256}, /* dx */
    {ECO_TN, 0, 2e6, INT32_MAX, 513, 1, 512},           /* gradients of large matrices */
    {ECO_TN, 0, 5e5, INT32_MAX, 3073, 1, 3072},         /* other gradients */
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
